// A JSON document as values. The JSON library parses it; its own values ask for memory when they are given back, which ends the process
// where there is none, and lose what they were building. Text, size and depth are limited by whoever parses (json_text.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace quire {

class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;                                                                       // in the order of keys
  using Value = std::variant<std::monostate, bool, uint64_t, int64_t, double, std::string, Array, Object>;  // int64_t: written with a minus

  Json();
  explicit Json(Value value);
  Json(Json&& other) noexcept;
  Json& operator=(Json&& other) noexcept;
  ~Json();

  bool is_null() const { return is<std::monostate>(); }
  bool is_boolean() const { return is<bool>(); }
  bool is_unsigned() const { return is<uint64_t>(); }
  bool is_string() const { return is<std::string>(); }
  bool is_array() const { return is<Array>(); }
  bool is_object() const { return is<Object>(); }
  bool is_true() const { return is_boolean() && boolean(); }
  bool is_text(std::string_view wanted) const { return is_string() && string() == wanted; }

  // Of values that are such.
  bool boolean() const { return std::get<bool>(value_); }
  uint64_t number() const { return std::get<uint64_t>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }
  const Array& array() const { return std::get<Array>(value_); }
  const Object& object() const { return std::get<Object>(value_); }
  Array& array() { return std::get<Array>(value_); }
  Object& object() { return std::get<Object>(value_); }
  // Any number; `fallback` where it is none.
  double real(double fallback) const;

  size_t size() const;  // of an array or object, else 0
  bool empty() const { return (is_array() || is_object()) && size() == 0; }
  const Json& operator[](size_t i) const { return array()[i]; }
  // nullptr where there is none, also of what is no object.
  const Json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  // Null where there is none.
  const Json& operator[](std::string_view key) const;

  // Compact JSON in ASCII; bytes that are no UTF-8 are replaced.
  std::string text() const;

 private:
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  void write(std::string* to) const;

  Value value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

// Here, where members are known.
inline Json::Json() = default;
inline Json::Json(Value value) : value_(std::move(value)) {}
inline Json::Json(Json&& other) noexcept = default;
inline Json& Json::operator=(Json&& other) noexcept = default;
inline Json::~Json() = default;
inline size_t Json::size() const { return is_array() ? array().size() : is_object() ? object().size() : 0; }

struct ParsedJson {
  Json root;
  std::optional<std::string> doubled;  // a key that an object has twice
  size_t error_at = 0;                 // byte, from 1; 0: no error
  bool too_large = false;              // the error: a number that no double holds
};
// Throws std::bad_alloc, and loses nothing then.
ParsedJson parse_json(std::string_view text);

}  // namespace quire
