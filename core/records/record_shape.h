// What one record holds and how its payload is arranged: which caches of the model, which heads or
// slices of them, and an order of letters. A payload is a row of record blocks without padding
// between them. Everything else follows from the model, so a shape is small enough to travel with
// every record, and a reader computes views from it.
#pragma once

#include <quire/config.h>
#include <compare>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/layout/layout.h"
#include "core/plan/cache_config.h"

namespace quire {

// The slice of one state tensor; see quire_state_view.
struct StateSlice {
  uint32_t num_ranks = 1, rank = 0;
  std::array<uint32_t, 4> parts{}, repeats{};
  std::array<uint64_t, 4> shape{};

  bool operator==(const StateSlice&) const = default;
};

// What caches that are cut alike have in common.
struct CacheSlice {
  // Token caches: heads, and rows of a kernel block.
  uint32_t first_head = 0, num_heads = 0, rows = 0;
  uint32_t context_rank = 0, context_ranks = 1;
  std::vector<StateSlice> tensors;  // states

  bool operator==(const CacheSlice&) const = default;
};

struct RecordMember {
  uint32_t layer = 0, sub = 0;
  uint32_t slice = 0;  // index

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that it ends in for a pointer
  auto operator<=>(const RecordMember&) const = default;
};

// Caches that travel in one record: those of one live range and look-ahead, in all groups whose
// blocks and kernel blocks have one length. Policies divide the layers of a live range into groups
// in different ways, and some put drafts into the groups of other layers: a record must not depend
// on that.
struct RecordFamily {
  std::vector<uint32_t> groups;  // increasing; at least one
  uint32_t columns = 0;          // of all of them
  uint32_t look_ahead = 0;       // of its layers; 0 where nothing depends on tokens after

  // Whether a cache of one of its groups is one of its own: families can share groups.
  bool has(const Config& config, const CachePlace& place) const;
};

// Every cache of the config is in one of them.
std::vector<RecordFamily> families_of(const Config& config);

// The order of a record by kernel blocks, and in each of them layer by layer, of one in any order:
// layers whose rows differ have no other one in common.
std::string layer_by_layer(const std::string& order);

struct RecordShape {
  std::string order;  // letters: B, then those of one record block
  bool is_state = false;
  uint32_t kernel_blocks = 1;  // of a record block
  std::vector<CacheSlice> slices;
  std::vector<RecordMember> members;  // in the order of the payload

  bool operator==(const RecordShape&) const = default;
  // The family's caches on one shard, group after group. Those of one group are arranged as its
  // pages are; of several, layer by layer in each kernel block. No members: the shard has none.
  static RecordShape of(const Config& config, uint32_t shard, const RecordFamily& family);

  void encode(std::vector<uint8_t>* out) const;
  uint64_t encoded_bytes() const;  // that it appends
  // Untrusted bytes. Errors: DATA_LOSS.
  static Result<RecordShape> decode(std::span<const uint8_t> bytes);
};

// The views of a record: of one region, in which id i is record block i + 1. (Id 0 names no block
// in views, so the first block's bytes begin at -block_bytes.)
struct RecordViews {
  uint64_t block_bytes = 0;
  uint32_t block_tokens = 0;        // of the sequence; states: 0
  std::vector<PlaceViews> members;  // as in the shape

  // Of a shape whose caches the config has; other heads and slices than any of its shards are
  // fine. Errors: INCOMPATIBLE (a cache that the config lacks, or rows of another shape),
  // NOT_REPRESENTABLE.
  static Result<RecordViews> make(const Config& config, const RecordShape& shape);
};

}  // namespace quire
