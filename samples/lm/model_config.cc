#include "model_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "foreign_json.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;

void set_dtype(json& object, const std::string& dtype) {
  for (const char* field : {"dtype", "torch_dtype"}) {
    if (object.contains(field)) object[field] = dtype;
  }
  for (auto& [name, value] : object.items()) {
    if (value.is_object() && name.ends_with("_config") && name != "quantization_config")
      set_dtype(value, dtype);
  }
}

// A number without an end, as a float can hold it.
constexpr const char* kEndless = "3e38";

// Python writes Infinity and NaN, which JSON has not.
std::string without_literals(std::string_view text) {
  constexpr std::pair<std::string_view, const char*> kLiterals[] = {{"Infinity", kEndless},
                                                                    {"NaN", "null"}};
  std::string plain;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto literal = std::find_if(
        std::begin(kLiterals), std::end(kLiterals),
        [&](const auto& known) { return !in_string && text.substr(i).starts_with(known.first); });
    if (literal != std::end(kLiterals)) {
      plain += literal->second;
      i += literal->first.size() - 1;
      continue;
    }
    plain += text[i];
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\' && i + 1 < text.size()) plain += text[++i];
  }
  return plain;
}

// transformers 5 writes {"__float__": "Infinity"} for the same.
void unwrap_floats(json& value, const std::string& name, int depth = 0) {
  if (depth > kMaxDepth)
    throw Error(name + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
  if (value.is_object() && value.size() == 1 && value.contains("__float__")) {
    const json tag = value["__float__"];
    if (tag == "Infinity") value = json::parse(kEndless);
    if (tag == "-Infinity") value = json::parse(std::string("-") + kEndless);
    if (tag == "NaN") value = nullptr;
    return;
  }
  if (!value.is_structured()) return;
  for (json& inner : value) unwrap_floats(inner, name, depth + 1);
}

}  // namespace

ModelConfig ModelConfig::open(const std::filesystem::path& path) {
  return parse(read_text(path, kMaxConfigBytes), path.string());
}

ModelConfig ModelConfig::parse(std::string_view text, std::string name) {
  auto root = std::make_shared<json>(parse_object(without_literals(text), name));
  unwrap_floats(*root, name);
  const json* at = root.get();
  return {std::move(root), at, std::move(name)};
}

const json* ModelConfig::find(std::string_view field) const {
  if (at_ == nullptr) return nullptr;
  const auto found = at_->find(field);
  return found == at_->end() || found->is_null() ? nullptr : &*found;
}

const json& ModelConfig::need(std::string_view field) const {
  const json* found = find(field);
  if (found == nullptr) throw Error(name_ + ": " + std::string(field) + " is absent");
  return *found;
}

void ModelConfig::fail(std::string_view field, const std::string& what) const {
  const json* found = find(field);
  const std::string value = found == nullptr ? "absent" : found->dump().substr(0, 80);
  throw Error(name_ + ": " + std::string(field) + " is " + value + ", " + what);
}

bool ModelConfig::has(std::string_view field) const { return find(field) != nullptr; }
bool ModelConfig::is_text(std::string_view field) const {
  return has(field) && need(field).is_string();
}

int64_t ModelConfig::integer(std::string_view field) const {
  const json& value = need(field);
  if (!value.is_number_integer()) fail(field, "must be a whole number");
  return value.get<int64_t>();
}
int64_t ModelConfig::integer(std::string_view field, int64_t otherwise) const {
  return has(field) ? integer(field) : otherwise;
}

int64_t ModelConfig::size(std::string_view field) const {
  const int64_t value = integer(field);
  if (value < 1 || value > std::numeric_limits<int32_t>::max())
    fail(field, "must be from 1 to 2147483647");
  return value;
}
int64_t ModelConfig::size(std::string_view field, int64_t otherwise) const {
  return has(field) ? size(field) : otherwise;
}

float ModelConfig::number(std::string_view field) const {
  const json& value = need(field);
  if (!value.is_number() || !std::isfinite(value.get<double>())) fail(field, "must be a number");
  return value.get<float>();
}
float ModelConfig::number(std::string_view field, float otherwise) const {
  return has(field) ? number(field) : otherwise;
}

bool ModelConfig::flag(std::string_view field, bool otherwise) const {
  if (!has(field)) return otherwise;
  if (!need(field).is_boolean()) fail(field, "must be true or false");
  return need(field).get<bool>();
}

std::string ModelConfig::text(std::string_view field) const {
  if (!need(field).is_string()) fail(field, "must be a string");
  return need(field).get<std::string>();
}
std::string ModelConfig::text(std::string_view field, std::string_view otherwise) const {
  return has(field) ? text(field) : std::string(otherwise);
}

std::vector<std::string> ModelConfig::texts(std::string_view field) const {
  std::vector<std::string> values;
  if (!need(field).is_array()) fail(field, "must be a list of strings");
  for (const json& value : need(field)) {
    if (!value.is_string()) fail(field, "must be a list of strings");
    values.push_back(value.get<std::string>());
  }
  return values;
}

std::vector<int64_t> ModelConfig::integers(std::string_view field) const {
  const json& list = need(field);
  if (list.is_number_integer()) return {list.get<int64_t>()};
  std::vector<int64_t> values;
  if (!list.is_array()) fail(field, "must be a list of whole numbers");
  for (const json& value : list) {
    if (!value.is_number_integer()) fail(field, "must be a list of whole numbers");
    values.push_back(value.get<int64_t>());
  }
  return values;
}

std::vector<float> ModelConfig::numbers(std::string_view field) const {
  const json& list = need(field);
  if (list.is_number()) return {list.get<float>()};
  std::vector<float> values;
  if (!list.is_array()) fail(field, "must be a list of numbers");
  for (const json& value : list) {
    if (!value.is_number()) fail(field, "must be a list of numbers");
    values.push_back(value.get<float>());
  }
  return values;
}

ModelConfig ModelConfig::object(std::string_view field) const {
  const json* found = find(field);
  if (found != nullptr && !found->is_object()) fail(field, "must be an object");
  return {root_, found, name_ + ": " + std::string(field)};
}

bool ModelConfig::empty() const { return at_ == nullptr || at_->empty(); }

ModelConfig ModelConfig::decoder() const {
  return has("text_config") ? object("text_config") : *this;
}

ModelConfig ModelConfig::with_defaults(std::string_view defaults) const {
  auto merged = std::make_shared<json>(json::parse(defaults));
  for (const auto& [field, value] : at_->items()) {
    if (!value.is_null()) (*merged)[field] = value;
  }
  const json* at = merged.get();
  return {std::move(merged), at, name_};
}

std::string ModelConfig::dump() const { return at_ == nullptr ? "{}" : at_->dump(); }

std::string ModelConfig::dump_with_dtype(std::string_view dtype) const {
  json copy = *at_;
  copy["dtype"] = dtype;
  set_dtype(copy, std::string(dtype));
  return copy.dump();
}

}  // namespace lm
