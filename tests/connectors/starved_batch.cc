#include "tests/connectors/starved_batch.h"

#include "tests/unit/allocations.h"

namespace quire::kit {

void run_starved(Client& client, int64_t after, const Key& fresh, const Bytes& object, Layout read, quire_code lost, Starved* out) {
  Layout written = dense(0, object.size());
  Memory source(&written), target(&read);
  source.fill(written.runs, object);
  uint64_t sizes[2];
  Batch batch;
  batch.store(fresh, written.runs, object.size());
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
  out->is_refused = code != QUIRE_OK;
  for (uint64_t i = 0; i < accepted; ++i) {
    const quire_code end = ends[i].code;
    const bool is_plain = end == QUIRE_OK || end == QUIRE_NOT_FOUND;
    EXPECT_TRUE(is_plain || end == QUIRE_RESOURCE_EXHAUSTED || end == lost) << end;
    out->num_starved += is_plain ? 0 : 1;
    if (ends[i].ticket != batch.tickets()[1].ticket) continue;
    end == QUIRE_OK ? target.expect(read.runs, object) : target.forget(read.runs);
  }
  EXPECT_TRUE(source.intact());
  EXPECT_TRUE(target.intact());
}

}  // namespace quire::kit
