// model_config.h: config.json of a checkpoint. Every getter checks the type and names the field.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

// An object of config.json. A field that is null counts as absent.
class ModelConfig {
 public:
  // Reads a file of at most 16 MiB.
  static ModelConfig open(const std::filesystem::path& path);
  static ModelConfig parse(std::string_view text, std::string name);

  bool has(std::string_view field) const;
  bool is_text(std::string_view field) const;
  int64_t integer(std::string_view field) const;
  int64_t integer(std::string_view field, int64_t otherwise) const;
  // A size: a whole number from 1 to 2^31 - 1.
  int64_t size(std::string_view field) const;
  int64_t size(std::string_view field, int64_t otherwise) const;
  float number(std::string_view field) const;
  float number(std::string_view field, float otherwise) const;
  bool flag(std::string_view field, bool otherwise) const;
  std::string text(std::string_view field) const;
  std::string text(std::string_view field, std::string_view otherwise) const;
  std::vector<std::string> texts(std::string_view field) const;
  std::vector<int64_t> integers(std::string_view field) const;  // also of a single number
  std::vector<float> numbers(std::string_view field) const;     // also of a single number
  // A nested object. Empty if it is absent.
  ModelConfig object(std::string_view field) const;
  bool empty() const;

  // The object that describes the decoder: text_config if there is one, otherwise all.
  ModelConfig decoder() const;
  // The same with fields that it leaves out; defaults: the text of a JSON object.
  ModelConfig with_defaults(std::string_view defaults) const;
  std::string dump() const;
  // The same text with this dtype in every place that states one.
  std::string dump_with_dtype(std::string_view dtype) const;
  [[noreturn]] void fail(std::string_view field, const std::string& what) const;

 private:
  ModelConfig(std::shared_ptr<const nlohmann::json> root, const nlohmann::json* at,
              std::string name)
      : root_(std::move(root)), at_(at), name_(std::move(name)) {}
  const nlohmann::json* find(std::string_view field) const;
  const nlohmann::json& need(std::string_view field) const;

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* at_ = nullptr;  // in root_
  std::string name_;                    // "config.json" and the path in it
};

}  // namespace lm
