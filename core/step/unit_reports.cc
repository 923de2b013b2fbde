#include "core/step/unit_reports.h"
#include "core/events/block_hash.h"

#include <algorithm>
#include <numeric>

namespace quire {

Status UnitReports::watch(const quire_unit_options& options) {
  constexpr uint32_t kAll = QUIRE_UNIT_COMMITTED | QUIRE_UNIT_HIT | QUIRE_UNIT_FINISHED | QUIRE_UNIT_EVICTING;
  if ((options.reasons & ~kAll) != 0) return invalid("options.reasons: unknown bits in 0x%x", options.reasons);
  if (options.reasons == 0) {
    give_up_waiting();
    holds_.reserve(0, 0);
    near_eviction_.end();
    options_ = options;
    return {};
  }
  if (!facts_.reuse) return fail(QUIRE_FAILED_PRECONDITION, "units: the cache has no prefix reuse");
  if (!BlockHasher::has_sha256()) return fail(QUIRE_UNIMPLEMENTED, "units: this library was built without libcrypto (SHA-256)");
  uint64_t grid = facts_.config->hit_alignment_tokens, look_ahead = 0;
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    if (facts_.groups[g].grows) grid = std::lcm(grid, uint64_t{facts_.groups[g].block_tokens});
    look_ahead = std::max<uint64_t>(look_ahead, facts_.groups[g].look_ahead);
  }
  if (options.unit_tokens == 0 || options.unit_tokens % grid != 0 || options.unit_tokens > uint64_t{1} << 24) {
    return invalid("options.unit_tokens: %llu, a multiple of %llu up to 2^24 is wanted",
                   static_cast<unsigned long long>(options.unit_tokens), static_cast<unsigned long long>(grid));
  }
  const bool evicting = (options.reasons & QUIRE_UNIT_EVICTING) != 0;
  if (evicting && look_ahead > 0) {
    return fail(QUIRE_UNIMPLEMENTED, "options.reasons: QUIRE_UNIT_EVICTING, and a group looks %llu tokens ahead",
                static_cast<unsigned long long>(look_ahead));
  }
  constexpr uint32_t kMostWaiting = Holds::kMostHolds / 4;  // half of all holds are others'
  if (options.max_waiting > kMostWaiting) return invalid("options.max_waiting: %u, at most %u", options.max_waiting, kMostWaiting);
  const uint32_t most = options.max_waiting != 0 ? options.max_waiting : 1024;
  std::vector<Waiting> waiting(most);
  std::vector<Text> texts(sequences_.capacity());
  std::vector<NodeId> path;
  path.reserve(facts_.config->max_model_len / facts_.config->match_unit_tokens + 1);
  decltype(ends_) ends;
  ends.reserve(most);
  if (evicting) near_eviction_.reserve(options.unit_tokens);
  holds_.reserve(2 * most, options.unit_tokens);
  // From here on nothing fails.
  give_up_waiting();
  evicting ? near_eviction_.begin(options.unit_tokens) : near_eviction_.end();
  waiting_.swap(waiting);
  texts_.swap(texts);
  path_.swap(path);
  ends_.swap(ends);
  for (Text& text : texts_) text.number = ++num_texts_;
  first_ = end_ = 0;
  look_ahead_ = look_ahead;
  options_ = options;
  return {};
}

void UnitReports::let_go(const Waiting& unit) {
  (void)holds_.end(unit.hold);
  if (unit.reason == QUIRE_UNIT_EVICTING) {
    near_eviction_.forget(unit.node);
    --num_cold_;
  }
  leave(unit.node);
}

void UnitReports::leave(NodeId node) {
  const uint32_t root = index_.root_of(node);
  index_.drop(node);
  index_.close_root(root);
}

void UnitReports::give_up_oldest() {
  let_go(slot(first_++));
  ++num_given_up_;
}

bool UnitReports::give_up_waiting() {
  const bool any = any_waiting();
  while (any_waiting()) give_up_oldest();
  return any;
}

bool UnitReports::has_states(NodeId node) const {
  const auto has = [&](uint32_t g) { return index_.block_at(node, GroupId(g)).value != kNone; };
  return facts_.has_states && std::all_of(facts_.state_groups.begin(), facts_.state_groups.end(), has);
}

