// Values of options: what is not within the limits is refused with the option, its value and the limits.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace quire::tools {

// A whole number low..high; nothing wraps or is rounded.
CLI::Validator whole(uint64_t low, uint64_t high);
// Text that is there.
CLI::Validator not_empty();
// "8,7" -> {8, 7}; none is empty. Throws CLI::ValidationError.
std::vector<std::string> list_of(const std::string& option, const std::string& text);
std::vector<uint32_t> numbers_of(const std::string& option, const std::string& text, uint32_t low, uint32_t high);
// "80GiB,64GiB" -> bytes. Throws CLI::ValidationError.
std::vector<uint64_t> sizes_of(const std::string& option, const std::string& text);

}  // namespace quire::tools
