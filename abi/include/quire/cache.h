/* quire/cache.h: bookkeeping without bytes: a cache, its sequences, prefix reuse, statistics. Needs
 * no driver. Steps are in quire/step.h.
 *
 * A cache is serialized: one mutating call at a time. quire_probe and quire_cache_get_stats may run
 * from any thread meanwhile. Positions count tokens from the start of the sequence. For every
 * sequence  committed <= reserved  and  committed <= known symbols.
 */
#ifndef QUIRE_CACHE_H_
#define QUIRE_CACHE_H_

#include <quire/base.h>
#include <quire/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_cache quire_cache;

/* What prefix matching compares at a position: a token id (below 2^31), or a media symbol from
 * quire_cache_add_media. */
typedef uint32_t quire_symbol;
/* A sequence: index (low 32 bits) and generation (high 32 bits). 0 is never a sequence. Stale ids
 * are NOT_FOUND. */
typedef uint64_t quire_sequence_id;
/* A step: counts up from 1 in each cache. */
typedef uint64_t quire_step_id;

/* Limits of a cache; all their memory is allocated at creation. Descriptor. */
typedef struct quire_cache_options {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_CACHE_* */
  uint32_t max_sequences;          /* live at once; 0 = 256 */
  uint32_t max_entries_per_step;   /* 0 = max_sequences */
  uint32_t max_tokens_per_step;    /* tokens computed in one step, look-ahead included; 0 = 8192 */
  uint32_t step_depth;             /* steps in flight; 0 = 2, at most 8 */
  uint32_t max_roots;              /* distinct (salt, adapter, epoch) with sequences or cached
                                    * content; 0 = 1024. Beyond, the oldest without sequences is
                                    * evicted with its content */
  uint32_t watermark_pages;        /* pages that a new sequence leaves free while others use any;
                                    * running sequences may use them */
  uint32_t num_state_branches;     /* most draft tokens of a row whose states are written one by
                                    * one, so that any number of them can be accepted; at most
                                    * 64. Each sequence owns as many additional states */
  uint32_t keep_states;            /* which states become checkpoints: QUIRE_KEEP_*; 0 = all of
                                    * these */
  uint32_t max_pins;               /* see quire/pin.h; 0 = 64, at most 4096 */
  uint32_t reserved0;              /* 0 */
  uint64_t max_index_units;        /* units of prefix held in the index; 0 = derived from the
                                    * pool */
  uint64_t max_media;              /* distinct media; 0 = 4096 */
  uint64_t hash_seed;              /* keys the index's hash; 0 = drawn at random (results do not
                                    * depend on it) */
  uint64_t checkpoint_interval;    /* tokens between kept states, rounded up to the boundary
                                    * grid; 0 = the plan's */
  uint64_t window_interval;        /* windows: keep findable what resuming needs at multiples of
                                    * this many tokens (rounded up to the boundary grid), at ends
                                    * of prompts and at junctions; or QUIRE_WINDOWS_AT_ENDS; 0 =
                                    * wherever a hit can end: at every boundary, in models with
                                    * recurrent states where states are kept (with
                                    * QUIRE_CACHE_STRICT_LRU at every boundary there, too) */
  uint64_t pin_quota_tokens;       /* tokens that the pins of one salt hold together, shared ones
                                    * counted for each; 0 = no limit */
  uint64_t checkpoint_bytes;       /* most bytes of kept states, padding of their pages included,
                                    * on the shard with the largest; enough for one boundary.
                                    * Which one goes for a new one: see keep_states. 0 = the pool
                                    * is the limit */
} quire_cache_options;

/* window_interval: at ends of prompts and at junctions (where earlier requests parted) only. */
#define QUIRE_WINDOWS_AT_ENDS 0xffffffffffffffffu

/* Nothing is published and nothing is matched. */
#define QUIRE_CACHE_NO_PREFIX_REUSE 0x1u
/* A state is written where it is read, unless what is read is kept as a checkpoint or shared: a
 * sequence owns one state (and num_state_branches more) and no spare. What that costs stands at
 * quire_abort. */
#define QUIRE_CACHE_STATES_IN_PLACE 0x2u
/* The engine's kernels write the state of every block boundary that a row crosses (see
 * QUIRE_FILL_STATE_WRITES): each becomes a checkpoint and chunks are not stopped for them. */
#define QUIRE_CACHE_STATES_AT_BLOCKS 0x4u
/* Cached blocks and kept states are given up by their last use alone. Without it, blocks that no
 * boundary of a prefill needs (they left a window within the step that computed them) go first, and
 * kept states go by what they are worth: see keep_states. */
#define QUIRE_CACHE_STRICT_LRU 0x10u
/* Follows a cache of another process, which has the same plan: it makes no steps but takes them
 * over as bytes (quire_step_import) and answers what is asked of them as the leader would:
 * quire_step_get_info, fills, lists, quire_memory_prepare_step. All other calls on it are
 * FAILED_PRECONDITION. Options as the leader's: its limits are the room for what comes. */
#define QUIRE_CACHE_FOLLOWER 0x20u

