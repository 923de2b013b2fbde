// One store of the host connector in several processes: what one stores others load, processes are killed at random moments, and memory
// that is not fit to be shared is refused.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/connectors/host_shared.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)
extern char** environ;

namespace quire {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 40;  // a process takes long to begin
#else
constexpr int kRounds = 200;
#endif

class HostShared : public testing::Test {
 protected:
  HostShared() : name_("test-" + std::to_string(getpid())) { unlink(path().c_str()); }
  ~HostShared() override { unlink(path().c_str()); }
  std::string path() const { return "/dev/shm/quire-" + name_; }
  Client open() const { return {shared_subject(), shared_config(name_)}; }
  std::string refusal(const std::string& config, quire_code code) const {
    Error err;
    EXPECT_EQ(Client::try_open(shared_subject(), config, &err), code) << err.message;
    return err.message;
  }

  std::string name_;
};

// A process of host_worker; it works when the constructor returns.
class WorkerProcess {
 public:
  WorkerProcess(const std::string& name, uint64_t number) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::string words[] = {QUIRE_HOST_WORKER, name, std::to_string(number)};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    char begun = 0;
    EXPECT_EQ(read(ends[0], &begun, 1), 1) << "the process did not begin";
    ::close(ends[0]);
  }
  ~WorkerProcess() { end(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void end() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended before: " << status;
    pid_ = -1;
  }
  void send(int signal) const { ::kill(pid_, signal); }

 private:
  pid_t pid_ = -1;
};

void expect_whole(Client& client) {
  std::map<Key, uint64_t> numbers;
  for (uint64_t i = 0; i < kSharedKeys + 2; ++i) numbers[key(i)] = i;
  for (const auto& [name, bytes] : client.list()) {
    const auto number = numbers.find(name);
    ASSERT_NE(number, numbers.end()) << "a key that nobody stored";
    const Bytes object = shared_object(number->second);
    ASSERT_EQ(bytes, object.size());
    Bytes out;
    const quire_completion end = client.load(name, 0, bytes, &out);
    if (end.code == QUIRE_NOT_FOUND) continue;  // others have removed it meanwhile
    ASSERT_EQ(end.code, QUIRE_OK);
    ASSERT_TRUE(out == object) << "key " << number->second;
  }
}

TEST_F(HostShared, OneProcessFindsWhatAnotherStored) {
  Client first = open();
  Client second = open();
  EXPECT_EQ(first.info().flags & (QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_PERSISTENT),
            QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_PERSISTENT);
  for (uint64_t i = 0; i < 50; ++i) {
    Client& writer = i % 2 == 0 ? first : second;
    Client& reader = i % 2 == 0 ? second : first;
    ASSERT_EQ(writer.store(key(i), shared_object(i)).code, QUIRE_OK);
    EXPECT_TRUE(reader.holds(key(i), shared_object(i)));
    EXPECT_EQ(reader.store(key(i), content(1, 1)).flags, QUIRE_COMPLETION_EXISTED);
  }
  EXPECT_EQ(first.list(), second.list());
  EXPECT_EQ(first.remove(key(3)).code, QUIRE_OK);
  EXPECT_FALSE(second.has(key(3)));
  first.close();
  EXPECT_EQ(second.list().size(), 49u);
  struct stat status = {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  // Removed, it lives on for those who have it, and others begin anew.
  ASSERT_EQ(unlink(path().c_str()), 0);
  Client third = open();
  EXPECT_TRUE(third.list().empty());
  EXPECT_EQ(second.list().size(), 49u);
}

// Two processes work, one of them is killed and replaced, 200 times. No object is ever wrong, and in the end no chunk is lost.
TEST_F(HostShared, SurvivesProcessesThatAreKilled) {
  Rng rng(seed());
  {
    Client client = open();
    auto workers = std::make_pair(std::make_unique<WorkerProcess>(name_, seed()), std::make_unique<WorkerProcess>(name_, seed() + 1));
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 10'000)));
      auto& worker = below(&rng, 2) == 0 ? workers.first : workers.second;
      worker->end();
      if (round % 10 == 0) expect_whole(client);
      worker = std::make_unique<WorkerProcess>(name_, seed() + 2 + static_cast<uint64_t>(round));
    }
  }
  Client client = open();  // ends the work of those who are gone
  expect_whole(client);
  uint64_t used = 0;
  for (const auto& [name, bytes] : client.list()) used += (bytes + kSharedChunk - 1) / kSharedChunk * kSharedChunk;
  const quire_connector_health health = client.health();
  EXPECT_EQ(health.used_bytes, used);
  EXPECT_EQ(health.num_damaged, 0u);
  EXPECT_EQ(health.num_objects, client.list().size());
  std::printf("%zu objects in %llu of %llu bytes are left\n", client.list().size(), static_cast<unsigned long long>(used),
              static_cast<unsigned long long>(health.capacity_bytes));
  EXPECT_GT(used, health.capacity_bytes / 2) << "the processes did little";
}

// A process that is stopped, wherever it is: tickets of others end in time.
TEST_F(HostShared, DoesNotHangWithStoppedProcesses) {
  Rng rng(seed());
  Client client = open();
  WorkerProcess worker(name_, seed());
  for (int round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 3'000)));
    worker.send(SIGSTOP);
    const auto begin = std::chrono::steady_clock::now();
    const int64_t now = std::chrono::nanoseconds(begin.time_since_epoch()).count();
    uint64_t sizes[8];
    Batch batch;
    for (uint64_t& size : sizes) batch.look_up({key(1)}, &size).deadline_ns = now + 100 * kMillisecond;
    for (const auto& [ticket, end] : client.run(batch)) {
      EXPECT_TRUE(end.code == QUIRE_OK || end.code == QUIRE_DEADLINE_EXCEEDED) << end.code;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    worker.send(SIGCONT);
  }
}

TEST_F(HostShared, OtherGeometryIsRefusedByName) {
  Client client = open();
  const std::string name = ", \"shared\": \"" + name_ + "\"}";
  EXPECT_NE(refusal("{\"bytes\": \"8MiB\", \"chunk_bytes\": 4096" + name, QUIRE_FAILED_PRECONDITION)
                .find("its bytes is 4194304, wanted is 8388608"),
            std::string::npos);
  EXPECT_NE(refusal("{\"bytes\": \"4MiB\", \"chunk_bytes\": 8192" + name, QUIRE_FAILED_PRECONDITION)
                .find("its chunk_bytes is 4096, wanted is 8192"),
            std::string::npos);
  client.close();
  const int file = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const uint32_t version = 77;
  ASSERT_EQ(pwrite(file, &version, sizeof version, 8), 4);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_FAILED_PRECONDITION).find("layout version is 77"), std::string::npos);
  ASSERT_EQ(ftruncate(file, 100), 0);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_FAILED_PRECONDITION).find(path()), std::string::npos);
  ASSERT_EQ(ftruncate(file, 0), 0);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_FAILED_PRECONDITION).find("is no store of the host connector"), std::string::npos);
  ::close(file);
}

