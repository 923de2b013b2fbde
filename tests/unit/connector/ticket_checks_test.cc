// What the host refuses before a connector sees it: every field of tickets and runs by example, the arithmetic of runs against sets of
// bytes. The FakeStore behind it checks the same again, written apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {
namespace {

class Checks : public testing::Test {
 protected:
  void SetUp() override {
    FakeStoreOptions options;
    options.max_key_bytes = 16;
    options.max_object_bytes = 4096;
    store_ = std::make_unique<FakeStore>(options);
    connector_ = open_store(*store_);
    ASSERT_NE(connector_, nullptr);
  }
  void TearDown() override {
    connector_.reset();
    EXPECT_EQ(store_->violations(), std::vector<std::string>());
  }

  // The last ticket is refused, whatever stands before it, and names what is wrong.
  void expect(quire_code code, const std::string& says, const Batch& batch) {
    const Status status = refusal(*connector_, batch);
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
    EXPECT_EQ(connector_->stats().num_submitted, 0U);
    EXPECT_EQ(connector_->stats().bytes_in_flight, 0U);
    EXPECT_EQ(store_->counts().submits, 0U) << "the connector saw it";
  }
  template <typename Change>
  void expect_store(quire_code code, const std::string& says, Change change) {
    Batch batch;
    batch.remove(1, "first").store(2, "key", bytes_, 64);
    change(batch.tickets.back(), batch.runs.back());
    expect(code, says, batch);
  }
  template <typename Change>
  void expect_load(quire_code code, const std::string& says, Change change) {
    Batch batch;
    batch.remove(1, "first").load(2, "key", bytes_, 64);
    change(batch.tickets.back(), batch.runs.back());
    expect(code, says, batch);
  }
  template <typename Change>
  void expect_look_up(quire_code code, const std::string& says, Change change) {
    Batch batch;
    batch.remove(1, "first").look_up(2, "key1key2", 4, sizes_);
    change(batch.tickets.back());
    expect(code, says, batch);
  }

