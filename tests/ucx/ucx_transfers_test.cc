// What a reader gets from an owner: every byte, and nothing more.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

uint64_t bytes_of(const Runs& runs) {
  uint64_t sum = 0;
  for (const quire_ticket_run& run : runs) sum += run.bytes * run.count;
  return sum;
}

class UcxTransfers : public UcxWays {};
QUIRE_UCX_WAYS(UcxTransfers);

TEST_P(UcxTransfers, AReaderGetsWhatIsOffered) {
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  const Bytes object = content(1, 5'000'000);
  owner.offer(ucx_key(1, 7), object);
  const Key key = ucx_key(1, 7, owner.address());
  EXPECT_EQ(reader.sizes({key, ucx_key(2, 7, owner.address())}), (std::vector<uint64_t>{5'000'000, 0}));
  EXPECT_TRUE(reader.holds(key, object));
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(1, 8, owner.address()), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reader.load(ucx_key(1, 0, owner.address()), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reader.remove(ucx_key(1, 8, owner.address())).code, QUIRE_NOT_FOUND);
  EXPECT_TRUE(owner.client().poll(0).empty());
  EXPECT_EQ(reader.remove(key).code, QUIRE_OK);
  const auto ends = owner.client().poll(5 * kSecond);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].code, QUIRE_OK);
  EXPECT_EQ(reader.load(key, 0, 1, &out).code, QUIRE_NOT_FOUND) << "it is consumed";
}

// Nobody waits between the store and the load.
TEST_P(UcxTransfers, AnOfferIsSeenAsSoonAsItsStoreWasSubmitted) {
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  owner.offer(ucx_key(0, 1), content(0, 1000));
  ASSERT_TRUE(reader.holds(ucx_key(0, 1, owner.address()), content(0, 1000))) << "so there is a connection";
  Layout layout = dense(0, 1000);
  Memory memory(&layout);
  const Bytes object = content(1, 1000);
  memory.fill(layout.runs, object);
  for (uint64_t i = 1; i < 300; ++i) {
    Batch stores;
    stores.store(ucx_key(i, i + 1), layout.runs, 1000);
    ASSERT_EQ(owner.client().submit(stores), 1u);
    Bytes out;
    ASSERT_EQ(reader.load(ucx_key(i, i + 1, owner.address()), 0, 1000, &out).code, QUIRE_OK) << i;
    EXPECT_EQ(out, object);
  }
}

// Answers overtake bytes, of which many wait for their turn.
TEST_P(UcxTransfers, ManyLoadsAndAnswersAtOnce) {
  constexpr uint64_t kLoads = 120, kSize = 200'000;
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  for (uint64_t i = 0; i < kLoads; ++i) owner.offer(ucx_key(i, i + 1), content(i, kSize));
  for (int round = 0; round < 3; ++round) {
    std::vector<Layout> layouts(kLoads, dense(0, kSize));
    std::vector<Memory> memories;
    Layout nothing = dense(0, 1);
    const Memory none(&nothing);
    Batch batch, absent;
    for (uint64_t i = 0; i < kLoads; ++i) {
      memories.emplace_back(&layouts[i]);
      batch.load(ucx_key(i, i + 1, owner.address()), layouts[i].runs);
    }
    for (uint64_t i = 0; i < 100; ++i) absent.load(ucx_key(1000 + i, 1, owner.address()), nothing.runs);
    ASSERT_EQ(reader.submit(batch), kLoads);
    ASSERT_EQ(reader.submit(absent), 100u);
    Ends ends = reader.wait(kLoads + 100);
    for (uint64_t i = 0; i < kLoads; ++i) {
      ASSERT_EQ(ends[batch.tickets()[i].ticket].code, QUIRE_OK) << i << " in round " << round;
      memories[i].expect(layouts[i].runs, content(i, kSize));
      EXPECT_TRUE(memories[i].intact());
    }
    for (const quire_ticket& ticket : absent.tickets()) EXPECT_EQ(ends[ticket.ticket].code, QUIRE_NOT_FOUND);
  }
}

