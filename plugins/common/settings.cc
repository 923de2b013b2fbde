#include "plugins/common/settings.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace quire::plugins {
namespace {

using Library = nlohmann::json;

constexpr size_t kMaxTextBytes = 65536;
constexpr size_t kShownBytes = 60;  // of a value in a message

std::string shown(const std::string& value) { return value.size() <= kShownBytes ? value : value.substr(0, kShownBytes) + "..."; }

// With what is not printable written as \u00XX, and what is no UTF-8 replaced.
std::string in_quotes(std::string_view text) {
  const std::string clipped(text.substr(0, kShownBytes));
  return Library(clipped).dump(-1, ' ', true, Library::error_handler_t::replace) + (text.size() > kShownBytes ? "..." : "");
}

// 0 = no unit of that name.
uint64_t unit_of(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    uint64_t bytes;
  } kUnits[] = {
      {"B", 1},      {"KiB", uint64_t{1} << 10}, {"MiB", uint64_t{1} << 20}, {"GiB", uint64_t{1} << 30}, {"TiB", uint64_t{1} << 40},
      {"KB", 1'000}, {"MB", 1'000'000},          {"GB", 1'000'000'000},      {"TB", 1'000'000'000'000}};
  for (const auto& unit : kUnits) {
    if (unit.name == name) return unit.bytes;
  }
  return 0;
}

// "2GiB" or "2 GiB" -> bytes. Nothing wraps.
std::optional<uint64_t> size_of(std::string_view text) {
  uint64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  const uint64_t unit = unit_of(text);
  if (unit == 0 || count > UINT64_MAX / unit) return std::nullopt;
  return count * unit;
}

std::string range(uint64_t low, uint64_t high) { return std::to_string(low) + " to " + std::to_string(high); }

}  // namespace

// What the library's parser calls. Returning false ends it.
class Settings::Reader {
 public:
  explicit Reader(Settings* settings) : settings_(*settings) {}

  bool null() { return put(Kind::kOther, "null"); }
  bool boolean(bool value) {
    if (!put(Kind::kFlag, value ? "true" : "false")) return false;
    settings_.fields_.back().flag = value;
    return true;
  }
  bool number_integer(int64_t value) { return put(Kind::kOther, std::to_string(value)); }  // negative
  bool number_unsigned(uint64_t value) {
    if (!put(Kind::kNumber, std::to_string(value))) return false;
    settings_.fields_.back().number = value;
    return true;
  }
  bool number_float(double /*value*/, const std::string& text) { return put(Kind::kOther, shown(text)); }  // or beyond 64 bits
  bool string(std::string& value) {
    if (!put(Kind::kText, in_quotes(value))) return false;
    settings_.fields_.back().text = std::move(value);
    return true;
  }
  bool binary(Library::binary_t& /*value*/) { return refuse("config has binary data"); }
  bool start_object(size_t /*size*/) {
    if (inside_) return refuse("config field " + name_ + " is an object; fields are numbers, texts and flags");
    return inside_ = true;
  }
  bool start_array(size_t /*size*/) {
    if (!inside_) return refuse("config is an array, it must be a JSON object");
    return refuse("config field " + name_ + " is an array; fields are numbers, texts and flags");
  }
  bool key(std::string& name) {
    name_ = in_quotes(name);
    if (settings_.has(name)) return refuse("config has the field " + name_ + " twice");
    settings_.fields_.push_back({std::move(name), Kind::kOther, 0, false, "", ""});
    return true;
  }
  bool end_object() { return true; }
  bool end_array() { return true; }
  bool parse_error(size_t at, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    // Numbers beyond the range of a double, the only error that is not of syntax.
    if (dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr) {
      return refuse("config field " + name_ + " is a number beyond 64 bits");
    }
    return refuse("config is no JSON: error at byte " + std::to_string(at));
  }

 private:
  bool refuse(std::string sentence) {
    settings_.refuse(std::move(sentence));
    return false;
  }
  bool put(Kind kind, std::string written) {
    if (!inside_) return refuse("config is " + written + ", it must be a JSON object");
    settings_.fields_.back().kind = kind;
    settings_.fields_.back().written = std::move(written);
    return true;
  }

  Settings& settings_;
  std::string name_;  // of the field that is read, quoted
  bool inside_ = false;
};

Settings::Settings(std::string_view json) {
  if (json.empty()) return;
  if (json.size() > kMaxTextBytes) {
    refuse("config has " + std::to_string(json.size()) + " bytes, at most " + std::to_string(kMaxTextBytes));
    return;
  }
  Reader reader(this);
  if (!Library::sax_parse(json.begin(), json.end(), &reader)) refuse("config is no JSON");
}

const Settings::Field* Settings::find(std::string_view name) const {
  const auto at = std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
  return at != fields_.end() ? &*at : nullptr;
}

const Settings::Field* Settings::ask(std::string_view name) {
  asked_.emplace_back(name);
  return find(name);
}

void Settings::refuse(std::string sentence) {
  if (error_.empty()) error_ = std::move(sentence);
}

void Settings::require(std::string_view name, std::string_view what) {
  if (find(name) == nullptr && missing_.empty()) missing_ = "config field " + std::string(name) + " is missing: " + std::string(what);
}

void Settings::wrong(const Field& field, const std::string& legal) {
  refuse("config field " + field.name + " is " + field.written + ", it must be " + legal);
}

uint64_t Settings::checked(const Field& field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return value;
  wrong(field, range(low, high));
  return low;
}

uint64_t Settings::number(std::string_view name, uint64_t low, uint64_t high, uint64_t absent) {
  const Field* field = ask(name);
  if (field == nullptr) return absent;
  if (field->kind == Kind::kNumber) return checked(*field, field->number, low, high);
  wrong(*field, "a whole number, " + range(low, high));
  return low;
}

uint64_t Settings::size(std::string_view name, uint64_t low, uint64_t high, uint64_t absent) {
  const Field* field = ask(name);
  if (field == nullptr) return absent;
  if (field->kind == Kind::kNumber) return checked(*field, field->number, low, high);
  const auto bytes = field->kind == Kind::kText ? size_of(field->text) : std::nullopt;
  if (bytes) return checked(*field, *bytes, low, high);
  wrong(*field, "a whole number of bytes or a text such as \"2GiB\", " + range(low, high) + " bytes");
  return low;
}

bool Settings::flag(std::string_view name, bool absent) {
  const Field* field = ask(name);
  if (field == nullptr) return absent;
  if (field->kind != Kind::kFlag) wrong(*field, "true or false");
  return field->flag;
}

std::string Settings::text(std::string_view name, std::string_view absent) {
  const Field* field = ask(name);
  if (field == nullptr) return std::string(absent);
  if (field->kind != Kind::kText) wrong(*field, "a text");
  return field->text;
}

const std::string& Settings::finish() {
  for (const Field& field : fields_) {
    if (std::find(asked_.begin(), asked_.end(), field.name) != asked_.end()) continue;
    std::string known;
    for (const std::string& name : asked_) known += (known.empty() ? "" : ", ") + name;
    refuse("config has an unknown field " + in_quotes(field.name) + "; known: " + known);
  }
  if (!missing_.empty()) refuse(missing_);
  return error_;
}

}  // namespace quire::plugins
