#include "client/client.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace quire::client {

Failure::Failure(quire_code code, const std::string& message)
    : std::runtime_error(to_string(quire_code_name(code)) + ": " + message), code_(code) {}

Error::Error() : quire_error{} {
  struct_size = sizeof(quire_error);
  code = QUIRE_OK;
  native_code = native_domain = 0;
}

void check(quire_code code, const quire_error& error) {
  if (code != QUIRE_OK) throw Failure(code, error.message);
}

quire_str to_str(std::string_view text) { return {text.data(), text.size()}; }

std::string to_string(quire_str text) { return text.data == nullptr ? std::string() : std::string(text.data, text.len); }

std::string read_file(const std::string& path, uint64_t limit) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw std::runtime_error("cannot read '" + path + "': it is a folder");
  std::ifstream in(path, std::ios::binary);
  std::string text;
  // Devices and pipes do not say how much they hold, and some never end.
  for (std::vector<char> part(1 << 16); in && text.size() <= limit;) {
    in.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part.data(), static_cast<size_t>(in.gcount()));
  }
  if (text.size() > limit) throw std::runtime_error("cannot read '" + path + "': it has more than " + std::to_string(limit) + " bytes");
  if (!in.is_open() || in.bad()) throw std::runtime_error("cannot read '" + path + "': " + std::strerror(errno));
  return text;
}

KvType kv_type_of(const std::string& name) {
  struct Named {
    const char* name;
    KvType type;
  };
  static constexpr quire_dtype kFp8{QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
  static constexpr quire_dtype kInt8{QUIRE_DTYPE_INT, 8, 1};
  static constexpr quire_dtype kFp4{QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
  static constexpr Named kNamed[] = {{"", {{0, 0, 0}, 0}},
                                     {"bf16", {{QUIRE_DTYPE_BFLOAT, 16, 1}, 0}},
                                     {"fp16", {{QUIRE_DTYPE_FLOAT, 16, 1}, 0}},
                                     {"fp32", {{QUIRE_DTYPE_FLOAT, 32, 1}, 0}},
                                     {"fp8", {kFp8, 0}},
                                     {"fp8_e4m3", {kFp8, 0}},
                                     {"fp8_e5m2", {{QUIRE_DTYPE_FLOAT8_E5M2, 8, 1}, 0}},
                                     {"int8", {kInt8, 0}},
                                     {"fp8_per_token_head", {kFp8, QUIRE_KV_SCALES_ROW}},
                                     {"int8_per_token_head", {kInt8, QUIRE_KV_SCALES_ROW}},
                                     {"int4_per_token_head", {{QUIRE_DTYPE_INT, 4, 1}, QUIRE_KV_SCALES_ROW}},
                                     {"fp4", {kFp4, QUIRE_KV_SCALES_16}},
                                     {"nvfp4", {kFp4, QUIRE_KV_SCALES_16}}};
  std::string known;
  for (const Named& named : kNamed) {
    if (name == named.name) return named.type;
    known += (known.empty() ? "" : ", ") + std::string(named.name);
  }
  throw std::invalid_argument("kv dtype '" + name + "' is unknown: " + known);
}

quire_dtype dtype_of(const std::string& name) { return kv_type_of(name).dtype; }

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %s", value, kUnits[unit]);
  return text;
}

Runtime open_runtime(const std::string& driver) {
  auto options = sized<quire_runtime_options>();
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = to_str(driver);
  quire_runtime* runtime = nullptr;
  Error error;
  check(quire_runtime_create(&options, &runtime, &error), error);
  return Runtime(runtime);
}

// Python writes numbers that JSON does not have; as words they are kept, and no field that counts may be one.
std::string with_words(const std::string& text) {
  std::string out;
  bool quoted = false;
  for (size_t at = 0; at < text.size();) {
    const size_t sign = text[at] == '-' ? 1 : 0;
    const char* word = text.compare(at + sign, 8, "Infinity") == 0 ? "Infinity" : text.compare(at, 3, "NaN") == 0 ? "NaN" : nullptr;
    if (!quoted && word != nullptr) {
      out += '"' + std::string(word) + '"';
      at += sign + std::string(word).size();
      continue;
    }
    if (text[at] == '"') quoted = !quoted;
    if (text[at] == '\\' && quoted && at + 1 < text.size()) out += text[at++];
    out += text[at++];
  }
  return out;
}

bool nests_too_deep(const std::string& json) {
  constexpr int kMostNested = 64;
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
    if (depth > kMostNested) return true;
  }
  return false;
}

