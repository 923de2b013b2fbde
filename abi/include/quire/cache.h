/* quire/cache.h: caches, their sequences, prefix reuse and statistics.
 *
 * A cache only does bookkeeping. It holds no bytes and needs no driver. Steps are in quire/step.h.
 *
 * A cache is serialized: at most one mutating call runs at a time. quire_probe and
 * quire_cache_get_stats may run concurrently from any thread. Positions count tokens from the start
 * of the sequence. For every sequence:
 *   committed <= reserved  and, if it publishes,  committed <= known symbols */
#ifndef QUIRE_CACHE_H_
#define QUIRE_CACHE_H_

#include <quire/base.h>
#include <quire/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_cache quire_cache;

/* A symbol is what prefix matching compares at one position. It is a token id (below 2^31) or a
 * media symbol from quire_cache_add_media. */
typedef uint32_t quire_symbol;
/* A sequence id: index (low 32 bits) and generation (high 32 bits). 0 is never a valid id. Stale
 * ids are NOT_FOUND. */
typedef uint64_t quire_sequence_id;

/* Limits of a cache. All memory for them is allocated at creation. Descriptor. */
typedef struct quire_cache_options {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_CACHE_* */
  uint32_t max_sequences;          /* live at the same time; 0 = 256 */
  uint32_t max_entries_per_step;   /* 0 = max_sequences */
  uint32_t max_tokens_per_step;    /* tokens computed in one step, including look-ahead; 0 = 8192 */
  uint32_t step_depth;             /* steps in flight; 0 = 2, at most 8 */
  /* Distinct (salt, adapter, epoch) with sequences or cached content. At the limit, the oldest one
   * without sequences is evicted together with its content. 0 = 1024. */
  uint32_t max_roots;
  /* Pages that a new sequence leaves free while others use memory. Running sequences may use
   * them. */
  uint32_t watermark_pages;
  /* Highest number of draft tokens in a row for which a state is written after each token. A
   * commit can then accept any number of them. Each sequence reserves this many extra states. At
   * most 64. */
  uint32_t num_state_branches;
  /* The boundaries at which a sequence can be resumed: QUIRE_KEEP_*. 0 = all but CHUNK_END, and
   * with QUIRE_CACHE_STRICT_LRU all of them. Checkpoints that turn out useless cost little: they
   * are evicted first, and checkpoint_bytes limits them. */
  uint32_t keep_states;
  uint32_t max_pins;               /* see quire/pin.h; 0 = 64, at most 4096 */
  uint32_t reserved0;              /* 0 */
  uint64_t max_index_units;        /* match units in the prefix index; 0 = derived from the pool */
  uint64_t max_media;              /* distinct media; 0 = 4096 */
  /* Key of the index's hash. 0 = drawn at random, so that nobody can build prompts that collide.
   * Neither hits nor evictions depend on it.
   * Only the reason of a miss can (UNKNOWN_PREFIX or EVICTED), because the memory of what was
   * evicted is limited. */
  uint64_t hash_seed;
  /* Tokens between the boundaries that QUIRE_KEEP_EVERY keeps.
   * - Above 0: rounded up to the boundary grid. In models with recurrent states a chunk ends at
   *   every multiple, so a small interval makes many short chunks.
   * - 0, models without recurrent states: every boundary where a hit can end.
   * - 0, models with recurrent states: the plan's interval, checkpoint_interval of
   *   quire_group_info. A chunk ends at the last of its multiples only. If states kept at such
   *   multiples for no other reason are evicted unused, only one in eight is kept, until they are
   *   used again or much of the pool is free. Not with keep_states or QUIRE_CACHE_STRICT_LRU.
   * - 0, models with recurrent states, and the plan has no interval (policies vllm and pack:N):
   *   every boundary at which a row ends. A chunk ends at its last boundary. */
  uint64_t checkpoint_interval;
  /* Tokens that all pins of one salt may hold together. Shared tokens count once per pin. 0 = no
   * limit. */
  uint64_t pin_quota_tokens;
  /* Maximum bytes of checkpoints on the shard where they take the most, including the padding of
   * their pages. It must be enough for one boundary. keep_states describes which checkpoint is
   * evicted first. UINT64_MAX = limited only by the pool.
   * 0 = a share of the pool that is learned: it begins as a quarter, grows where prompts miss
   * states that were evicted for it, and shrinks where they miss keys and values, to 48 boundaries
   * or a quarter of the pool, whichever is less, but never below two boundaries. It does not bind
   * while a sixteenth of the pool is free. In models without full attention, and with
   * QUIRE_CACHE_STRICT_LRU, 0 means UINT64_MAX. */
  uint64_t checkpoint_bytes;
  uint32_t max_loads;              /* loads in progress; 0 = 16, at most QUIRE_MAX_LOADS */
  uint32_t reserved1;              /* 0 */
  /* Tokens of one load. Symbols of max_loads loads of this length get memory at creation.
   * 0 = max_tokens_per_step. */
  uint64_t max_load_tokens;
} quire_cache_options;

