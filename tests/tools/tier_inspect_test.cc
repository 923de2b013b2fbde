// `quire tier inspect` over directories that engines wrote, that somebody spoiled, and that change while it reads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <quire/connector.h>
#include <quire/tier.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/tier/tier_rig.h"
#include "tests/tools/tier_directory.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

struct Output {
  int code = -1;
  std::string out, err;
};

class TierInspect : public testing::Test {
 protected:
  TierInspect() : home_(make_home()), directory(home_ / "tier") {}
  ~TierInspect() override { fs::remove_all(home_); }

  Output run(const std::string& options = "") const {
    const fs::path out = home_ / "out", err = home_ / "err";
    const std::string command = "timeout 60 '" QUIRE_COMMAND "' tier inspect '" + directory.path().string() + "' " + options + " >'" +
                                out.string() + "' 2>'" + err.string() + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out), text_of(err)};
  }
  Json json(const std::string& options = "", int code = 0) const {
    const Output output = run("--json " + options);
    EXPECT_EQ(output.code, code) << output.err;
    return Json::parse(output.out);
  }

 private:
  static fs::path make_home() {
    std::string name = (fs::temp_directory_path() / "quire-inspect-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    return name;
  }
  fs::path home_;

 protected:
  TierDirectory directory;
};

// The records of a prompt, as an engine with tiers writes them.
void put_records(const TierDirectory& directory, const std::string& weights) {
  EngineOptions options;
  options.layers = {full_layer(), state_layer(), window_layer(40), full_layer()};
  options.weights = weights;
  Clock clock;
  FakeStore store;
  Engine engine(clock, options, {&store});
  engine.compute(count_text(1, 300));
  engine.settle();
  for (const std::string& key : store.keys()) directory.put(key, *store.get(key));
}

TEST_F(TierInspect, OfNothingSaysSo) {
  EXPECT_EQ(run().code, 0);
  EXPECT_EQ(json()["objects"], 0);
}

TEST_F(TierInspect, OfNoDirectoryFails) {
  fs::remove_all(directory.path());
  const Output output = run();
  EXPECT_EQ(output.code, 1);
  EXPECT_NE(output.err.find("NOT_FOUND"), std::string::npos) << output.err;
  EXPECT_EQ(output.out, "");
}

TEST_F(TierInspect, TellsWeightsAndGroupsOfWhatEnginesWrote) {
  put_records(directory, "one");
  put_records(directory, "two");
  const Json found = json("--list");
  EXPECT_EQ(found["damaged"], 0);
  EXPECT_EQ(found["whole"], found["objects"]);
  EXPECT_EQ(found["list"].size(), found["objects"].get<size_t>());
  ASSERT_EQ(found["weights"].size(), 2U);
  uint64_t records = 0, bytes = 0;
  for (const Json& weights : found["weights"]) {
    std::map<std::string, uint64_t> kinds;
    for (const Json& group : weights["groups"]) {
      kinds[group["kind"]] += group["records"].get<uint64_t>();
      records += group["records"].get<uint64_t>();
      bytes += group["bytes"].get<uint64_t>();
      if (group["kind"] == "tokens") {
        EXPECT_EQ(group["layers"], 2);
        EXPECT_EQ(group["last_layer"], 3);
        EXPECT_EQ(group["first_token"], 0);
        EXPECT_EQ(group["end_token"], 288) << "the last unit has what the prompt has";
        EXPECT_EQ(group["heads"], 2);
      }
    }
    EXPECT_EQ(kinds.size(), 3U) << weights;
    EXPECT_EQ(kinds["tokens"], 5U);
    EXPECT_EQ(kinds["window"], 5U);
    EXPECT_GE(kinds["state"], 1U);
  }
  EXPECT_EQ(records, found["objects"].get<uint64_t>());
  EXPECT_EQ(bytes, found["bytes"].get<uint64_t>());
  EXPECT_LT(found["checked_bytes"].get<uint64_t>(), bytes) << "headers have a checksum of their own";
  const Output text = run("--list");
  EXPECT_EQ(text.code, 0);
  EXPECT_GT(std::count(text.out.begin(), text.out.end(), '\n'), static_cast<long>(records)) << text.out;
}

