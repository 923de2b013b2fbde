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

// Of all peers: what they may have at the same time.
uint64_t most_bytes(const TierState& state) {
  uint64_t most = 0;
  for (const auto& tier : state.tiers) {
    if (tier->is_peers()) most += std::min(tier->max_store_bytes(), UINT64_MAX - most);
  }
  return most;
}

}  // namespace

Offers::Offers(TierState& state) : state_(state), memory_(state.shards, most_bytes(state)) {}

Offers::Offer* Offers::find(const OfferHandle& handle) const {
  const auto at = std::find_if(offers_.begin(), offers_.end(), [&](const auto& o) { return same(o->handle, handle) && !o->is_withdrawn; });
  return at == offers_.end() ? nullptr : at->get();
}

Status Offers::check(uint32_t t) const {
  if (t >= state_.tiers.size()) return fail(QUIRE_OUT_OF_RANGE, "tier: %u of %zu", t, state_.tiers.size());
  const Tier& tier = *state_.tiers[t];
  if (!tier.is_peers()) return fail(QUIRE_FAILED_PRECONDITION, "tier: tier %u has no QUIRE_TIER_PEERS", t);
  if (offers_.size() >= kMost) return fail(QUIRE_RESOURCE_EXHAUSTED, "offers: all %zu exist", kMost);
  return {};
}

Status Offers::choose_end(SequenceId sequence, uint64_t end_token, Offer* offer, bool* grows) const {
  quire_sequence_info info{};
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_info(sequence, &info));
  const uint64_t grid = state_.plan->grid(), most = state_.plan->config().max_model_len;
  const auto end = static_cast<unsigned long long>(end_token), of = static_cast<unsigned long long>(grid);
  if (end_token % grid != 0) return invalid("end_token: %llu, sequences resume at multiples of %llu", end, of);
  if (end_token > most)
    return fail(QUIRE_OUT_OF_RANGE, "end_token: %llu, max_model_len is %llu", end, static_cast<unsigned long long>(most));
  offer->end_token = end_token != 0 ? end_token : info.committed / grid * grid;
  *grows = offer->end_token > info.committed;
  offer->encoder = info.encoder_tokens;
  if (!*grows && info.reserved > info.committed && !state_.plan->ends_blocks(offer->end_token)) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: a step in flight writes the block in which %llu tokens end; commit that step first",
                static_cast<unsigned long long>(offer->end_token));
  }
  if (state_.plan->most_encoder() > 0 && info.reserved == 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: it is empty, so its encoder_tokens are not known");
  }
  if (offer->end_token > 0) return {};
  return fail(QUIRE_FAILED_PRECONDITION, "sequence: %llu tokens are committed, and sequences resume at multiples of %llu",
              static_cast<unsigned long long>(info.committed), of);
}

Status Offers::measure(uint64_t end_token, Record* record) {
  const TierPart& part = state_.plan->parts()[record->part];
  const auto end = static_cast<unsigned long long>(record->range.end);
  const bool is_there = describe_record(state_, record->range, record->names, part, Clipping::kHoles, &header_, &runs_, &ids_);
  if (part.is_state && !is_there) return fail(QUIRE_FAILED_PRECONDITION, "sequence: the state at token %llu is not there", end);
  if (!is_there) header_.stretches = {};
  for (const BlockStretch& planned : state_.plan->stretches(part, record->range.end)) {
    for (uint64_t b = planned.first; b < planned.end && !part.is_state; ++b) {
      const bool is_needed =
          part.live.everything() || (b + 1) * part.block_tokens > part.live.tail_begin(end_token) || b * part.block_tokens < part.live.sink;
      const bool has = std::any_of(header_.stretches.begin(), header_.stretches.end(),
                                   [b](const BlockStretch& stretch) { return stretch.first <= b && b < stretch.end; });
      if (is_needed && !has) {
        return fail(QUIRE_FAILED_PRECONDITION, "sequence: a block of the unit that ends at token %llu is not there", end);
      }
    }
  }
  if (!is_there) record->range.hold = 0;
  record->header_bytes = is_there ? header_bytes(header_.shape, header_.num_blocks()) : 0;
  record->bytes = is_there ? record->header_bytes + header_.payload_bytes() : 0;
  return {};
}

void Offers::plan_record(uint32_t p, uint64_t end, const PrefixNames& names, Offer* offer) const {
  const TierPlan& plan = *state_.plan;
  const TierPart& part = plan.parts()[p];
  Record record;
  record.range.first = plan.unit_begin(end);
  record.range.end = end;
  record.names = names;
  record.part = p;
  record.header_bytes = header_bytes(part.shape, part.is_state ? 1 : num_blocks(plan.stretches(part, end)));
  record.bytes = plan.record_bytes(part, end);
  offer->records.push_back(record);
}