// What was given up is still on its way; who asks again waits for it, and gets everything.
TEST_P(UcxTransfers, LoadsThatAreCancelledAndAskedAgain) {
  constexpr uint64_t kLoads = 128, kSize = 250'000;
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  for (uint64_t i = 0; i < kLoads; ++i) owner.offer(ucx_key(i, i + 1), content(i, kSize));
  std::vector<Layout> layouts(kLoads, dense(0, kSize));
  std::vector<Memory> memories;
  for (Layout& layout : layouts) memories.emplace_back(&layout);
  for (int round = 0; round < 3; ++round) {
    Batch first, second;
    for (uint64_t i = 0; i < kLoads; ++i) first.load(ucx_key(i, i + 1, owner.address()), layouts[i].runs);
    ASSERT_EQ(reader.submit(first), kLoads);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const quire_ticket& ticket : first.tickets()) reader.cancel(ticket.ticket);
    reader.wait(kLoads);
    if (!is_near()) continue;  // over UCX the connection may be closed by force
    for (uint64_t i = 0; i < kLoads; ++i) second.load(ucx_key(i, i + 1, owner.address()), layouts[i].runs);
    ASSERT_EQ(reader.submit(second), kLoads);
    Ends ends = reader.wait(kLoads);
    for (const quire_ticket& ticket : second.tickets()) ASSERT_EQ(ends[ticket.ticket].code, QUIRE_OK) << "in round " << round;
  }
  Bytes out;
  EXPECT_TRUE(becomes_true([&] { return reader.load(ucx_key(1, 2, owner.address()), 0, kSize, &out).code == QUIRE_OK; }));
  EXPECT_EQ(out, content(1, kSize));
}

// Any runs at both ends.
TEST_P(UcxTransfers, RandomRunsAtBothEnds) {
  Rng rng(seed());
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  for (uint64_t round = 0; round < 120 / kSlowness; ++round) {
    const uint64_t bytes = 1 + below(&rng, round % 3 == 0 ? 6'000'000 : 8000);
    const Bytes object = content(round, bytes);
    owner.offer(ucx_key(round, round + 1), object, covering(&rng, bytes));
    for (int load = 0; load < 3; ++load) {
      Layout read = load == 0 ? covering(&rng, bytes) : reading(&rng, bytes);
      Memory target(&read, below(&rng, 64));
      target.expect(read.runs, object);
      Batch batch;
      const uint64_t ticket = batch.load(ucx_key(round, round + 1, owner.address()), read.runs).ticket;
      const quire_completion end = reader.run(batch)[ticket];
      ASSERT_EQ(end.code, QUIRE_OK) << round;
      EXPECT_EQ(end.bytes, bytes_of(read.runs));
      ASSERT_TRUE(target.intact()) << "round " << round << ", " << read.runs.size() << " runs of " << bytes << " bytes";
    }
  }
}

// Loads that are cancelled or late at any point of their way: each ends once, and nothing is touched after its end.
TEST_P(UcxTransfers, LoadsEndAtAnyPoint) {
  constexpr uint64_t kLoads = 10;
  Rng rng(seed());
  Owner owner;
  Client reader(ucx_subject(), ucx_config());
  const Bytes object = content(0, 5'000'000);
  owner.offer(ucx_key(0, 1), object, covering(&rng, object.size()));
  const Key key = ucx_key(0, 1, owner.address());
  uint64_t done = 0, given_up = 0;
  for (uint64_t round = 0; round < 40 / kSlowness; ++round) {
    std::vector<Layout> layouts;
    std::vector<Memory> memories;
    Batch batch;
    for (uint64_t i = 0; i < kLoads; ++i) layouts.push_back(i % 2 == 0 ? dense(0, object.size()) : covering(&rng, object.size()));
    for (uint64_t i = 0; i < kLoads; ++i) {
      memories.emplace_back(&layouts[i], i);
      quire_ticket& load = batch.load(key, layouts[i].runs);
      load.priority = static_cast<int32_t>(below(&rng, 3));
      if (below(&rng, 3) == 0) load.deadline_ns = clock_now() + static_cast<int64_t>(below(&rng, 80'000'000));
    }
    Bytes first;
    ASSERT_TRUE(becomes_true([&] { return reader.load(key, 0, 1, &first).code == QUIRE_OK; }))
        << "a connection that was closed is made again";
    ASSERT_EQ(reader.submit(batch), kLoads);
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 20'000)));
      Error err;
      quire_connector_cancel(reader.get(), batch.tickets()[below(&rng, kLoads)].ticket, &err);
    }
    Ends ends = reader.wait(kLoads);
    for (uint64_t i = 0; i < kLoads; ++i) {
      const quire_code code = ends[batch.tickets()[i].ticket].code;
      ASSERT_TRUE(code == QUIRE_OK || code == QUIRE_CANCELLED || code == QUIRE_DEADLINE_EXCEEDED || code == QUIRE_UNAVAILABLE) << code;
      ++(code == QUIRE_OK ? done : given_up);
      code == QUIRE_OK ? memories[i].expect(layouts[i].runs, object) : memories[i].forget(layouts[i].runs);
      ASSERT_TRUE(memories[i].intact()) << i;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const Memory& memory : memories) ASSERT_TRUE(memory.intact()) << "after the end";
  }
  EXPECT_GT(done, 0u);
  EXPECT_GT(given_up, 0u);
}

