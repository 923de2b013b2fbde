// Several processes on one store, killed at random; a child of fork(); allocations that fail.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "mooncake_rig.h"
#include "tests/connectors/starved_batch.h"
#include "tests/connectors/worker_process.h"
#include "tests/unit/fork_when_quiet.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire::test {
namespace {

class MooncakeProcesses : public MooncakeTest {};

TEST_F(MooncakeProcesses, ObjectsAreWholeWhenProcessesAreKilled) {
  Rng rng(seed());
  std::vector<Key> keys;
  for (uint64_t i = 0; i < kWorkerKeys; ++i) keys.push_back(key(i));
  for (uint64_t round = 0; round < 12 / kSlowness; ++round) {
    {
      const WorkerProcess first(QUIRE_MOONCAKE_WORKER, directory(), below(&rng, 1 << 30)),
          second(QUIRE_MOONCAKE_WORKER, directory(), below(&rng, 1 << 30));
      std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 200'000)));
    }
    Client client = open();
    const std::vector<uint64_t> sizes = client.sizes(keys);
    uint64_t there = 0;
    for (uint64_t i = 0; i < kWorkerKeys; ++i) {
      if (sizes[i] == 0) continue;
      ++there;
      ASSERT_EQ(sizes[i], worker_object(i).size());
      ASSERT_TRUE(client.holds(keys[i], worker_object(i))) << i;
    }
    EXPECT_GT(there, 0u);
    EXPECT_EQ(client.health().num_damaged, 0u);
  }
}

TEST_F(MooncakeProcesses, AChildOfForkGivesBackWhatItInherited) {
  Client client = open();
  ASSERT_EQ(client.store(key(1), content(1, 1000)).code, QUIRE_OK);
  const pid_t child = fork_when_quiet();
  if (child == 0) {
    client.close();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(client.holds(key(1), content(1, 1000)));
}

// Allocations fail, one after the other: in submit and in the threads. What was asked for ends with an error or works without; nothing is
// lost, and the same works afterwards. The fake library allocates, too, and answers BUFFER_OVERFLOW.
TEST_F(MooncakeProcesses, TicketsWithoutMemoryFailAndTheStoreGoesOn) {
  Client client = open(", \"threads\": 2, \"buffers\": 4");
  const Bytes object = content(1, 1'300'000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  uint64_t refused = 0, ended = 0;
  for (int64_t after = 0; after < 120; after += static_cast<int64_t>(kSlowness)) {
    const Layout read = {{{0, 0, 100, 3, 100, 0, 400'000}}, 300};
    const Key fresh = key(100 + static_cast<uint64_t>(after));
    Starved starved;
    ASSERT_NO_FATAL_FAILURE(run_starved(client, after, fresh, object, read, QUIRE_UNAVAILABLE, &starved));
    refused += starved.is_refused ? 1 : 0;
    ended += starved.num_starved;
    ASSERT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP && client.holds(key(1), object); })) << after;
    client.remove(fresh);
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(ended, 0u);
}

}  // namespace
}  // namespace quire::test
