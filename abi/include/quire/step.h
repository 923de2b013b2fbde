/* quire/step.h: steps. One iteration of an engine is
 *   quire_reserve -> (fills, copies and zeroes, kernels) -> quire_commit or quire_abort.
 * Up to `step_depth` steps may be in flight; they commit in order.
 */
#ifndef QUIRE_STEP_H_
#define QUIRE_STEP_H_

#include <quire/base.h>
#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one sequence asks of a step. Frozen, 56 bytes. */
typedef struct quire_reserve_entry {
  quire_sequence_id sequence;
  uint64_t symbols_position;       /* position of the first symbol given: `known` of
                                    * quire_sequence_get_info. Another one is refused. Not read
                                    * when num_symbols is 0 */
  uint64_t symbols_offset;         /* of that symbol in symbols[] */
  uint32_t num_symbols;            /* may be 0 when an earlier commit gave them or a later one
                                    * will */
  uint32_t num_tokens;             /* most tokens to compute in this step, from `reserved` (after
                                    * a match: from the hit) on */
  uint32_t num_look_ahead;         /* slots after num_tokens that must have memory too */
  uint32_t flags;                  /* QUIRE_ENTRY_* */
  uint64_t full_tokens;            /* 0, or the length that the whole sequence will reach: admit
                                    * only if all of it fits now */
  uint64_t encoder_tokens;         /* cross attention, while the sequence is empty: tokens of its
                                    * encoder, which get memory now and keep it until the
                                    * sequence ends or is emptied, at most what the shortest
                                    * encoder of the plan makes; otherwise 0 */
} quire_reserve_entry;

/* The sequence is empty and all symbols of its prompt are given: reuse the longest prefix,
 * computing at least the last token. Where no other sequence has tokens and pages are short, the
 * reuse ends where what follows would have no room: hit_tokens may be less than a probe says, and
 * miss is QUIRE_MISS_EVICTED then. */
#define QUIRE_ENTRY_MATCH 0x1u
/* num_tokens reaches the end of the prompt: a checkpoint there is worth keeping. */
#define QUIRE_ENTRY_PROMPT_END 0x2u
/* num_tokens is not cut for a checkpoint: the engine chooses its chunks itself. */
#define QUIRE_ENTRY_NO_STOP 0x4u
/* The state at the end of num_tokens is worth keeping (the end of a message, a branching point that
 * the engine knows). */
#define QUIRE_ENTRY_KEEP_STATE 0x8u

/* Why an entry was refused. */
typedef int32_t quire_refusal;
enum quire_refusal_e {
  QUIRE_REFUSAL_NONE = 0,        /* it was admitted */
  QUIRE_REFUSAL_NO_ROOM = 1,     /* RESOURCE_EXHAUSTED: finish or preempt a sequence, or wait */
  QUIRE_REFUSAL_NEVER_FITS = 2,  /* RESOURCE_EXHAUSTED with QUIRE_RESULT_NEVER_FITS: give the
                                  * sequence up */
  QUIRE_REFUSAL_STEP_FULL = 3,   /* NOT_READY: the step's tokens are used up; ask again in the
                                  * next step */
  QUIRE_REFUSAL_TOO_LONG = 4,    /* OUT_OF_RANGE: max_model_len; end the sequence */
  QUIRE_REFUSAL_STALE = 5,       /* NOT_FOUND: no such sequence */
  QUIRE_REFUSAL_TWICE = 6,       /* ALREADY_EXISTS: an earlier entry names the sequence */
  QUIRE_REFUSAL_LOADING = 7,     /* FAILED_PRECONDITION: a load of the sequence is in progress */
  QUIRE_REFUSAL_NO_TOKENS = 8,   /* INVALID_ARGUMENT: num_tokens is 0 */
  QUIRE_REFUSAL_NOT_EMPTY = 9,   /* INVALID_ARGUMENT: QUIRE_ENTRY_MATCH or encoder_tokens for a
                                  * sequence that has tokens */
  QUIRE_REFUSAL_NO_PROMPT = 10,  /* INVALID_ARGUMENT: QUIRE_ENTRY_MATCH without symbols */
  QUIRE_REFUSAL_POSITION = 11,   /* INVALID_ARGUMENT: symbols_position is not `known` */
  QUIRE_REFUSAL_LOOK_AHEAD = 12, /* OUT_OF_RANGE: num_look_ahead leaves no token of
                                  * max_tokens_per_step */
  QUIRE_REFUSAL_FORCE32 = -0x7fffffff
};

/* One sentence for logs, e.g. "the step's tokens are used up; ask again in the next step"; lives
 * forever.
 * Thread: any thread. Blocking: no. */
