// What Mooncake answers, and what is in its values: errors have the codes that the documentation names; a value that is not what was stored
// is never delivered, and is removed and counted.
#include "plugins/mooncake/answers.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "mooncake_rig.h"
#include "plugins/mooncake/value.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire::test {
namespace {

class MooncakeAnswers : public MooncakeTest {
 protected:
  std::string value(const Key& name) const {
    std::ifstream file(value_path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_value(const Key& name, const std::string& bytes) const { std::ofstream(value_path(name), std::ios::binary) << bytes; }
  bool is_there(const Key& name) const { return std::filesystem::exists(value_path(name)); }
  // Calls of this kind answer so, the first `times` ones.
  void answer(Call call, int64_t answer, int times = 1 << 30) {
    fake().set_script([=, left = times](Call made, const std::string&) mutable {
      if (made != call || left-- <= 0) return Act{};
      return Act{.answer = answer};
    });
  }
};

TEST(MooncakeValue, IsAnObjectAndItsSeal) {
  Bytes bytes = content(1, 1000);
  bytes.resize(1040);
  mooncake::seal(key(1), 1000, bytes.data());
  EXPECT_EQ(mooncake::open_value(key(1), bytes), 1000u);
  EXPECT_EQ(std::string(bytes.begin() + 1000, bytes.begin() + 1008), "quireMC1");
  EXPECT_EQ(bytes[1008] + 256 * bytes[1009], 1000) << "little-endian";
  EXPECT_EQ(mooncake::open_value(key(2), bytes), 0u) << "of another key";
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 1;
    EXPECT_EQ(mooncake::open_value(key(1), bytes), 0u) << "byte " << i;
    bytes[i] ^= 1;
  }
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_EQ(mooncake::open_value(key(1), {bytes.data(), n}), 0u) << n << " bytes of it";
  mooncake::break_seal(bytes);
  EXPECT_EQ(mooncake::open_value(key(1), bytes), 0u);
}

// Values of the first version: another version must find them. The sums are those of the xxhash of Python.
TEST(MooncakeValue, IsTheOneOfTheFirstVersion) {
  const std::string object = "an object";
  Bytes bytes(object.begin(), object.end());
  bytes.resize(object.size() + 40);
  mooncake::seal("a key", object.size(), bytes.data());
  std::string hex;
  for (const uint8_t byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  EXPECT_EQ(hex, "616e206f626a65637471756972654d43310900000000000000f0cabeddbc2dab802671e78ea0a5a33f67a25d67e59afb45");
}

// Each way in which a value can be wrong. The load says so, the value is gone, and the object can be stored anew.
TEST_F(MooncakeAnswers, AWrongValueIsDataLossAndIsRemoved) {
  Client client = open();
  const Bytes object = content(1, 3000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  ASSERT_EQ(client.store(key(2), content(2, 3000)).code, QUIRE_OK);
  const std::string good = value(key(1)), other = value(key(2));
  ASSERT_EQ(good.size(), 3040u);
  const std::pair<const char*, std::string> wrong[] = {
      {"a bit of the object", std::string(good).replace(100, 1, 1, static_cast<char>(good[100] ^ 1))},
      {"a bit of the seal", std::string(good).replace(3039, 1, 1, static_cast<char>(good[3039] ^ 1))},
      {"the last byte is missing", good.substr(0, 3039)},
      {"the first byte is missing", good.substr(1)},
      {"half of it", good.substr(0, 1520)},
      {"a byte too many", good + "x"},
      {"of another key", other},
      {"foreign", std::string(3040, 'x')},
      {"zeros", std::string(3040, '\0')},
      {"as long as a seal", good.substr(3000)},
      {"one byte", "x"},
      {"empty", ""},
  };
  uint64_t damaged = 0;
  for (const auto& [what, bytes] : wrong) {
    SCOPED_TRACE(what);
    set_value(key(1), bytes);
    const uint64_t failed = num_failed(client);
    Bytes out;
    EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_DATA_LOSS);
    EXPECT_EQ(out, Bytes(10, 0)) << "nothing of it is delivered";
    EXPECT_EQ(num_failed(client), failed + 1);
    EXPECT_FALSE(is_there(key(1)));
    EXPECT_EQ(client.health().num_damaged, ++damaged);
    EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_NOT_FOUND);
    const quire_completion end = client.store(key(1), object);
    EXPECT_EQ(end.code, QUIRE_OK);
    EXPECT_EQ(end.flags, 0u);
    EXPECT_TRUE(client.holds(key(1), object));
  }
  EXPECT_TRUE(client.holds(key(2), content(2, 3000)));
}

// A value that cannot be an object is found by look-ups, too: otherwise nobody would load it, and a store would say that it exists.
TEST_F(MooncakeAnswers, AValueWithoutAnObjectIsNotFoundAndIsRemoved) {
  Client client = open();
  for (const size_t bytes : {0, 1, 40}) {
    set_value(key(1), std::string(bytes, 'x'));
    EXPECT_FALSE(client.has(key(1)));
    EXPECT_FALSE(is_there(key(1)));
  }
  EXPECT_EQ(client.health().num_damaged, 3u);
}

// Bytes that were wrong once, on their way: the value is read again, and stays.
TEST_F(MooncakeAnswers, AValueThatWasReadWronglyOnceIsReadAgain) {
  Client client = open();
  const Bytes object = content(1, 3000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  fake().set_script([first = true](Call call, const std::string&) mutable {
    if (call != Call::kGet || !std::exchange(first, false)) return Act{};
    return Act{.alters = [](std::string* value) { value->resize(0); }};
  });
  EXPECT_TRUE(client.holds(key(1), object));
  EXPECT_EQ(client.health().num_damaged, 0u);
}

// "It worked", and nothing was written: what the staging memory has is an object that was loaded before.
TEST_F(MooncakeAnswers, BytesOfAnEarlierLoadAreNotTakenForThisOne) {
  Client client = open(", \"threads\": 1, \"buffers\": 1");
  ASSERT_EQ(client.store(key(1), content(1, 3000)).code, QUIRE_OK);
  ASSERT_TRUE(client.holds(key(1), content(1, 3000)));
  answer(Call::kGet, 3040);
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_DATA_LOSS);
}

TEST_F(MooncakeAnswers, LeasesThatExpireAreTriedOnceMore) {
  Client client = open();
  ASSERT_EQ(client.store(key(1), content(1, 3000)).code, QUIRE_OK);
  answer(Call::kGet, -707, 1);
  EXPECT_TRUE(client.holds(key(1), content(1, 3000)));
  answer(Call::kGet, -707);
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_NOT_FOUND);
  EXPECT_TRUE(is_there(key(1)));
}

TEST_F(MooncakeAnswers, ErrorsHaveTheCodesOfTheirMeaning) {
  Client client = open(", \"threads\": 1, \"buffers\": 16");
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  const std::pair<int64_t, quire_code> codes[] = {{-1, QUIRE_INTERNAL},
                                                  {-200, QUIRE_RESOURCE_EXHAUSTED},
                                                  {-400, QUIRE_INVALID_ARGUMENT},
                                                  {-600, QUIRE_INVALID_ARGUMENT},
                                                  {-703, QUIRE_NOT_FOUND},
                                                  {-704, QUIRE_NOT_FOUND},
                                                  {-706, QUIRE_FAILED_PRECONDITION},
                                                  {-714, QUIRE_FAILED_PRECONDITION},
                                                  {-800, QUIRE_UNAVAILABLE},
                                                  {-801, QUIRE_DATA_LOSS},
                                                  {-901, QUIRE_UNAVAILABLE},
                                                  {-1012, QUIRE_UNIMPLEMENTED},
                                                  {-1603, QUIRE_PERMISSION_DENIED},
                                                  {-1700, QUIRE_RESOURCE_EXHAUSTED},
                                                  {-99999, QUIRE_INTERNAL}};
  for (const auto& [number, code] : codes) {
    SCOPED_TRACE(number);
    const auto up = [&] { return client.health().state != QUIRE_CONNECTOR_DOWN; };
    Bytes out;
    answer(Call::kGet, number);
    EXPECT_EQ(client.load(key(1), 0, 10, &out).code, code);
    EXPECT_TRUE(becomes_true(up));
    answer(Call::kPut, number);
    EXPECT_EQ(client.store(key(2), content(2, 100)).code, code);
    EXPECT_TRUE(becomes_true(up));
    answer(Call::kRemove, number);
    EXPECT_EQ(client.remove(key(1)).code, code);
    answer(Call::kBatchExist, number);
    EXPECT_EQ(look_up_code(client, key(1)), code);
    EXPECT_TRUE(becomes_true(up));
    EXPECT_NE(mooncake::name_of(number).find(std::to_string(number)), std::string::npos);
  }
  fake().reset();
  EXPECT_TRUE(client.holds(key(1), content(1, 100)));
}

TEST_F(MooncakeAnswers, APutOfWhatExistsMeanwhileSaysSo) {
  Client client = open();
  answer(Call::kPut, -705);
  const quire_completion end = client.store(key(1), content(1, 100));
  EXPECT_EQ(end.code, QUIRE_OK);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_EXISTED);
  EXPECT_EQ(end.bytes, 0u);
}

