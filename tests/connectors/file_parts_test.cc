// The arithmetic of the file connector, against naive models: runs and stretches of objects, the parts of a transfer, names, and the pauses
// of a store that has trouble.
#include <cstring>
#include <map>
#include <set>

#include "file_rig.h"
#include "plugins/file/condition.h"
#include "plugins/file/file_index.h"
#include "plugins/file/file_parts.h"
#include "plugins/file/object_name.h"

namespace quire::file {
namespace {

using kit::below;
using kit::Layout;
using kit::Rng;
using kit::seed;

// Object byte -> address, one by one. Loads may name a byte several times.
std::multimap<uint64_t, uint64_t> spelled_out(const std::vector<quire_ticket_run>& runs) {
  std::multimap<uint64_t, uint64_t> bytes;
  for (const quire_ticket_run& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      const auto step = static_cast<int64_t>(i);
      const uint64_t at = run.object_offset + static_cast<uint64_t>(step * run.object_stride);
      const uint64_t address = run.address + static_cast<uint64_t>(step * run.stride);
      for (uint64_t byte = 0; byte < run.bytes; ++byte) bytes.emplace(at + byte, address + byte);
    }
  }
  return bytes;
}

void expect_collected(const Pieces& pieces, const std::multimap<uint64_t, uint64_t>& naive, uint64_t begin, uint64_t end) {
  std::multiset<std::pair<uint64_t, uint64_t>> wanted, got;
  for (auto at = naive.lower_bound(begin); at != naive.end() && at->first < end; ++at) wanted.insert(*at);
  std::vector<Extent> extents;
  ASSERT_TRUE(pieces.collect(begin, end, SIZE_MAX, &extents));
  for (const Extent& extent : extents) {
    for (uint64_t i = 0; i < extent.bytes; ++i) got.emplace(extent.begin + i, reinterpret_cast<uintptr_t>(extent.memory) + i);
  }
  ASSERT_EQ(got, wanted) << begin << " to " << end;
  const auto next = naive.lower_bound(begin);
  ASSERT_EQ(pieces.next(begin), next != naive.end() ? std::optional<uint64_t>(next->first) : std::nullopt) << begin;
}

TEST(FilePieces, AreWhatTheRunsSpellOut) {
  Rng rng(seed());
  for (int round = 0; round < 60; ++round) {
    const uint64_t bytes = 1 + below(&rng, 4000);
    Layout layout = round % 2 == 0 ? kit::covering(&rng, bytes) : kit::reading(&rng, bytes);
    for (quire_ticket_run& run : layout.runs) run.address += 1000;
    const auto naive = spelled_out(layout.runs);
    const Pieces pieces(layout.runs);
    ASSERT_EQ(pieces.bytes(), naive.size());
    ASSERT_EQ(pieces.end(), naive.rbegin()->first + 1);
    for (int stretch = 0; stretch < 20; ++stretch) {
      const uint64_t begin = below(&rng, bytes);
      expect_collected(pieces, naive, begin, begin + below(&rng, bytes));
    }
  }
}

TEST(FilePieces, AreNotSpelledOutToBeFound) {
  quire_ticket_run run = {};
  run.address = 1000;
  run.bytes = 1;
  run.count = uint64_t{1} << 60;
  run.stride = 1;
  run.object_stride = 3;
  const Pieces pieces({&run, 1});
  EXPECT_EQ(pieces.next((uint64_t{1} << 61) + 1), (uint64_t{1} << 61) + 1);
  std::vector<Extent> extents;
  EXPECT_FALSE(pieces.collect(0, uint64_t{1} << 62, 10, &extents));
  EXPECT_EQ(extents.size(), 10u);
}

// Parts of a whole object: each byte of a store once, each byte of a load at least once, nothing elsewhere but the rest of pages; what goes
// directly is aligned.
void expect_parts(const Layout& layout, bool stores, bool direct, uint64_t object_bytes) {
  const Pieces pieces(layout.runs);
  const auto naive = spelled_out(layout.runs);
  const uint64_t end = stores && direct ? page_floor(object_bytes) : object_bytes;
  std::set<uint64_t> covered;
  for (uint64_t window = 0; window < end; window += kWindow) {
    const uint64_t window_end = std::min(window + kWindow, end);
    const auto first = pieces.next(window);
    if (!first || *first >= window_end) continue;
    std::vector<Part> parts;
    plan_parts(pieces, *first, window_end, direct, &parts);
    for (const Part& part : parts) {
      ASSERT_LE(part.end - part.begin, kWindow);
      ASSERT_LE(part.needed_end, part.end);
      if (direct) {
        ASSERT_EQ((part.begin | part.end) % kPage, 0u);
      }
      for (uint64_t at = part.begin; at < part.needed_end; ++at) ASSERT_TRUE(covered.insert(at).second || !stores) << at;
      uint64_t at = part.begin;
      for (const iovec& vector : part.memory) {
        if (direct) {
          ASSERT_EQ((reinterpret_cast<uintptr_t>(vector.iov_base) | vector.iov_len) % kPage, 0u);
        }
        for (uint64_t i = 0; i < vector.iov_len; ++i, ++at) {
          const auto [low, high] = naive.equal_range(at);
          const uint64_t address = reinterpret_cast<uintptr_t>(vector.iov_base) + i;
          ASSERT_TRUE(std::any_of(low, high, [&](const auto& each) { return each.second == address; })) << at;
        }
      }
      if (!part.memory.empty()) {
        ASSERT_EQ(at, part.end);
      }
      ASSERT_LE(part.memory.size(), 1024u) << "IOV_MAX";
    }
  }
  for (const auto& [at, address] : naive) ASSERT_TRUE(at >= end || covered.count(at) != 0) << at;
}

TEST(FileParts, CoverWhatIsAskedFor) {
  Rng rng(seed());
  for (int round = 0; round < 40; ++round) {
    const bool stores = round % 2 == 0;
    const uint64_t bytes = 1 + below(&rng, round % 20 == 0 ? 1'200'000 : 30'000);
    Layout layout = stores ? kit::covering(&rng, bytes) : kit::reading(&rng, bytes);
    for (quire_ticket_run& run : layout.runs) run.address += 4096;
    expect_parts(layout, stores, round % 4 < 2, bytes);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Pages anywhere in memory, in any order, go directly; so do those of an object whose end is no page.
TEST(FileParts, PagesGoDirectly) {
  Layout layout;
  constexpr uint64_t kPages = 64;
  for (uint64_t i = 0; i < kPages; ++i) layout.runs.push_back({0, (i * 37 % kPages + 1) * 2 * kPage, kPage, 1, 0, i * kPage, 0});
  layout.runs.push_back({0, uint64_t{1} << 30, 100, 1, 0, kPages * kPage, 0});
  expect_parts(layout, false, true, kPages * kPage + 100);
  std::vector<Part> parts;
  plan_parts(Pieces(layout.runs), 0, kPages * kPage + 100, true, &parts);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].memory.size(), kPages);
  EXPECT_TRUE(parts[1].memory.empty()) << "100 bytes are staged";
}

TEST(FileParts, NearRangesAreOneReadAndFarOnesAreNot) {
  std::vector<quire_ticket_run> runs = {
      {0, 4097, 100, 1, 0, 0, 0}, {0, 9999, 100, 1, 0, 100 + kNearBytes, 0}, {0, 20'001, 100, 1, 0, 300 + 2 * kNearBytes, 0}};
  std::vector<Part> parts;
  plan_parts(Pieces(runs), 0, kWindow, true, &parts);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].begin, 0u);
  EXPECT_EQ(parts[0].end, page_ceiling(200 + kNearBytes));
  EXPECT_EQ(parts[1].begin, page_floor(300 + 2 * kNearBytes)) << "the hull of what is asked, in pages";
  EXPECT_EQ(parts[1].end, page_ceiling(400 + 2 * kNearBytes));
}

TEST(FileNames, SayTheKeyAndNothingElse) {
  const std::string key("\xab\0\xff", 3);
  EXPECT_EQ(object_path(key), "ab/ab00ff");
  std::string out;
  EXPECT_TRUE(parse_object_name(0xab, "ab00ff", &out));
  EXPECT_EQ(out, key);
  for (const std::string wrong : {"", "a", "ab00f", "AB00FF", "ab00fg", "00ab", ".", "..", "new-1"}) {
    EXPECT_FALSE(parse_object_name(0xab, wrong, &out)) << wrong;
  }
  EXPECT_FALSE(parse_object_name(0xab, "ab" + std::string(2 * kMaxKeyBytes, '0'), &out)) << "too long";
  EXPECT_TRUE(parse_object_name(0xab, "ab" + std::string(2 * kMaxKeyBytes - 2, '0'), &out));
}

TEST(FileIndex, KeepsTheOrderOfUseAndTheSum) {
  Rng rng(seed());
  Index index;
  std::map<std::string, std::pair<uint64_t, int64_t>> model;  // key -> size, use
  for (int i = 0; i < 3000; ++i) {
    const std::string key = std::to_string(below(&rng, 300));
    Entry* const entry = index.find(key);
    ASSERT_EQ(entry != nullptr, model.count(key) != 0);
    const auto use = static_cast<int64_t>(below(&rng, 1000));
    const uint64_t dice = below(&rng, 4);
    if (entry == nullptr) {
      const uint64_t bytes = 1 + below(&rng, 20'000);
      index.put(key, bytes, use);
      model[key] = {bytes, use};
    } else if (dice == 0) {
      index.erase(entry);
      model.erase(key);
    } else if (dice == 1) {
      index.touch(entry, use);
      model[key].second = std::max(model[key].second, use);
    } else {
      index.move(entry, use);
      model[key].second = use;
    }
  }
  uint64_t sum = 0, listed = 0;
  for (const auto& [key, facts] : model) sum += page_ceiling(facts.first);
  EXPECT_EQ(index.charged_bytes(), sum);
  EXPECT_EQ(index.num_objects(), model.size());
  int64_t last = INT64_MIN;
  index.each_by_use([&](const Entry* entry) {
    EXPECT_GE(entry->used, last);
    EXPECT_EQ(entry->used, model[std::string(entry->key)].second);
    last = entry->used;
    return false;
  });
  for (size_t slot = 0; slot < index.num_slots(); ++slot) listed += index.in_slot(slot) != nullptr ? 1 : 0;
  EXPECT_EQ(listed, model.size());
}

TEST(FileCondition, PausesAfterAFullDiskDouble) {
  Condition condition;
  int64_t now = 1000;
  EXPECT_EQ(condition.admit(now), QUIRE_OK);
  condition.no_space(now);
  for (int64_t pause = 1; pause <= 64; pause *= 2) {
    const int64_t seconds = std::min<int64_t>(pause, 60);
    condition.no_space(now);  // of a store that was under way: changes nothing
    EXPECT_EQ(condition.state(now), QUIRE_CONNECTOR_FULL);
    EXPECT_EQ(condition.admit(now + seconds * kSecond - 1), QUIRE_RESOURCE_EXHAUSTED) << seconds;
    now += seconds * kSecond;
    EXPECT_EQ(condition.admit(now), QUIRE_OK) << seconds;
    EXPECT_EQ(condition.admit(now), QUIRE_RESOURCE_EXHAUSTED) << "one store tries";
    condition.no_space(now);
  }
  EXPECT_EQ(condition.admit(now + 60 * kSecond), QUIRE_OK);
  condition.stored();
  EXPECT_EQ(condition.state(now), QUIRE_CONNECTOR_UP);
  EXPECT_EQ(condition.admit(now), QUIRE_OK);
  condition.no_space(now);
  EXPECT_EQ(condition.admit(now + kSecond), QUIRE_OK) << "the pauses begin anew";
}

TEST(FileCondition, ARefusalIsAskedAgainAfterAMinute) {
  Condition condition;
  condition.refused(0);
  EXPECT_EQ(condition.state(59 * kSecond), QUIRE_CONNECTOR_READ_ONLY);
  EXPECT_EQ(condition.admit(59 * kSecond), QUIRE_PERMISSION_DENIED);
  EXPECT_FALSE(condition.is_refused(59 * kSecond));
  EXPECT_TRUE(condition.is_refused(60 * kSecond));
}

}  // namespace
}  // namespace quire::file
