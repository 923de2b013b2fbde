#include "tests/stamps/kinds.h"

#include <quire/cache.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace quire::stamps {
namespace {

using Layers = std::vector<quire_layer>;

constexpr quire_dtype kHalf = {QUIRE_DTYPE_BFLOAT, 16, 1};
constexpr quire_dtype kSingle = {QUIRE_DTYPE_FLOAT, 32, 1};
constexpr uint32_t kHeads = 2;

quire_layer& add(Layers* layers, quire_layer_kind kind) {
  quire_layer layer = QUIRE_INIT(quire_layer);
  layer.kind = kind;
  layer.layer = static_cast<uint32_t>(layers->size());
  layer.num_kv_heads = layer.num_q_heads = kHeads;
  layer.head_dim_k = layer.head_dim_v = 8;  // a row of a head has room for a stamp
  layer.dtype = kHalf;
  layers->push_back(layer);
  return layers->back();
}

void add_full(Layers* layers) { add(layers, QUIRE_LAYER_FULL); }

void add_window(Layers* layers, uint64_t window, uint32_t sinks = 0) {
  quire_layer& layer = add(layers, QUIRE_LAYER_SLIDING_WINDOW);
  layer.window = window;
  layer.sink_tokens = sinks;
}

void add_latent(Layers* layers, uint32_t ratio = 1, uint64_t window = 0) {
  quire_layer& layer = add(layers, QUIRE_LAYER_MLA);
  layer.num_kv_heads = 1;
  layer.head_dim_k = 16;
  layer.head_dim_v = 0;
  layer.compress_ratio = ratio;
  layer.window = window;
}

void add_state(Layers* layers, Dice& dice) {
  quire_layer& layer = add(layers, QUIRE_LAYER_STATE);
  layer.num_kv_heads = layer.num_q_heads = layer.head_dim_k = layer.head_dim_v = 0;
  layer.state_kind = QUIRE_STATE_GENERIC;
  layer.num_state_tensors = dice.percent(60) ? 2 : 1;
  layer.state[0] = {kHalf, 2, {2, 8, 0, 0}};
  layer.state[1] = {kSingle, 2, {4, dice.between(1, 8), 0, 0}};
  if (dice.percent(40)) layer.state_shard[0] = 1;
}

Layers full(Dice& dice) {
  Layers layers;
  for (uint64_t i = dice.between(1, 3); i > 0; --i) add_full(&layers);
  return layers;
}

Layers window(Dice& dice) {
  Layers layers;
  const uint64_t tokens = dice.between(1, 30);
  for (uint64_t i = dice.between(1, 3); i > 0; --i) add_window(&layers, tokens);
  return layers;
}

Layers window_full(Dice& dice) {
  Layers layers;
  const uint64_t tokens = dice.between(2, 40);
  add_full(&layers);
  for (uint64_t i = dice.between(1, 4); i > 0; --i) add_window(&layers, tokens);
  return layers;
}

Layers windows(Dice& dice) {
  Layers layers;
  if (dice.percent(50)) add_full(&layers);
  add_window(&layers, dice.between(2, 12));
  add_window(&layers, dice.between(13, 50));
  return layers;
}

Layers chunked(Dice& dice) {
  Layers layers;
  const uint64_t tokens = 4 * dice.between(1, 8);
  if (dice.percent(70)) add_full(&layers);
  for (uint64_t i = dice.between(1, 2); i > 0; --i) add(&layers, QUIRE_LAYER_CHUNKED).window = tokens;
  return layers;
}

Layers latent(Dice& dice) {
  Layers layers;
  for (uint64_t i = dice.between(1, 2); i > 0; --i) add_latent(&layers);
  if (dice.percent(50)) {
    const uint32_t layer = layers.back().layer;
    quire_layer& indexer = add(&layers, QUIRE_LAYER_INDEXER);
    indexer.layer = layer;
    indexer.sub = 1;
    indexer.num_kv_heads = 1;
    indexer.head_dim_v = 0;
  }
  return layers;
}

Layers sinks(Dice& dice) {
  Layers layers;
  const uint64_t tokens = dice.between(2, 24);
  const uint32_t first = dice.small(1, 9);
  if (dice.percent(60)) add_full(&layers);
  for (uint64_t i = dice.between(1, 2); i > 0; --i) add_window(&layers, tokens, first);
  return layers;
}

Layers compressed(Dice& dice) {
  Layers layers;
  const uint32_t ratio = dice.percent(50) ? 4 : 2;
  add_latent(&layers, ratio);
  if (dice.percent(60)) add_latent(&layers, 2 * ratio);
  add_latent(&layers, 1, dice.between(4, 24));
  return layers;
}

Layers encoded(Dice& dice) {
  Layers layers;
  add_full(&layers);
  if (dice.percent(40)) add_window(&layers, dice.between(4, 20));
  add(&layers, QUIRE_LAYER_CROSS).encoder_tokens = dice.between(1, 40);
  return layers;
}

void add_draft(Layers* layers, Dice& dice) {
  quire_layer& draft = add(layers, QUIRE_LAYER_FULL);
  draft.flags = QUIRE_LAYER_DRAFT;
  draft.look_ahead = dice.small(0, 4);
}

Layers drafts(Dice& dice) {
  Layers layers;
  add_full(&layers);
  if (dice.percent(40)) add_window(&layers, dice.between(4, 24));
  add_draft(&layers, dice);
  return layers;
}

Layers states(Dice& dice) {
  Layers layers;
  for (uint64_t i = dice.between(1, 3); i > 0; --i) add_state(&layers, dice);
  return layers;
}

Layers states_full(Dice& dice) {
  Layers layers;
  for (uint64_t i = dice.between(1, 3); i > 0; --i) add_state(&layers, dice);
  add_full(&layers);
  return layers;
}

Layers states_window_full(Dice& dice) {
  Layers layers = states_full(dice);
  add_window(&layers, dice.between(2, 24), dice.percent(40) ? dice.small(1, 4) : 0);
  return layers;
}

Layers states_drafts(Dice& dice) {
  Layers layers = states_full(dice);
  add_draft(&layers, dice);
  return layers;
}

// Types of data, of scales and of tails as engines have them.
constexpr quire_dtype kFloat8 = {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1};
constexpr quire_dtype kFloat4 = {QUIRE_DTYPE_FLOAT4_E2M1FN, 4, 1};
constexpr quire_dtype kPower = {QUIRE_DTYPE_FLOAT8_E8M0FNU, 8, 1};

// Data of 4 or 8 bits with scales, and now and then a tail in the layer's own type.
void encode(quire_layer* layer, quire_codec codec, Dice& dice) {
  quire_codec_params& p = layer->codec_params;
  layer->codec = codec;
  p.data_dtype = dice.percent(40) ? kFloat4 : kFloat8;
  p.scale_dtype = dice.percent(50) ? kSingle : dice.percent(50) ? kFloat8 : kPower;
  p.tail_dtype = kHalf;
  p.scale_elements = dice.percent(50) ? 0 : 4;
  const uint32_t tail = dice.percent(40) ? dice.small(1, 3) : 0;
  for (const size_t side : {0, 1}) {
    const uint32_t width = side == 0 ? layer->head_dim_k : layer->head_dim_v;
    if (width == 0) continue;
    const uint32_t data = width - 2 * tail;
    p.data_bytes[side] = (data * p.data_dtype.bits + 7) / 8;
    p.scale_bytes[side] = (p.scale_elements == 0 ? 1 : (data + 3) / 4) * p.scale_dtype.bits / 8;
    p.tail_bytes[side] = 2 * tail * kHalf.bits / 8;
  }
  if (codec == QUIRE_CODEC_BLOCK_SPLIT && dice.percent(40)) p.block_alignment = 16 << dice.below(3);
}

// Keys and values, and often latent rows with an indexer.
Layers encoded_rows(quire_codec codec, Dice& dice) {
  Layers layers;
  if (dice.percent(40)) add_full(&layers);
  quire_layer& layer = add(&layers, dice.percent(50) ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL);
  if (layer.kind == QUIRE_LAYER_SLIDING_WINDOW) layer.window = dice.between(4, 24);
  encode(&layer, codec, dice);
  if (!dice.percent(50)) return layers;
  add_latent(&layers, 1, dice.percent(30) ? dice.between(4, 24) : 0);
  encode(&layers.back(), codec, dice);
  if (!dice.percent(50)) return layers;
  const uint32_t number = layers.back().layer;
  quire_layer& indexer = add(&layers, QUIRE_LAYER_INDEXER);
  indexer.layer = number;
  indexer.sub = 1;
  indexer.num_kv_heads = 1;
  indexer.head_dim_v = 0;
  encode(&indexer, codec, dice);
  return layers;
}

Layers records(Dice& dice) { return encoded_rows(QUIRE_CODEC_RECORD, dice); }

Layers split(Dice& dice) { return encoded_rows(QUIRE_CODEC_BLOCK_SPLIT, dice); }

// Rows whose elements lie apart.
Layers tiled(Dice& dice) {
  static constexpr std::array<quire_codec, 3> kCodecs = {QUIRE_CODEC_TILED, QUIRE_CODEC_SHUFFLED, QUIRE_CODEC_COLUMN_K};
  Layers layers;
  for (uint64_t i = dice.between(1, 2); i > 0; --i) {
    quire_layer& layer = add(&layers, dice.percent(40) ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL);
    if (layer.kind == QUIRE_LAYER_SLIDING_WINDOW) layer.window = dice.between(4, 40);
    layer.codec = kCodecs[dice.below(kCodecs.size())];
    if (dice.percent(30)) layer.dtype = kSingle;
    if (layer.codec != QUIRE_CODEC_COLUMN_K) layer.codec_params.tile = 2 << dice.below(3);
  }
  return layers;
}

Layers amx(Dice& dice) {
  Layers layers;
  for (uint64_t i = dice.between(1, 2); i > 0; --i) {
    quire_layer& layer = add(&layers, dice.percent(40) ? QUIRE_LAYER_SLIDING_WINDOW : QUIRE_LAYER_FULL);
    if (layer.kind == QUIRE_LAYER_SLIDING_WINDOW) layer.window = dice.between(4, 60);
    layer.head_dim_k = layer.head_dim_v = 16 * dice.small(1, 2);
    layer.codec = QUIRE_CODEC_AMX;
    if (dice.percent(30)) layer.dtype = kFloat8;
  }
  return layers;
}

struct Draw {
  quire_plan_options options = QUIRE_INIT(quire_plan_options);
  std::string layout;
  std::string words;
};

// Rows of a kernel block are a multiple of this.
uint32_t rows_of_tiles(const Layers& layers) {
  uint32_t rows = 1;
  for (const quire_layer& layer : layers) {
    if (layer.codec == QUIRE_CODEC_AMX) rows = 16;
    if (layer.codec == QUIRE_CODEC_SHUFFLED) rows = std::max(rows, layer.codec_params.tile);
  }
  return rows;
}

// What only one policy reads, and orders of dimensions; many of them are refused.
void draw_variants(Draw* draw, bool vllm, Dice& dice) {
  quire_plan_options& o = draw->options;
  if (vllm && dice.percent(25)) o.vllm.retained_tokens = dice.small(1, 6);
  if (vllm && dice.percent(25)) o.vllm.match_unit_tokens = std::gcd(o.block_tokens, 2u);
  if (!dice.percent(20)) return;
  draw->layout = "BLPJKTH";
  for (size_t i = draw->layout.size(); i > 1; --i) std::swap(draw->layout[i - 1], draw->layout[dice.below(i)]);
  draw->layout += 'D';  // a stamp takes several elements of a row
}

Draw draw_options(const Layers& layers, Dice& dice) {
  static constexpr std::array<uint32_t, 6> kBlocks = {1, 2, 4, 4, 8, 16};
  static constexpr std::array<const char*, 5> kPolicies = {"vllm", "auto", "auto", "pack:1", "pack:2"};
  Draw draw;
  quire_plan_options& o = draw.options;
  const bool compresses = std::any_of(layers.begin(), layers.end(), [](const quire_layer& l) { return l.compress_ratio > 1; });
  const bool crosses = std::any_of(layers.begin(), layers.end(), [](const quire_layer& l) { return l.kind == QUIRE_LAYER_CROSS; });
  o.block_tokens = compresses ? kBlocks[3 + dice.below(3)] * 2 : kBlocks[dice.below(kBlocks.size())];
  o.kernel_block_tokens = dice.percent(60) ? o.block_tokens : std::gcd(o.block_tokens, kBlocks[dice.below(kBlocks.size())]);
  const uint32_t rows = rows_of_tiles(layers);
  if (o.block_tokens < rows) o.block_tokens = rows * std::min(o.block_tokens, 2u);
  if (o.kernel_block_tokens < rows) o.kernel_block_tokens = std::min(rows * std::min(o.kernel_block_tokens, 2u), o.block_tokens);
  const char* policy = kPolicies[dice.below(kPolicies.size())];
  o.policy = {policy, std::char_traits<char>::length(policy)};
  if (dice.percent(15)) o.tensor_parallel = 2;
  if (dice.percent(10) && layers.size() > 1) o.pipeline_parallel = 2;
  if (dice.percent(15) && !crosses) o.context_parallel = 2;
  o.max_model_len = (compresses || rows > 8 ? 96 : 24) + 8 * dice.below(30);
  o.max_tokens_in_flight = 16 + 8 * dice.below(12);
  draw_variants(&draw, policy[0] == 'v', dice);
  draw.words = std::string(policy) + " block " + std::to_string(o.block_tokens) + "/" + std::to_string(o.kernel_block_tokens) + " tp " +
               std::to_string(o.tensor_parallel) + " pp " + std::to_string(o.pipeline_parallel) + " cp " +
               std::to_string(o.context_parallel) + " length " + std::to_string(o.max_model_len) + " retained " +
               std::to_string(o.vllm.retained_tokens) + " unit " + std::to_string(o.vllm.match_unit_tokens) + " layout '" + draw.layout +
               "'";
  return draw;
}

// NULL if quire refuses the combination.
ConfigHandle plan_once(const Layers& layers, const quire_plan_options& options, std::string* reason) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_model* model = nullptr;
  if (quire_model_create(layers.data(), sizeof(quire_layer), layers.size(), options.max_model_len, &model, &err) != QUIRE_OK) {
    *reason = err.message;
    return nullptr;
  }
  quire_config* config = nullptr;
  if (quire_config_create(model, &options, &config, &err) != QUIRE_OK) *reason = err.message;
  quire_model_release(model);
  return ConfigHandle(config);
}