QUIRE_API quire_str quire_refusal_text(quire_refusal reason);

/* Answer to one entry. Frozen, 64 bytes. */
typedef struct quire_reserve_result {
  quire_sequence_id sequence;
  quire_code code;                 /* QUIRE_OK = admitted; else see `reason` */
  quire_refusal reason;
  uint64_t missing_pages;          /* how many more pages would admit it; see
                                    * QUIRE_RESULT_NEVER_FITS */
  uint64_t position;               /* first token to compute */
  uint32_t num_tokens;             /* tokens to compute in this step; fewer than asked where a
                                    * chunk must stop */
  uint32_t hit_tokens;             /* reused by this call's match */
  quire_miss miss;                 /* of this call's match */
  uint32_t row;                    /* row in the step's tables; 0xffffffff when not admitted */
  uint32_t flags;                  /* QUIRE_RESULT_* */
  uint32_t full_hit_tokens;        /* attention groups alone would have hit this far */
  uint32_t group;                  /* group that lacks parts, when there is no room */
  uint32_t reserved0;              /* 0 */
} quire_reserve_result;

/* num_tokens was cut so that a checkpoint can be taken at its end. */
#define QUIRE_RESULT_CHUNK_STOP 0x1u
/* With RESOURCE_EXHAUSTED: neither waiting nor preempting helps. With nothing in the pool but what
 * the sequence has this entry is refused, too, with nothing to hit where it asked for a match.
 * `group` needs most, together they need missing_pages more than there are: give fewer tokens at
 * once, or give the sequence up. Not said while it has steps in flight. Without it missing_pages of
 * what others use or pin would do; a sequence that is alone and refused without it lies scattered
 * over pages, or has a block to copy: preempt it, it fits anew. */
#define QUIRE_RESULT_NEVER_FITS 0x2u

/* Reserves memory for one step over all entries. Entries are served in order; a refused entry
 * changes nothing and the others proceed. entries[n], symbols[num_symbols]: borrowed. results[n] is
 * written: code and reason of each entry. *step = 0 when no entry was admitted (then there is no
 * step). num_tokens is cut, never refused, where the step has fewer tokens left, and with MATCH to
 * the symbols after the hit. Symbols of a prompt after the tokens of this step are not kept: pass
 * them again with the next chunk, from `known` on.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (encoder_tokens without cross attention), OUT_OF_RANGE (offsets outside
 * symbols, more encoder_tokens than the plan's), RESOURCE_EXHAUSTED (limit named),
 * FAILED_PRECONDITION (step_depth steps are in flight). */
QUIRE_API quire_code quire_reserve(quire_cache *cache, const quire_reserve_entry *entries,
                                   uint64_t n, const quire_symbol *symbols, uint64_t num_symbols,
                                   quire_reserve_result *results, quire_step_id *step,
                                   quire_error *err);

/* Outcome of one row of a step. Frozen, 32 bytes. */
typedef struct quire_commit_entry {
  quire_sequence_id sequence;
  uint64_t symbols_position;       /* position of the first symbol given: the first one that is
                                    * not known once rejected tokens are forgotten. Not read when
                                    * num_symbols is 0 */
  uint64_t symbols_offset;         /* of that symbol in symbols[] */
  uint32_t num_symbols;            /* newly known symbols */
  uint32_t num_accepted;           /* tokens of this row whose result stands; the rest is rolled
                                    * back */
} quire_commit_entry;

/* Commits the oldest step in flight: entries are its admitted rows in row order. Publishes complete
 * blocks, releases what left live ranges, takes checkpoints. Rows of sequences that were finished
 * or preempted meanwhile are given too and dropped. With recurrent layers num_accepted is 0 or all,
 * unless the row has at most num_state_branches + 1 tokens: then any number. Where 0 are accepted
 * and the state was written in place, the sequence is emptied as by quire_abort. When num_accepted
 * < num_tokens no later step of that sequence may be in flight. After a commit the symbols of all
 * committed tokens are known (unless the sequence does not publish), and at most one match unit
 * more.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND (no
 * such step), FAILED_PRECONDITION (not the oldest); nothing changes on error. */
QUIRE_API quire_code quire_commit(quire_cache *cache, quire_step_id step,
                                  const quire_commit_entry *entries, uint64_t n,
                                  const quire_symbol *symbols, uint64_t num_symbols,
                                  quire_error *err);
/* No kernel of the steps has run or will run; zeroes and copies may have been executed. */
#define QUIRE_ABORT_NOT_LAUNCHED 0x1u