TEST_F(MooncakeAnswers, AFullStoreRefusesAndIsCalledFull) {
  Client client = open();
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  answer(Call::kPut, -200);
  EXPECT_EQ(client.store(key(2), content(2, 100)).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_FULL);
  EXPECT_TRUE(client.holds(key(1), content(1, 100)));
  fake().reset();
  EXPECT_EQ(client.store(key(2), content(2, 100)).code, QUIRE_OK);
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
}

// The master is lost: every function says -900. Tickets fail at once, and it is looked for.
TEST_F(MooncakeAnswers, ALostMasterIsAnErrorUntilItIsBack) {
  Client client = open();
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  fake().set_script([](Call, const std::string&) { return Act{.answer = -900}; });
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_UNAVAILABLE);
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_DOWN; }));
  const uint64_t calls = fake().num_calls(Call::kExist);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.store(key(2), content(2, 100)).code, QUIRE_UNAVAILABLE);
    EXPECT_EQ(look_up_code(client, key(1)), QUIRE_UNAVAILABLE);
    EXPECT_EQ(client.remove(key(1)).code, QUIRE_UNAVAILABLE);
  }
  EXPECT_LT(fake().num_calls(Call::kExist) - calls, 10u) << "it is asked after pauses, not for every ticket";
  fake().reset();
  EXPECT_TRUE(becomes_true([&] { return client.health().state == QUIRE_CONNECTOR_UP; }));
  EXPECT_TRUE(client.holds(key(1), content(1, 100)));
}