Status Offers::plan_records(SequenceId sequence, std::span<const quire_symbol> symbols, bool grows, Offer* offer) {
  const TierPlan& plan = *state_.plan;
  const uint64_t ahead = plan.look_ahead();
  std::vector<uint64_t> ends, lengths = {0};
  plan.each_unit(offer->end_token, [&](uint64_t end) { ends.push_back(end); });
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
  for (uint32_t p = 0; p < plan.parts().size(); ++p) {
    const TierPart& part = plan.parts()[p];
    if (part.twin != p || !part.live.fixed) continue;
    const PrefixNames names = with_encoder({name_at(0), name_at(0)}, offer->encoder);
    plan.each_unit(offer->encoder, [&](uint64_t end) { plan_record(p, end, names, offer); });
  }
  for (const uint64_t end : ends) {
    const PrefixNames names = with_encoder({name_at(end), name_at(end + ahead)}, offer->encoder);
    for (uint32_t p = 0; p < plan.parts().size(); ++p) {
      const TierPart& part = plan.parts()[p];
      if (part.twin != p || part.live.fixed || (part.is_state ? end != offer->end_token : plan.record_bytes(part, end) == 0)) continue;
      // What the sequence has of an early unit now may be less when the last one is committed.
      const bool is_needed = part.is_state || end > part.live.tail_begin(offer->end_token) || plan.unit_begin(end) < part.live.sink;
      if (!grows || is_needed) plan_record(p, end, names, offer);
    }
  }
  offer->holds.reserve(ends.size() + 1);
  describe(identity, {name_at(offer->end_token), name_at(offer->end_token + ahead)}, offer);
  return {};
}

// One after the other, and the description after them.
void Offers::place_headers(Offer* offer) const {
  uint64_t at = 0;
  for (Record& record : offer->records) {
    record.header_at = at;
    at += record.header_bytes;
    offer->bytes += record.bytes;
  }
  const RawBytes description = std::move(offer->headers);
  offer->description_at = at;
  offer->headers.allocate(at + offer->description_bytes);
  std::copy_n(description.data(), offer->description_bytes, offer->headers.data() + at);
}

Status Offers::hold_all(SequenceId sequence, Offer* offer) {
  auto hold = state_.cache->hold_begin(sequence, 0, offer->end_token, 0, offer->encoder);
  if (!hold.ok()) return hold.take_status();
  offer->holds.push_back(*hold);
  offer->held_tokens = offer->end_token;
  const uint64_t mark = state_.mark_streams();
  for (Record& record : offer->records) {
    record.range.hold = *hold;
    record.mark = mark;
    QUIRE_RETURN_IF_ERROR(measure(offer->end_token, &record));
  }
  std::erase_if(offer->records, [](const Record& record) { return record.range.hold == 0; });
  offer->num_held = offer->records.size();
  return {};
}

Status Offers::grow(Offer* offer) {
  quire_sequence_info info{};
  QUIRE_RETURN_IF_ERROR(state_.cache->sequence_info(offer->sequence, &info));
  std::vector<Record>& records = offer->records;
  size_t to = offer->num_held;
  if (info.committed > 0 && info.encoder_tokens != offer->encoder) {
    return fail(QUIRE_FAILED_PRECONDITION, "sequence: it has another number of encoder_tokens");
  }
  // What drafts wrote ahead of a chunk may be written again by the next one.
  const auto final_at = [&](const Record& record) {
    if (is_of_encoder(record)) return uint64_t{1};
    return std::min(record.range.end + state_.plan->look_ahead(), offer->end_token);  // nothing is computed after that
  };
  while (to < records.size() && final_at(records[to]) <= info.committed) ++to;
  if (to == offer->num_held) return {};
  const uint64_t first = records[offer->num_held].range.first;  // 0 of an encoder's: all of them are the first ones
  const uint64_t end = is_of_encoder(records[to - 1]) ? 0 : records[to - 1].range.end;
  if (info.reserved > info.committed && !state_.plan->ends_blocks(end)) return {};  // a step in flight writes the last block
  const uint64_t encoder = is_of_encoder(records[offer->num_held]) ? offer->encoder : 0;
  auto hold = state_.cache->hold_begin(offer->sequence, first, end, offer->end_token, encoder);
  if (!hold.ok()) return {};      // a step writes a state in place, a load is in progress, or all holds exist: the next call tries again
  offer->holds.push_back(*hold);  // there is room
  offer->held_tokens = end;
  const uint64_t mark = state_.mark_streams();
  for (; offer->num_held < to; ++offer->num_held) {
    Record& record = records[offer->num_held];
    record.range.hold = *hold;
    record.range.hold_first = first;
    record.mark = mark;
    QUIRE_RETURN_IF_ERROR(measure(offer->end_token, &record));
  }
  return {};
}

