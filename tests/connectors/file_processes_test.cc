// Several processes on one directory, and processes that are killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "file_rig.h"
#include "tests/unit/full_size.h"

namespace quire::file {
namespace {

namespace fs = std::filesystem;
using kit::below;
using kit::key;
using kit::Rng;
using kit::seed;

#if defined(NDEBUG)
constexpr bool kIsFast = true;
#else
constexpr bool kIsFast = false;  // sanitizers
#endif
constexpr uint64_t kObject = 100'000;
constexpr uint64_t kCharge = 102'400;

std::string path_of(const std::string& store, const Key& key) { return store + "/" + object_path(key); }

// The bytes of object number n follow from n, and so does their number.
uint64_t bytes_of(uint64_t number) { return 1 + number * 7919 % 300'000; }

// Words between processes, in order.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void tell() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void hear() const {
    char word = 0;
    EXPECT_EQ(read(ends_[0], &word, 1), 1);
  }

 private:
  int ends_[2];
};

// Stores one object after the other, several at a time, until it is killed.
[[noreturn]] void store_for_ever(const Config& config, uint64_t first, bool has_temporary, const Pipe& ready) {
  Script script;
  if (!has_temporary) {
    script.fault([](const Request& request) -> std::optional<int32_t> {
      const bool temporary = request.act == Act::kOpen && (request.how.flags & O_TMPFILE) == O_TMPFILE;
      return temporary ? std::optional<int32_t>(-EOPNOTSUPP) : std::nullopt;
    });
  }
  StoreRig rig(config, &script);
  ready.tell();
  constexpr uint64_t kAtOnce = 8;
  for (uint64_t number = first;; number += kAtOnce) {
    std::vector<Buffer> buffers;
    std::vector<uint64_t> tickets;
    for (uint64_t i = number; i < number + kAtOnce; ++i) {
      buffers.emplace_back(bytes_of(i), i % 3 == 0 ? 8 : 0);
      buffers.back().fill(content(i, bytes_of(i)));
      tickets.push_back(rig.begin_store(key(i), buffers.back()));
    }
    for (const uint64_t ticket : tickets) {
      if (!rig.end_of(ticket)) std::_Exit(1);
    }
  }
}

// Opens the store and waits until nothing without a name of an object is there. The kernel may need a moment for a process that was killed.
bool opened_clean(const Config& config) {
  const StoreRig rig(config);
  for (int i = 0; i < 500; ++i) {
    const std::vector<std::string> files = files_below(config.directory);
    if (std::all_of(files.begin(), files.end(), [](const std::string& file) { return file.find('/') != std::string::npos; })) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Every object that is there and was not looked at before is whole.
void check_whole(const std::string& store, uint64_t first, uint64_t end, std::set<uint64_t>* seen) {
  for (uint64_t number = first; number < end; ++number) {
    std::ifstream in(path_of(store, key(number)), std::ios::binary);
    if (!in.is_open()) continue;
    const Bytes bytes((std::istreambuf_iterator<char>(in)), {});
    ASSERT_TRUE(bytes == content(number, bytes_of(number))) << "object " << number << " has " << bytes.size() << " bytes";
    seen->insert(number);
  }
}

// C-8, at hundreds of points of time: objects are whole or not there, and what was left behind goes when the store is opened.
TEST_F(FileStore, KilledWhileItStores) {
  Rng rng(seed());
  const Folder folder, disk(false);
  std::set<uint64_t> seen;
  uint64_t leftovers = 0;
  const char* const given = std::getenv("QUIRE_KILLS");  // NOLINT(concurrency-mt-unsafe): no thread is there yet
  const uint64_t kRounds = given != nullptr ? std::strtoull(given, nullptr, 10) : quire::test::full_or(200, kIsFast ? 40 : 24);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Config own = config((round % 32 == 7 ? disk : folder).store(), uint64_t{1} << 40);
    const uint64_t first = round * 1000;
    const Pipe ready;
    const pid_t child = fork();
    if (child == 0) store_for_ever(own, first, round % 2 == 0, ready);
    if (round % 16 != 15) ready.hear();  // now and then while it opens
    std::this_thread::sleep_for(std::chrono::microseconds(below(&rng, 30'000)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (!fs::exists(own.directory)) continue;
    for (const std::string& file : files_below(own.directory)) leftovers += file.find('/') == std::string::npos ? 1 : 0;
    ASSERT_TRUE(opened_clean(own));
    check_whole(own.directory, first, first + 1000, &seen);
    if (HasFatalFailure()) return;
    if (round % 40 == 39) fs::remove_all(own.directory);
  }
  std::printf("%zu objects were stored before %llu kills, %llu files were left behind\n", seen.size(),
              static_cast<unsigned long long>(kRounds), static_cast<unsigned long long>(leftovers));
  EXPECT_GT(seen.size(), kRounds / 4) << "the kills came too early";
  EXPECT_TRUE(leftovers != 0 || !kIsFast) << "without O_TMPFILE something is left";
}

// A file that another process is about to name is no leftover.
TEST_F(FileStore, FilesOfLivingProcessesAreNoLeftovers) {
  const Folder folder;
  Script script;
  script.fault(failing(Act::kOpen, EOPNOTSUPP, 1));
  script.hold(all(Act::kSync));
  StoreRig rig(config(folder.store()), &script);
  const Buffer buffer(kObject);
  buffer.fill(content(1, kObject));
  const uint64_t ticket = rig.begin_store(key(1), buffer);
  ASSERT_TRUE(script.wait_held(1));
  { const StoreRig other(config(folder.store())); }
  EXPECT_EQ(files_below(folder.store()).size(), 1u);
  script.hold([](const Request&) { return false; });
  script.release();
  const auto end = rig.end_of(ticket);
  EXPECT_TRUE(end && end->code == QUIRE_OK);
  EXPECT_TRUE(rig.holds(key(1), content(1, kObject)));
}

// What one process has done the other knows at once.
TEST_F(FileStore, ProcessesSeeEachOthersObjects) {
  const Folder folder;
  const Pipe there, back;
  const pid_t child = in_child([&] {
    StoreRig rig(config(folder.store()));
    for (uint64_t i = 0; i < 50; ++i) {
      there.hear();
      EXPECT_EQ(rig.sizes({key(i)})[0], kObject);
      EXPECT_TRUE(rig.holds(key(i), content(i, kObject)));
      EXPECT_EQ(rig.store(key(i), content(1000, 5)).flags, QUIRE_COMPLETION_EXISTED);
      EXPECT_EQ(rig.store(key(1000 + i), content(i, kObject)).code, QUIRE_OK);
      if (i % 2 == 0) {
        EXPECT_EQ(rig.remove(key(i)).code, QUIRE_OK);
      }
      EXPECT_EQ(rig.shown().num_objects, i + 1 + (i + 1) / 2);
      back.tell();
    }
  });
  StoreRig rig(config(folder.store()));
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
    there.tell();
    back.hear();
    EXPECT_EQ(rig.sizes({key(i), key(1000 + i)}), (std::vector<uint64_t>{i % 2 == 0 ? 0 : kObject, kObject}));
    EXPECT_EQ(rig.load(key(i), kObject).code, i % 2 == 0 ? QUIRE_NOT_FOUND : QUIRE_OK);
    EXPECT_TRUE(rig.holds(key(1000 + i), content(i, kObject)));
  }
  EXPECT_TRUE(ended_well(child));
}

// Random operations of three processes that evict each other's objects all the time: no byte is ever wrong, and the quota holds but for
// what is being written.
TEST_F(FileStore, ProcessesShareAQuota) {
  const Folder folder;
  constexpr uint64_t kQuota = 60 * kCharge;
  const auto work = [&](uint64_t own_seed) {
    Rng rng(own_seed);
    StoreRig rig(config(folder.store(), kQuota));
    for (int i = 0; i < 600; ++i) {
      const uint64_t number = below(&rng, 200);
      const uint64_t dice = below(&rng, 10);
      Bytes out;
      if (dice < 5) {
        const quire_code code = rig.store(key(number), content(number, kObject)).code;
        EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code;
      } else if (dice < 9) {
        const quire_code code = rig.load(key(number), kObject, &out, below(&rng, 2) * 8).code;
        EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_NOT_FOUND) << code;
        if (code == QUIRE_OK) {
          EXPECT_TRUE(out == content(number, kObject)) << number;
        }
      } else {
        const quire_code code = rig.remove(key(number)).code;
        EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_NOT_FOUND) << code;
      }
      EXPECT_LE(rig.shown().used_bytes, kQuota + 2 * kCharge) << "two others may be about to evict";
    }
  };
  const pid_t first = in_child([&] { work(seed() + 1); });
  const pid_t second = in_child([&] { work(seed() + 2); });
  work(seed());
  EXPECT_TRUE(ended_well(first));
  EXPECT_TRUE(ended_well(second));
  StoreRig rig(config(folder.store(), kQuota));
  EXPECT_LE(rig.shown().used_bytes, kQuota + 2 * kCharge);
  EXPECT_EQ(rig.shown().num_objects, files_below(folder.store()).size());
  EXPECT_EQ(rig.shown().num_damaged, 0u);
}

// A lease holds against other processes, too; so does a use that they do not know of.
TEST_F(FileStore, LeasesHoldBetweenProcesses) {
  const Folder folder;
  constexpr uint64_t kQuota = 20 * kCharge;
  const Pipe stored, known, leased, filled;
  const pid_t child = in_child([&] {
    StoreRig rig(config(folder.store(), kQuota));
    stored.hear();
    EXPECT_EQ(rig.sizes({key(0), key(9), key(15)}), std::vector<uint64_t>(3, kObject));  // as they were before the leases
    known.tell();
    leased.hear();
    for (uint64_t i = 100; i < 140; ++i) EXPECT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
    filled.tell();
  });
  StoreRig rig(config(folder.store(), kQuota));
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  for (uint64_t i = 0; i < 10; ++i) keys.push_back(key(i));
  stored.tell();
  known.hear();
  uint32_t flags = 0;
  rig.sizes(keys, 60 * kSecond, &flags);
  EXPECT_EQ(flags, QUIRE_COMPLETION_LEASED);
  leased.tell();
  filled.hear();
  EXPECT_EQ(rig.sizes(keys), std::vector<uint64_t>(10, kObject));
  EXPECT_EQ(rig.sizes({key(15)})[0], 0u);
  EXPECT_TRUE(ended_well(child));
}

// On a network file system the kernel does not tell what other machines do. Then the directory is asked, and read again now and then.
TEST_F(FileStore, WithoutBeingToldItAsks) {
  const Folder folder;
  Config own = config(folder.store());
  own.is_told = false;
  FakeHost host;
  StoreRig rig(own, nullptr, &host), other(own);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(other.store(key(i), content(i, kObject)).code, QUIRE_OK);
  std::vector<Key> keys;
  for (uint64_t i = 0; i < 100; ++i) keys.push_back(key(i < 50 ? i : 1000 + i));
  std::vector<uint64_t> wanted(100, kObject);
  std::fill(wanted.begin() + 50, wanted.end(), 0);
  EXPECT_EQ(rig.sizes(keys), wanted) << "look-ups ask for what they do not know";
  EXPECT_TRUE(rig.holds(key(60), content(60, kObject))) << "and so do loads";
  EXPECT_EQ(rig.store(key(70), content(1, 5)).flags, QUIRE_COMPLETION_EXISTED) << "and stores";
  EXPECT_EQ(rig.load(key(2000), 1).code, QUIRE_NOT_FOUND);
  ASSERT_EQ(other.remove(key(0)).code, QUIRE_OK);
  EXPECT_EQ(rig.load(key(0), 1).code, QUIRE_NOT_FOUND);
  ASSERT_EQ(other.remove(key(1)).code, QUIRE_OK);
  EXPECT_EQ(rig.store(key(1), content(1, kObject)).flags, 0u) << "what is known may be gone";
  ASSERT_EQ(other.remove(key(2)).code, QUIRE_OK);
  ASSERT_EQ(other.store(key(500), content(5, kObject)).code, QUIRE_OK);
  for (int i = 0; i < 200 && (rig.shown().num_objects != 99 || rig.sizes({key(2)})[0] != 0); ++i) {
    host.advance(kSecond);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(rig.shown().num_objects, 99u) << "after a while all is known";
  EXPECT_EQ(rig.sizes({key(2), key(500)}), (std::vector<uint64_t>{0, kObject}));
  std::vector<quire_object_entry> items(200);
  std::vector<uint8_t> bytes(200 * 32);
  ASSERT_EQ(other.remove(key(3)).code, QUIRE_OK);
  EXPECT_EQ(rig.list(0, &items, &bytes).count, 98u) << "a listing reads the directory";
}

// More happens than the kernel keeps in mind for a process that does not look.
TEST_F(FileStore, EventsThatWereLostAreMadeUpFor) {
  const Folder folder;
  Script script;
  StoreRig rig(config(folder.store()), &script);
  ASSERT_EQ(rig.store(key(1), content(1, kObject)).code, QUIRE_OK);
  const std::string from = path_of(folder.store(), key(1));
  const std::string to = fs::path(from).parent_path().string() + "/" + fs::path(from).filename().string().substr(0, 2) + "ff";
  std::ifstream limit("/proc/sys/fs/inotify/max_queued_events");
  uint64_t events = 16384;
  limit >> events;
  if (events > 100'000) GTEST_SKIP() << "the kernel keeps " << events << " events";
  for (uint64_t i = 0; i < events + 1000; ++i)
    ASSERT_EQ(rename(i % 2 == 0 ? from.c_str() : to.c_str(), i % 2 == 0 ? to.c_str() : from.c_str()), 0);
  fs::copy_file(events % 2 == 0 ? from : to, path_of(folder.store(), key(2)));
  for (int i = 0; i < 500 && rig.sizes({key(2)})[0] == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(rig.sizes({key(2)})[0], kObject);
  EXPECT_EQ(rig.shown().num_objects, 2u);
}

// An object that is evicted elsewhere while it is read here is read to its end.
TEST_F(FileStore, WhatIsBeingReadIsReadToItsEnd) {
  const Folder folder;
  Script script;
  const Pipe reading, removed;
  const pid_t child = in_child([&] {
    StoreRig rig(config(folder.store()));
    reading.hear();
    EXPECT_EQ(rig.remove(key(1)).code, QUIRE_OK);
    removed.tell();
  });
  StoreRig rig(config(folder.store()), &script);
  ASSERT_EQ(rig.store(key(1), content(1, 2 * kMiB)).code, QUIRE_OK);
  script.hold(all(Act::kRead));
  const Buffer buffer(2 * kMiB);
  const uint64_t ticket = rig.begin_load(key(1), buffer);
  ASSERT_TRUE(script.wait_held(2));
  reading.tell();
  removed.hear();
  EXPECT_EQ(rig.sizes({key(1)})[0], 0u);
  script.hold([](const Request&) { return false; });
  script.release();
  const auto end = rig.end_of(ticket);
  EXPECT_TRUE(end && end->code == QUIRE_OK);
  EXPECT_TRUE(buffer.bytes() == content(1, 2 * kMiB));
  EXPECT_TRUE(ended_well(child));
}

// A process that is stopped while it has the lock keeps others neither from evicting nor from answering.
TEST_F(FileStore, AStoppedProcessHoldsNobodyUp) {
  const Folder folder;
  constexpr uint64_t kQuota = 5 * kCharge;
  const Pipe holds;
  const pid_t child = in_child([&] {
    Script script;
    StoreRig rig(config(folder.store(), kQuota), &script);
    for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
    script.hold(all(Act::kUnlink));
    const Buffer buffer(kObject);
    rig.begin_store(key(100), buffer);
    EXPECT_TRUE(script.wait_held(1));
    holds.tell();
    raise(SIGSTOP);
    std::_Exit(0);
  });
  holds.hear();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  StoreRig rig(config(folder.store(), kQuota));
  ASSERT_TRUE(rig.outcome().ok());
  const auto begin = std::chrono::steady_clock::now();
  uint32_t flags = 7;
  EXPECT_EQ(rig.sizes({key(3)}, kSecond, &flags)[0], kObject);
  EXPECT_EQ(flags, 0u) << "the other one could evict it the moment it goes on";
  for (uint64_t i = 200; i < 203; ++i) EXPECT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_EQ(rig.sizes({key(201)}, kSecond, &flags)[0], kObject);
  EXPECT_EQ(flags, QUIRE_COMPLETION_LEASED);
}

}  // namespace
}  // namespace quire::file
