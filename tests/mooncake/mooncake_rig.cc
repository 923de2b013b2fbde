#include "mooncake_rig.h"

#include "plugins/mooncake/mooncake_worker.h"

namespace quire::test {

std::string MooncakeTest::name_of(const kit::Key& key) { return mooncake::name_of_key("quire:", key); }

std::string MooncakeTest::value_path(const kit::Key& key) const { return FakeMooncake::path(directory(), name_of(key)); }

std::string MooncakeTest::refusal(const std::string& config, quire_code code) {
  kit::Error err;
  EXPECT_EQ(kit::Client::try_open(mooncake_subject(), config, &err), code) << config << ": " << err.message;
  return err.message;
}

quire_code MooncakeTest::look_up_code(kit::Client& client, const kit::Key& key) {
  uint64_t size = 0;
  kit::Batch batch;
  const uint64_t ticket = batch.look_up({key}, &size).ticket;
  return client.run(batch)[ticket].code;
}

uint64_t MooncakeTest::num_failed(const kit::Client& client) {
  auto stats = QUIRE_INIT(quire_connector_stats);
  kit::Error err;
  EXPECT_EQ(quire_connector_get_stats(client.get(), &stats, &err), QUIRE_OK);
  return stats.num_failed;
}

}  // namespace quire::test
