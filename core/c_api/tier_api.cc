// quire/tier.h
#include <algorithm>
#include <cinttypes>
#include <vector>

#include "core/c_api/handles.h"
#include "core/records/record_header.h"
#include "core/tier/shardings.h"

namespace c_api = quire::c_api;
using quire::Result;
using quire::Status;

namespace {

constexpr uint64_t kMaxTierNameBytes = 31;

// Runs a body on the tiers behind the handle: one call at a time.
template <typename Body>
quire_code with_tiers(quire_tiers* tiers, quire_error* err, Body&& body) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(tiers, "tiers"));
    const c_api::Alone entered(tiers);
    QUIRE_RETURN_IF_ERROR(entered.check("tiers"));
    return body(*tiers->object);
  });
}

Status read_tier(const quire_tier& tier, uint64_t i, quire::TierSetOptions* out) {
  constexpr uint32_t kReasons = QUIRE_UNIT_COMMITTED | QUIRE_UNIT_HIT | QUIRE_UNIT_FINISHED | QUIRE_UNIT_EVICTING;
  QUIRE_RETURN_IF_ERROR(c_api::check_handle(tier.connector, "options.tiers[].connector"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(tier.name, "options.tiers[].name", kMaxTierNameBytes));
  if ((tier.reasons & ~kReasons) != 0) return quire::invalid("options.tiers[%" PRIu64 "].reasons: unknown bits in 0x%x", i, tier.reasons);
  if ((tier.flags & ~QUIRE_TIER_PEERS) != 0) return quire::invalid("options.tiers[%" PRIu64 "].flags: unknown bits in 0x%x", i, tier.flags);
  if (tier.reserved0 != 0) return quire::invalid("options.tiers[%" PRIu64 "].reserved0: must be 0", i);
  const std::string_view name = c_api::text_of(tier.name);
  out->tiers.push_back({tier.connector->object, std::string(name.empty() ? tier.connector->object->name() : name), tier.reasons,
                        tier.max_store_bytes, (tier.flags & QUIRE_TIER_PEERS) != 0});
  return {};
}

Status read_options(const quire_tiers_options& own, quire::TierSetOptions* out) {
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, 0, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own.reserved0, "options.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own.weights, "options.weights", c_api::kMaxWeightsBytes));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.memories, "options.memories"));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.streams, "options.streams"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own.tiers, own.num_tiers, "options.tiers"));
  if (own.num_tiers == 0 || own.num_tiers > quire::kMostTiers) {
    return quire::invalid("options.num_tiers: %" PRIu64 ", 1 to %zu", own.num_tiers, quire::kMostTiers);
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own.tensor_parallel, own.num_tensor_parallel, "options.tensor_parallel"));
  if (own.num_tensor_parallel > quire::kMostShardings) {
    return quire::invalid("options.num_tensor_parallel: %" PRIu64 ", at most %zu", own.num_tensor_parallel, quire::kMostShardings);
  }
  out->tensor_parallel.assign(own.tensor_parallel, own.tensor_parallel + own.num_tensor_parallel);
  for (uint64_t i = 0; i < own.num_tiers; ++i) QUIRE_RETURN_IF_ERROR(read_tier(own.tiers[i], i, out));
  out->weights = c_api::text_of(own.weights);
  out->unit_tokens = own.unit_tokens;
  out->ns_per_token = own.ns_per_token;
  out->max_fetches = own.max_fetches;
  out->event_ring_bytes = own.event_ring_bytes;
  out->clock = quire::Runtime::host_now;
  out->clock_user = out->tiers[0].connector->runtime().get();
  return {};
}

Result<quire::RecordHeader> read_record(const void* bytes, uint64_t num_bytes) {
  const std::span<const uint8_t> all(static_cast<const uint8_t*>(bytes), num_bytes);
  const uint32_t version = quire::read_version(all);
  if (version == 0) return quire::fail(QUIRE_NOT_FOUND, "record: these %" PRIu64 " bytes do not begin as one", num_bytes);
  if (version != quire::kRecordVersion) {
    return quire::fail(QUIRE_UNIMPLEMENTED, "record: version %u, this library reads %u", version, quire::kRecordVersion);
  }
  constexpr uint64_t kLeast = 32;  // say how long the header is
  const uint64_t size = num_bytes < kLeast ? kLeast : quire::read_header_bytes(all);
  if (size > num_bytes) return quire::fail(QUIRE_OUT_OF_RANGE, "record: a header of %" PRIu64 " bytes, here are %" PRIu64, size, num_bytes);
  return quire::read_header(all);
}