/* Highest max_loads. */
#define QUIRE_MAX_LOADS 4096

/* Nothing is published and nothing is matched. */
#define QUIRE_CACHE_NO_PREFIX_REUSE 0x1u
/* A step writes a state in place, over the state that it reads. Exception: a state that is a
 * checkpoint or is shared is never overwritten. A sequence owns one state, plus num_state_branches
 * extra ones, and no spare. quire_abort describes the cost. */
#define QUIRE_CACHE_STATES_IN_PLACE 0x2u
/* The engine's kernels write the states of boundaries that a row crosses: multiples of
 * checkpoint_interval, and the boundaries that keep_states adds. QUIRE_FILL_STATE_WRITE_ENDS lists
 * them. Chunks are not stopped for them. */
#define QUIRE_CACHE_STATES_AT_BLOCKS 0x4u
/* Cached blocks and checkpoints are evicted strictly by last use (LRU). Without this flag:
 * - Blocks that requests hit are evicted after those that none did (segmented LRU). This protects
 *   at most an eighth of the free and evictable pages in models with recurrent states, a third in
 *   others. A preempted sequence that finds its own blocks again does not count as a hit.
 * - Blocks that left a window within the row that computed them, or while the sequence decoded, are
 *   evicted first, except near boundaries where others are expected to resume. This does not apply
 *   if checkpoint_interval or keep_states chooses which windows are findable.
 * - When a sequence is finished, the blocks of its output are evicted first if few prompts contain
 *   the outputs of earlier sequences. The cache learns this from samples: one output in eight ages
 *   like other blocks. So do blocks before a boundary that QUIRE_ENTRY_KEEP_STATE or
 *   checkpoint_interval asked for.
 * - Checkpoints are evicted by their worth: see keep_states.
 * - Pages needed to resume at the end of a running sequence's prompt, or where the sequence resumed
 *   itself, are evicted last. They age from the end of the sequence. Without states, the same holds
 *   for windows where its prompt diverged from an earlier one.
 * - A block of full attention that is computed again takes the place of an older copy that nobody
 *   uses, except in groups that drafts write into. */
