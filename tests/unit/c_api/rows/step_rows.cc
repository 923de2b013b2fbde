// Rows of quire/step.h.
#include <array>

#include "rows.h"

namespace quire::test {
namespace {

const std::vector<quire_symbol> kSymbols = {1, 2, 3, 4};

quire_sequence_id sequence_of(const Rig& rig) {
  quire_sequence_id sequence = 0;
  EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &sequence, nullptr), QUIRE_OK);
  return sequence;
}

// A step of four tokens of a new sequence.
quire_step step_of(Rig& rig, quire_sequence_id* sequence = nullptr) {
  const quire_sequence_id own = sequence_of(rig);
  if (sequence != nullptr) *sequence = own;
  return rig.reserve(own, kSymbols);
}

ROW(quire_reserve) {
  quire_reserve_entry entry{};
  entry.sequence = sequence_of(rig);
  entry.num_symbols = entry.num_tokens = 4;
  quire_reserve_result result{};
  quire_step step{};
  call.any({"n", "num_symbols"});
  call(rig.cache.get(), &entry, uint64_t{1}, kSymbols.data(), kSymbols.size(), &result, &step);
  EXPECT_EQ(result.code, QUIRE_OK);
  // Counts and fields of entries: each wrong one with everything else right.
  const auto with = [&](auto change, quire_code code, const char* part) {
    quire_reserve_entry wrong = entry;
    change(&wrong);
    EXPECT_FAILS(code, part, quire_reserve(rig.cache.get(), &wrong, 1, kSymbols.data(), 4, &result, &step, err));
  };
  with([](auto* e) { e->encoder_tokens = 1; }, QUIRE_INVALID_ARGUMENT, "entries[0].encoder_tokens");
  with([](auto* e) { e->flags = 1U << 31; }, QUIRE_INVALID_ARGUMENT, "entries[0].flags");
  with([](auto* e) { e->symbols_offset = 1; }, QUIRE_OUT_OF_RANGE, "symbols");
  with([](auto* e) { e->symbols_offset = UINT64_MAX; }, QUIRE_OUT_OF_RANGE, "symbols");
  with([](auto* e) { e->num_symbols = UINT32_MAX; }, QUIRE_OUT_OF_RANGE, "symbols");
  const std::vector<quire_reserve_entry> many(300, entry);
  std::vector<quire_reserve_result> results(many.size());
  EXPECT_FAILS(QUIRE_RESOURCE_EXHAUSTED, "300",
               quire_reserve(rig.cache.get(), many.data(), 300, kSymbols.data(), 4, results.data(), &step, err));
}

ROW(quire_refusal_text) {
  const auto text = [](quire_refusal reason) {
    const quire_str of = quire_refusal_text(reason);
    return std::string(of.data, of.len);
  };
  EXPECT_EQ(text(QUIRE_REFUSAL_NONE), "admitted");
  EXPECT_EQ(text(QUIRE_REFUSAL_STEP_FULL), "the step's tokens are used up: ask again in the next step");
  for (const quire_refusal unknown : {-1, QUIRE_REFUSAL_LOOK_AHEAD + 1, INT32_MAX, INT32_MIN}) EXPECT_EQ(text(unknown), "unknown reason");
  std::set<std::string> all;
  for (int i = 0; i <= QUIRE_REFUSAL_LOOK_AHEAD; ++i) all.insert(text(i));
  EXPECT_EQ(all.size(), QUIRE_REFUSAL_LOOK_AHEAD + 1U);
}

