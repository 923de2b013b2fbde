// Runs between plans whose context-parallel ranks take turns, and between ranks that repeat groups of a state: bytes of every rank of one
// plan are copied by the runs into every rank of another, and each byte there is then what the view's own formula says it should be.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/layout/runs.h"
#include "core/model/dtype.h"
#include "core/plan/cache_config.h"
#include "core/plan/compare.h"

namespace quire {
namespace {

constexpr uint64_t kTokens = 200;

quire_layer token_layer(uint32_t index, quire_layer_kind kind, uint32_t heads, uint32_t width) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.layer = index;
  layer.num_kv_heads = heads;
  layer.head_dim_k = width;
  layer.head_dim_v = kind == QUIRE_LAYER_MLA ? 0 : width;
  layer.dtype = kBFloat16;
  return layer;
}

// Two groups: x is cut by heads; B and C by groups, which more ranks than groups repeat.
quire_layer grouped_state(uint32_t index) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_STATE;
  layer.layer = index;
  layer.state_kind = QUIRE_STATE_MAMBA2;
  layer.num_kv_heads = 2;
  layer.num_q_heads = 8;
  layer.num_state_tensors = 2;
  layer.dtype = kBFloat16;
  layer.state[0] = {kBFloat16, 2, {3, 32 + 2 * 8, 0, 0}};
  layer.state[1] = {kFloat32, 3, {8, 4, 4, 0}};
  layer.state_shard[0] = 2;
  layer.state_shard[1] = 1;
  layer.state_parts[0] = 32;
  layer.state_parts[1] = layer.state_parts[2] = 8;
  return layer;
}

struct Wish {
  uint32_t tensor = 1;
  uint32_t turns = 1;
  uint32_t block = 16;
  const char* policy = "auto";
};