// Pages of the states that a sequence has besides those that a plan counts.
uint64_t pages_of_states(const Plan& plan, quire_config* config, uint64_t in_flight) {
  uint64_t pages = 0;
  quire_group_info group = QUIRE_INIT(quire_group_info);
  for (uint32_t g = 0; quire_config_get_group(config, g, &group, nullptr) == QUIRE_OK; ++g) {
    if (group.is_state == 0) continue;
    const uint64_t crossed = plan.at_blocks ? in_flight / group.block_tokens + 2 : 0;
    const uint64_t states = (plan.depth + 1) * (plan.branches + 1 + crossed) + 1;
    pages += (states * group.ids_per_block + group.parts_per_page - 1) / group.parts_per_page;
  }
  return pages;
}

// So few pages that a long sequence fits and several do not.
ConfigHandle plan_pool(const Plan& plan, Draw* draw, Dice& dice, std::string* reason) {
  const Layers& layers = plan.layers;
  draw->options.num_pages = 4096;
  const ConfigHandle large = plan_once(layers, draw->options, reason);
  if (large == nullptr) return nullptr;
  quire_capacity need = QUIRE_INIT(quire_capacity);
  if (quire_config_get_capacity(large.get(), nullptr, draw->options.max_model_len, 1, &need, nullptr) != QUIRE_OK) return nullptr;
  if (plan.tight) {  // sequences are as long as what there is
    draw->options.flags |= QUIRE_PLAN_FIT_LENGTH;
    draw->options.num_pages = std::max<uint64_t>(need.pages_needed * dice.between(40, 100) / 100, 3);
  } else {
    need.pages_needed += pages_of_states(plan, large.get(), draw->options.max_tokens_in_flight);
    // Percent beyond what one needs.
    const uint64_t share = dice.percent(20) ? 0 : dice.below(dice.percent(15) ? 2000 : dice.percent(40) ? 600 : 200);
    draw->options.num_pages = need.pages_needed + need.pages_needed * share / 100 + (dice.percent(50) ? 0 : dice.below(4));
  }
  draw->words += " pages " + std::to_string(draw->options.num_pages);
  return plan_once(layers, draw->options, reason);
}

