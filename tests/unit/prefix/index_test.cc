// The prefix index against a naive map from whole prefixes to blocks.
#include "core/prefix/index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "core/prefix/identity.h"

namespace quire {
namespace {

using Symbols = std::vector<quire_symbol>;

PrefixIndex make(std::vector<IndexGroup> groups, uint32_t unit, uint32_t align, uint64_t nodes = 4096) {
  IndexShape shape;
  shape.unit_tokens = unit;
  shape.hit_alignment_tokens = align;
  shape.max_nodes = nodes;
  shape.max_roots = 8;
  shape.seed = 42;
  shape.groups = std::move(groups);
  auto index = PrefixIndex::create(shape);
  EXPECT_TRUE(index.ok()) << index.status().message();
  return std::move(index.value());
}

// By one unit. kNone: the index is full.
NodeId extend(PrefixIndex& index, NodeId at, std::span<const quire_symbol> unit) {
  const quire_symbol* const symbols = unit.data();
  NodeId node{kNone};
  return index.extend(at, {&symbols, 1}, {&node, 1}).count == 1 ? node : NodeId(kNone);
}

std::string encode(std::string_view salt, std::string_view adapter, uint64_t epoch) {
  quire_identity id{};
  id.salt = {salt.data(), salt.size()};
  id.adapter = {adapter.data(), adapter.size()};
  id.epoch = epoch;
  return std::string(Identity::encode(&id)->bytes());
}

TEST(Identity, NeverEncodesTwoTriplesAlike) {
  std::set<std::string> seen;
  const char* words[] = {"", "a", "b", "ab", "aa", "ba", "aab"};
  size_t n = 0;
  for (const char* salt : words) {
    for (const char* adapter : words) {
      for (uint64_t epoch : {0ull, 1ull, 97ull, 1ull << 40}) {
        seen.insert(encode(salt, adapter, epoch));
        ++n;
      }
    }
  }
  EXPECT_EQ(seen.size(), n);
  quire_identity big{};
  std::string long_salt(4097, 'x');
  big.salt = {long_salt.data(), long_salt.size()};
  EXPECT_EQ(Identity::encode(&big).status().code(), QUIRE_INVALID_ARGUMENT);
}

// What a hit must be, from the definition: every group has all blocks that live(p) touches.
uint64_t naive_hit(const std::vector<IndexGroup>& groups, const std::map<std::pair<Symbols, uint32_t>, uint32_t>& blocks,
                   const Symbols& prompt, uint64_t align) {
  uint64_t best = 0;
  for (uint64_t p = align; p < prompt.size(); p += align) {
    bool all = true;
    for (uint32_t g = 0; g < groups.size() && all; ++g) {
      uint64_t bt = groups[g].block_tokens;
      for (uint64_t b = 0; b < p / bt && all; ++b) {
        uint64_t begin = b * bt, end = begin + bt;
        bool needed = end > groups[g].live.tail_begin(p) || begin < groups[g].live.sink_end(p);
        all = !needed || blocks.contains({Symbols(prompt.begin(), prompt.begin() + static_cast<long>(end)), g});
      }
    }
    if (all) best = p;
  }
  return best;
}

TEST(PrefixIndex, HitIsTheLongestPositionEveryGroupCanResumeFrom) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng(seed);
    const uint32_t unit = 2;
    std::vector<IndexGroup> groups = {{LiveRange{}, 4}};
    if (rng() % 2) groups.push_back({LiveRange{.sink = rng() % 6, .window = 1 + rng() % 14}, 2});
    if (rng() % 2) groups.push_back({LiveRange{.chunk = 3 + rng() % 9}, 4});
    if (rng() % 2) groups.push_back({LiveRange{.state = true}, 4});
    if (rng() % 4 == 0) groups.erase(groups.begin());
    if (groups.empty()) groups.push_back({LiveRange{.window = 5}, 2});
    PrefixIndex index = make(groups, unit, 4);
    uint32_t root = *index.open_root("r");
    std::map<std::pair<Symbols, uint32_t>, uint32_t> blocks;
    std::map<uint32_t, std::pair<NodeId, Symbols>> place;
    uint32_t next = 1;
    for (int op = 0; op < 300; ++op) {
      Symbols prompt;
      for (uint64_t i = 0, n = rng() % 24; i < n; ++i) prompt.push_back(static_cast<quire_symbol>(rng() % 2));
      if (rng() % 3 != 0) {
        NodeId at = index.root_node(root);
        for (uint64_t p = unit; p <= prompt.size(); p += unit) {
          NodeId child = extend(index, at, std::span(prompt).subspan(p - unit, unit));
          ASSERT_NE(child.value, kNone);
          index.hold(child);
          if (at != index.root_node(root)) index.drop(at);
          at = child;
          for (uint32_t g = 0; g < groups.size(); ++g) {
            if (p % groups[g].block_tokens != 0 || index.block_at(at, GroupId(g)).value != kNone || rng() % 6 == 0) continue;
            index.attach(at, GroupId(g), PartIndex(next));
            Symbols key(prompt.begin(), prompt.begin() + static_cast<long>(p));
            blocks[{key, g}] = next;
            place[next] = {at, key};
            ++next;
          }
        }
        if (at != index.root_node(root)) index.drop(at);
      } else if (!blocks.empty()) {
        auto it = blocks.begin();
        std::advance(it, static_cast<long>(rng() % blocks.size()));
        auto [key, head] = *it;
        for (const DroppedBlock& d : index.detach(place[head].first, GroupId(key.second), true)) {
          auto found = place.find(d.head.value);
          ASSERT_NE(found, place.end());
          ASSERT_EQ(blocks.erase({found->second.second, d.group.value}), 1u);
          place.erase(found);
        }
        ASSERT_FALSE(blocks.contains(key));
      }
      Match m = index.match(root, prompt);
      ASSERT_EQ(m.hit_tokens, naive_hit(groups, blocks, prompt, 4));
      ASSERT_EQ(index.tokens(m.node), m.hit_tokens);
      uint64_t visited = 0;
      Status ok = index.verify([&](NodeId, GroupId, PartIndex) -> Status {
        ++visited;
        return {};
      });
      ASSERT_TRUE(ok.ok()) << ok.message();
      ASSERT_EQ(visited, blocks.size());
    }
  }
}