/* keep_states: which states become checkpoints. A state is kept only where a hit can end.
 * When checkpoint_bytes is used up, the boundary that is worth least is given up: its worth is the
 * number of tokens to compute again from the boundary before it, an eighth of that where only EVERY
 * or CHUNK_END kept it and no hit used it, plus an age term (what the last boundaries given up were
 * worth when this one was kept or used last). All boundaries have the same bytes. Pinned ones stay;
 * where they fill checkpoint_bytes, nothing more is kept. Boundaries of one row are kept in order:
 * the last one may replace those before it, never the other way round.
 * In the pool, states age like blocks, but those that only EVERY or CHUNK_END kept and no hit used
 * may be evicted before older ones. */
/* At multiples of checkpoint_interval; without one, at multiples of the state groups' blocks. */
#define QUIRE_KEEP_EVERY 0x1u
/* At the end of rows of several tokens. */
#define QUIRE_KEEP_CHUNK_END 0x2u
/* At the end of rows with QUIRE_ENTRY_PROMPT_END. */
#define QUIRE_KEEP_PROMPT_END 0x4u
/* Where attention alone could have resumed and no state was kept, when a chunk next ends there. */
#define QUIRE_KEEP_JUNCTION 0x8u
/* At the end of rows with QUIRE_ENTRY_KEEP_STATE. */
#define QUIRE_KEEP_ASKED 0x10u

/* Who may share with whom: sequences share prefixes only when all three are equal, byte for byte.
 * Descriptor. */
typedef struct quire_identity {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_SEQUENCE_* */
  quire_str salt;                  /* at most 4096 bytes */
  quire_str adapter;               /* at most 4096 bytes */
  uint64_t epoch;
  uint64_t adapter_number;         /* appears in events next to the adapter's name; not part of
                                    * the identity; 0 = none */
} quire_identity;

/* The sequence never reads the prefix index. */
#define QUIRE_SEQUENCE_NO_MATCH 0x1u
/* The sequence publishes nothing. */
#define QUIRE_SEQUENCE_NO_PUBLISH 0x2u

/* Creates the bookkeeping of a plan. Keeps the config alive. runtime may be NULL (defaults, no
 * log). *out: owned. Models with cross attention have no prefix reuse: what a decoder computes
 * depends on the encoder's input, which no symbol tells.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host). */