TEST_F(HostShared, MemoryThatOthersMayWriteIsRefused) {
  open().close();
  ASSERT_EQ(chmod(path().c_str(), 0660), 0);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_PERMISSION_DENIED).find("must be a file of user"), std::string::npos);
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(path().c_str(), 0600), 0);
    ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
    EXPECT_NE(refusal(shared_config(name_), QUIRE_PERMISSION_DENIED).find("belongs to user 65534"), std::string::npos);
  }
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(symlink("/etc/passwd", path().c_str()), 0);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_PERMISSION_DENIED).find(path()), std::string::npos);
  ASSERT_EQ(unlink(path().c_str()), 0);
  ASSERT_EQ(mkdir(path().c_str(), 0700), 0);
  EXPECT_NE(refusal(shared_config(name_), QUIRE_UNAVAILABLE).find(path()), std::string::npos);
  ASSERT_EQ(rmdir(path().c_str()), 0);
}

TEST_F(HostShared, ManyMayOpenAtOnce) {
  for (int round = 0; round < 10; ++round) {
    unlink(path().c_str());
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Client>> clients(8);
    threads.reserve(clients.size());
    for (auto& client : clients) threads.emplace_back([&] { client = std::make_unique<Client>(shared_subject(), shared_config(name_)); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(clients[0]->store(key(1), content(1, 10)).code, QUIRE_OK);
    for (const auto& client : clients) EXPECT_TRUE(client->has(key(1))) << "all have the same store";
  }
}

}  // namespace
}  // namespace quire
