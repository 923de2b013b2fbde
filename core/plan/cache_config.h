// The plan: groups, pages, blocks and where every byte lies, for all shards. Immutable after creation; everything later only reads it.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/layout/layout.h"
#include "core/model/live_range.h"
#include "core/model/model_layers.h"

namespace quire {

// One cached (layer, sub) and its place. A layer that reads another's cache has the place of that cache.
struct CachePlace {
  uint32_t layer = 0;
  uint32_t sub = 0;
  uint32_t cache = 0;  // index into Model::caches()
  GroupId group;
  uint32_t lane = 0;
  uint32_t index_in_lane = 0;
  uint32_t column = 0;      // which id of the block addresses it
  uint32_t stage = 0;       // pipeline stage
  uint32_t look_ahead = 0;  // tokens that a draft layer writes ahead
  LiveRange live;           // what the layer computes with; its group may keep more
};

// Layers with one live range, token axis, look-ahead and residence. A block is ids_per_block parts; a page holds parts_per_page parts.
struct GroupPlan {
  LiveRange live;
  uint32_t block_tokens = 0;            // states: spacing of boundaries at which a checkpoint can be kept
  uint32_t kernel_block_tokens = 0;     // rows behind one lowered id
  uint32_t kernel_blocks_per_part = 1;  // r
  uint32_t parts_per_page = 1;
  uint32_t ids_per_block = 1;  // columns
  uint32_t num_lanes = 1;
  uint32_t look_ahead = 0;               // the most of its layers
  uint64_t encoder_tokens = 0;           // cross attention: most of a request
  uint64_t payload_bytes_per_block = 0;  // of the stage with the group's layers that pads most
  uint64_t page_bytes_per_block = 0;     // of the same stage, padding included
  std::string order;                     // layout letters
  std::vector<uint32_t> places;          // into Config::places, lane by lane; each cache once

  bool is_state() const { return live.state; }
  // Whether what a draft layer writes here for a token depends on tokens after it.
  bool reads_ahead() const { return !live.state && !live.fixed && live.chunk == 0; }
  // Of a sequence that may reach so many tokens.
  uint64_t table_blocks(uint64_t tokens) const {
    const uint64_t n = live.fixed ? encoder_tokens : tokens;
    return n / block_tokens + (n % block_tokens != 0 ? 1 : 0);
  }
  // Lowered ids of the longest table row, of whole blocks; none of states.
  uint64_t table_pitch(uint64_t max_model_len) const {
    return is_state() ? 0 : table_blocks(max_model_len + look_ahead) * (block_tokens / kernel_block_tokens);
  }
};

struct ShardPlan {
  uint64_t page_bytes = 0;  // of all regions together
  std::vector<quire_region_info> regions;
  std::vector<quire_lowering> lowering;  // by group
  std::vector<PlaceViews> views;         // by place
};

// Shard = pipeline stage * tensor_parallel + tensor rank.
struct Config {
  std::string policy;
  std::vector<GroupPlan> groups;
  std::vector<CachePlace> places;
  std::vector<ShardPlan> shards;
  uint32_t match_unit_tokens = 0;     // gcd of the block_tokens of groups that grow with the sequence: the index works in these
  uint32_t hit_alignment_tokens = 0;  // a hit is a multiple of this: their lcm; at most 2^31 - 1
  uint64_t checkpoint_tokens = 0;     // spacing at which states are worth keeping; 0 = wherever a chunk ends on a boundary
  uint64_t num_pages = 0;             // null page included
  uint64_t max_model_len = 0;
  uint64_t max_tokens_in_flight = 0;
  uint32_t context_parallel = 1;  // token s of a row of tokens is on rank s % context_parallel
  bool prefix_reuse = true;
  double padding_share = 0;
  uint64_t capacity_tokens = 0;
  uint64_t kv_cache_tokens = 0;  // the pool in tokens, as other engines print it
  std::string explanation_json;  // describe_json

  const CachePlace* find(uint32_t layer, uint32_t sub) const;
};

// Payload runs of one id of (group, column) in one shard, merged and in address order. Errors: OUT_OF_RANGE naming the index.
Result<std::vector<quire_segment>> list_segments(const Config& config, uint32_t shard, uint32_t group, uint32_t column, int32_t id);

// Plans a model. Borrowed arguments; pure: equal input gives an equal plan. Errors as quire_config_create.
Result<std::shared_ptr<const Config>> plan(const Model& model, const quire_plan_options& options);

}  // namespace quire