void UnitReports::note(uint32_t q, NodeId node, uint64_t end, quire_unit_reason reason) {
  const uint64_t first = (end - 1) / options_.unit_tokens * options_.unit_tokens;
  if (end_ - first_ == waiting_.size()) give_up_oldest();
  const auto head_of = [&](uint32_t g, uint32_t block) {
    const GroupFacts& group = facts_.groups[g];
    if (group.state) return index_.block_at(node, GroupId(g));
    if ((uint64_t{block} + 1) * group.block_tokens <= end) return blocks_.block_head(q, g, block);
    // Only an unfinished block can have been replaced by a later row in flight.
    const PartIndex head = blocks_.committed_head(q, g, block);
    if (head.value != kNone) blocks_.share_unfinished(q, g, block, head);
    return head;
  };
  const quire_hold_id hold = holds_.make(first, end, true, head_of);
  if (hold == 0) {  // those who took units have not ended their holds
    ++num_given_up_;
    return;
  }
  add(Waiting{hold, sequences_.id(q), texts_[q].number, node, first, end, reason, has_states(node)});
}

void UnitReports::add(const Waiting& unit) {
  index_.ref_root(index_.root_of(unit.node));
  index_.hold(unit.node);
  slot(end_++) = unit;
}

// The block of a unit that begins at `first` and ends at the node, whose path from there on path_ has.
PartIndex UnitReports::cached_head(uint32_t g, uint32_t block, uint64_t first, NodeId node) const {
  const GroupFacts& group = facts_.groups[g];
  if (group.state) return index_.block_at(node, GroupId(g));
  const uint64_t end = (uint64_t{block} + 1) * group.block_tokens;
  if (end <= index_.tokens(node)) return index_.block_at(path_[(end - first) / facts_.config->match_unit_tokens - 1], GroupId(g));
  // Whoever has it writes on in it.
  const PartIndex head = index_.block_over(node, GroupId(g));
  return head.value != kNone && pool_.held(head) ? PartIndex(kNone) : head;
}

// Whether groups that need everything have all of it.
bool UnitReports::is_whole(uint64_t first, NodeId node) const {
  const uint64_t end = index_.tokens(node);
  for (uint32_t g = 0; g < facts_.num_groups; ++g) {
    const GroupFacts& group = facts_.groups[g];
    if (!group.whole || !group.grows) continue;
    const auto blocks = static_cast<uint32_t>(group.block.ceil(end));
    for (auto b = static_cast<uint32_t>(group.block.quotient(first)); b < blocks; ++b) {
      if (cached_head(g, b, first, node).value == kNone) return false;
    }
  }
  return true;
}

// The unit that ends at the node, if one does and it is whole: its last block is evicted soon.
bool UnitReports::note_cold(NodeId node) {
  const uint64_t end = index_.tokens(node), first = (end - 1) / options_.unit_tokens * options_.unit_tokens;
  const bool has_state = has_states(node);
  if (end % options_.unit_tokens != 0 && !has_state) return false;
  path_.resize((end - first) / facts_.config->match_unit_tokens);
  NodeId at = node;
  for (size_t i = path_.size(); i > 0; --i, at = index_.parent(at)) path_[i - 1] = at;
  if (!is_whole(first, node)) return false;
  const auto head_of = [&](uint32_t g, uint32_t block) { return cached_head(g, block, first, node); };
  // Others of its blocks may have been used since.
  const auto is_cold = [&](PartIndex head) { return near_eviction_.saw(pool_.page_of(head)); };
  const bool has_place = end_ - first_ < waiting_.size();
  const quire_hold_id hold = has_place ? holds_.make(first, end, true, head_of, 0, is_cold) : 0;
  if (hold == 0) {
    near_eviction_.look_again();
    return false;
  }
  add(Waiting{hold, SequenceId(0), 0, node, first, end, QUIRE_UNIT_EVICTING, has_state});
  ++num_cold_;
  return true;
}

