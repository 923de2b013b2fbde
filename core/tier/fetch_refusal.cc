// Fetches: why nothing came of an offer that is there.
#include <algorithm>

#include "core/tier/fetches.h"
#include "core/tier/offer_description.h"

namespace quire {
namespace {

constexpr int32_t kQuestionPriority = 15;

}  // namespace

// Where something ended it that is not the offer's, that is the reason.
bool Fetches::should_ask(const Fetch& f, quire_fetch_outcome outcome, uint64_t committed) const {
  if (f.peer_tier == kNone || f.peer_failed || is_stopping_ || f.is_doomed || f.is_cancelled || state_.now() >= f.deadline) return false;
  if (std::max(committed, f.committed) >= std::min(f.peer_end, f.longest)) return false;
  const bool has_come = f.bytes_of[f.peer_tier] + f.bytes_before[f.peer_tier] > 0;
  return outcome == QUIRE_FETCH_NOTHING || outcome == QUIRE_FETCH_FAILED || (outcome == QUIRE_FETCH_DONE && !has_come);
}

// What cannot be asked now is asked in a later call.
void Fetches::ask_why(uint32_t index) {
  Fetch& f = fetches_[index];
  if (f.ending.slot != kNone || state_.transfers->is_full()) return;
  bool is_full = false;
  try {
    if (submit_question(index, &is_full) || is_full) return;
  } catch (const std::bad_alloc&) {
  }
  stop_asking(index);
}

bool Fetches::submit_question(uint32_t index, bool* is_full) {
  Fetch& f = fetches_[index];
  const uint32_t slot = state_.transfers->open();
  Transfer& t = state_.transfers->at(slot);
  t.kind = TransferKind::kDescription;
  t.tier = f.peer_tier;
  t.owner = index;
  t.key = description_key();
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_LOOKUP;
  ticket.priority = kQuestionPriority;
  ticket.deadline_ns = f.deadline;
  state_.ticket_runs.clear();
  try {
    t.name_keys(f.peer_key);
    t.sizes.assign(1, 0);
    ticket.sizes = t.sizes.data();
    if (f.ending.description_bytes > 0) {
      t.whole.allocate(f.ending.description_bytes);
      state_.bytes_of_wholes += t.whole.size();
      state_.ticket_runs.push_back({0, reinterpret_cast<uint64_t>(t.whole.data()), t.whole.size(), 1, 0, 0, 0});
      ticket.kind = QUIRE_TICKET_LOAD;
      ticket.sizes = nullptr;
    }
  } catch (const std::bad_alloc&) {
    state_.close(slot);
    throw;
  }
  const Submitted submitted = state_.submit(slot, ticket);
  *is_full = submitted == Submitted::kFull;
  if (submitted != Submitted::kYes) return false;
  f.ending.slot = slot;
  return true;
}

void Fetches::question_ended(uint32_t slot, const quire_completion& end) {
  Transfer& t = state_.transfers->at(slot);
  const uint32_t index = t.owner;
  if (index == kNone || is_stopping_) return state_.close(slot);
  Fetch& f = fetches_[index];
  f.ending.slot = kNone;
  const bool has_come = end.code == QUIRE_OK && !t.whole.empty();
  if (has_come) {
    try {
      compare(f, t.whole.all());
    } catch (const std::bad_alloc&) {  // then nothing is known
    }
  }
  const uint64_t size = end.code == QUIRE_OK && t.whole.empty() ? t.sizes[0] : 0;
  state_.close(slot);
  if (size < kDescriptionStart || size > kMostDescriptionBytes) return stop_asking(index);
  f.ending.description_bytes = size;
  ask_why(index);
}

void Fetches::compare(const Fetch& f, std::span<const uint8_t> description) {
  Tier& tier = *state_.tiers[f.peer_tier];
  uint32_t version = 0;
  auto offer = read_description(description, &version);
  std::optional<quire_offer_refusal> refusal;
  if (!offer.ok()) {
    if (offer.status().code() == QUIRE_UNIMPLEMENTED) refusal = other_version(version);
    if (!refusal) ++tier.stats.objects_damaged;
  } else {
    auto identity = state_.cache->sequence_identity(f.sequence);
    if (!identity.ok()) return;
    OfferDescription own = describe_plan(*state_.plan);
    OfferHandle handle{};
    std::copy_n(f.peer_key.begin(), handle.size(), handle.begin());
    describe_identity(*identity, handle, &own);
    OfferReader reader{own, *state_.sources, state_.plan->grid(), f.peer_end, f.longest, false, f.has_refused_blocks};
    const std::array<uint64_t, 2> lengths = {f.peer_end, f.peer_end + own.look_ahead};
    if (f.peer_end <= f.longest && lengths[1] <= f.symbols.size()) {
      std::array<uint8_t, 2 * sizeof(PrefixName)> names{};
      if (!state_.cache->sequence_digests(f.sequence, f.symbols, lengths, names.data()).ok()) return;
      std::copy_n(names.begin(), sizeof(PrefixName), own.prefix.own.begin());
      std::copy_n(names.begin() + sizeof(PrefixName), sizeof(PrefixName), own.prefix.ahead.begin());
      reader.has_prefix = true;
    }
    refusal = first_difference(reader, *offer);
  }
  if (!refusal) return;
  if (refused_.size() < kMostRefused) refused_.resize(kMostRefused);
  refused_[next_refused_++ % kMostRefused] = {f.id, *refusal};
  ++tier.stats.offers_refused;
}

void Fetches::stop_asking(uint32_t index) {
  Fetch& f = fetches_[index];
  if (f.ending.slot != kNone) {
    state_.transfers->at(f.ending.slot).owner = kNone;
    state_.cancel(f.ending.slot);
    f.ending.slot = kNone;
  }
  report(index, f.ending.outcome, f.ending.committed);
}

Status Fetches::refusal(quire_fetch_id fetch, quire_offer_refusal* out) const {
  const auto found = std::find_if(refused_.begin(), refused_.end(), [fetch](const Refused& r) { return r.fetch == fetch && fetch != 0; });
  if (found == refused_.end()) return fail(QUIRE_NOT_FOUND, "fetch: no offer was refused in %llu", static_cast<unsigned long long>(fetch));
  *out = found->refusal;
  return {};
}

}  // namespace quire
