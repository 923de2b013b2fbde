// Holds and reports of units: quire/hold.h.
#include <algorithm>
#include <mutex>

#include "core/events/block_hash.h"
#include "core/prefix/identity.h"
#include "core/step/cache_impl.h"

namespace quire {
namespace {

// Of a group that does not need everything: whether resuming at `resume` needs this block, or the state at `end`.
bool is_needed(const GroupFacts& group, uint32_t block, uint64_t end, uint64_t resume) {
  if (group.state) return end == resume;
  const Stretch passed = group.passed_blocks(resume);
  return block < passed.first || block >= passed.end;
}

}  // namespace

Result<quire_hold_id> Cache::hold_begin(SequenceId id, uint64_t first, uint64_t end, uint64_t resume, uint64_t encoder) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  const uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  const Sequence& s = m.sequences.at(q);
  if (s.loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  if (m.states.overwrites_current(q) && (resume == 0 || resume == end)) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: a step in flight writes its state in place; commit that step first");
  }
  if (first > end || end > s.committed) {
    return fail(QUIRE_OUT_OF_RANGE, "tokens: [%llu, %llu), the sequence has %llu committed", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(end), static_cast<unsigned long long>(s.committed));
  }
  if (encoder != 0 && (s.committed == 0 || encoder != s.encoder)) {
    return fail(QUIRE_OUT_OF_RANGE, "encoder: %llu tokens, the sequence has %u", static_cast<unsigned long long>(encoder),
                s.committed == 0 ? 0 : s.encoder);
  }
  NodeId node = s.node;
  while (m.index.tokens(node) > end) node = m.index.parent(node);
  const auto head_of = [&](uint32_t g, uint32_t block) {
    const GroupFacts& group = m.facts.groups[g];
    if (!group.state && !group.grows) return m.blocks.committed_head(q, g, block);  // the encoder's: written once
    if (resume != 0 && !group.whole && !is_needed(group, block, end, resume)) return PartIndex(kNone);
    if (group.state) {
      if (end == s.committed) return m.sequences.holding(q, g).current;
      return end > 0 && m.facts.reuse && m.index.tokens(node) == end ? m.index.block_at(node, GroupId(g)) : PartIndex(kNone);
    }
    if (block >= m.sequences.holding(q, g).num_blocks) return PartIndex(kNone);
    const PartIndex head = m.blocks.committed_head(q, g, block);
    const bool whole = (uint64_t{block} + 1) * group.block_tokens <= s.committed;
    if (!whole && head.value != kNone) m.blocks.share_unfinished(q, g, block, head);
    return head;
  };
  const quire_hold_id hold = m.holds.make(first, end, false, head_of, encoder);
  if (hold == 0) return fail(QUIRE_RESOURCE_EXHAUSTED, "holds: all %u are taken or reserved for units", Holds::kMostHolds);
  return hold;
}

Status Cache::hold_end(quire_hold_id hold) {
  std::unique_lock lock(impl_->mutex);
  return impl_->holds.end(hold);
}

Status Cache::hold_info(quire_hold_id hold, quire_hold_info* info) const {
  std::shared_lock lock(impl_->mutex);
  return impl_->holds.info(hold, info);
}

Status Cache::hold_ids(quire_hold_id hold, uint32_t group, std::span<int32_t> ids, uint64_t* count) const {
  std::shared_lock lock(impl_->mutex);
  return impl_->holds.ids(hold, group, ids, count);
}

Status Cache::watch_units(const quire_unit_options* options) {
  std::unique_lock lock(impl_->mutex);
  if (options == nullptr) return impl_->units.watch({});
  if (options->reasons == 0) return invalid("options.reasons: none");
  if (options->reserved0 != 0) return invalid("options.reserved0: must be 0");
  return impl_->units.watch(*options);
}

uint64_t Cache::take_units(std::span<quire_unit> out) {
  std::unique_lock lock(impl_->mutex);
  return impl_->units.take(out);
}

namespace {

Status check_ends(std::span<const uint64_t> ends, uint64_t num_symbols) {
  if (!BlockHasher::has_sha256()) return fail(QUIRE_UNIMPLEMENTED, "digests: this library was built without libcrypto (SHA-256)");
  uint64_t before = 0;
  for (size_t i = 0; i < ends.size(); before = ends[i++]) {
    if (ends[i] >= before && ends[i] <= num_symbols) continue;
    return fail(QUIRE_OUT_OF_RANGE, "ends[%zu]: %llu, the one before is %llu and there are %llu symbols", i,
                static_cast<unsigned long long>(ends[i]), static_cast<unsigned long long>(before),
                static_cast<unsigned long long>(num_symbols));
  }
  return {};
}

}  // namespace

Status Cache::prefix_digests(const quire_identity* identity, std::span<const quire_symbol> symbols, std::span<const uint64_t> ends,
                             uint8_t* digests) const {
  QUIRE_RETURN_IF_ERROR(check_ends(ends, symbols.size()));
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  std::shared_lock lock(impl_->mutex);
  if (!impl_->media.check_symbols(symbols, 0).ok()) {
    return invalid("symbols: %u is neither a token id below 2^31 nor a media symbol given out so far",
                   *std::max_element(symbols.begin(), symbols.end()));
  }
  impl_->units.digests(encoded->bytes(), symbols, ends, digests);
  return {};
}

Status Cache::sequence_digests(SequenceId id, std::span<const quire_symbol> symbols, std::span<const uint64_t> ends, uint8_t* digests,
                               std::string* identity) const {
  QUIRE_RETURN_IF_ERROR(check_ends(ends, symbols.size()));
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  const uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  QUIRE_RETURN_IF_ERROR(m.media.check_symbols(symbols, 0));
  const std::string_view own = m.index.root_identity(m.sequences.at(q).root);
  m.units.digests(own, symbols, ends, digests);
  if (identity != nullptr) identity->assign(own);
  return {};
}

Status Cache::sequence_probe(SequenceId id, std::span<const quire_symbol> symbols, quire_probe_result* result) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  const uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  const Sequence& s = m.sequences.at(q);
  Match match;
  match.miss = QUIRE_MISS_DISABLED;
  if (m.facts.reuse && (s.flags & QUIRE_SEQUENCE_NO_MATCH) == 0) match = m.index.match(s.root, symbols);
  result->miss = match.miss;
  result->hit_tokens = match.hit_tokens;
  result->full_hit_tokens = match.full_hit_tokens;
  return {};
}

}  // namespace quire
