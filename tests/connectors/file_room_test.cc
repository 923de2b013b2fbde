// The quota of the file connector: how much is kept, what goes first, what stays, and what is known after a restart.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <thread>

#include "file_rig.h"

namespace quire::file {
namespace {

using kit::key;

constexpr uint64_t kObject = 100'000;
constexpr uint64_t kCharge = 102'400;  // in pages

std::vector<Key> keys(uint64_t from, uint64_t to) {
  std::vector<Key> out;
  for (uint64_t i = from; i < to; ++i) out.push_back(key(i));
  return out;
}

std::set<uint64_t> there(StoreRig* rig, uint64_t count) {
  std::set<uint64_t> out;
  for (uint64_t i = 0; i < count; ++i) {
    Bytes bytes;  // a load of one byte asks without a look-up; both count as a use
    if (rig->load(key(i), 1, &bytes).code == QUIRE_OK) out.insert(i);
  }
  return out;
}

TEST_F(FileStore, KeepsAsMuchAsItsQuotaToTheObject) {
  const Folder folder;
  constexpr uint64_t kFits = 20;
  StoreRig rig(config(folder.store(), kFits * kCharge + kCharge - 1));
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
    EXPECT_EQ(rig.shown().num_objects, std::min<uint64_t>(i + 1, kFits));
    EXPECT_EQ(rig.shown().used_bytes, std::min<uint64_t>(i + 1, kFits) * kCharge);
  }
  EXPECT_EQ(rig.shown().num_evicted, 40u);
  EXPECT_EQ(files_below(folder.store()).size(), kFits);
  EXPECT_EQ(rig.store(key(100), content(1, kFits * kCharge + kCharge)).code, QUIRE_RESOURCE_EXHAUSTED) << "larger than all";
  EXPECT_EQ(rig.shown().num_objects, kFits) << "nothing left for it";
}

// Many stores at once take no more than there is: what is being written counts.
TEST_F(FileStore, KeepsToItsQuotaWithManyStoresAtOnce) {
  const Folder folder;
  Script script;
  StoreRig rig(config(folder.store(), 20 * kCharge), &script);
  script.hold(all(Act::kLink));
  const Buffer buffer(kObject);
  std::vector<uint64_t> tickets;
  for (uint64_t i = 0; i < 40; ++i) tickets.push_back(rig.begin_store(key(i), buffer));
  ASSERT_TRUE(script.wait_held(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(script.num_held(), 20u);
  script.hold([](const Request&) { return false; });
  script.release();
  uint64_t stored = 0;
  for (const uint64_t ticket : tickets) {
    const auto end = rig.end_of(ticket);
    ASSERT_TRUE(end && (end->code == QUIRE_OK || end->code == QUIRE_RESOURCE_EXHAUSTED));
    stored += end->code == QUIRE_OK ? 1 : 0;
    EXPECT_LE(rig.shown().used_bytes, 20 * kCharge);
  }
  EXPECT_GE(stored, 20u);
}

TEST_F(FileStore, ASmallerQuotaHoldsFromTheStartOn) {
  const Folder folder;
  {
    StoreRig rig(config(folder.store(), 40 * kCharge));
    for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  }
  StoreRig rig(config(folder.store(), 10 * kCharge));
  for (int i = 0; i < 1000 && rig.shown().num_objects > 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(rig.shown().num_objects, 10u);
  EXPECT_EQ(there(&rig, 40), (std::set<uint64_t>{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}));
}

// What was not used goes first. Of what was used together, the end goes first: leaves of chains before their heads.
TEST_F(FileStore, LeavesGoBeforeHeads) {
  const Folder folder;
  StoreRig rig(config(folder.store(), 30 * kCharge));
  for (uint64_t i = 0; i < 30; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  rig.sizes(keys(0, 10));
  rig.sizes(keys(10, 20));  // 20 to 29 were stored later than 0 to 19, and are used by nobody since
  for (uint64_t i = 100; i < 110; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  EXPECT_EQ(rig.sizes(keys(20, 30)), std::vector<uint64_t>(10, 0));
  // Then the chain that was used longer ago, from its end.
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(rig.store(key(200 + i), content(200 + i, kObject)).code, QUIRE_OK);
    const std::string file = folder.store() + "/" + object_path(key(9 - i));
    EXPECT_FALSE(std::filesystem::exists(file)) << 9 - i;
  }
  EXPECT_EQ(rig.sizes(keys(10, 20)), std::vector<uint64_t>(10, kObject));
}

// A chain that one submission stores has its order, too.
TEST_F(FileStore, TheFirstKeyOfASubmissionIsItsMostRecent) {
  const Folder folder;
  StoreRig rig(config(folder.store(), 20 * kCharge));
  std::vector<std::unique_ptr<Ticket>> tickets;
  const Buffer buffer(kObject);
  for (uint64_t i = 0; i < 20; ++i) tickets.push_back(rig.ticket(QUIRE_TICKET_STORE, {key(i)}, {buffer.run()}));
  const uint64_t first = tickets[0]->fields.ticket;
  rig.submit_all(std::move(tickets));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(rig.end_of(first + i).has_value());
  for (uint64_t i = 100; i < 105; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  std::vector<uint64_t> wanted(20, kObject);
  std::fill(wanted.begin() + 15, wanted.end(), 0);
  EXPECT_EQ(rig.sizes(keys(0, 20)), wanted);
}

// Use is written into the files: the order survives a restart.
TEST_F(FileStore, TheOrderOfUseSurvivesARestart) {
  const Folder folder;
  {
    StoreRig rig(config(folder.store(), 20 * kCharge));
    std::vector<std::unique_ptr<Ticket>> tickets;
    const Buffer buffer(kObject);
    for (uint64_t i = 0; i < 20; ++i) tickets.push_back(rig.ticket(QUIRE_TICKET_STORE, {key(i)}, {buffer.run()}));
    const uint64_t first = tickets[0]->fields.ticket;
    rig.submit_all(std::move(tickets));
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(rig.end_of(first + i).has_value());
  }
  StoreRig rig(config(folder.store(), 20 * kCharge));
  for (uint64_t i = 100; i < 105; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  std::vector<uint64_t> wanted(20, kObject);
  std::fill(wanted.begin() + 15, wanted.end(), 0);
  EXPECT_EQ(rig.sizes(keys(0, 20)), wanted);
}

TEST_F(FileStore, LeasedObjectsStayAndOthersCannotHaveTheirRoom) {
  const Folder folder;
  StoreRig rig(config(folder.store(), 10 * kCharge));
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  uint32_t flags = 0;
  rig.sizes(keys(0, 10), 3600 * kSecond, &flags);
  EXPECT_EQ(flags, QUIRE_COMPLETION_LEASED);
  EXPECT_EQ(rig.store(key(100), content(1, kObject)).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_FULL);
  rig.host().advance(3601 * kSecond);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // the state is looked at once a second
  EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_UP);
  EXPECT_EQ(rig.store(key(100), content(1, kObject)).code, QUIRE_OK);
  rig.sizes(keys(0, 10), 25 * 3600 * kSecond, &flags);
  EXPECT_EQ(flags, 0u) << "more than a day is not promised";
}

TEST_F(FileStore, WhatIsBeingReadStays) {
  const Folder folder;
  Script script;
  StoreRig rig(config(folder.store(), 3 * kCharge), &script);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  script.hold(all(Act::kRead));
  const Buffer buffer(kObject, 8);
  const uint64_t ticket = rig.begin_load(key(0), buffer);
  ASSERT_TRUE(script.wait_held(1));
  for (uint64_t i = 3; i < 9; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  EXPECT_EQ(rig.sizes({key(0), key(1)}), (std::vector<uint64_t>{kObject, 0}));
  script.hold([](const Request&) { return false; });
  script.release();
  ASSERT_TRUE(rig.end_of(ticket).has_value());
  EXPECT_EQ(buffer.bytes(), content(0, kObject));
}

// An eviction that fails is no reason to try it for ever, nor to refuse what another object can make room for.
TEST_F(FileStore, AnObjectThatCannotBeEvictedIsPassedOver) {
  const Folder folder;
  Script script;
  StoreRig rig(config(folder.store(), 4 * kCharge), &script);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(rig.store(key(i), content(i, kObject)).code, QUIRE_OK);
  script.fault(failing(Act::kUnlink, EIO, 1));
  EXPECT_EQ(rig.store(key(10), content(10, kObject)).code, QUIRE_OK);
  EXPECT_EQ(rig.sizes({key(0), key(1)}), (std::vector<uint64_t>{kObject, 0}));
  script.fault(failing(Act::kUnlink, EIO));
  EXPECT_EQ(rig.store(key(11), content(11, kObject)).code, QUIRE_RESOURCE_EXHAUSTED);
  script.fault([](const Request&) { return std::nullopt; });
  rig.host().advance(11 * kSecond);
  EXPECT_EQ(rig.store(key(11), content(11, kObject)).code, QUIRE_OK);
  EXPECT_LE(rig.shown().used_bytes, 4 * kCharge);
}

// Names and sizes are all that is read.
TEST_F(FileStore, StartsWithAHundredThousandObjects) {
  const Folder folder;
  { const StoreRig rig(config(folder.store())); }
  constexpr uint64_t kObjects = 100'000;
  for (uint64_t i = 0; i < kObjects; ++i) {
    const Key name = key(i);
    const std::string path = folder.store() + "/" + object_path(name);
    FILE* const file = std::fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(ftruncate(fileno(file), 32'768), 0);
    std::fclose(file);
  }
  double seconds = 1e9, processor = 1e9;  // the best of three
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t processor_begin = std::clock();
    StoreRig rig(config(folder.store(), uint64_t{10} << 30));
    processor = std::min(processor, static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC);
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    EXPECT_EQ(rig.shown().num_objects, kObjects);
    EXPECT_EQ(rig.shown().used_bytes, kObjects * 32'768);
  }
  std::printf("opened with %llu objects in %.3f s, %.3f s of processors\n", static_cast<unsigned long long>(kObjects), seconds, processor);
#if defined(NDEBUG)  // Without sanitizers. A second on a quiet machine; what reads contents takes minutes.
  EXPECT_LE(std::min(seconds, processor), 10.0);
#endif
}

}  // namespace
}  // namespace quire::file
