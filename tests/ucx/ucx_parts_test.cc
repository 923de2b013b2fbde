// Parts of the ucx connector without UCX: keys, messages, seals, what an instance has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "plugins/ucx/ucx_config.h"
#include "plugins/ucx/ucx_offers.h"
#include "plugins/ucx/ucx_seal.h"
#include "tests/connectors/patience.h"

using namespace quire::ucx;  // NOLINT(google-build-using-namespace)

namespace {

ObjectKey named(const std::string& name, uint8_t handle = 0) {
  ObjectKey key;
  key.name = name;
  if (handle != 0) key.handle.fill(handle);
  return key;
}

quire_ticket_run dense(uint8_t* memory, uint64_t bytes) {
  return {0, reinterpret_cast<uintptr_t>(memory), bytes, 1, static_cast<int64_t>(bytes), 0, static_cast<int64_t>(bytes)};
}

quire_code code_of(const std::string& json, std::string* text = nullptr) {
  Config config;
  const Outcome outcome = read_config(json, &config);
  if (text != nullptr) *text = outcome.text;
  return outcome.code;
}

TEST(UcxConfig, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"({})", "secret_file"},
      {R"({"trusted": false})", "secret_file"},
      {R"({"trusted": true, "secret_file": "/x"})", "secret_file"},
      {R"({"secret_file": "/no/such/file"})", "secret_file"},
      {R"({"trusted": true, "listen": "localhost:1"})", "listen"},
      {R"({"trusted": true, "listen": "127.0.0.1"})", "listen"},
      {R"({"trusted": true, "listen": "127.0.0.1:65536"})", "listen"},
      {R"({"trusted": true, "port_file": "/tmp/x"})", "port_file"},
      {R"({"trusted": true, "peers": "127.0.0.1:0"})", "peers"},
      {R"({"trusted": true, "peers": "127.0.0.1:5, 127.0.0.1:5"})", "peers"},
      {R"({"trusted": true, "lease": "30"})", "lease"},
      {R"({"trusted": true, "lease": "99ms"})", "lease"},
      {R"({"trusted": true, "lease": "-1s"})", "lease"},
      {R"({"trusted": true, "lease": "99999999999999999999s"})", "lease"},
      {R"({"trusted": true, "tls": "tcp,shm"})", "tls"},
      {R"({"trusted": true, "tls": "all"})", "tls"},
      {R"({"trusted": true, "tls": ""})", "tls"},
      {R"({"trusted": true, "copies": "1KiB"})", "copies"},
      {R"({"trusted": true, "max_peers": 0})", "max_peers"},
      {R"({"trusted": true, "same_host": "on"})", "same_host"},
      {R"({"trusted": true, "same_host": true})", "same_host"},
      {R"({"trusted": true, "no_such": 0})", "no_such"},
  };
  for (const auto& [json, field] : wrong) {
    std::string text;
    EXPECT_EQ(code_of(json, &text), QUIRE_INVALID_ARGUMENT) << json;
    EXPECT_NE(text.find(field), std::string::npos) << json << ": " << text;
  }
  EXPECT_EQ(code_of(R"({"trusted": true})"), QUIRE_OK);
  EXPECT_EQ(code_of(R"({"trusted": true, "listen": "[::1]:0", "peers": "10.0.0.1:1, [fe80::1]:2", "lease": "2min", "tls": "rc, tcp"})"),
            QUIRE_OK);
}

TEST(UcxKey, HasANameAHandleAndAnAddress) {
  EXPECT_FALSE(parse_key(""));
  EXPECT_FALSE(parse_key(std::string(33, 'n')));
  EXPECT_FALSE(parse_key(std::string(47, 'n')));
  EXPECT_FALSE(parse_key(std::string(kMostKey + 1, 'n')));
  EXPECT_EQ(parse_key("n")->object.name, "n");
  const std::string name(32, 'n'), handle(16, 'h');
  EXPECT_FALSE(parse_key(name)->object.has_handle());
  EXPECT_FALSE(parse_key(name + std::string(16, '\0'))->object.has_handle());
  const std::string bytes = name + handle + "127.0.0.1:7800" + std::string(3, '\0');
  const auto key = parse_key(bytes);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->object.name, name);
  EXPECT_TRUE(key->object.has_handle());
  EXPECT_EQ(key->address, "127.0.0.1:7800");
}

