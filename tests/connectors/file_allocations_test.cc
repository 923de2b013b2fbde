// Allocations of the file connector fail, one after the other: in open, in submit and in the store's thread. What was asked for ends with
// RESOURCE_EXHAUSTED or works without; nothing is lost, and the same works afterwards. Also: a child of fork() that gives back what it
// inherited.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/connectors/kit.h"
#include "tests/connectors/starved_batch.h"
#include "tests/unit/allocations.h"
#include "tests/unit/fork_when_quiet.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

namespace fs = std::filesystem;

class FileAllocations : public testing::Test {
 protected:
  FileAllocations() {
    folder_ = std::string(fs::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") + "/quire-file-allocations-" + std::to_string(getpid());
    config_ = R"({"bytes": "64MiB", "directory": ")" + folder_ + R"("})";
    subject_.connector = "file";
  }
  ~FileAllocations() override { fs::remove_all(folder_); }

  std::string folder_, config_;
  Subject subject_;
};

size_t num_open_files() { return static_cast<size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator())); }

// Every allocation up to the hundredth, then some of the thousands that reading 256 folders takes.
TEST_F(FileAllocations, OpenFailsAndLeavesNothing) {
  {
    Client client(subject_, config_);
    for (uint64_t i = 1; i <= 200; ++i) ASSERT_EQ(client.store(key(i), content(i, 500)).code, QUIRE_OK);
  }
  const std::string modules = QUIRE_MODULES;
  auto options = QUIRE_INIT(quire_runtime_options);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  options.header_abi = QUIRE_ABI_VERSION;
  options.connector_path = {modules.data(), modules.size()};
  quire_runtime* runtime = nullptr;
  Error err;
  ASSERT_EQ(quire_runtime_create(&options, &runtime, &err), QUIRE_OK);
  quire_connector* connector = nullptr;
  const auto open = [&] { return quire_connector_open(runtime, {"file", 4}, {config_.data(), config_.size()}, &connector, &err); };
  ASSERT_EQ(open(), QUIRE_OK) << err.message;  // the module is loaded from here on
  quire_connector_release(connector);
  [[maybe_unused]] const int64_t alive = test::alive;
  const size_t files = num_open_files();
  uint64_t refused = 0, opened = 0;
  for (int64_t after = 0;; after += after < 100 ? 1 : 97) {
    connector = nullptr;
    quire_code code = QUIRE_OK;
    {
      const test::Failing failing(after);
      code = open();
    }
    quire_connector_release(connector);
    if (test::failed == 0) break;
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED || code == QUIRE_UNAVAILABLE) << after << ": " << code << err.message;
    (code == QUIRE_OK ? opened : refused) += 1;
#if defined(NDEBUG)  // checked builds remember handles
    ASSERT_EQ(test::alive, alive) << "after allocation " << after << " failed";
#endif
    ASSERT_EQ(num_open_files(), files) << "after allocation " << after << " failed";
  }
  std::printf("%llu opens failed, %llu did without\n", static_cast<unsigned long long>(refused), static_cast<unsigned long long>(opened));
  EXPECT_GT(refused, 0u);
  quire_runtime_release(runtime);
  Client client(subject_, config_);
  EXPECT_TRUE(client.holds(key(1), content(1, 500)));
}

TEST_F(FileAllocations, TicketsFailAndTheStoreGoesOn) {
  Client client(subject_, config_);
  const Bytes object = content(1, 1'300'000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  uint64_t refused = 0, ended = 0;
  for (int64_t after = 0; after < 150; ++after) {
    const Key fresh = key(100 + static_cast<uint64_t>(after));
    Starved starved;
    ASSERT_NO_FATAL_FAILURE(run_starved(client, after, fresh, object, dense(0, object.size()), QUIRE_RESOURCE_EXHAUSTED, &starved));
    refused += starved.is_refused ? 1 : 0;
    ended += starved.num_starved;
    client.remove(fresh);
    for (int i = 0; i < 400 && client.health().num_objects != 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_EQ(client.health().num_objects, 1u) << "nothing is lost after allocation " << after;
    ASSERT_EQ(client.list().size(), 1u);
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(ended, 0u);
  EXPECT_TRUE(client.holds(key(1), object));
}

TEST_F(FileAllocations, AChildGivesBackWhatItInherited) {
  auto client = std::make_unique<Client>(subject_, config_);
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
  EXPECT_EQ(client->store(key(2), content(2, 100'000)).code, QUIRE_OK);
}

}  // namespace
}  // namespace quire
