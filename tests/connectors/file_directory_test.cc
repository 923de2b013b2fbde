// The directory of the file connector: what it looks like, what may be in it, and what happens when it changes, goes, or may not be
// written.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "file_rig.h"

namespace quire::file {
namespace {

namespace fs = std::filesystem;
using kit::key;

std::string path_of(const std::string& store, const Key& key) { return store + "/" + object_path(key); }

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Waits at most `seconds` for what the store notices by itself.
template <typename Condition>
bool comes_true(Condition condition, int seconds = 10) {
  for (int i = 0; i < seconds * 100; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

// In a process with a mount of its own, if the machine lets us. 77: it does not.
int with_mount(const std::string& path, const std::string& options, const std::function<void()>& what) {
  const pid_t child = in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", path.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      std::_Exit(77);
    }
    what();
  });
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FileStore, FilesAreOnesOwnAndSizesAreExact) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  for (const uint64_t bytes : {1ul, 4095ul, 4096ul, 4097ul, 1048575ul, 1048577ul, 2097152ul}) {
    ASSERT_EQ(rig.store(key(bytes), content(bytes, bytes)).code, QUIRE_OK);
    struct stat status = {};
    ASSERT_EQ(stat(path_of(folder.store(), key(bytes)).c_str(), &status), 0);
    EXPECT_EQ(static_cast<uint64_t>(status.st_size), bytes);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    std::ifstream in(path_of(folder.store(), key(bytes)), std::ios::binary);
    const Bytes text((std::istreambuf_iterator<char>(in)), {});
    EXPECT_TRUE(text == content(bytes, bytes)) << bytes;
  }
  struct stat status = {};
  ASSERT_EQ(stat((folder.store() + "/00").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(FileStore, ADirectoryThatIsNoneOrOthersMayWriteIsRefused) {
  const Folder folder;
  const auto refusal = [](const std::string& path, bool read_only = false) {
    Config own = config(path);
    own.read_only = read_only;
    StoreRig rig(own);
    return rig.outcome();
  };
  EXPECT_EQ(refusal(folder.path() + "/no/store").code, QUIRE_NOT_FOUND);
  EXPECT_EQ(refusal(folder.path() + "/absent", true).code, QUIRE_NOT_FOUND) << "read_only makes nothing";
  write_file(folder.path() + "/file", "x");
  EXPECT_EQ(refusal(folder.path() + "/file").code, QUIRE_UNAVAILABLE);
  fs::create_directory(folder.path() + "/true");
  fs::create_directory_symlink(folder.path() + "/true", folder.path() + "/link");
  EXPECT_EQ(refusal(folder.path() + "/link").code, QUIRE_PERMISSION_DENIED);
  EXPECT_NE(refusal(folder.path() + "/link").text.find("symbolic link"), std::string::npos);
  ASSERT_EQ(chmod((folder.path() + "/true").c_str(), 0777), 0);
  StoreRig rig(config(folder.path() + "/true"));
  EXPECT_TRUE(rig.outcome().ok()) << "it is ours";
  EXPECT_EQ(rig.host().said("everybody may write into"), 1u);
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  ASSERT_EQ(chown((folder.path() + "/true").c_str(), 65534, 65534), 0);
  EXPECT_EQ(refusal(folder.path() + "/true").code, QUIRE_PERMISSION_DENIED);
}

// Whatever else has the name of an object, or none, is left alone, and no link is followed.
TEST_F(FileStore, ForeignFilesAreNoObjects) {
  const Folder folder;
  { const StoreRig rig(config(folder.store())); }
  const std::string secret = folder.path() + "/secret";
  write_file(secret, std::string(5000, 's'));
  const std::string fifo = path_of(folder.store(), key(1)), link = path_of(folder.store(), key(2)), below = path_of(folder.store(), key(3));
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(secret, link);
  fs::create_directory(below);
  const std::vector<std::string> others = {folder.store() + "/README",  folder.store() + "/00/x",    folder.store() + "/00/0",
                                           folder.store() + "/00/01ff", folder.store() + "/ab/ABCD", folder.store() + "/zz"};
  for (const std::string& other : others) write_file(other, "foreign");
  fs::create_directory_symlink(folder.path(), folder.store() + "/qq");
  for (const bool known : {true, false}) {  // by a scan; then by what inotify tells
    StoreRig rig(config(folder.store()));
    if (!known) {
      for (const std::string& path : {fifo, link, below}) fs::remove(path);
      rig.sizes({key(1)});
      mkfifo(fifo.c_str(), 0600);
      fs::create_symlink(secret, link);
      fs::create_directory(below);
    }
    EXPECT_EQ(rig.sizes({key(1), key(2), key(3)}), (std::vector<uint64_t>{0, 0, 0}));
    EXPECT_EQ(rig.shown().num_objects, 0u);
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(rig.load(key(i), 100).code, QUIRE_NOT_FOUND) << i;
      EXPECT_EQ(rig.store(key(i), content(i, 100)).code, QUIRE_UNAVAILABLE) << i;
    }
    EXPECT_EQ(rig.remove(key(3)).code, QUIRE_NOT_FOUND);
  }
  EXPECT_EQ(fs::file_size(secret), 5000u);
  for (const std::string& other : others) EXPECT_TRUE(fs::exists(other)) << other;
}

TEST_F(FileStore, AFolderThatIsALinkIsNotFollowed) {
  const Folder folder;
  { const StoreRig rig(config(folder.store())); }
  const Key name = key(1);
  const std::string path = path_of(folder.store(), name);
  const std::string inside = fs::path(path).parent_path();
  fs::remove(inside);
  fs::create_directory(folder.path() + "/elsewhere");
  write_file(folder.path() + "/elsewhere/" + fs::path(path).filename().string(), std::string(100, 'x'));
  fs::create_directory_symlink(folder.path() + "/elsewhere", inside);
  StoreRig rig(config(folder.store()));
  EXPECT_EQ(rig.load(name, 100).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(rig.store(name, content(1, 100)).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(rig.remove(name).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(rig.sizes({name})[0], 0u);
  EXPECT_EQ(rig.shown().num_objects, 0u);
  EXPECT_EQ(fs::file_size(folder.path() + "/elsewhere/" + fs::path(path).filename().string()), 100u);
}

TEST_F(FileStore, DamagedObjectsAreLostAndForgotten) {
  const Folder folder;
  {
    StoreRig rig(config(folder.store()));
    for (uint64_t i = 0; i < 6; ++i) ASSERT_EQ(rig.store(key(i), content(i, 100'000)).code, QUIRE_OK);
    fs::resize_file(path_of(folder.store(), key(0)), 50'000);  // cut while the store knows its size
    fs::resize_file(path_of(folder.store(), key(1)), 200'000);
    EXPECT_EQ(rig.load(key(0), 100'000).code, QUIRE_DATA_LOSS);
    EXPECT_EQ(rig.load(key(0), 100'000).code, QUIRE_NOT_FOUND);
    EXPECT_EQ(rig.load(key(1), 100).code, QUIRE_DATA_LOSS);
    EXPECT_EQ(rig.shown().num_damaged, 2u);
    EXPECT_EQ(rig.shown().num_objects, 4u);
    EXPECT_EQ(rig.store(key(0), content(0, 100'000)).code, QUIRE_OK) << "it can be stored again";
    EXPECT_TRUE(rig.holds(key(0), content(0, 100'000)));
  }
  fs::resize_file(path_of(folder.store(), key(2)), 50'000);  // cut while no store was open: that is its size now
  fs::resize_file(path_of(folder.store(), key(3)), 0);
  StoreRig rig(config(folder.store()));
  EXPECT_EQ(rig.load(key(2), 100'000).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(rig.load(key(2), 50'000).code, QUIRE_OK);
  EXPECT_EQ(rig.load(key(3), 1).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(rig.shown().num_damaged, 1u) << "a file without bytes";
  EXPECT_EQ(rig.store(key(3), content(3, 10)).code, QUIRE_OK) << "it is not in the way";
}

// A file that is cut while it is read.
TEST_F(FileStore, AnObjectThatEndsEarlyIsLost) {
  for (const uint64_t misalignment : {0, 8}) {
    const Folder folder;
    Script script;
    StoreRig rig(config(folder.store()), &script);
    ASSERT_EQ(rig.store(key(1), content(1, 2 * kMiB)).code, QUIRE_OK);
    script.hold(all(Act::kRead));
    const Buffer buffer(2 * kMiB, misalignment);
    const uint64_t ticket = rig.begin_load(key(1), buffer);
    ASSERT_TRUE(script.wait_held(2));
    fs::resize_file(path_of(folder.store(), key(1)), kMiB + 5000);
    script.hold([](const Request&) { return false; });
    script.release();
    const auto end = rig.end_of(ticket);
    EXPECT_TRUE(end && end->code == QUIRE_DATA_LOSS);
  }
}

TEST_F(FileStore, ComesBackWithItsDirectory) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  ASSERT_EQ(rig.store(key(1), content(1, 100'000)).code, QUIRE_OK);
  fs::remove_all(folder.store());
  EXPECT_TRUE(comes_true([&] { return rig.shown().state == QUIRE_CONNECTOR_DOWN; }));
  EXPECT_EQ(rig.load(key(1), 100).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(rig.store(key(2), content(2, 100)).code, QUIRE_UNAVAILABLE);
  EXPECT_EQ(rig.remove(key(1)).code, QUIRE_UNAVAILABLE);
  EXPECT_FALSE(fs::exists(folder.store())) << "it is not made again behind anybody's back";
  fs::create_directory(folder.store());
  EXPECT_TRUE(comes_true([&] { return rig.shown().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_EQ(rig.shown().num_objects, 0u);
  EXPECT_EQ(rig.store(key(2), content(2, 100'000)).code, QUIRE_OK);
  EXPECT_TRUE(rig.holds(key(2), content(2, 100'000)));
  EXPECT_EQ(rig.host().said("is gone"), 1u);
}

// Removed while tickets of all kinds are on their way: they end, and nothing is wrong.
TEST_F(FileStore, TheDirectoryGoesUnderTickets) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  for (int round = 0; round < 5; ++round) {
    std::vector<Buffer> buffers;
    std::vector<uint64_t> tickets;
    ASSERT_EQ(rig.store(key(0), content(0, kMiB)).code, QUIRE_OK);
    for (uint64_t i = 0; i < 20; ++i) buffers.emplace_back(kMiB);
    for (uint64_t i = 0; i < 20; ++i) {
      tickets.push_back(i % 2 == 0 ? rig.begin_load(key(0), buffers[i]) : rig.begin_store(key(100 + i), buffers[i]));
    }
    std::error_code ignored;  // it may be filled while it is emptied
    while (fs::exists(folder.store())) fs::remove_all(folder.store(), ignored);
    for (uint64_t i = 0; i < 20; ++i) {
      const auto end = rig.end_of(tickets[i]);
      ASSERT_TRUE(end.has_value());
      EXPECT_TRUE(end->code == QUIRE_OK || end->code == QUIRE_UNAVAILABLE || end->code == QUIRE_NOT_FOUND) << end->code;
      if (i % 2 == 0 && end->code == QUIRE_OK) {
        EXPECT_EQ(buffers[i].bytes(), content(0, kMiB));
      }
    }
    fs::create_directory(folder.store());
    ASSERT_TRUE(comes_true([&] { return rig.shown().state == QUIRE_CONNECTOR_UP && rig.shown().num_objects == 0; }));
  }
}

TEST_F(FileStore, AReplacedDirectoryIsTheStoreFromThenOn) {
  const Folder folder;
  {
    StoreRig other(config(folder.path() + "/other"));
    EXPECT_EQ(other.store(key(2), content(2, 5000)).code, QUIRE_OK);
  }
  StoreRig rig(config(folder.store()));
  ASSERT_EQ(rig.store(key(1), content(1, 5000)).code, QUIRE_OK);
  fs::rename(folder.store(), folder.path() + "/old");
  fs::rename(folder.path() + "/other", folder.store());
  EXPECT_TRUE(comes_true([&] { return rig.sizes({key(2)})[0] == 5000; }));
  EXPECT_EQ(rig.sizes({key(1)})[0], 0u);
  EXPECT_TRUE(rig.holds(key(2), content(2, 5000)));
  EXPECT_EQ(rig.store(key(3), content(3, 10)).code, QUIRE_OK);
  EXPECT_TRUE(fs::exists(path_of(folder.store(), key(3))));
}

// One folder goes: it is made again.
TEST_F(FileStore, AFolderThatWasRemovedIsMadeAgain) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  ASSERT_EQ(rig.store(key(1), content(1, 5000)).code, QUIRE_OK);
  fs::remove_all(fs::path(path_of(folder.store(), key(1))).parent_path());
  EXPECT_EQ(rig.load(key(1), 5000).code, QUIRE_NOT_FOUND);
  EXPECT_EQ(rig.store(key(1), content(1, 5000)).code, QUIRE_OK);
  EXPECT_TRUE(rig.holds(key(1), content(1, 5000)));
}

TEST_F(FileStore, ReadOnlySettingsReadAndNothingElse) {
  const Folder folder;
  Config own = config(folder.store());
  {
    StoreRig rig(own);
    ASSERT_EQ(rig.store(key(1), content(1, 5000)).code, QUIRE_OK);
  }
  own.read_only = true;
  own.quota = 4096;  // does not evict, either
  StoreRig rig(own);
  EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_READ_ONLY);
  uint32_t flags = 0;
  EXPECT_EQ(rig.sizes({key(1)}, kSecond, &flags)[0], 5000u);
  EXPECT_EQ(flags, 0u) << "others may evict it";
  EXPECT_TRUE(rig.holds(key(1), content(1, 5000)));
  EXPECT_EQ(rig.store(key(2), content(2, 5000)).code, QUIRE_PERMISSION_DENIED);
  EXPECT_EQ(rig.remove(key(1)).code, QUIRE_PERMISSION_DENIED);
  EXPECT_TRUE(rig.holds(key(1), content(1, 5000)));
}

TEST_F(FileStore, AFileSystemThatBecomesReadOnlyAndWritableAgain) {
  const Folder folder;
  const int status = with_mount(folder.path(), "size=64m", [&] {
    StoreRig rig(config(folder.store()));
    ASSERT_EQ(rig.store(key(1), content(1, 100'000)).code, QUIRE_OK);
    // The file of the store above is closed a moment after its end.
    ASSERT_TRUE(comes_true([&] { return mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=64m") == 0; }));
    EXPECT_EQ(rig.store(key(2), content(2, 5000)).code, QUIRE_PERMISSION_DENIED);
    EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_READ_ONLY);
    EXPECT_TRUE(rig.holds(key(1), content(1, 100'000)));
    EXPECT_EQ(rig.remove(key(1)).code, QUIRE_PERMISSION_DENIED);
    {
      StoreRig second(config(folder.store()));
      EXPECT_TRUE(second.outcome().ok()) << second.outcome().text;
      EXPECT_EQ(second.state(), QUIRE_CONNECTOR_READ_ONLY);
      EXPECT_TRUE(second.holds(key(1), content(1, 100'000)));
    }
    ASSERT_EQ(mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT, "size=64m"), 0);
    rig.host().advance(61 * kSecond);
    EXPECT_TRUE(comes_true([&] { return rig.shown().state == QUIRE_CONNECTOR_UP; }));
    EXPECT_EQ(rig.store(key(2), content(2, 5000)).code, QUIRE_OK);
  });
  if (status == 77) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(status, 0);
}

// The disk is smaller than the quota: the store keeps to what there is.
TEST_F(FileStore, AFullDiskEvictsAndPauses) {
  const Folder folder;
  const int status = with_mount(folder.path(), "size=8m", [&] {
    StoreRig rig(config(folder.store(), 1024 * kMiB));
    std::vector<uint64_t> stored;
    uint64_t number = 0;
    for (int full = 0; full < 6; ++full) {
      quire_code code = QUIRE_OK;
      while ((code = rig.store(key(number), content(number, 100'000)).code) == QUIRE_OK) stored.push_back(number++);
      ASSERT_EQ(code, QUIRE_RESOURCE_EXHAUSTED);
      EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_FULL);
      EXPECT_TRUE(comes_true([&] { return rig.shown().used_bytes <= uint64_t{8} * kMiB / 100 * 95; })) << rig.shown().used_bytes;
      EXPECT_EQ(rig.store(key(number), content(number, 100)).code, QUIRE_RESOURCE_EXHAUSTED) << "in the pause";
      EXPECT_TRUE(rig.holds(key(stored.back()), content(stored.back(), 100'000))) << "loads work";
      rig.host().advance(int64_t{61} * kSecond);
      EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_UP);
    }
    EXPECT_GT(rig.shown().num_evicted, 0u);
    EXPECT_GT(stored.size(), 70u);
    for (const uint64_t each : stored) {
      const bool there = rig.sizes({key(each)})[0] != 0;
      if (there) {
        EXPECT_TRUE(rig.holds(key(each), content(each, 100'000))) << each;
      }
    }
    rig.close();
    for (const std::string& file : files_below(folder.store())) EXPECT_EQ(fs::file_size(folder.store() + "/" + file), 100'000u);
  });
  if (status == 77) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(status, 0);
}

TEST_F(FileStore, ListsAndCountsWhatIsThere) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(rig.store(key(i), content(i, 5000)).code, QUIRE_OK);
  fs::remove(path_of(folder.store(), key(3)));
  fs::copy_file(path_of(folder.store(), key(4)), path_of(folder.store(), key(100)));
  std::vector<quire_object_entry> items(64);
  std::vector<uint8_t> keys(64 * 32);
  const Listing listing = rig.list(0, &items, &keys);
  EXPECT_EQ(listing.count, 20u);
  EXPECT_EQ(listing.cursor, 0u);
  EXPECT_EQ(rig.list(1000, &items, &keys).outcome.code, QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.shown().used_bytes, 20u * 8192);
  EXPECT_EQ(rig.shown().num_objects, 20u);
}

TEST(FileConfig, IsRefusedByName) {
  const auto wrong = [](const std::string& json, const std::string& text) {
    Config out;
    const Outcome outcome = read_config(json, &out);
    EXPECT_EQ(outcome.code, QUIRE_INVALID_ARGUMENT) << json;
    EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text;
  };
  wrong("", "directory");
  wrong("{}", "directory");
  wrong(R"({"directory": "/x"})", "bytes");
  wrong(R"({"directory": "x", "bytes": 4096})", "absolute");
  wrong(R"({"directory": 3, "bytes": 4096})", "directory");
  wrong(R"({"directory": "/x", "bytes": 4095})", "bytes");
  wrong(R"({"directory": "/x", "bytes": -1})", "bytes");
  wrong(R"({"directory": "/x", "bytes": 1.5})", "bytes");
  wrong(R"({"directory": "/x", "bytes": 1e30})", "bytes");
  wrong(R"({"directory": "/x", "bytes": "2 furlongs"})", "bytes");
  wrong(R"({"directory": "/x", "bytes": "99999999TiB"})", "bytes");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "depth": 0})", "depth");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "depth": 1025})", "depth");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "direct": 1})", "direct");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "sync": "yes"})", "sync");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "read_only": null})", "read_only");
  wrong(R"({"directory": "/x", "bytes": "1GiB", "odepth": 3})", "odepth");
  Config out;
  EXPECT_TRUE(read_config(R"({"directory": "/x", "bytes": "20GiB", "depth": 7, "direct": false, "sync": false})", &out).ok());
  EXPECT_EQ(out.quota, 20ull << 30);
  EXPECT_EQ(out.depth, 7u);
  EXPECT_FALSE(out.direct || out.sync || out.read_only);
  EXPECT_TRUE(read_config(R"({"directory": "/x", "read_only": true})", &out).ok()) << "who stores nothing needs no quota";
  EXPECT_EQ(out.depth, 32u);
}

}  // namespace
}  // namespace quire::file