TEST(PrefixIndex, RootsAreForgottenWithTheirContent) {
  PrefixIndex index = make({{LiveRange{}, 2}}, 2, 2);
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(index.open_root("root" + std::to_string(i)).ok());
    EXPECT_EQ(index.open_root("one more").status().code(), QUIRE_RESOURCE_EXHAUSTED);
    for (uint32_t i = 0; i < 8; ++i) index.close_root(index.find_root("root" + std::to_string(i)));
    EXPECT_EQ(index.num_nodes(), 0u);
  }
}

TEST(PrefixIndex, APathIsFoundAsFarAsItIsThereAndThenMade) {
  PrefixIndex index = make({{LiveRange{}, 2}}, 2, 2, 6);
  const NodeId root = index.root_node(*index.open_root("r"));
  const Symbols prompt = {1, 2, 3, 4, 5, 6, 7, 8}, other = {1, 2, 3, 4, 9, 9, 7, 8};
  const auto units = [](const Symbols& symbols) {
    std::vector<const quire_symbol*> of;
    for (size_t p = 0; p < symbols.size(); p += 2) of.push_back(symbols.data() + p);
    return of;
  };
  const auto of_prompt = units(prompt), of_other = units(other);
  std::vector<NodeId> nodes(4), again(4);
  Extended path = index.extend(root, std::span(of_prompt).first(3), nodes);
  EXPECT_TRUE(path.is_new && path.count == 3);
  EXPECT_EQ(index.tokens(nodes[2]), 6u);
  path = index.extend(root, of_prompt, again);
  EXPECT_TRUE(!path.is_new && path.count == 3) << "what is there, and no more";
  EXPECT_TRUE(std::equal(again.begin(), again.begin() + 3, nodes.begin()));
  path = index.extend(root, of_other, again);
  EXPECT_TRUE(!path.is_new && path.count == 2);
  path = index.extend(again[1], std::span(of_other).subspan(2), std::span(again).subspan(2));
  EXPECT_TRUE(path.is_new && path.count == 2) << "beside a child that is there";
  for (const Symbols& symbols : {prompt, other}) {
    NodeId at = root;
    const uint64_t end = symbols == prompt ? 6 : 8;
    for (uint64_t p = 0; p < end; p += 2) {
      at = index.child(at, std::span(symbols).subspan(p, 2));
      ASSERT_NE(at.value, kNone) << p;
    }
    EXPECT_EQ(index.tokens(at), end);
  }
  path = index.extend(nodes[2], std::span(of_prompt).subspan(3), again);
  EXPECT_TRUE(path.is_new && path.count == 1);
  path = index.extend(again[0], of_prompt, again);
  EXPECT_EQ(path.count, 0u) << "full";
}

