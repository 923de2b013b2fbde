// A store of the fake library in a folder of its own, and clients of it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fake_mooncake.h"
#include "tests/connectors/kit.h"
#include "tests/connectors/patience.h"

namespace quire::test {

inline kit::Subject mooncake_subject() {
  kit::Subject subject;
  subject.connector = "mooncake";
  subject.lists = false;
  return subject;
}

// Settings for a store in a directory, then further fields such as ", \"threads\": 2".
inline std::string mooncake_config(const std::string& directory, const std::string& fields = "") {
  return std::string("{\"library\": \"") + QUIRE_FAKE_MOONCAKE + "\", \"master\": \"" + directory + "\"" + fields + "}";
}

class MooncakeTest : public testing::Test {
 protected:
  void TearDown() override { fake().reset(); }

  static FakeMooncake& fake() { return FakeMooncake::get(); }
  std::string config(const std::string& fields = "") const { return mooncake_config(folder_.path(), fields); }
  kit::Client open(const std::string& fields = "") const { return {mooncake_subject(), config(fields)}; }
  // Where the value of an object is.
  std::string value_path(const kit::Key& key) const;
  static std::string name_of(const kit::Key& key);
  // The error, which has this code.
  static std::string refusal(const std::string& config, quire_code code);
  static quire_code look_up_code(kit::Client& client, const kit::Key& key);
  static uint64_t num_failed(const kit::Client& client);
  const std::string& directory() const { return folder_.path(); }

 private:
  const kit::TemporaryFolder folder_;
};

}  // namespace quire::test
