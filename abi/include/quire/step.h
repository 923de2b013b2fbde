/* quire/step.h: steps. One iteration of an engine is
 *   quire_reserve -> (batch or fills, copies and zeroes, kernels) -> quire_commit or quire_abort.
 * Up to `step_depth` steps may be in flight. They commit in order. */
#ifndef QUIRE_STEP_H_
#define QUIRE_STEP_H_

#include <quire/base.h>
#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A step or a load in flight. It is a value: copy it freely. All zero = no step. It does not keep
 * its owner alive. Frozen, 16 bytes. */
typedef struct quire_step {
  const void *owner;   /* the quire_cache that made it, or the quire_follower that imported it */
  uint64_t id;         /* a cache counts its steps up from 1; a follower has its leader's ids */
} quire_step;

/* The request of one sequence in a step. Frozen, 56 bytes. */
typedef struct quire_reserve_entry {
  quire_sequence_id sequence;
  /* Position of the first symbol given. It must be `known` of quire_sequence_get_info; the entry is
   * refused otherwise. Ignored if num_symbols is 0. */
  uint64_t symbols_position;
  uint64_t symbols_offset;         /* index of that symbol in symbols[] */
  /* May be 0 if an earlier commit gave the symbols or a later one will. */
  uint32_t num_symbols;
  /* Maximum number of tokens to compute in this step. They start at `reserved`, or after a match at
   * the end of the hit. */
  uint32_t num_tokens;
  uint32_t num_look_ahead;         /* slots after num_tokens that must have memory as well */
  uint32_t flags;                  /* QUIRE_ENTRY_* */
  /* 0, or the final length of the whole sequence. The entry is then admitted only if all of it fits
   * now. While other sequences have tokens, an empty sequence must also leave in the cache what
   * their next turns resume from: up to a quarter of the pool, nothing with QUIRE_CACHE_STRICT_LRU.
   */
  uint64_t full_tokens;
  /* Cross attention, while the sequence is empty: tokens of its encoder, at most what the shortest
   * encoder of the plan produces. They get memory now and keep it until the sequence ends or is
   * emptied. Otherwise 0. */
  uint64_t encoder_tokens;
} quire_reserve_entry;

/* The sequence is empty and all symbols of its prompt are given. The longest cached prefix is
 * reused. At least the last token is computed.
 * If no other sequence has tokens and pages are short, the hit is shortened so that the rest of the
 * sequence has room. hit_tokens may then be less than a probe reports, and miss is
 * QUIRE_MISS_EVICTED. */
#define QUIRE_ENTRY_MATCH 0x1u
/* num_tokens reaches the prompt's end. Set it only if no entry of the prompt had MATCH: the symbols
 * of a match say where the prompt ends, also for its later chunks. With MATCH it changes nothing,
 * unless the entry has NO_STOP. A state is kept at the last boundary of the prompt, or at
 * one up to 2,048 tokens earlier if requests of this cache resume there more often. The chunk in
 * which that boundary lies stops there. */
#define QUIRE_ENTRY_PROMPT_END 0x2u
/* num_tokens is not cut. A state is then kept only if num_tokens ends on a boundary. */
#define QUIRE_ENTRY_NO_STOP 0x4u
/* Like PROMPT_END for another place that is worth a state, for example the end of a message or a
 * branch point that the engine knows. On a row of one token it keeps the state if a hit can end
 * after that token. On all rows that decode, it lets the next turn of a conversation resume at the
 * last such place in the answer. */
#define QUIRE_ENTRY_KEEP_STATE 0x8u

