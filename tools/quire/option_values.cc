#include "quire/option_values.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <optional>

namespace quire::tools {
namespace {

constexpr uint64_t kMaxBytes = (uint64_t{1} << 63) - 1;

std::optional<uint64_t> number_in(const std::string& text, uint64_t low, uint64_t high) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || value < low || value > high) return std::nullopt;
  return value;
}

std::string must_be(const std::string& text, uint64_t low, uint64_t high) {
  return "'" + text + "'; must be a whole number " + std::to_string(low) + ".." + std::to_string(high);
}

}  // namespace

CLI::Validator whole(uint64_t low, uint64_t high) {
  return {[low, high](std::string& text) { return number_in(text, low, high) ? std::string() : must_be(text, low, high); },
          std::to_string(low) + ".." + std::to_string(high)};
}

CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? std::string("''; must be at least one character") : std::string(); }, ""};
}

std::vector<std::string> list_of(const std::string& option, const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == ',') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  for (const std::string& item : out) {
    if (item.empty()) throw CLI::ValidationError(option, "'" + text + "'; must be values with commas between them, none empty");
  }
  return out;
}

std::vector<uint32_t> numbers_of(const std::string& option, const std::string& text, uint32_t low, uint32_t high) {
  std::vector<uint32_t> out;
  for (const std::string& item : list_of(option, text)) {
    const auto value = number_in(item, low, high);
    if (!value) throw CLI::ValidationError(option, must_be(item, low, high));
    out.push_back(static_cast<uint32_t>(*value));
  }
  return out;
}

std::vector<uint64_t> sizes_of(const std::string& option, const std::string& text) {
  static const CLI::AsSizeValue in_bytes(true);
  std::vector<uint64_t> out;
  for (const std::string& item : list_of(option, text)) {
    std::string bytes = item;
    std::optional<uint64_t> value;
    // A digit first: signs would wrap, and AsSizeValue takes them. It throws for some texts and returns a sentence for others.
    try {
      if (item[0] >= '0' && item[0] <= '9' && in_bytes(bytes).empty()) value = number_in(bytes, 1, kMaxBytes);
    } catch (const CLI::ValidationError&) {
      value.reset();
    }
    // Digits alone that pass 64 bits are cut by AsSizeValue.
    if (item.find_first_not_of("0123456789") == std::string::npos) value = number_in(item, 1, kMaxBytes);
    if (!value) {
      throw CLI::ValidationError(option, "'" + item + "'; must be 1.." + std::to_string(kMaxBytes) +
                                             " bytes, a whole number with or without a unit such as 80GiB");
    }
    out.push_back(*value);
  }
  return out;
}

}  // namespace quire::tools
