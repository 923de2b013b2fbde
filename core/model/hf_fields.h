// Typed access to the fields of a Hugging Face config.
#pragma once

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/model/dtype.h"
#include "core/model/json.h"

namespace quire {

// Typed access to the fields of a config. The first failure is kept in `status` and harmless values are returned afterwards, so that
// readers can ask for all they need and check once, before they build anything.
class Fields {
 public:
  // source: stands in front of every message; defaults: an object of what is assumed where `text`
  // leaves a field out.
  Fields(const Json& root, const Json& text, const char* source = "config: ",  //
         const Json* defaults = nullptr)
      : root_(root), text_(text), source_(source), defaults_(defaults) {}

  Status status;

  // The field in the text config, or what is assumed for it; null, like absence, is nullptr.
  const Json* find(const char* key) const {
    const Json* found = find_stated(key);
    return found != nullptr ? found : assumed(key);
  }
  const Json* find_stated(const char* key) const {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
    return at(key);
  }
  // Whether a reader asked for the field; what it says is left alone.
  bool asked(std::string_view key) const {  //
    return std::find(asked_.begin(), asked_.end(), key) != asked_.end();
  }
  void ask(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) (void)find_stated(key);
  }
  bool has(const char* key) const { return find(key) != nullptr; }
  // A field inside others, with points between the names: of the text config, else of the whole. Null, like absence, is nullptr.
  const Json* inside(std::string_view path) const {
    for (const Json* object : {&text_, &root_}) {
      const Json* found = object;
      for (size_t from = 0; found != nullptr && from <= path.size();) {
        const size_t point = std::min(path.size(), path.find('.', from));
        found = found->find(path.substr(from, point - from));
        from = point + 1;
      }
      if (found != nullptr && !found->is_null()) return found;
    }
    return nullptr;
  }
  uint64_t need_at(const char* path, uint64_t limit) {
    const Json* value = inside(path);
    if (value != nullptr) return number(*value, path, 1, limit);
    refuse(invalid("%s%s is missing; must be 1..%" PRIu64, source_, path, limit));
    return 1;
  }
  // What one layer states stands before what all do; nullptr: nothing.
  void at_layer(const Json* overrides) { layer_ = overrides; }
  // The first of several names, between spaces, that the config states; else that is assumed; the
  // very first where neither is so.
  std::string spelled(const char* names) const {
    const std::string all = names;
    for (const bool stated : {true, false}) {
      const auto after = [&](size_t at) { return std::min(all.size(), all.find(' ', at)); };
      for (size_t at = 0; at < all.size(); at = all.find_first_not_of(' ', after(at))) {
        std::string name = all.substr(at, all.find(' ', at) - at);
        const bool nested = name.find('.') != std::string::npos;
        const char* const key = name.c_str();
        const Json* const value = nested ? inside(name) : stated ? find_stated(key) : find(key);
        if (value != nullptr) return name;
      }
    }
    return all.substr(0, all.find(' '));
  }
  // The same names for a message.
  static std::string joined(const char* names) {
    std::string all = names;
    for (size_t at = all.find(' '); at != std::string::npos; at = all.find(' ', at + 4)) all.replace(at, 1, " or ");
    return all;
  }
  // Null says something that absence leaves to the default of a class.
  bool stated(const char* key) const { return text_.contains(key); }
  void need_stated(const char* key, const char* must) {
    if (!stated(key) && assumed(key) == nullptr)
      refuse(invalid("%s%s is missing; must be %s",  //
                     source_, key, must));
  }

