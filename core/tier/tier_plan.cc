#include "core/tier/tier_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/checked.h"
#include "core/events/block_hash.h"

namespace quire {
namespace {

// Objects of a unit have at least so many bytes over all ranks, within these lengths.
constexpr uint64_t kLeastBytes = uint64_t{1} << 20;
constexpr uint64_t kShortest = 64, kLongest = 4096;
constexpr uint64_t kMostTokens = uint64_t{1} << 16;  // or a grid that is coarser

}  // namespace

PrefixNames with_encoder(const PrefixNames& names, uint64_t tokens) {
  if (tokens == 0) return names;
  const auto with = [tokens](const PrefixName& name) {
    std::string bytes = "quire encoder 1";
    bytes.append(name.begin(), name.end());
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(tokens >> 8 * i);
    return BlockHasher::sha256(bytes).bytes;
  };
  return {with(names.own), with(names.ahead)};
}

Result<std::unique_ptr<TierPlan>> TierPlan::make(std::shared_ptr<const Config> config, std::string_view weights, uint64_t unit_tokens,
                                                 uint64_t max_object_bytes) {
  if (weights.empty()) return invalid("options.weights: empty; nothing else tells two models of one shape apart");
  if (!BlockHasher::has_sha256()) return fail(QUIRE_UNIMPLEMENTED, "tiers: this library was built without libcrypto (SHA-256)");
  std::unique_ptr<TierPlan> plan(new TierPlan(std::move(config)));
  QUIRE_RETURN_IF_ERROR(plan->make_parts());
  QUIRE_RETURN_IF_ERROR(plan->choose_unit(unit_tokens, max_object_bytes));
  plan->model_ = fingerprint_text(*plan->config_, weights);
  plan->fingerprint_ = fingerprint_of(plan->model_);
  return plan;
}

Status TierPlan::make_parts() {
  families_ = families_of(*config_);
  for (const GroupPlan& group : config_->groups) {
    if (group.live.fixed) most_encoder_ = most_encoder_ == 0 ? group.encoder_tokens : std::min(most_encoder_, group.encoder_tokens);
  }
  for (uint32_t s = 0; s < config_->shards.size(); ++s) {
    for (uint32_t f = 0; f < families_.size(); ++f) {
      const uint32_t g = families_[f].groups[0];
      const GroupPlan& group = config_->groups[g];
      TierPart part;
      part.shape = RecordShape::of(*config_, s, families_[f]);
      if (part.shape.members.empty()) continue;
      auto runs = RecordRuns::make(*config_, s, families_[f], part.shape);
      if (!runs.ok()) return runs.take_status();
      if (!runs->is_whole()) return fail(QUIRE_NOT_REPRESENTABLE, "tiers: blocks of group %u cannot be packed without holes", g);
      part.shard = s;
      part.family = f;
      part.columns = families_[f].columns;
      part.is_state = group.is_state();
      part.live = group.live;
      part.look_ahead = families_[f].look_ahead;
      part.block_tokens = part.is_state ? 0 : group.block_tokens;
      part.name = part_name(part.shape, part.live);
      part.runs = std::move(*runs);
      const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const TierPart& other) { return other.name == part.name; });
      part.twin = static_cast<uint32_t>(same - parts_.begin());
      has_states_ = has_states_ || part.is_state;
      look_ahead_ = std::max<uint64_t>(look_ahead_, part.look_ahead);
      parts_.push_back(std::move(part));
    }
  }
  return {};
}

Status TierPlan::check_no_cross_attention(const char* what) const {
  if (most_encoder_ == 0) return {};
  return fail(QUIRE_UNIMPLEMENTED, "%s, since the model has cross attention and a prompt does not identify the encoder's input", what);
}

bool TierPlan::ends_blocks(uint64_t tokens) const {
  const std::vector<GroupPlan>& groups = config_->groups;
  return std::all_of(groups.begin(), groups.end(),
                     [&](const GroupPlan& g) { return g.is_state() || g.live.fixed || tokens % g.block_tokens == 0; });
}

// A bound, wherever in a sequence the unit lies.
uint64_t TierPlan::largest_record() const {
  uint64_t most = 0;
  for (const TierPart& part : parts_) {
    uint64_t blocks = part.is_state ? 1 : unit_tokens_ / part.block_tokens;
    const uint64_t tail = part.live.chunk != 0 ? part.live.chunk : part.live.window;
    if (!part.is_state && tail != 0) {
      blocks = std::min(blocks,
                        ceil_div(tail, uint64_t{part.block_tokens}) + 1 + ceil_div(uint64_t{part.live.sink}, uint64_t{part.block_tokens}));
    }
    most = std::max(most, header_bytes(part.shape, blocks) + blocks * part.runs.block_bytes());
  }
  return most;
}

