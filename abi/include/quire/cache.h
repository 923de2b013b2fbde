/* quire/cache.h: bookkeeping without bytes: sequences, prefix reuse, block tables, steps. Needs no driver.
 *
 * A cache is serialized: one mutating call at a time. quire_probe and quire_cache_get_stats may run from any thread beside them.
 * One engine step is  reserve -> (run kernels) -> commit or abort.  Up to `step_depth` steps may be in flight; they commit in order.
 * Positions count tokens from the start of the sequence. For every sequence  committed <= reserved  and  committed <= known symbols.
 */
#ifndef QUIRE_CACHE_H_
#define QUIRE_CACHE_H_

#include <quire/base.h>
#include <quire/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_cache quire_cache;

/* What prefix matching compares at a position: a token id (below 2^31), or a media symbol from quire_cache_add_media. Since: 0.1 */
typedef uint32_t quire_symbol;
/* A sequence: index (low 32 bits) and generation (high 32 bits). 0 is never a sequence. Stale ids are NOT_FOUND. Since: 0.1 */
typedef uint64_t quire_sequence_id;
/* A step: counts up from 1 in each cache. Since: 0.1 */
typedef uint64_t quire_step_id;

/* Limits of a cache; all their memory is allocated at creation. Descriptor. Since: 0.1 */
typedef struct quire_cache_options {
  uint32_t struct_size;
  uint32_t max_sequences;          /* live at once; 0 = 256 */
  uint32_t max_entries_per_step;   /* 0 = max_sequences */
  uint32_t max_tokens_per_step;    /* tokens computed in one step, look-ahead included; 0 = 8192 */
  uint32_t step_depth;             /* steps in flight; 0 = 2, at most 8 */
  uint32_t max_roots;              /* distinct (salt, adapter, epoch) with sequences or cached content; 0 = 1024. Beyond, the oldest without
                                      sequences is evicted with all its content */
  uint64_t max_index_units;        /* units of prefix held in the index; 0 = derived from the pool */
  uint64_t max_media;              /* distinct media; 0 = 4096 */
  uint64_t hash_seed;              /* keys the index's hash; 0 = drawn at random (results do not depend on it) */
  uint32_t watermark_pages;        /* pages a new sequence leaves free while others use any; running ones may use them */
  uint32_t flags;                  /* QUIRE_CACHE_* */
  uint64_t checkpoint_interval;    /* tokens between kept states, rounded up to the boundary grid; 0 = the plan's */
  const void *next;                /* NULL */
  uint32_t num_state_branches;     /* most draft tokens of a row whose states are written one by one, so that any number of them can be
                                      accepted; at most 64. Each sequence owns as many states more */
  uint32_t keep_states;            /* which states become checkpoints: QUIRE_KEEP_*; 0 = all of these */
  uint64_t window_interval;        /* windows: keep findable what resuming needs at multiples of so many tokens (rounded up to the boundary
                                      grid), at ends of prompts and at junctions; or QUIRE_WINDOWS_AT_ENDS; 0 = wherever a
                                      hit can end: at every boundary, in models with recurrent states where states are kept
                                      (with QUIRE_CACHE_STRICT_LRU at every boundary there, too) */
  uint32_t max_pins;               /* see quire/pin.h; 0 = 64, at most 4096 */
  uint32_t reserved0;              /* 0 */
  uint64_t pin_quota_tokens;       /* tokens that the pins of one salt hold together, shared ones counted for each; 0 = no limit */
  uint64_t checkpoint_bytes;       /* most bytes of kept states, padding of their pages included, on the shard with the largest; enough
                                      for one boundary. Which one goes for a new one: see keep_states. 0 = the pool is the limit */
} quire_cache_options;

/* window_interval: at ends of prompts and at junctions (where earlier requests parted) only. */
#define QUIRE_WINDOWS_AT_ENDS 0xffffffffffffffffu

/* Nothing is published and nothing is matched. */
#define QUIRE_CACHE_NO_PREFIX_REUSE 0x1u
/* A state is written where it is read, unless what is read is kept as a checkpoint or shared: a sequence owns one state (and
 * num_state_branches more) and no spare. What that costs stands at quire_abort. */
#define QUIRE_CACHE_STATES_IN_PLACE 0x2u
/* The engine's kernels write the state of every block boundary that a row crosses (see QUIRE_FILL_STATE_WRITES): each becomes a
 * checkpoint and chunks are not stopped for them. */