/* Why an entry was refused. */
typedef int32_t quire_refusal;
enum quire_refusal_e {
  QUIRE_REFUSAL_NONE = 0,        /* the entry was admitted */
  QUIRE_REFUSAL_NO_ROOM = 1,     /* RESOURCE_EXHAUSTED: finish or preempt a sequence, or wait */
  /* RESOURCE_EXHAUSTED with QUIRE_RESULT_NEVER_FITS: finish the sequence. */
  QUIRE_REFUSAL_NEVER_FITS = 2,
  /* NOT_READY: the tokens of the step are used up. Ask again in the next step. */
  QUIRE_REFUSAL_STEP_FULL = 3,
  QUIRE_REFUSAL_TOO_LONG = 4,    /* OUT_OF_RANGE: max_model_len; end the sequence */
  QUIRE_REFUSAL_STALE = 5,       /* NOT_FOUND: no such sequence */
  QUIRE_REFUSAL_TWICE = 6,       /* ALREADY_EXISTS: an earlier entry names the sequence */
  QUIRE_REFUSAL_LOADING = 7,     /* FAILED_PRECONDITION: a load of the sequence is in progress */
  QUIRE_REFUSAL_NO_TOKENS = 8,   /* INVALID_ARGUMENT: num_tokens is 0 */
  /* INVALID_ARGUMENT: QUIRE_ENTRY_MATCH or encoder_tokens for a sequence that has tokens, or
   * QUIRE_ENTRY_MATCH for one that knows symbols. */
  QUIRE_REFUSAL_NOT_EMPTY = 9,
  QUIRE_REFUSAL_NO_PROMPT = 10,  /* INVALID_ARGUMENT: QUIRE_ENTRY_MATCH without symbols */
  QUIRE_REFUSAL_POSITION = 11,   /* INVALID_ARGUMENT: symbols_position is not `known` */
  /* OUT_OF_RANGE: num_look_ahead leaves no token of max_tokens_per_step. */
  QUIRE_REFUSAL_LOOK_AHEAD = 12,
  QUIRE_REFUSAL_FORCE32 = -0x7fffffff
};

/* Returns one sentence for logs, for example "the step's tokens are used up: ask again in the next
 * step". The text is valid forever.
 * Thread: any thread. Blocking: no. */
QUIRE_API quire_str quire_refusal_text(quire_refusal reason);

/* The result of one entry. Frozen, 64 bytes. */
typedef struct quire_reserve_result {
  quire_sequence_id sequence;
  quire_code code;                 /* QUIRE_OK = admitted; otherwise see `reason` */
  quire_refusal reason;
  /* Number of additional pages that would admit the entry; see QUIRE_RESULT_NEVER_FITS. */
  uint64_t missing_pages;
  uint64_t position;               /* first token to compute */
  /* Tokens to compute in this step. Fewer than requested if the chunk must stop or was cut. */
  uint32_t num_tokens;
  uint32_t hit_tokens;             /* tokens reused by this call's match */
  quire_miss miss;                 /* of this call's match */
  uint32_t row;                    /* row in the step's tables; 0xffffffff when not admitted */
  uint32_t flags;                  /* QUIRE_RESULT_* */
  uint32_t full_hit_tokens;        /* hit of the attention groups alone */
  uint32_t group;                  /* group that lacks parts, if there is no room */
  uint32_t reserved0;              /* 0 */
} quire_reserve_result;

/* num_tokens was cut so that a checkpoint can be taken at the end of the chunk. */
#define QUIRE_RESULT_CHUNK_STOP 0x1u
/* With RESOURCE_EXHAUSTED: the entry would not fit even in an otherwise empty pool, and without a
 * hit if it asked for a match. Neither waiting nor preempting others helps. missing_pages is the
 * shortfall of all groups together. `group` needs the most. Reserve fewer tokens at once, or finish
 * the sequence. The flag is not set while the sequence has steps in flight.
 * Without this flag, missing_pages is the number of pages that must become free among those that
 * others use or pin. If a sequence is alone and refused without this flag, its parts lie scattered
 * over pages or it has a block to copy. Preempt it: it fits when it starts again. */
#define QUIRE_RESULT_NEVER_FITS 0x2u

/* Reserves memory for one step over all entries. Entries are processed in order. A refused entry
 * changes nothing, and the others proceed.
 * - entries[n], symbols[num_symbols]: borrowed.
 * - results[n]: written; code and reason of each entry.
 * - *step: all zero if no entry was admitted. There is no step then.
 * num_tokens is cut, and the entry is not refused, if the step has fewer tokens left. With
 * QUIRE_ENTRY_MATCH it is also cut to the symbols after the hit. Symbols of a prompt after the
 * tokens of this step are not kept. Pass them again with the next chunk, from `known` on.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (encoder_tokens without cross attention), OUT_OF_RANGE (offsets outside
 * symbols, more encoder_tokens than the plan's), RESOURCE_EXHAUSTED (limit named),
 * FAILED_PRECONDITION (step_depth steps are in flight). */
QUIRE_API quire_code quire_reserve(quire_cache *cache, const quire_reserve_entry *entries,
                                   uint64_t n, const quire_symbol *symbols, uint64_t num_symbols,
                                   quire_reserve_result *results, quire_step *step,
                                   quire_error *err);