// ---- Messages ----

Message some_message(std::mt19937_64* rng) {
  const auto below = [&](uint64_t limit) { return (*rng)() % limit; };
  const auto some_key = [&] {
    ObjectKey key;
    key.name.resize(1 + below(32));
    for (char& c : key.name) c = static_cast<char>(below(256));
    for (uint8_t& byte : key.handle) byte = static_cast<uint8_t>(below(256));
    return key;
  };
  Message out;
  out.kind = static_cast<Kind>(1 + below(10));
  if (is_sealed(out.kind)) {
    out.counter = (*rng)();
    out.request = (*rng)();
  }
  if (out.kind <= Kind::kWelcome || out.kind == Kind::kRefuse) out.version = static_cast<uint16_t>(below(65536));
  if (out.kind <= Kind::kWelcome) std::generate(out.nonce.begin(), out.nonce.end(), [&] { return static_cast<uint8_t>(below(256)); });
  if (out.kind == Kind::kWelcome || out.kind == Kind::kConfirm) out.mac.fill(static_cast<uint8_t>(below(256)));
  if (out.kind == Kind::kWelcome || out.kind == Kind::kLookup) out.lease_ms = static_cast<uint32_t>((*rng)());
  if (out.kind == Kind::kLookup) std::generate_n(std::back_inserter(out.keys), 1 + below(kMostKeys), some_key);
  if (out.kind == Kind::kWant || out.kind == Kind::kDone) out.keys.push_back(some_key());
  if (out.kind == Kind::kFound) {
    out.leased = below(2) != 0;
    std::generate_n(std::back_inserter(out.sizes), 1 + below(kMostKeys), [&] { return (*rng)(); });
  }
  for (uint64_t left = 1 + below(kMostRanges); out.kind == Kind::kWant && left != 0; --left) {
    const uint64_t bytes = 1 + below(kMostWanted / kMostRanges);
    out.ranges.push_back({below(kMostOffset - bytes + 1), bytes});
  }
  if (out.kind == Kind::kData) out.bytes = 1 + below(kMostWanted);
  if (out.kind == Kind::kAnswer) out.verdict = static_cast<Verdict>(below(5));
  return out;
}

