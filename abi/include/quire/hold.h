/* quire/hold.h: hold blocks while you copy their bytes elsewhere. A held block is not evicted, its
 * pages are not given to others, and no step writes to it. Kernels that were queued before may
 * still write: wait for them before you copy. quire_config_get_lowering leads from ids to
 * addresses. Engines without an offloader of their own use quire/tier.h instead.
 *
 * A cache can report which parts of its sequences became complete. This is what tiers store. The
 * report is in *units*: aligned parts of a sequence, each `unit_tokens` long.
 *
 *   quire_cache_watch_units -> (steps) -> quire_cache_take_units -> (copy) -> quire_hold_end
 *
 * Held blocks reduce the pool. An entry can be refused (QUIRE_REFUSAL_NO_ROOM) because of them,
 * even for the only sequence. Units that were reported but not taken are dropped first. */
#ifndef QUIRE_HOLD_H_
#define QUIRE_HOLD_H_

#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A hold id. A cache gives each only once. 0 is never a valid id. */
typedef uint64_t quire_hold_id;

/* Facts of a hold. Info. */
typedef struct quire_hold_info {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t first_token;
  uint64_t end_token;
  uint64_t num_parts;              /* in all groups */
} quire_hold_info;

/* Holds what a sequence has of the committed tokens [first_token, end_token): in groups with token
 * tables every block with one of these tokens that is resident, and in groups of states the state
 * after end_token, if the sequence or a checkpoint has it. Blocks of cross attention are not held.
 * Later steps of the sequence copy a held block before they write to it (copy on write).
 * The call allocates host memory for what the hold has. *out: the hold.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND (stale id), OUT_OF_RANGE (tokens), FAILED_PRECONDITION (a load of the sequence
 * is in progress, or a step in flight writes the state in place), RESOURCE_EXHAUSTED (all 65,536
 * holds exist or are reserved for units). */
QUIRE_API quire_code quire_hold_begin(quire_cache *cache, quire_sequence_id sequence,
                                      uint64_t first_token, uint64_t end_token, quire_hold_id *out,
                                      quire_error *err);
/* Ends a hold. Nobody reads the bytes of its blocks any more.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND. */
QUIRE_API quire_code quire_hold_end(quire_cache *cache, quire_hold_id hold, quire_error *err);
/* Reads the facts of a hold.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. */
QUIRE_API quire_code quire_hold_get_info(quire_cache *cache, quire_hold_id hold,
                                         quire_hold_info *info, quire_error *err);
/* Lists what a hold has of one group, as ids (not lowered): [column][block], blocks
 * first_token / block_tokens to (end_token - 1) / block_tokens. A group of states has one block.
 * Where nothing is held the id is 0. Two-call array: *count receives the number of ids.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE (group, capacity). */
QUIRE_API quire_code quire_hold_list_ids(quire_cache *cache, quire_hold_id hold, uint32_t group,
                                         int32_t *ids, uint64_t capacity, uint64_t *count,
                                         quire_error *err);

/* Why a unit is reported. */
typedef int32_t quire_unit_reason;
enum quire_unit_reason_e {
  QUIRE_UNIT_COMMITTED = 1,        /* its tokens are complete and published now */
  QUIRE_UNIT_HIT = 2,              /* a sequence resumed after it: its tokens were seen again */
  QUIRE_UNIT_FINISHED = 4,         /* a sequence that has it ends */
  QUIRE_UNIT_EVICTING = 8,         /* its last block is in a page that will be evicted soon */
  QUIRE_UNIT_REASON_FORCE32 = -0x7fffffff
};

/* The unit ends at a boundary where a state is kept; the hold has the state. Such a unit may be
 * shorter than unit_tokens. */
#define QUIRE_UNIT_HAS_STATE 0x1u

/* A part of a sequence that became complete. Its first token is a multiple of unit_tokens. So is
 * its end, unless it ends with a state. Of groups that need everything all blocks are held. Of
 * windows and chunks: if the sequence computed the unit, the blocks that resuming at end_token
 * needs; if it hit or loaded it, or the reason is FINISHED or EVICTING, perhaps fewer.
 * Frozen, 104 bytes. */
