// Allocations of the redis connector fail, one after the other: in submit and in the threads of connections. What was asked for ends with
// an error or works without; nothing is lost, and the same works afterwards. Connecting is left out: hiredis 0.14 aborts without memory.
#include "redis_server.h"
#include "tests/unit/allocations.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace quire {
namespace {

bool is_expected(quire_code code) {
  return code == QUIRE_OK || code == QUIRE_NOT_FOUND || code == QUIRE_RESOURCE_EXHAUSTED || code == QUIRE_UNAVAILABLE;
}

TEST(RedisAllocations, TicketsFailAndTheStoreGoesOn) {
  RedisServer server;
  Client client(redis_subject(), server.config(", \"connections\": 2"));
  const Bytes object = content(1, 1'300'000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  uint64_t refused = 0, ended = 0;
  for (int64_t after = 0; after < 150; ++after) {
    Layout written = dense(0, object.size());
    Layout read = {{{0, 0, 100, 3, 100, 0, 400'000}}, 300};
    Memory source(&written), target(&read);
    source.fill(written.runs, object);
    uint64_t sizes[2];
    const uint64_t fresh = 100 + static_cast<uint64_t>(after);
    Batch batch;
    batch.store(key(fresh), written.runs, object.size());
    batch.load(key(1), read.runs);
    batch.look_up({key(1), key(2)}, sizes);
    batch.remove(key(3));
    quire_completion ends[4];
    uint64_t accepted = 0, count = 0;
    quire_code code = QUIRE_OK;
    Error err;
    {
      const test::Failing failing(after);
      code = client.try_submit(batch, &accepted, &err);
      uint64_t polled = 0;
      for (; polled < accepted; polled += count) {
        if (quire_connector_poll(client.get(), 10 * kSecond, ends + polled, 4 - polled, &count, &err) != QUIRE_OK || count == 0) break;
      }
      ASSERT_EQ(polled, accepted) << "every ticket ends, after allocation " << after;
    }
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_RESOURCE_EXHAUSTED) << code << " " << err.message;
    refused += code != QUIRE_OK ? 1 : 0;
    for (uint64_t i = 0; i < accepted; ++i) {
      EXPECT_TRUE(is_expected(ends[i].code)) << ends[i].code;
      ended += ends[i].code != QUIRE_OK && ends[i].code != QUIRE_NOT_FOUND ? 1 : 0;
      if (ends[i].ticket == batch.tickets()[1].ticket && ends[i].code == QUIRE_OK) target.expect(read.runs, object);
      if (ends[i].ticket == batch.tickets()[1].ticket && ends[i].code != QUIRE_OK) target.forget(read.runs);
    }
    EXPECT_TRUE(source.intact());
    EXPECT_TRUE(target.intact());
    ASSERT_TRUE(becomes_true([&] { return client.holds(key(1), object); })) << after;
    client.remove(key(fresh));
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(ended, 0u);
}

}  // namespace
}  // namespace quire
