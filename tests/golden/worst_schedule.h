// Schedules against the guaranteed number: the one that costs most room, found by measuring, and
// random ones.
#pragma once

#include <quire/quire.h>

#include <cstdint>

namespace quire {

// The most pages that so many sequences of `tokens` tokens hold at once, the null page included.
// Where a lone sequence holds most pages for the tokens that it has in flight is measured: at every
// length near the end, with few and with many tokens in flight, and with states kept at this or
// that boundary, so that they lie scattered. Then all sequences are brought there, and the tokens
// that steps may have in flight are given to as many of them as they bring further. 0: an entry was
// refused.
uint64_t worst_pages(quire_config* config, const quire_cache_options& options,  //
                     uint64_t tokens, uint64_t sequences);

// The most pages in use during `steps` steps of a random schedule, as `seed` says, of at most so
// many sequences of at most so many tokens: chunks of any length, drafts that are rejected, slots
// ahead, states kept anywhere, sequences that publish nothing, steps that are aborted, ends. A
// sequence that ended while steps were in flight counts until they are done, and so do its tokens.
// 0: an entry was refused.
uint64_t random_pages(quire_config* config, const quire_cache_options& options,  //
                      uint64_t tokens, uint64_t sequences, uint64_t steps, uint64_t seed);

}  // namespace quire