TEST_F(TierInspect, NamesEveryDamage) {
  const std::vector<uint8_t> good = made_record(0).bytes();
  const auto changed = [&](size_t at) {
    std::vector<uint8_t> bytes = good;
    bytes[at] ^= 0x10;
    return bytes;
  };
  const auto cut = [&](size_t size) { return std::vector<uint8_t>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)); };
  std::vector<uint8_t> longer = good, blank = good;
  longer.push_back(0);
  std::fill_n(blank.begin(), 4096, uint8_t{0});
  const std::pair<std::vector<uint8_t>, const char*> cases[] = {
      {changed(good.size() - 1), "the bytes of 1 of 4 blocks are others"},
      {changed(300), "checksum of its header"},
      {cut(4095), "ends within its header"},
      {cut(11), "does not begin as a record"},
      {cut(4096), "its header says 20,480"},
      {cut(good.size() - 1), "it has 20,479 bytes"},
      {longer, "it has 20,481 bytes"},
      {blank, "does not begin as a record"},
      {{}, "it is empty"},
  };
  for (const auto& [bytes, reason] : cases) {
    const fs::path file = directory.put(TierDirectory::key_of(made_record(0)), bytes);
    const Json found = json("", 1);
    EXPECT_EQ(found["damaged"], 1) << reason;
    ASSERT_EQ(found["bad"].size(), 1U) << reason;
    EXPECT_NE(found["bad"][0]["reason"].get<std::string>().find(reason), std::string::npos) << found["bad"][0];
    EXPECT_TRUE(file.string().ends_with(found["bad"][0]["path"].get<std::string>()));
    const Output output = run();
    EXPECT_EQ(output.code, 1);
    EXPECT_NE(output.out.find("1 damaged"), std::string::npos) << output.out;
    EXPECT_NE(output.err.find("1 damaged or not readable, of 1 object"), std::string::npos) << output.err;
  }
}

TEST_F(TierInspect, AnotherKeysRecordIsDamage) {
  directory.put(TierDirectory::key_of(made_record(1)), made_record(0).bytes());
  EXPECT_NE(json("", 1)["bad"][0]["reason"].get<std::string>().find("another key, 0001aa"), std::string::npos);
}

TEST_F(TierInspect, OtherVersionsAndOtherObjectsAreNoDamage) {
  std::vector<uint8_t> later = made_record(0).bytes();
  later[8] = 2;
  directory.put(TierDirectory::key_of(made_record(0)), later);
  directory.put("short key", std::string("whatever"));
  const Json found = json("--list");
  EXPECT_EQ(found["other_versions"], 1);
  EXPECT_EQ(found["other_objects"], 1);
  EXPECT_EQ(found["whole"], 0);
}

TEST_F(TierInspect, WithoutVerifyingReadsHeadersOnly) {
  std::vector<uint8_t> bytes = made_record(0).bytes();
  bytes.back() ^= 1;
  directory.put(TierDirectory::key_of(made_record(0)), bytes);
  EXPECT_EQ(json("", 1)["damaged"], 1);
  const Json found = json("--no-verify");
  EXPECT_EQ(found["damaged"], 0);
  EXPECT_EQ(found["checked"], false);
  EXPECT_EQ(found["checked_bytes"], 0);
}

// What is no object is named, not opened and not followed. A pipe would hang whoever opened it.
TEST_F(TierInspect, LeavesAloneWhatIsNoObject) {
  const fs::path file = directory.put(made_record(0));
  const fs::path folder = file.parent_path(), root = directory.path();
  const auto object = [&](const char* last) { return folder / ("00" + std::string(61, 'b') + last); };
  fs::create_symlink(file, object("1"));
  fs::create_symlink("/dev/zero", object("2"));
  fs::create_directory(object("3"));
  ASSERT_EQ(mkfifo(object("4").c_str(), 0600), 0);
  fs::create_symlink(folder, root / "01");
  ASSERT_EQ(mkfifo((root / "02").c_str(), 0600), 0);
  for (const char* name : {"00A", "0", "000", "ab", "\033[31mred", "\xff\xfe", "..."}) std::ofstream(folder / name) << "x";
  std::ofstream(folder / std::string(242, '0')) << "x";
  std::ofstream(root / "notes") << "x";
  std::ofstream(root / "lock") << "";
  std::ofstream(root / "new-17-1") << "half";
  fs::create_directory(root / "AB");
  const Json found = json("--list");
  EXPECT_EQ(found["objects"], 1);
  EXPECT_EQ(found["whole"], 1);
  EXPECT_EQ(found["unfinished"], 1);
  EXPECT_EQ(found["foreign"].size(), 4U + 2 + 7 + 1 + 2) << found["foreign"];
  const Output output = run("--list");
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(output.out.find('\033'), std::string::npos);
}

// Headers with right checksums that lie: every number of the header becomes each of these.
TEST_F(TierInspect, SurvivesHeadersThatLie) {
  const std::vector<uint8_t> good = made_record(0).bytes();
  const uint64_t values[] = {0, 1, 4097, uint64_t{1} << 31, uint64_t{1} << 40, uint64_t{1} << 63, UINT64_MAX - 4095, UINT64_MAX};
  uint64_t files = 0;
  for (size_t at = MadeRecord::kSizeAt; at < 360; at += at < MadeRecord::kSumAt ? 4 : 8) {
    for (const uint64_t value : values) {
      std::vector<uint8_t> bytes = good;
      std::memcpy(&bytes[at], &value, at < MadeRecord::kSumAt ? 4 : 8);
      if (at >= MadeRecord::kSumAt) MadeRecord::sign(&bytes);
      MadeRecord named = made_record(static_cast<uint8_t>(at));
      named.key[5] = static_cast<uint8_t>(at >> 8);
      named.key[6] = static_cast<uint8_t>(++files);
      directory.put(TierDirectory::key_of(named), bytes);
    }
  }
  const Output output = run("--list --json");
  EXPECT_EQ(output.code, 1) << output.err;
  EXPECT_EQ(Json::parse(output.out)["objects"], files);
  EXPECT_EQ(run("--list").code, 1);
}