TEST(PrefixIndex, EveryMissHasAReason) {
  std::vector<IndexGroup> groups = {{LiveRange{}, 2}, {LiveRange{.window = 2}, 2}, {LiveRange{.state = true}, 2}};
  PrefixIndex index = make(groups, 2, 2);
  uint32_t root = *index.open_root("r");
  Symbols prompt = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(index.match(root, Symbols{1}).miss, QUIRE_MISS_BELOW_UNIT);
  EXPECT_EQ(index.match(root, prompt).miss, QUIRE_MISS_UNKNOWN_PREFIX);
  NodeId a = extend(index, index.root_node(root), std::span(prompt).first(2));
  index.attach(a, GroupId(0), PartIndex(1));
  index.attach(a, GroupId(1), PartIndex(2));
  EXPECT_EQ(index.match(root, prompt).miss, QUIRE_MISS_NO_STATE);
  index.attach(a, GroupId(2), PartIndex(3));
  EXPECT_EQ(index.match(root, Symbols{1, 2, 3}).miss, QUIRE_MISS_NONE);
  index.detach(a, GroupId(1), true);
  EXPECT_EQ(index.match(root, Symbols{1, 2, 3}).miss, QUIRE_MISS_WINDOW_HOLE);
  index.detach(a, GroupId(0), true);
  EXPECT_EQ(index.match(root, Symbols{1, 2, 3}).miss, QUIRE_MISS_EVICTED);
  index.detach(a, GroupId(2), true);
  EXPECT_EQ(index.match(root, Symbols{1, 2, 3}).miss, QUIRE_MISS_EVICTED) << "the node is gone, its memory is not";
}

// What never changes is found whatever else does; what never was is not found, though nodes are born again under other prompts all the
// time; and the tree is not touched by who looks.
TEST(PrefixIndex, GlancesBesideChangesSeeWhatIsThere) {
  constexpr uint32_t kUnit = 4;
  constexpr uint64_t kSteady = 64;  // tokens that stay
  PrefixIndex index = make({{LiveRange{}, kUnit}, {LiveRange{.window = 6}, kUnit}}, kUnit, kUnit, 96);
  const uint32_t root = *index.open_root("r");
  uint32_t next_head = 1;
  const auto grow = [&](NodeId at, const Symbols& symbols, uint64_t from) {
    for (uint64_t p = from; p + kUnit <= symbols.size(); p += kUnit) {
      const NodeId child = extend(index, at, std::span(symbols).subspan(p, kUnit));
      if (child.value == kNone) break;
      for (uint32_t g = 0; g < 2; ++g) {
        if (index.block_at(child, GroupId(g)).value == kNone) index.attach(child, GroupId(g), PartIndex(next_head++));
      }
      at = child;
    }
    return at;
  };
  Symbols steady;
  for (uint64_t t = 0; t < kSteady; ++t) steady.push_back(static_cast<quire_symbol>(t % 3));
  const NodeId end = grow(index.root_node(root), steady, 0);
  index.hold(end);

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> glances{0};
  const auto look = [&](uint32_t seed) {
    std::mt19937 rng(seed);
    for (; !stop; ++glances) {
      Symbols prompt = steady;
      for (int i = 0; i < 24; ++i) prompt.push_back(rng() % 2);
      const Match there = index.match_lockfree("r", prompt);
      ASSERT_GE(there.hit_tokens, kSteady);
      ASSERT_LE(there.hit_tokens, prompt.size() - 1);
      prompt[kSteady - 1] = 99;
      ASSERT_EQ(index.match_lockfree("r", prompt).hit_tokens, kSteady - kUnit) << "the last of these units never was in the index";
      ASSERT_EQ(index.match_lockfree("never", prompt).hit_tokens, 0u);
      index.match_lockfree("now and then", prompt);
    }
  };
  std::vector<std::thread> others;
  for (uint32_t i = 0; i < 3; ++i) others.emplace_back(look, i);
  std::mt19937 rng(11);
  for (int round = 0; !HasFailure() && (round < 20000 || glances < 2000); ++round) {
    Symbols prompt = steady;
    for (int i = 0; i < 24; ++i) prompt.push_back(rng() % 2);
    NodeId at = grow(end, prompt, kSteady);
    for (int up = static_cast<int>(rng() % 3); up > 0 && at != end; --up) at = index.parent(at);
    if (at != end) index.detach(at, GroupId(rng() % 2), true);
    if (index.num_nodes() > 80) {  // full: all that hangs below the steady part goes
      for (uint32_t bits = 0; bits < 16; ++bits) {
        Symbols unit;
        for (uint32_t i = 0; i < kUnit; ++i) unit.push_back(bits >> i & 1);
        const NodeId child = extend(index, end, unit);
        if (child.value == kNone) continue;
        index.hold(child);
        for (uint32_t g = 0; g < 2; ++g) index.detach(child, GroupId(g), true);
        index.drop(child);
      }
    }
    if (round % 7 == 0) {
      const uint32_t guest = *index.open_root("now and then");
      index.close_root(guest);
    }
  }
  stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(index.match_lockfree("r", steady).hit_tokens, kSteady - kUnit);
  const Status ok = index.verify([](NodeId, GroupId, PartIndex) -> Status { return {}; });
  EXPECT_TRUE(ok.ok()) << ok.message();
}

}  // namespace
}  // namespace quire
