// The encoders of hashes and of the wire against nlohmann's, which build a tree of values first: the bytes are the same wherever the
// format leaves nlohmann no choice of its own. docs/decisions/0077-encoders-without-a-tree.md says why they are not used.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/events/encode.h"
#include "core/events/event_kind.h"
#include "core/events/event_wire.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t n) { return engine_() % n; }
  bool is() { return below(2) == 0; }
  // Of all widths, at and around the ends of each.
  uint64_t number() { return (uint64_t{1} << below(64)) - 1 + below(3); }
  int64_t integer() { return static_cast<int64_t>(is() ? number() : ~number()); }
  std::string text(size_t longest) {
    std::string out(below(200) == 0 ? below(longest + 1) : below(300), ' ');
    for (char& c : out) c = static_cast<char>('a' + below(26));
    return out;
  }
  // The texts are good as long as this is.
  std::vector<ExtraKey> keys() {
    std::vector<ExtraKey> out(below(4) == 0 ? 20 : below(4));
    for (ExtraKey& key : out) key = {static_cast<ExtraKey::Kind>(below(3)), texts_.emplace_back(text(70000)), integer()};
    return out;
  }

 private:
  std::mt19937_64 engine_;
  std::deque<std::string> texts_;
};

Json binary_of(std::string_view bytes) { return Json::binary({bytes.begin(), bytes.end()}); }

Json tree_of(std::span<const ExtraKey> keys) {
  if (keys.empty()) return nullptr;
  Json out = Json::array();
  for (const ExtraKey& key : keys) {
    if (key.kind == ExtraKey::Kind::kText) out.push_back(key.value);
    if (key.kind == ExtraKey::Kind::kBytes) out.push_back(binary_of(key.value));
    if (key.kind == ExtraKey::Kind::kMedia) out.push_back(Json::array({key.value, key.offset}));
  }
  return out;
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Where strings are long only the place is of interest.
void expect_same(const std::string& ours, const std::string& theirs, uint64_t seed) {
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  EXPECT_TRUE(ours == theirs) << "seed " << seed << ": " << ours.size() << " and " << theirs.size() << " bytes, equal up to byte "
                              << a - ours.begin() << (b == theirs.end() ? ", the end" : "");
}

TEST(Encoders, CborIsThatOfNlohmann) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const std::string parent = random.text(300);
    std::vector<int64_t> tokens(random.below(seed % 50 == 0 ? 70000 : 300));
    for (int64_t& token : tokens) token = random.integer();
    const std::vector<ExtraKey> keys = random.keys();
    std::string ours;
    encode_cbor({reinterpret_cast<const uint8_t*>(parent.data()), parent.size()}, tokens, keys, &ours);
    expect_same(ours, text_of(Json::to_cbor(Json::array({binary_of(parent), tokens, tree_of(keys)}))), seed);
    if (testing::Test::HasFailure()) return;
  }
}

// Digests are borrowed, so they live with the event.
struct Sample {
  WireEvent event;
  Json tree;
  std::vector<std::string> digests;
  std::string parent, keys, adapter, kind, locality;
  std::vector<int64_t> tokens;
};

void make_hashes(Random& random, Sample* to) {
  WireEvent& e = to->event;
  e.whole_hashes = random.is();
  const size_t size = random.is() ? 32 : 16;
  const auto digest = [&] {
    std::string out(size, '\0');
    for (char& c : out) c = static_cast<char>(random.is() ? 0 : random.below(256));  // also short numbers
    return out;
  };
  const auto tree = [&](const std::string& bytes) -> Json {
    if (e.whole_hashes) return binary_of(bytes);
    uint64_t value = 0;
    for (size_t i = size - 8; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  };
  to->digests.resize(random.below(20));
  to->tree["block_hashes"] = Json::array();
  for (std::string& each : to->digests) {
    each = digest();
    e.hashes.push_back(each);
    to->tree["block_hashes"].push_back(tree(each));
  }
  if (e.type != QUIRE_EVENT_STORED) return;
  to->parent = random.is() ? digest() : "";
  e.parent = to->parent;
  to->tree["parent_block_hash"] = to->parent.empty() ? Json(nullptr) : tree(to->parent);
}

void make_stored(Random& random, Sample* to) {
  WireEvent& e = to->event;
  Json& tree = to->tree;
  to->tokens.resize(random.below(40));
  for (int64_t& token : to->tokens) token = random.integer();
  e.tokens = to->tokens;
  e.block_tokens = random.number();
  if (random.is()) e.adapter_number = random.number();
  to->adapter = random.text(300);
  e.adapter = to->adapter;
  tree["token_ids"] = to->tokens;
  tree["block_size"] = e.block_tokens;
  tree["lora_id"] = e.adapter_number ? Json(*e.adapter_number) : Json(nullptr);
  tree["medium"] = e.medium;
  tree["lora_name"] = to->adapter.empty() ? Json(nullptr) : Json(to->adapter);
  e.num_keys = random.below(20);
  for (uint64_t i = 0; i < e.num_keys; ++i) {
    const std::vector<ExtraKey> keys = random.keys();
    encode_keys(keys, &to->keys);
    tree["extra_keys"].push_back(tree_of(keys));
  }
  e.keys = to->keys;
}

void make(Random& random, Sample* to) {
  WireEvent& e = to->event;
  constexpr quire_event_type kTypes[] = {QUIRE_EVENT_STORED, QUIRE_EVENT_REMOVED, QUIRE_EVENT_CLEARED};
  constexpr const char* kNames[] = {"BlockStored", "BlockRemoved", "AllBlocksCleared"};
  const size_t type = random.below(3);
  e.type = kTypes[type];
  to->tree["type"] = kNames[type];
  if (e.type == QUIRE_EVENT_CLEARED) return;
  make_hashes(random, to);
  if (e.type == QUIRE_EVENT_STORED) {
    make_stored(random, to);
  } else {
    to->tree["medium"] = e.medium;
  }
  if (random.is()) to->tree["group_idx"] = *(e.group = static_cast<uint32_t>(random.number()));
  to->kind = random.text(30);
  to->locality = random.text(30);
  e.kind = to->kind;
  e.locality = to->locality;
  if (e.type == QUIRE_EVENT_STORED) {
    if (!to->kind.empty()) to->tree["kv_cache_spec_kind"] = to->kind;
    if (random.is()) to->tree[kEventWindowField] = *(e.window = random.number());
  }
  if (!to->locality.empty()) to->tree["locality"] = to->locality;
}

TEST(Encoders, EventsAreThoseOfNlohmann) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    Sample sample;
    make(random, &sample);
    std::string ours;
    encode_event(sample.event, &ours);
    expect_same(ours, text_of(Json::to_msgpack(sample.tree)), seed);
    if (testing::Test::HasFailure()) return;
  }
}

// vLLM's consumers read, and its publishers write, times of 8 bytes. nlohmann takes 4 where they suffice.
TEST(Encoders, TimesHaveEightBytes) {
  for (const double time : {0.0, 1.5, 1e9, 1700000000.123}) {
    std::string ours;
    encode_batch(time, {}, std::nullopt, &ours);
    EXPECT_EQ(static_cast<uint8_t>(ours[1]), 0xcb);
    EXPECT_EQ(ours.size(), 1U + 9 + 1 + 1);
    const Json read = Json::from_msgpack(ours.begin(), ours.end());
    EXPECT_EQ(read, Json::array({time, Json::array(), nullptr}));
  }
  EXPECT_EQ(Json::to_msgpack(Json(1.5))[0], 0xca) << "nlohmann writes 8 bytes now: see docs/decisions/0077";
}

}  // namespace
}  // namespace quire