/* Undoes a step and all later ones: sequences, tables and counters are as before; what was evicted
 * for it stays evicted. The step's kernels must be done or not launched, or be ordered before all
 * later work on the same stream: its blocks may be reused at once. Symbols that came with its
 * reserves are forgotten; those that a commit gave are kept: see `known` of
 * quire_sequence_get_info. flags: QUIRE_ABORT_*. With QUIRE_CACHE_STATES_IN_PLACE kernels may have
 * overwritten the state of a sequence: it is emptied as by quire_sequence_preempt (committed =
 * known = 0), and its next reserve with QUIRE_ENTRY_MATCH resumes from the last boundary that was
 * kept. Rows that wrote another state than they read are undone exactly. With
 * QUIRE_ABORT_NOT_LAUNCHED all rows are.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT (flags), NOT_FOUND. */
QUIRE_API quire_code quire_abort(quire_cache *cache, quire_step_id step, uint32_t flags,
                                 quire_error *err);

/* Facts of a step in flight. Info. */
typedef struct quire_step_info {
  uint32_t struct_size;
  uint32_t num_rows;               /* admitted sequences */
  uint64_t num_tokens;             /* computed by all rows */
  uint64_t num_copies;
  uint64_t num_zeroes;
} quire_step_info;

/* Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. */
QUIRE_API quire_code quire_step_get_info(quire_cache *cache, quire_step_id step,
                                         quire_step_info *info, quire_error *err);

/* What quire_step_fill writes. A group of cross attention has a table of the sequence's encoder
 * tokens, the same in every step, KV_LEN says how many they are, and SLOTS are those of the encoder
 * tokens of rows at position 0, whose keys and values are to be written in this step. */
typedef int32_t quire_fill_kind;
enum quire_fill_kind_e {
  QUIRE_FILL_TABLE = 1,         /* int32 [column][row][pitch]: lowered ids, null ids in holes,
                                 * fill_value behind the end */
  QUIRE_FILL_TABLE_INDPTR = 2,  /* int32 [row + 1]: offsets of QUIRE_FILL_TABLE_INDICES, the same
                                 * for all columns */
  QUIRE_FILL_TABLE_INDICES = 3, /* int32 [column][indptr[rows]]: pitch = bytes from column to
                                 * column / 4 */
  QUIRE_FILL_SLOTS = 4,         /* int64 [column][pitch]: lowered id * kernel_block_tokens + t
                                 * per computed token; -1 = not stored */
  QUIRE_FILL_STATE_READ = 5,    /* int32 [column][pitch >= rows]: lowered id to read; the null
                                 * page's (all zero) at position 0 */
  QUIRE_FILL_STATE_WRITE = 6,   /* int32 [column][pitch >= rows]: lowered id of the state after
                                 * the row's last token; the one read only with
                                 * QUIRE_CACHE_STATES_IN_PLACE */
  QUIRE_FILL_KV_LEN = 7,        /* int32 [row]: tokens after the step; of a group of cross
                                 * attention those of the encoder */
  QUIRE_FILL_QUERY_INDPTR = 8,  /* int32 [row + 1]: offsets of the rows' tokens */
  QUIRE_FILL_POSITIONS = 9,     /* int32 [token] */
  QUIRE_FILL_RAW_TABLE = 10,    /* as TABLE, with ids instead of lowered ids */
  QUIRE_FILL_STATE_WRITE_INDPTR = 11, /* int32 [row + 1]: offsets of a group's STATE_WRITES; one
                                       * per row without branches and AT_BLOCKS */
  QUIRE_FILL_STATE_WRITES = 12, /* int32 [column][indptr[rows]]: all states that rows write,
                                 * lowered; a row's last is its STATE_WRITE. Of a row of at most
                                 * num_state_branches + 1 tokens one per token; pitch as
                                 * TABLE_INDICES */
  QUIRE_FILL_STATE_WRITE_ENDS = 13, /* int32 [indptr[rows]]: the sequence's tokens behind which
                                     * each of them is the state */
  /* For an engine that keeps its tables on the device, a row of columns per sequence, and
   * uploads what changed: of each row of the step the stretch of its table that the sequence's
   * row before, in flight or committed, did not show as it is now. A sequence's first row, and
   * the first after a preemption, show all. What an aborted step showed is shown again. Entries
   * that left the live range are not told: no kernel reads them. Lists are to be taken over in
   * the order of the steps. Of loads: their whole tables. */
  QUIRE_FILL_UPDATE_INDPTR = 14,  /* int32 [row + 1]: offsets of UPDATE_INDICES, the same for all
                                   * columns */
  QUIRE_FILL_UPDATE_FIRST = 15,   /* int32 [row]: the entry of the row's table that its stretch
                                   * begins at */
  QUIRE_FILL_UPDATE_INDICES = 16, /* int32 [column][indptr[rows]]: lowered ids of whole blocks,
                                   * so the last may have entries behind those that TABLE shows;
                                   * pitch as TABLE_INDICES */
  QUIRE_FILL_SLOTS_INDPTR = 17, /* int32 [row + 1]: offsets of the rows' SLOTS: QUERY_INDPTR, but
                                 * of groups of cross attention */
  QUIRE_FILL_KIND_FORCE32 = -0x7fffffff
};