// A holder of values is lost, the master is not.
TEST_F(MooncakeAnswers, ALostHolderIsAnErrorOfItsObjectsOnly) {
  Client client = open();
  for (uint64_t i = 1; i <= 2; ++i) ASSERT_EQ(client.store(key(i), content(i, 100)).code, QUIRE_OK);
  fake().set_script([lost = name_of(key(1))](Call call, const std::string& name) {
    return call == Call::kGet && name == lost ? Act{.answer = -800} : Act{};
  });
  for (int i = 0; i < 3; ++i) {
    Bytes out;
    EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_UNAVAILABLE);
    EXPECT_TRUE(client.holds(key(2), content(2, 100)));
  }
  EXPECT_EQ(client.health().state, QUIRE_CONNECTOR_UP);
}

// One call for all keys; then one for each object whose size is not known yet.
TEST_F(MooncakeAnswers, LookUpsAskForManyKeysAtOnce) {
  std::vector<Key> keys;
  {
    Client client = open();
    for (uint64_t i = 0; i < 300; ++i) {
      keys.push_back(key(i));
      if (i % 3 == 0) {
        ASSERT_EQ(client.store(keys[i], content(i, 10 + i)).code, QUIRE_OK);
      }
    }
    const uint64_t sizes = fake().num_calls(Call::kSize), batches = fake().num_calls(Call::kBatchExist);
    EXPECT_EQ(client.sizes(keys)[299 / 3 * 3], 10u + 299 / 3 * 3);
    EXPECT_EQ(fake().num_calls(Call::kBatchExist), batches + 1);
    EXPECT_EQ(fake().num_calls(Call::kSize), sizes) << "it stored them itself";
  }
  Client client = open();
  const uint64_t sizes = fake().num_calls(Call::kSize);
  for (int round = 0; round < 3; ++round) {
    const std::vector<uint64_t> found = client.sizes(keys);
    for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(found[i], i % 3 == 0 ? 10 + i : 0);
  }
  EXPECT_EQ(fake().num_calls(Call::kSize), sizes + 100);
}