std::shared_ptr<const Config> planned(const std::vector<quire_layer>& layers, const Wish& wish) {
  const auto model = Model::create(layers, 4096);
  EXPECT_TRUE(model.ok()) << model.status().message();
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {wish.policy, std::char_traits<char>::length(wish.policy)};
  options.tensor_parallel = wish.tensor;
  options.context_parallel = wish.turns;
  options.block_tokens = wish.block;
  options.num_pages = 300;
  options.max_model_len = 1024;
  options.max_tokens_in_flight = 64;
  auto made = plan(model.value(), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? *made : nullptr;
}

using Bytes = std::map<uint64_t, uint8_t>;  // of one shard, by region << 48 | offset

uint64_t at(uint32_t region, uint64_t offset) { return uint64_t{region} << 48 | offset; }
uint8_t value_of(uint64_t token, uint64_t head, uint64_t side, uint64_t byte) {
  return static_cast<uint8_t>(1 + (token * 7919 + head * 104729 + side * 31 + byte * 17) % 255);
}

// Ids of the sequence: a page of its own for every block, the fullest part of it.
std::vector<int32_t> ids_of(const Config& config, const quire_kv_view& view) {
  const GroupPlan& group = config.groups[view.group];
  std::vector<int32_t> ids;
  for (uint64_t block = 0; block * group.block_tokens < kTokens; ++block) {
    ids.push_back(static_cast<int32_t>((block + 1) * group.parts_per_page + group.parts_per_page - 1));
  }
  return ids;
}

// Every byte of the view's own rows, by the formula of the header.
template <typename Visit>
void walk(const Config& config, const quire_kv_view& view, Visit&& visit) {
  const std::vector<int32_t> ids = ids_of(config, view);
  const uint64_t per_id = uint64_t{view.block_tokens} * view.kernel_blocks_per_part;
  const uint64_t parts = view.blocks_per_page / view.kernel_blocks_per_part;
  for (uint64_t row = 0; row * view.context_ranks + view.context_rank < kTokens; ++row) {
    const uint64_t token = row * view.context_ranks + view.context_rank;
    const auto id = static_cast<uint64_t>(ids[row / per_id]);
    const uint64_t j = id % parts * view.kernel_blocks_per_part + row % per_id / view.block_tokens;
    for (uint32_t side = 0; side < view.num_sides; ++side) {
      for (uint32_t head = 0; head < view.num_heads; ++head) {
        for (uint32_t byte = 0; byte < view.head_dim[side] * 2; ++byte) {
          const int64_t offset = view.offset[side] + static_cast<int64_t>(id / parts) * view.stride_page[side] +
                                 static_cast<int64_t>(j) * view.stride_block[side] +
                                 static_cast<int64_t>(row % view.block_tokens) * view.stride_token[side] + head * view.stride_head[side] +
                                 byte / 2 * view.stride_dim[side] + byte % 2;
          visit(at(view.region, static_cast<uint64_t>(offset)), value_of(token, view.first_head + head, side, byte));
        }
      }
    }
  }
}

void copy(const std::vector<quire_run>& runs, const Bytes& from, Bytes* to, uint64_t* copied) {
  for (const quire_run& run : runs) {
    for (uint64_t n = 0; n < run.count; ++n) {
      for (uint64_t i = 0; i < run.bytes; ++i) {
        const auto source = from.find(at(run.from_region, run.from_offset + n * static_cast<uint64_t>(run.from_stride) + i));
        ASSERT_NE(source, from.end()) << "a run reads what no row keeps";
        (*to)[at(run.to_region, run.to_offset + n * static_cast<uint64_t>(run.to_stride) + i)] = source->second;
        ++*copied;
      }
    }
  }
}

void expect_moves(const Config& a, const Config& b, size_t place, bool once) {
  for (size_t t = 0; t < b.shards.size(); ++t) {
    const quire_kv_view& to = b.shards[t].views[place].kv;
    Bytes got;
    uint64_t copied = 0;
    for (const ShardPlan& shard : a.shards) {
      const quire_kv_view& from = shard.views[place].kv;
      Bytes bytes;
      walk(a, from, [&](uint64_t where, uint8_t value) { bytes[where] = value; });
      std::vector<quire_run> runs;
      const std::vector<int32_t> from_ids = ids_of(a, from);
      const std::vector<int32_t> to_ids = ids_of(b, to);
      const Status status = append_runs({&from, from_ids, "from"}, {&to, to_ids, "to"}, 0, kTokens, &runs);
      ASSERT_TRUE(status.ok()) << status.message();
      copy(runs, bytes, &got, &copied);
    }
    uint64_t expected = 0;
    walk(b, to, [&](uint64_t where, uint8_t value) {
      ASSERT_EQ(got.count(where), 1u) << "shard " << t;
      ASSERT_EQ(got[where], value) << "shard " << t;
      ++expected;
    });
    ASSERT_EQ(got.size(), expected) << "a run writes where no row lies";
    EXPECT_TRUE(!once || copied == expected) << copied << " bytes written, each of " << expected << " once";
  }
}

TEST(Turns, RowsFindTheirRank) {
  const std::vector<quire_layer> layers{token_layer(0, QUIRE_LAYER_FULL, 4, 8), token_layer(1, QUIRE_LAYER_MLA, 1, 24)};
  const std::vector<Wish> wishes{{1, 1, 16, "auto"}, {1, 2, 16, "auto"}, {2, 3, 32, "vllm"}, {4, 2, 16, "vllm"}, {1, 6, 16, "auto"}};
  for (const Wish& x : wishes) {
    for (const Wish& y : wishes) {
      SCOPED_TRACE("TP" + std::to_string(x.tensor) + " CP" + std::to_string(x.turns) + " to TP" + std::to_string(y.tensor) + " CP" +
                   std::to_string(y.turns));
      const auto a = planned(layers, x);
      const auto b = planned(layers, y);
      ASSERT_TRUE(a != nullptr && b != nullptr);
      expect_moves(*a, *b, 0, true);
      expect_moves(*a, *b, 1, x.tensor == 1);  // latent rows are in every tensor-parallel rank
      EXPECT_LE(compare(*a, *b).level, QUIRE_COMPAT_REARRANGED) << compare(*a, *b).reason;
    }
  }
}

TEST(Turns, AViewSaysItsRank) {
  const auto config = planned({token_layer(0, QUIRE_LAYER_FULL, 4, 8)}, {2, 3, 16, "auto"});
  for (uint32_t s = 0; s < 6; ++s) {
    EXPECT_EQ(config->shards[s].views[0].kv.context_rank, s % 3);
    EXPECT_EQ(config->shards[s].views[0].kv.context_ranks, 3u);
    EXPECT_EQ(config->shards[s].views[0].kv.first_head, s / 3 * 2);
  }
  quire_kv_view wrong = config->shards[0].views[0].kv;
  wrong.context_rank = 3;
  EXPECT_NE(check_view(wrong, "from").message().find("from.context_rank = 3; must be 0..2"), std::string::npos);
}

// The number of an element of a state in the whole model, whatever rank holds it.
uint64_t whole_row(const quire_state_view& view, uint64_t row) {
  uint64_t begin = 0;
  uint64_t own = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint64_t extent = view.shard_parts[k] / view.num_ranks;
    if (row < own + extent) return begin + extent * (view.rank / view.shard_repeats[k]) + row - own;
    own += extent;
    begin += view.shard_parts[k] / std::max(view.shard_repeats[k], 1u);
  }
  return view.rank * view.shape[view.shard_dim - 1] + row;
}

