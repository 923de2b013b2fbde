// The store that tests program does what its header says: other tests rely on it.
#include "tests/fakes/fake_store.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {
namespace {

std::vector<uint8_t> counting(size_t n, uint8_t first = 0) {
  std::vector<uint8_t> bytes(n);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

uint64_t different_bits(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  uint64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += static_cast<uint64_t>(std::popcount(static_cast<unsigned>(a[i] ^ b[i])));
  return n;
}

// A store with a connector and virtual time; nothing may be violated.
class Stores : public testing::Test {
 protected:
  void open(const FakeStoreOptions& options = {}) {
    store_ = std::make_unique<FakeStore>(options);
    connector_ = open_store(*store_, &clock_);
    ASSERT_NE(connector_, nullptr);
  }
  void TearDown() override {
    connector_.reset();
    if (store_) {
      EXPECT_EQ(store_->violations(), std::vector<std::string>());
    }
  }
  void fate(const Fate& fate) {
    store_->set_script([fate](const SeenTicket&, Fate* of) { *of = fate; });
  }
  quire_completion run(const Batch& batch) {
    submit_all(*connector_, batch);
    const Ends ends = poll_now(*connector_);
    EXPECT_EQ(ends.size(), 1U);
    return ends.empty() ? quire_completion{} : ends[0];
  }
  std::vector<uint64_t> polled() {
    std::vector<uint64_t> numbers;
    for (const quire_completion& end : poll_now(*connector_)) numbers.push_back(end.ticket);
    return numbers;
  }

  Clock clock_;
  std::unique_ptr<FakeStore> store_;
  Connected connector_;
  std::vector<uint8_t> bytes_ = counting(64);
};

using Numbers = std::vector<uint64_t>;

TEST_F(Stores, KeepWhatStridedRunsNameAndGiveItBack) {
  open();
  Batch batch;
  batch.add(1, QUIRE_TICKET_STORE, "k").object_bytes = 24;
  batch.run(&bytes_[56], 4) = {0, reinterpret_cast<uintptr_t>(&bytes_[56]), 4, 4, -16, 0, 4};  // from 56, 40, 24, 8
  batch.run(&bytes_[0], 8, 16);
  EXPECT_EQ(run(batch).bytes, 24U);
  const std::vector<uint8_t> kept = {56, 57, 58, 59, 40, 41, 42, 43, 24, 25, 26, 27, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(store_->get("k"), kept);
  EXPECT_EQ(run(Batch().store(2, "k", bytes_.data(), 64)).flags, QUIRE_COMPLETION_EXISTED);
  EXPECT_EQ(store_->get("k"), kept) << "an object is written once";
  std::vector<uint8_t> to(12);
  Batch load;
  load.add(3, QUIRE_TICKET_LOAD, "k");
  load.run(to.data(), 2) = {0, reinterpret_cast<uintptr_t>(to.data()), 2, 3, 4, 20, -8};  // 20, 12, 4
  EXPECT_EQ(run(load).bytes, 6U);
  EXPECT_EQ(to, (std::vector<uint8_t>{4, 5, 0, 0, 8, 9, 0, 0, 40, 41, 0, 0}));
  EXPECT_EQ(run(Batch().load(4, "k", to.data(), 8, 17)).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(run(Batch().load(5, "x", to.data(), 8)).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(run(Batch().remove(6, "k")).code, QUIRE_OK);
  EXPECT_EQ(run(Batch().remove(7, "k")).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(store_->used_bytes(), 0U);
}

TEST_F(Stores, EndTicketsLateByPollsAndTime) {
  open({.latency_ns = 100, .bytes_per_second = 1'000'000'000});
  fate({.polls = 2});
  submit_all(*connector_, Batch().remove(1, "a"));
  EXPECT_TRUE(polled().empty());
  EXPECT_TRUE(polled().empty());
  EXPECT_EQ(polled(), (Numbers{1}));
  store_->set_script(nullptr);
  const int64_t begin = clock_.now;
  submit_all(*connector_, Batch().store(2, "a", bytes_.data(), 64));
  EXPECT_EQ(store_->next_end_ns(), begin + 164);
  clock_.now += 163;
  EXPECT_TRUE(polled().empty());
  clock_.now += 1;
  EXPECT_EQ(polled(), (Numbers{2}));
  EXPECT_EQ(store_->next_end_ns(), INT64_MAX);
}

TEST_F(Stores, HoldTicketsUntilTheyAreReleased) {
  open();
  fate({.held = true});
  submit_all(*connector_, Batch().remove(1, "a").remove(2, "b").remove(3, "c"));
  auto fd = connector_->descriptor();
  ASSERT_TRUE(fd.ok());
  struct pollfd readable = {*fd, POLLIN, 0};
  EXPECT_TRUE(polled().empty());
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  store_->release(2);
  EXPECT_EQ(::poll(&readable, 1, 0), 1);
  EXPECT_EQ(polled(), (Numbers{2}));
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  EXPECT_EQ(store_->num_in_flight(), 2U);
  store_->release_all();
  EXPECT_EQ(polled(), (Numbers{1, 3}));
}

TEST_F(Stores, ObeyDeadlinesUnlessTheyAreDeaf) {
  open();
  fate({.held = true});
  Batch batch;
  batch.load(1, "a", bytes_.data(), 8).tickets[0].deadline_ns = clock_.now + 10;
  submit_all(*connector_, batch);
  EXPECT_EQ(store_->next_end_ns(), clock_.now + 10);
  clock_.now += 9;
  EXPECT_TRUE(polled().empty());
  clock_.now += 1;
  store_->update();
  const Ends ends = poll_now(*connector_);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].code, QUIRE_DEADLINE_EXCEEDED);
  fate({.held = true, .deaf = true});
  batch.tickets[0].deadline_ns = 1;
  submit_all(*connector_, batch);
  EXPECT_TRUE(connector_->cancel(1).ok());
  EXPECT_TRUE(polled().empty());
  store_->release(1);
  EXPECT_EQ(poll_now(*connector_)[0].code, QUIRE_NOT_FOUND);
  // What ends at its deadline has not missed it.
  fate({.delay_ns = 10});
  batch.tickets[0].deadline_ns = clock_.now + 10;
  submit_all(*connector_, batch);
  clock_.now += 10;
  EXPECT_EQ(poll_now(*connector_)[0].code, QUIRE_NOT_FOUND);
}

TEST_F(Stores, StartTicketsOfHigherPriorityFirst) {
  open({.latency_ns = 10, .max_started = 1});
  Batch batch;
  batch.remove(1, "a").remove(2, "b").remove(3, "c").remove(4, "d");
  batch.tickets[2].priority = 5;
  batch.tickets[3].priority = 5;
  batch.tickets[0].priority = -1;
  submit_all(*connector_, batch);
  Numbers order;
  for (int i = 0; i < 4; ++i) {
    clock_.now += 10;
    const Numbers some = polled();
    ASSERT_EQ(some.size(), 1U) << "one at a time";
    order.push_back(some[0]);
  }
  EXPECT_EQ(order, (Numbers{3, 4, 2, 1}));
}

TEST_F(Stores, DamageWhatIsStored) {
  open();
  const auto store_as = [&](const std::string& key, Damage damage) {
    fate({.damage = damage});
    EXPECT_EQ(run(Batch().store(1, key, bytes_.data(), 64)).code, QUIRE_OK);
    return store_->get(key);
  };
  const auto flipped = store_as("flip", Damage::kFlip);
  ASSERT_TRUE(flipped);
  EXPECT_EQ(different_bits(*flipped, bytes_), 1U);
  EXPECT_EQ(store_as("short", Damage::kShort), counting(32));
  EXPECT_FALSE(store_as("lost", Damage::kLost));
  store_->forget("flip");
  EXPECT_EQ(store_as("foreign", Damage::kForeign), counting(32));
  EXPECT_EQ(store_->counts().damaged, 4U);
  EXPECT_EQ(store_->used_bytes(), 64U);
}

TEST_F(Stores, DamageWhatIsLoaded) {
  open();
  store_->put("k", bytes_);
  store_->put("other", counting(64, 100));
  std::vector<uint8_t> to;
  const auto load_with = [&](Damage damage) {
    to.assign(64, 255);
    fate({.damage = damage});
    return run(Batch().load(1, "k", to.data(), 64));
  };
  EXPECT_EQ(load_with(Damage::kFlip).code, QUIRE_OK);
  EXPECT_EQ(different_bits(to, bytes_), 1U);
  const quire_completion shorter = load_with(Damage::kShort);
  EXPECT_EQ(shorter.code, QUIRE_DATA_LOSS) << "the host saw it";
  EXPECT_EQ(shorter.bytes, 32U);
  EXPECT_EQ(to[31], 31);
  EXPECT_EQ(to[32], 255);
  EXPECT_EQ(load_with(Damage::kForeign).code, QUIRE_OK);
  EXPECT_EQ(to, counting(64, 100));
  EXPECT_EQ(load_with(Damage::kLost).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(store_->get("k"), bytes_) << "what is kept is whole";
}

TEST_F(Stores, FailAfterAPart) {
  open();
  store_->put("k", bytes_);
  std::vector<uint8_t> to(64, 255);
  fate({.code = QUIRE_UNAVAILABLE, .moved = 10});
  const quire_completion load = run(Batch().load(1, "k", to.data(), 64));
  EXPECT_EQ(load.code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(load.bytes, 10U);
  EXPECT_EQ(to[9], 9);
  EXPECT_EQ(to[10], 255);
  EXPECT_EQ(run(Batch().store(2, "torn", bytes_.data(), 64)).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(store_->get("torn"), counting(10));
  fate({.code = QUIRE_DATA_LOSS});
  EXPECT_EQ(run(Batch().store(3, "whole", bytes_.data(), 64)).code, QUIRE_DATA_LOSS);
  EXPECT_FALSE(store_->get("whole"));
}

TEST_F(Stores, TellMoreOftenAndInAnotherOrder) {
  open({.seed = 3, .reorders = true});
  fate({.told = 2});
  Batch batch;
  for (uint64_t i = 0; i < 20; ++i) batch.remove(i, "k");
  submit_all(*connector_, batch);
  Numbers numbers = polled();
  ASSERT_EQ(numbers.size(), 20U);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
  EXPECT_EQ(connector_->stats().num_strays, 20U);
  fate({.told = 0});
  submit_all(*connector_, Batch().remove(1, "k"));
  EXPECT_TRUE(polled().empty());
  EXPECT_EQ(connector_->stats().num_in_flight, 1U) << "it is never told";
}

TEST_F(Stores, AreFullOrMakeRoom) {
  open({.capacity_bytes = 100});
  EXPECT_EQ(run(Batch().store(1, "a", bytes_.data(), 60)).code, QUIRE_OK);
  EXPECT_EQ(run(Batch().store(2, "b", bytes_.data(), 41)).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(run(Batch().store(3, "b", bytes_.data(), 40)).code, QUIRE_OK);
  connector_.reset();
  open({.capacity_bytes = 100, .evicts = true});
  uint64_t size = 0;
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(run(Batch().store(1, key, bytes_.data(), 30)).code, QUIRE_OK);
  EXPECT_EQ(run(Batch().look_up(2, "a", 1, &size)).num_found, 1U);  // a use
  EXPECT_EQ(run(Batch().store(3, "d", bytes_.data(), 30)).code, QUIRE_OK);
  EXPECT_EQ(store_->keys(), (std::vector<std::string>{"a", "c", "d"}));
  // A lease keeps an object.
  EXPECT_EQ(run(Batch().look_up(4, "c", 1, &size, 50)).flags, QUIRE_COMPLETION_LEASED);
  EXPECT_EQ(run(Batch().store(6, "e", bytes_.data(), 64)).code, QUIRE_OK);
  EXPECT_EQ(store_->keys(), (std::vector<std::string>{"c", "e"}));
  EXPECT_EQ(run(Batch().store(7, "f", bytes_.data(), 64)).code, QUIRE_OK);
  EXPECT_EQ(store_->keys(), (std::vector<std::string>{"c", "f"}));
  clock_.now += 50;
  EXPECT_EQ(run(Batch().store(8, "g", bytes_.data(), 64)).code, QUIRE_OK);
  EXPECT_EQ(store_->keys(), (std::vector<std::string>{"g"}));
  EXPECT_EQ(store_->counts().evicted, 6U);
  EXPECT_EQ(run(Batch().store(9, "h", std::vector<uint8_t>(101).data(), 101)).code, QUIRE_RESOURCE_EXHAUSTED);
}

TEST_F(Stores, ForgetAndLoseLeases) {
  open();
  uint64_t sizes[2];
  store_->put("a", bytes_);
  store_->put("b", bytes_);
  run(Batch().look_up(1, "a", 1, sizes, 1000));
  EXPECT_EQ(store_->forget_some(1000), 1U);
  EXPECT_EQ(store_->keys(), (std::vector<std::string>{"a"}));
  store_->lose_leases();
  EXPECT_EQ(store_->forget_some(1000), 1U);
  EXPECT_FALSE(store_->forget("a"));
  connector_.reset();
  open({.leases = false});
  store_->put("a", bytes_);
  const quire_completion end = run(Batch().look_up(2, "ab", 1, sizes, 1000));
  EXPECT_EQ(end.num_found, 1U);
  EXPECT_EQ(end.flags, 0U) << "nothing was promised";
  EXPECT_EQ(sizes[0], 64U);
  EXPECT_EQ(sizes[1], 0U);
}

TEST_F(Stores, AreChangedFromOutside) {
  open();
  store_->put("a", bytes_);
  store_->put("b", counting(3, 7));
  EXPECT_TRUE(store_->flip("a", 15));
  EXPECT_EQ((*store_->get("a"))[1], 1 ^ 128);
  EXPECT_FALSE(store_->flip("a", 512));
  EXPECT_TRUE(store_->truncate("a", 2));
  EXPECT_FALSE(store_->truncate("a", 3));
  EXPECT_EQ(store_->used_bytes(), 5U);
  EXPECT_TRUE(store_->replace("a", "b"));
  EXPECT_EQ(store_->get("a"), counting(3, 7));
  EXPECT_EQ(store_->used_bytes(), 6U);
  EXPECT_FALSE(store_->replace("a", "c"));
  EXPECT_FALSE(store_->get("c"));
}

TEST_F(Stores, HaveStates) {
  open();
  store_->put("k", bytes_);
  uint8_t to[8];
  const auto codes = [&](quire_connector_state state) {
    store_->set_state(state);
    std::vector<quire_code> got;
    got.push_back(run(Batch().store(1, "new", bytes_.data(), 8)).code);
    got.push_back(run(Batch().load(2, "k", to, 8)).code);
    store_->forget("new");
    return got;
  };
  using Codes = std::vector<quire_code>;
  EXPECT_EQ(codes(QUIRE_CONNECTOR_FULL), (Codes{QUIRE_RESOURCE_EXHAUSTED, QUIRE_OK}));
  EXPECT_EQ(codes(QUIRE_CONNECTOR_READ_ONLY), (Codes{QUIRE_PERMISSION_DENIED, QUIRE_OK}));
  EXPECT_EQ(codes(QUIRE_CONNECTOR_DOWN), (Codes{QUIRE_UNAVAILABLE, QUIRE_UNAVAILABLE}));
  EXPECT_EQ(codes(QUIRE_CONNECTOR_UP), (Codes{QUIRE_OK, QUIRE_OK}));
  // What is in flight when it goes down ends, unless it hangs.
  store_->set_script([](const SeenTicket& seen, Fate* fate) {
    fate->delay_ns = 1000;
    fate->held = seen.key == "hangs";
  });
  submit_all(*connector_, Batch().remove(3, "slow").remove(4, "hangs"));
  store_->set_state(QUIRE_CONNECTOR_DOWN);
  EXPECT_EQ(polled(), (Numbers{3}));
}

TEST_F(Stores, AreShared) {
  open();
  auto other = open_store(*store_, &clock_);
  ASSERT_NE(other, nullptr);
  run(Batch().store(1, "k", bytes_.data(), 64));
  std::vector<uint8_t> to(64);
  submit_all(*other, Batch().load(1, "k", to.data(), 64));  // numbers are each connector's own
  EXPECT_EQ(poll_now(*other).size(), 1U);
  EXPECT_EQ(to, bytes_);
}

// What one run of random tickets gives, as text.
std::string story(uint64_t seed) {
  Clock clock;
  FakeStoreOptions options;
  options.seed = seed;
  options.reorders = true;
  options.odds = {.late = 300, .fail = 200, .twice = 100, .damage = 200, .deaf = 50, .max_delay_ns = 1000};
  FakeStore store(options);
  auto connector = open_store(store, &clock);
  std::string told;
  std::vector<uint8_t> bytes = counting(64);
  std::vector<uint8_t> to(3200);
  for (uint64_t i = 0; i < 200; ++i) {
    const std::string key(1, static_cast<char>('a' + i % 10));
    submit_all(*connector, i % 3 == 0 ? Batch().store(i, key, bytes.data(), 64) : Batch().load(i, key, &to[16 * i], 16, i % 48));
    clock.now += 100;
    for (const quire_completion& end : poll_now(*connector)) told += std::to_string(end.ticket) + ":" + std::to_string(end.code) + " ";
  }
  told.append(to.begin(), to.end());
  EXPECT_EQ(store.violations(), std::vector<std::string>());
  return told;
}

TEST(Seeds, DecideEverything) {
  EXPECT_EQ(story(5), story(5));
  EXPECT_NE(story(5), story(6));
}

TEST(Odds, HappenAsOftenAsTheySay) {
  FakeStoreOptions options;
  options.odds = {.fail = 250, .twice = 100};
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    submit_all(*connector, Batch().remove(i, "k"));
    for (const quire_completion& end : poll_now(*connector)) failed += end.code == QUIRE_UNAVAILABLE ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(failed), 500, 100);
  EXPECT_NEAR(static_cast<double>(connector->stats().num_strays), 200, 60);
}

TEST(Waiting, PollsSleepUntilATicketEnds) {
  FakeStoreOptions options;
  options.waits = true;
  options.latency_ns = 2'000'000;
  FakeStore store(options);
  auto connector = open_store(store);
  ASSERT_NE(connector, nullptr);
  submit_all(*connector, Batch().remove(1, "k"));
  EXPECT_EQ(poll_now(*connector, -1).size(), 1U);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(poll_now(*connector, 3'000'000).empty());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3));
}

}  // namespace
}  // namespace quire::test
