// quire/tier.h
#include <cinttypes>

#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxWeightsBytes = 4096, kMaxTierNameBytes = 31, kMaxTiers = 8;

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
  constexpr uint32_t kReasons = QUIRE_UNIT_COMMITTED | QUIRE_UNIT_HIT | QUIRE_UNIT_FINISHED;
  QUIRE_RETURN_IF_ERROR(c_api::check_handle(tier.connector, "options.tiers[].connector"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(tier.name, "options.tiers[].name", kMaxTierNameBytes));
  if ((tier.reasons & ~kReasons) != 0) return quire::invalid("options.tiers[%" PRIu64 "].reasons: unknown bits in 0x%x", i, tier.reasons);
  if (tier.flags != 0) return quire::invalid("options.tiers[%" PRIu64 "].flags: 0x%x, none are defined", i, tier.flags);
  if (tier.reserved0 != 0) return quire::invalid("options.tiers[%" PRIu64 "].reserved0: must be 0", i);
  const std::string_view name = c_api::text_of(tier.name);
  out->tiers.push_back(
      {tier.connector->object, std::string(name.empty() ? tier.connector->object->name() : name), tier.reasons, tier.max_store_bytes});
  return {};
}

Status read_options(const quire_tiers_options& own, quire::TierSetOptions* out) {
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, 0, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own.reserved0, "options.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own.weights, "options.weights", kMaxWeightsBytes));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.memories, "options.memories"));
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(own.streams, "options.streams"));
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own.tiers, own.num_tiers, "options.tiers"));
  if (own.num_tiers == 0 || own.num_tiers > kMaxTiers) {
    return quire::invalid("options.num_tiers: %" PRIu64 ", 1 to %" PRIu64, own.num_tiers, kMaxTiers);
  }
  for (uint64_t i = 0; i < own.num_tiers; ++i) QUIRE_RETURN_IF_ERROR(read_tier(own.tiers[i], i, out));
  out->weights = c_api::text_of(own.weights);
  out->unit_tokens = own.unit_tokens;
  out->ns_per_token = own.ns_per_token;
  out->max_fetches = own.max_fetches;
  out->clock = quire::Runtime::host_now;
  out->clock_user = out->tiers[0].connector->runtime().get();
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
    const std::shared_ptr<const quire::Config> config = cache->object->shared_config();
    for (size_t s = 0; s < config->shards.size(); ++s) {
      QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.memories[s], "options.memories[]"));
      QUIRE_RETURN_IF_ERROR(c_api::check_handle(own.streams[s], "options.streams[]"));
      wanted.memories.push_back(own.memories[s]->object);
      wanted.streams.push_back(own.streams[s]->object);
    }
    auto made = quire::TierSet::create(cache->object, config, std::move(wanted));
    if (!made.ok()) return made.take_status();
    *out = new quire_tiers(std::move(*made));
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
  return with_tiers(tiers, err, [&](const quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_tier_stats own{};
    QUIRE_RETURN_IF_ERROR(object.tier_stats(tier, &own));
    c_api::write_info(stats, own);
    return {};
  });
}

quire_code quire_tiers_get_stats(quire_tiers* tiers, quire_tiers_stats* stats, quire_error* err) {
  return with_tiers(tiers, err, [&](const quire::TierSet& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(stats, "stats"));
    quire_tiers_stats own{};
    object.stats(&own);
    c_api::write_info(stats, own);
    return {};
  });
}