// What was decoded is legal, and is what its bytes say and nothing more.
void check_decoded(const Message& message, std::span<const uint8_t> bytes) {
  const Bytes again = encode(message);
  ASSERT_TRUE(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  ASSERT_LE(message.keys.size(), kMostKeys);
  ASSERT_LE(message.sizes.size(), kMostKeys);
  ASSERT_LE(message.ranges.size(), kMostRanges);
  for (const ObjectKey& key : message.keys) ASSERT_TRUE(!key.name.empty() && key.name.size() <= kNameBytes);
  uint64_t sum = 0;
  for (const Range& range : message.ranges) {
    ASSERT_TRUE(range.bytes != 0 && range.bytes <= kMostWanted && range.offset <= kMostOffset - range.bytes);
    sum += range.bytes;
  }
  ASSERT_LE(sum, kMostWanted);
}

uint64_t rounds(uint64_t usual) {
  const char* const text = std::getenv("QUIRE_ROUNDS");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

TEST(UcxWire, TakesWhatItWroteAndHarmsNobodyOtherwise) {
  std::mt19937_64 rng(std::random_device{}());
  static constexpr uint64_t kValues[] = {
      0, 1, 2, 127, 128, 255, 256, 32767, 65535, (1u << 22) + 1, uint64_t{1} << 32, (uint64_t{1} << 63) - 1, uint64_t{1} << 63, UINT64_MAX};
  uint64_t taken = 0;
  const uint64_t all = rounds(20'000);
  for (uint64_t round = 0; round < all && !HasFailure(); ++round) {
    Bytes bytes = encode(some_message(&rng));
    const auto right = decode(bytes);
    ASSERT_TRUE(right) << "kind " << int{bytes[4]};
    check_decoded(*right, bytes);
    for (uint64_t change = rng() % 4; change-- > 0;) {
      const size_t at = rng() % bytes.size();
      switch (rng() % 4) {
        case 0:
          bytes[at] = static_cast<uint8_t>(rng());
          break;
        case 1:
          bytes.resize(1 + rng() % bytes.size());
          break;
        case 2:
          bytes.insert(bytes.end(), rng() % 40, static_cast<uint8_t>(rng()));
          break;
        default: {
          const uint64_t value = kValues[rng() % std::size(kValues)];
          for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
        }
      }
    }
    const auto changed = decode(bytes);
    taken += changed ? 1 : 0;
    if (changed) check_decoded(*changed, bytes);
  }
  EXPECT_GT(taken, all / 20) << "changed messages that are legal";
  EXPECT_LT(taken, all) << "and some that are not";
}

TEST(UcxWire, SumsNeverWrap) {
  const auto sum = [](std::vector<Range> ranges) { return sum_of(ranges, kMostWanted); };
  EXPECT_EQ(sum({{0, 5}, {kMostOffset - 7, 7}}), 12u);
  EXPECT_FALSE(sum({{0, 0}}));
  EXPECT_FALSE(sum({{0, kMostWanted + 1}}));
  EXPECT_FALSE(sum({{0, kMostWanted}, {0, 1}}));
  EXPECT_FALSE(sum({{0, UINT64_MAX}, {0, 2}}));
  EXPECT_FALSE(sum({{kMostOffset, 1}}));
  EXPECT_FALSE(sum({{UINT64_MAX, 1}}));
}

// ---- Seals ----

struct Pair {
  Session reader, owner;
};
Pair sessions(const std::string& secret_of_reader, const std::string& secret_of_owner, uint8_t nonce = 1) {
  Nonce of_reader, of_owner;
  of_reader.fill(nonce);
  of_owner.fill(2);
  const Handshake reader(secret_of_reader, of_reader, of_owner, 30'000), owner(secret_of_owner, of_reader, of_owner, 30'000);
  EXPECT_EQ(equal_macs(reader.proof_of_owner(), owner.proof_of_owner()), secret_of_reader == secret_of_owner);
  EXPECT_EQ(equal_macs(reader.proof_of_reader(), owner.proof_of_reader()), secret_of_reader == secret_of_owner);
  EXPECT_FALSE(equal_macs(owner.proof_of_reader(), owner.proof_of_owner()));
  return {Session(reader.key_to_owner(), reader.key_to_reader()), Session(owner.key_to_reader(), owner.key_to_owner())};
}

Message done(uint64_t request) {
  Message message;
  message.kind = Kind::kDone;
  message.request = request;
  message.keys.push_back(named("x", 3));
  return message;
}

TEST(UcxSeal, IsOfOneSessionOneDirectionAndOneTime) {
  Pair pair = sessions("secret", "secret");
  Message message = done(7);
  const Bytes bytes = pair.reader.seal(&message);
  EXPECT_FALSE(pair.reader.open(bytes)) << "sent back";
  EXPECT_FALSE(sessions("secret", "secret", 9).owner.open(bytes)) << "of another connection";
  EXPECT_FALSE(sessions("secret", "other").owner.open(bytes)) << "of another secret";
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes changed = bytes;
    changed[i] ^= 1;
    EXPECT_FALSE(pair.owner.open(changed)) << i;
  }
  const auto opened = pair.owner.open(bytes);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->request, 7u);
  EXPECT_FALSE(pair.owner.open(bytes)) << "it came before";
}

TEST(UcxSeal, MessagesMayOvertakeEachOtherOnce) {
  Replay replay;
  EXPECT_FALSE(replay.accept(0));
  EXPECT_TRUE(replay.accept(3));
  EXPECT_TRUE(replay.accept(1));
  EXPECT_FALSE(replay.accept(1));
  EXPECT_TRUE(replay.accept(66));
  EXPECT_FALSE(replay.accept(2)) << "too old to know";
  EXPECT_FALSE(replay.accept(3));
  EXPECT_TRUE(replay.accept(65));
  EXPECT_TRUE(replay.accept(UINT64_MAX));
  EXPECT_FALSE(replay.accept(66));
}

// ---- What an instance has ----

class UcxOffers : public testing::Test {
 protected:
  static constexpr int64_t kLease = 1000;
  Offers::Put offer(const ObjectKey& key, uint64_t ticket, int64_t now) {
    const quire_ticket_run run = dense(bytes_.data(), bytes_.size());
    return offers_.offer(key, {&run, 1}, bytes_.size(), ticket, now);
  }
  std::vector<std::pair<uint64_t, quire_code>> ends() {
    std::vector<std::pair<uint64_t, quire_code>> out;
    for (const OfferEnd& end : offers_.take_ends()) out.emplace_back(end.ticket, end.code);
    return out;
  }
  using Ends = std::vector<std::pair<uint64_t, quire_code>>;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(100, 7);
  Offers offers_{0, kLease};
};

TEST_F(UcxOffers, AreFoundWithTheirHandleOnly) {
  EXPECT_EQ(offer(named("a", 5), 1, 0), Offers::Put::kTaken);
  EXPECT_EQ(offer(named("a", 6), 2, 0), Offers::Put::kTaken);
  EXPECT_EQ(offer(named("a"), 3, 0), Offers::Put::kTaken);
  EXPECT_EQ(offer(named("a", 6), 4, 0), Offers::Put::kExisted);
  EXPECT_EQ(offers_.find(named("a", 5), 0)->ticket, 1u);
  EXPECT_EQ(offers_.find(named("a", 6), 0)->ticket, 2u);
  EXPECT_EQ(offers_.find(named("a"), 0)->ticket, 3u);
  EXPECT_EQ(offers_.find(named("a", 7), 0), nullptr);
  EXPECT_EQ(offers_.find(named("b", 5), 0), nullptr);
  for (size_t i = 0; i < kHandleBytes; ++i) {
    ObjectKey almost = named("a", 5);
    almost.handle[i] ^= 0x80;
    EXPECT_EQ(offers_.find(almost, 0), nullptr) << i;
  }
}

TEST_F(UcxOffers, EndWithTheirLeaseAndNotBefore) {
  ASSERT_EQ(offer(named("a"), 1, 0), Offers::Put::kTaken);
  ASSERT_EQ(offer(named("b"), 2, 10), Offers::Put::kTaken);
  EXPECT_EQ(offers_.expire(kLease - 1), kLease);
  offers_.renew(offers_.find(named("a"), 500), 1500);
  offers_.renew(offers_.find(named("a"), 500), 700);
  EXPECT_NE(offers_.find(named("b"), kLease + 9), nullptr);
  EXPECT_EQ(offers_.find(named("b"), kLease + 10), nullptr) << "nobody has called expire()";
  EXPECT_EQ(offers_.expire(kLease + 10), 1500);
  EXPECT_EQ(ends(), (Ends{{2, QUIRE_OK}}));
  EXPECT_EQ(offers_.expire(1500), INT64_MAX);
  EXPECT_EQ(ends(), (Ends{{1, QUIRE_OK}}));
  EXPECT_EQ(offers_.num_objects(), 0u);
  EXPECT_EQ(offers_.used_bytes(), 0u);
}

TEST_F(UcxOffers, EndWithTheLastTransferThatReadsThem) {
  ASSERT_EQ(offer(named("a", 1), 1, 0), Offers::Put::kTaken);
  const ObjectRef object = offers_.find(named("a", 1), 0);
  offers_.begin_use(object);
  offers_.begin_use(object);
  offers_.remove(object, QUIRE_CANCELLED);
  offers_.remove(object, QUIRE_OK);
  EXPECT_EQ(offers_.find(named("a", 1), 0), nullptr);
  EXPECT_EQ(offer(named("a", 1), 2, 0), Offers::Put::kTaken) << "the name is free again";
  offers_.end_use(object);
  EXPECT_EQ(ends(), Ends());
  EXPECT_EQ(offers_.of_ticket(1), object);
  EXPECT_EQ(offers_.used_bytes(), 200u);
  offers_.end_use(object);
  EXPECT_EQ(ends(), (Ends{{1, QUIRE_CANCELLED}}));
  EXPECT_EQ(offers_.of_ticket(1), nullptr);
  EXPECT_EQ(offers_.used_bytes(), 100u);
}

TEST_F(UcxOffers, RangesKeepTheirOrder) {
  ASSERT_EQ(offer(named("a"), 1, 0), Offers::Put::kTaken);
  const ObjectRef object = offers_.find(named("a"), 0);
  std::vector<quire::plugins::Extent> out;
  EXPECT_TRUE(Offers::collect(*object, {50, 10}, 2, &out));
  EXPECT_TRUE(Offers::collect(*object, {0, 10}, 2, &out));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].memory, bytes_.data() + 50);
  EXPECT_EQ(out[1].memory, bytes_.data());
  EXPECT_FALSE(Offers::collect(*object, {0, 10}, 2, &out));
}

