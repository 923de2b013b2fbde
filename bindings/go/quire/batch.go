package quire

/*
#include <quire/quire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Everything of a step that C reads and writes, in C memory.
typedef struct go_batch {
  quire_error err;
  quire_step step;
  quire_batch_options options;
  uint64_t needed, num_groups;
  quire_batch groups[1 << 16];
} go_batch;

static uint64_t go_batch_bytes(uint64_t num_groups) { return offsetof(go_batch, groups) + num_groups * sizeof(quire_batch); }
static quire_code go_grow(go_batch *b) {
  const uint64_t twice = 2 * b->options.bytes, bytes = b->needed > twice ? b->needed : twice;
  free(b->options.memory);
  b->options.memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
  b->options.bytes = b->options.memory != 0 ? bytes : 0;
  if (b->options.memory != 0) return QUIRE_OK;
  snprintf(b->err.source, sizeof b->err.source, "go");
  snprintf(b->err.message, sizeof b->err.message, "batch: no host memory for %llu bytes", (unsigned long long)bytes);
  return QUIRE_RESOURCE_EXHAUSTED;
}
// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a step.
static quire_code go_fill_batch(go_batch *b, void *owner, uint64_t id) {
  const quire_step step = {owner, id};
  quire_code code;
  do {
    memset(b->groups, 0, b->num_groups * sizeof b->groups[0]); // an error leaves an empty batch
    for (uint64_t g = 0; g < b->num_groups; ++g) b->groups[g].struct_size = sizeof b->groups[0];
    b->needed = 0;
    code = quire_step_get_batch(step, &b->options, b->groups, sizeof b->groups[0], b->num_groups, &b->needed, &b->err);
    if ((code != QUIRE_OK && code != QUIRE_OUT_OF_RANGE) || b->needed <= b->options.bytes) return code; // without memory it tells the size
    code = go_grow(b);
  } while (code == QUIRE_OK);
  return code;
}
static quire_code go_next(go_batch *b, void *cache, void *memory, void *stream, uint64_t done, const quire_commit_entry *rows,
                          uint64_t num_rows, const quire_symbol *told, uint64_t num_told, const quire_reserve_entry *entries, uint64_t n,
                          const quire_symbol *symbols, uint64_t num_symbols, quire_reserve_result *results) {
  const quire_step last = {cache, done};
  quire_code code = QUIRE_OK;
  b->step.id = 0;
  if (done != 0) code = quire_commit(last, rows, num_rows, told, num_told, &b->err);
  if (code == QUIRE_OK) code = quire_reserve((quire_cache *)cache, entries, n, symbols, num_symbols, results, &b->step, &b->err);
  if (code != QUIRE_OK || b->step.id == 0) {
    memset(b->groups, 0, b->num_groups * sizeof b->groups[0]);
    return code;
  }
  code = go_fill_batch(b, cache, b->step.id);
  if (code == QUIRE_OK && memory != 0) code = quire_memory_prepare_step((quire_memory *)memory, b->step, (quire_stream *)stream, &b->err);
  if (code != QUIRE_OK) {
    quire_abort(b->step, QUIRE_ABORT_NOT_LAUNCHED, 0);
    b->step.id = 0;
  }
  return code;
}
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Batch has the arrays of one step, in C memory that grows until the largest step fits, and writes them in one call with commit and
// reserve. One per step in flight. Its slices, those of Groups too, are those of the last step: none may be used after Close or the next
// step. Only Close gives the memory back.
type Batch struct {
	c      *C.go_batch
	Groups []GroupTables // one per group of the plan
	KVLen  []int32       // [rows] tokens after the step
	Indptr []int32       // [rows + 1] offsets of the rows' tokens
	Pos    []int32       // [tokens] positions
	whole  int           // the group whose lengths are those of the sequences
	plan   *Config
	closed uint32
}

// GroupTables are the arrays of one group: Table and Slots of attention, StateRead and StateWrite of states; [column] outermost, each of
// as many elements. Cross attention has lengths of its own, and slots for the encoder tokens of rows that begin.
type GroupTables struct {
	Columns               int     // ids of a block
	KVLen                 []int32 // [rows]
	Table                 []int32 // [column][row][Pitch] lowered ids
	Pitch                 int     // lowered ids from row to row of Table
	Slots                 []int64 // [column][NumSlots]
	NumSlots              int     // rows of keys that Append writes
	StateRead, StateWrite []int32 // [column][rows]; StateWrite with lists: [column][StateIndptr[rows]]
	StateIndptr           []int32 // [rows + 1], with state branches or states at blocks; nil = one state per row
	StateEnds             []int32 // [StateIndptr[rows]] tokens of the sequence after which state i was taken
}

// NewBatch takes a batch for steps of a plan, with the lowering of a shard.
func NewBatch(config *Config, shard uint32) (*Batch, error) {
	info, err := config.Info()
	if err != nil {
		return nil, err
	}
	if shard >= info.NumShards {
		return nil, refuse(OutOfRange, "shard: none of this plan")
	}
	b := &Batch{c: (*C.go_batch)(allocate(int(C.go_batch_bytes(C.uint64_t(info.NumGroups) + 1)))), plan: config.Share()}
	if b.c == nil {
		b.Close()
		return nil, refuse(ResourceExhausted, "no host memory for a batch")
	}
	b.c.err.struct_size, b.c.options.struct_size = C.uint32_t(unsafe.Sizeof(b.c.err)), C.uint32_t(unsafe.Sizeof(b.c.options))
	b.c.options.shard, b.c.num_groups = C.uint32_t(shard), C.uint64_t(info.NumGroups)
	for g := info.NumGroups; g > 0; g-- {
		group, err := config.Group(g - 1)
		if err != nil {
			b.Close()
			return nil, err
		}
		if group.EncoderTokens == 0 {
			b.whole = int(g - 1)
		}
	}
	return b, nil
}

// NewFixedBatch is NewBatch of a fixed shape: rows and tokens behind those of a step are padding, for which ops do nothing, and every step
// takes the same memory. Steps with more of them are OutOfRange.
func NewFixedBatch(config *Config, shard, rows, tokens uint32) (*Batch, error) {
	b, err := NewBatch(config, shard)
	if err == nil {
		b.c.options.flags, b.c.options.num_rows, b.c.options.num_tokens = C.QUIRE_BATCH_MAX_PITCH, C.uint32_t(rows), C.uint32_t(tokens)
	}
	return b, err
}

// Close gives the memory back; no op may use it any more.
func (b *Batch) Close() {
	if b == nil || !atomic.CompareAndSwapUint32(&b.closed, 0, 1) {
		return
	}
	if b.c != nil {
		C.free(b.c.options.memory)
	}
	C.free(unsafe.Pointer(b.c))
	b.plan.Close()
	b.c, b.Groups, b.KVLen, b.Indptr, b.Pos = nil, nil, nil, nil, nil
}

func (b *Batch) check() error {
	if b == nil || b.c == nil {
		return refuse(InvalidArgument, "batch is nil, or was closed")
	}
	return nil
}

// What an op over the caches of a group is given.
func (b *Batch) group(number C.uint32_t) (*C.quire_batch, error) {
	if number >= C.uint32_t(b.c.num_groups) || b.c.groups[number].num_rows == 0 {
		return nil, refuse(InvalidArgument, "step: the batch is empty, no step has filled it")
	}
	return &b.c.groups[number], nil
}

// Whether steps of an owner have arrays of this plan; one that was closed is refused by C.
func (b *Batch) takes(of *owner) error {
	if err := b.check(); err != nil {
		return err
	}
	if !of.closed() && of.plan.p != b.plan.p {
		return refuse(InvalidArgument, "cache: made from another config than the batch")
	}
	return nil
}

// C's memory as a slice of as many columns.
func slice[T, From any](from *From, columns, pitch, n int) []T {
	if from == nil {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(from)), (columns-1)*pitch+n)
}

func (g *GroupTables) read(from *C.quire_batch) {
	columns, rows, slots := int(from.num_columns), int(from.num_rows), int(from.num_slots)
	*g = GroupTables{Columns: columns, Pitch: int(from.table_pitch), NumSlots: slots}
	g.KVLen = slice[int32](from.kv_len, 1, 0, rows)
	g.Table = slice[int32](from.table, columns, int(from.table_column_pitch), rows*g.Pitch)
	g.Slots = slice[int64](from.slots, columns, int(from.slots_column_pitch), slots)
	g.StateRead = slice[int32](from.state_read, columns, int(from.state_read_column_pitch), rows)
	writes := rows
	if from.state_write_indptr != nil {
		g.StateIndptr = slice[int32](from.state_write_indptr, 1, 0, rows+1)
		writes = int(g.StateIndptr[rows])
		g.StateEnds = slice[int32](from.state_write_ends, 1, 0, writes)
	}
	g.StateWrite = slice[int32](from.state_write, columns, int(from.state_write_column_pitch), writes)
}

// Makes the slices those of the arrays that C wrote. Allocates nothing but the first time.
func (b *Batch) read() {
	n := int(b.c.num_groups)
	if len(b.Groups) != n {
		b.Groups = make([]GroupTables, n)
	}
	for g := range b.Groups {
		b.Groups[g].read(&b.c.groups[g])
	}
	from := &b.c.groups[b.whole]
	b.KVLen = b.Groups[b.whole].KVLen
	b.Indptr = slice[int32](from.query_indptr, 1, 0, int(from.num_rows)+1)
	b.Pos = slice[int32](from.positions, 1, 0, int(from.num_tokens))
}

func (b *Batch) shape() (rows, tokens int) {
	if b.check() == nil {
		rows, tokens = int(b.c.groups[b.whole].num_rows), int(b.c.groups[b.whole].num_tokens)
	}
	return rows, tokens
}

// NumRows is the number of rows of the last step.
func (b *Batch) NumRows() int {
	rows, _ := b.shape()
	return rows
}

// NumTokens is the number of tokens that the last step computes.
func (b *Batch) NumTokens() int {
	_, tokens := b.shape()
	return tokens
}

// Fill writes all arrays of a step or load in one call, for loops that reserve and commit by themselves. It allocates nothing in Go.
func (b *Batch) Fill(step Step) error {
	err := step.check()
	if err == nil {
		err = b.takes(step.of)
	}
	if err != nil {
		return err
	}
	arrays, of := b.c, step.of.p
	err = failure(C.go_fill_batch(arrays, of, C.uint64_t(step.ID)), &arrays.err)
	runtime.KeepAlive(step.of)
	b.read()
	runtime.KeepAlive(b)
	return err
}

// Next is a whole step in one call of C: commits `done` (none = nothing) with its rows and told symbols, reserves the entries, fills all
// arrays, and queues zeroes and copies on the stream: memory and stream are both given, or both nil, for engines that move bytes by
// themselves. It allocates nothing in Go. Where an argument is refused, and on an error of the commit, nothing has changed; on a later
// error `done` is committed, and the new step, where there is one, was aborted.
func (b *Batch) Next(cache *Cache, memory *Memory, stream *Stream, done Step, rows []CommitEntry, told []Symbol, entries []ReserveEntry,
	symbols []Symbol, results []ReserveResult) (Step, error) {
	err := cache.check()
	if err == nil {
		err = b.takes(&cache.owner)
	}
	if err != nil {
		return Step{}, err
	}
	if len(results) < len(entries) || len(entries) == 0 {
		return Step{}, refuse(InvalidArgument, "entries: none, or more than results")
	}
	if done.ID != 0 && (done.of == nil || done.of.p != cache.p) {
		return Step{}, refuse(InvalidArgument, "done: a step of another cache")
	}
	var m, s unsafe.Pointer
	if memory != nil || stream != nil {
		if err := stream.prepares(memory); err != nil {
			return Step{}, err
		}
		stream.hold(unsafe.Pointer(memory))
		m, s = memory.p, stream.p
	}
	text, count := symbolsOf(told)
	prompts, num := symbolsOf(symbols)
	// Plain variables: the expressions would be boxed for cgo's checks.
	done_, want := (*C.quire_commit_entry)(first(rows)), (*C.quire_reserve_entry)(first(entries))
	answers := (*C.quire_reserve_result)(first(results))
	arrays, of, last, numRows, n := b.c, cache.p, C.uint64_t(done.ID), C.uint64_t(len(rows)), C.uint64_t(len(entries))
	code := C.go_next(arrays, of, m, s, last, done_, numRows, text, count, want, n, prompts, num, answers)
	runtime.KeepAlive(memory)
	runtime.KeepAlive(stream)
	next, err := cache.step(arrays.step.id), failure(code, &arrays.err)
	runtime.KeepAlive(cache)
	b.read()
	runtime.KeepAlive(b)
	return next, err
}