// One block of 2 GiB that is nowhere: neither memory nor time is spent on it.
TEST_F(TierInspect, DoesNotReadHugeBlocks) {
  MadeRecord record = made_record(0);
  record.stretches = {0, 1, 0, 0};
  std::vector<uint8_t> bytes = record.bytes();
  const uint64_t huge = uint64_t{2} << 30;
  std::memcpy(&bytes[MadeRecord::kPayloadAt], &huge, 8);
  std::memcpy(&bytes[MadeRecord::kBlockBytesAt], &huge, 8);
  bytes.resize(MadeRecord::kGrain);
  MadeRecord::sign(&bytes);
  const fs::path file = directory.put(TierDirectory::key_of(record), bytes);
  fs::resize_file(file, MadeRecord::kGrain + huge);
  const Json found = json("", 1);
  EXPECT_EQ(found["unreadable"], 1);
  EXPECT_EQ(found["checked_bytes"], 0);
}

std::map<std::string, std::vector<int64_t>> times_of(const fs::path& directory) {
  std::map<std::string, std::vector<int64_t>> out;
  const auto note = [&out](const fs::path& path) {
    struct stat s = {};
    EXPECT_EQ(lstat(path.c_str(), &s), 0);
    out[path] = {s.st_atim.tv_sec,
                 s.st_atim.tv_nsec,
                 s.st_mtim.tv_sec,
                 s.st_mtim.tv_nsec,
                 s.st_ctim.tv_sec,
                 s.st_ctim.tv_nsec,
                 static_cast<int64_t>(s.st_size),
                 static_cast<int64_t>(s.st_mode),
                 static_cast<int64_t>(s.st_ino)};
  };
  note(directory);
  for (const auto& entry : fs::recursive_directory_iterator(directory)) note(entry.path());
  return out;
}

// Times of access are when objects were used last, so reading must not write them.
TEST_F(TierInspect, ChangesNothing) {
  put_records(directory, "one");
  std::ofstream(directory.path() / "new-1-1") << "half";
  for (const auto& entry : fs::recursive_directory_iterator(directory.path())) {
    const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'001, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, entry.path().c_str(), long_ago, AT_SYMLINK_NOFOLLOW), 0);
  }
  const auto before = times_of(directory.path());
  EXPECT_EQ(run("--list").code, 0);
  EXPECT_EQ(times_of(directory.path()), before);
}

// The connector stores and evicts all the time: nothing that it does is damage.
TEST_F(TierInspect, WorksWhileAnEngineUsesTheDirectory) {
  Clock clock;
  const std::string config = R"({"directory": ")" + directory.path().string() + R"(", "bytes": 1000000, "sync": false})";
  quire_connector* opened = nullptr;
  quire_error error = QUIRE_INIT(quire_error);
  const quire_code code = quire_connector_open(clock.runtime, {"file", 4}, {config.data(), config.size()}, &opened, &error);
  if (code == QUIRE_UNAVAILABLE || code == QUIRE_NOT_FOUND) GTEST_SKIP() << error.message;
  ASSERT_EQ(code, QUIRE_OK) << error.message;
  const Owned<quire_connector, quire_connector_release> connector(opened);
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> stored = 0;
  std::thread engine([&] {
    std::mt19937 random(1);
    for (uint64_t n = 1; !stop; ++n) {
      MadeRecord record = made_record(static_cast<uint8_t>(random()));
      record.key[9] = static_cast<uint8_t>(random());
      const std::vector<uint8_t> bytes = record.bytes();
      quire_ticket ticket{};
      ticket.ticket = n;
      ticket.kind = QUIRE_TICKET_STORE;
      ticket.num_runs = ticket.num_keys = 1;
      ticket.key_bytes = record.key.size();
      ticket.object_bytes = bytes.size();
      ticket.deadline_ns = -1;
      const quire_ticket_run run{0, reinterpret_cast<uint64_t>(bytes.data()), bytes.size(), 1, 0, 0, 0};
      uint64_t accepted = 0, count = 0;
      quire_completion end{};
      if (quire_connector_submit(opened, &ticket, 1, &run, 1, record.key.data(), record.key.size(), &accepted, nullptr) != QUIRE_OK) break;
      while (count == 0 && quire_connector_poll(opened, -1, &end, 1, &count, nullptr) == QUIRE_OK) continue;
      if (end.code == QUIRE_OK) ++stored;
    }
  });
  uint64_t seen = 0;
  constexpr uint64_t kFits = 1000000 / 20480;
  for (int i = 0; i < 12 || (stored <= 2 * kFits && i < 1000); ++i) {
    const Output output = run("--json");
    EXPECT_EQ(output.code, 0) << output.err << output.out;
    seen += Json::parse(output.out)["whole"].get<uint64_t>();
  }
  stop = true;
  engine.join();
  EXPECT_GT(seen, 0U);
  EXPECT_GT(stored, 2 * kFits) << "objects were evicted meanwhile";
}

}  // namespace
}  // namespace quire::test
