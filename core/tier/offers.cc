#include "core/tier/offers.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/checked.h"
#include "core/records/checksum.h"

namespace quire {
namespace {

constexpr uint64_t kTicketMark = 0xffff;  // in the low bits: no slot of a transfer

Status random_bytes(std::span<uint8_t> out) {
  if (getrandom(out.data(), out.size(), 0) == static_cast<ssize_t>(out.size())) return {};
  return fail(QUIRE_UNAVAILABLE, "handle: the system gives no random bytes");
}

// In a time that says nothing of where they differ.
bool same(const OfferHandle& a, const OfferHandle& b) {
  unsigned differ = 0;
  for (size_t i = 0; i < a.size(); ++i) differ |= static_cast<unsigned>(a[i] ^ b[i]);
  return differ == 0;
}

}  // namespace

Offers::Offer* Offers::find(const OfferHandle& handle) const {
  const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const auto& o) { return same(o->handle, handle) && !o->is_withdrawn; });
  return at == offers_.end() ? nullptr : at->get();
}

Status Offers::check(uint32_t t) const {
  if (t >= state_.tiers.size()) return fail(QUIRE_OUT_OF_RANGE, "tier: %u of %zu", t, state_.tiers.size());
  const Tier& tier = *state_.tiers[t];
  if (!tier.is_peers()) return fail(QUIRE_FAILED_PRECONDITION, "tier: tier %u has no QUIRE_TIER_PEERS", t);
  if (offers_.size() >= kMost) return fail(QUIRE_RESOURCE_EXHAUSTED, "offers: all %zu exist", kMost);
  const bool on_device = std::any_of(state_.shards.begin(), state_.shards.end(), [](const ShardBytes& s) { return s.staging != nullptr; });
  if (on_device) return fail(QUIRE_UNIMPLEMENTED, "offers: the host cannot address the bytes of the pool");
  return {};
}

Result<uint64_t> Offers::end_of(SequenceId sequence) const {
  quire_sequence_info info{};
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_info(sequence, &info));
  const uint64_t grid = state_.plan->grid(), end = info.committed / grid * grid;
  const auto committed = static_cast<unsigned long long>(info.committed), of = static_cast<unsigned long long>(grid);
  if (end == 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: %llu tokens are committed, and sequences resume at multiples of %llu", committed, of);
  }
  return end;
}

Status Offers::add_record(const TierPart& part, uint32_t number, const HeldRange& range, const PrefixNames& names, Offer* offer) {
  if (!describe_record(state_, range, names, part, Clipping::kHoles, &header_, &runs_, &ids_)) {
    if (!part.is_state && !part.live.everything()) return {};  // resuming at the end needs nothing of it
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: %s at token %llu %s not there",
                part.is_state ? "the state" : "a block of the unit that ends", static_cast<unsigned long long>(range.end), "is");
  }
  if (part.live.everything() && header_.stretches != state_.plan->stretches(part, range.end)) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: a block before token %llu is not there", static_cast<unsigned long long>(range.end));
  }
  Record record{range, names, number};
  record.header_at = offer->records.empty() ? 0 : offer->records.back().header_at + offer->records.back().header_bytes;
  record.header_bytes = header_bytes(header_.shape, header_.num_blocks());
  offer->records.push_back(record);
  offer->bytes += record.header_bytes + header_.payload_bytes();
  return {};
}

Status Offers::add_records(SequenceId sequence, std::span<const quire_symbol> symbols, Offer* offer) {
  const TierPlan& plan = *state_.plan;
  const uint64_t ahead = plan.look_ahead();
  std::vector<uint64_t> ends, lengths;
  for (uint64_t end = plan.unit_tokens(); end < offer->end_token; end += plan.unit_tokens()) ends.push_back(end);
  ends.push_back(offer->end_token);
  for (const uint64_t end : ends) {
    lengths.push_back(end);
    lengths.push_back(end + ahead);
  }
  std::sort(lengths.begin(), lengths.end());
  std::vector<uint8_t> digests(lengths.size() * sizeof(PrefixName));
  std::string identity;
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_digests(sequence, symbols, lengths, digests.data(), &identity));
  const auto name_at = [&](uint64_t length) {
    const auto at = std::lower_bound(lengths.begin(), lengths.end(), length) - lengths.begin();
    PrefixName name;
    std::memcpy(name.data(), digests.data() + static_cast<size_t>(at) * name.size(), name.size());
    return name;
  };
  for (const uint64_t end : ends) {
    const HeldRange range{offer->hold, 0, plan.unit_begin(end), end};
    const PrefixNames names{name_at(end), name_at(end + ahead)};
    for (uint32_t p = 0; p < plan.parts().size(); ++p) {
      const TierPart& part = plan.parts()[p];
      if (part.twin != p || (part.is_state ? end != offer->end_token : plan.record_bytes(part, end) == 0)) continue;
      QUIRE_RETURN_IF_ERROR(add_record(part, p, range, names, offer));
    }
  }
  describe(identity, {name_at(offer->end_token), name_at(offer->end_token + ahead)}, offer);
  return {};
}