typedef struct quire_unit {
  quire_hold_id hold;              /* the caller's; end it */
  quire_sequence_id sequence;      /* may have ended; EVICTING: 0 */
  uint64_t first_token;
  uint64_t end_token;
  quire_unit_reason reason;
  uint32_t flags;                  /* QUIRE_UNIT_* */
  /* SHA-256 over identity and symbols of the tokens [0, end_token). It does not depend on the plan
   * or the process. Equal prefixes have equal digests; see quire_prefix_digests. */
  uint8_t digest[32];
  /* The same over [0, end_token + n), where n is the largest look_ahead of a group: the data of
   * draft layers for these tokens depends on the next n tokens. Without drafts equal to digest. */
  uint8_t ahead_digest[32];
} quire_unit;

/* What is reported. Descriptor. */
typedef struct quire_unit_options {
  uint32_t struct_size;
  uint32_t reasons;                /* QUIRE_UNIT_COMMITTED, _HIT, ...: at least one */
  /* Tokens of a unit, a multiple of block_tokens of every group. */
  uint64_t unit_tokens;
  uint32_t max_waiting;            /* between report and take; 0 = 1024, at most 16,384 */
  uint32_t reserved0;              /* 0 */
} quire_unit_options;

/* Starts to report units, or changes what is reported. A cache has one report: what waits is
 * dropped. Sequences that do not publish are not reported. If max_waiting units wait, the oldest is
 * dropped for a new one. While 2 * max_waiting units, waiting or taken, have holds, new ones are
 * dropped. units_given_up of quire_cache_stats counts them.
 * QUIRE_UNIT_EVICTING: quire_cache_take_units looks for such units in the pages that the next
 * steps may evict: at most twice the pages of a full step, an eighth of the pool, and 4,096. A
 * unit holds all its blocks. It is reported again only if it was given up, or if all blocks at its
 * end were evicted and computed again. When its hold ends, pages that were about to be evicted are
 * evicted next, unless a sequence used them meanwhile; its other pages count as used. Blocks that
 * are evicted in another order are not reported: a state, because another boundary is worth more;
 * a block that shares a page with others that are in use; what follows an evicted block.
 * options: borrowed; NULL = report nothing any more.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (reasons; unit_tokens: the message names a legal value),
 * FAILED_PRECONDITION (the cache has no prefix reuse; its tiers take its units), UNIMPLEMENTED
 * (built without SHA-256; EVICTING where a group has a look_ahead: the tokens after a unit are not
 * known any more), RESOURCE_EXHAUSTED (host memory). */
QUIRE_API quire_code quire_cache_watch_units(quire_cache *cache, const quire_unit_options *options,
                                             quire_error *err);
/* Takes up to `capacity` units, the oldest first. Each comes with a hold that the caller ends.
 * With drafts (see ahead_digest) a unit waits until its sequence has the tokens that follow it, and
 * is dropped if the sequence ends or is truncated before that.
 * *count: number of units.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (the cache has tiers, which take its units). */
QUIRE_API quire_code quire_cache_take_units(quire_cache *cache, quire_unit *items,
                                            uint64_t capacity, uint64_t *count, quire_error *err);
/* Computes the digests that name prefixes of symbols[num_symbols], as units carry them: digests[i]
 * covers the first ends[i] symbols; ends[n] must not decrease. digests: [n][32], written.
 * identity: borrowed; NULL = no salt, no adapter, epoch 0. Media symbols are those of this cache;
 * the digests contain the digests of the media instead.
 * Thread: any thread. Blocking: waits for a mutating call in progress.
 * Errors: INVALID_ARGUMENT (media symbols that the cache never gave out), OUT_OF_RANGE (ends),
 * UNIMPLEMENTED (built without SHA-256). */
QUIRE_API quire_code quire_prefix_digests(quire_cache *cache, const quire_identity *identity,
                                          const quire_symbol *symbols, uint64_t num_symbols,
                                          const uint64_t *ends, uint64_t n, uint8_t *digests,
                                          quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_HOLD_H_ */