quire_record_info info_of(const quire::RecordHeader& header, uint64_t header_bytes) {
  quire_record_info own{};
  own.version = quire::kRecordVersion;
  std::copy(header.key.begin(), header.key.end(), own.key);
  std::copy(header.fingerprint.begin(), header.fingerprint.end(), own.fingerprint);
  std::copy(header.prefix.begin(), header.prefix.end(), own.prefix);
  own.caches = quire::caches_number(header.shape);
  own.first_token = header.first_token;
  own.end_token = header.end_token;
  own.header_bytes = header_bytes;
  own.block_bytes = header.block_bytes;
  own.num_blocks = header.num_blocks();
  for (size_t i = 0; i < 2; ++i) {
    own.first_block[i] = header.stretches[i].first;
    own.end_block[i] = header.stretches[i].end;
  }
  own.written_at_ns = header.written_at;
  own.block_tokens = header.block_tokens;
  own.is_state = header.shape.is_state ? 1 : 0;
  own.num_caches = static_cast<uint32_t>(header.shape.members.size());
  const auto [first, last] = std::minmax_element(header.shape.members.begin(), header.shape.members.end());
  own.first_layer = first->layer;
  own.last_layer = last->layer;
  const quire::CacheSlice& slice = header.shape.slices[first->slice];
  own.first_head = slice.first_head;
  own.num_heads = slice.num_heads;
  own.rank = slice.tensors.empty() ? slice.context_rank : slice.tensors[0].rank;
  own.num_ranks = slice.tensors.empty() ? slice.context_ranks : slice.tensors[0].num_ranks;
  return own;
}

quire::OfferHandle handle_of(const uint8_t* bytes) {
  quire::OfferHandle handle{};
  std::copy_n(bytes, handle.size(), handle.begin());
  return handle;
}

// The cache's units and the connectors' tickets.
Status take_over(quire_cache* cache, std::span<const quire_tier> tiers, std::vector<c_api::Exclusive::Owner>* owned) {
  owned->push_back(cache->units.take());
  if (!owned->back()) return quire::fail(QUIRE_FAILED_PRECONDITION, "cache: it has tiers already");
  for (size_t t = 0; t < tiers.size(); ++t) {
    quire_connector* const connector = tiers[t].connector;
    for (size_t other = 0; other < t; ++other) {
      if (connector == tiers[other].connector) return quire::invalid("options.tiers[%zu]: the connector of tier %zu, too", t, other);
    }
    owned->push_back(connector->tickets.take());
    if (!owned->back())
      return quire::fail(QUIRE_FAILED_PRECONDITION, "options.tiers[%zu].connector: other tiers use it, or a call does", t);
    const uint64_t in_flight = connector->object->stats().num_in_flight;
    if (in_flight == 0) continue;
    return quire::fail(QUIRE_FAILED_PRECONDITION, "options.tiers[%zu].connector: %" PRIu64 " tickets in flight", t, in_flight);
  }
  return {};
}

}  // namespace

quire_code quire_tiers_create(quire_cache* cache, const quire_tiers_options* options, quire_tiers** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    quire_tiers_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    quire::TierSetOptions wanted;
    QUIRE_RETURN_IF_ERROR(read_options(own, &wanted));
    for (size_t s = 0; s < cache->object->config().shards.size(); ++s) {
      QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.memories[s], "options.memories[]"));
      QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.streams[s], "options.streams[]"));
      wanted.memories.push_back(own.memories[s]->object);
      wanted.streams.push_back(own.streams[s]->object);
    }
    std::vector<c_api::Exclusive::Owner> owned;
    QUIRE_RETURN_IF_ERROR(take_over(cache, {own.tiers, own.num_tiers}, &owned));
    auto made = quire::TierSet::create(cache->object, std::move(wanted));
    if (!made.ok()) return made.take_status();
    *out = new quire_tiers(std::move(*made), std::move(owned));
    return {};
  });
}

quire_tiers* quire_tiers_retain(quire_tiers* tiers) { return c_api::retain(tiers); }

void quire_tiers_release(quire_tiers* tiers) { c_api::release(tiers); }

quire_code quire_fetch_begin(quire_tiers* tiers, quire_sequence_id sequence, const quire_symbol* symbols, uint64_t num_symbols,
                             int64_t deadline_ns, quire_fetch_id* out, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    auto fetch = object.fetch_begin(quire::SequenceId(sequence), {symbols, num_symbols}, deadline_ns);
    if (!fetch.ok()) return fetch.take_status();
    *out = *fetch;
    return {};
  });
}

quire_code quire_offer_begin(quire_tiers* tiers, quire_sequence_id sequence, const quire_symbol* symbols, uint64_t num_symbols,
                             uint64_t end_token, uint32_t tier, quire_offer* out, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    auto offer = object.offer_begin(quire::SequenceId(sequence), {symbols, num_symbols}, end_token, tier);
    if (!offer.ok()) return offer.take_status();
    *out = *offer;
    return {};
  });
}

