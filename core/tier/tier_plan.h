// Which records a boundary of a sequence needs, and how they are named: what follows from the plan,
// the model and the name of the weights. Immutable.
//
// A unit ends at a multiple of unit_tokens, or where a state was kept. For every part, a family of
// groups on a shard, it has at most one record. A record of groups that need only a part of the
// tokens has those that resuming at its end needs. So resuming anywhere needs, of each unit before
// it, no more than its records have.
//
// The tokens of an encoder, which cross attention reads, are cut into units like those of a prompt.
// They do not follow from the prompt, so their records are named by the empty one. Only the reader
// of an offer may ask for them: it knows whose they are.
#pragma once

#include <quire/hold.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/model/live_range.h"
#include "core/plan/cache_config.h"
#include "core/records/record_header.h"
#include "core/records/record_key.h"
#include "core/records/record_runs.h"

namespace quire {

// A family on a shard.
struct TierPart {
  uint32_t shard = 0, family = 0;
  bool is_state = false;
  LiveRange live;
  uint32_t look_ahead = 0;
  uint32_t block_tokens = 0;  // of its groups; states: 0
  uint32_t columns = 0;       // the same
  RecordShape shape;
  PartName name{};
  RecordRuns runs;
  // The first part whose records are the same: ranks can hold the same heads.
  uint32_t twin = 0;
};

// The names of a prefix at one length.
struct PrefixNames {
  PrefixName own{};    // of the tokens
  PrefixName ahead{};  // and of those that drafts read ahead
};
// The names of the same where an encoder has so many tokens: nobody takes what was computed with it
// for what was computed without. 0: as they are.
PrefixNames with_encoder(const PrefixNames& names, uint64_t tokens);

class TierPlan {
 public:
  // unit_tokens: 0 = chosen. max_object_bytes: of a record, 0 = any. Errors: INVALID_ARGUMENT;
  // NOT_REPRESENTABLE (records would have holes); UNIMPLEMENTED (no unit is short enough).
  static Result<std::unique_ptr<TierPlan>> make(std::shared_ptr<const Config> config,  // kept
                                                std::string_view weights, uint64_t unit_tokens, uint64_t max_object_bytes);

  const Config& config() const { return *config_; }
  std::span<const TierPart> parts() const { return parts_; }
  std::span<const RecordFamily> families() const { return families_; }
  uint64_t unit_tokens() const { return unit_tokens_; }
  uint64_t look_ahead() const { return look_ahead_; }  // tokens, the most of all groups
  bool has_states() const { return has_states_; }
  uint64_t most_encoder() const { return most_encoder_; }  // tokens; 0: there is no cross attention
  // UNIMPLEMENTED if it has cross attention. what: begins the message.
  Status check_no_cross_attention(const char* what) const;
  uint64_t grid() const { return grid_; }  // boundaries are its multiples; with cross attention 1
  const Fingerprint& fingerprint() const { return fingerprint_; }
  const std::string& model() const { return model_; }  // what it is of, as text

  // The unit that ends at or holds the last token before `end` begins here.
  uint64_t unit_begin(uint64_t end) const { return end == 0 ? 0 : (end - 1) / unit_tokens_ * unit_tokens_; }
  // Whether blocks of all groups end there.
  bool ends_blocks(uint64_t tokens) const;
  // Visits the ends of units of so many tokens: visit(end).
  template <typename Visit>
  void each_unit(uint64_t tokens, Visit visit) const {
    for (uint64_t end = unit_tokens_; end < tokens; end += unit_tokens_) visit(end);
    if (tokens > 0) visit(tokens);
  }
  // Blocks of the record of the unit that ends at `end`: sinks and tail. Both empty: no record.
  using Stretches = std::array<BlockStretch, 2>;
  Stretches stretches(const TierPart& part, uint64_t end) const {
    return stretches(part, end, part.block_tokens);  // as they are here
  }
  // The same in blocks of another length.
  Stretches stretches(const TierPart& part, uint64_t end, uint32_t block_tokens) const;
  // Bytes of that record.
  uint64_t record_bytes(const TierPart& part, uint64_t end) const;
  RecordKey key(const TierPart& part, const PartName& name,  // its own, or that of other heads
                uint64_t end, const PrefixNames& names) const;

 private:
  explicit TierPlan(std::shared_ptr<const Config> config) : config_(std::move(config)) {}

  Status make_parts();
  Status choose_unit(uint64_t unit_tokens, uint64_t max_object_bytes);
  uint64_t largest_record() const;  // bytes

  std::shared_ptr<const Config> config_;
  std::vector<RecordFamily> families_;
  std::vector<TierPart> parts_;
  uint64_t unit_tokens_ = 0, look_ahead_ = 0, grid_ = 1;
  bool has_states_ = false;
  uint64_t most_encoder_ = 0;
  std::string model_;
  Fingerprint fingerprint_{};
};

}  // namespace quire