#define QUIRE_CACHE_STRICT_LRU 0x10u
/* keep_states: the boundaries at which a sequence can be resumed. All of them are boundaries where
 * a hit can end. At these boundaries recurrent states are kept, as checkpoints. Full attention can
 * be resumed at every boundary.
 *
 * Windowed blocks are findable where resuming needs them:
 * - In models with recurrent states, without QUIRE_CACHE_STRICT_LRU: before each checkpoint. In
 *   groups that drafts write into: before every boundary.
 * - In other models, and with QUIRE_CACHE_STRICT_LRU: before every boundary. If checkpoint_interval
 *   is set: before its multiples, ends of prompts and junctions. If EVERY is not set: before ends
 *   of prompts and junctions only. Other bits have no effect on windows here.
 *
 * Within checkpoint_bytes: when the budget is used up, the boundary with the lowest worth is
 * evicted. The worth of a boundary is the sum of two terms:
 * - The number of tokens to recompute from the previous boundary. Each request that resumed there
 *   since it was kept or superseded adds half of it, up to 255 requests. Only an eighth counts if
 *   only EVERY or CHUNK_END kept the boundary and no hit used it. Only a learned fraction counts,
 *   1/8 to 1, once a later boundary is kept where hits are expected and no prompt diverges between
 *   the two. Such are earlier turns of a conversation. One in eight of them still counts in full.
 *   If keep_states or checkpoint_interval is set, all of them do.
 * - An age term: the worth of the most recently evicted boundary at the time when this one was kept
 *   or last used.
 * All boundaries have the same number of bytes. Pinned boundaries stay. If they fill
 * checkpoint_bytes, no further state is kept. Boundaries of one row are kept in order: a later one
 * may replace an earlier one, but not the other way round.
 *
 * In the pool: states age like blocks. States of boundaries whose tokens count half or less may be
 * evicted before older ones. */
/* At multiples of checkpoint_interval, which says what 0 means. */
#define QUIRE_KEEP_EVERY 0x1u
/* At the end of rows of several tokens. */
#define QUIRE_KEEP_CHUNK_END 0x2u
/* At the end of prompts. It is known from the symbols of a match or QUIRE_ENTRY_PROMPT_END. */
#define QUIRE_KEEP_PROMPT_END 0x4u
/* At a junction, a boundary where an earlier request diverged: full attention could have resumed
 * there, but no state or no window was kept. The next prompt that passes it leaves one. */
#define QUIRE_KEEP_JUNCTION 0x8u
/* At the end of rows with QUIRE_ENTRY_KEEP_STATE, and of loads. */
#define QUIRE_KEEP_ASKED 0x10u

/* Which sequences may share prefixes. Two sequences share prefixes only if salt, adapter and epoch
 * are equal, byte for byte. Descriptor. */
typedef struct quire_identity {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_SEQUENCE_* */
  quire_str salt;                  /* at most 4096 bytes */
  quire_str adapter;               /* at most 4096 bytes */
  uint64_t epoch;
  uint64_t adapter_number;         /* appears in events next to the adapter's name; not part of the
                                    * identity; 0 = none */
} quire_identity;

/* The sequence never reads the prefix index. */
#define QUIRE_SEQUENCE_NO_MATCH 0x1u
/* The sequence publishes nothing. */
#define QUIRE_SEQUENCE_NO_PUBLISH 0x2u

/* How many sequences caches with given options can hold. Sequences share no prefixes here. Info.
 * Compare `decoding` with the largest batch and `guaranteed` with a limit that must never cause a
 * preemption. */
typedef struct quire_capacity {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t tokens;                 /* per sequence */
  uint64_t concurrency;
  /* Sequences of `tokens` tokens. As long as no more than these are live, no entry is refused for
   * lack of room: in any order of prefill, decoding and ends. It counts the worst alignment of
   * blocks in pages, separate pages for every sequence, and full chunks in all steps in flight.
   * They begin without a hit and without full_tokens. A sequence that ended is live until the steps
   * that were in flight are done. With QUIRE_CACHE_STATES_IN_PLACE, and if it is one sequence, an
   * entry may have to wait for a commit. */
  uint64_t guaranteed;
  /* Sequences that are started one after the other and decode a token in every step, with
   * step_depth steps in flight, until all of them have `tokens` tokens. */
  uint64_t decoding;
  /* Sequences that are computed to `tokens` tokens one after the other, and then wait, until the
   * first is refused. */
  uint64_t resident;
  /* Tokens of each of `concurrency` sequences, guaranteed. At most max_model_len. 0 = none fits. */
  uint64_t longest;
  uint64_t pages_needed;           /* for `concurrency` sequences of `tokens` tokens, guaranteed */
  uint64_t bytes_needed;           /* pages_needed in bytes, on the shard with the largest pages */
  /* The pool in tokens, as other engines print it ("GPU KV cache size"): max_model_len times the
   * number of such sequences, not rounded. Under policy vllm exactly what vLLM prints. */
  uint64_t kv_cache_tokens;
} quire_capacity;