void Offers::describe(std::string_view identity, const PrefixNames& prefix, Offer* offer) const {
  OfferDescription description = describe_plan(*state_.plan);
  describe_identity(identity, offer->handle, &description);
  description.end_token = offer->end_token;
  description.encoder_tokens = static_cast<uint32_t>(offer->encoder);
  description.prefix = prefix;
  const std::vector<uint8_t> bytes = write_description(description);
  const uint64_t most = state_.tiers[offer->tier]->connector().info().max_object_bytes;
  if (bytes.size() <= kMostDescriptionBytes && (most == 0 || bytes.size() <= most)) offer->description_bytes = bytes.size();
  offer->is_described = offer->description_bytes == 0;
  offer->headers.allocate(offer->description_bytes);  // for now: the records' headers come before it
  std::copy_n(bytes.begin(), offer->description_bytes, offer->headers.data());
}

Result<quire_offer> Offers::begin(SequenceId sequence, std::span<const quire_symbol> symbols, uint64_t end_token, uint32_t t) {
  QUIRE_RETURN_IF_ERROR(check(t));
  auto offer = std::make_unique<Offer>();
  bool grows = false;
  QUIRE_RETURN_IF_ERROR(choose_end(sequence, end_token, offer.get(), &grows));
  const uint64_t wanted = offer->end_token + state_.plan->look_ahead();
  if (symbols.size() < wanted) {
    return fail(QUIRE_OUT_OF_RANGE, "num_symbols: %zu, the offer is named by %llu", symbols.size(),
                static_cast<unsigned long long>(wanted));
  }
  if (offers_.size() == offers_.capacity()) offers_.reserve(2 * offers_.size() + 1);  // what comes last does not fail
  QUIRE_RETURN_IF_ERROR(random_bytes(offer->handle));
  offer->tier = t;
  offer->sequence = sequence;
  offer->grew = grows;
  const auto end_holds = [&] {
    for (const quire_hold_id hold : offer->holds) (void)state_.cache->hold_end(hold);
  };
  Status added;
  try {
    added = plan_records(sequence, symbols, grows, offer.get());
    if (added.ok() && grows && !offer->description_bytes) {
      added = fail(QUIRE_UNIMPLEMENTED, "end_token: the connector takes no object that is long enough to describe an offer that grows");
    }
    if (added.ok() && !grows) added = hold_all(sequence, offer.get());
    if (added.ok() && offer->records.empty()) {
      added = fail(QUIRE_FAILED_PRECONDITION, "sequence: resuming at token %llu needs nothing of it",
                   static_cast<unsigned long long>(offer->end_token));
    }
    if (added.ok()) place_headers(offer.get());
    by_ticket_.reserve(by_ticket_.size() + offer->records.size() + 1);
    offer->tickets.reserve(offer->records.size() + 1);
  } catch (...) {
    end_holds();
    throw;
  }
  Tier& tier = *state_.tiers[t];
  if (added.ok() && !tier.has_room(offer->bytes)) {
    added = fail(QUIRE_RESOURCE_EXHAUSTED, "offers: %llu bytes, %llu are offered already, and max_store_bytes is %llu",
                 static_cast<unsigned long long>(offer->bytes), static_cast<unsigned long long>(tier.bytes_in_stores),
                 static_cast<unsigned long long>(tier.max_store_bytes()));
  }
  if (!added.ok()) {
    end_holds();
    return added;
  }
  tier.bytes_in_stores += offer->bytes;
  quire_offer out{};
  std::copy(offer->handle.begin(), offer->handle.end(), out.handle);
  out.end_token = offer->end_token;
  out.num_bytes = offer->bytes;
  offers_.push_back(std::move(offer));
  ++state_.stats.offers;
  return out;
}

Status Offers::info(const OfferHandle& handle, quire_offer_info* info) const {
  const Offer* const offer = find(handle);
  if (offer == nullptr) return fail(QUIRE_NOT_FOUND, "handle: no such offer, or it has ended");
  info->is_ready = offer->is_complete() || (offer->is_described && offer->grew) ? 1 : 0;
  info->num_records = offer->records.size();
  const Record& next = offer->records[std::min(offer->next, offer->records.size() - 1)];
  const uint64_t before = is_of_encoder(next) ? 0 : next.range.first;
  info->num_tokens = offer->is_complete() ? offer->end_token : std::min(before, offer->held_tokens);
  return {};
}

