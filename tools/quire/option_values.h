// Values of options: what is not within the limits is refused with the option, its value and the
// limits.
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
// "80GiB,1.5G" -> bytes; GiB is 2^30, GB and G are 10^9. Throws CLI::ValidationError.
std::vector<uint64_t> sizes_of(const std::string& option, const std::string& text);
// Values with commas, and ranges: "1GiB,10GiB..80GiB:8" has eight values from 10 to 80 GiB. In
// ascending order, each once. Throws CLI::ValidationError.
std::vector<uint64_t> points_of(const std::string& option, const std::string& text, uint64_t low, uint64_t high);

}  // namespace quire::tools