// Keys without an address: the own process, then the peers in their order, without those that are lost.
TEST_P(UcxTransfers, PeersAreAskedInOrder) {
  Owner first, second;
  first.offer(ucx_key(1), content(1, 1000));
  second.offer(ucx_key(1), content(2, 2000));
  second.offer(ucx_key(2), content(2, 2000));
  const std::string lost = "127.0.0.1:1";  // nobody listens there
  Client reader(ucx_subject(),
                ucx_config(", \"copies\": \"1MiB\", \"peers\": \"" + lost + ", " + first.address() + ", " + second.address() + "\""));
  EXPECT_TRUE(reader.holds(ucx_key(1), content(1, 1000)));
  EXPECT_TRUE(reader.holds(ucx_key(2), content(2, 2000)));
  EXPECT_EQ(reader.sizes({ucx_key(1), ucx_key(2), ucx_key(3)})[1], 2000u);
  EXPECT_EQ(reader.sizes({ucx_key(3)})[0], 0u);
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(3), 0, 1, &out).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reader.load(ucx_key(2), 1999, 2, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(reader.store(ucx_key(2), content(9, 50)).code, QUIRE_OK) << "its own copy is the first now";
  EXPECT_TRUE(reader.holds(ucx_key(2), content(9, 50)));
  EXPECT_EQ(reader.load(ucx_key(1, 0, lost), 0, 1, &out).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(reader.load(ucx_key(1, 0, "nonsense"), 0, 1, &out).code, QUIRE_INVALID_ARGUMENT);
  Client alone(ucx_subject(), ucx_config(", \"peers\": \"" + lost + "\""));
  uint64_t size = 0;
  Batch batch;
  const uint64_t look_up = batch.look_up({ucx_key(1)}, &size).ticket;
  EXPECT_EQ(alone.run(batch)[look_up].code, QUIRE_UNAVAILABLE);
  EXPECT_TRUE(becomes_true([&] { return alone.health().state == QUIRE_CONNECTOR_DOWN; }));
  EXPECT_EQ(alone.store(ucx_key(1), content(1, 1)).code, QUIRE_FAILED_PRECONDITION) << "nobody could read it";
}

// Look-ups of several messages, of which some keys are there.
TEST_P(UcxTransfers, LookUpsOfManyKeys) {
  Owner owner;
  for (uint64_t i = 0; i < 500; i += 5) owner.offer(ucx_key(i, 9), content(i, 100 + i));
  Client reader(ucx_subject(), ucx_config());
  std::vector<Key> keys;
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < 500; ++i) {
    keys.push_back(ucx_key(i, 9, owner.address()));
    sizes.push_back(i % 5 == 0 ? 100 + i : 0);
  }
  EXPECT_EQ(reader.sizes(keys), sizes);
  std::reverse(keys.begin(), keys.end());
  std::reverse(sizes.begin(), sizes.end());
  quire_completion end{};
  EXPECT_EQ(reader.sizes(keys, kSecond, &end), sizes);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
}

// A peer that comes back at the same address is found again, after a pause.
TEST_P(UcxTransfers, AnOwnerThatComesBackIsFound) {
  std::string address;
  Client reader(ucx_subject(), ucx_config());
  {
    Owner owner;
    address = owner.address();
    owner.offer(ucx_key(1, 1), content(1, 1000));
    EXPECT_TRUE(reader.holds(ucx_key(1, 1, address), content(1, 1000)));
  }
  Bytes out;
  EXPECT_EQ(reader.load(ucx_key(1, 1, address), 0, 1, &out).code, QUIRE_UNAVAILABLE);
  Client again(ucx_subject(), ucx_config(", \"copies\": \"1MiB\", \"listen\": \"" + address + "\""));
  ASSERT_TRUE(again.is_open());
  EXPECT_EQ(again.store(ucx_key(1, 1), content(1, 1000)).code, QUIRE_OK);
  EXPECT_TRUE(becomes_true([&] { return reader.holds(ucx_key(1, 1, address), content(1, 1000)) == true; }));
}

// UCX catches SIGHUP and others when it is loaded; they are the host's.
TEST_P(UcxTransfers, SignalsStayWithTheHost) {
  const Client client(ucx_subject(), ucx_config());
  for (const int number : {SIGHUP, SIGILL}) {  // sanitizers catch the others
    struct sigaction action = {};
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << number;
  }
}

}  // namespace