quire_code quire_offer_get_info(quire_tiers* tiers, const uint8_t* handle, quire_offer_info* info, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(handle, "handle"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_offer_info own{};
    QUIRE_RETURN_IF_ERROR(object.offer_info(handle_of(handle), &own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_offer_end(quire_tiers* tiers, const uint8_t* handle, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(handle, "handle"));
    return object.offer_end(handle_of(handle));
  });
}

quire_code quire_fetch_begin_peer(quire_tiers* tiers, quire_sequence_id sequence, const quire_symbol* symbols, uint64_t num_symbols,
                                  int64_t deadline_ns, const quire_peer* peer, quire_fetch_id* out, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(symbols, num_symbols, "symbols"));
    quire_peer own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(peer, &own, "peer"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.address, "peer.address", quire::kMostAddressBytes));
    quire::FetchPeer from;
    from.tier = own.tier;
    from.address = c_api::text_of(own.address);
    if (from.address.empty()) return quire::invalid("peer.address: empty");
    from.handle = handle_of(own.handle);
    from.end_token = own.end_token;
    if ((own.flags & ~QUIRE_PEER_GROWS) != 0) return quire::invalid("peer.flags: 0x%x", own.flags);
    from.encoder_tokens = own.encoder_tokens;
    from.is_growing = (own.flags & QUIRE_PEER_GROWS) != 0;
    auto fetch = object.fetch_begin(quire::SequenceId(sequence), {symbols, num_symbols}, deadline_ns, from);
    if (!fetch.ok()) return fetch.take_status();
    *out = *fetch;
    return {};
  });
}

quire_code quire_fetch_get_refusal(quire_tiers* tiers, quire_fetch_id fetch, quire_offer_refusal* refusal, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(tiers, "tiers"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(refusal, "refusal"));
    quire_offer_refusal own{};
    QUIRE_RETURN_IF_ERROR(tiers->object->fetch_refusal(fetch, &own));
    c_api::write_info(refusal, own);
    return {};
  });
}

quire_code quire_fetch_cancel(quire_tiers* tiers, quire_fetch_id fetch, quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) { return object.fetch_cancel(fetch); });
}

quire_code quire_tiers_run(quire_tiers* tiers, int64_t timeout_ns, quire_fetch_result* results, uint64_t capacity, uint64_t* count,
                           quire_error* err) {
  return with_tiers(tiers, err, [&](quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(count, "count"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(results, capacity, "results"));
    if (timeout_ns < 0) return quire::invalid("timeout_ns is %" PRId64 ", the smallest legal one is 0", timeout_ns);
    *count = object.run(timeout_ns, {results, capacity});
    return {};
  });
}

quire_code quire_tiers_get_tier_stats(quire_tiers* tiers, uint32_t tier, quire_tier_stats* stats, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(tiers, "tiers"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_tier_stats own{};
    QUIRE_RETURN_IF_ERROR(tiers->object->tier_stats(tier, &own));
    c_api::write_info(stats, own);
    return {};
  });
}

quire_code quire_tiers_get_stats(quire_tiers* tiers, quire_tiers_stats* stats, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(tiers, "tiers"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_tiers_stats own{};
    tiers->object->stats(&own);
    c_api::write_info(stats, own);
    return {};
  });
}

quire_code quire_record_read(const void* bytes, uint64_t num_bytes, quire_record_info* info, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(bytes, "bytes"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    auto header = read_record(bytes, num_bytes);
    if (!header.ok()) return header.take_status();
    c_api::write_info(info, info_of(*header, quire::read_header_bytes({static_cast<const uint8_t*>(bytes), num_bytes})));
    return {};
  });
}

quire_code quire_record_check(const void* header, uint64_t header_bytes, uint64_t first_block, const void* blocks, uint64_t num_bytes,
                              uint64_t* num_damaged, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(header, "header"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(blocks, num_bytes, "blocks"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(num_damaged, "num_damaged"));
    auto read = read_record(header, header_bytes);
    if (!read.ok()) return read.take_status();
    const uint64_t all = read->num_blocks(), n = num_bytes / read->block_bytes;
    if (num_bytes % read->block_bytes != 0) {
      return quire::fail(QUIRE_OUT_OF_RANGE, "num_bytes is %" PRIu64 ", its blocks have %" PRIu64, num_bytes, read->block_bytes);
    }
    if (first_block > all || n > all - first_block) {
      return quire::fail(QUIRE_OUT_OF_RANGE, "first_block is %" PRIu64 ", with %" PRIu64 " blocks; the record has %" PRIu64, first_block, n,
                         all);
    }
    *num_damaged = quire::count_damaged(*read, first_block, {static_cast<const uint8_t*>(blocks), num_bytes});
    return {};
  });
}