TEST(Turns, RepeatedGroupsMoveBetweenDegrees) {
  const std::vector<quire_layer> layers{token_layer(0, QUIRE_LAYER_FULL, 4, 8), grouped_state(1)};
  for (const auto& [x, y] : std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}, {1, 4}, {4, 1}, {2, 8}, {8, 4}}) {
    SCOPED_TRACE("TP" + std::to_string(x) + " to TP" + std::to_string(y));
    const auto a = planned(layers, {x, 1, 16, "auto"});
    const auto b = planned(layers, {y, 1, 16, "auto"});
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(compare(*a, *b).level, static_cast<uint32_t>(QUIRE_COMPAT_REARRANGED)) << compare(*a, *b).reason;
    for (size_t t = 0; t < b->shards.size(); ++t) {
      for (size_t i = 0; i < 2; ++i) {
        const auto walk_state = [&](const quire_state_view& view, auto&& visit) {
          const uint32_t dim = view.shard_dim - 1;
          uint64_t count = 1;
          for (uint32_t k = 0; k < view.ndim; ++k) count *= view.shape[k];
          for (uint64_t n = 0; n < count; ++n) {
            uint64_t rest = n;
            uint64_t name = 0;
            uint64_t offset = static_cast<uint64_t>(view.offset) + static_cast<uint64_t>(view.stride_page);
            for (uint32_t k = view.ndim; k-- > 0; rest /= view.shape[k]) {
              const uint64_t index = rest % view.shape[k];
              offset += index * static_cast<uint64_t>(view.stride[k]);
              name = name * 1009 + (k == dim ? whole_row(view, index) : index);
            }
            visit(at(view.region, offset), value_of(name, 0, i, 0));
          }
        };
        const quire_state_view& to = b->shards[t].views[1].states[i];
        std::map<uint64_t, uint8_t> got;
        for (const ShardPlan& shard : a->shards) {
          const quire_state_view& from = shard.views[1].states[i];
          Bytes bytes;
          walk_state(from, [&](uint64_t where, uint8_t value) { bytes[where] = value; });
          std::vector<quire_run> runs;
          const Status status =
              append_state_runs(from, static_cast<int32_t>(from.parts_per_page), to, static_cast<int32_t>(to.parts_per_page), &runs);
          ASSERT_TRUE(status.ok()) << status.message();
          for (const quire_run& run : runs) {
            for (uint64_t n = 0; n < run.count; ++n) {
              for (uint64_t k = 0; k < run.bytes; ++k) {
                const auto it = bytes.find(at(run.from_region, run.from_offset + n * static_cast<uint64_t>(run.from_stride) + k));
                if (it != bytes.end()) got[at(run.to_region, run.to_offset + n * static_cast<uint64_t>(run.to_stride) + k)] = it->second;
              }
            }
          }
        }
        walk_state(to, [&](uint64_t where, uint8_t value) {
          ASSERT_EQ(got.count(where), 1u) << "shard " << t << " tensor " << i;
          ASSERT_EQ(got[where], value) << "shard " << t << " tensor " << i;
        });
      }
    }
  }
}

}  // namespace
}  // namespace quire
