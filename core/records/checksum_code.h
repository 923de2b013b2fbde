// libxxhash inline, for the instructions that the unit is compiled with. The units for wider ones
// include nothing else, so that no function of theirs can be taken for another unit's.
#pragma once

#include "core/records/checksum.h"

// How far ahead it fetches, in bytes; its own choice is 320 to 512. Blocks come from memory, in
// pieces of some pages: pieces of 32 KiB take 0.95, those of 2 MiB 0.92 of the time (Zen 5,
// AVX-512).
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