  uint64_t need(const char* key, uint64_t limit) {
    const Json* value = find(key);
    if (value == nullptr) {
      refuse(invalid("%s%s is missing; must be 1..%" PRIu64, source_, key, limit));
      return 1;
    }
    return number(*value, key, 1, limit);
  }
  uint64_t get(const char* key, uint64_t fallback, uint64_t low, uint64_t limit) {
    const Json* value = find(key);
    return value == nullptr ? fallback : number(*value, key, low, limit);
  }
  bool flag(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(invalid("%s%s = %.64s; must be true or false", source_, key, shown(*value).c_str()));
    return value->is_true();
  }
  float real(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return 0;
    const double x = value->real(-1);
    if (x >= 0 && x < 1e30) return static_cast<float>(x);
    refuse(invalid("%s%s = %.64s; must be a number from 0 to 1e30", source_, key, shown(*value).c_str()));
    return 0;
  }
  // Array of exactly `count` elements, or nullptr.
  const Json* list(const char* key, uint64_t count) {
    const Json* value = find(key);
    if (value != nullptr && value->is_array() && value->size() == count) return value;
    if (value == nullptr) {
      refuse(invalid("%s%s is missing; must be a list of %" PRIu64, source_, key, count));
    } else if (value->is_array()) {
      refuse(invalid("%s%s must be a list of %" PRIu64 ", has %zu", source_, key, count, value->size()));
    } else {
      refuse(invalid("%s%s = %.64s; must be a list of %" PRIu64, source_, key, shown(*value).c_str(), count));
    }
    return nullptr;
  }
  quire_dtype dtype(std::initializer_list<const char*> keys, quire_dtype fallback) {
    for (const char* key : keys) {
      const Json* value = find(key);
      if (value == nullptr) continue;
      const std::string name = value->is_string() ? value->string() : "";
      if (name == "bfloat16") return kBFloat16;
      if (name == "float16") return kFloat16;
      if (name == "float32") return kFloat32;
      if (name == "float8_e4m3fn") return {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
      if (name == "float8_e5m2") return {QUIRE_DTYPE_FLOAT8_E5M2, 8, 1};
      if (name == "auto") return fallback;
      refuse(fail(QUIRE_UNIMPLEMENTED, "%s%s = %.64s; known are bfloat16, float16, float32, float8_e4m3fn, float8_e5m2", source_, key,
                  shown(*value).c_str()));
      return fallback;
    }
    return fallback;
  }
  uint64_t number(const Json& value, const char* key, uint64_t low, uint64_t limit) {
    if (value.is_unsigned() && value.number() >= low && value.number() <= limit) return value.number();
    refuse(invalid("%s%s = %.64s; must be a whole number %" PRIu64 "..%" PRIu64, source_, key, shown(value).c_str(), low, limit));
    return low == 0 ? 1 : low;
  }
  void refuse(Status failure) {
    if (status.ok()) status = std::move(failure);
  }
  static std::string shown(const Json& value) {
    if (value.is_array()) return "[...]";
    if (value.is_object()) return "{...}";
    return value.text();
  }

  // What was assumed so far, "field = value" in the order of use.
  const std::vector<std::string>& all_assumed() const { return used_; }

  // What a config around a text model says of it as well. Other fields there are of the parts around: their heads, their widths.
  static bool of_whole(std::string_view key) {
    return key == "dtype" || key == "torch_dtype" || key == "quantization_config" || key == "per_layer_config" || key == "mtp_config" ||
           key == "num_nextn_predict_layers";
  }

 private:
  const Json* at(const char* key) const {
    if (layer_ != nullptr && layer_->contains(key))  //
      return (*layer_)[key].is_null() ? nullptr : layer_->find(key);
    for (const Json* object : {&text_, &root_}) {
      if (object != &text_ && !of_whole(key)) break;
      const Json* found = object->find(key);
      if (found != nullptr && !found->is_null()) return found;
    }
    return nullptr;
  }
  const Json* assumed(const char* key) const {
    const bool lacks = defaults_ != nullptr && !text_.contains(key);
    const Json* found = lacks ? defaults_->find(key) : nullptr;
    if (found == nullptr) return nullptr;
    std::string use = std::string(key) + " = " + shown(*found);
    if (std::find(used_.begin(), used_.end(), use) == used_.end()) used_.push_back(std::move(use));
    return found;
  }

  const Json& root_;
  const Json& text_;
  const Json* layer_ = nullptr;
  const char* source_;
  const Json* defaults_;
  mutable std::vector<std::string> used_;
  mutable std::vector<std::string> asked_;
};

}  // namespace quire
