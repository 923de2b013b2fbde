// What all drawings share.
#pragma once

#include <string>

namespace quire::tools::svg {

// As printf; at most 511 bytes.
std::string print(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Text from outside: markup in it stays text, and what XML cannot hold becomes '?'.
std::string escaped(const std::string& text);

}  // namespace quire::tools::svg