ROW(quire_commit) {
  quire_commit_entry entries[2] = {};
  const quire_step step = step_of(rig, &entries[0].sequence);
  entries[0].num_accepted = 4;
  entries[0].num_symbols = 1;
  entries[0].symbols_position = 4;
  const quire_symbol next = 5;
  call.any({"num_symbols"}).bad("n", {0, 2}, QUIRE_INVALID_ARGUMENT, "1");
  const auto wrong = [&](auto change, quire_code code, const char* part) {
    quire_commit_entry one = entries[0];
    change(&one);
    EXPECT_FAILS(code, part, quire_commit(step, &one, 1, &next, 1, err));
  };
  wrong([](auto* e) { e->symbols_position = 5; }, QUIRE_INVALID_ARGUMENT, "entries[0].symbols_position: 5");
  wrong([](auto* e) { e->symbols_offset = UINT64_MAX; }, QUIRE_OUT_OF_RANGE, "symbols");
  wrong([](auto* e) { e->num_accepted = 5; }, QUIRE_OUT_OF_RANGE, "num_accepted");
  wrong([](auto* e) { e->sequence = 77; }, QUIRE_INVALID_ARGUMENT, "sequence");
  call(step, entries, uint64_t{1}, &next, uint64_t{1});
}

ROW(quire_abort) {
  call.bad("flags", {2, UINT32_MAX}, QUIRE_INVALID_ARGUMENT);
  call(step_of(rig), 0U);
}

ROW(quire_step_get_info) {
  auto info = sized<quire_step_info>();
  call(step_of(rig), &info);
  EXPECT_EQ(info.num_tokens, 4U);
}

ROW(quire_step_export) {
  std::vector<uint8_t> bytes(4096);
  uint64_t size = 0;
  const quire_step step = step_of(rig);
  call(step, bytes.data(), bytes.size(), &size);
  EXPECT_GT(size, 32U);
  const uint64_t needed = size;
  EXPECT_EQ(quire_step_export(step, nullptr, 0, &size, nullptr), QUIRE_OK);
  EXPECT_EQ(size, needed);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity", quire_step_export(step, bytes.data(), needed - 1, &size, err));
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "bytes", quire_step_export(step, nullptr, 4, &size, err));
}

ROW(quire_follower_create) {
  auto options = sized<quire_cache_options>();
  options.max_sequences = 8;
  quire_follower* out = nullptr;
  call.null_is_legal({"options"});
  call(rig.config.get(), &options, &out);
  quire_follower_release(out);
}

ROW(quire_follower_retain) { EXPECT_EQ(quire_follower_retain(nullptr), nullptr); }

ROW(quire_follower_release) { quire_follower_release(nullptr); }

