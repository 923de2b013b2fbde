#include "replay/replay_oracle.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "client/client.h"

namespace quire::replay {
namespace {

constexpr const char* kNames[] = {"infinite", "lru", "clairvoyant", "marconi"};

// Sums 1 + 2 + .. up to `window`, then window for each further token.
double pairs(uint64_t tokens, uint64_t window) {
  const auto n = static_cast<double>(tokens);
  if (window == 0 || tokens <= window) return n * (n + 1) / 2;
  const auto w = static_cast<double>(window);
  return w * (w + 1) / 2 + (n - w) * w;
}

}  // namespace

Oracle oracle_of(const std::string& name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Oracle>(i);
  }
  throw std::invalid_argument("'" + name + "'; must be some of infinite, lru, clairvoyant, marconi");
}

const char* name_of(Oracle oracle) { return kNames[static_cast<size_t>(oracle)]; }

Sizes sizes_of(quire_config* config) {
  client::Error error;
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config, &info, &error), error);
  Sizes out;
  out.unit_tokens = std::max(1u, info.match_unit_tokens);
  double unit = 0;
  for (uint32_t g = 0; g < info.num_groups; ++g) {
    auto group = client::sized<quire_group_info>();
    client::check(quire_config_get_group(config, g, &group, &error), error);
    const uint64_t page = group.page_bytes_per_block * group.parts_per_page / std::max(1u, group.ids_per_block);
    out.pool_bytes = std::max(out.pool_bytes, (info.num_pages - 1) * page);
    const uint64_t block = std::max(1u, group.block_tokens);
    const uint64_t live = std::max(group.window, group.chunk);
    if (group.encoder_tokens != 0) continue;
    if (group.is_state != 0) {
      out.checkpoint_bytes += group.page_bytes_per_block;
    } else if (live != 0) {
      out.checkpoint_bytes += (live - 1 + block - 1) / block * group.page_bytes_per_block;
    } else {
      unit += static_cast<double>(group.page_bytes_per_block) * out.unit_tokens / static_cast<double>(block);
    }
  }
  out.unit_bytes = static_cast<uint64_t>(std::llround(unit));
  return out;
}

double Work::of(uint64_t tokens) const {
  double out = per_token * static_cast<double>(tokens);
  for (const Layer& layer : layers) out += layer.per_pair * pairs(tokens, layer.window);
  return out;
}

Work work_of(quire_model* model, double active_parameters) {
  client::Error error;
  auto info = client::sized<quire_model_info>();
  client::check(quire_model_get_info(model, &info, &error), error);
  Work out;
  out.per_token = 2 * active_parameters;
  for (uint32_t i = 0; i < info.num_caches; ++i) {
    auto layer = client::sized<quire_layer>();
    client::check(quire_model_get_layer(model, i, &layer, &error), error);
    const bool attends = layer.kind == QUIRE_LAYER_FULL || layer.kind == QUIRE_LAYER_SLIDING_WINDOW || layer.kind == QUIRE_LAYER_CHUNKED ||
                         layer.kind == QUIRE_LAYER_MLA;
    if (!attends || (layer.flags & QUIRE_LAYER_DRAFT) != 0) continue;
    const uint32_t heads = layer.num_q_heads != 0 ? layer.num_q_heads : std::max(layer.num_kv_heads, info.num_q_heads);
    const uint32_t values = layer.head_dim_v != 0 ? layer.head_dim_v : layer.head_dim_k;
    const double per_pair = 2.0 * heads * (layer.head_dim_k + values);
    const auto same = std::find_if(out.layers.begin(), out.layers.end(), [&](const auto& one) { return one.window == layer.window; });
    same != out.layers.end() ? void(same->per_pair += per_pair) : out.layers.push_back({per_pair, layer.window});
  }
  const bool known = out.per_token > 0 || std::any_of(out.layers.begin(), out.layers.end(), [](const auto& l) { return l.per_pair > 0; });
  if (!known) out.per_token = 1;
  return out;
}

Hits sum_hits(const std::vector<Request>& trace, const std::vector<uint32_t>& hits, const Work& work) {
  Hits out;
  uint64_t prompts = 0;
  double saved = 0;
  double all = 0;
  for (size_t r = 0; r < trace.size(); ++r) {
    prompts += trace[r].input_length;
    out.hit_tokens += hits[r];
    all += work.of(trace[r].input_length);
    saved += work.of(hits[r]);
  }
  out.hit_share = prompts == 0 ? 0 : static_cast<double>(out.hit_tokens) / static_cast<double>(prompts);
  out.compute_saved = all == 0 ? 0 : saved / all;
  return out;
}

}  // namespace quire::replay