void Offers::describe(std::string_view identity, const PrefixNames& prefix, Offer* offer) const {
  OfferDescription description = describe_plan(*state_.plan);
  describe_identity(identity, offer->handle, &description);
  description.end_token = offer->end_token;
  description.prefix = prefix;
  const std::vector<uint8_t> bytes = write_description(description);
  const uint64_t most = state_.tiers[offer->tier]->connector().info().max_object_bytes;
  if (bytes.size() <= kMostDescriptionBytes && (most == 0 || bytes.size() <= most)) offer->description_bytes = bytes.size();
  offer->is_described = offer->description_bytes == 0;
  offer->description_at = offer->records.back().header_at + offer->records.back().header_bytes;
  offer->headers.allocate(offer->description_at + offer->description_bytes);
  std::copy_n(bytes.begin(), offer->description_bytes, offer->headers.data() + offer->description_at);
}

Result<quire_offer> Offers::begin(SequenceId sequence, std::span<const quire_symbol> symbols, uint32_t t) {
  QUIRE_RETURN_IF_ERROR(check(t));
  auto end = end_of(sequence);
  if (!end.ok()) return end.take_status();
  const uint64_t wanted = *end + state_.plan->look_ahead();
  if (symbols.size() < wanted) {
    return fail(QUIRE_OUT_OF_RANGE, "num_symbols: %zu, the offer is named by %llu", symbols.size(),
                static_cast<unsigned long long>(wanted));
  }
  if (offers_.size() == offers_.capacity()) offers_.reserve(2 * offers_.size() + 1);  // what comes last does not fail
  auto offer = std::make_unique<Offer>();
  QUIRE_RETURN_IF_ERROR(random_bytes(offer->handle));
  offer->tier = t;
  offer->end_token = *end;
  auto hold = state_.cache->hold_begin(sequence, 0, *end);
  if (!hold.ok()) return hold.take_status();
  offer->hold = *hold;
  Status added;
  try {
    added = add_records(sequence, symbols, offer.get());
    by_ticket_.reserve(by_ticket_.size() + offer->num_tickets());
    offer->tickets.reserve(offer->num_tickets());
  } catch (...) {
    (void)state_.cache->hold_end(offer->hold);
    throw;
  }
  Tier& tier = *state_.tiers[t];
  if (added.ok() && !tier.has_room(offer->bytes)) {
    added = fail(QUIRE_RESOURCE_EXHAUSTED, "offers: %llu bytes, %llu are offered already, and max_store_bytes is %llu",
                 static_cast<unsigned long long>(offer->bytes), static_cast<unsigned long long>(tier.bytes_in_stores),
                 static_cast<unsigned long long>(tier.max_store_bytes()));
  }
  if (!added.ok()) {
    (void)state_.cache->hold_end(offer->hold);
    return added;
  }
  tier.bytes_in_stores += offer->bytes;
  offer->mark = state_.mark_streams();
  quire_offer out{};
  std::copy(offer->handle.begin(), offer->handle.end(), out.handle);
  out.end_token = offer->end_token;
  out.num_bytes = offer->bytes;
  offers_.push_back(std::move(offer));
  ++num_waiting_;
  ++state_.stats.offers;
  return out;
}

Status Offers::info(const OfferHandle& handle, quire_offer_info* info) const {
  const Offer* const offer = find(handle);
  if (offer == nullptr) return fail(QUIRE_NOT_FOUND, "handle: no such offer, or it has ended");
  info->is_ready = offer->tickets.size() == offer->num_tickets() ? 1 : 0;
  info->num_records = offer->records.size();
  return {};
}

Status Offers::end(const OfferHandle& handle) {
  Offer* const offer = find(handle);
  if (offer == nullptr) return fail(QUIRE_NOT_FOUND, "handle: no such offer, or it has ended");
  withdraw(offer);
  close_ended();
  return {};
}

void Offers::start_ready() noexcept {
  uint64_t summed = 0;
  for (const auto& offer : offers_) {
    if (!offer->waits() || !state_.is_done(offer->mark)) continue;
    Submitted started = Submitted::kFailed;
    try {
      started = start(offer.get(), &summed);
    } catch (const std::bad_alloc&) {
    }
    if (started == Submitted::kFailed) withdraw(offer.get());
    if (started == Submitted::kYes) --num_waiting_;
    if (started == Submitted::kFull) break;
  }
  close_ended();
}

Submitted Offers::start(Offer* offer, uint64_t* summed) {
  if (!offer->is_described) {
    if (const Submitted submitted = submit_description(offer); submitted != Submitted::kYes) return submitted;
    offer->is_described = true;
  }
  for (; offer->waits(); ++offer->next) {
    if (*summed >= kSummedAtOnce) return Submitted::kFull;
    const Record& record = offer->records[offer->next];
    const TierPart& part = state_.plan->parts()[record.part];
    if (!describe_record(state_, record.range, record.names, part, Clipping::kHoles, &header_, &runs_, &ids_)) {
      return Submitted::kFailed;
    }
    header_.checksums.assign(header_.num_blocks(), 0);
    sum_blocks(state_.shards[part.shard], runs_, header_.block_bytes, &state_.scratch,
               [&](uint64_t block, uint64_t sum) { header_.checksums[block] = sum; });
    *summed += header_.payload_bytes();
    if (const Submitted submitted = submit(offer, record); submitted != Submitted::kYes) return submitted;
  }
  return Submitted::kYes;
}

