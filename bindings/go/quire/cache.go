package quire

/*
#include <quire/quire.h>
#include <string.h>

static quire_code go_cache(quire_runtime *runtime, quire_config *config, uint32_t sequences, uint32_t tokens, uint32_t depth, uint32_t flags,
                           quire_cache **out, quire_error *err) {
  quire_cache_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.max_sequences = sequences;
  options.max_tokens_per_step = tokens;
  options.step_depth = depth;
  options.flags = flags;
  return quire_cache_create(runtime, config, &options, out, err);
}
static quire_identity go_identity(const char *salt, uint64_t salt_len, const char *adapter, uint64_t adapter_len, uint64_t epoch) {
  quire_identity identity;
  memset(&identity, 0, sizeof identity);
  identity.struct_size = sizeof identity;
  identity.salt.data = salt, identity.salt.len = salt_len;
  identity.adapter.data = adapter, identity.adapter.len = adapter_len;
  identity.epoch = epoch;
  return identity;
}
static quire_code go_sequence(quire_cache *cache, const char *salt, uint64_t salt_len, const char *adapter, uint64_t adapter_len,
                              uint64_t epoch, quire_sequence_id *out, quire_error *err) {
  quire_identity identity = go_identity(salt, salt_len, adapter, adapter_len, epoch);
  return quire_sequence_create(cache, &identity, out, err);
}
static quire_code go_fill(quire_cache *cache, quire_step_id step, int32_t kind, uint32_t group, uint32_t first, uint32_t columns, void *to,
                          uint64_t capacity, uint64_t pitch, uint64_t column_pitch, int64_t value, uint64_t *written, quire_error *err) {
  quire_fill fill;
  memset(&fill, 0, sizeof fill);
  fill.struct_size = sizeof fill;
  fill.kind = kind, fill.group = group, fill.first_column = first, fill.num_columns = columns;
  fill.destination = to, fill.capacity = capacity, fill.pitch = pitch == 0 ? capacity : pitch;
  fill.column_pitch = column_pitch, fill.fill_value = value;
  return quire_step_fill(cache, step, &fill, written, err);
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Symbol is what prefixes are compared by: a token id, or a position of a medium.
type Symbol uint32

// SequenceID names a sequence of a cache; 0 is none.
type SequenceID uint64

// StepID names a step of a cache; 0 is none.
type StepID uint64

// ReserveEntry is what one sequence wants of a step: quire_reserve_entry, byte for byte.
type ReserveEntry struct {
	Sequence      SequenceID
	SymbolsOffset uint64
	NumSymbols    uint32
	NumTokens     uint32
	LookAhead     uint32
	Flags         uint32
	FullTokens    uint64
	_             uint64
}

// ReserveResult answers one entry: quire_reserve_result, byte for byte.
type ReserveResult struct {
	Sequence      SequenceID
	Code          Code
	Group         uint32
	MissingPages  uint64
	Position      uint64
	NumTokens     uint32
	HitTokens     uint32
	Miss          int32
	Row           uint32
	Flags         uint32
	FullHitTokens uint32
}

// CommitEntry is the outcome of one row: quire_commit_entry, byte for byte.
type CommitEntry struct {
	Sequence      SequenceID
	SymbolsOffset uint64
	NumSymbols    uint32
	NumAccepted   uint32
	_             uint64
}

// Flags of entries.
const (
	EntryMatch     uint32 = C.QUIRE_ENTRY_MATCH
	EntryPromptEnd uint32 = C.QUIRE_ENTRY_PROMPT_END
	EntryNoStop    uint32 = C.QUIRE_ENTRY_NO_STOP
	EntryKeepState uint32 = C.QUIRE_ENTRY_KEEP_STATE
)

// FillKind says which array of a step Fill writes.
type FillKind int32

// The kinds of quire/cache.h.
const (
	FillTable        FillKind = C.QUIRE_FILL_TABLE
	FillTableIndptr  FillKind = C.QUIRE_FILL_TABLE_INDPTR
	FillTableIndices FillKind = C.QUIRE_FILL_TABLE_INDICES
	FillSlots        FillKind = C.QUIRE_FILL_SLOTS
	FillStateRead    FillKind = C.QUIRE_FILL_STATE_READ
	FillStateWrite   FillKind = C.QUIRE_FILL_STATE_WRITE
	FillKVLen        FillKind = C.QUIRE_FILL_KV_LEN
	FillQueryIndptr  FillKind = C.QUIRE_FILL_QUERY_INDPTR
	FillPositions    FillKind = C.QUIRE_FILL_POSITIONS
	FillRawTable     FillKind = C.QUIRE_FILL_RAW_TABLE
)

// FillAt says where in the step and how in the destination; Pitch 0 = all of it.
type FillAt struct {
	Group, FirstColumn, NumColumns uint32
	Pitch, ColumnPitch             uint64
	FillValue                      int64
}

// Identity says who shares with whom.
type Identity struct {
	Salt, Adapter string
	Epoch         uint64
}

// CacheOptions are limits; their memory is taken when the cache is made. Zero values are quire's defaults.
type CacheOptions struct {
	MaxSequences, MaxTokensPerStep, StepDepth uint32
	NoPrefixReuse                             bool
}

// Cache is bookkeeping without bytes. Its calls are serialized by the caller, but for Stats.
type Cache struct{ p *C.quire_cache }

// NewCache makes the bookkeeping of a plan. runtime may be nil.
func NewCache(rt *Runtime, config *Config, options CacheOptions) (*Cache, error) {
	var p *C.quire_runtime
	if rt != nil {
		p = rt.p
	}
	var flags C.uint32_t
	if options.NoPrefixReuse {
		flags = C.QUIRE_CACHE_NO_PREFIX_REUSE
	}
	c := &Cache{}
	err := newError()
	code := C.go_cache(p, config.p, C.uint32_t(options.MaxSequences), C.uint32_t(options.MaxTokensPerStep), C.uint32_t(options.StepDepth),
		flags, &c.p, &err)
	runtime.KeepAlive(rt)
	runtime.KeepAlive(config)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(c, (*Cache).Close)
	return c, nil
}

// Close drops the reference.
func (c *Cache) Close() {
	C.quire_cache_release(c.p)
	c.p = nil
	runtime.SetFinalizer(c, nil)
}

// NewSequence opens an empty sequence.
func (c *Cache) NewSequence(identity Identity) (SequenceID, error) {
	salt, saltLen, freeSalt := cText(identity.Salt)
	defer freeSalt()
	adapter, adapterLen, freeAdapter := cText(identity.Adapter)
	defer freeAdapter()
	var id C.quire_sequence_id
	err := newError()
	code := C.go_sequence(c.p, salt, saltLen, adapter, adapterLen, C.uint64_t(identity.Epoch), &id, &err)
	runtime.KeepAlive(c)
	return SequenceID(id), failure(code, &err)
}

// Finish ends a sequence; what it published stays findable.
func (c *Cache) Finish(id SequenceID) error {
	err := newError()
	code := C.quire_sequence_finish(c.p, C.quire_sequence_id(id), &err)
	runtime.KeepAlive(c)
	return failure(code, &err)
}

// Preempt gives all blocks of a sequence back; it goes on with its symbols passed again.
func (c *Cache) Preempt(id SequenceID) error {
	err := newError()
	code := C.quire_sequence_preempt(c.p, C.quire_sequence_id(id), &err)
	runtime.KeepAlive(c)
	return failure(code, &err)
}

// Fork makes another sequence with the same committed tokens.
func (c *Cache) Fork(id SequenceID) (SequenceID, error) {
	var child C.quire_sequence_id
	err := newError()
	code := C.quire_sequence_fork(c.p, C.quire_sequence_id(id), &child, &err)
	runtime.KeepAlive(c)
	return SequenceID(child), failure(code, &err)
}

func symbolsOf(symbols []Symbol) (*C.quire_symbol, C.uint64_t) {
	if len(symbols) == 0 {
		return nil, 0
	}
	return (*C.quire_symbol)(unsafe.Pointer(&symbols[0])), C.uint64_t(len(symbols))
}

// Reserve reserves one step over all entries; results[i] answers entries[i]. The step is 0 when nothing was admitted.
func (c *Cache) Reserve(entries []ReserveEntry, symbols []Symbol, results []ReserveResult) (StepID, error) {
	if len(results) < len(entries) || len(entries) == 0 {
		return 0, &Error{Code: InvalidArgument, Source: "go", Message: "results: fewer than entries, or no entries"}
	}
	text, count := symbolsOf(symbols)
	var step C.quire_step_id
	err := newError()
	code := C.quire_reserve(c.p, (*C.quire_reserve_entry)(unsafe.Pointer(&entries[0])), C.uint64_t(len(entries)), text, count,
		(*C.quire_reserve_result)(unsafe.Pointer(&results[0])), &step, &err)
	runtime.KeepAlive(c)
	return StepID(step), failure(code, &err)
}

// Commit says what stands: rows in row order.
func (c *Cache) Commit(step StepID, rows []CommitEntry, symbols []Symbol) error {
	var first *C.quire_commit_entry
	if len(rows) > 0 {
		first = (*C.quire_commit_entry)(unsafe.Pointer(&rows[0]))
	}
	text, count := symbolsOf(symbols)
	err := newError()
	code := C.quire_commit(c.p, C.quire_step_id(step), first, C.uint64_t(len(rows)), text, count, &err)
	runtime.KeepAlive(c)
	return failure(code, &err)
}

// Abort undoes a step and all later ones.
func (c *Cache) Abort(step StepID) error {
	err := newError()
	code := C.quire_abort(c.p, C.quire_step_id(step), &err)
	runtime.KeepAlive(c)
	return failure(code, &err)
}

// Fill writes an array of int32 of a step; it answers how many elements there are.
func (c *Cache) Fill(step StepID, kind FillKind, to []int32, at FillAt) (uint64, error) {
	if kind == FillSlots || len(to) == 0 {
		return 0, &Error{Code: InvalidArgument, Source: "go", Message: "to: empty, or kind is FillSlots, which is int64"}
	}
	return c.fill(step, kind, unsafe.Pointer(&to[0]), len(to), at)
}

// FillSlots is Fill for the slots, which are int64.
func (c *Cache) FillSlots(step StepID, to []int64, at FillAt) (uint64, error) {
	if len(to) == 0 {
		return 0, &Error{Code: InvalidArgument, Source: "go", Message: "to: empty"}
	}
	return c.fill(step, FillSlots, unsafe.Pointer(&to[0]), len(to), at)
}

func (c *Cache) fill(step StepID, kind FillKind, to unsafe.Pointer, n int, at FillAt) (uint64, error) {
	var written C.uint64_t
	err := newError()
	code := C.go_fill(c.p, C.quire_step_id(step), C.int32_t(kind), C.uint32_t(at.Group), C.uint32_t(at.FirstColumn), C.uint32_t(at.NumColumns),
		to, C.uint64_t(n), C.uint64_t(at.Pitch), C.uint64_t(at.ColumnPitch), C.int64_t(at.FillValue), &written, &err)
	runtime.KeepAlive(c)
	return uint64(written), failure(code, &err)
}

// Stats are counters since creation, and the present state.
type Stats struct {
	Sequences                                     uint32
	PagesTotal, PagesFree, PagesCached, PagesUsed uint64
	PromptTokens, HitTokens                       uint64
	Steps, AbortedSteps, Preemptions              uint64
}

// Stats may be called from any goroutine.
func (c *Cache) Stats() (Stats, error) {
	var s C.quire_cache_stats
	s.struct_size = C.uint32_t(unsafe.Sizeof(s))
	err := newError()
	code := C.quire_cache_get_stats(c.p, &s, &err)
	runtime.KeepAlive(c)
	return Stats{uint32(s.num_sequences), uint64(s.pages_total), uint64(s.pages_free), uint64(s.pages_evictable), uint64(s.pages_used),
		uint64(s.matched_prompt_tokens), uint64(s.hit_tokens), uint64(s.steps), uint64(s.aborted_steps), uint64(s.preemptions)}, failure(code, &err)
}

// Verify re-derives every invariant; O(pool).
func (c *Cache) Verify() error {
	err := newError()
	code := C.quire_cache_verify(c.p, &err)
	runtime.KeepAlive(c)
	return failure(code, &err)
}

// Go's entries beside C's, size by size, for the test that they are the same.
func entrySizes() [][2]uintptr {
	return [][2]uintptr{
		{unsafe.Sizeof(ReserveEntry{}), unsafe.Sizeof(C.quire_reserve_entry{})},
		{unsafe.Offsetof(ReserveEntry{}.FullTokens), unsafe.Offsetof(C.quire_reserve_entry{}.full_tokens)},
		{unsafe.Sizeof(ReserveResult{}), unsafe.Sizeof(C.quire_reserve_result{})},
		{unsafe.Offsetof(ReserveResult{}.Position), unsafe.Offsetof(C.quire_reserve_result{}.position)},
		{unsafe.Offsetof(ReserveResult{}.Miss), unsafe.Offsetof(C.quire_reserve_result{}.miss)},
		{unsafe.Offsetof(ReserveResult{}.FullHitTokens), unsafe.Offsetof(C.quire_reserve_result{}.full_hit_tokens)},
		{unsafe.Sizeof(CommitEntry{}), unsafe.Sizeof(C.quire_commit_entry{})},
		{unsafe.Offsetof(CommitEntry{}.NumAccepted), unsafe.Offsetof(C.quire_commit_entry{}.num_accepted)},
	}
}