#define QUIRE_CACHE_STATES_AT_BLOCKS 0x4u
/* Cached blocks and kept states are given up by their last use alone. Without it, blocks that no boundary of a prefill needs (they left a
 * window within the step that computed them) go first, and kept states go by what they are worth: see keep_states. Since: 0.1 */
#define QUIRE_CACHE_STRICT_LRU 0x10u
/* Follows a cache of another process, which has the same plan: it makes no steps but takes them over as bytes (quire_step_import) and
 * answers what is asked of them as the leader would: quire_step_get_info, fills, lists, quire_memory_prepare_step. All other calls
 * on it are FAILED_PRECONDITION. Options as the leader's: its limits are the room for what comes. */
#define QUIRE_CACHE_FOLLOWER 0x20u

/* keep_states. Whatever the reason, a state is kept only where a hit can end.
 * EVERY: at multiples of checkpoint_interval; without one, of the blocks of the groups of states. CHUNK_END: at the end of rows of several
 * tokens. PROMPT_END, ASKED: at the end of rows with the flag of the same name. JUNCTION: where attention would have resumed and no state
 * was kept, when a chunk ends there the next time.
 * Where one has to go for another within checkpoint_bytes it is the one that is worth least: the tokens to compute again from the state
 * before it, an eighth of them where EVERY or CHUNK_END alone kept it and no hit used it, on top of what the last ones that went were worth
 * when it was kept or used last. All boundaries have the same bytes. Pinned ones stay; where they fill checkpoint_bytes nothing more is
 * kept. The boundaries that one row crosses are kept in their order: the last one may take the place
 * of those before it, never the other way round.
 * In the pool states age like blocks, but those that EVERY or CHUNK_END alone kept and no hit used
 * may go before older ones. */
#define QUIRE_KEEP_EVERY 0x1u
#define QUIRE_KEEP_CHUNK_END 0x2u
#define QUIRE_KEEP_PROMPT_END 0x4u
#define QUIRE_KEEP_JUNCTION 0x8u
#define QUIRE_KEEP_ASKED 0x10u

/* Who may share with whom: sequences share prefixes only when all three are equal, byte for byte. Descriptor. Since: 0.1 */
typedef struct quire_identity {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_SEQUENCE_* */
  quire_str salt;                  /* at most 4096 bytes */
  quire_str adapter;               /* at most 4096 bytes */
  uint64_t epoch;
  uint64_t adapter_number;         /* told in events beside the adapter's name; not part of the identity; 0 = none */
} quire_identity;

/* The sequence never reads the prefix index. */
#define QUIRE_SEQUENCE_NO_MATCH 0x1u
/* The sequence publishes nothing. */
#define QUIRE_SEQUENCE_NO_PUBLISH 0x2u

/* Creates the bookkeeping of a plan. Keeps the config alive. runtime may be NULL (defaults, no log). *out: owned.
 * Models with cross attention have no prefix reuse: what a decoder computes depends on the encoder's input, which no symbol tells.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host). Since: 0.1 */