ROW(quire_follower_import) {
  std::vector<uint8_t> bytes(4096);
  uint64_t size = 0;
  const quire_step theirs = step_of(rig);
  EXPECT_EQ(quire_step_export(theirs, bytes.data(), bytes.size(), &size, nullptr), QUIRE_OK);
  auto options = sized<quire_cache_options>();
  options.max_sequences = 8;
  quire_follower* made = nullptr;
  ASSERT_EQ(quire_follower_create(rig.config.get(), &options, &made, nullptr), QUIRE_OK);
  const Owned<quire_follower> follower(made);
  quire_step step{};
  call.bad("size", {0, 31, size - 1, size + 1}, QUIRE_DATA_LOSS);
  call(made, bytes.data(), size, &step);
  EXPECT_EQ(step.owner, made);
  EXPECT_EQ(step.id, theirs.id);
  // It answers for the step, and ends it for nobody.
  auto info = sized<quire_step_info>();
  EXPECT_EQ(quire_step_get_info(step, &info, nullptr), QUIRE_OK);
  EXPECT_EQ(info.num_tokens, 4U);
  EXPECT_EQ(quire_memory_prepare_step(rig.memory.get(), step, rig.stream.get(), nullptr), QUIRE_OK);
  uint64_t count = 0;
  EXPECT_EQ(quire_step_list_zeroes(step, nullptr, 0, &count, nullptr), QUIRE_OK);
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "follower", quire_abort(step, 0, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "follower", quire_commit(step, nullptr, 0, nullptr, 0, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "follower", quire_step_export(step, bytes.data(), bytes.size(), &size, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "follower", quire_load_end(step, nullptr, 0, &count, nullptr, err));
}

ROW(quire_step_get_batch) {
  alignas(16) std::array<unsigned char, 4096> memory{};
  auto options = sized<quire_batch_options>();
  options.memory = memory.data();
  options.bytes = memory.size();
  auto config = sized<quire_config_info>();
  ASSERT_EQ(quire_config_get_info(rig.config.get(), &config, nullptr), QUIRE_OK);
  std::vector<quire_batch> batches(config.num_groups);
  const quire_step step = step_of(rig);
  uint64_t bytes = 0;
  const auto wrong = [&](auto change, quire_code code, const char* part) {
    quire_batch_options one = options;
    change(&one);
    EXPECT_FAILS(code, part, quire_step_get_batch(step, &one, batches.data(), sizeof batches[0], batches.size(), &bytes, err));
    EXPECT_EQ(batches[0].struct_size, 0U) << part << ": a batch was written";
  };
  wrong([](auto* o) { o->shard = 1; }, QUIRE_OUT_OF_RANGE, "shard: 1");
  wrong([](auto* o) { o->num_tokens = 3; }, QUIRE_OUT_OF_RANGE, "num_tokens: 3");
  wrong([](auto* o) { o->bytes = 8; }, QUIRE_OUT_OF_RANGE, "bytes: 8");
  wrong([](auto* o) { o->memory = nullptr; }, QUIRE_INVALID_ARGUMENT, "memory");
  wrong([](auto* o) { o->memory = static_cast<unsigned char*>(o->memory) + 8; }, QUIRE_INVALID_ARGUMENT, "aligned to 16");
  wrong([](auto* o) { o->address = static_cast<unsigned char*>(o->memory) + 4; }, QUIRE_INVALID_ARGUMENT, "aligned to 16");
  call.elements({"batches"}).bad("n", {0, 99, UINT64_MAX}, QUIRE_OUT_OF_RANGE);
  call(step, &options, batches.data(), sizeof batches[0], uint64_t{batches.size()}, &bytes);
  EXPECT_EQ(batches[0].num_rows, 1U);
  EXPECT_EQ(batches[0].kv_len[0], 4);
  const auto size_only = sized<quire_batch_options>();
  uint64_t needed = 0;
  EXPECT_EQ(quire_step_get_batch(step, &size_only, nullptr, 0, 0, &needed, nullptr), QUIRE_OK);
  EXPECT_EQ(needed, bytes);
}

ROW(quire_step_fill) {
  std::vector<int32_t> positions(16), lengths(4);
  std::array<quire_fill, 2> fills{sized<quire_fill>(), sized<quire_fill>()};
  fills[0].kind = QUIRE_FILL_POSITIONS;
  fills[0].destination = positions.data();
  fills[0].capacity = positions.size();
  fills[1].kind = QUIRE_FILL_KV_LEN;
  fills[1].destination = lengths.data();
  fills[1].capacity = lengths.size();
  std::array<uint64_t, 2> written{};
  call.elements({"fills"}).bad("n", {0, QUIRE_MAX_FILLS + 1, UINT64_MAX}, QUIRE_INVALID_ARGUMENT);
  call(step_of(rig), fills.data(), sizeof fills[0], fills.size(), written.data());
  EXPECT_EQ(written[0], 4U);
  EXPECT_EQ(written[1], 1U);
  EXPECT_EQ(lengths[0], 4);
}

ROW(quire_step_list_copies) {
  std::vector<quire_copy> items(8);
  uint64_t count = 0;
  call(step_of(rig), items.data(), items.size(), &count);
}

ROW(quire_step_list_zeroes) {
  std::vector<quire_zero> items(64);
  uint64_t count = 0;
  call(step_of(rig), items.data(), items.size(), &count);
}

}  // namespace
}  // namespace quire::test
