package quire

/*
#include <quire/quire.h>
#include <string.h>

typedef struct go_group {
  int32_t *table, *state_read, *state_write;
  int64_t* slots;
  uint64_t pitch, columns;
  uint32_t is_state;
} go_group;

typedef struct go_batch {
  quire_error err;
  quire_step_id step;
  go_group (*group)[1 << 16];
  uint32_t num_groups, num_rows;
  uint64_t rows, tokens, num_tokens;
  int32_t *kv_len, *query_indptr, *positions;
} go_batch;

static inline quire_code go_fill_one(go_batch* b, quire_cache* cache, int32_t kind, uint32_t group, void* to, uint64_t capacity,
                                     uint64_t pitch, uint64_t column_pitch) {
  quire_fill fill;
  uint64_t written;
  memset(&fill, 0, sizeof fill);
  fill.struct_size = sizeof fill;
  fill.kind = kind;
  fill.group = group;
  fill.destination = to;
  fill.capacity = capacity;
  fill.pitch = pitch;
  fill.column_pitch = column_pitch;
  return quire_step_fill(cache, b->step, &fill, &written, &b->err);
}

static inline quire_code go_fill_group(go_batch* b, quire_cache* cache, uint32_t group) {
  go_group* g = &(*b->group)[group];
  quire_code code;
  if (g->is_state) {
    code = go_fill_one(b, cache, QUIRE_FILL_STATE_READ, group, g->state_read, g->columns * b->rows, b->rows, b->rows);
    if (code != QUIRE_OK) return code;
    return go_fill_one(b, cache, QUIRE_FILL_STATE_WRITE, group, g->state_write, g->columns * b->rows, b->rows, b->rows);
  }
  code = go_fill_one(b, cache, QUIRE_FILL_TABLE, group, g->table, g->columns * b->rows * g->pitch, g->pitch, b->rows * g->pitch);
  if (code != QUIRE_OK) return code;
  return go_fill_one(b, cache, QUIRE_FILL_SLOTS, group, g->slots, g->columns * b->tokens, b->tokens, b->tokens);
}

static inline quire_code go_fill_all(go_batch* b, quire_cache* cache) {
  uint32_t group;
  quire_code code = go_fill_one(b, cache, QUIRE_FILL_KV_LEN, 0, b->kv_len, b->rows, 1, 0);
  if (code == QUIRE_OK) code = go_fill_one(b, cache, QUIRE_FILL_QUERY_INDPTR, 0, b->query_indptr, b->rows + 1, 1, 0);
  if (code == QUIRE_OK) code = go_fill_one(b, cache, QUIRE_FILL_POSITIONS, 0, b->positions, b->tokens, 1, 0);
  for (group = 0; group < b->num_groups && code == QUIRE_OK; ++group) code = go_fill_group(b, cache, group);
  return code;
}

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a step.
static inline quire_code go_next(go_batch* b, void* cache_of, void* memory, void* stream, quire_step_id done,
                                 const quire_commit_entry* rows, uint64_t num_rows, const quire_symbol* told, uint64_t num_told,
                                 const quire_reserve_entry* entries, uint64_t n, const quire_symbol* symbols, uint64_t num_symbols,
                                 quire_reserve_result* results) {
  quire_cache* cache = (quire_cache*)cache_of;
  quire_step_info info;
  quire_code code = QUIRE_OK;
  b->err.struct_size = sizeof b->err;
  b->step = 0;
  b->num_rows = 0;
  b->num_tokens = 0;
  if (done != 0) code = quire_commit(cache, done, rows, num_rows, told, num_told, &b->err);
  if (code == QUIRE_OK) code = quire_reserve(cache, entries, n, symbols, num_symbols, results, &b->step, &b->err);
  if (code != QUIRE_OK || b->step == 0) return code;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  code = quire_step_get_info(cache, b->step, &info, &b->err);
  b->num_rows = info.num_rows;
  b->num_tokens = info.num_tokens;
  if (code == QUIRE_OK) code = go_fill_all(b, cache);
  if (code == QUIRE_OK && memory != 0) code = quire_memory_prepare_step((quire_memory*)memory, cache, b->step, (quire_stream*)stream, &b->err);
  if (code != QUIRE_OK) {
    quire_abort_unstarted(cache, b->step, 0);
    b->step = 0;
  }
  return code;
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Batch has the tables of one step, in C memory, and writes them in one call with commit and reserve. One per step in flight.
type Batch struct {
	c       *C.go_batch
	Groups  []GroupTables // one per group of the plan
	KVLen   []int32       // [rows] tokens after the step
	Indptr  []int32       // [rows + 1] offsets of the rows' tokens
	Pos     []int32       // [tokens] positions
	buffers []*Buffer
	rows    int
}

// GroupTables are the tables of one group: Table and Slots of attention, StateRead and StateWrite of states; [column] outermost.
type GroupTables struct {
	Table                 []int32 // [column][row][Pitch] lowered ids
	Pitch                 int
	Slots                 []int64 // [column][tokens]
	StateRead, StateWrite []int32 // [column][rows]
}

func (b *Batch) take(bytes int) (unsafe.Pointer, error) {
	buffer, err := NewBuffer(bytes)
	if err != nil {
		return nil, err
	}
	b.buffers = append(b.buffers, buffer)
	return buffer.p, nil
}

func (b *Batch) int32s(n int) (*C.int32_t, []int32, error) {
	p, err := b.take(4 * n)
	if err != nil {
		return nil, nil, err
	}
	return (*C.int32_t)(p), unsafe.Slice((*int32)(p), n), nil
}

// NewBatch takes the tables of steps of at most so many rows and tokens, over sequences of at most maxLen tokens.
func NewBatch(config *Config, rows, tokens, maxLen int) (*Batch, error) {
	info, err := config.Info()
	if err != nil {
		return nil, err
	}
	b := &Batch{rows: rows}
	runtime.SetFinalizer(b, (*Batch).Close)
	head, err := b.take(int(unsafe.Sizeof(C.go_batch{})))
	if err != nil {
		return nil, err
	}
	b.c = (*C.go_batch)(head)
	groups, err := b.take(int(unsafe.Sizeof(C.go_group{})) * int(info.Groups))
	if err != nil {
		return nil, err
	}
	b.c.group, b.c.num_groups = (*[1 << 16]C.go_group)(groups), C.uint32_t(info.Groups)
	b.c.rows, b.c.tokens = C.uint64_t(rows), C.uint64_t(tokens)
	b.Groups = make([]GroupTables, info.Groups)
	for g := range b.Groups {
		if err = b.takeGroup(config, uint32(g), rows, tokens, maxLen); err != nil {
			return nil, err
		}
	}
	if b.c.kv_len, b.KVLen, err = b.int32s(rows); err != nil {
		return nil, err
	}
	if b.c.query_indptr, b.Indptr, err = b.int32s(rows + 1); err != nil {
		return nil, err
	}
	b.c.positions, b.Pos, err = b.int32s(tokens)
	return b, err
}

func (b *Batch) takeGroup(config *Config, g uint32, rows, tokens, maxLen int) error {
	info, err := config.Group(g)
	if err != nil {
		return err
	}
	to, tables, columns := &b.c.group[g], &b.Groups[g], int(info.Columns)
	to.columns = C.uint64_t(columns)
	if info.IsState {
		to.is_state = 1
		if to.state_read, tables.StateRead, err = b.int32s(columns * rows); err != nil {
			return err
		}
		to.state_write, tables.StateWrite, err = b.int32s(columns * rows)
		return err
	}
	block := int(info.BlockTokens)
	tables.Pitch = (maxLen + block - 1) / block * (block / int(info.KernelBlock))
	to.pitch = C.uint64_t(tables.Pitch)
	if to.table, tables.Table, err = b.int32s(columns * rows * tables.Pitch); err != nil {
		return err
	}
	slots, err := b.take(8 * columns * tokens)
	if err != nil {
		return err
	}
	to.slots, tables.Slots = (*C.int64_t)(slots), unsafe.Slice((*int64)(slots), columns*tokens)
	return nil
}

// Close gives the tables back; no op may use them any more.
func (b *Batch) Close() {
	for _, buffer := range b.buffers {
		buffer.Close()
	}
	b.c, b.buffers, b.Groups, b.KVLen, b.Indptr, b.Pos = nil, nil, nil, nil, nil, nil
	runtime.SetFinalizer(b, nil)
}

// NumRows is the number of rows of the last step.
func (b *Batch) NumRows() int { return int(b.c.num_rows) }

// NumTokens is the number of tokens that the last step computes.
func (b *Batch) NumTokens() int { return int(b.c.num_tokens) }

// Next is a whole step in one call of C: commits `done` (0 = nothing) with its rows and told symbols, reserves the entries, fills all tables,
// and queues zeroes and copies when there are a memory and a stream. It allocates nothing. On an error of the commit nothing has changed; on a
// later one `done` is committed, and the new step, where there is one, was aborted.
func (b *Batch) Next(cache *Cache, memory *Memory, stream *Stream, done StepID, rows []CommitEntry, told []Symbol, entries []ReserveEntry,
	symbols []Symbol, results []ReserveResult) (StepID, error) {
	if len(results) < len(entries) || len(entries) == 0 || len(entries) > b.rows {
		return 0, &Error{Code: InvalidArgument, Source: "go", Message: "entries: none, more than results, or more than the batch has rows"}
	}
	var first *C.quire_commit_entry
	if len(rows) > 0 {
		first = (*C.quire_commit_entry)(unsafe.Pointer(&rows[0]))
	}
	var m, s unsafe.Pointer
	if memory != nil && stream != nil {
		m, s = unsafe.Pointer(memory.p), unsafe.Pointer(stream.p)
	}
	text, count := symbolsOf(told)
	prompts, num := symbolsOf(symbols)
	// Plain variables: the expressions would be boxed for cgo's checks.
	want, answers, tables, of := (*C.quire_reserve_entry)(unsafe.Pointer(&entries[0])), (*C.quire_reserve_result)(unsafe.Pointer(&results[0])), b.c, unsafe.Pointer(cache.p)
	last, numRows, n := C.quire_step_id(done), C.uint64_t(len(rows)), C.uint64_t(len(entries))
	code := C.go_next(tables, of, m, s, last, first, numRows, text, count, want, n, prompts, num, answers)
	runtime.KeepAlive(cache)
	runtime.KeepAlive(memory)
	runtime.KeepAlive(stream)
	if code != C.QUIRE_OK {
		return 0, failure(code, &b.c.err)
	}
	return StepID(b.c.step), nil
}