/* One array to write. Descriptor. */
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
  uint64_t column_pitch;           /* elements from column to column; 0 = rows * pitch (tables),
                                    * pitch (others) */
  int64_t fill_value;              /* tables: behind the end of a row */
  uint32_t num_rows;               /* rows and tokens of an array of fixed shape, as a captured
                                    * graph has: those behind the step's are */
  uint32_t num_tokens;             /* empty, see below; each 0 = those of the step, else no less */
} quire_fill;

/* What arrays of a fixed shape have behind the step's rows and tokens; kernels take all num_rows
 * and num_tokens, do nothing for the rows, write nothing for the tokens. Rows: tables 0 (the null
 * page) in every entry, lengths and UPDATE_FIRST 0, indptrs the last one again (no row has the
 * tokens behind the step's, no list grows), STATE_READ the null page's state, STATE_WRITE -1.
 * Tokens: slots -1, positions 0. The same destinations can be filled for every step: nothing that
 * an earlier one left there is seen. */

/* Arrays of one call of quire_step_fill. */
#define QUIRE_MAX_FILLS 256

/* Writes arrays of a step in flight into the caller's memory: everything a step needs in one call.
 * fills: n descriptors, stride = bytes from one to the next, borrowed. written[n]: the elements
 * that each array needs, also where the call fails for lack of capacity. Nothing is written into
 * any destination unless all can be. Messages name the array by its index where n > 1.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (also n 0 or above QUIRE_MAX_FILLS), NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_fill(quire_cache *cache, quire_step_id step,
                                     const quire_fill *fills, uint64_t stride, uint64_t n,
                                     uint64_t *written, quire_error *err);

/* Copy the payload of one id to another before the step's kernels run. Frozen, 24 bytes. */
typedef struct quire_copy {
  uint32_t group;
  uint32_t column;
  int32_t source;                  /* id */
  int32_t destination;             /* id */
  uint32_t first_token;            /* rows of the block that matter: [first_token, first_token +
                                    * num_tokens) */
  uint32_t num_tokens;             /* 0 = all */
} quire_copy;

/* Zero a page, or the payload of one id, before the step's kernels run. Frozen, 16 bytes. */
typedef struct quire_zero {
  uint32_t group;                  /* 0xffffffff = `id` is a page number: all its bytes */
  uint32_t column;
  int32_t id;
  uint32_t reserved0;
} quire_zero;

/* Copies of a step in flight, two-call array. Thread: serialized on cache. Blocking: no. Errors:
 * NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_list_copies(quire_cache *cache, quire_step_id step,
                                            quire_copy *items, uint64_t capacity, uint64_t *count,
                                            quire_error *err);
/* Zeroes of a step in flight, two-call array. Thread: serialized on cache. Blocking: no. Errors:
 * NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_list_zeroes(quire_cache *cache, quire_step_id step,
                                            quire_zero *items, uint64_t capacity, uint64_t *count,
                                            quire_error *err);

/* Writes a step in flight, or a load, as bytes for followers: what fills and lists say of it now.
 * bytes: NULL with capacity 0 asks for the size alone. *size: bytes needed; where capacity is
 * smaller nothing is written. The format has a version and a checksum and is the same on every
 * machine; tables in consecutive blocks take few bytes, however long. Thread: serialized on cache.
 * Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE (capacity), FAILED_PRECONDITION (a follower).
 */
QUIRE_API quire_code quire_step_export(quire_cache *cache, quire_step_id step, void *bytes,
                                       uint64_t capacity, uint64_t *size, quire_error *err);
/* Takes a step of the leader over. bytes[size]: borrowed, from anybody. *step: its id at the
 * leader. Of the steps imported the last step_depth can be asked; one more takes the place of the
 * oldest, one of the same id the place of the one before. There is nothing to commit or abort.
 * Thread: serialized on cache. Blocking: no. Errors: FAILED_PRECONDITION (not a follower),
 * DATA_LOSS (cut or changed), INCOMPATIBLE_ABI (another version of the format), INVALID_ARGUMENT
 * (another plan: the difference is named), RESOURCE_EXHAUSTED (limit named); nothing changes on
 * error. */
QUIRE_API quire_code quire_step_import(quire_cache *cache, const void *bytes, uint64_t size,
                                       quire_step_id *step, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_STEP_H_ */
