// lm_decode FOLDER DEPTH THREADS [fill] [--weights TYPE]: how long this engine takes for a token at a depth; decode_speed.py has it take
// turns with others. It computes DEPTH random tokens and says "ready". Every number N on a line of standard input asks for N more tokens,
// and the seconds they took are the answer. fill: keys and values of the depth are random numbers that the driver appends, not computed.
#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <random>
#include <string>

#include "lm_error.h"
#include "lm_threads.h"
#include "sampling.h"
#include "stepper.h"

namespace {

constexpr uint32_t kChunk = 512;
constexpr uint64_t kRoom = 4096;  // tokens after the depth
constexpr uint64_t kMost = uint64_t{1} << 20;
constexpr int64_t kWidest = 4096;  // row of keys or values that `fill` writes

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<float> random_rows(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

quire_tensor rows_of(const std::vector<float>& values, int64_t tokens, int64_t heads, int64_t width) {
  quire_tensor t{};
  t.data = const_cast<float*>(values.data());
  t.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  t.device_type = QUIRE_DEVICE_CPU;
  t.ndim = 3;
  const int64_t shape[] = {tokens, heads, width};
  const int64_t stride[] = {heads * width * 4, width * 4, 4};
  std::copy_n(shape, 3, t.shape);
  std::copy_n(stride, 3, t.stride);
  return t;
}

// Random keys and values for the tokens of a step, in every layer.
void fill(lm::Kv& kv, const lm::Pass& pass) {
  const uint32_t layers = quire_model_info(kv.model().info()).num_caches;
  for (uint32_t i = 0; i < layers; ++i) {
    const quire_layer layer = kv.model().layer(i);
    auto append = quire::make<quire_kv_append>();
    append.kv = kv.memory().paged_kv(layer.layer, layer.sub);
    append.batch = &kv.batch().groups()[append.kv.group];
    const int64_t heads = append.kv.num_heads;
    const int64_t width_k = append.kv.side[0].head_dim;
    const int64_t width_v = append.kv.side[1].head_dim;
    static const std::vector<float> values = random_rows(static_cast<size_t>(kChunk * kWidest));
    if (heads * std::max(width_k, width_v) > kWidest)
      throw lm::Error("fill: a row of keys or values may have " + std::to_string(kWidest) + " elements");
    append.key = rows_of(values, pass.tokens(), heads, width_k);
    append.value = rows_of(values, pass.tokens(), heads, width_v);
    kv.stream().kv_append(append);
  }
  kv.stream().synchronize();
}

struct Options {
  std::string folder;
  uint64_t depth = 0;
  uint32_t threads = 0;
  bool fills = false;
  std::string weights = "auto";
};

lm::ProductType product_type(const Options& o) {
  if (o.weights == "fp32") return lm::ProductType::kFp32;
  if (o.weights == "split") return lm::ProductType::kSplit;
  if (o.weights == "bf16") return lm::ProductType::kBf16;
  if (o.weights != "auto") throw lm::Error("--weights is " + o.weights + ", must be auto, fp32, split or bf16");
  return lm::Checkpoint::open(o.folder).is_bf16() && lm::has_bf16_products() ? lm::ProductType::kSplit : lm::ProductType::kFp32;
}

class Decoding {
 public:
  explicit Decoding(const Options& o)
      : model_(lm::LoadedModel::open(o.folder, product_type(o))), kv_(model_.config, settings_of(o)), stepper_(kv_, *model_.family) {
    lm::set_threads(o.threads);
    kv_.allocate();
    model_.weights.load({});
    reach(o);
  }

  // Seconds of so many tokens, one after another.
  double take(uint64_t tokens) {
    const double begin = now();
    for (uint64_t i = 0; i < tokens; ++i) step(1, 0, true);
    return now() - begin;
  }
  uint64_t depth() const { return live_.committed; }

 private:
  static lm::KvSettings settings_of(const Options& o) {
    lm::KvSettings settings;
    settings.max_len = o.depth + kRoom;
    settings.pool_bytes = uint64_t{8} << 30;
    settings.max_sequences = 1;
    settings.max_step_tokens = kChunk;
    settings.threads = o.threads;
    settings.reuse = false;
    return settings;
  }

  void reach(const Options& o) {
    if (o.fills && kv_.has_states()) throw lm::Error("fill: the model has states, which must be computed");
    std::mt19937 random(2);
    std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(model_.family->vocabulary()) - 1);
    std::vector<int32_t> tokens(o.depth + 1);
    for (int32_t& token : tokens) token = any(random);
    live_ = stepper_.begin(std::move(tokens));
    for (uint32_t flags = QUIRE_ENTRY_MATCH; live_.committed < o.depth; flags = 0) {
      const auto rest = static_cast<uint32_t>(std::min<uint64_t>(kChunk, o.depth - live_.committed));
      if (!o.fills) {
        step(rest, flags, false);
        continue;
      }
      lm::Ask ask{&live_, rest, flags};
      lm::Flight flight = stepper_.reserve({&ask, 1});
      if (!flight) throw lm::Error("the cache refused " + std::to_string(rest) + " tokens");
      fill(kv_, lm::Pass(kv_, flight.step, flight.ids));
      stepper_.commit(flight);
    }
  }

  void step(uint32_t tokens, uint32_t flags, bool samples) {
    lm::Ask ask{&live_, tokens, flags};
    lm::Flight flight = stepper_.reserve({&ask, 1});
    if (!flight) throw lm::Error("the cache refused " + std::to_string(tokens) + " tokens");
    const uint32_t wanted = samples ? 1 : 0;
    stepper_.run(flight, {&wanted, 1});
    stepper_.commit(flight);
    if (samples) live_.tokens.push_back(lm::sample_token(flight.logits.row(0), {}, 0, live_.committed));
  }

  lm::LoadedModel model_;
  lm::Kv kv_;
  lm::Stepper stepper_;
  lm::Live live_;
};

uint64_t number(const std::string& text, const char* name) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value == 0 || value > kMost)
    throw lm::Error(std::string(name) + " is '" + text + "', must be 1 to " + std::to_string(kMost));
  return value;
}

Options read_options(const std::vector<std::string>& arguments) {
  Options o;
  o.folder = arguments[0];
  o.depth = number(arguments[1], "DEPTH");
  o.threads = static_cast<uint32_t>(number(arguments[2], "THREADS"));
  for (size_t i = 3; i < arguments.size(); ++i) {
    if (arguments[i] == "fill") {
      o.fills = true;
    } else if (arguments[i] == "--weights" && i + 1 < arguments.size()) {
      o.weights = arguments[++i];
    } else {
      throw lm::Error("'" + arguments[i] + "' is not known");
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  // Activations of a step are freed and needed again in the next one: they stay with the process.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3) {
    std::fprintf(stderr, "usage: lm_decode FOLDER DEPTH THREADS [fill] [--weights TYPE]\n");
    return 2;
  }
  try {
    Decoding decoding(read_options(arguments));
    std::printf("ready %llu\n", static_cast<unsigned long long>(decoding.depth()));
    std::fflush(stdout);
    for (uint64_t tokens = 0; std::cin >> tokens;) {
      std::printf("%.9f\n", decoding.take(tokens));
      std::fflush(stdout);
    }
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "lm_decode: %s\n", failure.what());
    return 1;
  }
}