/* The outcome of one row of a step. Frozen, 32 bytes. */
typedef struct quire_commit_entry {
  quire_sequence_id sequence;
  /* Position of the first symbol given. It must be the first position whose symbol is not known
   * after rejected tokens are forgotten. Ignored if num_symbols is 0. */
  uint64_t symbols_position;
  uint64_t symbols_offset;         /* index of that symbol in symbols[] */
  uint32_t num_symbols;            /* newly known symbols */
  /* Tokens of this row whose result is accepted. The rest is rolled back. */
  uint32_t num_accepted;
} quire_commit_entry;

/* Commits the oldest step in flight. entries are its rows: the entries that quire_reserve admitted,
 * in their order. The call publishes complete blocks, releases blocks that left the live range, and
 * takes checkpoints.
 * - Rows of sequences that were finished or preempted in the meantime must be given, too. Their
 *   results are dropped.
 * - With recurrent layers num_accepted is 0 or all. A row of at most num_state_branches + 1 tokens
 *   may have any number.
 * - If 0 tokens are accepted and the state was written in place, the sequence is emptied as by
 *   quire_abort.
 * - If num_accepted < num_tokens, no later step of that sequence may be in flight.
 * - After the commit the symbols of all committed tokens must be known, unless the sequence does
 *   not publish. At most one match unit after the reserved tokens may be known.
 * Thread: serialized on the step's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND (no such step), FAILED_PRECONDITION (not the
 * oldest, or a follower's); nothing changes on error. */
QUIRE_API quire_code quire_commit(quire_step step, const quire_commit_entry *entries, uint64_t n,
                                  const quire_symbol *symbols, uint64_t num_symbols,
                                  quire_error *err);

/* quire_abort: no kernel of the steps has run or will run. Their zeroes and copies may have been
 * executed. */
#define QUIRE_ABORT_NOT_LAUNCHED 0x1u

/* Undoes a step and all later ones. Sequences, tables and match counters are as before. What was
 * evicted for the steps stays evicted. flags: QUIRE_ABORT_*.
 * The kernels of the step must be done, or not launched, or be ordered before all later work on the
 * same stream: its blocks may be reused at once. Symbols that came with the undone reserves are
 * forgotten. Symbols that a commit gave are kept, at most one match unit after the tokens that are
 * left: see `known` of quire_sequence_get_info.
 * With QUIRE_CACHE_STATES_IN_PLACE kernels may have overwritten the state of a sequence. Such a
 * sequence is emptied as by quire_sequence_preempt (committed = known = 0). Its next reserve with
 * QUIRE_ENTRY_MATCH resumes from the last boundary that was kept. Rows that wrote to another state
 * than they read are undone exactly. With QUIRE_ABORT_NOT_LAUNCHED all rows are undone exactly.
 * Thread: serialized on the step's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (flags), NOT_FOUND, FAILED_PRECONDITION (a follower's). */
QUIRE_API quire_code quire_abort(quire_step step, uint32_t flags, quire_error *err);

/* Facts of a step in flight. Info. */
typedef struct quire_step_info {
  uint32_t struct_size;
  uint32_t num_rows;               /* admitted sequences */
  uint64_t num_tokens;             /* computed by all rows */
  uint64_t num_copies;
  uint64_t num_zeroes;
} quire_step_info;

/* Reads the facts of a step in flight.
 * Thread: serialized on the step's owner. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND. */
QUIRE_API quire_code quire_step_get_info(quire_step step, quire_step_info *info, quire_error *err);

/* The arrays of one step that kernels read, for one group and shard. Ops take it. Engines with
 * arrays of their own may fill one in by hand. Positions and lengths are in tokens.
 * Element (column, i) of an array with columns is at column * its column pitch + i.
 * Descriptor. */
