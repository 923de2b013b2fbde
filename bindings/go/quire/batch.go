package quire

/*
#include <quire/quire.h>
#include <string.h>

typedef struct go_group {
  int32_t *table, *state_read, *state_write;
  int64_t *slots;
  uint64_t pitch, columns;
  uint32_t is_state;
} go_group;

// Everything of a step that C reads and writes, in C memory. fills: lengths, offsets, positions, and two arrays per group.
typedef struct go_batch {
  quire_error err;
  quire_step_id step;
  go_group (*group)[1 << 16];
  quire_fill *fills;
  uint64_t *written;
  uint64_t num_fills;
  uint32_t num_groups, num_rows;
  uint64_t rows, tokens, num_tokens;
  int32_t *kv_len, *query_indptr, *positions;
} go_batch;

static void go_add_fill(go_batch *b, int32_t kind, uint32_t group, uint32_t shard, void *to, uint64_t capacity, uint64_t pitch,
                        uint64_t column_pitch) {
  quire_fill *fill = &b->fills[b->num_fills++];
  memset(fill, 0, sizeof *fill);
  fill->struct_size = sizeof *fill;
  fill->kind = kind, fill->group = group, fill->shard = shard;
  fill->destination = to, fill->capacity = capacity, fill->pitch = pitch, fill->column_pitch = column_pitch;
}
static void go_add_fills(go_batch *b, uint32_t shard) {
  uint32_t i;
  go_add_fill(b, QUIRE_FILL_KV_LEN, 0, shard, b->kv_len, b->rows, 1, 0);
  go_add_fill(b, QUIRE_FILL_QUERY_INDPTR, 0, shard, b->query_indptr, b->rows + 1, 1, 0);
  go_add_fill(b, QUIRE_FILL_POSITIONS, 0, shard, b->positions, b->tokens, 1, 0);
  for (i = 0; i < b->num_groups; ++i) {
    go_group *g = &(*b->group)[i];
    if (g->is_state) {
      go_add_fill(b, QUIRE_FILL_STATE_READ, i, shard, g->state_read, g->columns * b->rows, b->rows, 0);
      go_add_fill(b, QUIRE_FILL_STATE_WRITE, i, shard, g->state_write, g->columns * b->rows, b->rows, 0);
    } else {
      go_add_fill(b, QUIRE_FILL_TABLE, i, shard, g->table, g->columns * b->rows * g->pitch, g->pitch, b->rows * g->pitch);
      go_add_fill(b, QUIRE_FILL_SLOTS, i, shard, g->slots, g->columns * b->tokens, b->tokens, b->tokens);
    }
  }
}

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a step.
static inline quire_code go_fill_all(go_batch *b, void *cache, quire_step_id step) {
  quire_code code = quire_step_fill((quire_cache *)cache, step, b->fills, sizeof b->fills[0], b->num_fills, b->written, &b->err);
  b->num_rows = code == QUIRE_OK ? (uint32_t)b->written[0] : 0;
  b->num_tokens = code == QUIRE_OK ? b->written[2] : 0;
  return code;
}
static inline quire_code go_next(go_batch *b, void *cache_of, void *memory, void *stream, quire_step_id done, const quire_commit_entry *rows,
                                 uint64_t num_rows, const quire_symbol *told, uint64_t num_told, const quire_reserve_entry *entries,
                                 uint64_t n, const quire_symbol *symbols, uint64_t num_symbols, quire_reserve_result *results) {
  quire_cache *cache = (quire_cache *)cache_of;
  quire_code code = QUIRE_OK;
  b->step = 0;
  b->num_rows = 0;
  b->num_tokens = 0;
  if (done != 0) code = quire_commit(cache, done, rows, num_rows, told, num_told, &b->err);
  if (code == QUIRE_OK) code = quire_reserve(cache, entries, n, symbols, num_symbols, results, &b->step, &b->err);
  if (code != QUIRE_OK || b->step == 0) return code;
  code = go_fill_all(b, cache, b->step);
  if (code == QUIRE_OK && memory != 0) code = quire_memory_prepare_step((quire_memory *)memory, cache, b->step, (quire_stream *)stream, &b->err);
  if (code != QUIRE_OK) {
    quire_abort(cache, b->step, QUIRE_ABORT_NOT_LAUNCHED, 0);
    b->step = 0;
  }
  return code;
}
*/
import "C"