bool is_layer_file(const std::string& json) { return json.find("\"specs\"") != std::string::npos; }  // no config has such a field

namespace {

using OrderedJson = nlohmann::ordered_json;

// Whether a quantization_config, or an hf_quant_config.json, says how keys and values are kept.
bool says_kv(const OrderedJson& quantised) {
  if (!quantised.is_object()) return false;
  for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo"}) {
    if (quantised.contains(key) && !quantised[key].is_null()) return true;
  }
  return quantised.contains("quantization") && says_kv(quantised["quantization"]);
}

// What the file says of keys and values counts where the config says nothing of them.
void add_quantisation(const OrderedJson& quant, OrderedJson* config) {
  const bool nested = config->contains("text_config") && (*config)["text_config"].is_object() &&
                      (*config)["text_config"].contains("quantization_config") &&
                      !(*config)["text_config"]["quantization_config"].is_null();
  OrderedJson& quantised = nested ? (*config)["text_config"]["quantization_config"] : (*config)["quantization_config"];
  if (quantised.is_null()) {
    quantised = quant;
  } else if (quantised.is_object() && !says_kv(quantised) && says_kv(quant)) {
    for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo", "quantization", "producer"}) {
      if (quant.contains(key)) quantised[key] = quant[key];
    }
  }
}

}  // namespace

std::string read_model_text(const std::string& path, const std::string& as) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const bool named = !folder && std::filesystem::path(path).filename() == "config.json";  // what stands next to it is of the same model
  const std::string base = folder ? path + "/" : named ? path.substr(0, path.size() - std::string("config.json").size()) : "";
  if (folder && !std::filesystem::exists(base + "config.json", ignored)) {
    throw std::runtime_error("cannot read '" + path + "': it is a folder without config.json");
  }
  std::string text = read_file(folder ? base + "config.json" : path);
  const bool quantised = (folder || named) && std::filesystem::exists(base + "hf_quant_config.json", ignored);
  if (as.empty() && !quantised) return text;
  if (is_layer_file(text) && as.empty()) return text;
  if (is_layer_file(text)) throw std::invalid_argument("--as " + as + ": '" + path + "' is a layer file, which names no architecture");
  if (nests_too_deep(text)) return text;
  OrderedJson config = OrderedJson::parse(with_words(text), nullptr, false);
  if (!config.is_object()) return text;  // the library says what is wrong with it
  if (!as.empty()) config["architectures"] = OrderedJson::array({as});
  if (quantised) {
    const std::string other = read_file(base + "hf_quant_config.json");
    const OrderedJson quant = nests_too_deep(other) ? OrderedJson() : OrderedJson::parse(other, nullptr, false);
    if (!quant.is_object()) throw std::runtime_error("'" + base + "hf_quant_config.json' is no JSON object");
    add_quantisation(quant, &config);
  }
  return config.dump();
}

Model model_of_text(const std::string& json, const std::string& path) {
  if (json.empty()) throw std::runtime_error("'" + path + "' is empty; a config.json or a layer file is wanted");
  quire_model* model = nullptr;
  Error error;
  const bool layers = is_layer_file(json);
  check((layers ? quire_model_from_layers : quire_model_from_json)(to_str(json), &model, &error), error);
  return Model(model);
}

Model read_model(const std::string& path) { return model_of_text(read_model_text(path, ""), path); }

std::string describe(quire_model* model) {
  Error error;
  uint64_t count = 0;
  check(quire_model_describe(model, nullptr, 0, &count, &error), error);
  std::string text(count, '\0');
  check(quire_model_describe(model, text.data(), count, &count, &error), error);
  return text;
}

Config plan(quire_model* model, const quire_plan_options& options) {
  quire_config* config = nullptr;
  Error error;
  check(quire_config_create(model, &options, &config, &error), error);
  return Config(config);
}

}  // namespace quire::client