typedef struct quire_batch {
  uint32_t struct_size;
  uint32_t flags;                  /* 0 */
  uint32_t group;                  /* must be the group of the cache that an op works on */
  uint32_t num_columns;
  uint32_t num_rows;
  uint32_t num_tokens;             /* query tokens of all rows */
  const int32_t *query_indptr;     /* [num_rows + 1]: offsets of the rows' query tokens */
  const int32_t *kv_len;           /* [num_rows]: tokens after the step; see QUIRE_FILL_KV_LEN */
  const int32_t *positions;        /* [num_tokens] */
  /* Groups with token tables: [column][num_rows][table_pitch] lowered ids. NULL for states. Holes
   * may be any valid id if they are masked. */
  const int32_t *table;
  uint64_t table_pitch;            /* elements from row to row */
  uint64_t table_column_pitch;
  /* Groups with token tables: [column][num_slots]: lowered id * kernel_block_tokens + t, where t is
   * the token in its kernel block, for each token whose keys and values are to be written. Negative
   * = skip. kernel_block_tokens is that of quire_group_info. Ops read slots with block_tokens of
   * quire_paged_kv, which is the same number where each token has a row of this rank. */
  const int64_t *slots;
  uint64_t num_slots;              /* num_tokens, except for groups of cross attention */
  uint64_t slots_column_pitch;
  /* Groups of states: [column][num_rows] lowered ids of the states to read. Negative = zero. */
  const int32_t *state_read;
  /* Groups of states: lowered ids of the states to write. Negative = not kept.
   * - Without state_write_indptr: [column][num_rows], the state after the row's last token.
   * - With state_write_indptr: the entries i in [indptr[row], indptr[row + 1]) are states along the
   *   row, one per draft token or one per block that the row crosses. Entry i is the state after
   *   the first state_write_ends[i] tokens of the sequence. The ends of a row never decrease. They
   *   are in [kv_len - query tokens, kv_len].
   * If a row of a call writes a state, no other row may read or write it. */
  const int32_t *state_write;
  uint64_t state_read_column_pitch;
  uint64_t state_write_column_pitch;
  const int32_t *state_write_indptr; /* [num_rows + 1] */
  const int32_t *state_write_ends;   /* [indptr[num_rows]] */
} quire_batch;

/* Every group's table_pitch is that of quire_group_info. Without this flag it is the longest row of
 * the step. */
#define QUIRE_BATCH_MAX_PITCH 0x1u

/* Where quire_step_get_batch writes, and in which shape. Descriptor. */
typedef struct quire_batch_options {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_BATCH_* */
  uint32_t shard;                  /* the shard whose lowering is applied */
  /* A fixed shape, as in quire_fill; 0 = the step's. With both and QUIRE_BATCH_MAX_PITCH every step
   * takes the same bytes, and its arrays lie at the same places, as captured graphs need it. With
   * both, num_slots of cross attention is num_rows * encoder_tokens of quire_group_info. */
  uint32_t num_rows;
  uint32_t num_tokens;
  uint32_t reserved0;              /* 0 */
  void *memory;                    /* host memory, aligned to 16 bytes */
  uint64_t bytes;                  /* available at memory */
  /* Address of these bytes for the kernels, aligned to 16 bytes, for example of their copy on a
   * device. The pointers of the batches are relative to it. NULL = memory. */
  const void *address;
} quire_batch_options;

/* Writes all arrays that the ops need, of all groups, into one block of memory. Arrays that groups
 * have in common are written once.
 * - options: borrowed.
 * - batches[n]: written, in the order of the groups; n must be num_groups of quire_config_info.
 *   stride = bytes from one to the next.
 * - *bytes: bytes needed, also if options->bytes is smaller. Memory NULL with bytes 0 asks for the
 *   size only; batches are not written then.
 * Thread: serialized on the step's owner. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE (bytes, shard, n, num_rows, num_tokens);
 * nothing is written on error. */
QUIRE_API quire_code quire_step_get_batch(quire_step step, const quire_batch_options *options,
                                          quire_batch *batches, uint64_t stride, uint64_t n,
                                          uint64_t *bytes, quire_error *err);

/* The arrays that quire_step_fill writes. It is for engines whose kernels want other arrays than
 * quire_batch has, or in other places. Groups of cross attention differ from the others:
 * - Their table covers the encoder tokens of the sequence. It is the same in every step.
 * - KV_LEN is the number of encoder tokens.
 * - SLOTS are those of the encoder tokens of rows at position 0. Their keys and values are to be
 *   written in this step. */
