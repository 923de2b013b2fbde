// What questions about bytes cost: every view of a model of 100 layers, asked as an engine asks at start.
#include <benchmark/benchmark.h>
#include <quire/quire.h>

#include <cstring>
#include <vector>

namespace {

quire_config* plan_of_hundred(const char* policy) {
  std::vector<quire_layer> layers(100);
  for (uint32_t l = 0; l < layers.size(); ++l) {
    quire_layer& layer = layers[l];
    layer.struct_size = sizeof layer;
    layer.layer = l;
    if (l % 4 == 3) {
      layer.kind = QUIRE_LAYER_FULL;
      layer.num_kv_heads = 2;
      layer.num_q_heads = 16;
      layer.head_dim_k = layer.head_dim_v = 256;
      layer.dtype = {QUIRE_DTYPE_BFLOAT, 16, 1};
    } else {
      layer.kind = QUIRE_LAYER_STATE;
      layer.num_state_tensors = 2;
      layer.state[0] = {{QUIRE_DTYPE_BFLOAT, 16, 1}, 2, {3, 6144, 0, 0}};
      layer.state[1] = {{QUIRE_DTYPE_FLOAT, 32, 1}, 3, {32, 128, 128, 0}};
    }
  }
  quire_model* model = nullptr;
  quire_config* config = nullptr;
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {policy, std::strlen(policy)};
  options.num_pages = 100000;
  if (quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), 32768, &model, nullptr) == QUIRE_OK) {
    quire_config_create(model, &options, &config, nullptr);
  }
  quire_model_release(model);
  return config;
}

void views(benchmark::State& state, const char* policy) {
  quire_config* config = plan_of_hundred(policy);
  if (config == nullptr) return state.SkipWithError("the plan was refused");
  uint64_t found = 0;
  for (auto _ : state) {
    found = 0;
    for (uint32_t l = 0; l < 100; ++l) {
      quire_layer_place place{};
      place.struct_size = sizeof place;
      found += quire_config_get_place(config, l, 0, &place, nullptr) == QUIRE_OK ? 1 : 0;
      if (l % 4 == 3) {
        quire_kv_view view{};
        view.struct_size = sizeof view;
        found += quire_config_get_kv_view(config, 0, l, 0, &view, nullptr) == QUIRE_OK ? 1 : 0;
        quire_kv_field fields[2];
        uint64_t count = 0;
        found += quire_config_list_fields(config, 0, l, 0, fields, 2, &count, nullptr) == QUIRE_OK ? 1 : 0;
        benchmark::DoNotOptimize(fields);
      } else {
        for (uint32_t t = 0; t < 2; ++t) {
          quire_state_view view{};
          view.struct_size = sizeof view;
          found += quire_config_get_state_view(config, 0, l, 0, t, &view, nullptr) == QUIRE_OK ? 1 : 0;
        }
      }
    }
  }
  if (found != 300) state.SkipWithError("a view is missing");
  quire_config_release(config);
}

}  // namespace

BENCHMARK_CAPTURE(views, vllm, "vllm")->Name("bookkeeping/views/vllm")->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(views, auto, "auto") -> Name("bookkeeping/views/auto") -> Unit(benchmark::kMicrosecond);