QUIRE_API quire_code quire_cache_create(quire_runtime *runtime, quire_config *config, const quire_cache_options *options, quire_cache **out,
                                        quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API quire_cache *quire_cache_retain(quire_cache *cache);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API void quire_cache_release(quire_cache *cache);
/* Bytes of host memory allocated at creation. Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. Since: 0.1 */
QUIRE_API quire_code quire_cache_get_host_bytes(quire_cache *cache, uint64_t *bytes, quire_error *err);

/* Opens an empty sequence. identity: borrowed, NULL = no salt, no adapter, epoch 0.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (max_sequences, max_roots). Since: 0.1 */
QUIRE_API quire_code quire_sequence_create(quire_cache *cache, const quire_identity *identity, quire_sequence_id *out, quire_error *err);
/* Ends a sequence; its blocks lose a reference, published ones stay findable. Legal in flight: its late results are dropped.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_sequence_finish(quire_cache *cache, quire_sequence_id sequence, quire_error *err);
/* Gives all blocks of a sequence back and empties it (committed = reserved = 0); the id stays valid. Legal in flight.
 * The next reserve passes the symbols again and may hit what was published. Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_sequence_preempt(quire_cache *cache, quire_sequence_id sequence, quire_error *err);
/* Shortens a sequence to `tokens` committed tokens; with recurrent layers only to 0 or to its current length. Not while in flight.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, OUT_OF_RANGE, FAILED_PRECONDITION (in flight, or a group cannot resume
 * there: the message names the nearest legal length). Since: 0.1 */
QUIRE_API quire_code quire_sequence_truncate(quire_cache *cache, quire_sequence_id sequence, uint64_t tokens, quire_error *err);
/* A new sequence with the same committed tokens; blocks are shared and copied on write. The parent may be in flight: the child has what is
 * committed and knows no symbol beyond that.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, RESOURCE_EXHAUSTED (max_sequences), FAILED_PRECONDITION (a step in flight
 * writes the parent's state in place: commit it first). Since: 0.1 */
QUIRE_API quire_code quire_sequence_fork(quire_cache *cache, quire_sequence_id parent, quire_sequence_id *out, quire_error *err);

/* State of a sequence. Info. Since: 0.1 */
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

/* Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_sequence_get_info(quire_cache *cache, quire_sequence_id sequence, quire_sequence_info *info, quire_error *err);

/* The same digest (32 bytes, e.g. a SHA-256 of the media's bytes) always gets the same symbols: *first .. *first + length - 1 stand for its
 * positions. Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT (length 0 or different from before), RESOURCE_EXHAUSTED.
 * Since: 0.1 */
QUIRE_API quire_code quire_cache_add_media(quire_cache *cache, const uint8_t *digest, uint32_t length, quire_symbol *first,
                                           quire_error *err);

/* Wants of one sequence in a step. Frozen, 48 bytes. Since: 0.1 */
typedef struct quire_reserve_entry {
  quire_sequence_id sequence;
  uint64_t symbols_offset;         /* into symbols[]: the symbol at position `known` */
  uint32_t num_symbols;            /* symbols given; may be 0 when an earlier commit gave or a later one will give them */
  uint32_t num_tokens;             /* most tokens to compute in this step, from `reserved` (after a match: from the hit) on */
  uint32_t num_look_ahead;         /* slots beyond num_tokens that must have memory too */
  uint32_t flags;                  /* QUIRE_ENTRY_* */
  uint64_t full_tokens;            /* 0, or length the whole sequence will reach: admit only if all of it fits now */
  uint64_t encoder_tokens;         /* cross attention, while the sequence is empty: tokens of its encoder, which get memory now and keep it
                                      until the sequence ends or is emptied, at most what the shortest encoder of the plan makes; else 0 */
} quire_reserve_entry;

/* The sequence is empty and all symbols of its prompt are given: reuse the longest prefix, computing at least the last token. Where no
 * other sequence has tokens and pages are short, the reuse ends where what follows would have no room: hit_tokens may be less than a probe
 * says, and miss is QUIRE_MISS_EVICTED then. */
#define QUIRE_ENTRY_MATCH 0x1u
/* num_tokens reaches the end of the prompt: a checkpoint there is worth keeping. */
#define QUIRE_ENTRY_PROMPT_END 0x2u
/* num_tokens is not cut for a checkpoint: the engine chooses its chunks itself. */
#define QUIRE_ENTRY_NO_STOP 0x4u
/* The state at the end of num_tokens is worth keeping (the end of a message, a branching point that the engine knows). */
#define QUIRE_ENTRY_KEEP_STATE 0x8u

/* Why a prefix was not (completely) found. Since: 0.1 */
typedef int32_t quire_miss;
enum quire_miss_e {
  QUIRE_MISS_NONE = 0,          /* everything that may be reused was */
  QUIRE_MISS_UNKNOWN_PREFIX = 1,/* nobody computed these symbols under this identity */
  QUIRE_MISS_EVICTED = 2,       /* it was there and was evicted, or is given up now (see QUIRE_ENTRY_MATCH) */
  QUIRE_MISS_NO_STATE = 3,      /* attention matches further, but no state was kept at a boundary there */
  QUIRE_MISS_WINDOW_HOLE = 4,   /* attention matches further, but a window's blocks are gone */
  QUIRE_MISS_BELOW_UNIT = 5,    /* the rest is shorter than one match unit */
  QUIRE_MISS_DISABLED = 6,
  QUIRE_MISS_FORCE32 = 0x7fffffff
};

/* Answer to one entry. Frozen, 64 bytes. Since: 0.1 */
typedef struct quire_reserve_result {
  quire_sequence_id sequence;
  quire_code code;                 /* QUIRE_OK = admitted; RESOURCE_EXHAUSTED = no room now; others: entry refused, see docs of reserve */
  uint32_t group;                  /* group that lacks parts, when no room */
  uint64_t missing_pages;          /* how many pages more would admit it; see QUIRE_RESULT_NEVER_FITS */
  uint64_t position;               /* first token to compute */
  uint32_t num_tokens;             /* tokens to compute in this step; less than asked where a chunk must stop */
  uint32_t hit_tokens;             /* reused by this call's match */
  quire_miss miss;                 /* of this call's match */
  uint32_t row;                    /* row in the step's tables; 0xffffffff when not admitted */
  uint32_t flags;                  /* QUIRE_RESULT_* */
  uint32_t full_hit_tokens;        /* attention groups alone would have hit this far */
} quire_reserve_result;

/* num_tokens was cut so that a checkpoint can be taken at its end. */
#define QUIRE_RESULT_CHUNK_STOP 0x1u
/* With RESOURCE_EXHAUSTED: neither waiting nor preempting helps. With nothing in the pool but what the sequence has this entry is refused,
 * too, with nothing to hit where it asked for a match. `group` needs most, together they need missing_pages more than there are: give fewer
 * tokens at once, or give the sequence up. Not said while it has steps in flight. Without it missing_pages of what others use or pin would
 * do; a sequence that is alone and refused without it lies scattered over pages, or has a block to copy: preempt it, it fits anew. */
#define QUIRE_RESULT_NEVER_FITS 0x2u

/* Reserves memory for one step over all entries. Entries are served in order; a refused entry changes nothing and the others proceed.
 * entries[n], symbols[num_symbols]: borrowed. results[n] is written. *step = 0 when no entry was admitted (then there is no step).
 * Per-entry codes: OK; RESOURCE_EXHAUSTED (no room: finish, preempt or wait, but for QUIRE_RESULT_NEVER_FITS); NOT_FOUND (stale id);
 * INVALID_ARGUMENT (num_tokens 0, MATCH or encoder_tokens of one not empty); OUT_OF_RANGE (beyond max_model_len or the step's tokens);
 * ALREADY_EXISTS (sequence twice in one step). num_tokens is cut, never refused, where the step has fewer tokens left, and with MATCH to
 * the symbols behind the hit. Symbols of a prompt behind the tokens of this step are not kept: pass them again with the next chunk, from
 * `known` on.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT (encoder_tokens without cross attention), OUT_OF_RANGE (offsets
 * outside symbols, more encoder_tokens than the plan's), RESOURCE_EXHAUSTED (limit named), FAILED_PRECONDITION (step_depth steps are in
 * flight). Since: 0.1 */
QUIRE_API quire_code quire_reserve(quire_cache *cache, const quire_reserve_entry *entries, uint64_t n, const quire_symbol *symbols,
                                   uint64_t num_symbols, quire_reserve_result *results, quire_step_id *step, quire_error *err);

/* Outcome of one row of a step. Frozen, 32 bytes. Since: 0.1 */
typedef struct quire_commit_entry {
  quire_sequence_id sequence;
  uint64_t symbols_offset;         /* into symbols[] */
  uint32_t num_symbols;            /* newly known symbols, for the positions from `known` on; rejected tokens are forgotten first */
  uint32_t num_accepted;           /* tokens of this row whose result stands; the rest is rolled back */
  uint64_t reserved0;              /* 0 */
} quire_commit_entry;

/* Commits the oldest step in flight: entries are its admitted rows in row order. Publishes complete blocks, releases what left live ranges,
 * takes checkpoints. Rows of sequences that were finished or preempted meanwhile are given too and dropped.
 * With recurrent layers num_accepted is 0 or all, unless the row has at most num_state_branches + 1 tokens: then any number. Where 0 are
 * accepted and the state was written in place, the sequence is emptied as by quire_abort.
 * When num_accepted < num_tokens no later step of that sequence may be in flight.
 * After a commit the symbols of all committed tokens are known (unless the sequence does not publish), and at most one match unit more.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND (no such step), FAILED_PRECONDITION (not the
 * oldest); nothing changes on error. Since: 0.1 */
QUIRE_API quire_code quire_commit(quire_cache *cache, quire_step_id step, const quire_commit_entry *entries, uint64_t n,
                                  const quire_symbol *symbols, uint64_t num_symbols, quire_error *err);
/* Undoes a step and all later ones: sequences, tables and counters are as before; what was evicted for it stays evicted.
 * The step's kernels must be done or not started, or be ordered before all later work on the same stream: its blocks may be reused at once.
 * Symbols that came with its reserves are forgotten, those that a commit told are kept: see `known` of quire_sequence_get_info.
 * With QUIRE_CACHE_STATES_IN_PLACE kernels may have overwritten the state of a sequence: it is emptied as by quire_sequence_preempt
 * (committed = known = 0), and its next reserve with QUIRE_ENTRY_MATCH resumes from the last boundary that was kept. Rows that wrote
 * another state than they read are undone exactly. Use quire_abort_unstarted where no kernel of the steps has run.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_abort(quire_cache *cache, quire_step_id step, quire_error *err);
/* The same for steps of which no kernel has run or will run (lists of zeroes and copies may have been executed): all sequences are as
 * before, also those whose states would have been written in place.
 * Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_abort_unstarted(quire_cache *cache, quire_step_id step, quire_error *err);

/* Facts of a step in flight. Info. Since: 0.1 */
typedef struct quire_step_info {
  uint32_t struct_size;
  uint32_t num_rows;               /* admitted sequences */
  uint64_t num_tokens;             /* computed by all rows */
  uint64_t num_copies;
  uint64_t num_zeroes;
} quire_step_info;

/* Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. Since: 0.1 */
QUIRE_API quire_code quire_step_get_info(quire_cache *cache, quire_step_id step, quire_step_info *info, quire_error *err);

/* What quire_step_fill writes. A group of cross attention has a table of the sequence's encoder tokens, the same in every step, KV_LEN says
 * how many they are, and SLOTS are those of the encoder tokens of rows at position 0, whose keys and values are to be written in this step.
 * Since: 0.1 */
typedef int32_t quire_fill_kind;
enum quire_fill_kind_e {
  QUIRE_FILL_TABLE = 1,         /* int32 [column][row][pitch]: lowered ids, null ids in holes, fill_value behind the end */
  QUIRE_FILL_TABLE_INDPTR = 2,  /* int32 [row + 1]: offsets of QUIRE_FILL_TABLE_INDICES, the same for all columns */
  QUIRE_FILL_TABLE_INDICES = 3, /* int32 [column][indptr[rows]]: pitch = bytes from column to column / 4 */
  QUIRE_FILL_SLOTS = 4,         /* int64 [column][pitch]: lowered id * kernel_block_tokens + t per computed token; -1 = not stored */
  QUIRE_FILL_STATE_READ = 5,    /* int32 [column][pitch >= rows]: lowered id to read; the null page's (all zero) at position 0 */
  QUIRE_FILL_STATE_WRITE = 6,   /* int32 [column][pitch >= rows]: lowered id of the state after the row's last token; the one read only
                                   with QUIRE_CACHE_STATES_IN_PLACE */
  QUIRE_FILL_KV_LEN = 7,        /* int32 [row]: tokens after the step; of a group of cross attention those of the encoder */
  QUIRE_FILL_QUERY_INDPTR = 8,  /* int32 [row + 1]: offsets of the rows' tokens */
  QUIRE_FILL_POSITIONS = 9,     /* int32 [token] */
  QUIRE_FILL_RAW_TABLE = 10,    /* as TABLE, with ids instead of lowered ids */
  QUIRE_FILL_STATE_WRITE_INDPTR = 11, /* int32 [row + 1]: offsets of a group's STATE_WRITES; one per row without branches and AT_BLOCKS */
  QUIRE_FILL_STATE_WRITES = 12, /* int32 [column][indptr[rows]]: all states that rows write, lowered; a row's last is its STATE_WRITE. Of a
                                   row of at most num_state_branches + 1 tokens one per token; pitch as TABLE_INDICES */
  QUIRE_FILL_STATE_WRITE_ENDS = 13, /* int32 [indptr[rows]]: the sequence's tokens behind which each of them is the state */
  /* For an engine that keeps its tables on the device, a row of columns per sequence, and uploads what changed: of each row of the step the
     stretch of its table that the sequence's row before, in flight or committed, did not show as it is now. A sequence's first row, and
     the first after a preemption, show all. What an aborted step showed is shown again. Entries that left the live range are not told:
     no kernel reads them. Lists are to be taken over in the order of the steps. Of loads: their whole tables. */
  QUIRE_FILL_UPDATE_INDPTR = 14,  /* int32 [row + 1]: offsets of UPDATE_INDICES, the same for all columns */
  QUIRE_FILL_UPDATE_FIRST = 15,   /* int32 [row]: the entry of the row's table that its stretch begins at */
  QUIRE_FILL_UPDATE_INDICES = 16, /* int32 [column][indptr[rows]]: lowered ids of whole blocks, so the last may have entries behind those
                                     that TABLE shows; pitch as TABLE_INDICES */
  QUIRE_FILL_SLOTS_INDPTR = 17, /* int32 [row + 1]: offsets of the rows' SLOTS: QUERY_INDPTR, but of groups of cross attention */
  QUIRE_FILL_KIND_FORCE32 = 0x7fffffff
};

/* One array to write. Descriptor. Since: 0.1 */
typedef struct quire_fill {
  uint32_t struct_size;
  quire_fill_kind kind;
  uint32_t group;
  uint32_t shard;                  /* whose lowering */
  uint32_t first_column;
  uint32_t num_columns;            /* 0 = all from first_column on */
  void *destination;               /* host memory, aligned to its element */
  uint64_t capacity;               /* elements behind destination */
  uint64_t pitch;                  /* elements from row to row; see kinds */
  uint64_t column_pitch;           /* elements from column to column; 0 = rows * pitch (tables), pitch (others) */
  int64_t fill_value;              /* tables: behind the end of a row */
  const void *next;                /* NULL */
  uint32_t num_rows;               /* rows and tokens of an array of fixed shape, as a captured graph has: those behind the step's are */
  uint32_t num_tokens;             /* empty, see below; each 0 = those of the step, else no less */
} quire_fill;

/* What arrays of a fixed shape have behind the step's rows and tokens; kernels take all num_rows and num_tokens, do nothing for the rows,
 * write nothing for the tokens. Rows: tables 0 (the null page) in every entry, lengths and UPDATE_FIRST 0, indptrs the last one again (no
 * row has the tokens behind the step's, no list grows), STATE_READ the null page's state, STATE_WRITE -1. Tokens: slots -1, positions 0.
 * The same destinations can be filled for every step: nothing that an earlier one left there is seen. */

/* Writes one array of a step in flight into the caller's memory. *written receives the elements needed; when capacity is smaller nothing
 * is written. Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_step_fill(quire_cache *cache, quire_step_id step, const quire_fill *fill, uint64_t *written, quire_error *err);

/* Arrays of one call of quire_step_fill_arrays. Since: 0.1 */
#define QUIRE_MAX_FILLS 256

/* Writes several arrays of a step in flight at once: what a step needs in one call. fills: n descriptors, stride = bytes from one to the
 * next, borrowed. written[n]: the elements needed of each array, also where the call fails for want of capacity. Nothing is written
 * into any destination unless all can be. Messages name the array by its index where n > 1.
 * Thread: serialized on cache. Blocking: no. Errors: as quire_step_fill; INVALID_ARGUMENT (n is 0 or above QUIRE_MAX_FILLS). Since: 0.1 */
QUIRE_API quire_code quire_step_fill_arrays(quire_cache *cache, quire_step_id step, const quire_fill *fills, uint64_t stride, uint64_t n,
                                            uint64_t *written, quire_error *err);

/* Copy the payload of one id to another before the step's kernels run. Frozen, 24 bytes. Since: 0.1 */
typedef struct quire_copy {
  uint32_t group;
  uint32_t column;
  int32_t source;                  /* id */
  int32_t destination;             /* id */
  uint32_t first_token;            /* rows of the block that matter: [first_token, first_token + num_tokens) */
  uint32_t num_tokens;             /* 0 = all */
} quire_copy;

/* Zero a page, or the payload of one id, before the step's kernels run. Frozen, 16 bytes. Since: 0.1 */
typedef struct quire_zero {
  uint32_t group;                  /* 0xffffffff = `id` is a page number: all its bytes */
  uint32_t column;
  int32_t id;
  uint32_t reserved0;
} quire_zero;

/* Copies of a step in flight, two-call array. Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_step_list_copies(quire_cache *cache, quire_step_id step, quire_copy *items, uint64_t capacity, uint64_t *count,
                                            quire_error *err);
/* Zeroes of a step in flight, two-call array. Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND, OUT_OF_RANGE. Since: 0.1 */
QUIRE_API quire_code quire_step_list_zeroes(quire_cache *cache, quire_step_id step, quire_zero *items, uint64_t capacity, uint64_t *count,
                                            quire_error *err);

/* Writes a step in flight, or a load, as bytes for followers: what fills and lists say of it now. bytes: NULL with capacity 0 asks for the
 * size alone. *size: bytes needed; where capacity is smaller nothing is written. The format has a version and a checksum and is
 * the same on every machine; tables in consecutive blocks take few bytes, however long. Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE (capacity), FAILED_PRECONDITION (a follower). Since: 0.1 */
QUIRE_API quire_code quire_step_export(quire_cache *cache, quire_step_id step, void *bytes, uint64_t capacity, uint64_t *size,
                                       quire_error *err);
/* Takes a step of the leader over. bytes[size]: borrowed, from anybody. *step: its id at the leader. Of the steps imported the last
 * step_depth can be asked; one more takes the place of the oldest, one of the same id the place of the one before. There is nothing to
 * commit or abort. Thread: serialized on cache. Blocking: no. Errors: FAILED_PRECONDITION (not a follower), DATA_LOSS (cut or
 * changed), INCOMPATIBLE_ABI (another version of the format), INVALID_ARGUMENT (another plan: the difference is named),
 * RESOURCE_EXHAUSTED (limit named); nothing changes on error. Since: 0.1 */
QUIRE_API quire_code quire_step_import(quire_cache *cache, const void *bytes, uint64_t size, quire_step_id *step, quire_error *err);

/* What a prompt would hit now. Info. Since: 0.1 */
typedef struct quire_probe_result {
  uint32_t struct_size;
  quire_miss miss;
  uint64_t hit_tokens;
  uint64_t full_hit_tokens;        /* attention groups alone */
} quire_probe_result;

/* Thread: any thread; mutating calls do not wait for it. Blocking: no. Errors: INVALID_ARGUMENT. Since: 0.1 */
QUIRE_API quire_code quire_probe(quire_cache *cache, const quire_identity *identity, const quire_symbol *symbols, uint64_t num_symbols,
                                 quire_probe_result *result, quire_error *err);

/* Counters since creation, and the present state. Info. Since: 0.1 */
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
  uint64_t checkpoints_given_up;   /* boundaries that lost a state to a new one, because of checkpoint_bytes */
  uint64_t checkpoints_declined;   /* boundaries whose state was not kept, because pinned ones fill checkpoint_bytes */
  uint64_t recompute_avoided;      /* tokens between the states that matches resumed from and the states before those */
} quire_cache_stats;