typedef int32_t quire_fill_kind;
enum quire_fill_kind_e {
  /* int32 [column][row][pitch]: lowered ids. Holes have null ids. fill_value after the end of a
   * row. */
  QUIRE_FILL_TABLE = 1,
  /* int32 [row + 1]: offsets into QUIRE_FILL_TABLE_INDICES, the same for all columns. */
  QUIRE_FILL_TABLE_INDPTR = 2,
  /* int32 [column][indptr[rows]]. pitch = elements from column to column. */
  QUIRE_FILL_TABLE_INDICES = 3,
  /* int64 [column][pitch]: lowered id * kernel_block_tokens + t, where t is the token in its kernel
   * block, for each computed token. -1 = not stored: padding, or the token's block is cached and
   * shared with others. That happens where tokens are computed again because only another group
   * cannot resume, for example where a state is gone. */
  QUIRE_FILL_SLOTS = 4,
  /* int32 [column][pitch >= rows]: lowered id of the state to read. At position 0 the null page's,
   * which is all zero. */
  QUIRE_FILL_STATE_READ = 5,
  /* int32 [column][pitch >= rows]: lowered id of the state after the row's last token. It can equal
   * the state that is read only with QUIRE_CACHE_STATES_IN_PLACE. */
  QUIRE_FILL_STATE_WRITE = 6,
  /* int32 [row]: tokens after the step. Groups of cross attention: encoder tokens. */
  QUIRE_FILL_KV_LEN = 7,
  /* int32 [row + 1]: offsets of the rows' tokens. */
  QUIRE_FILL_QUERY_INDPTR = 8,
  /* int32 [token]: position of each computed token. */
  QUIRE_FILL_POSITIONS = 9,
  /* As QUIRE_FILL_TABLE, with ids instead of lowered ids. */
  QUIRE_FILL_RAW_TABLE = 10,
  /* int32 [row + 1]: offsets into a group's STATE_WRITES. Without state branches and
   * QUIRE_CACHE_STATES_AT_BLOCKS there is one per row. */
  QUIRE_FILL_STATE_WRITE_INDPTR = 11,
  /* int32 [column][indptr[rows]]: lowered ids of all states that rows write. The last one of a row
   * is its STATE_WRITE. A row of at most num_state_branches + 1 tokens writes one per token. pitch
   * as in TABLE_INDICES. */
  QUIRE_FILL_STATE_WRITES = 12,
  /* int32 [indptr[rows]]: sequence length after which state i was taken. */
  QUIRE_FILL_STATE_WRITE_ENDS = 13,
  /* UPDATE_*: for an engine that keeps its tables on the device, one table row per sequence and
   * column, and uploads only what changed. For each row of the step they list the consecutive table
   * entries that changed since this sequence's previous row, in flight or committed.
   * - A sequence's first row, and the first row after a preemption, list the whole table.
   * - Entries that an aborted step listed are listed again.
   * - Entries that left the live range are not listed: no kernel reads them.
   * - Loads list their whole tables.
   * Apply the lists in the order of the steps.
   * UPDATE_INDPTR: int32 [row + 1]: offsets into UPDATE_INDICES, the same for all columns. */
  QUIRE_FILL_UPDATE_INDPTR = 14,
  /* int32 [row]: index of the first listed entry in the row's table. */
  QUIRE_FILL_UPDATE_FIRST = 15,
  /* int32 [column][indptr[rows]]: lowered ids of whole blocks. The last block may have entries
   * after those of TABLE. pitch as in TABLE_INDICES. */
  QUIRE_FILL_UPDATE_INDICES = 16,
  /* int32 [row + 1]: offsets of the rows' SLOTS. Equal to QUERY_INDPTR, except for groups of cross
   * attention. */
  QUIRE_FILL_SLOTS_INDPTR = 17,
  QUIRE_FILL_KIND_FORCE32 = -0x7fffffff
};

/* One array to write. Descriptor. */
typedef struct quire_fill {
  uint32_t struct_size;
  quire_fill_kind kind;
  uint32_t group;
  uint32_t shard;                  /* the shard whose lowering is applied */
  uint32_t first_column;
  uint32_t num_columns;            /* 0 = all from first_column on */
  void *destination;               /* host memory, aligned to its elements */
  uint64_t capacity;               /* elements available at destination */
  uint64_t pitch;                  /* elements from row to row; see the kinds */
  /* Elements from column to column. 0 = rows * pitch (tables), pitch (others). */
  uint64_t column_pitch;
  int64_t fill_value;              /* tables: value after the end of a row */
  /* Rows and tokens of an array of fixed shape, for example for a captured graph. 0 = those of the
   * step; otherwise at least those of the step. The padding is described below. */
  uint32_t num_rows;
  uint32_t num_tokens;             /* as num_rows */
} quire_fill;

/* Padding of arrays of a fixed shape. Kernels process all num_rows rows and num_tokens tokens. They
 * do nothing for padding rows and write nothing for padding tokens.
 * Rows after the step's rows:
 * - Tables: 0 (the null page) in every entry.
 * - Lengths and UPDATE_FIRST: 0.
 * - Indptrs: the last value again. No row has the padding tokens, and no list grows.
 * - STATE_READ: the null page's state.
 * - STATE_WRITE: -1.
 * Tokens after the step's tokens:
 * - Slots: -1.
 * - Positions: 0.
 * The same destinations can be filled for every step. Nothing from an earlier step remains. */

