// Allocations of the ucx connector fail, one after the other. What was asked for ends with an error or works without; nothing is lost, and
// the same works afterwards. What comes from peers is left out: UCX itself may end the process without memory.
#include "tests/connectors/starved_batch.h"
#include "ucx_rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

class UcxAllocations : public UcxWays {};
QUIRE_UCX_WAYS(UcxAllocations);

TEST_P(UcxAllocations, TicketsFailAndTheInstanceGoesOn) {
  Client client(ucx_subject(), ucx_config(", \"copies\": \"8MiB\""));
  const Bytes object = content(1, 1'300'000);
  ASSERT_EQ(client.store(key(1), object).code, QUIRE_OK);
  uint64_t refused = 0, ended = 0;
  for (int64_t after = 0; after < 80; ++after) {
    const Layout read = {{{0, 0, 100, 3, 100, 0, 400'000}}, 300};
    const Key fresh = key(100 + static_cast<uint64_t>(after));
    Starved starved;
    ASSERT_NO_FATAL_FAILURE(run_starved(client, after, fresh, object, read, QUIRE_UNAVAILABLE, &starved));
    refused += starved.is_refused ? 1 : 0;
    ended += starved.num_starved;
    ASSERT_TRUE(client.holds(key(1), object)) << after;
    client.remove(fresh);
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(ended, 0u);
}

}  // namespace
