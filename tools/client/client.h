// What every tool needs over the C ABI: owning pointers, failures as exceptions, sizes as text.
#pragma once

#include <quire/quire.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace quire::client {

// A call of the library that failed; what() is "CODE: message".
class Failure : public std::runtime_error {
 public:
  Failure(quire_code code, const std::string& message);
  quire_code code() const { return code_; }

 private:
  quire_code code_;
};

// quire_error with struct_size set. Pass &error, then check(code, error).
struct Error : quire_error {
  Error();
};

void check(quire_code code, const quire_error& error);

template <auto kRelease>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

using Runtime = std::unique_ptr<quire_runtime, Release<quire_runtime_release>>;
using Device = std::unique_ptr<quire_device, Release<quire_device_release>>;
using Model = std::unique_ptr<quire_model, Release<quire_model_release>>;
using Config = std::unique_ptr<quire_config, Release<quire_config_release>>;
using Cache = std::unique_ptr<quire_cache, Release<quire_cache_release>>;

// A zeroed struct of the ABI with its struct_size set.
template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

quire_str to_str(std::string_view text);
std::string to_string(quire_str text);

// Whether brackets are nested deeper than 64, which the library refuses, too: what walks over such
// JSON would run out of stack.
bool nests_too_deep(const std::string& json);

// The library takes no larger config or layer file.
constexpr uint64_t kMostModelBytes = uint64_t{16} << 20;

// The whole file, of at most so many bytes. Throws std::runtime_error with path and reason.
std::string read_file(const std::string& path, uint64_t limit = kMostModelBytes);

// How a cache is stored: its type, and where its scales are (QUIRE_KV_SCALES_*).
struct KvType {
  quire_dtype dtype;
  int32_t scales;
};
// "bf16", "fp16", "fp32", "fp8" (e4m3), "fp8_e5m2", "int8", "fp8_per_token_head",
// "int8_per_token_head", "int4_per_token_head", "fp4" (with a scale for 16 elements); all zero for
// "". Throws std::invalid_argument with all of them.
KvType kv_type_of(const std::string& name);
quire_dtype dtype_of(const std::string& name);

// 1536 -> "1.50 KiB".
std::string bytes_text(uint64_t bytes);

Runtime open_runtime(const std::string& driver);
bool is_layer_file(const std::string& json);
// A Hugging Face config.json, or a layer file.
Model read_model(const std::string& path);
// JSON whose infinite numbers and NaN, which Python writes, are words.
std::string with_words(const std::string& text);
// The text of a config.json or layer file; of a folder, its config.json. What the
// hf_quant_config.json next to a config.json says of the cache counts where that says nothing. as:
// the architecture that a config is read
// as; empty = its own. Throws std::invalid_argument for a layer file with `as`.
std::string read_model_text(const std::string& path, const std::string& as);
Model model_of_text(const std::string& json, const std::string& path);
// The model as a table.
std::string describe(quire_model* model);
Config plan(quire_model* model, const quire_plan_options& options);

}  // namespace quire::client
