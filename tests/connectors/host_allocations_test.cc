// Every allocation fails once: in open, in submit and in the worker. What was asked for ends with RESOURCE_EXHAUSTED or works without;
// nothing is lost, and the same works afterwards. Also: a child of fork() that gives back what it inherited.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/connectors/kit.h"
#include "tests/unit/allocations.h"
#include "tests/unit/fork_when_quiet.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

const std::string kConfig = R"({"bytes": "4MiB", "chunk_bytes": 4096, "threads": 2})";

Subject host() {
  Subject subject;
  subject.connector = "host";
  return subject;
}

TEST(HostAllocations, OpenFailsAndLeavesNothing) {
  const std::string modules = QUIRE_MODULES;
  auto options = QUIRE_INIT(quire_runtime_options);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  options.header_abi = QUIRE_ABI_VERSION;
  options.connector_path = {modules.data(), modules.size()};
  quire_runtime* runtime = nullptr;
  Error err;
  ASSERT_EQ(quire_runtime_create(&options, &runtime, &err), QUIRE_OK);
  const auto open = [&](quire_connector** connector, Error* error) {
    return quire_connector_open(runtime, {"host", 4}, {kConfig.data(), kConfig.size()}, connector, error);
  };
  quire_connector* connector = nullptr;
  ASSERT_EQ(open(&connector, &err), QUIRE_OK) << err.message;  // the module is loaded from here on
  quire_connector_release(connector);
  const int64_t alive = test::alive;
  uint64_t refused = 0;
  constexpr int64_t kStep = kSlowness == 1 ? 1 : 61;
  for (int64_t after = 0;; after += kStep) {
    connector = nullptr;
    quire_code code;
    {
      const test::Failing failing(after);
      code = open(&connector, &err);
    }
    if (test::failed == 0) {
      EXPECT_EQ(code, QUIRE_OK);
      quire_connector_release(connector);
      break;
    }
    refused += code != QUIRE_OK ? 1 : 0;
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << after << ": " << code << " " << err.message;
    quire_connector_release(connector);
    ASSERT_EQ(test::alive, alive) << "after allocation " << after << " failed";
  }
  EXPECT_GT(refused, 1000u / kStep) << "tickets are made when a connector is opened";
  quire_runtime_release(runtime);
}

// Every client is new: its workers have no memory for the list of an object's chunks yet.
TEST(HostAllocations, TicketsFailAndTheStoreGoesOn) {
  const std::string name = "allocations-" + std::to_string(getpid());
  const std::string config = R"({"bytes": "4MiB", "chunk_bytes": 4096, "shared": ")" + name + "\"}";
  const Bytes object = content(1, 300'000);
  Client keeper(host(), config);
  ASSERT_EQ(keeper.store(key(1), object).code, QUIRE_OK);
  uint64_t refused = 0, failed = 0;
  for (int64_t after = 0; after < 60; ++after) {
    const bool loads = after % 2 != 0;
    Layout layout = dense(0, object.size());
    Memory memory(&layout);
    if (!loads) memory.fill(layout.runs, object);
    Batch batch;
    loads ? batch.load(key(1), layout.runs) : batch.store(key(2), layout.runs, object.size());
    Client client(host(), config);
    quire_completion end{};
    uint64_t accepted = 0, count = 0;
    quire_code code;
    Error err;
    {
      const test::Failing failing(after / 2);
      code = client.try_submit(batch, &accepted, &err);
      if (accepted != 0) quire_connector_poll(client.get(), 10 * kSecond, &end, 1, &count, &err);
    }
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code << " " << err.message;
    ASSERT_EQ(accepted, code == QUIRE_OK ? 1u : 0u);
    ASSERT_EQ(count, accepted);
    EXPECT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_RESOURCE_EXHAUSTED) << end.code;
    refused += code != QUIRE_OK ? 1 : 0;
    failed += end.code != QUIRE_OK ? 1 : 0;
    if (loads && accepted != 0 && end.code == QUIRE_OK) memory.expect(layout.runs, object);
    EXPECT_TRUE(memory.intact());
    keeper.remove(key(2));
    ASSERT_EQ(keeper.health().used_bytes, (object.size() + 4095) / 4096 * 4096) << "nothing is lost after allocation " << after / 2;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(failed, 2u) << "one store and one load found no memory for the list of chunks";
  EXPECT_TRUE(keeper.holds(key(1), object));
  unlink(("/dev/shm/quire-" + name).c_str());
}

TEST(HostFork, AChildGivesBackWhatItInherited) {
  auto client = std::make_unique<Client>(host(), kConfig);
  ASSERT_EQ(client->store(key(1), content(1, 100'000)).code, QUIRE_OK);
  const pid_t child = test::fork_when_quiet();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);  // a child that waits for the parent's threads is ended
    client.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_TRUE(client->holds(key(1), content(1, 100'000)));
}

}  // namespace
}  // namespace quire
