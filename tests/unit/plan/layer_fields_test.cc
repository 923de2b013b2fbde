// Property: one field of one layer is changed, field by field, kind by kind, policy by policy, in models whose layers are alike and in
// models whose other half is full attention. Every layer's table must keep all tokens that the layer reads, and every layer's view must be
// the one it has in a model whose layers are all like it.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/plan/plans.h"

namespace quire {
namespace {

using plans::Options;

constexpr uint32_t kLayers = 6;
// Sanitizers take ten times as long: there the changed layer is in one place only.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const std::vector<uint32_t> kPlaces = {1};
#else
const std::vector<uint32_t> kPlaces = {0, 1, kLayers - 1};
#endif

struct Change {
  const char* field;
  std::function<void(quire_layer*)> apply;
};

// A field appended to quire_layer needs a row below.
static_assert(sizeof(quire_layer) == 344, "quire_layer has grown: add a row to changes()");

std::vector<Change> changes() {
  return {
      {"num_kv_heads", [](quire_layer* l) { l->num_kv_heads *= 2; }},
      {"num_q_heads", [](quire_layer* l) { l->num_q_heads = 2 * l->num_kv_heads; }},
      {"head_dim_k", [](quire_layer* l) { l->head_dim_k *= 2; }},
      {"head_dim_v", [](quire_layer* l) { l->head_dim_v *= 2; }},
      {"dtype", [](quire_layer* l) { l->dtype = kFloat32; }},
      {"dtype of equal size",
       [](quire_layer* l) {
         l->dtype = {QUIRE_DTYPE_FLOAT, 16, 1};
       }},
      {"codec", [](quire_layer* l) { l->codec = QUIRE_CODEC_COLUMN_K; }},
      {"codec_params.block_alignment", [](quire_layer* l) { l->codec_params.block_alignment = 4096; }},
      {"codec_params.tile", [](quire_layer* l) { l->codec_params.tile = 4; }},
      {"window", [](quire_layer* l) { l->window *= 2; }},
      {"window absent", [](quire_layer* l) { l->window = 0; }},
      {"sink_tokens more", [](quire_layer* l) { l->sink_tokens += 64; }},
      {"sink_tokens absent", [](quire_layer* l) { l->sink_tokens = 0; }},
      {"compress_ratio", [](quire_layer* l) { l->compress_ratio = 4; }},
      {"block_tokens", [](quire_layer* l) { l->block_tokens = 32; }},
      {"state_kind", [](quire_layer* l) { l->state_kind = QUIRE_STATE_MAMBA1; }},
      {"num_state_tensors", [](quire_layer* l) { l->num_state_tensors = 1, l->state[1] = {}; }},
      {"state[0].shape", [](quire_layer* l) { l->state[0].shape[1] *= 2; }},
      {"state[1].dtype", [](quire_layer* l) { l->state[1].dtype = kBFloat16; }},
      {"state_shard", [](quire_layer* l) { l->state_shard[0] = 0; }},
      {"state_parts", [](quire_layer* l) { l->state_parts[0] = static_cast<uint32_t>(l->state[0].shape[1]); }},
      {"rope_dim", [](quire_layer* l) { l->rope_dim = 64; }},
      {"softcap", [](quire_layer* l) { l->softcap = 30; }},
      {"encoder_tokens", [](quire_layer* l) { l->encoder_tokens *= 3; }},
      {"flags: draft", [](quire_layer* l) { l->flags |= QUIRE_LAYER_DRAFT; }},
      {"flags: sink logits", [](quire_layer* l) { l->flags |= QUIRE_LAYER_SINK_LOGITS; }},
      {"look_ahead", [](quire_layer* l) { l->flags |= QUIRE_LAYER_DRAFT, l->look_ahead = 7; }},
      {"kind", [](quire_layer* l) { l->kind = l->kind == QUIRE_LAYER_SLIDING_WINDOW ? QUIRE_LAYER_CHUNKED : QUIRE_LAYER_FULL; }},
  };
}

std::vector<std::pair<const char*, quire_layer>> kinds() {
  quire_layer windowed = plans::attention(4, 64, 256);
  quire_layer sinks = windowed;
  sinks.sink_tokens = 4;
  quire_layer chunked = windowed;
  chunked.kind = QUIRE_LAYER_CHUNKED;
  quire_layer latent_window = plans::latent(576);
  latent_window.window = 128;
  latent_window.sink_tokens = 4;
  quire_layer cross = plans::attention(4, 64);
  cross.kind = QUIRE_LAYER_CROSS;
  cross.encoder_tokens = 500;
  quire_layer indexer = plans::latent(128);
  indexer.kind = QUIRE_LAYER_INDEXER;
  quire_layer draft = plans::attention(4, 64);
  draft.flags = QUIRE_LAYER_DRAFT;
  draft.look_ahead = 2;
  return {{"full", plans::attention(4, 64)},
          {"window", windowed},
          {"window and sinks", sinks},
          {"chunked", chunked},
          {"latent", plans::latent(576)},
          {"latent window", latent_window},
          {"cross", cross},
          {"indexer", indexer},
          {"draft", draft},
          {"state", plans::state(3, 256, 8, 16, 32)}};
}

std::vector<quire_layer> alike(const quire_layer& layer) {
  std::vector<quire_layer> layers(kLayers, layer);
  for (uint32_t i = 0; i < kLayers; ++i) layers[i].layer = i;
  return layers;
}

// kLayers layers of a kind, and as many of full attention after them where they are mixed; one layer is changed.
std::vector<quire_layer> layers_of(const quire_layer& plain, bool mixed, const quire_layer& changed, uint32_t at) {
  std::vector<quire_layer> layers = alike(plain);
  layers[at] = changed;
  if (mixed) layers.insert(layers.end(), kLayers, plans::attention(4, 64));
  for (uint32_t i = 0; i < layers.size(); ++i) layers[i].layer = i;
  return layers;
}

bool covers(const LiveRange& table, const LiveRange& layer) {
  if (table.state != layer.state || table.fixed != layer.fixed) return false;
  if (table.everything()) return true;
  return table.window == layer.window && table.chunk == layer.chunk && table.sink >= layer.sink && table.retained >= layer.retained;
}

// What a view says of one layer's own bytes; where they lie is left out.
std::string own_bytes(const PlaceViews& views) {
  const quire_kv_view& kv = views.kv;
  std::string out;
  const auto put = [&out](uint64_t value) { out += std::to_string(value) + ","; };
  const auto type = [&](quire_dtype dtype) { put(dtype.code), put(dtype.bits), put(dtype.lanes); };
  for (const uint64_t value :
       {kv.num_sides, kv.num_heads, kv.head_dim[0], kv.head_dim[1], static_cast<uint32_t>(kv.codec), kv.tokens_per_row, kv.model_heads}) {
    put(value);
  }
  type(kv.dtype);
  const quire_codec_params& params = kv.codec_params;
  for (int side = 0; side < 2; ++side) put(params.data_bytes[side]), put(params.scale_bytes[side]), put(params.tail_bytes[side]);
  put(params.tile), put(params.block_alignment);
  for (const quire_state_view& state : views.states) {
    type(state.dtype);
    for (uint32_t k = 0; k < state.ndim; ++k) put(static_cast<uint64_t>(state.shape[k]));
  }
  return out;
}

struct Policy {
  const char* name;
  uint64_t flags;
};
constexpr Policy kPolicies[] = {{"vllm", 0}, {"vllm", QUIRE_PLAN_ONE_TABLE}, {"vllm", QUIRE_VLLM_UPSTREAM}, {"pack:2", 0}, {"pack:3", 0},
                                {"auto", 0}, {"auto", QUIRE_PLAN_CONTIGUOUS}};

Options options_of(const Policy& policy) {
  Options options(policy.name, plans::kGiB);
  options.raw.flags = policy.flags;
  return options;
}

void check_layers(const std::vector<quire_layer>& layers, const Model& model, const Config& config, const Policy& policy) {
  for (const CachePlace& place : config.places) {
    const quire_layer& own = layers[place.layer];
    const LayerCache& cache = model.caches()[place.cache];
    const GroupPlan& group = config.groups[place.group.value];
    EXPECT_TRUE(covers(group.live, cache.live)) << "layer " << place.layer << ": its table does not keep what it reads";
    if (policy.flags != QUIRE_PLAN_ONE_TABLE && policy.flags != QUIRE_VLLM_UPSTREAM) {
      EXPECT_EQ(group.live, cache.live) << "layer " << place.layer;
    }
    EXPECT_GE(group.encoder_tokens, own.kind == QUIRE_LAYER_CROSS ? own.encoder_tokens : 0) << "layer " << place.layer;
    if ((own.flags & QUIRE_LAYER_DRAFT) != 0) {
      EXPECT_GE(group.look_ahead, std::max(own.look_ahead, 1u)) << "layer " << place.layer;
    }
    auto only = Model::create(alike(own), 4096);
    ASSERT_TRUE(only.ok()) << only.status().message();
    auto uniform = plan(*only, options_of(policy).get());
    if (!uniform.ok()) continue;
    const size_t index = static_cast<size_t>(&place - config.places.data());
    EXPECT_EQ(own_bytes(config.shards[0].views[index]), own_bytes((*uniform)->shards[0].views[0])) << "layer " << place.layer;
  }
}

// Plans one changed model by every policy. Counts plans, and those of several groups.
void check_policies(const std::vector<quire_layer>& layers, uint32_t* planned, uint32_t* parted) {
  auto model = Model::create(layers, 4096);
  if (!model.ok()) return;  // not a field of this kind
  for (const Policy& policy : kPolicies) {
    SCOPED_TRACE(std::string("policy ") + policy.name + ", flags " + std::to_string(policy.flags));
    auto made = plan(*model, options_of(policy).get());
    if (!made.ok()) {
      EXPECT_FALSE(made.status().message().empty());
      continue;
    }
    ++*planned;
    *parted += (*made)->groups.size() > 1 ? 1 : 0;
    check_layers(layers, *model, **made, policy);
  }
}

TEST(LayerFields, AChangedFieldOfOneLayerNeverChangesWhatAnyLayerKeeps) {
  uint32_t planned = 0;
  uint32_t parted = 0;
  for (const auto& [kind, plain] : kinds()) {
    for (const Change& change : changes()) {
      quire_layer changed = plain;
      change.apply(&changed);
      for (const bool mixed : {false, true}) {
        for (const uint32_t at : kPlaces) {
          SCOPED_TRACE(std::string(kind) + (mixed ? " and full, " : ", ") + change.field + " of layer " + std::to_string(at));
          check_policies(layers_of(plain, mixed, changed, at), &planned, &parted);
        }
      }
    }
  }
  std::printf("%u plans, %u of several groups\n", planned, parted);
  EXPECT_GT(planned, 1700 * kPlaces.size());
  EXPECT_GT(parted, 334 * kPlaces.size());
}

// The case that returned wrong content: windows of one size, one of them with more tokens that stay.
TEST(LayerFields, WindowsThatKeepOtherSinksAreParted) {
  for (const char* policy : {"vllm", "pack:2", "auto"}) {
    for (const uint32_t width : {64u, 128u}) {
      quire_layer plain = plans::attention(4, 64, 256);
      quire_layer sinks = plans::attention(4, width, 256);
      sinks.sink_tokens = 16;
      auto model = Model::create(layers_of(plain, false, sinks, 3), 4096);
      ASSERT_TRUE(model.ok());
      const auto config = plans::planned(*model, Options(policy, plans::kGiB));
      ASSERT_GE(config->groups.size(), 2u) << policy;
      EXPECT_EQ(config->groups[config->find(3, 0)->group.value].live.sink, 16u) << policy;
      EXPECT_EQ(config->groups[config->find(0, 0)->group.value].live.sink, 0u) << policy;
    }
  }
}

// A layer that reads another's cache must not read beyond it.
TEST(LayerFields, AReaderOfAnotherEncoderLengthIsRefused) {
  quire_layer cross = plans::attention(4, 64);
  cross.kind = QUIRE_LAYER_CROSS;
  cross.encoder_tokens = 500;
  quire_layer reader = cross;
  reader.layer = 1;
  reader.shares_with = 1;
  EXPECT_TRUE(Model::create(std::vector{cross, reader}, 4096).ok());
  reader.encoder_tokens = 501;
  const auto refused = Model::create(std::vector{cross, reader}, 4096);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("shares_with"), std::string::npos) << refused.status().message();
}

}  // namespace
}  // namespace quire
