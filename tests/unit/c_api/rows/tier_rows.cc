// Rows of quire/tier.h.
#include <quire/tier.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "rows.h"
#include "tests/fakes/made_record.h"

namespace quire::test {
namespace {

constexpr uint64_t kGrain = MadeRecord::kGrain;
const std::vector<quire_symbol> kPrompt(60, 7);

struct ReleaseTiers {
  void operator()(quire_tiers* tiers) const { quire_tiers_release(tiers); }
};

// Tiers over the null connector, which keeps nothing.
struct Tiers {
  Owned<quire_connector> connector;
  quire_memory* memory = nullptr;
  quire_stream* stream = nullptr;
  quire_tier tier{};
  quire_tiers_options options = sized<quire_tiers_options>();
  std::unique_ptr<quire_tiers, ReleaseTiers> made;

  explicit Tiers(const Rig& rig) : memory(rig.memory.get()), stream(rig.stream.get()) {
    quire_connector* out = nullptr;
    EXPECT_WORKS(quire_connector_open(rig.runtime.get(), text("null"), {}, &out, err));
    connector.reset(out);
    tier.connector = out;
    tier.name = text("nowhere");
    tier.reasons = QUIRE_UNIT_COMMITTED;
    options.weights = text("weights");
    options.memories = &memory;
    options.streams = &stream;
    options.tiers = &tier;
    options.num_tiers = 1;
  }
  quire_tiers* make(const Rig& rig) {
    quire_tiers* out = nullptr;
    EXPECT_WORKS(quire_tiers_create(rig.cache.get(), &options, &out, err));
    made.reset(out);
    return out;
  }
};

quire_sequence_id opened(const Rig& rig) {
  quire_sequence_id sequence = 0;
  EXPECT_WORKS(quire_sequence_create(rig.cache.get(), nullptr, &sequence, err));
  return sequence;
}

ROW(quire_tiers_create) {
  Tiers tiers(rig);
  quire_tiers* out = nullptr;
  const auto wrong = [&](auto change, quire_code code, const char* part) {
    Tiers other(rig);
    change(&other);
    EXPECT_FAILS(code, part, quire_tiers_create(rig.cache.get(), &other.options, &out, err));
  };
  wrong([](Tiers* t) { t->options.weights = {}; }, QUIRE_INVALID_ARGUMENT, "options.weights");
  wrong([](Tiers* t) { t->options.num_tiers = 0; }, QUIRE_INVALID_ARGUMENT, "options.num_tiers: 0");
  wrong([](Tiers* t) { t->options.num_tiers = 9; }, QUIRE_INVALID_ARGUMENT, "options.num_tiers: 9");
  wrong([](Tiers* t) { t->options.tiers = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.tiers");
  wrong([](Tiers* t) { t->options.memories = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.memories");
  wrong([](Tiers* t) { t->memory = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.memories[]");
  wrong([](Tiers* t) { t->options.streams = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.streams");
  wrong([](Tiers* t) { t->stream = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.streams[]");
  wrong([](Tiers* t) { t->options.unit_tokens = 7; }, QUIRE_INVALID_ARGUMENT, "options.unit_tokens: 7");
  wrong([](Tiers* t) { t->options.ns_per_token = -1; }, QUIRE_INVALID_ARGUMENT, "options.ns_per_token");
  static const uint32_t kSizes[] = {2, 0};
  wrong([](Tiers* t) { t->options.num_tensor_parallel = 1; }, QUIRE_INVALID_ARGUMENT, "options.tensor_parallel");
  wrong([](Tiers* t) { t->options.tensor_parallel = kSizes, t->options.num_tensor_parallel = 2; }, QUIRE_INVALID_ARGUMENT,
        "options.tensor_parallel[1]: 0");
  wrong([](Tiers* t) { t->options.tensor_parallel = kSizes, t->options.num_tensor_parallel = 9; }, QUIRE_INVALID_ARGUMENT,
        "options.num_tensor_parallel: 9");
  wrong([](Tiers* t) { t->tier.connector = nullptr; }, QUIRE_INVALID_ARGUMENT, "options.tiers[].connector");
  wrong([](Tiers* t) { t->tier.reasons = 16; }, QUIRE_INVALID_ARGUMENT, "options.tiers[0].reasons");
  wrong([](Tiers* t) { t->tier.flags = 2; }, QUIRE_INVALID_ARGUMENT, "options.tiers[0].flags");
  wrong([](Tiers* t) { t->tier.flags = QUIRE_TIER_PEERS; }, QUIRE_INVALID_ARGUMENT, "options.tiers[0].reasons: 0x1");
  wrong([](Tiers* t) { t->tier.reserved0 = 1; }, QUIRE_INVALID_ARGUMENT, "options.tiers[0].reserved0");
  Rig other;
  tiers.memory = other.memory.get();
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "another config", quire_tiers_create(rig.cache.get(), &tiers.options, &out, err));
  tiers.memory = rig.memory.get();
  call(rig.cache.get(), &tiers.options, &out);

  // While they exist, the cache's units and the connector's tickets are theirs.
  Tiers more(rig);
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "it has tiers already", quire_tiers_create(rig.cache.get(), &more.options, &out, err));
  more.tier.connector = tiers.tier.connector;
  more.memory = other.memory.get();
  quire_stream* stream = other.stream.get();
  more.options.streams = &stream;
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "other tiers use it", quire_tiers_create(other.cache.get(), &more.options, &out, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "its tiers", quire_cache_watch_units(rig.cache.get(), nullptr, err));
  quire_unit unit{};
  uint64_t count = 0;
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "its tiers", quire_cache_take_units(rig.cache.get(), &unit, 1, &count, err));
  quire_connector* const connector = tiers.tier.connector;
  quire_ticket ticket{};
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "tiers use it",
               quire_connector_submit(connector, &ticket, 1, nullptr, 0, nullptr, 0, &count, err));
  quire_completion completion{};
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "tiers use it", quire_connector_poll(connector, 0, &completion, 1, &count, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "tiers use it", quire_connector_cancel(connector, 1, err));
  quire_tiers_release(out);
  EXPECT_WORKS(quire_cache_watch_units(rig.cache.get(), nullptr, err));
  EXPECT_WORKS(quire_connector_poll(connector, 0, &completion, 1, &count, err));

  // Completions of a ticket in flight would be lost.
  const uint8_t key = 'k';
  ticket.kind = QUIRE_TICKET_REMOVE;
  ticket.ticket = 1;
  ticket.key_bytes = 1;
  ticket.num_keys = 1;
  EXPECT_WORKS(quire_connector_submit(connector, &ticket, 1, nullptr, 0, &key, 1, &count, err));
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "1 tickets in flight", quire_tiers_create(rig.cache.get(), &tiers.options, &out, err));
  EXPECT_WORKS(quire_connector_poll(connector, 1000000000, &completion, 1, &count, err));
  EXPECT_WORKS(quire_tiers_create(rig.cache.get(), &tiers.options, &out, err));
  quire_tiers_release(out);
}

// A thread that waits in a poll would take the tiers' completions: there are no tiers meanwhile.
TEST(TiersAndCalls, ExcludeEachOther) {
  const Rig rig;
  Tiers tiers(rig);
  quire_connector* const connector = tiers.tier.connector;
  std::atomic<bool> stop = false;
  std::thread polling([&] {
    while (!stop) {
      quire_completion end{};
      uint64_t count = 0;
      (void)quire_connector_poll(connector, 20'000'000, &end, 1, &count, nullptr);
    }
  });
  quire_code code = QUIRE_OK;
  for (int tries = 0; tries < 10'000 && code == QUIRE_OK; ++tries) {
    quire_tiers* out = nullptr;
    code = quire_tiers_create(rig.cache.get(), &tiers.options, &out, nullptr);
    if (code == QUIRE_OK) quire_tiers_release(out);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  polling.join();
  EXPECT_EQ(code, QUIRE_FAILED_PRECONDITION);
  EXPECT_NE(tiers.make(rig), nullptr);
}

ROW(quire_tiers_retain) { EXPECT_EQ(quire_tiers_retain(nullptr), nullptr); }

ROW(quire_tiers_release) { quire_tiers_release(nullptr); }

ROW(quire_fetch_begin) {
  Tiers tiers(rig);
  quire_fetch_id fetch = 0;
  call.any({"num_symbols"});
  call.bad("sequence", {0, 77}, QUIRE_NOT_FOUND);
  call.bad("deadline_ns", {UINT64_MAX, uint64_t{1} << 63}, QUIRE_INVALID_ARGUMENT);
  quire_tiers* const made = tiers.make(rig);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "num_symbols: 0", quire_fetch_begin(made, opened(rig), kPrompt.data(), 0, 0, &fetch, err));
  EXPECT_WORKS(quire_fetch_begin(made, opened(rig), kPrompt.data(), kPrompt.size(), 0, &fetch, err));
  // One symbol is left to a step, so this ends at once. A fetch keeps the memory of the one before it.
  const quire_sequence_id sequence = opened(rig);
  EXPECT_WORKS(quire_fetch_begin(made, sequence, kPrompt.data(), 1, 0, &fetch, err));
  call(made, sequence, kPrompt.data(), uint64_t{1}, int64_t{0}, &fetch);
}

ROW(quire_fetch_begin_peer) {
  Tiers tiers(rig);
  tiers.tier.flags = QUIRE_TIER_PEERS;
  tiers.tier.reasons = 0;
  quire_fetch_id fetch = 0;
  quire_peer peer = QUIRE_INIT(quire_peer);
  peer.address = {"host:1", 6};
  call.any({"num_symbols"});
  call.bad("sequence", {0, 77}, QUIRE_NOT_FOUND);
  call.bad("deadline_ns", {UINT64_MAX, uint64_t{1} << 63}, QUIRE_INVALID_ARGUMENT);
  quire_tiers* const made = tiers.make(rig);
  const auto begin = [&](const quire_peer& from, quire_error* err) {
    return quire_fetch_begin_peer(made, opened(rig), kPrompt.data(), kPrompt.size(), 0, &from, &fetch, err);
  };
  quire_peer bad = peer;
  bad.tier = 1;
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "peer.tier: 1 of 1", begin(bad, err));
  bad = peer;
  bad.address = {nullptr, 0};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "peer.address", begin(bad, err));
  EXPECT_WORKS(begin(peer, err));
  const quire_sequence_id sequence = opened(rig);
  EXPECT_WORKS(quire_fetch_begin_peer(made, sequence, kPrompt.data(), 1, 0, &peer, &fetch, err));
  call(made, sequence, kPrompt.data(), uint64_t{1}, int64_t{0}, &peer, &fetch);
}

ROW(quire_offer_begin) {
  Tiers tiers(rig);
  call.answers(QUIRE_FAILED_PRECONDITION);  // what works is in tests/tier/offers_test.cc
  tiers.tier.flags = QUIRE_TIER_PEERS;
  tiers.tier.reasons = 0;
  quire_offer offer{};
  call.any({"num_symbols"});
  call.bad("sequence", {0, 77}, QUIRE_NOT_FOUND);
  call.bad("tier", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call.bad("end_token", {1, UINT64_MAX}, QUIRE_INVALID_ARGUMENT);
  quire_tiers* const made = tiers.make(rig);
  EXPECT_FAILS(QUIRE_FAILED_PRECONDITION, "0 tokens are committed",
               quire_offer_begin(made, opened(rig), kPrompt.data(), kPrompt.size(), 0, 0, &offer, err));
  call(made, opened(rig), kPrompt.data(), uint64_t{1}, uint64_t{0}, uint32_t{0}, &offer);
}

ROW(quire_offer_get_info) {
  Tiers tiers(rig);
  call.answers(QUIRE_NOT_FOUND);  // what works is in tests/tier/offers_test.cc
  quire_tiers* const made = tiers.make(rig);
  const std::array<uint8_t, 16> handle{};
  quire_offer_info info = QUIRE_INIT(quire_offer_info);
  EXPECT_FAILS(QUIRE_NOT_FOUND, "no such offer", quire_offer_get_info(made, handle.data(), &info, err));
  call(made, handle.data(), &info);
}

ROW(quire_offer_end) {
  Tiers tiers(rig);
  call.answers(QUIRE_NOT_FOUND);  // what works is in tests/tier/offers_test.cc
  quire_tiers* const made = tiers.make(rig);
  const std::array<uint8_t, 16> handle{};
  EXPECT_FAILS(QUIRE_NOT_FOUND, "no such offer", quire_offer_end(made, handle.data(), err));
  call(made, handle.data());
}

ROW(quire_fetch_get_refusal) {
  Tiers tiers(rig);
  call.answers(QUIRE_NOT_FOUND);  // what works is in tests/tier/offer_refusal_test.cc
  quire_tiers* const made = tiers.make(rig);
  quire_offer_refusal refusal = QUIRE_INIT(quire_offer_refusal);
  EXPECT_FAILS(QUIRE_NOT_FOUND, "no offer was refused in 7", quire_fetch_get_refusal(made, 7, &refusal, err));
  call.any({"fetch"});
  call(made, quire_fetch_id{0}, &refusal);
}

ROW(quire_fetch_cancel) {
  Tiers tiers(rig);
  quire_tiers* const made = tiers.make(rig);
  quire_fetch_id fetch = 0;
  EXPECT_WORKS(quire_fetch_begin(made, opened(rig), kPrompt.data(), kPrompt.size(), 0, &fetch, err));
  call.bad("fetch", {0, 99}, QUIRE_NOT_FOUND);
  call(made, fetch);
}

ROW(quire_tiers_run) {
  Tiers tiers(rig);
  quire_tiers* const made = tiers.make(rig);
  quire_fetch_id fetch = 0;
  EXPECT_WORKS(quire_fetch_begin(made, opened(rig), kPrompt.data(), kPrompt.size(), 0, &fetch, err));
  quire_fetch_result results[2]{};
  uint64_t count = 99;
  call.bad("timeout_ns", {UINT64_MAX, uint64_t{1} << 63}, QUIRE_INVALID_ARGUMENT);
  call(made, int64_t{0}, results, uint64_t{2}, &count);
}

ROW(quire_tiers_get_tier_stats) {
  Tiers tiers(rig);
  auto stats = sized<quire_tier_stats>();
  call.bad("tier", {1, 0xffffffff}, QUIRE_OUT_OF_RANGE);
  call(tiers.make(rig), uint32_t{0}, &stats);
  EXPECT_STREQ(stats.name, "nowhere");
  EXPECT_EQ(stats.is_open, 1U);
}

ROW(quire_tiers_get_stats) {
  Tiers tiers(rig);
  auto stats = sized<quire_tiers_stats>();
  call(tiers.make(rig), &stats);
  EXPECT_GT(stats.unit_tokens, 0U);
}

// A record of two blocks; its payload begins behind the header.
std::vector<uint8_t> some_record() {
  MadeRecord record;
  record.key[0] = 7;
  record.end_token = 32;
  record.block_bytes = 512;
  record.stretches = {0, 2, 0, 0};
  record.first_head = 4;
  record.layers = {5, 3};
  return record.bytes();
}

ROW(quire_record_read) {
  std::vector<uint8_t> record = some_record();
  auto info = sized<quire_record_info>();
  const auto wrong = [&](size_t at, uint64_t size, quire_code code, const char* part) {
    std::vector<uint8_t> other = record;
    other[at] ^= 2;
    EXPECT_FAILS(code, part, quire_record_read(other.data(), size, &info, err));
  };
  wrong(0, record.size(), QUIRE_NOT_FOUND, "do not begin as one");
  wrong(8, record.size(), QUIRE_UNIMPLEMENTED, "version 3");
  wrong(100, record.size(), QUIRE_DATA_LOSS, "checksum of its header");
  wrong(record.size() - 1, kGrain - 1, QUIRE_OUT_OF_RANGE, "a header of 4096 bytes, here are 4095");
  call.bad("num_bytes", {0, 11}, QUIRE_NOT_FOUND, "record: these");
  call(static_cast<const void*>(record.data()), uint64_t{record.size()}, &info);
  EXPECT_EQ(info.version, 1U);
  EXPECT_EQ(info.key[0], 7);
  EXPECT_EQ(info.header_bytes, kGrain);
  EXPECT_EQ(info.num_blocks, 2U);
  EXPECT_EQ(info.end_block[0], 2U);
  EXPECT_EQ(info.first_layer, 3U);
  EXPECT_EQ(info.last_layer, 5U);
  EXPECT_EQ(info.first_head, 4U);
  EXPECT_EQ(info.num_heads, 2U);
}

ROW(quire_record_check) {
  std::vector<uint8_t> record = some_record();
  uint64_t damaged = 9;
  const uint8_t* const blocks = record.data() + kGrain;
  EXPECT_WORKS(quire_record_check(record.data(), kGrain, 2, nullptr, 0, &damaged, err));
  EXPECT_WORKS(quire_record_check(record.data(), kGrain, 1, blocks, 512, &damaged, err));
  EXPECT_EQ(damaged, 1U) << "block 0 is not block 1";
  call.bad("header_bytes", {0}, QUIRE_NOT_FOUND, "record: these").bad("first_block", {1, 3, UINT64_MAX}, QUIRE_OUT_OF_RANGE);
  call.bad("num_bytes", {1, 1023, 1536}, QUIRE_OUT_OF_RANGE, "block");
  call(static_cast<const void*>(record.data()), kGrain, uint64_t{0}, static_cast<const void*>(blocks), uint64_t{1024}, &damaged);
  EXPECT_EQ(damaged, 0U);
}

ROW(quire_tiers_read_events) {
  auto recorded = sized<quire_event_options>();
  recorded.algorithm = QUIRE_HASH_SHA256_CBOR;
  EXPECT_WORKS(quire_cache_enable_events(rig.cache.get(), &recorded, err));
  Tiers tiers(rig);
  tiers.options.event_ring_bytes = 1 << 20;
  quire_tiers* const made = tiers.make(rig);
  auto batch = sized<quire_event_batch>();
  std::vector<quire_event> events(4);
  std::vector<uint64_t> data(64);
  call.any({"capacity", "data_capacity"}).bad("tier", {1, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call.bad("from", {1, UINT64_MAX}, QUIRE_OUT_OF_RANGE).elements({"events"});
  call(made, 0U, uint64_t{0}, events.data(), uint64_t{4}, reinterpret_cast<uint8_t*>(data.data()), uint64_t{512}, &batch);
  EXPECT_EQ(batch.next, 0U);
}

}  // namespace
}  // namespace quire::test