TEST(UcxCopies, TheOldestLeavesUnlessItIsLeasedOrRead) {
  std::vector<uint8_t> bytes(1000, 1);
  const quire_ticket_run run = dense(bytes.data(), bytes.size());
  Offers copies(4 * (1000 + kCopyOverhead), 1000);
  const auto put = [&](const std::string& name, int64_t now) { return copies.copy(named(name), {&run, 1}, 1000, now); };
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_EQ(put(name, 0), Offers::Put::kTaken);
  copies.renew(copies.find(named("a"), 0), 100);
  const ObjectRef read = copies.find(named("b"), 0);
  copies.begin_use(read);
  copies.touch(copies.find(named("c"), 0));
  EXPECT_EQ(put("e", 50), Offers::Put::kTaken);
  EXPECT_EQ(copies.find(named("d"), 50), nullptr);
  EXPECT_EQ(put("e", 50), Offers::Put::kExisted);
  EXPECT_EQ(put("f", 50), Offers::Put::kTaken);
  EXPECT_EQ(copies.find(named("c"), 50), nullptr);
  EXPECT_EQ(put("g", 50), Offers::Put::kTaken);
  EXPECT_EQ(put("h", 50), Offers::Put::kTaken);
  EXPECT_NE(copies.find(named("a"), 50), nullptr);
  EXPECT_NE(copies.find(named("b"), 50), nullptr);
  copies.end_use(read);
  EXPECT_EQ(put("i", 100), Offers::Put::kTaken);
  EXPECT_EQ(copies.find(named("a"), 100), nullptr) << "its lease is over";
  EXPECT_EQ(copies.num_evicted(), 5u);
  EXPECT_LE(copies.used_bytes(), 4 * (1000 + kCopyOverhead));
  const quire_ticket_run large = dense(bytes.data(), 1 << 20);
  EXPECT_EQ(copies.copy(named("z"), {&large, 1}, 1 << 20, 100), Offers::Put::kNoRoom);
  EXPECT_EQ(copies.copy(named("z"), {&large, 1}, UINT64_MAX - 5, 100), Offers::Put::kNoRoom);
  EXPECT_EQ(copies.num_objects(), 4u);
}

}  // namespace
