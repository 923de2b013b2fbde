// Rows of quire/cache.h.
#include "rows.h"

namespace quire::test {
namespace {

const std::vector<uint64_t> kNoSequence = {0, 77, UINT64_MAX};
const std::vector<quire_symbol> kSymbols = {1, 2, 3, 4};

quire_sequence_id sequence_of(const Rig& rig) {
  quire_sequence_id sequence = 0;
  EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &sequence, nullptr), QUIRE_OK);
  return sequence;
}

ROW(quire_config_get_capacity) {
  auto capacity = sized<quire_capacity>();
  auto options = sized<quire_cache_options>();
  call.bad("tokens", {UINT64_MAX, uint64_t{1} << 31}, QUIRE_OUT_OF_RANGE).bad("concurrency", {UINT64_MAX}, QUIRE_OUT_OF_RANGE);
  call.null_is_legal({"options"});
  call(rig.config.get(), &options, uint64_t{16}, uint64_t{1}, &capacity);
  EXPECT_GE(capacity.guaranteed, 1U);
  EXPECT_GE(capacity.resident, capacity.guaranteed);
}

ROW(quire_cache_create) {
  const auto options = sized<quire_cache_options>();
  quire_cache* out = nullptr;
  call.null_is_legal({"runtime", "options"});
  call(rig.runtime.get(), rig.config.get(), &options, &out);
  quire_cache_release(out);
}

ROW(quire_cache_retain) { EXPECT_EQ(quire_cache_retain(nullptr), nullptr); }

ROW(quire_cache_release) { quire_cache_release(nullptr); }

ROW(quire_sequence_create) {
  const auto identity = sized<quire_identity>();
  quire_sequence_id out = 0;
  call.null_is_legal({"identity"});
  call(rig.cache.get(), &identity, &out);
}

ROW(quire_sequence_finish) {
  call.bad("sequence", kNoSequence, QUIRE_NOT_FOUND);
  call(rig.cache.get(), sequence_of(rig));
}

ROW(quire_sequence_preempt) {
  call.bad("sequence", kNoSequence, QUIRE_NOT_FOUND);
  call(rig.cache.get(), sequence_of(rig));
}

ROW(quire_sequence_truncate) {
  call.bad("sequence", kNoSequence, QUIRE_NOT_FOUND).bad("tokens", {1, UINT64_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.cache.get(), sequence_of(rig), uint64_t{0});
}

ROW(quire_sequence_fork) {
  quire_sequence_id out = 0;
  call.bad("parent", kNoSequence, QUIRE_NOT_FOUND, "sequence");
  call(rig.cache.get(), sequence_of(rig), &out);
}

ROW(quire_sequence_get_info) {
  auto info = sized<quire_sequence_info>();
  call.bad("sequence", kNoSequence, QUIRE_NOT_FOUND);
  call(rig.cache.get(), sequence_of(rig), &info);
}

ROW(quire_cache_add_media) {
  const uint8_t digest[32] = {1};
  quire_symbol first = 0;
  call.bad("length", {0}, QUIRE_INVALID_ARGUMENT);
  call(rig.cache.get(), digest, 4U, &first);
}

ROW(quire_probe) {
  const auto identity = sized<quire_identity>();
  auto result = sized<quire_probe_result>();
  call.null_is_legal({"identity"}).any({"num_symbols"});
  call(rig.cache.get(), &identity, kSymbols.data(), kSymbols.size(), &result);
}

ROW(quire_cache_get_stats) {
  auto stats = sized<quire_cache_stats>();
  call(rig.cache.get(), &stats);
  EXPECT_EQ(stats.pages_total, 48U);
}

ROW(quire_cache_get_group_stats) {
  auto stats = sized<quire_group_stats>();
  auto plan = sized<quire_config_info>();
  EXPECT_EQ(quire_config_get_info(rig.config.get(), &plan, nullptr), QUIRE_OK);
  call.bad("group", {plan.num_groups, 99, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.cache.get(), 0U, &stats);
  auto all = sized<quire_cache_stats>();
  EXPECT_EQ(quire_cache_get_stats(rig.cache.get(), &all, nullptr), QUIRE_OK);
  uint64_t used = 0, cached = 0;
  for (uint32_t g = 0; g < plan.num_groups; ++g) {
    EXPECT_EQ(quire_cache_get_group_stats(rig.cache.get(), g, &stats, nullptr), QUIRE_OK);
    EXPECT_EQ(stats.group, g);
    used += stats.pages_used;
    cached += stats.pages_cached;
  }
  EXPECT_EQ(used, all.pages_used);
  EXPECT_EQ(cached, all.pages_evictable);
}

ROW(quire_cache_forget_blocks) {
  const int32_t ids[2] = {0, 1};
  uint64_t forgotten = 0;
  call.any({"n"}).bad("group", {99}, QUIRE_OUT_OF_RANGE);
  call(rig.cache.get(), 0U, ids, uint64_t{2}, &forgotten);
}

ROW(quire_cache_reset) { call(rig.cache.get()); }

ROW(quire_cache_verify) { call(rig.cache.get()); }

}  // namespace
}  // namespace quire::test
