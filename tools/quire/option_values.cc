#include "quire/option_values.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

namespace quire::tools {
namespace {

constexpr uint64_t kMaxBytes = (uint64_t{1} << 63) - 1;
constexpr uint64_t kMaxPoints = 1000;

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

// 1 for "" and "B", 2^30 for "GiB", 10^9 for "GB" and "G"; case does not matter. 0 = no unit.
uint64_t unit_of(const std::string& text) {
  static constexpr char kPrefixes[] = "kmgtp";
  std::string unit;
  for (const char c : text) unit += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.empty()) return 1;
  const bool binary = unit.size() == 2 && unit[1] == 'i';
  if (unit.size() > 2 || (unit.size() == 2 && !binary)) return 0;
  uint64_t value = 1;
  for (const char* prefix = kPrefixes; *prefix != 0; ++prefix) {
    value *= binary ? 1024 : 1000;
    if (unit[0] == *prefix) return value;
  }
  return 0;
}

// "1.5GiB" -> bytes; a part of a byte is left out. Nothing wraps.
std::optional<uint64_t> size_of(const std::string& text, uint64_t low, uint64_t high) {
  constexpr size_t kMostDigits = 19;  // of a number with its fraction: below 2^64
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string number = text.substr(0, end);
  const size_t point = std::min(number.find('.'), number.size());
  const std::string fraction = point < number.size() ? number.substr(point + 1) : "";
  const std::string digits = number.substr(0, point) + fraction;
  const uint64_t unit = unit_of(text.substr(end));
  if (unit == 1 && point < number.size()) return std::nullopt;  // a part of a byte
  if (unit == 0 || point == 0 || (point < number.size() && fraction.empty()) || digits.size() > kMostDigits) return std::nullopt;
  const auto all = number_in(digits, 0, UINT64_MAX);
  if (!all) return std::nullopt;  // a second point
  uint64_t tenths = 1;
  for (size_t i = 0; i < fraction.size(); ++i) tenths *= 10;
  const unsigned __int128 bytes = static_cast<unsigned __int128>(*all) * unit / tenths;
  if (bytes < low || bytes > high) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

uint64_t size_in(const std::string& option, const std::string& item, uint64_t low = 1, uint64_t high = kMaxBytes) {
  const auto value = size_of(item, low, high);
  if (value) return *value;
  throw CLI::ValidationError(option, "'" + item + "'; must be " + std::to_string(low) + ".." + std::to_string(high) +
                                         ", a number with or without a unit such as 80GiB or 1.5G; a fraction needs one");
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
  std::vector<uint64_t> out;
  for (const std::string& item : list_of(option, text)) out.push_back(size_in(option, item));
  return out;
}

std::vector<uint64_t> points_of(const std::string& option, const std::string& text, uint64_t low, uint64_t high) {
  std::vector<uint64_t> out;
  for (const std::string& item : list_of(option, text)) {
    const size_t dots = item.find("..");
    const size_t colon = item.find(':');
    if (dots == std::string::npos) {
      out.push_back(size_in(option, item, low, high));
      continue;
    }
    const auto count = colon == std::string::npos ? std::nullopt : number_in(item.substr(colon + 1), 2, kMaxPoints);
    if (!count || colon < dots) {
      throw CLI::ValidationError(option, "'" + item + "'; a range is FIRST..LAST:COUNT with a count of 2.." + std::to_string(kMaxPoints));
    }
    const uint64_t first = size_in(option, item.substr(0, dots), low, high);
    const uint64_t last = size_in(option, item.substr(dots + 2, colon - dots - 2), low, high);
    if (last < first) throw CLI::ValidationError(option, "'" + item + "'; the last must not be below the first");
    for (uint64_t i = 0; i < *count; ++i) {
      out.push_back(first + static_cast<uint64_t>(static_cast<unsigned __int128>(last - first) * i / (*count - 1)));
    }
  }
  if (out.size() > kMaxPoints) throw CLI::ValidationError(option, "more than " + std::to_string(kMaxPoints) + " values");
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace quire::tools
