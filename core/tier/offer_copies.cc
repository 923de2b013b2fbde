// Offers of shards on devices: copies of their records in host memory.
#include <algorithm>
#include <new>
#include <string>

#include "core/tier/offers.h"

namespace quire {
namespace {

// Bytes that are copied ahead of what is submitted. Loads wait for as much on the same stream.
constexpr uint64_t kCopiedAhead = 2 * kSummedAtOnce;

}  // namespace

Status Offers::copy_ready(Offer* offer) {
  for (; offer->next_copy < offer->num_held; ++offer->next_copy) {
    Record& record = offer->records[offer->next_copy];
    if (!state_.is_done(record.mark)) break;
    const TierPart& part = state_.plan->parts()[record.part];
    DeviceStaging* const staging = state_.shards[part.shard].staging.get();
    if (staging == nullptr || record.range.hold == 0) continue;
    if (copied_ahead_ >= kCopiedAhead) break;
    if (!describe_record(state_, record.range, record.names, part, Clipping::kHoles, &header_, &runs_, &ids_)) {
      return fail(QUIRE_NOT_FOUND, "a block is not there");
    }
    auto place = memory_.take(part.shard, header_.payload_bytes());
    if (!place.ok()) return place.take_status();
    record.place = *place;
    auto copy = staging->copy(runs_, false, record.place.bytes.data());
    if (!copy.ok()) return copy.take_status();
    record.copy = *copy;
    copied_ahead_ += record.place.bytes.size();
  }
  return {};
}

Result<bool> Offers::is_copied(const Record& record) const {
  DeviceStaging* const staging = state_.shards[state_.plan->parts()[record.part].shard].staging.get();
  if (staging == nullptr) return true;
  if (record.copy == 0) return false;
  return staging->is_done(record.copy);
}

uint64_t Offers::num_copies(const Offer& offer) const noexcept {
  uint64_t n = 0;
  for (size_t i = offer.next; i < offer.next_copy; ++i) {  // those before it were submitted, so they are done
    const Record& record = offer.records[i];
    if (record.copy == 0) continue;
    try {
      auto copied = is_copied(record);
      n += copied.ok() && !*copied ? 1 : 0;  // after an error none is on its way
    } catch (const std::bad_alloc&) {        // for the text of an error: it is asked again
      ++n;
    }
  }
  return n;
}

void Offers::let_go(Offer* offer) noexcept {
  const std::vector<ShardBytes>& shards = state_.shards;
  if (!std::all_of(shards.begin(), shards.end(), [](const ShardBytes& shard) { return shard.staging != nullptr; })) return;
  quire_hold_id needed = 0;
  for (size_t i = offer->next; i < offer->num_held && needed == 0; ++i) needed = offer->records[i].range.hold;
  const auto end = std::find(offer->holds.begin(), offer->holds.end(), needed);
  for (auto hold = offer->holds.begin(); hold != end; ++hold) (void)state_.cache->hold_end(*hold);
  offer->holds.erase(offer->holds.begin(), end);
}

void Offers::give_back(const Offer& offer) noexcept {
  for (size_t i = 0; i < offer.records.size(); ++i) {
    const Record& record = offer.records[i];
    if (record.place.bytes.empty()) continue;
    if (i >= offer.next && record.copy != 0) copied_ahead_ -= record.place.bytes.size();
    memory_.give_back(record.place);
  }
}

void Offers::report(const Offer& offer, const Status& status) const {
  const Connector& connector = state_.tiers[offer.tier]->connector();
  connector.runtime()->log().write(QUIRE_LOG_ERROR, "connector:" + connector.name(), "an offer ends: " + std::string(status.message()));
}

}  // namespace quire
