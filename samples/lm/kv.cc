#include "kv.h"

#include <algorithm>

#include "lm_error.h"

namespace lm {
namespace {

constexpr quire_dtype kFp32{QUIRE_DTYPE_FLOAT, 32, 1};
constexpr quire_dtype kFp16{QUIRE_DTYPE_FLOAT, 16, 1};
constexpr quire_dtype kBf16{QUIRE_DTYPE_BFLOAT, 16, 1};
constexpr uint8_t kPoison = 0x7b;

// Its dtype is also that of short convolutions, which no option of a plan replaces.
std::string config_text(const ModelConfig& config, const std::string& dtype) {
  if (dtype == "model") return config.dump();
  if (dtype == "fp32" || dtype == "auto") return config.dump_with_dtype("float32");
  if (dtype == "bf16") return config.dump_with_dtype("bfloat16");
  throw Error("the type of the cache is '" + dtype + "', must be auto, model, fp32 or bf16");
}

// The type of keys and values. All zero: the model's.
quire_dtype kv_dtype(const ModelConfig& config, const std::string& dtype) {
  if (dtype == "fp32") return kFp32;
  if (dtype == "bf16") return kBf16;
  if (dtype == "model") return {};
  const ModelConfig decoder = config.decoder();
  const std::string stated = config.text(
      "dtype",
      config.text("torch_dtype", decoder.text("dtype", decoder.text("torch_dtype", "bfloat16"))));
  return stated == "float32" ? kFp32 : stated == "float16" ? kFp16 : kBf16;
}

// The CPU driver decodes pages of 16 tokens 10 % faster where the tokens of a head are contiguous.
// Others have kernels for every order.
const quire_str kHeadsFirst = quire::text("BPJKHTD");

quire_plan_options plan_options(const ModelConfig& config, const KvSettings& settings) {
  auto options = quire::make<quire_plan_options>();
  options.kv_dtype = kv_dtype(config, settings.dtype);
  if (settings.dtype == "fp32" || settings.dtype == "auto") options.state_dtype = kFp32;
  options.policy = quire::text(settings.policy);
  options.preferred_layouts = &kHeadsFirst;
  options.num_preferred_layouts = 1;
  options.memory_bytes = &settings.pool_bytes;
  options.num_memory_bytes = settings.pages == 0 ? 1 : 0;
  options.num_pages = settings.pages;
  options.max_model_len = settings.max_len;
  options.max_tokens_in_flight = uint64_t{settings.step_depth} * settings.max_step_tokens;
  if (settings.max_len == 0) options.flags |= QUIRE_PLAN_FIT_LENGTH;
  if (!settings.reuse) options.flags |= QUIRE_PLAN_NO_PREFIX_REUSE;
  return options;
}

quire_cache_options cache_options(const KvSettings& settings) {
  auto options = quire::make<quire_cache_options>();
  options.flags = settings.cache_flags;
  if (!settings.reuse) options.flags |= QUIRE_CACHE_NO_PREFIX_REUSE;
  options.max_sequences = settings.max_sequences;
  options.max_tokens_per_step = settings.max_step_tokens;
  options.step_depth = settings.step_depth;
  options.num_state_branches = settings.drafts;
  options.checkpoint_interval = settings.checkpoint_interval;
  options.hash_seed = 1;
  return options;
}

bool is_attention(const quire_layer& l) {
  return l.kind == QUIRE_LAYER_FULL || l.kind == QUIRE_LAYER_SLIDING_WINDOW ||
         l.kind == QUIRE_LAYER_CHUNKED || l.kind == QUIRE_LAYER_MLA;
}

}  // namespace

Kv::Kv(const ModelConfig& config, const KvSettings& settings) : settings_(settings) {
  auto options = quire::make<quire_runtime_options>();
  options.num_threads = settings.threads;
  runtime_ = quire::Runtime::create(options);
  model_ = quire::Model::from_json(config_text(config, settings.dtype));
  config_ = quire::Config::create(model_, plan_options(config, settings_));
  const uint32_t count = quire_model_info(model_.info()).num_caches;
  for (uint32_t i = 0; i < count; ++i) layers_.push_back(model_.layer(i));
}

void Kv::allocate() {
  device_ = quire::Device::open(runtime_);
  const quire_device_info device = device_.info();
  if (device.device_type != QUIRE_DEVICE_CPU) {
    throw Error(std::string("driver ") + device.driver +
                ": this engine computes in host memory; set QUIRE_DRIVER=cpu");
  }
  device_name_ = std::string(device.driver) + ": " + device.name;
  cache_ = quire::Cache::create(runtime_, config_, cache_options(settings_));
  memory_ = quire::Memory::create(device_, config_);
  stream_ = quire::Stream::create(device_);
  batch_ = quire::Batch::create(config_);
  if (settings_.poison) {
    memory_.poison(stream_, kPoison);
    stream_.synchronize();
  }
}

uint64_t Kv::bytes() const {
  uint64_t sum = 0;
  for (const quire_region_info& region : config_.regions()) sum += region.bytes;
  return sum;
}

const quire_layer& Kv::layer_of(int64_t layer, const char* what,
                                bool (*fits)(const quire_layer&)) const {
  const auto found = std::find_if(layers_.begin(), layers_.end(), [&](const quire_layer& l) {
    return l.layer == static_cast<uint64_t>(layer) && fits(l);
  });
  if (found == layers_.end())
    throw Error("layer " + std::to_string(layer) + " has no " + what + " in quire's plan");
  return *found;
}

const quire_layer& Kv::attention_of(int64_t layer) const {
  return layer_of(layer, "attention", is_attention);
}
const quire_layer& Kv::cross_of(int64_t layer) const {
  return layer_of(layer, "cross attention",
                  [](const quire_layer& l) { return l.kind == QUIRE_LAYER_CROSS; });
}
const quire_layer& Kv::state_of(int64_t layer) const {
  return layer_of(layer, "state", [](const quire_layer& l) { return l.kind == QUIRE_LAYER_STATE; });
}
bool Kv::has_states() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const quire_layer& l) { return l.kind == QUIRE_LAYER_STATE; });
}
bool Kv::has_encoder() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const quire_layer& l) { return l.kind == QUIRE_LAYER_CROSS; });
}

}  // namespace lm