Status TierPlan::choose_unit(uint64_t unit_tokens, uint64_t max_object_bytes) {
  const bool is_chosen = unit_tokens == 0;
  grid_ = config_->hit_alignment_tokens;
  uint64_t whole = 1;                             // blocks of cross attention, which lie on another axis
  std::vector<uint64_t> bytes(families_.size());  // of a block, over all ranks
  double most = 0;                                // bytes of a token
  for (size_t p = 0; p < parts_.size(); ++p) {
    const TierPart& part = parts_[p];
    if (part.is_state) continue;
    uint64_t& of = part.live.fixed ? whole : grid_;
    of = std::lcm(of, uint64_t{part.block_tokens});
    if (part.twin == p) bytes[part.family] += part.runs.block_bytes();
    most = std::max(most, static_cast<double>(bytes[part.family]) / part.block_tokens);
  }
  whole = std::lcm(whole, grid_);
  if (unit_tokens == 0) {
    const double wanted = most > 0 ? static_cast<double>(kLeastBytes) / most : 256;
    const uint64_t tokens = std::bit_ceil(std::clamp<uint64_t>(static_cast<uint64_t>(wanted), kShortest, kLongest));
    unit_tokens = round_up(tokens, whole);
  }
  if (unit_tokens % whole != 0) {
    return invalid("options.unit_tokens: %llu, a multiple of %llu is wanted", static_cast<unsigned long long>(unit_tokens),
                   static_cast<unsigned long long>(whole));
  }
  const uint64_t longest = std::max(kMostTokens, whole);
  if (unit_tokens > longest) {
    return invalid("options.unit_tokens: %llu, at most %llu", static_cast<unsigned long long>(unit_tokens),
                   static_cast<unsigned long long>(longest));
  }
  unit_tokens_ = unit_tokens;
  if (most_encoder_ > 0) grid_ = 1;  // nobody else finds these blocks, so the last one may be begun
  if (max_object_bytes == 0) return {};
  while (is_chosen && largest_record() > max_object_bytes && unit_tokens_ > whole) unit_tokens_ = round_up(unit_tokens_ / 2, whole);
  if (largest_record() <= max_object_bytes) return {};
  return fail(is_chosen ? QUIRE_UNIMPLEMENTED : QUIRE_INVALID_ARGUMENT,
              "options.unit_tokens: a unit of %llu tokens has records of %llu bytes, a connector takes objects of at most %llu",
              static_cast<unsigned long long>(unit_tokens_), static_cast<unsigned long long>(largest_record()),
              static_cast<unsigned long long>(max_object_bytes));
}

std::array<BlockStretch, 2> TierPlan::stretches(const TierPart& part, uint64_t end, uint32_t block_tokens) const {
  if (part.is_state) return {BlockStretch{0, 1}, BlockStretch{}};
  const uint64_t first = unit_begin(end), bt = block_tokens;
  const uint64_t tail = std::max(first, part.live.tail_begin(end)), sink = std::min(part.live.sink, end);
  BlockStretch tails{std::min(tail, end) / bt, ceil_div(end, bt)}, sinks{first / bt, first / bt};
  if (tail >= end) tails.first = tails.end;
  if (sink > first) sinks.end = ceil_div(sink, bt);
  if (sinks.size() == 0) return {tails, BlockStretch{}};
  if (tails.size() == 0) return {sinks, BlockStretch{}};
  if (sinks.end >= tails.first) return {BlockStretch{sinks.first, std::max(sinks.end, tails.end)}, BlockStretch{}};
  return {sinks, tails};
}

uint64_t TierPlan::record_bytes(const TierPart& part, uint64_t end) const {
  const std::array<BlockStretch, 2> blocks = stretches(part, end);
  const uint64_t n = blocks[0].size() + blocks[1].size();
  return n == 0 ? 0 : header_bytes(part.shape, n) + n * part.runs.block_bytes();
}

RecordKey TierPlan::key(const TierPart& part, const PartName& name, uint64_t end, const PrefixNames& names) const {
  const uint64_t begin = part.is_state ? end : unit_begin(end);  // a state is the same whatever the unit's length
  return record_key(fingerprint_, name, begin, end, part.look_ahead > 0 ? names.ahead : names.own);
}

}  // namespace quire
