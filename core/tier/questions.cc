#include "core/tier/questions.h"

#include <algorithm>
#include <new>

#include "core/tier/offer_description.h"

namespace quire {
namespace {

constexpr int32_t kQuestionPriority = 15;

}  // namespace

bool Questions::is_due(const Fetch& f, quire_fetch_outcome outcome, uint64_t committed) const {
  if (f.peer_tier == kNone || f.peer_failed || (f.has_met && !f.has_refused_blocks) || f.is_doomed || f.is_cancelled ||
      state_.now() >= f.deadline)
    return false;
  if (std::max({committed, f.committed, f.hit}) >= std::min(f.peer_end, f.longest)) return false;
  const bool has_come = f.bytes_of[f.peer_tier] + f.bytes_before[f.peer_tier] > 0;
  return outcome == QUIRE_FETCH_NOTHING || outcome == QUIRE_FETCH_FAILED || (outcome == QUIRE_FETCH_DONE && !has_come);
}

bool Questions::move_on(uint32_t index, Fetch* f) noexcept {
  if (f->ending.slot != kNone || state_.transfers->is_full()) return true;
  try {
    return submit(index, f) != Submitted::kFailed;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Submitted Questions::submit(uint32_t index, Fetch* f) {
  const uint32_t slot = state_.transfers->open();
  Transfer& t = state_.transfers->at(slot);
  t.kind = TransferKind::kDescription;
  t.tier = f->peer_tier;
  t.owner = index;
  t.key = description_key();
  quire_ticket ticket{};
  ticket.kind = QUIRE_TICKET_LOOKUP;
  ticket.priority = kQuestionPriority;
  ticket.deadline_ns = f->phase == FetchPhase::kMeeting ? std::min(f->deadline, state_.now() + kMostSilence) : f->deadline;
  state_.ticket_runs.clear();
  try {
    t.name_keys(f->peer_key);
    t.sizes.assign(1, 0);
    ticket.sizes = t.sizes.data();
    if (f->ending.description_bytes > 0) {
      t.whole.allocate(f->ending.description_bytes);
      state_.bytes_of_wholes += t.whole.size();
      add_header_run(t.whole.all(), 0, &state_.ticket_runs);
      ticket.kind = QUIRE_TICKET_LOAD;
      ticket.sizes = nullptr;
    }
  } catch (const std::bad_alloc&) {
    state_.close(slot);
    throw;
  }
  const Submitted submitted = state_.submit(slot, ticket);
  if (submitted == Submitted::kYes) f->ending.slot = slot;
  return submitted;
}

bool Questions::ended(uint32_t slot, const quire_completion& end, Fetch* f) noexcept {
  Transfer& t = state_.transfers->at(slot);
  const uint32_t index = t.owner;
  const bool is_load = !t.whole.empty();
  f->ending.slot = kNone;
  if (end.code == QUIRE_OK && is_load) {
    try {
      compare(f, t.whole.all());
    } catch (const std::bad_alloc&) {  // then nothing is known
    }
  }
  const uint64_t size = end.code == QUIRE_OK && !is_load ? t.sizes[0] : 0;
  state_.close(slot);
  if (size < kDescriptionStart || size > kMostDescriptionBytes) return false;
  f->ending.description_bytes = size;
  return move_on(index, f);
}

void Questions::compare(Fetch* fetch, std::span<const uint8_t> description) {
  const Fetch& f = *fetch;
  Tier& tier = *state_.tiers[f.peer_tier];
  uint32_t version = 0;
  auto offer = read_description(description, &version);
  std::optional<quire_offer_refusal> refusal;
  if (!offer.ok()) {
    if (offer.status().code() == QUIRE_UNIMPLEMENTED) refusal = other_version(version);
    if (!refusal) ++tier.stats.objects_damaged;
  } else {
    OfferDescription own = describe_plan(*state_.plan);
    OfferHandle handle{};
    std::copy_n(f.peer_key.begin(), handle.size(), handle.begin());
    OfferReader reader{own, *state_.sources, state_.plan->grid(), f.peer_end, f.encoder, f.longest, false, f.has_refused_blocks};
    std::string identity;
    const std::array<uint64_t, 2> lengths = {f.peer_end, f.peer_end + own.look_ahead};
    reader.has_prefix = f.peer_end <= f.longest && lengths[1] <= f.symbols.size();
    std::array<uint8_t, 2 * sizeof(PrefixName)> names{};
    const std::span<const uint64_t> named(lengths.data(), reader.has_prefix ? lengths.size() : 0);
    if (!state_.cache->sequence_digests(f.sequence, f.symbols, named, names.data(), &identity).ok()) return;
    std::copy_n(names.begin(), sizeof(PrefixName), own.prefix.own.begin());
    std::copy_n(names.begin() + sizeof(PrefixName), sizeof(PrefixName), own.prefix.ahead.begin());
    describe_identity(identity, handle, &own);
    refusal = first_difference(reader, *offer);
  }
  fetch->ending.fits = offer.ok() && !refusal;
  if (!refusal) return;
  if (refused_.size() < kMostRefused) refused_.resize(kMostRefused);
  refused_[next_refused_++ % kMostRefused] = {f.id, *refusal};
  ++tier.stats.offers_refused;
}

void Questions::give_up(Fetch* f) noexcept {
  if (f->ending.slot == kNone) return;
  state_.transfers->at(f->ending.slot).owner = kNone;
  state_.cancel(f->ending.slot);
  f->ending.slot = kNone;
}

Status Questions::refusal(quire_fetch_id fetch, quire_offer_refusal* out) const {
  const auto found = std::find_if(refused_.begin(), refused_.end(), [fetch](const Refused& r) { return r.fetch == fetch && fetch != 0; });
  if (found == refused_.end()) return fail(QUIRE_NOT_FOUND, "fetch: no offer was refused in %llu", static_cast<unsigned long long>(fetch));
  *out = found->refusal;
  return {};
}

}  // namespace quire