/* Computes what a cache of this config can hold. options: borrowed; NULL = defaults. Read are
 * step_depth, max_tokens_per_step, num_state_branches, checkpoint_interval and the flags
 * NO_PREFIX_REUSE, STATES_IN_PLACE and STATES_AT_BLOCKS. Limits such as max_sequences do not lower
 * the result. tokens: 0 = max_model_len. concurrency: 0 = 1.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE. */
QUIRE_API quire_code quire_config_get_capacity(quire_config *config,
                                               const quire_cache_options *options, uint64_t tokens,
                                               uint64_t concurrency, quire_capacity *capacity,
                                               quire_error *err);

/* Creates the bookkeeping of a plan. Keeps the config alive. runtime may be NULL: defaults, no log.
 * *out: owned.
 * Models with cross attention have no prefix reuse. The result of a decoder depends on the
 * encoder's input, and symbols do not describe that input.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host memory). */
QUIRE_API quire_code quire_cache_create(quire_runtime *runtime, quire_config *config,
                                        const quire_cache_options *options, quire_cache **out,
                                        quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_cache *quire_cache_retain(quire_cache *cache);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_cache_release(quire_cache *cache);

/* Opens an empty sequence. identity: borrowed; NULL = no salt, no adapter, epoch 0.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (max_sequences, max_roots). */
QUIRE_API quire_code quire_sequence_create(quire_cache *cache, const quire_identity *identity,
                                           quire_sequence_id *out, quire_error *err);
/* Ends a sequence. Its blocks lose one reference. Published blocks can still be found. The call is
 * legal while steps of the sequence are in flight: their late results are dropped.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND, FAILED_PRECONDITION (a load of the sequence is in progress). */
QUIRE_API quire_code quire_sequence_finish(quire_cache *cache, quire_sequence_id sequence,
                                           quire_error *err);
/* Releases all blocks of a sequence and empties it (committed = reserved = 0). The id stays valid.
 * The call is legal while steps of the sequence are in flight. The next reserve passes the symbols
 * again and may hit what was published.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND, FAILED_PRECONDITION (a load of the sequence is in progress). */
QUIRE_API quire_code quire_sequence_preempt(quire_cache *cache, quire_sequence_id sequence,
                                            quire_error *err);
/* Shortens a sequence to `tokens` committed tokens. With recurrent layers the only legal lengths
 * are 0 and the current length. Not legal while steps of the sequence are in flight.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION (in flight, a load is in progress, or a
 * group cannot resume there: the message names the nearest legal length). */
QUIRE_API quire_code quire_sequence_truncate(quire_cache *cache, quire_sequence_id sequence,
                                             uint64_t tokens, quire_error *err);
/* Creates a sequence with the same committed tokens. Blocks are shared and copied on write. The
 * parent may be in flight. The child gets the committed tokens and knows no symbols beyond them.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND, RESOURCE_EXHAUSTED (max_sequences), FAILED_PRECONDITION (a load of the
 * parent is in progress, or a step in flight writes the parent's state in place: end or commit
 * it first). */
QUIRE_API quire_code quire_sequence_fork(quire_cache *cache, quire_sequence_id parent,
                                         quire_sequence_id *out, quire_error *err);

/* State of a sequence. Info. */
typedef struct quire_sequence_info {
  uint32_t struct_size;
  uint32_t steps_in_flight;
  uint64_t committed;              /* tokens */
  uint64_t reserved;               /* tokens, including those in flight */
  uint64_t known;                  /* symbols known */
  uint64_t hit_tokens;             /* of the last match */
  uint64_t num_parts;              /* held in all groups, including shared ones */
  uint64_t encoder_tokens;         /* cross attention */
} quire_sequence_info;

/* Reads the state of a sequence.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. */
QUIRE_API quire_code quire_sequence_get_info(quire_cache *cache, quire_sequence_id sequence,
                                             quire_sequence_info *info, quire_error *err);

/* Returns media symbols for a digest (32 bytes, for example a SHA-256 of the media's bytes). Equal
 * digests always get equal symbols. *first .. *first + length - 1 stand for the positions of the
 * media.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (length is 0 or differs from an earlier call), RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_cache_add_media(quire_cache *cache, const uint8_t *digest,
                                           uint32_t length, quire_symbol *first, quire_error *err);

/* Why a prefix was not found, or not completely. */
typedef int32_t quire_miss;
enum quire_miss_e {
  QUIRE_MISS_NONE = 0,          /* everything that may be reused was reused */
  QUIRE_MISS_UNKNOWN_PREFIX = 1,/* these symbols were never computed under this identity */
  QUIRE_MISS_EVICTED = 2,       /* the prefix was evicted, or a part of the hit was given up for
                                 * lack of room (see QUIRE_ENTRY_MATCH) */
  QUIRE_MISS_NO_STATE = 3,      /* attention matches further, but no state was kept at a boundary
                                 * there */
  QUIRE_MISS_WINDOW_HOLE = 4,   /* attention matches further, but a window's blocks were evicted */
  QUIRE_MISS_BELOW_UNIT = 5,    /* no place for a hit before the prompt's last token */
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

/* Reports what a prompt would hit now. Mutating calls do not wait for it.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_probe(quire_cache *cache, const quire_identity *identity,
                                 const quire_symbol *symbols, uint64_t num_symbols,
                                 quire_probe_result *result, quire_error *err);

/* Counters since creation, and the current state. Info. */
typedef struct quire_cache_stats {
  uint32_t struct_size;
  uint32_t num_sequences;
  uint64_t pages_total;            /* including the null page */
  uint64_t pages_free;             /* never used, or released */
  uint64_t pages_evictable;        /* cached and unreferenced */
  uint64_t pages_used;             /* referenced, pinned or fenced */
  uint64_t parts_used;
  uint64_t parts_cached;
  uint64_t part_holes;             /* free parts in pages that belong to a group */
  uint64_t index_units;            /* match units in the index, and one for each identity */
  uint64_t matches;                /* admitted entries that asked for a match */
  uint64_t matched_prompt_tokens;
  uint64_t hit_tokens;             /* of all matches */
  uint64_t miss_reasons[8];        /* indexed by quire_miss */
  uint64_t evicted_pages;
  uint64_t evicted_blocks;         /* or forgotten by quire_cache_forget_blocks */
  uint64_t hand_overs;             /* pages that moved from one group to another */
  uint64_t steps;                  /* reserved; aborted ones are counted, too */
  uint64_t aborted_steps;
  uint64_t refused_entries;
  uint64_t preemptions;
  uint64_t forks;
  uint64_t copies;
  uint64_t checkpoints;            /* boundaries whose states were kept; it never falls */
  uint64_t pins;                   /* currently held */
  uint64_t pinned_tokens;          /* of all pins */
  uint64_t pins_given_up;          /* soft pins that were ended to make room */
  uint64_t checkpoint_bytes;       /* of the checkpoints kept now, as in quire_cache_options */
  /* Boundaries that lost a state to a new one because of checkpoint_bytes. */
  uint64_t checkpoints_given_up;
  /* Boundaries whose state was not kept because pinned ones fill checkpoint_bytes. */
  uint64_t checkpoints_declined;
  /* Tokens that did not have to be recomputed: for each match that resumed from a state, the tokens
   * between that state and the previous one. */
  uint64_t recompute_avoided;
  uint64_t host_bytes;             /* of the cache itself, allocated at creation */
  uint64_t holds;                  /* see quire/hold.h; now */
  uint64_t held_parts;             /* of all holds; a part may count several times */
  uint64_t units_given_up;         /* units that were reported, but not taken */
  uint64_t loads;                  /* in progress */
  /* Of aborted entries: what they had added to the counters of matches, which do not have it any
   * more. A counter and its part here never fall together. */
  uint64_t aborted_prompt_tokens;  /* matched_prompt_tokens */
  uint64_t aborted_hit_tokens;
  uint64_t aborted_recompute_avoided;
  uint64_t aborted_miss_reasons[8];
  /* How long pages keep what is in them. One page in page_sample is counted: all of a small pool,
   * one in 64 of a large one. Element i counts spans of less than 2^i milliseconds and not less
   * than half of that; the last one counts the rest, too. Time is that of the last reserve or
   * load_begin, on the runtime's clock. A page that was released before anything of it was cached
   * is not counted, nor one whose content a reset forgot. */
  uint64_t page_sample;
  uint64_t page_lifetime[32];      /* from when a group takes a page until its content is evicted */
  uint64_t page_lifetime_ns;       /* sum of these spans */
  uint64_t page_idle[32];          /* the part of it since the last use */
  uint64_t page_idle_ns;
  uint64_t page_reuse_gap[32];     /* unused, then used again */
  uint64_t page_reuse_gap_ns;
} quire_cache_stats;

/* Reads the counters.
 * Thread: any thread. Blocking: waits for a mutating call in progress. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_cache_get_stats(quire_cache *cache, quire_cache_stats *stats,
                                           quire_error *err);

/* The pages of one group. Free pages belong to no group. Info. */
typedef struct quire_group_stats {
  uint32_t struct_size;
  uint32_t group;                  /* as asked for */
  /* Now. The sums over all groups are pages_used and pages_evictable of quire_cache_stats. */
  uint64_t pages_used;             /* with a part that is referenced, pinned or fenced */
  uint64_t pages_cached;           /* cached and unreferenced */
  /* As in quire_cache_stats, of the same sample (page_sample), for pages while they belonged to
   * this group. The sums over all groups are what is counted there. */
  uint64_t page_lifetime[32];
  uint64_t page_lifetime_ns;
  uint64_t page_idle[32];
  uint64_t page_idle_ns;
  uint64_t page_reuse_gap[32];
  uint64_t page_reuse_gap_ns;
} quire_group_stats;

/* Reads the counters of one group, an index as in quire_config_get_group.
 * Thread: any thread. Blocking: waits for a mutating call in progress. Errors: INVALID_ARGUMENT,
 * OUT_OF_RANGE (group). */
QUIRE_API quire_code quire_cache_get_group_stats(quire_cache *cache, uint32_t group,
                                                 quire_group_stats *stats, quire_error *err);

/* Forgets all published content that no sequence references. If no sequence references any content,
 * everything is forgotten at once. Otherwise the blocks are forgotten one by one.
 * Thread: serialized on cache. Blocking: no. Errors: FAILED_PRECONDITION (steps in flight). */
QUIRE_API quire_code quire_cache_reset(quire_cache *cache, quire_error *err);
/* Forgets published blocks by id, for example if their bytes are found to be bad.
 * Where the group needs everything, the descendants of these blocks in the index are forgotten,
 * too. ids[n]: all of one group; the id in any column names its block. Ids of free parts and of
 * other groups are ignored. Ids of blocks that are not published forget nothing. Sequences that use
 * one of the blocks, published or not, keep it. They publish nothing more until they are emptied.
 * Units that wait to be taken (hold.h) are given up: they may have one of the blocks. What tiers
 * have stored of it before is not removed: to keep bad bytes from coming back, begin another epoch.
 * *forgotten: number of forgotten blocks in all groups.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group,
 * ids). */
QUIRE_API quire_code quire_cache_forget_blocks(quire_cache *cache, uint32_t group,
                                               const int32_t *ids, uint64_t n, uint64_t *forgotten,
                                               quire_error *err);
/* Checks every invariant of pool, index, tables and steps by deriving it again. The cost is
 * O(pool).
 * Thread: serialized on cache. Blocking: no. Errors: INTERNAL (names the broken invariant). */
QUIRE_API quire_code quire_cache_verify(quire_cache *cache, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CACHE_H_ */