Status Offers::end(const OfferHandle& handle) {
  Offer* const offer = find(handle);
  if (offer == nullptr) return fail(QUIRE_NOT_FOUND, "handle: no such offer, or it has ended");
  withdraw(offer);
  close_ended();
  return {};
}

bool Offers::any_waits() const {
  return std::any_of(offers_.begin(), offers_.end(), [this](const auto& offer) { return offer->waits() || num_copies(*offer) > 0; });
}

void Offers::start_ready() noexcept {
  uint64_t summed = 0;
  bool takes_more = true;
  for (const auto& offer : offers_) {
    if (offer->is_withdrawn) continue;
    Submitted started = Submitted::kYes;
    try {
      // Also where nothing more can be submitted: what was committed must be held before the next step.
      if (offer->grows() && !grow(offer.get()).ok()) started = Submitted::kFailed;
      if (started == Submitted::kYes && offer->waits()) {
        if (const Status copied = copy_ready(offer.get()); !copied.ok()) {
          started = Submitted::kFailed;
          report(*offer, copied);
        }
      }
      if (started == Submitted::kYes && offer->waits() && takes_more) started = start(offer.get(), &summed);
      let_go(offer.get());
    } catch (const std::bad_alloc&) {
      started = Submitted::kFailed;
    }
    if (started == Submitted::kFailed) withdraw(offer.get());
    takes_more = takes_more && started != Submitted::kFull;
  }
  close_ended();
}

Submitted Offers::start(Offer* offer, uint64_t* summed) {
  if (!offer->is_described) {
    if (const Submitted submitted = submit_description(offer); submitted != Submitted::kYes) return submitted;
    offer->is_described = true;
  }
  for (; offer->next < offer->num_held; ++offer->next) {
    const Record& record = offer->records[offer->next];
    if (!state_.is_done(record.mark)) break;
    if (record.range.hold == 0) continue;
    auto copied = is_copied(record);
    if (!copied.ok()) {
      report(*offer, copied.status());
      return Submitted::kFailed;
    }
    if (!*copied) break;
    if (*summed >= kSummedAtOnce) return Submitted::kFull;
    const TierPart& part = state_.plan->parts()[record.part];
    if (!describe_record(state_, record.range, record.names, part, Clipping::kHoles, &header_, &runs_, &ids_)) {
      return Submitted::kFailed;
    }
    if (record.copy != 0) {
      sum_payload(record.place.bytes.data(), &header_);
    } else {
      header_.checksums.assign(header_.num_blocks(), 0);
      sum_blocks(state_.shards[part.shard], runs_, header_.block_bytes, &state_.scratch,
                 [&](uint64_t block, uint64_t sum) { header_.checksums[block] = sum; });
    }
    *summed += header_.payload_bytes();
    if (const Submitted submitted = submit(offer, record); submitted != Submitted::kYes) return submitted;
    copied_ahead_ -= record.place.bytes.size();
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
  if (record.copy != 0) {
    const auto address = reinterpret_cast<uint64_t>(record.place.bytes.data());
    state_.ticket_runs.push_back({0, address, header_.payload_bytes(), 1, 0, record.header_bytes, 0});
  } else {
    add_payload_runs(shard, shard.ids[offer->tier], runs_, record.header_bytes, &state_.ticket_runs);
  }
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
    if (!offer.is_withdrawn || !offer.tickets.empty() || num_copies(offer) > 0) {
      ++i;
      continue;
    }
    for (const quire_hold_id hold : offer.holds) (void)state_.cache->hold_end(hold);
    give_back(offer);
    state_.tiers[offer.tier]->bytes_in_stores -= offer.bytes;
    offers_[i] = std::move(offers_.back());
    offers_.pop_back();
  }
}

uint64_t Offers::num_under_way(uint32_t tier) const {
  uint64_t n = 0;
  for (const auto& offer : offers_) n += offer->tier == tier ? offer->tickets.size() + num_copies(*offer) : 0;
  return n;
}

void Offers::stop() noexcept {
  for (const auto& offer : offers_) withdraw(offer.get());
  close_ended();
}

void Offers::leave_behind(std::vector<std::shared_ptr<void>>* left) noexcept {
  try {
    left->reserve(offers_.size());
    for (auto& offer : offers_) left->push_back(std::shared_ptr<void>(std::move(offer)));
  } catch (const std::bad_alloc&) {
    for (auto& offer : offers_) (void)offer.release();
  }
}

}  // namespace quire