void read_plan(Plan* plan, const Draw& draw) {
  plan->drawn = draw.options;
  plan->layout = draw.layout;
  plan->options = draw.words;
  plan->retained = draw.options.vllm.retained_tokens;
  plan->in_flight = draw.options.max_tokens_in_flight;
  plan->head_ranks = std::max(draw.options.tensor_parallel, 1u);
  plan->stages = std::max(draw.options.pipeline_parallel, 1u);
  plan->token_ranks = std::max(draw.options.context_parallel, 1u);
  plan->info = QUIRE_INIT(quire_config_info);
  demand(quire_config_get_info(plan->config.get(), &plan->info, nullptr) == QUIRE_OK, "config info");
  for (uint32_t g = 0; g < plan->info.num_groups; ++g) {
    quire_group_info group = QUIRE_INIT(quire_group_info);
    demand(quire_config_get_group(plan->config.get(), g, &group, nullptr) == QUIRE_OK, "group info");
    plan->groups.push_back(group);
  }
  for (const quire_layer& layer : plan->layers) {
    quire_layer_place place = QUIRE_INIT(quire_layer_place);
    demand(quire_config_get_place(plan->config.get(), layer.layer, layer.sub, &place, nullptr) == QUIRE_OK, "place of a layer");
    plan->places.push_back(place);
    plan->states = plan->states || layer.kind == QUIRE_LAYER_STATE;
    plan->drafts = plan->drafts || (layer.flags & QUIRE_LAYER_DRAFT) != 0;
    plan->coded = plan->coded || layer.codec != QUIRE_CODEC_STRIDED;
    if (layer.kind == QUIRE_LAYER_CROSS) {
      plan->encoder = plan->encoder == 0 ? layer.encoder_tokens : std::min(plan->encoder, layer.encoder_tokens);
    }
  }
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kAll = {{"full", full},
                                         {"window", window},
                                         {"window_full", window_full},
                                         {"windows", windows},
                                         {"chunked", chunked},
                                         {"latent", latent},
                                         {"sinks", sinks},
                                         {"compressed", compressed},
                                         {"encoder", encoded},
                                         {"drafts", drafts},
                                         {"states", states},
                                         {"states_full", states_full},
                                         {"states_window_full", states_window_full},
                                         {"states_drafts", states_drafts},
                                         {"records", records},
                                         {"split", split},
                                         {"tiled", tiled},
                                         {"amx", amx}};
  return kAll;
}

