// libxxhash inline, for the instructions that the unit is compiled with. The units for wider ones
// include nothing else, so that no function of theirs can be taken for another unit's.
#pragma once

#include "core/records/checksum.h"

// How far ahead it fetches, in bytes. Blocks come from memory, in pieces of some pages: with 512
// ahead, which is its own choice, 32 KiB pieces take 1.1 times as long on a Zen 5.
#define XXH_PREFETCH_DIST 2048
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire {

extern const ChecksumCode kChecksumAvx2;
extern const ChecksumCode kChecksumAvx512;

namespace {

uint64_t sum_bytes(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }
void update_state(void* state, const void* bytes, size_t size) {  //
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace
}  // namespace quire
