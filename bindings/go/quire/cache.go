package quire

/*
#include <quire/quire.h>
#include <stdlib.h>
#include <string.h>

// What the calls of one cache write: in C, so that a step allocates nothing in Go.
typedef struct go_scratch {
  quire_error err;
  quire_step_id step;
  uint64_t number;
  uint64_t written[QUIRE_MAX_FILLS];
} go_scratch;

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a call.
static inline quire_code go_reserve(void *cache, const quire_reserve_entry *entries, uint64_t n, const quire_symbol *symbols,
                                    uint64_t num_symbols, quire_reserve_result *results, go_scratch *s) {
  s->step = 0;
  return quire_reserve((quire_cache *)cache, entries, n, symbols, num_symbols, results, &s->step, &s->err);
}
static inline quire_code go_commit(void *cache, quire_step_id step, const quire_commit_entry *rows, uint64_t n, const quire_symbol *symbols,
                                   uint64_t num_symbols, go_scratch *s) {
  return quire_commit((quire_cache *)cache, step, rows, n, symbols, num_symbols, &s->err);
}
static inline quire_code go_fill(void *cache, quire_step_id step, int32_t kind, uint32_t group, uint32_t shard, uint32_t first,
                                 uint32_t columns, void *to, uint64_t capacity, uint64_t pitch, uint64_t column_pitch, int64_t value,
                                 uint32_t rows, uint32_t tokens, go_scratch *s) {
  quire_fill fill;
  memset(&fill, 0, sizeof fill);
  fill.struct_size = sizeof fill;
  fill.kind = kind, fill.group = group, fill.shard = shard, fill.first_column = first, fill.num_columns = columns;
  fill.destination = to, fill.capacity = capacity, fill.pitch = pitch == 0 ? capacity : pitch;
  fill.column_pitch = column_pitch, fill.fill_value = value;
  fill.num_rows = rows, fill.num_tokens = tokens;
  s->number = 0;
  return quire_step_fill((quire_cache *)cache, step, &fill, sizeof fill, 1, &s->number, &s->err);
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

// FillAt says where in the step and how in the destination; Pitch 0 = all of it.
type FillAt struct {
	Group, Shard, FirstColumn, NumColumns uint32
	Pitch, ColumnPitch                    uint64
	FillValue                             int64
	NumRows, NumTokens                    uint32 // of arrays of a fixed shape; 0 = those of the step
}

// Identity says who shares with whom: sequences of equal salt, adapter and epoch.
type Identity struct {
	Salt, Adapter string
	Epoch         uint64
	AdapterNumber uint64 // told in events; not part of the identity
	NoMatch       bool   // the sequence never reads the prefix index
	NoPublish     bool   // the sequence publishes nothing
}

func (i *Identity) c(a *arena) C.quire_identity {
	var to C.quire_identity
	to.struct_size = C.uint32_t(unsafe.Sizeof(to))
	to.salt, to.adapter = a.text(i.Salt), a.text(i.Adapter)
	to.epoch, to.adapter_number = C.uint64_t(i.Epoch), C.uint64_t(i.AdapterNumber)
	if i.NoMatch {
		to.flags |= C.QUIRE_SEQUENCE_NO_MATCH
	}
	if i.NoPublish {
		to.flags |= C.QUIRE_SEQUENCE_NO_PUBLISH
	}
	return to
}

// Cache is bookkeeping without bytes. Its calls are serialized by the caller, but for Probe, Stats, HostBytes, ReadEvents and SnapshotEvents,
// which may run beside others.
type Cache struct {
	handle
	s    *C.go_scratch
	plan *Config
}

func (c *Cache) c() *C.quire_cache {
	if c == nil {
		return nil
	}
	return (*C.quire_cache)(c.p)
}

func newCache(p *C.quire_cache, plan *Config) *Cache {
	c := &Cache{handle{unsafe.Pointer(p)}, (*C.go_scratch)(allocate(int(unsafe.Sizeof(C.go_scratch{})))), plan.Share()}
	if c.s == nil { // refused by every call, as one that nobody made
		c.Close()
		return c
	}
	c.s.err.struct_size = C.uint32_t(unsafe.Sizeof(c.s.err))
	runtime.SetFinalizer(c, (*Cache).end)
	return c
}

// NewCache makes the bookkeeping of a plan; all its memory is taken here. rt may be nil.
func NewCache(rt *Runtime, config *Config, options CacheOptions) (*Cache, error) {
	var p *C.quire_cache
	options.structSize = uint32(unsafe.Sizeof(options))
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_cache_create(rt.c(), config.c(), (*C.quire_cache_options)(unsafe.Pointer(&options)), &p, err)
	})
	runtime.KeepAlive(rt)
	runtime.KeepAlive(config)
	if err != nil {
		return nil, err
	}
	c := newCache(p, config)
	if c.s == nil {
		return nil, refuse(ResourceExhausted, "no host memory for a cache")
	}
	return c, nil
}

// Close drops the reference. Calls afterwards are refused with InvalidArgument.
func (c *Cache) Close() {
	if c != nil {
		C.quire_cache_release((*C.quire_cache)(c.take()))
		c.plan.Close()
	}
}

var errNoCache = refuse(InvalidArgument, "cache is nil, or was made without NewCache")

// Whether calls may write to its scratch; one that was closed is refused by C.
func (c *Cache) check() error {
	if c == nil || c.s == nil {
		return errNoCache
	}
	return nil
}

func (c *Cache) end() { // nobody has the object any more
	c.Close()
	C.free(unsafe.Pointer(c.s))
}

// Share takes another reference to the same object, with a Close of its own; calls of both are serialized as of one.
func (c *Cache) Share() *Cache {
	if c == nil {
		return newCache(nil, nil)
	}
	shared := newCache(C.quire_cache_retain(c.c()), c.plan)
	runtime.KeepAlive(c)
	return shared
}

func (c *Cache) ask(body func(c *C.quire_cache, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(c.c(), err) })
	runtime.KeepAlive(c)
	return err
}

// HostBytes is the memory taken at creation.
func (c *Cache) HostBytes() (uint64, error) {
	var bytes C.uint64_t
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_get_host_bytes(c, &bytes, err)
	})
	return uint64(bytes), err
}

// NewSequence opens an empty sequence.
func (c *Cache) NewSequence(identity Identity) (SequenceID, error) {
	var a arena
	defer a.free()
	who := identity.c(&a)
	if err := a.missing(); err != nil {
		return 0, err
	}
	var id C.quire_sequence_id
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_create(c, &who, &id, err)
	})
	return SequenceID(id), err
}

// Finish ends a sequence; what it published stays findable.
func (c *Cache) Finish(id SequenceID) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_finish(c, C.quire_sequence_id(id), err)
	})
}

// Preempt gives all blocks of a sequence back; it goes on with its symbols passed again.
func (c *Cache) Preempt(id SequenceID) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_preempt(c, C.quire_sequence_id(id), err)
	})
}

// Truncate shortens a sequence to so many committed tokens.
func (c *Cache) Truncate(id SequenceID, tokens uint64) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_truncate(c, C.quire_sequence_id(id), C.uint64_t(tokens), err)
	})
}

// Fork makes another sequence with the same committed tokens.
func (c *Cache) Fork(id SequenceID) (SequenceID, error) {
	var child C.quire_sequence_id
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_fork(c, C.quire_sequence_id(id), &child, err)
	})
	return SequenceID(child), err
}

// Sequence answers the state of a sequence.
func (c *Cache) Sequence(id SequenceID) (info SequenceInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_sequence_get_info(c, C.quire_sequence_id(id), (*C.quire_sequence_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// AddMedia answers the first symbol of a medium of so many positions: the same for the same digest.
func (c *Cache) AddMedia(digest [32]byte, length uint32) (Symbol, error) {
	var first C.quire_symbol
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_add_media(c, (*C.uint8_t)(&digest[0]), C.uint32_t(length), &first, err)
	})
	return Symbol(first), err
}

func symbolsOf(symbols []Symbol) (*C.quire_symbol, C.uint64_t) {
	return (*C.quire_symbol)(first(symbols)), C.uint64_t(len(symbols))
}

// Reserve reserves one step over all entries; results[i] answers entries[i]. The step is 0 when nothing was admitted. Allocates nothing.
func (c *Cache) Reserve(entries []ReserveEntry, symbols []Symbol, results []ReserveResult) (StepID, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	if len(results) < len(entries) || len(entries) == 0 {
		return 0, refuse(InvalidArgument, "results: fewer than entries, or no entries")
	}
	text, count := symbolsOf(symbols)
	want, answers, n := (*C.quire_reserve_entry)(first(entries)), (*C.quire_reserve_result)(first(results)), C.uint64_t(len(entries))
	p, s := c.p, c.s
	code := C.go_reserve(p, want, n, text, count, answers, s)
	step := StepID(s.step)
	err := failure(code, &s.err)
	runtime.KeepAlive(c)
	return step, err
}

// Commit says what stands: rows in row order. On an error the step is in flight as before. Allocates nothing.
func (c *Cache) Commit(step StepID, rows []CommitEntry, symbols []Symbol) error {
	if err := c.check(); err != nil {
		return err
	}
	text, count := symbolsOf(symbols)
	all, n, id := (*C.quire_commit_entry)(first(rows)), C.uint64_t(len(rows)), C.quire_step_id(step)
	p, s := c.p, c.s
	err := failure(C.go_commit(p, id, all, n, text, count, s), &s.err)
	runtime.KeepAlive(c)
	return err
}

// Abort undoes a step and all later ones. flags: AbortNotLaunched where no kernel of them has run or will run, else 0.
func (c *Cache) Abort(step StepID, flags uint32) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_abort(c, C.quire_step_id(step), C.uint32_t(flags), err)
	})
}

// Step answers the facts of a step in flight.
func (c *Cache) Step(step StepID) (info StepInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_step_get_info(c, C.quire_step_id(step), (*C.quire_step_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Fill writes an array of int32 of a step or load; it answers how many elements there are, also where `to` is too short. Allocates nothing.
func (c *Cache) Fill(step StepID, kind FillKind, to []int32, at FillAt) (uint64, error) {
	if kind == FillSlots {
		return 0, refuse(InvalidArgument, "kind: FillSlots is int64; call FillSlots")
	}
	return c.fill(step, kind, first(to), len(to), at)
}

// FillSlots is Fill for the slots, which are int64.
func (c *Cache) FillSlots(step StepID, to []int64, at FillAt) (uint64, error) {
	return c.fill(step, FillSlots, first(to), len(to), at)
}

func (c *Cache) fill(step StepID, kind FillKind, to unsafe.Pointer, n int, at FillAt) (uint64, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	p, s := c.p, c.s
	code := C.go_fill(p, C.quire_step_id(step), C.int32_t(kind), C.uint32_t(at.Group), C.uint32_t(at.Shard), C.uint32_t(at.FirstColumn),
		C.uint32_t(at.NumColumns), to, C.uint64_t(n), C.uint64_t(at.Pitch), C.uint64_t(at.ColumnPitch), C.int64_t(at.FillValue),
		C.uint32_t(at.NumRows), C.uint32_t(at.NumTokens), s)
	written := uint64(s.number)
	err := failure(code, &s.err)
	runtime.KeepAlive(c)
	return written, err
}

// Pin holds the longest prefix of symbols that is cached and can be resumed behind, until it is unpinned, its time is over or, unless its
// priority is PinHard, somebody could not be admitted otherwise; it answers the pin and the tokens that it holds.
func (c *Cache) Pin(identity Identity, symbols []Symbol, options PinOptions) (PinID, uint64, error) {
	var a arena
	defer a.free()
	who := identity.c(&a)
	if err := a.missing(); err != nil {
		return 0, 0, err
	}
	text, count := symbolsOf(symbols)
	var tokens C.uint64_t
	var pin C.quire_pin_id
	options.structSize = uint32(unsafe.Sizeof(options))
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_pin(c, &who, text, count, (*C.quire_pin_options)(unsafe.Pointer(&options)), &tokens, &pin, err)
	})
	return PinID(pin), uint64(tokens), err
}

// Unpin ends a pin.
func (c *Cache) Unpin(pin PinID) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_unpin(c, C.quire_pin_id(pin), err)
	})
}

// PinInfo tells what a pin holds.
func (c *Cache) PinInfo(pin PinID) (info PinInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_pin_get_info(c, C.quire_pin_id(pin), (*C.quire_pin_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Copies lists what must be copied before the kernels of a step or load; Memory.PrepareStep does it.
func (c *Cache) Copies(step StepID) ([]CopyID, error) {
	all, err := list(CopyID{}, func(items *CopyID, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_step_list_copies(c.c(), C.quire_step_id(step), (*C.quire_copy)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(c)
	return all, err
}

// Zeroes lists what must be zeroed before the kernels of a step or load; Memory.PrepareStep does it.
func (c *Cache) Zeroes(step StepID) ([]ZeroID, error) {
	all, err := list(ZeroID{}, func(items *ZeroID, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_step_list_zeroes(c.c(), C.quire_step_id(step), (*C.quire_zero)(unsafe.Pointer(items)), n, count, err)
	})
	runtime.KeepAlive(c)
	return all, err
}

// ExportStep writes a step or load as bytes, for caches with CacheFollower in other processes, into `to` where it has room.
func (c *Cache) ExportStep(step StepID, to []byte) ([]byte, error) {
	var size C.uint64_t
	ask := func(p unsafe.Pointer, room int) error {
		return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
			return C.quire_step_export(c, C.quire_step_id(step), p, C.uint64_t(room), &size, err)
		})
	}
	if err := ask(nil, 0); err != nil {
		return to[:0], err
	}
	if uint64(cap(to)) < uint64(size) {
		var err error
		if to, err = room[byte](uint64(size), "the bytes of a step"); err != nil {
			return nil, err
		}
	}
	to = to[:size]
	return to, ask(first(to), len(to))
}

// ImportStep takes a step of the leader over; it answers what Fill, Copies, Zeroes and Memory.PrepareStep call it.
func (c *Cache) ImportStep(bytes []byte) (StepID, error) {
	var id C.quire_step_id
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_step_import(c, first(bytes), C.uint64_t(len(bytes)), &id, err)
	})
	return StepID(id), err
}

// BeginLoad admits tokens that a connector will bring; symbols are those of all of them. The load's id goes to Fill, Copies, Zeroes and EndLoad; 0 = there was no room.
func (c *Cache) BeginLoad(entry ReserveEntry, symbols []Symbol) (result ReserveResult, load StepID, err error) {
	text, count := symbolsOf(symbols)
	var id C.quire_step_id
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_load_begin(c, (*C.quire_reserve_entry)(unsafe.Pointer(&entry)), text, count,
			(*C.quire_reserve_result)(unsafe.Pointer(&result)), &id, err)
	})
	return result, StepID(id), err
}

// EndLoad says what did not arrive, nothing where failures is empty; it answers the tokens that the sequence has now.
func (c *Cache) EndLoad(load StepID, failures []LoadFailure) (uint64, error) {
	var committed C.uint64_t
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_load_end(c, C.quire_step_id(load), (*C.quire_load_failure)(first(failures)), C.uint64_t(len(failures)), &committed, err)
	})
	return uint64(committed), err
}

// Probe answers what a prompt would hit now. Any goroutine.
func (c *Cache) Probe(identity Identity, symbols []Symbol) (result ProbeResult, err error) {
	var a arena
	defer a.free()
	who := identity.c(&a)
	if err := a.missing(); err != nil {
		return result, err
	}
	text, count := symbolsOf(symbols)
	result.structSize = uint32(unsafe.Sizeof(result))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_probe(c, &who, text, count, (*C.quire_probe_result)(unsafe.Pointer(&result)), err)
	})
	return result, err
}

// Stats are counters since creation, and the present state. Any goroutine.
func (c *Cache) Stats() (stats Stats, err error) {
	stats.structSize = uint32(unsafe.Sizeof(stats))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_get_stats(c, (*C.quire_cache_stats)(unsafe.Pointer(&stats)), err)
	})
	return stats, err
}

// Reset forgets all published content that no sequence references; all pins end.
func (c *Cache) Reset() error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code { return C.quire_cache_reset(c, err) })
}

// ForgetBlocks forgets published blocks of a group by id, and what hangs below them; it answers how many of all groups went.
func (c *Cache) ForgetBlocks(group uint32, ids []int32) (uint64, error) {
	var forgotten C.uint64_t
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_forget_blocks(c, C.uint32_t(group), (*C.int32_t)(first(ids)), C.uint64_t(len(ids)), &forgotten, err)
	})
	return uint64(forgotten), err
}

// Verify re-derives every invariant; O(pool).
func (c *Cache) Verify() error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code { return C.quire_cache_verify(c, err) })
}