// Another process removed an object and stored one of another size.
TEST_F(MooncakeAnswers, ASizeThatChangedIsKnownAfterALoad) {
  Client client = open(), other = open();
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  ASSERT_EQ(other.remove(key(1)).code, QUIRE_OK);
  EXPECT_FALSE(client.has(key(1)));
  ASSERT_EQ(other.store(key(1), content(2, 200)).code, QUIRE_OK);
  EXPECT_EQ(client.sizes({key(1)})[0], 200u) << "a look-up has seen that it was gone";
  ASSERT_EQ(other.remove(key(1)).code, QUIRE_OK);
  ASSERT_EQ(other.store(key(1), content(3, 300)).code, QUIRE_OK);
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 301, &out).code, QUIRE_OUT_OF_RANGE);
  EXPECT_EQ(client.sizes({key(1)})[0], 300u);
}

TEST_F(MooncakeAnswers, LeasesAreOnlyWhatSettingsPromise) {
  Client client = open(), promised = open(", \"lease_ms\": 5000");
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  quire_completion end = {};
  client.sizes({key(1)}, kSecond, &end);
  EXPECT_EQ(end.flags, 0u);
  promised.sizes({key(1), key(2)}, 5 * kSecond, &end);
  EXPECT_EQ(end.flags, QUIRE_COMPLETION_LEASED);
  promised.sizes({key(1)}, 6 * kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "longer than the master grants";
  promised.sizes({key(2)}, kSecond, &end);
  EXPECT_EQ(end.flags, 0u) << "nothing was found";
}

// Stored by a process whose settings allow more.
TEST_F(MooncakeAnswers, AnObjectThatIsTooLargeForThisProcessStays) {
  Client client = open(", \"object_bytes\": 5000"), large = open();
  const Bytes object = content(1, 9000);
  ASSERT_EQ(large.store(key(1), object).code, QUIRE_OK);
  Bytes out;
  EXPECT_EQ(client.load(key(1), 0, 10, &out).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.sizes({key(1)})[0], 9000u);
  EXPECT_TRUE(large.holds(key(1), object));
  EXPECT_EQ(client.info().max_object_bytes, 5000u);
  EXPECT_EQ(client.store(key(2), content(2, 5000)).code, QUIRE_OK);
  EXPECT_TRUE(client.holds(key(2), content(2, 5000)));
}

TEST_F(MooncakeAnswers, AnotherPrefixIsAnotherStore) {
  Client client = open(), other = open(", \"prefix\": \"other:\"");
  ASSERT_EQ(client.store(key(1), content(1, 100)).code, QUIRE_OK);
  EXPECT_FALSE(other.has(key(1)));
  EXPECT_EQ(other.store(key(1), content(2, 50)).flags, 0u);
  EXPECT_TRUE(client.holds(key(1), content(1, 100)));
  EXPECT_TRUE(other.holds(key(1), content(2, 50)));
}

}  // namespace
}  // namespace quire::test