// Units of the sequence that end in (from, to], in their order.
void UnitReports::note_path(uint32_t q, uint64_t from, uint64_t to, quire_unit_reason reason) {
  path_.clear();
  NodeId node = sequences_.at(q).node;
  for (uint64_t end = index_.tokens(node); end > from; node = index_.parent(node), end = index_.tokens(node)) {
    if (end > to) continue;
    const bool kept = has_states(node) && (reason != QUIRE_UNIT_HIT || end == to);
    if (end % options_.unit_tokens == 0 || kept) path_.push_back(node);
  }
  for (size_t i = path_.size(); i > 0; --i) note(q, path_[i - 1], index_.tokens(path_[i - 1]), reason);
}

void UnitReports::note_commit(const Row& row, uint64_t published) {
  near_eviction_.note_step();
  const Sequence& s = sequences_.at(row.sequence);
  if (!s.publishing) return;
  if ((options_.reasons & QUIRE_UNIT_HIT) != 0 && row.matched && s.hit_tokens > 0) {
    note_path(row.sequence, 0, s.hit_tokens, QUIRE_UNIT_HIT);
  }
  if ((options_.reasons & QUIRE_UNIT_COMMITTED) != 0 && s.published > published) {
    note_path(row.sequence, published, s.published, QUIRE_UNIT_COMMITTED);
  }
}

void UnitReports::note_end(uint32_t q) {
  near_eviction_.note_step();
  const Sequence& s = sequences_.at(q);
  if ((options_.reasons & QUIRE_UNIT_FINISHED) == 0 || !s.publishing || s.in_flight > 0) return;
  note_path(q, 0, s.published, QUIRE_UNIT_FINISHED);
}

void UnitReports::add(std::span<const quire_symbol> symbols, PrefixDigest* digest) const {
  constexpr quire_symbol kFirstMedia = quire_symbol{1} << 31;
  for (size_t i = 0; i < symbols.size();) {
    size_t tokens = i;
    while (tokens < symbols.size() && symbols[tokens] < kFirstMedia) ++tokens;
    digest->add_tokens(symbols.subspan(i, tokens - i));
    for (i = tokens; i < symbols.size() && symbols[i] >= kFirstMedia; ++i) {
      const Media::Item* const item = media_.item_of(symbols[i]);
      if (item != nullptr) digest->add_media(item->digest.data(), symbols[i] - item->first);
    }
  }
}

// Adds the symbols [from, to) on the path to the node, which ends at or behind `to`.
void UnitReports::add_path(NodeId node, uint64_t from, uint64_t to, PrefixDigest* digest) {
  path_.clear();
  for (; index_.tokens(node) > from; node = index_.parent(node)) {
    if (index_.tokens(node) - facts_.config->match_unit_tokens < to) path_.push_back(node);
  }
  for (size_t i = path_.size(); i > 0; --i) {
    const std::span<const quire_symbol> unit = index_.symbols(path_[i - 1]);
    const uint64_t end = index_.tokens(path_[i - 1]), begin = end - unit.size();
    const uint64_t skip = from > begin ? from - begin : 0;
    add(unit.subspan(skip, std::min<uint64_t>(to, end) - begin - skip), digest);
  }
}

// Of what drafts wrote ahead the sequence must have come to the tokens that follow, and still be on the unit's way.
UnitReports::Readiness UnitReports::readiness(const Waiting& unit) const {
  if (look_ahead_ == 0) return Readiness::kReady;
  const uint32_t q = sequences_.find(unit.sequence);
  if (q == kNone) return Readiness::kNever;
  NodeId node = sequences_.at(q).node;
  while (index_.tokens(node) > unit.end) node = index_.parent(node);
  if (node != unit.node) return Readiness::kNever;
  return sequences_.at(q).published >= unit.end + look_ahead_ ? Readiness::kReady : Readiness::kLater;
}