/* Maximum number of arrays in one call of quire_step_fill. */
#define QUIRE_MAX_FILLS 256

/* Writes arrays of a step in flight into the caller's memory. One call can write everything that a
 * step needs.
 * - fills: n descriptors, borrowed. stride = bytes from one to the next.
 * - written[n]: the number of elements that each array needs. It is also set if the call fails for
 *   lack of capacity.
 * No destination is written unless all of them can be. For n > 1 messages name the array by its
 * index.
 * Thread: serialized on the step's owner. Blocking: no.
 * Errors: INVALID_ARGUMENT (also n is 0 or above QUIRE_MAX_FILLS), NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_fill(quire_step step, const quire_fill *fills, uint64_t stride,
                                     uint64_t n, uint64_t *written, quire_error *err);

/* A copy of the payload of one id to another id, to be done before the step's kernels run.
 * Frozen, 24 bytes. */
typedef struct quire_copy {
  uint32_t group;
  uint32_t column;
  int32_t source;                  /* id */
  int32_t destination;             /* id */
  /* Rows of the block that must be copied: [first_token, first_token + num_tokens). */
  uint32_t first_token;
  uint32_t num_tokens;             /* 0 = all */
} quire_copy;

/* A page, or the payload of one id, to be zeroed before the step's kernels run.
 * Frozen, 16 bytes. */
typedef struct quire_zero {
  uint32_t group;                  /* 0xffffffff = `id` is a page number: zero the whole page */
  uint32_t column;
  int32_t id;
  uint32_t reserved0;
} quire_zero;

/* Lists the copies of a step in flight. Two-call array.
 * Thread: serialized on the step's owner. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_list_copies(quire_step step, quire_copy *items, uint64_t capacity,
                                            uint64_t *count, quire_error *err);
/* Lists the zeroes of a step in flight. Two-call array.
 * Thread: serialized on the step's owner. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE. */
QUIRE_API quire_code quire_step_list_zeroes(quire_step step, quire_zero *items, uint64_t capacity,
                                            uint64_t *count, quire_error *err);

/* Writes a step in flight, or a load, as bytes for followers. The bytes contain what batches, fills
 * and lists report now.
 * - bytes: NULL with capacity 0 asks for the size only.
 * - *size: bytes needed. If capacity is smaller, nothing is written.
 * The format has a version and a checksum. It is the same on every machine. Tables of consecutive
 * blocks take few bytes, whatever their length.
 * Thread: serialized on the step's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE (capacity), FAILED_PRECONDITION (a
 * follower's). */
QUIRE_API quire_code quire_step_export(quire_step step, void *bytes, uint64_t capacity,
                                       uint64_t *size, quire_error *err);

/* A follower of a cache in another process: a rank of the same plan that makes no steps of its own.
 * It imports steps as bytes and answers as the leader's cache would: quire_step_get_info,
 * quire_step_get_batch, quire_step_fill, the lists, quire_memory_prepare_step. There is nothing to
 * commit or abort. */
typedef struct quire_follower quire_follower;

/* Creates a follower. All its memory is allocated here. Keeps the config alive. options: those of
 * the leader's cache, whose limits determine how much can be imported. *out: owned.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host memory). */
QUIRE_API quire_code quire_follower_create(quire_config *config, const quire_cache_options *options,
                                           quire_follower **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_follower *quire_follower_retain(quire_follower *follower);
/* Drops a reference; NULL is allowed. Thread: any thread. Blocking: no. */
QUIRE_API void quire_follower_release(quire_follower *follower);
/* Imports a step of the leader. bytes[size]: borrowed, untrusted. *step: the follower's, with the
 * leader's id.
 * The last step_depth imported steps can be queried. A further step replaces the oldest one. A step
 * with the id of an earlier one replaces that one.
 * Thread: serialized on follower. Blocking: no.
 * Errors: DATA_LOSS (truncated or modified), INCOMPATIBLE_ABI (another version of the format),
 * INVALID_ARGUMENT (another plan: the difference is named), RESOURCE_EXHAUSTED (limit named);
 * nothing changes on error. */
QUIRE_API quire_code quire_follower_import(quire_follower *follower, const void *bytes,
                                           uint64_t size, quire_step *step, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_STEP_H_ */