Submitted Offers::submit(Offer* offer, const Record& record) {
  const TierPart& part = state_.plan->parts()[record.part];
  const std::span<uint8_t> own = offer->headers.all().subspan(record.header_at, record.header_bytes);
  write_header(header_, own);
  state_.ticket_runs.clear();
  add_header_run(own, 0, &state_.ticket_runs);
  const ShardBytes& shard = state_.shards[part.shard];
  add_payload_runs(shard, shard.ids[offer->tier], runs_, record.header_bytes, &state_.ticket_runs);
  return submit_runs(offer, header_.key, record.header_bytes + header_.payload_bytes());
}

Submitted Offers::submit_description(Offer* offer) {
  state_.ticket_runs.clear();
  add_header_run(offer->headers.all().subspan(offer->description_at, offer->description_bytes), 0, &state_.ticket_runs);
  return submit_runs(offer, description_key(), offer->description_bytes);
}

Submitted Offers::submit_runs(Offer* offer, const RecordKey& name, uint64_t bytes) {
  std::array<uint8_t, sizeof(RecordKey) + sizeof(OfferHandle)> key{};
  std::copy(name.begin(), name.end(), key.begin());
  std::copy(offer->handle.begin(), offer->handle.end(), key.begin() + sizeof(RecordKey));
  quire_ticket ticket{};
  ticket.ticket = kTicketMark | next_ticket_ << 16;
  ticket.kind = QUIRE_TICKET_STORE;
  ticket.num_runs = static_cast<uint32_t>(state_.ticket_runs.size());
  ticket.num_keys = 1;
  ticket.key_bytes = key.size();
  ticket.object_bytes = bytes;
  ticket.deadline_ns = -1;
  const auto place = by_ticket_.emplace(ticket.ticket, offer).first;  // before it can end
  uint64_t accepted = 0;
  quire_code code = QUIRE_RESOURCE_EXHAUSTED;
  try {
    code = state_.tiers[offer->tier]->connector().submit({{&ticket, 1}, state_.ticket_runs, key}, &accepted).code();
  } catch (const std::bad_alloc&) {  // for the text of an error; `accepted` is what counts
  }
  state_.ticket_runs.clear();
  if (accepted == 0) {
    by_ticket_.erase(place);
    return code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED ? Submitted::kFull : Submitted::kFailed;
  }
  ++next_ticket_;
  offer->tickets.push_back(ticket.ticket);  // there is room
  ++state_.tiers[offer->tier]->num_stores;
  return Submitted::kYes;
}

bool Offers::ended(uint32_t t, const quire_completion& end) noexcept {
  const auto found = by_ticket_.find(end.ticket);
  if (found == by_ticket_.end() || found->second->tier != t) return false;
  Offer* const offer = found->second;
  by_ticket_.erase(found);
  std::erase(offer->tickets, end.ticket);
  --state_.tiers[t]->num_stores;
  withdraw(offer);  // whoever ended one, the others are of no use without it
  close_ended();
  return true;
}

void Offers::withdraw(Offer* offer) noexcept {
  if (offer->is_withdrawn) return;
  if (offer->waits()) --num_waiting_;
  offer->is_withdrawn = true;
  for (const uint64_t ticket : offer->tickets) {
    try {
      (void)state_.tiers[offer->tier]->connector().cancel(ticket);
    } catch (const std::bad_alloc&) {  // for the text of an error
    }
  }
}

void Offers::close_ended() noexcept {
  for (size_t i = 0; i < offers_.size();) {
    Offer& offer = *offers_[i];
    if (!offer.is_withdrawn || !offer.tickets.empty()) {
      ++i;
      continue;
    }
    (void)state_.cache->hold_end(offer.hold);
    state_.tiers[offer.tier]->bytes_in_stores -= offer.bytes;
    offers_[i] = std::move(offers_.back());
    offers_.pop_back();
  }
}

uint64_t Offers::num_records_of(uint32_t tier) const {
  uint64_t n = 0;
  for (const auto& offer : offers_) n += offer->tier == tier ? offer->tickets.size() : 0;
  return n;
}

void Offers::stop() noexcept {
  for (const auto& offer : offers_) withdraw(offer.get());
  close_ended();
}

void Offers::leave_headers(std::vector<RawBytes>* headers) noexcept {
  try {
    headers->reserve(offers_.size());
    for (const auto& offer : offers_) headers->push_back(std::move(offer->headers));
  } catch (const std::bad_alloc&) {
    for (auto& offer : offers_) (void)offer.release();
  }
}

}  // namespace quire