Plan make_plan(const Kind& kind, Dice& dice) {
  std::string reason;
  for (int tries = 0; tries < 200; ++tries) {
    Plan plan;
    plan.layers = kind.layers(dice);
    Draw draw = draw_options(plan.layers, dice);
    draw.options.layout = {draw.layout.data(), draw.layout.size()};
    plan.depth = dice.percent(30) ? 1 : dice.small(2, 3);
    plan.branches = dice.percent(40) ? dice.small(1, 4) : 0;
    plan.at_blocks = dice.percent(20);
    plan.tight = dice.percent(15);
    if (plan.tight) plan.branches = 0;
    if (plan.tight) plan.at_blocks = false;
    plan.config = plan_pool(plan, &draw, dice, &reason);
    if (plan.config == nullptr) continue;
    read_plan(&plan, draw);
    return plan;
  }
  throw Mismatch(std::string("no plan for the kind ") + kind.name + ": " + reason);
}

Plan make_plan(const Plan& plan, uint32_t tensor_parallel, Dice& dice) {
  Plan other;
  other.layers = plan.layers;
  other.depth = plan.depth;
  other.branches = plan.branches;
  other.at_blocks = plan.at_blocks;
  other.tight = plan.tight;
  other.by_head = plan.by_head;
  Draw draw;
  draw.options = plan.drawn;
  draw.options.tensor_parallel = tensor_parallel;
  draw.layout = plan.layout;
  draw.options.layout = {draw.layout.data(), draw.layout.size()};
  draw.words = plan.options + ", then tp " + std::to_string(tensor_parallel);
  std::string reason;
  other.config = plan_pool(other, &draw, dice, &reason);
  if (other.config != nullptr) read_plan(&other, draw);
  return other;
}

// Stages of a pipeline have some layers only.
uint64_t grid_of(const Plan& plan) {
  uint64_t grid = 1;
  for (const quire_group_info& group : plan.groups) grid = std::lcm(grid, uint64_t{group.block_tokens});
  return grid;
}

uint32_t shard_with(const Plan& plan, uint32_t group) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const quire_layer& layer = plan.layers[i];
    if (plan.places[i].group != group) continue;
    for (uint32_t s = 0; s < plan.info.num_shards; ++s) {
      quire_kv_view tokens = QUIRE_INIT(quire_kv_view);
      quire_state_view state = QUIRE_INIT(quire_state_view);
      const bool has = layer.kind == QUIRE_LAYER_STATE
                           ? quire_config_get_state_view(plan.config.get(), s, layer.layer, layer.sub, 0, &state, nullptr) == QUIRE_OK
                           : quire_config_get_kv_view(plan.config.get(), s, layer.layer, layer.sub, &tokens, nullptr) == QUIRE_OK;
      if (has) return s;
    }
  }
  throw Mismatch("a group without layers");
}

}  // namespace quire::stamps