import (
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Batch has the tables of one step, in C memory, and writes them in one call with commit and reserve. One per step in flight.
// Its slices, those of Groups too, do not keep it reachable, and its finalizer frees them: who goes on with a slice alone calls
// runtime.KeepAlive(batch) behind its last use. No slice may be used after Close.
type Batch struct {
	c       *C.go_batch
	Groups  []GroupTables // one per group of the plan
	KVLen   []int32       // [rows] tokens after the step
	Indptr  []int32       // [rows + 1] offsets of the rows' tokens
	Pos     []int32       // [tokens] positions
	buffers []*Buffer
	rows    int
	plan    *Config
	shard   uint32
	closed  uint32
}

// GroupTables are the tables of one group: Table and Slots of attention, StateRead and StateWrite of states; [column] outermost.
type GroupTables struct {
	Table                 []int32 // [column][row][Pitch] lowered ids
	Pitch                 int
	Slots                 []int64 // [column][tokens]
	StateRead, StateWrite []int32 // [column][rows]
}

// Memory for so many items of a size; the counts are multiplied with care.
func (b *Batch) take(size int, counts ...int) (unsafe.Pointer, error) {
	for _, n := range counts {
		if n > 0 && size > maxBuffer/n {
			return nil, refuse(OutOfRange, "rows, tokens, maxLen: tables of more than 2^46 bytes")
		}
		size *= n
	}
	buffer, err := NewBuffer(size)
	if err != nil {
		return nil, err
	}
	b.buffers = append(b.buffers, buffer)
	return buffer.address(), nil
}

func (b *Batch) int32s(counts ...int) (*C.int32_t, []int32, error) {
	p, err := b.take(4, counts...)
	if err != nil {
		return nil, nil, err
	}
	return (*C.int32_t)(p), unsafe.Slice((*int32)(p), b.buffers[len(b.buffers)-1].Len()/4), nil
}

// NewBatch takes the tables of steps of at most so many rows and tokens, over sequences of at most maxLen tokens, for shard 0.
func NewBatch(config *Config, rows, tokens, maxLen int) (*Batch, error) {
	return NewShardBatch(config, 0, rows, tokens, maxLen)
}

// NewShardBatch is NewBatch with the lowering of another shard.
func NewShardBatch(config *Config, shard uint32, rows, tokens, maxLen int) (*Batch, error) {
	info, err := config.Info()
	if err != nil {
		return nil, err
	}
	if rows < 1 || tokens < 1 || maxLen < 1 || rows > math.MaxInt32 || tokens > math.MaxInt32 || maxLen > math.MaxInt32 {
		return nil, refuse(OutOfRange, "rows, tokens, maxLen: below 1, or above 2^31 - 1")
	}
	if shard >= info.NumShards {
		return nil, refuse(OutOfRange, "shard: none of this plan")
	}
	b := &Batch{rows: rows, plan: config.Share(), shard: shard}
	runtime.SetFinalizer(b, (*Batch).Close)
	if err = b.takeAll(config, &info, rows, tokens, maxLen); err != nil {
		b.Close()
		return nil, err
	}
	C.go_add_fills(b.c, C.uint32_t(shard))
	return b, nil
}

func (b *Batch) takeAll(config *Config, info *ConfigInfo, rows, tokens, maxLen int) error {
	n := int(info.NumGroups)
	head, err := b.take(int(unsafe.Sizeof(C.go_batch{})))
	if err != nil {
		return err
	}
	groups, err := b.take(int(unsafe.Sizeof(C.go_group{})) * n)
	if err != nil {
		return err
	}
	fills, err := b.take(int(unsafe.Sizeof(C.quire_fill{})) * (3 + 2*n))
	if err != nil {
		return err
	}
	written, err := b.take(8 * (3 + 2*n))
	if err != nil {
		return err
	}
	b.c = (*C.go_batch)(head)
	b.c.err.struct_size = C.uint32_t(unsafe.Sizeof(b.c.err))
	b.c.group, b.c.num_groups = (*[1 << 16]C.go_group)(groups), C.uint32_t(n)
	b.c.fills, b.c.written = (*C.quire_fill)(fills), (*C.uint64_t)(written)
	b.c.rows, b.c.tokens = C.uint64_t(rows), C.uint64_t(tokens)
	b.Groups = make([]GroupTables, n)
	for g := range b.Groups {
		if err = b.takeGroup(config, uint32(g), rows, tokens, maxLen); err != nil {
			return err
		}
	}
	if b.c.kv_len, b.KVLen, err = b.int32s(rows); err != nil {
		return err
	}
	if b.c.query_indptr, b.Indptr, err = b.int32s(rows + 1); err != nil {
		return err
	}
	b.c.positions, b.Pos, err = b.int32s(tokens)
	return err
}

func (b *Batch) takeGroup(config *Config, g uint32, rows, tokens, maxLen int) error {
	info, err := config.Group(g)
	if err != nil {
		return err
	}
	if info.EncoderTokens != 0 {
		return refuse(Unimplemented, "plan: a group of cross attention has lengths and slots of its own; a batch has those of the decoder: Step.Fill")
	}
	to, tables, columns := &b.c.group[g], &b.Groups[g], int(info.IDsPerBlock)
	to.columns = C.uint64_t(columns)
	if info.IsState != 0 {
		to.is_state = 1
		if to.state_read, tables.StateRead, err = b.int32s(columns, rows); err != nil {
			return err
		}
		to.state_write, tables.StateWrite, err = b.int32s(columns, rows)
		return err
	}
	block := int(info.BlockTokens)
	tables.Pitch = (maxLen + int(info.LookAhead) + block - 1) / block * (block / int(info.KernelBlockTokens))
	to.pitch = C.uint64_t(tables.Pitch)
	if to.table, tables.Table, err = b.int32s(columns, rows, tables.Pitch); err != nil {
		return err
	}
	slots, err := b.take(8, columns, tokens)
	if err != nil {
		return err
	}
	to.slots, tables.Slots = (*C.int64_t)(slots), unsafe.Slice((*int64)(slots), columns*tokens)
	return nil
}

// Close gives the tables back; no op may use them any more.
func (b *Batch) Close() {
	if b == nil || !atomic.CompareAndSwapUint32(&b.closed, 0, 1) {
		return
	}
	for _, buffer := range b.buffers {
		buffer.Close()
	}
	b.plan.Close()
	b.c, b.buffers, b.Groups, b.KVLen, b.Indptr, b.Pos = nil, nil, nil, nil, nil, nil
	runtime.SetFinalizer(b, nil)
}

// Whether an op may read a column of a group.
func (b *Batch) check(group, column int, state bool) error {
	if b == nil || b.c == nil {
		return refuse(InvalidArgument, "step: the batch was closed")
	}
	if group < 0 || group >= int(b.c.num_groups) || column < 0 || column >= int(b.c.group[group].columns) {
		return refuse(OutOfRange, "group, column: not of this plan")
	}
	if (b.c.group[group].is_state != 0) != state {
		return refuse(InvalidArgument, "group: of the other kind, states or tokens")
	}
	return nil
}

// Whether a cache's steps have tables of this form; a cache that was closed is refused by C.
func (b *Batch) takes(cache *Cache) error {
	if err := cache.check(); err != nil {
		return err
	}
	if !cache.closed() && cache.plan.p != b.plan.p {
		return refuse(InvalidArgument, "cache: made from another config than the batch")
	}
	return nil
}

func (b *Batch) states(group, column int) (read, write *C.int32_t) {
	g, offset := &b.c.group[group], 4*column*b.rows
	return (*C.int32_t)(unsafe.Add(unsafe.Pointer(g.state_read), offset)), (*C.int32_t)(unsafe.Add(unsafe.Pointer(g.state_write), offset))
}

// NumRows is the number of rows of the last step.
func (b *Batch) NumRows() int {
	if b == nil || b.c == nil {
		return 0
	}
	n := int(b.c.num_rows)
	runtime.KeepAlive(b) // whose finalizer frees the tables
	return n
}

// NumTokens is the number of tokens that the last step computes.
func (b *Batch) NumTokens() int {
	if b == nil || b.c == nil {
		return 0
	}
	n := int(b.c.num_tokens)
	runtime.KeepAlive(b) // whose finalizer frees the tables
	return n
}

// Fill writes all tables of a step or load in one call, for loops that reserve and commit by themselves. It allocates nothing.
func (b *Batch) Fill(cache *Cache, step StepID) error {
	if b == nil || b.c == nil {
		return refuse(InvalidArgument, "batch is nil, or was closed")
	}
	if err := b.takes(cache); err != nil {
		return err
	}
	tables, of, id := b.c, cache.p, C.quire_step_id(step)
	err := failure(C.go_fill_all(tables, of, id), &tables.err)
	runtime.KeepAlive(cache)
	runtime.KeepAlive(b)
	return err
}

// Next is a whole step in one call of C: commits `done` (0 = nothing) with its rows and told symbols, reserves the entries, fills all tables,
// and queues zeroes and copies on the stream: memory and stream are both given, or both nil, for engines that move bytes by themselves. It
// allocates nothing. Where an argument is refused, and on an error of the commit, nothing has changed; on a later error `done` is committed,
// and the new step, where there is one, was aborted.
func (b *Batch) Next(cache *Cache, memory *Memory, stream *Stream, done StepID, rows []CommitEntry, told []Symbol, entries []ReserveEntry,
	symbols []Symbol, results []ReserveResult) (StepID, error) {
	if b == nil || b.c == nil {
		return 0, refuse(InvalidArgument, "batch is nil, or was closed")
	}
	if err := b.takes(cache); err != nil {
		return 0, err
	}
	if len(results) < len(entries) || len(entries) == 0 || len(entries) > b.rows {
		return 0, refuse(InvalidArgument, "entries: none, more than results, or more than the batch has rows")
	}
	var m, s unsafe.Pointer
	if memory != nil || stream != nil {
		if err := stream.prepares(memory); err != nil {
			return 0, err
		}
		stream.hold(unsafe.Pointer(memory))
		m, s = memory.p, stream.p
	}
	text, count := symbolsOf(told)
	prompts, num := symbolsOf(symbols)
	// Plain variables: the expressions would be boxed for cgo's checks.
	done_, want, answers := (*C.quire_commit_entry)(first(rows)), (*C.quire_reserve_entry)(first(entries)), (*C.quire_reserve_result)(first(results))
	tables, of, last, numRows, n := b.c, cache.p, C.quire_step_id(done), C.uint64_t(len(rows)), C.uint64_t(len(entries))
	code := C.go_next(tables, of, m, s, last, done_, numRows, text, count, want, n, prompts, num, answers)
	runtime.KeepAlive(cache)
	runtime.KeepAlive(memory)
	runtime.KeepAlive(stream)
	next, err := StepID(tables.step), failure(code, &tables.err)
	if err != nil {
		next = 0
	}
	runtime.KeepAlive(b)
	return next, err
}