QUIRE_API quire_code quire_cache_create(quire_runtime *runtime, quire_config *config,
                                        const quire_cache_options *options, quire_cache **out,
                                        quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_cache *quire_cache_retain(quire_cache *cache);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_cache_release(quire_cache *cache);
/* Bytes of host memory allocated at creation. Thread: any thread. Blocking: no. Errors:
 * INVALID_ARGUMENT. */
QUIRE_API quire_code quire_cache_get_host_bytes(quire_cache *cache, uint64_t *bytes,
                                                quire_error *err);

/* Opens an empty sequence. identity: borrowed, NULL = no salt, no adapter, epoch 0.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * (max_sequences, max_roots). */
QUIRE_API quire_code quire_sequence_create(quire_cache *cache, const quire_identity *identity,
                                           quire_sequence_id *out, quire_error *err);
/* Ends a sequence; its blocks lose a reference, published ones stay findable. Legal in flight: its
 * late results are dropped.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND. */
QUIRE_API quire_code quire_sequence_finish(quire_cache *cache, quire_sequence_id sequence,
                                           quire_error *err);
/* Gives all blocks of a sequence back and empties it (committed = reserved = 0); the id stays
 * valid. Legal in flight. The next reserve passes the symbols again and may hit what was published.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND. */
QUIRE_API quire_code quire_sequence_preempt(quire_cache *cache, quire_sequence_id sequence,
                                            quire_error *err);
/* Shortens a sequence to `tokens` committed tokens; with recurrent layers only to 0 or to its
 * current length. Not while in flight.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION
 * (in flight, or a group cannot resume there: the message names the nearest legal length). */
QUIRE_API quire_code quire_sequence_truncate(quire_cache *cache, quire_sequence_id sequence,
                                             uint64_t tokens, quire_error *err);
/* A new sequence with the same committed tokens; blocks are shared and copied on write. The parent
 * may be in flight: the child has what is committed and knows no symbol beyond that.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, RESOURCE_EXHAUSTED (max_sequences),
 * FAILED_PRECONDITION (a step in flight writes the parent's state in place: commit it first). */
QUIRE_API quire_code quire_sequence_fork(quire_cache *cache, quire_sequence_id parent,
                                         quire_sequence_id *out, quire_error *err);

/* State of a sequence. Info. */
typedef struct quire_sequence_info {
  uint32_t struct_size;
  uint32_t steps_in_flight;
  uint64_t committed;              /* tokens */
  uint64_t reserved;               /* tokens, those in flight included */
  uint64_t known;                  /* symbols known */
  uint64_t hit_tokens;             /* of the last match */
  uint64_t num_parts;              /* held, all groups, shared ones included */
  uint64_t encoder_tokens;         /* cross attention */
} quire_sequence_info;

/* Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. */
QUIRE_API quire_code quire_sequence_get_info(quire_cache *cache, quire_sequence_id sequence,
                                             quire_sequence_info *info, quire_error *err);

/* The same digest (32 bytes, e.g. a SHA-256 of the media's bytes) always gets the same symbols:
 * *first .. *first + length - 1 stand for its positions. Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (length 0 or different from before), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_cache_add_media(quire_cache *cache, const uint8_t *digest,
                                           uint32_t length, quire_symbol *first, quire_error *err);

/* Why a prefix was not (completely) found. */
typedef int32_t quire_miss;
enum quire_miss_e {
  QUIRE_MISS_NONE = 0,          /* everything that may be reused was */
  QUIRE_MISS_UNKNOWN_PREFIX = 1,/* nobody computed these symbols under this identity */
  QUIRE_MISS_EVICTED = 2,       /* it was there and was evicted, or is given up now (see
                                 * QUIRE_ENTRY_MATCH) */
  QUIRE_MISS_NO_STATE = 3,      /* attention matches further, but no state was kept at a boundary
                                 * there */
  QUIRE_MISS_WINDOW_HOLE = 4,   /* attention matches further, but a window's blocks are gone */
  QUIRE_MISS_BELOW_UNIT = 5,    /* the rest is shorter than one match unit */
  QUIRE_MISS_DISABLED = 6,
  QUIRE_MISS_FORCE32 = -0x7fffffff
};

/* What a prompt would hit now. Info. */
typedef struct quire_probe_result {
  uint32_t struct_size;
  quire_miss miss;
  uint64_t hit_tokens;
  uint64_t full_hit_tokens;        /* attention groups alone */
} quire_probe_result;

/* Thread: any thread; mutating calls do not wait for it. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_probe(quire_cache *cache, const quire_identity *identity,
                                 const quire_symbol *symbols, uint64_t num_symbols,
                                 quire_probe_result *result, quire_error *err);

/* Counters since creation, and the present state. Info. */
typedef struct quire_cache_stats {
  uint32_t struct_size;
  uint32_t num_sequences;
  uint64_t pages_total;            /* the null page included */
  uint64_t pages_free;             /* never used or given back */
  uint64_t pages_evictable;        /* cached, unreferenced */
  uint64_t pages_used;             /* referenced, pinned or fenced */
  uint64_t parts_used;
  uint64_t parts_cached;
  uint64_t part_holes;             /* free parts in pages that belong to a group */
  uint64_t index_units;
  uint64_t matches;                /* entries that asked for a match and were admitted */
  uint64_t matched_prompt_tokens;
  uint64_t hit_tokens;
  uint64_t miss_reasons[8];        /* by quire_miss */
  uint64_t evicted_pages;
  uint64_t evicted_blocks;
  uint64_t hand_overs;             /* pages that changed group */
  uint64_t steps;
  uint64_t aborted_steps;
  uint64_t refused_entries;
  uint64_t preemptions;
  uint64_t forks;
  uint64_t copies;
  uint64_t checkpoints;            /* states kept */
  uint64_t pins;                   /* now */
  uint64_t pinned_tokens;          /* of all pins */
  uint64_t pins_given_up;          /* soft pins that made room */
  uint64_t checkpoint_bytes;       /* of the states kept now, as in quire_cache_options */
  uint64_t checkpoints_given_up;   /* boundaries that lost a state to a new one, because of
                                    * checkpoint_bytes */
  uint64_t checkpoints_declined;   /* boundaries whose state was not kept, because pinned ones
                                    * fill checkpoint_bytes */
  uint64_t recompute_avoided;      /* tokens between the states that matches resumed from and the
                                    * states before those */
} quire_cache_stats;

/* Thread: any thread. Blocking: waits for a mutating call in progress. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_cache_get_stats(quire_cache *cache, quire_cache_stats *stats,
                                           quire_error *err);
/* Forgets all published content that no sequence references: at once where none references any,
 * else block by block. Thread: serialized on cache. Blocking: no. Errors: FAILED_PRECONDITION
 * (steps in flight). */
QUIRE_API quire_code quire_cache_reset(quire_cache *cache, quire_error *err);
/* Forgets published blocks by id, as when their bytes turned out to be bad; what hangs below in the
 * index follows from them and goes too, where the group needs everything. ids[n]: of one group, any
 * column's id names its block; ids that name no published block are passed over. Sequences that use
 * a block keep it and publish nothing more until they are emptied. *forgotten: blocks of all
 * groups.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group, ids).
 */
QUIRE_API quire_code quire_cache_forget_blocks(quire_cache *cache, uint32_t group,
                                               const int32_t *ids, uint64_t n, uint64_t *forgotten,
                                               quire_error *err);
/* Re-derives every invariant of pool, index, tables and steps; O(pool). Thread: serialized on
 * cache. Blocking: no.
 * Errors: INTERNAL naming the invariant that is broken. */
QUIRE_API quire_code quire_cache_verify(quire_cache *cache, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CACHE_H_ */
