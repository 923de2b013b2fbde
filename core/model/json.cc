#include "core/model/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace quire {
namespace {

using Library = nlohmann::json;

// What the library's parser calls.
class Builder {
 public:
  explicit Builder(ParsedJson* out) : out_(out) {}

  bool null() { return put(Json()); }
  bool boolean(bool value) { return put(Json(Json::Value(value))); }
  bool number_integer(int64_t value) { return put(Json(Json::Value(value))); }
  bool number_unsigned(uint64_t value) { return put(Json(Json::Value(value))); }
  bool number_float(double value, const std::string& /*text*/) { return put(Json(Json::Value(value))); }
  bool string(std::string& value) { return put(Json(Json::Value(std::move(value)))); }
  bool binary(Library::binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return open(Json(Json::Value(Json::Object()))); }
  bool start_array(size_t /*size*/) { return open(Json(Json::Value(Json::Array()))); }
  bool key(std::string& value) {
    open_.back()->object().push_back({std::move(value), Json()});
    return true;
  }
  bool end_object() {
    Json::Object& members = open_.back()->object();
    std::sort(members.begin(), members.end(), [](const Json::Member& a, const Json::Member& b) { return a.key < b.key; });
    const auto same = [](const Json::Member& a, const Json::Member& b) { return a.key == b.key; };
    const auto doubled = std::adjacent_find(members.begin(), members.end(), same);
    if (doubled != members.end() && !out_->doubled) out_->doubled = doubled->key;
    return end_array();
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t at, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    out_->error_at = std::max<size_t>(at, 1);
    out_->too_large = dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr;
    return false;
  }

 private:
  // Parents grow only while they are the last that is open: addresses in open_ hold.
  Json* place(Json value) {
    if (open_.empty()) return &(out_->root = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.array().emplace_back(std::move(value));
    return &(parent.object().back().value = std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(place(std::move(value)));
    return true;
  }

  ParsedJson* out_;
  std::vector<Json*> open_;
};

std::string quoted(const std::string& text) { return Library(text).dump(-1, ' ', true, Library::error_handler_t::replace); }

}  // namespace

double Json::real(double fallback) const {
  if (is<double>()) return std::get<double>(value_);
  if (is<int64_t>()) return static_cast<double>(std::get<int64_t>(value_));
  return is_unsigned() ? static_cast<double>(number()) : fallback;
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto at = std::lower_bound(object().begin(), object().end(), key, [](const Member& m, std::string_view k) { return m.key < k; });
  return at != object().end() && at->key == key ? &at->value : nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json nothing;
  const Json* found = find(key);
  return found != nullptr ? *found : nothing;
}

std::string Json::text() const {
  std::string out;
  write(&out);
  return out;
}

void Json::write(std::string* to) const {
  if (is_null()) *to += "null";
  if (is_boolean()) *to += boolean() ? "true" : "false";
  if (is_unsigned()) *to += std::to_string(number());
  if (is<int64_t>()) *to += std::to_string(std::get<int64_t>(value_));
  if (is<double>()) *to += Library(std::get<double>(value_)).dump();
  if (is_string()) *to += quoted(string());
  if (!is_array() && !is_object()) return;
  *to += is_array() ? '[' : '{';
  bool first = true;
  const auto next = [&] {
    if (!std::exchange(first, false)) *to += ',';
  };
  if (is_array()) {
    for (const Json& item : array()) next(), item.write(to);
  } else {
    for (const Member& member : object()) next(), *to += quoted(member.key) + ':', member.value.write(to);
  }
  *to += is_array() ? ']' : '}';
}

ParsedJson parse_json(std::string_view text) {
  ParsedJson out;
  Builder builder(&out);
  if (!Library::sax_parse(text.begin(), text.end(), &builder) && out.error_at == 0) out.error_at = 1;
  return out;
}

}  // namespace quire
