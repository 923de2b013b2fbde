// quire_cpp/tiers.hpp: tiers. Include quire.hpp.
#pragma once

#include <quire/tier.h>

#include "cache.hpp"
#include "device.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// The tiers of a cache. Calls are serialized by the caller.
class Tiers : public Handle<quire_tiers, quire_tiers_release> {
 public:
  using Handle::Handle;
  // options: memories and streams by shard, tiers the nearest first. Errors: INVALID_ARGUMENT,
  // FAILED_PRECONDITION (a tier writes without prefix reuse), UNIMPLEMENTED.
  static Returned<Tiers> create(const Cache& cache, const quire_tiers_options& options) {
    return detail::get<Tiers>(quire_tiers_create, cache.get(), &options);
  }
  Tiers share() const { return Tiers(quire_tiers_retain(get())); }
  // Asks for a prefix beyond what the cache has. The sequence is empty, and is not used until the
  // fetch has ended. deadline_ns: from now; 0 = derived. Errors: NOT_FOUND, FAILED_PRECONDITION,
  // RESOURCE_EXHAUSTED (max_fetches).
  Returned<quire_fetch_id> begin_fetch(quire_sequence_id sequence, std::span<const quire_symbol> symbols, int64_t deadline_ns = 0) const {
    return detail::get<quire_fetch_id>(quire_fetch_begin, get(), sequence, symbols.data(), uint64_t{symbols.size()}, deadline_ns);
  }
  // The same, and asks a peer for what it offers: peer.tier, address, handle and end_token, and
  // encoder_tokens of cross attention; with QUIRE_PEER_GROWS it waits for what is missing. Errors:
  // those of begin_fetch, INVALID_ARGUMENT, OUT_OF_RANGE (tier, encoder_tokens),
  // FAILED_PRECONDITION (no QUIRE_TIER_PEERS).
  Returned<quire_fetch_id> begin_fetch_from(const quire_peer& peer, quire_sequence_id sequence,  //
                                            std::span<const quire_symbol> symbols,               //
                                            int64_t deadline_ns = 0) const {
    return detail::get<quire_fetch_id>(quire_fetch_begin_peer, get(), sequence, symbols.data(),  //
                                       uint64_t{symbols.size()}, deadline_ns, &peer);
  }
  // Offers tokens of a sequence up to end_token to one reader, through a tier with
  // QUIRE_TIER_PEERS; 0: those that are committed. Of more than these the offer grows: keep the
  // sequence until num_tokens of offer_info() is end_token. run() prepares the offer. Errors:
  // INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION, RESOURCE_EXHAUSTED,
  // UNIMPLEMENTED.
  Returned<quire_offer> begin_offer(quire_sequence_id sequence,             //
                                    std::span<const quire_symbol> symbols,  //
                                    uint32_t tier, uint64_t end_token = 0) const {
    return detail::get<quire_offer>(quire_offer_begin, get(), sequence, symbols.data(),  //
                                    uint64_t{symbols.size()}, end_token, tier);
  }
  // Errors: NOT_FOUND (it has ended).
  Returned<quire_offer_info> offer_info(const quire_offer& offer) const {
    return detail::get<quire_offer_info>(quire_offer_get_info, get(), offer.handle);
  }
  // Errors: NOT_FOUND (it has ended).
  Returned<void> end_offer(const quire_offer& offer) const {  //
    return detail::call(quire_offer_end, get(), offer.handle);
  }
  // Why nothing came of an offer, or not all of it: the first field in which it differs. Errors:
  // NOT_FOUND (none was refused in this fetch, as far as is known).
  Returned<quire_offer_refusal> refusal(quire_fetch_id fetch) const {  //
    return detail::get<quire_offer_refusal>(quire_fetch_get_refusal, get(), fetch);
  }
  // Errors: NOT_FOUND.
  Returned<void> cancel_fetch(quire_fetch_id fetch) const { return detail::call(quire_fetch_cancel, get(), fetch); }
  // Stores, follows transfers, ends fetches; fetches that have ended go into `to`; returns how
  // many. Waits up to timeout_ns if something is in flight and nothing happens.
  Returned<uint64_t> run(int64_t timeout_ns, std::span<quire_fetch_result> to) const {
    return detail::get<uint64_t>(quire_tiers_run, get(), timeout_ns, to.data(), uint64_t{to.size()});
  }
  // Errors: OUT_OF_RANGE.
  Returned<quire_tier_stats> tier_stats(uint32_t tier) const {
    return detail::get<quire_tier_stats>(quire_tiers_get_tier_stats, get(), tier);
  }
  Returned<quire_tiers_stats> stats() const { return detail::get<quire_tiers_stats>(quire_tiers_get_stats, get()); }
  // Events of what a tier keeps, as those of a cache; see quire_tiers_read_events.
  Returned<void> read_events(uint32_t tier, uint64_t from, std::span<quire_event> events,  //
                             std::span<uint8_t> data, quire_event_batch& batch) const {
    return detail::call(quire_tiers_read_events, get(), tier, from,  //
                        events.data(), uint64_t{events.size()},      //
                        data.data(), uint64_t{data.size()}, &batch);
  }
};

// What a record says that a connector keeps. bytes: from its first byte on. Any thread. Errors:
// NOT_FOUND (no record), UNIMPLEMENTED (another version), OUT_OF_RANGE (the header is longer),
// DATA_LOSS.
inline Returned<quire_record_info> read_record(std::span<const uint8_t> bytes) {
  return detail::get<quire_record_info>(quire_record_read, static_cast<const void*>(bytes.data()), uint64_t{bytes.size()});
}
// How many blocks are damaged, of whole blocks of its payload from first_block on. header: the
// record from its first byte on. Any thread. Errors: as above, OUT_OF_RANGE (blocks).
inline Returned<uint64_t> check_record(std::span<const uint8_t> header, uint64_t first_block, std::span<const uint8_t> blocks) {
  return detail::get<uint64_t>(quire_record_check, static_cast<const void*>(header.data()), uint64_t{header.size()}, first_block,
                               static_cast<const void*>(blocks.data()), uint64_t{blocks.size()});
}

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