// Of units that no sequence has the names are computed together, as far as they lie on one path: tails come first.
void UnitReports::name_cold(uint64_t position) {
  const Waiting& unit = slot(position);
  const uint64_t tokens = facts_.config->match_unit_tokens;
  path_.resize(unit.end / tokens);
  NodeId at = unit.node;
  for (size_t i = path_.size(); i > 0; --i, at = index_.parent(at)) path_[i - 1] = at;
  ends_.clear();
  for (uint64_t p = position; p != end_; ++p) {
    const Waiting& other = slot(p);
    const bool is_on_path = other.reason == QUIRE_UNIT_EVICTING && other.end <= unit.end && path_[other.end / tokens - 1] == other.node;
    if (is_on_path && !other.is_named) ends_.emplace_back(other.end, p);
  }
  std::sort(ends_.begin(), ends_.end());
  PrefixDigest digest(index_.root_identity(index_.root_of(unit.node)));
  size_t next = 0;
  for (const auto& [end, p] : ends_) {
    for (; next < end / tokens; ++next) add(index_.symbols(path_[next]), &digest);
    slot(p).name = digest.name();
    slot(p).is_named = true;
  }
}

void UnitReports::name(const Waiting& waiting, quire_unit* unit) {
  if (waiting.reason == QUIRE_UNIT_EVICTING) {
    std::copy(waiting.name.begin(), waiting.name.end(), unit->digest);
    std::copy(waiting.name.begin(), waiting.name.end(), unit->ahead_digest);
    return;
  }
  Text other;
  Text& own = texts_[static_cast<uint32_t>(waiting.sequence.value)];
  Text& text = own.number == waiting.text ? own : other;
  if (text.tokens == 0 || text.tokens > waiting.end) {
    text.digest = PrefixDigest(index_.root_identity(index_.root_of(waiting.node)));
    text.tokens = 0;
  }
  add_path(waiting.node, text.tokens, waiting.end, &text.digest);
  text.tokens = waiting.end;
  const PrefixName to_end = text.digest.name();
  std::copy(to_end.begin(), to_end.end(), unit->digest);
  PrefixName ahead = to_end;
  if (look_ahead_ > 0) {
    PrefixDigest further = text.digest;
    add_path(sequences_.at(sequences_.find(waiting.sequence)).node, waiting.end, waiting.end + look_ahead_, &further);
    ahead = further.name();
  }
  std::copy(ahead.begin(), ahead.end(), unit->ahead_digest);
}

uint64_t UnitReports::take(std::span<quire_unit> out) {
  // Units that wait keep their pages from being evicted, so no more are looked for until they are taken.
  if (near_eviction_.watches() && num_cold_ == 0) near_eviction_.find([this](NodeId node) { return note_cold(node); });
  uint64_t n = 0, at = first_, later = first_;
  for (; at != end_ && n < out.size(); ++at) {
    if (slot(at).reason == QUIRE_UNIT_EVICTING && !slot(at).is_named) name_cold(at);
    const Waiting waiting = slot(at);
    const Readiness readiness = this->readiness(waiting);
    if (readiness == Readiness::kLater) {
      slot(later++) = waiting;
      continue;
    }
    if (readiness == Readiness::kNever) {
      let_go(waiting);
      ++num_given_up_;
      continue;
    }
    quire_unit& unit = out[n++];
    unit = quire_unit{};
    unit.hold = waiting.hold;
    unit.sequence = waiting.sequence.value;
    unit.first_token = waiting.first;
    unit.end_token = waiting.end;
    unit.reason = waiting.reason;
    unit.flags = waiting.has_state ? QUIRE_UNIT_HAS_STATE : 0;
    name(waiting, &unit);
    leave(waiting.node);
    num_cold_ -= waiting.reason == QUIRE_UNIT_EVICTING ? 1 : 0;
  }
  while (later != first_) slot(--at) = slot(--later);  // before those that nobody looked at
  first_ = at;
  return n;
}

void UnitReports::digests(std::string_view identity, std::span<const quire_symbol> symbols, std::span<const uint64_t> ends,
                          uint8_t* out) const {
  PrefixDigest digest(identity);
  uint64_t at = 0;
  for (const uint64_t end : ends) {
    add(symbols.subspan(at, end - at), &digest);
    at = end;
    const PrefixName name = digest.name();
    out = std::copy(name.begin(), name.end(), out);
  }
}

void UnitReports::count_holds(std::vector<uint32_t>* holds) const {
  for (uint64_t i = first_; i != end_; ++i) ++(*holds)[waiting_[i % waiting_.size()].node.value];
}

}  // namespace quire