  uint8_t bytes_[4096] = {};
  uint64_t sizes_[8] = {};
  std::unique_ptr<FakeStore> store_;
  Connected connector_;
};

using Ticket = quire_ticket;
using Pieces = quire_ticket_run;

TEST_F(Checks, Kinds) {
  for (const int32_t kind : {0, 5, -1, INT32_MAX, INT32_MIN}) {
    expect_load(QUIRE_INVALID_ARGUMENT, "tickets[1].kind is " + std::to_string(kind), [&](Ticket& t, Pieces&) { t.kind = kind; });
  }
}

TEST_F(Checks, FieldsOfOneKindInOthers) {
  const auto wrong = QUIRE_INVALID_ARGUMENT;
  expect_load(wrong, "tickets[1].sizes is not NULL", [&](Ticket& t, Pieces&) { t.sizes = sizes_; });
  expect_store(wrong, "tickets[1].sizes is not NULL", [&](Ticket& t, Pieces&) { t.sizes = sizes_; });
  expect_look_up(wrong, "tickets[1].sizes is NULL", [](Ticket& t) { t.sizes = nullptr; });
  expect_look_up(wrong, "tickets[1].lease_ns is -1", [](Ticket& t) { t.lease_ns = -1; });
  expect_look_up(wrong, "tickets[1].lease_ns is -9223372036854775808", [](Ticket& t) { t.lease_ns = INT64_MIN; });
  expect_load(wrong, "tickets[1].lease_ns is 5", [](Ticket& t, Pieces&) { t.lease_ns = 5; });
  expect_load(wrong, "tickets[1].object_bytes is 64", [](Ticket& t, Pieces&) { t.object_bytes = 64; });
  expect_look_up(wrong, "tickets[1].object_bytes is 1", [](Ticket& t) { t.object_bytes = 1; });
  expect_load(wrong, "tickets[1].num_runs is 0", [](Ticket& t, Pieces&) { t.num_runs = 0; });
  expect_store(wrong, "tickets[1].num_runs is 0", [](Ticket& t, Pieces&) { t.num_runs = 0; });
  expect_load(wrong, "tickets[1].num_runs is 1", [](Ticket& t, Pieces&) { t.kind = QUIRE_TICKET_REMOVE; });
  expect_load(wrong, "tickets[1].deadline_ns is -2", [](Ticket& t, Pieces&) { t.deadline_ns = -2; });
}

TEST_F(Checks, Keys) {
  expect_load(QUIRE_INVALID_ARGUMENT, "tickets[1].key_bytes is 0", [](Ticket& t, Pieces&) { t.key_bytes = 0; });
  expect_load(QUIRE_INVALID_ARGUMENT, "tickets[1].num_keys is 0", [](Ticket& t, Pieces&) { t.num_keys = 0; });
  expect_load(QUIRE_INVALID_ARGUMENT, "tickets[1].num_keys is 2", [](Ticket& t, Pieces&) { t.num_keys = 2; });
  expect_look_up(QUIRE_INVALID_ARGUMENT, "tickets[1].num_keys is 0", [](Ticket& t) { t.num_keys = 0; });
  const auto outside = QUIRE_OUT_OF_RANGE;
  expect_load(outside, "tickets[1].key_bytes is 17, connector fake_store takes 16", [](Ticket& t, Pieces&) { t.key_bytes = 17; });
  expect_load(outside, "tickets[1]: 1 keys of 4 bytes from byte 5 on, num_key_bytes is 8", [](Ticket& t, Pieces&) { t.key_bytes = 4; });
  expect_load(outside, "from byte 18446744073709551615 on", [](Ticket& t, Pieces&) { t.key_offset = UINT64_MAX; });
  expect_load(outside, "from byte 9 on", [](Ticket& t, Pieces&) { t.key_offset = 9; });
  expect_look_up(outside, "tickets[1]: 3 keys of 4 bytes from byte 5 on, num_key_bytes is 13", [](Ticket& t) { t.num_keys = 3; });
  expect_look_up(outside, "4294967295 keys", [](Ticket& t) { t.num_keys = UINT32_MAX; });
}

TEST_F(Checks, KeysOfAnyLengthWhereThereIsNoLimit) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  Batch batch;
  batch.remove(1, std::string(100'000, 'k'));
  batch.tickets[0].key_bytes = UINT64_MAX / 2;
  EXPECT_EQ(refusal(*connector, batch).code(), QUIRE_OUT_OF_RANGE);
  batch.tickets[0].kind = QUIRE_TICKET_LOOKUP;
  batch.tickets[0].num_keys = 4;  // the product wraps around
  batch.tickets[0].sizes = sizes_;
  EXPECT_EQ(refusal(*connector, batch).code(), QUIRE_OUT_OF_RANGE);
  batch = {};
  submit_all(*connector, batch.remove(1, std::string(100'000, 'k')));
}

TEST_F(Checks, RunsOutsideTheirArray) {
  expect_load(QUIRE_OUT_OF_RANGE, "tickets[1]: 2 runs from run 0 on, num_runs is 1", [](Ticket& t, Pieces&) { t.num_runs = 2; });
  expect_load(QUIRE_OUT_OF_RANGE, "from run 1 on", [](Ticket& t, Pieces&) { t.first_run = 1; });
  expect_load(QUIRE_OUT_OF_RANGE, "from run 18446744073709551615 on", [](Ticket& t, Pieces&) { t.first_run = UINT64_MAX; });
  expect_look_up(QUIRE_OUT_OF_RANGE, "from run 1 on", [](Ticket& t) { t.first_run = 1; });
}

TEST_F(Checks, ShapesOfRuns) {
  const auto wrong = QUIRE_INVALID_ARGUMENT;
  expect_load(wrong, "runs[0].bytes is 0", [](Ticket&, Pieces& run) { run.bytes = 0; });
  expect_load(wrong, "runs[0].count is 0", [](Ticket&, Pieces& run) { run.count = 0; });
  expect_load(wrong, "runs[0].address is NULL", [](Ticket&, Pieces& run) { run.address = 0; });
  for (const int64_t stride : {0, 63, -63, 1, -1}) {
    const std::string number = std::to_string(stride);
    expect_load(wrong, "runs[0].stride is " + number + ": pieces of 64 bytes overlap",
                [&](Ticket&, Pieces& run) { run.count = 2, run.stride = stride, run.object_stride = 64; });
    expect_load(wrong, "runs[0].object_stride is " + number,
                [&](Ticket&, Pieces& run) { run.count = 2, run.stride = 64, run.object_stride = stride; });
  }
}

TEST_F(Checks, RunsBeyondAllAddresses) {
  const auto outside = QUIRE_OUT_OF_RANGE;
  const auto strided = [](uint64_t address, uint64_t bytes, uint64_t count, int64_t stride) {
    return [=](Ticket&, Pieces& run) { run = {0, address, bytes, count, stride, 0, static_cast<int64_t>(bytes)}; };
  };
  expect_load(outside, "runs[0]", strided(UINT64_MAX - 4, 100, 1, 0));
  expect_load(outside, "runs[0]", strided(INT64_MAX, 1, 1, 0));
  expect_load(outside, "runs[0]", strided(4096, 8, uint64_t{1} << 40, int64_t{1} << 40));
  expect_load(outside, "runs[0]", strided(4096, 8, UINT64_MAX, 8));
  expect_load(outside, "runs[0]", strided(4096, 8, 2, INT64_MAX));
  expect_load(outside, "runs[0]", strided(4096, 8, 2, INT64_MIN));
  expect_load(outside, "runs[0]", strided(4096, 8, 3, -2049));  // begins below 0
  // Of the object.
  const auto in_object = [](uint64_t offset, uint64_t count, int64_t stride) {
    return [=](Ticket&, Pieces& run) {
      run.bytes = 8, run.count = count, run.stride = 8, run.object_offset = offset, run.object_stride = stride;
    };
  };
  expect_load(outside, "begin before the object", in_object(15, 3, -8));
  expect_load(outside, "beyond 63 bits", in_object(INT64_MAX - 7, 1, 0));
  expect_load(outside, "beyond 63 bits", in_object(0, 2, INT64_MAX));
  expect_load(outside, "before the object", in_object(0, 2, INT64_MIN));
}

TEST_F(Checks, SumsBeyond63Bits) {
  Batch batch;
  batch.add(1, QUIRE_TICKET_LOAD, "key");
  batch.run(bytes_, uint64_t{1} << 62);
  batch.run(bytes_, uint64_t{1} << 62);
  expect(QUIRE_OUT_OF_RANGE, "runs[1]: the bytes of its ticket go beyond 63 bits", batch);
}

TEST_F(Checks, StoresNameTheirObjectOnce) {
  expect_store(QUIRE_OUT_OF_RANGE, "runs[0]: bytes [0, 64) of an object of 63", [](Ticket& t, Pieces&) { t.object_bytes = 63; });
  expect_store(QUIRE_OUT_OF_RANGE, "runs[0]: bytes [1, 65) of an object of 64", [](Ticket&, Pieces& run) { run.object_offset = 1; });
  expect_store(QUIRE_OUT_OF_RANGE, "runs[0]: bytes [0, 136) of an object of 128",
               [](Ticket& t, Pieces& run) { run.count = 2, run.stride = 64, run.object_stride = 72, t.object_bytes = 128; });
  expect_store(QUIRE_INVALID_ARGUMENT, "tickets[1].object_bytes is 65, its runs have 64", [](Ticket& t, Pieces&) { t.object_bytes = 65; });
  expect_store(QUIRE_OUT_OF_RANGE, "tickets[1].object_bytes is 4097, connector fake_store takes 4096",
               [](Ticket& t, Pieces&) { t.object_bytes = 4097; });
  expect_store(QUIRE_OUT_OF_RANGE, "tickets[1].object_bytes", [](Ticket& t, Pieces&) { t.object_bytes = UINT64_MAX; });
}

TEST_F(Checks, NumbersThatAreInFlight) {
  Batch batch;
  expect(QUIRE_INVALID_ARGUMENT, "tickets[2].ticket 7 is in flight already", batch.remove(7, "a").remove(8, "b").remove(7, "c"));
  store_->set_script([](const SeenTicket&, Fate* fate) { fate->held = true; });
  submit_all(*connector_, Batch().remove(7, "a"));
  const Status status = refusal(*connector_, Batch().remove(6, "a").remove(7, "a"));
  EXPECT_EQ(status.message(), "tickets[1].ticket 7 is in flight already");
  EXPECT_EQ(connector_->stats().num_in_flight, 1U);
  store_->release_all();
  EXPECT_EQ(poll_now(*connector_).size(), 1U);
  submit_all(*connector_, Batch().remove(6, "a").remove(7, "a"));
  store_->release_all();
  EXPECT_EQ(poll_now(*connector_).size(), 2U);
}

TEST_F(Checks, RightOnesPass) {
  Batch batch;
  batch.add(0, QUIRE_TICKET_LOAD, "key");
  batch.runs.push_back({0, reinterpret_cast<uintptr_t>(bytes_) + 4095, 1, 4096, -1, 4095, -1});
  ++batch.tickets[0].num_runs;
  batch.add(UINT64_MAX, QUIRE_TICKET_STORE, "k").object_bytes = 4096;
  batch.runs.push_back({0, reinterpret_cast<uintptr_t>(bytes_), 64, 32, 128, 64, 128});
  batch.runs.push_back({0, reinterpret_cast<uintptr_t>(bytes_) + 64, 64, 32, 128, 0, 128});
  batch.tickets[1].num_runs = 2;
  batch.tickets[1].priority = INT32_MIN;
  batch.tickets[1].deadline_ns = INT64_MAX;
  batch.look_up(5, "key1key2key3", 4, sizes_, INT64_MAX / 2);
  submit_all(*connector_, batch);
  EXPECT_EQ(connector_->stats().bytes_in_flight, 8192U);
  EXPECT_EQ(poll_now(*connector_).size(), 3U);
}

// Every small run in a region of 12 bytes, against the bytes that it names one by one.
TEST(Runs, AreCheckedLikeSetsOfBytes) {
  FakeStore store;
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  alignas(64) static uint8_t memory[64];
  uint8_t* const begin = memory + 20;
  auto region = connector->register_region(begin, 12, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(region.ok());
  uint64_t number = 0;
  uint64_t right = 0;
  for (uint64_t bytes = 1; bytes <= 3; ++bytes) {
    for (uint64_t count = 1; count <= 4; ++count) {
      for (int64_t stride = -5; stride <= 5; ++stride) {
        for (int at = -2; at <= 14; ++at) {
          bool fine = true;
          for (uint64_t i = 0; i < count; ++i) {
            const int64_t first = at + static_cast<int64_t>(i) * stride;
            fine = fine && first >= 0 && first + static_cast<int64_t>(bytes) <= 12;
          }
          const bool apart = count == 1 || static_cast<uint64_t>(std::abs(stride)) >= bytes;
          Batch batch;
          batch.add(++number, QUIRE_TICKET_LOAD, "k");
          batch.run(begin + at, bytes) = {*region, reinterpret_cast<uintptr_t>(begin + at), bytes, count, stride, 0, 100};
          uint64_t accepted = 0;
          const Status status = connector->submit(batch.all(), &accepted);
          const quire_code expected = !apart ? QUIRE_INVALID_ARGUMENT : !fine ? QUIRE_OUT_OF_RANGE : QUIRE_OK;
          ASSERT_EQ(status.code(), expected) << bytes << " x " << count << ", stride " << stride << " at " << at << ": "
                                             << status.message();
          right += accepted;
          poll_now(*connector);
        }
      }
    }
  }
  EXPECT_GT(right, 500U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

// Random fields from a handful of dangerous values: what the host lets through has nothing that the store objects to, and it does let some
// through.
TEST(Runs, OfRandomFieldsNeverReachAConnectorWrong) {
  FakeStoreOptions options;
  options.watches = false;  // no byte is touched: all tickets fail
  options.odds.fail = 1000;
  FakeStore store(options);
  store.set_script([](const SeenTicket&, Fate* fate) { *fate = {.code = QUIRE_UNAVAILABLE}; });
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  static uint8_t memory[4096];
  auto region = connector->register_region(memory, sizeof memory, QUIRE_DEVICE_CPU, 0);
  ASSERT_TRUE(region.ok());
  std::mt19937_64 random(11);
  const uint64_t edges[] = {0, 1, 2, 3, 8, 64, 4096, uint64_t{1} << 62, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
  const auto draw = [&](uint64_t usual) { return random() % 4 != 0 ? usual : edges[random() % std::size(edges)]; };
  uint64_t passed = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    Batch batch;
    quire_ticket& ticket = batch.add(i, random() % 2 == 0 ? QUIRE_TICKET_STORE : QUIRE_TICKET_LOAD, "key");
    const auto address = reinterpret_cast<uintptr_t>(memory) + random() % 4096;
    batch.run(memory, 0) = {
        random() % 2 == 0 ? 0 : draw(*region), draw(address), draw(8), draw(3), static_cast<int64_t>(draw(64)), draw(16),
        static_cast<int64_t>(draw(8))};
    const quire_ticket_run run = batch.runs[0];
    if (ticket.kind == QUIRE_TICKET_STORE) ticket.object_bytes = draw(run.bytes * run.count);
    uint64_t accepted = 0;
    (void)connector->submit(batch.all(), &accepted);
    passed += accepted;
    poll_now(*connector);
  }
  EXPECT_GT(passed, 1000U);
  EXPECT_EQ(store.violations(), std::vector<std::string>());
}

}  // namespace
}  // namespace quire::test