/* Thread: any thread. Blocking: waits for a mutating call in progress. Errors: INVALID_ARGUMENT. Since: 0.1 */
QUIRE_API quire_code quire_cache_get_stats(quire_cache *cache, quire_cache_stats *stats, quire_error *err);
/* Forgets all published content that no sequence references: at once where none references any, else block by block. Thread: serialized
 * on cache. Blocking: no. Errors: FAILED_PRECONDITION (steps in flight). Since: 0.1 */
QUIRE_API quire_code quire_cache_reset(quire_cache *cache, quire_error *err);
/* Forgets published blocks by id, as when their bytes turned out to be bad; what hangs below in the index follows from them and goes too,
 * where the group needs everything. ids[n]: of one group, any column's id names its block; ids that name no published block are passed
 * over. Sequences that use a block keep it and publish nothing more until they are emptied. *forgotten: blocks of all groups.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group, ids). Since: 0.1 */
QUIRE_API quire_code quire_cache_forget_blocks(quire_cache *cache, uint32_t group, const int32_t *ids, uint64_t n, uint64_t *forgotten,
                                               quire_error *err);
/* Re-derives every invariant of pool, index, tables and steps; O(pool). Thread: serialized on cache. Blocking: no.
 * Errors: INTERNAL naming the invariant that is broken. Since: 0.1 */
QUIRE_API quire_code quire_cache_verify(quire_cache *cache, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_CACHE_H_ */
