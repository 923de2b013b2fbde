// Rows of quire/events.h.
#include <quire/events.h>

#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_hash_bytes) {
  EXPECT_EQ(quire_hash_bytes(-1), 0U);
  EXPECT_EQ(quire_hash_bytes(1000), 0U);
}

ROW(quire_hash_blocks) {
  auto options = sized<quire_hash_options>();
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.block_tokens = 2;
  const int64_t tokens[4] = {1, 2, 3, 4};
  std::vector<uint8_t> digests(256);
  uint64_t count = 0;
  call.any({"num_tokens"}).null_is_legal({"digests"});  // with capacity 0: the count is asked for
  call(&options, tokens, uint64_t{4}, digests.data(), uint64_t{2}, &count);
  EXPECT_EQ(count, 2U);
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "capacity is 2", quire_hash_blocks(&options, tokens, 4, nullptr, 2, &count, err));
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "1", quire_hash_blocks(&options, tokens, 4, digests.data(), 1, &count, err));
}

}  // namespace
}  // namespace quire::test
