#include "ucx_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "tests/unit/full_size.h"

namespace quire::kit {

Subject ucx_subject() {
  Subject subject;
  subject.connector = "ucx";
  return subject;
}

std::string& same_host() {
  static std::string value = "off";
  return value;
}

std::string name_of_way(const testing::TestParamInfo<const char*>& way) { return std::string(way.param) == "off" ? "ucx" : "same_host"; }

std::string ucx_config(const std::string& fields, const std::string& secret_file) {
  const std::string secret = secret_file.empty() ? "\"trusted\": true" : "\"secret_file\": \"" + secret_file + "\"";
  return "{" + secret + ", \"same_host\": \"" + same_host() + "\"" + fields + "}";
}

Key ucx_key(uint64_t name, uint64_t handle, const std::string& address) {
  Key out = key(name, 32);
  out += handle == 0 ? std::string(16, '\0') : key(handle, 16);
  return out + address;
}

std::string read_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

Owner::Owner(const std::string& fields, const std::string& secret_file)
    : client_(ucx_subject(),
              ucx_config(", \"listen\": \"127.0.0.1:0\", \"port_file\": \"" + folder_.path() + "/port\"" + fields, secret_file)),
      address_(read_line(folder_.path() + "/port")) {
  EXPECT_NE(address_, "");
}

uint64_t Owner::offer(const Key& key, const Bytes& object, Layout layout) {
  Memory memory(&layout, memories_.size() % 64);
  memory.fill(layout.runs, object);
  Batch batch;
  const uint64_t ticket = batch.store(key, layout.runs, object.size()).ticket;
  memories_.emplace_back(ticket, std::move(memory));
  EXPECT_EQ(client_.submit(batch), 1u);
  EXPECT_TRUE(client_.has(key)) << "a look-up that is submitted later sees it";
  return ticket;
}

uint64_t Owner::offer(const Key& key, const Bytes& object) { return offer(key, object, dense(0, object.size())); }

Memory& Owner::memory(uint64_t ticket) {
  for (auto& [number, memory] : memories_) {
    if (number == ticket) return memory;
  }
  ADD_FAILURE() << "no ticket " << ticket;
  return memories_.front().second;
}

namespace {

// Returns when the process has written a byte.
pid_t begin_process(const std::string& what, const std::string& where, uint64_t count, uint64_t bytes) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string counts = std::to_string(count), sizes = std::to_string(bytes), way = same_host();
  const pid_t process = fork();
  if (process == 0) {
    dup2(ends[1], 1);
    execl(QUIRE_UCX_PEER, QUIRE_UCX_PEER, what.c_str(), where.c_str(), counts.c_str(), sizes.c_str(), way.c_str(), nullptr);
    _exit(127);
  }
  ::close(ends[1]);
  char begun = 0;
  EXPECT_EQ(read(ends[0], &begun, 1), 1) << "the process did not begin";
  EXPECT_EQ(begun, 'b');
  ::close(ends[0]);
  return process;
}

void end_process(pid_t* process) {
  if (*process < 0) return;
  ::kill(*process, SIGKILL);
  int status = 0;
  waitpid(*process, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended before: " << status;
  *process = -1;
}

void stop_process(pid_t process) {
  ::kill(process, SIGSTOP);
  int status = 0;
  waitpid(process, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
}

}  // namespace

OwnerProcess::OwnerProcess(uint64_t count, uint64_t bytes, const std::string& fields) {
  const std::string config = ucx_config(", \"listen\": \"127.0.0.1:0\", \"port_file\": \"" + folder_.path() + "/port\"" + fields);
  process_ = begin_process("own", config, count, bytes);
  address_ = read_line(folder_.path() + "/port");
}

OwnerProcess::~OwnerProcess() { kill(); }
void OwnerProcess::kill() { end_process(&process_); }
void OwnerProcess::stop() const { stop_process(process_); }
void OwnerProcess::go_on() const { ::kill(process_, SIGCONT); }

ReaderProcess::ReaderProcess(const std::string& address, uint64_t count, uint64_t bytes)
    : process_(begin_process("read", address, count, bytes)) {}
void ReaderProcess::kill() { end_process(&process_); }
void ReaderProcess::stop() const { stop_process(process_); }
void ReaderProcess::go_on() const { ::kill(process_, SIGCONT); }

int read_objects(const std::string& address, uint64_t count, uint64_t bytes) {
  Client client(ucx_subject(), ucx_config());
  if (!client.is_open()) return 1;
  std::vector<Key> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(ucx_key(i, i + 1, address));
  client.sizes(keys, 600 * kSecond);
  std::vector<Layout> layouts(count, dense(0, bytes));
  std::vector<Memory> memories;
  for (Layout& layout : layouts) memories.emplace_back(&layout);
  for (bool is_first = true;; is_first = false) {
    Batch batch;
    for (uint64_t i = 0; i < count; ++i) batch.load(keys[i], layouts[i].runs);
    client.run(batch);
    if (is_first && write(1, "b", 1) != 1) return 1;
  }
}

int own_objects(const std::string& config, uint64_t count, uint64_t bytes) {
  Client client(ucx_subject(), config);
  if (!client.is_open()) return 1;
  std::vector<Memory> memories;
  Batch batch;
  for (uint64_t i = 0; i < count; ++i) {
    constexpr uint64_t kPiece = 4096;
    const auto whole = static_cast<int64_t>(kPiece);
    Layout layout;
    if (bytes >= kPiece) layout.runs.push_back({0, 0, kPiece, bytes / kPiece, 2 * whole, 0, whole});
    const uint64_t rest = bytes % kPiece, done = bytes - rest;
    if (rest != 0) layout.runs.push_back({0, 2 * done, rest, 1, 2 * whole, done, whole});
    layout.memory_bytes = 2 * done + rest;
    memories.emplace_back(&layout);
    memories.back().fill(layout.runs, content(i, bytes));
    batch.store(ucx_key(i, i + 1), layout.runs, bytes);
  }
  if (client.submit(batch) != count || write(1, "b", 1) != 1) return 1;
  ::close(1);
  while (true) client.poll(kSecond);
}

uint64_t kills(uint64_t usual) {
  const char* const text = std::getenv("QUIRE_KILLS");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::strtoull(text, nullptr, 10) : test::full_or(5 * usual, usual) / kSlowness;
}

}  // namespace quire::kit
