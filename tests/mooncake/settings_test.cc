// What can be wrong when a store is opened: settings, the library, its functions, its answers. Each is an error that says what to do.
#include <chrono>
#include <thread>

#include "mooncake_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire::test {
namespace {

class MooncakeSettings : public MooncakeTest {
 protected:
  // The error has this code and these words.
  static void refuses(const std::string& config, quire_code code, const std::vector<std::string>& words) {
    const std::string message = refusal(config, code);
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << message << "\nmust have: " << word;
  }
};

TEST_F(MooncakeSettings, WrongOnesAreRefusedByName) {
  const auto wrong = [&](const std::string& fields, const std::vector<std::string>& words) {
    refuses(config(fields), QUIRE_INVALID_ARGUMENT, words);
  };
  refuses("{}", QUIRE_INVALID_ARGUMENT, {"master", "10.0.0.1:50051"});
  refuses("", QUIRE_INVALID_ARGUMENT, {"master"});
  wrong(", \"threads\": 0", {"threads", "0", "1 to 64"});
  wrong(", \"threads\": 65", {"threads", "1 to 64"});
  wrong(", \"threads\": 5, \"buffers\": 4", {"buffers", "4", "5 threads"});
  wrong(", \"buffers\": 257", {"buffers", "256"});
  wrong(", \"object_bytes\": 1000", {"object_bytes", "4096"});
  wrong(", \"object_bytes\": \"2GiB\"", {"object_bytes", "2GiB"});
  wrong(", \"segment_bytes\": -1", {"segment_bytes", "-1"});
  wrong(", \"replicas\": 0", {"replicas", "1 to 16"});
  wrong(", \"timeout_ms\": 0", {"timeout_ms"});
  wrong(", \"connect_timeout_ms\": 700000", {"connect_timeout_ms", "600000"});
  wrong(", \"lease_ms\": \"5s\"", {"lease_ms", "5s"});
  wrong(", \"prefix\": \"a b\"", {"prefix", "space"});
  wrong(", \"prefix\": \"\"", {"prefix", "empty"});
  wrong(", \"prefix\": \"" + std::string(129, 'x') + "\"", {"prefix", "129", "128"});
  wrong(", \"host\": \"\"", {"host", "empty"});
  wrong(", \"metadata\": \"http://\\u00e4\"", {"metadata", "ASCII"});
  wrong(", \"colour\": \"blue\"", {"colour"});
}

TEST_F(MooncakeSettings, ALibraryThatIsNotThereIsSaid) {
  refuses("{\"master\": \"a:1\", \"library\": \"/nonexistent/libmooncake_store.so\"}", QUIRE_UNAVAILABLE,
          {"library", "/nonexistent/libmooncake_store.so", "No such file"});
  refuses("{\"master\": \"a:1\", \"library\": \"libno_such_mooncake.so\"}", QUIRE_UNAVAILABLE, {"libno_such_mooncake.so"});
}

// A library that is another one, and one in which the last function is missing.
TEST_F(MooncakeSettings, AFunctionThatIsMissingIsNamed) {
  refuses("{\"master\": \"a:1\", \"library\": \"libm.so.6\"}", QUIRE_INCOMPATIBLE_ABI, {"libm.so.6", "mooncake_store_create"});
  refuses(std::string("{\"master\": \"a:1\", \"library\": \"") + QUIRE_OLD_MOONCAKE + "\"}", QUIRE_INCOMPATIBLE_ABI,
          {"mooncake_store_remove"});
}

TEST_F(MooncakeSettings, WhatSetUpAnswersIsSaid) {
  refuses(mooncake_config("/nonexistent/store"), QUIRE_UNAVAILABLE, {"setup", "/nonexistent/store", "RPC_FAIL (-900)"});
  fake().set_script([](Call call, const std::string&) { return call == Call::kSetup ? Act{.answer = -600} : Act{}; });
  refuses(config(", \"host\": \"10.1.1.1\""), QUIRE_INVALID_ARGUMENT, {"INVALID_PARAMS (-600)", "10.1.1.1", directory()});
  fake().set_script([](Call call, const std::string&) { return call == Call::kSetup ? Act{.answer = -4242} : Act{}; });
  refuses(config(), QUIRE_INTERNAL, {"-4242", "not known"});
  fake().set_script([](Call call, const std::string&) { return call == Call::kRegister ? Act{.answer = -1} : Act{}; });
  refuses(config(), QUIRE_INTERNAL, {"register_buffer", "-1"});
  fake().set_script([](Call call, const std::string&) { return call == Call::kExist ? Act{.answer = -900} : Act{}; });
  refuses(config(), QUIRE_UNAVAILABLE, {"is_exist", "-900"});
  EXPECT_EQ(fake().num_stores(), 0u) << "what was opened is closed";
}

TEST_F(MooncakeSettings, ASetUpThatDoesNotReturnIsNotWaitedFor) {
  fake().set_script([](Call call, const std::string&) { return Act{.waits = call == Call::kSetup}; });
  const auto begin = std::chrono::steady_clock::now();
  refuses(config(", \"connect_timeout_ms\": 100"), QUIRE_UNAVAILABLE, {"connect_timeout_ms", "100 ms"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2000));
  fake().reset();
  EXPECT_TRUE(becomes_true([&] { return fake().num_stores() == 0; })) << "its thread ends, and the store with it";
}

TEST_F(MooncakeSettings, SayWhatTheConnectorCanDo) {
  Client client = open(), giver = open(", \"segment_bytes\": \"1GiB\"");
  EXPECT_EQ(client.info().flags, QUIRE_CONNECTOR_PERSISTENT | QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_STAGES);
  EXPECT_EQ(giver.info().flags, QUIRE_CONNECTOR_SHARED | QUIRE_CONNECTOR_STAGES) << "what it has goes with it";
  EXPECT_EQ(client.info().max_object_bytes, 16 * kMiB);
  EXPECT_EQ(client.info().max_key_bytes, 512u);
}

}  // namespace
}  // namespace quire::test
