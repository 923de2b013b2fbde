// A small model with a token cache and a state, planned and opened (on the null driver unless told) through the exported functions only.
#pragma once

#include <gtest/gtest.h>
#include <quire/connector.h>
#include <quire/quire.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace quire::test {

inline quire_str text(const char* from) { return {from, std::strlen(from)}; }

struct Error : quire_error {
  // quire_error{} is all zeros.
  // NOLINTNEXTLINE(clang-analyzer-optin.cplusplus.UninitializedObject)
  Error() : quire_error{} { struct_size = sizeof(quire_error); }
};

// Expects a code and a part of the message.
#define EXPECT_FAILS(wanted, part, call)                                                                                      \
  do {                                                                                                                        \
    ::quire::test::Error quire_error_;                                                                                        \
    quire_error* err = &quire_error_;                                                                                         \
    EXPECT_EQ((call), wanted) << #call << ": " << quire_error_.message;                                                       \
    EXPECT_EQ(quire_error_.code, wanted) << #call;                                                                            \
    EXPECT_NE(std::string(quire_error_.message).find(part), std::string::npos) << #call << " says: " << quire_error_.message; \
  } while (false)

#define EXPECT_WORKS(call)                                                \
  do {                                                                    \
    ::quire::test::Error quire_error_;                                    \
    quire_error* err = &quire_error_;                                     \
    EXPECT_EQ((call), QUIRE_OK) << #call << ": " << quire_error_.message; \
    EXPECT_STREQ(quire_error_.message, "");                               \
  } while (false)

struct Release {
  void operator()(quire_runtime* h) const { quire_runtime_release(h); }
  void operator()(quire_model* h) const { quire_model_release(h); }
  void operator()(quire_config* h) const { quire_config_release(h); }
  void operator()(quire_cache* h) const { quire_cache_release(h); }
  void operator()(quire_follower* h) const { quire_follower_release(h); }
  void operator()(quire_device* h) const { quire_device_release(h); }
  void operator()(quire_stream* h) const { quire_stream_release(h); }
  void operator()(quire_memory* h) const { quire_memory_release(h); }
  void operator()(quire_buffer* h) const { quire_buffer_release(h); }
  void operator()(quire_connector* h) const { quire_connector_release(h); }
};
template <typename T>
using Owned = std::unique_ptr<T, Release>;

inline quire_layer attention_layer(uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_FULL;
  layer.layer = index;
  layer.num_kv_heads = 2;
  layer.num_q_heads = 4;
  layer.head_dim_k = 64;
  layer.head_dim_v = 32;
  layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
  return layer;
}

inline quire_layer state_layer(uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_STATE;
  layer.layer = index;
  layer.state_kind = QUIRE_STATE_GDN;
  layer.num_state_tensors = 2;
  layer.state[0] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {2, 16, 16, 0}};
  layer.state[1] = {{QUIRE_DTYPE_BFLOAT, 16, 1}, 2, {3, 96, 0, 0}};
  return layer;
}

inline quire_runtime_options runtime_options(const char* driver) {
  static const std::string modules = QUIRE_MODULES;
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = text(driver);
  options.driver_path = {modules.data(), modules.size()};
  options.flags = QUIRE_RUNTIME_NO_ENV;
  return options;
}

struct Rig {
  Owned<quire_runtime> runtime;
  Owned<quire_model> model;
  Owned<quire_config> config;
  Owned<quire_cache> cache;
  Owned<quire_device> device;
  Owned<quire_stream> stream;
  Owned<quire_memory> memory;

  static std::vector<quire_layer> hybrid() { return {attention_layer(0), state_layer(1), attention_layer(2), state_layer(3)}; }

  explicit Rig(const char* layout = "", uint64_t num_pages = 48, const char* driver = "null", const char* policy = "vllm",
               const std::vector<quire_layer>& layers = hybrid(), uint32_t num_threads = 0, quire_dtype kv_dtype = {},
               quire_kv_scales kv_scales = QUIRE_KV_SCALES_OUTSIDE) {
    quire_error* err = nullptr;
    quire_runtime_options options = runtime_options(driver);
    options.num_threads = num_threads;
    quire_runtime* r = nullptr;
    EXPECT_EQ(quire_runtime_create(&options, &r, err), QUIRE_OK);
    runtime.reset(r);
    quire_model* m = nullptr;
    Error e;
    EXPECT_EQ(quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), 64, &m, &e), QUIRE_OK) << e.message;
    model.reset(m);
    quire_plan_options plan{};
    plan.struct_size = sizeof plan;
    plan.policy = text(policy);
    plan.layout = text(layout);
    plan.num_pages = num_pages;
    plan.max_tokens_in_flight = 32;
    plan.kv_dtype = kv_dtype;
    plan.kv_scales = kv_scales;
    quire_config* c = nullptr;
    EXPECT_EQ(quire_config_create(model.get(), &plan, &c, &e), QUIRE_OK) << e.message;
    config.reset(c);
    quire_cache_options limits{};
    limits.struct_size = sizeof limits;
    limits.max_sequences = 8;
    limits.max_tokens_per_step = 256;
    quire_cache* k = nullptr;
    EXPECT_EQ(quire_cache_create(runtime.get(), config.get(), &limits, &k, &e), QUIRE_OK) << e.message;
    cache.reset(k);
    quire_device* d = nullptr;
    EXPECT_EQ(quire_device_open(runtime.get(), 0, &d, &e), QUIRE_OK) << e.message;
    device.reset(d);
    quire_stream* s = nullptr;
    EXPECT_EQ(quire_stream_create(device.get(), 0, &s, &e), QUIRE_OK) << e.message;
    stream.reset(s);
    quire_memory* y = nullptr;
    EXPECT_EQ(quire_memory_create(device.get(), config.get(), 0, &y, &e), QUIRE_OK) << e.message;
    memory.reset(y);
  }

  bool whole() const { return memory != nullptr && cache != nullptr && stream != nullptr; }

  // Reserves `tokens` symbols of one new sequence.
  quire_step reserve(quire_sequence_id sequence, const std::vector<quire_symbol>& symbols, uint32_t flags = 0) {
    quire_reserve_entry entry{};
    entry.sequence = sequence;
    entry.num_symbols = static_cast<uint32_t>(symbols.size());
    entry.num_tokens = entry.num_symbols;
    entry.flags = flags;
    quire_reserve_result result{};
    quire_step step{};
    Error e;
    EXPECT_EQ(quire_reserve(cache.get(), &entry, 1, symbols.data(), symbols.size(), &result, &step, &e), QUIRE_OK) << e.message;
    EXPECT_EQ(result.code, QUIRE_OK);
    return step;
  }
};

}  // namespace quire::test
