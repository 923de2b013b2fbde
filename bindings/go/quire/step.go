package quire

/*
#include <quire/quire.h>
#include <stdlib.h>
#include <string.h>

// What the calls of one cache and its steps write: in C, so that a step allocates nothing in Go.
typedef struct go_scratch {
  quire_error err;
  quire_step step;
  uint64_t number;
} go_scratch;

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a call.
static inline quire_step go_step(void *owner, uint64_t id) {
  quire_step step = {owner, id};
  return step;
}
static inline quire_code go_commit(void *owner, uint64_t id, const quire_commit_entry *rows, uint64_t n, const quire_symbol *symbols,
                                   uint64_t num_symbols, go_scratch *s) {
  return quire_commit(go_step(owner, id), rows, n, symbols, num_symbols, &s->err);
}
static inline quire_code go_fill(void *owner, uint64_t id, int32_t kind, uint32_t group, uint32_t shard, uint32_t first, uint32_t columns,
                                 void *to, uint64_t capacity, uint64_t pitch, uint64_t column_pitch, int64_t value, uint32_t rows,
                                 uint32_t tokens, go_scratch *s) {
  quire_fill fill;
  memset(&fill, 0, sizeof fill);
  fill.struct_size = sizeof fill;
  fill.kind = kind, fill.group = group, fill.shard = shard, fill.first_column = first, fill.num_columns = columns;
  fill.destination = to, fill.capacity = capacity, fill.pitch = pitch == 0 ? capacity : pitch;
  fill.column_pitch = column_pitch, fill.fill_value = value;
  fill.num_rows = rows, fill.num_tokens = tokens;
  s->number = 0;
  return quire_step_fill(go_step(owner, id), &fill, sizeof fill, 1, &s->number, &s->err);
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// What steps are of: a cache or a follower.
type owner struct {
	handle
	s    *C.go_scratch
	plan *Config
}

func newOwner(p unsafe.Pointer, plan *Config) owner {
	o := owner{handle{p}, (*C.go_scratch)(allocate(int(unsafe.Sizeof(C.go_scratch{})))), plan.Share()}
	if o.s != nil {
		o.s.err.struct_size = C.uint32_t(unsafe.Sizeof(o.s.err))
	}
	return o
}

// The step of an id; none where it is 0.
func (o *owner) step(id C.uint64_t) Step {
	if id == 0 {
		return Step{}
	}
	return Step{o, uint64(id)}
}

// Step is a step or load in flight, or a follower's: a value. The zero Step is none. It keeps its cache reachable; once that was closed its
// calls are refused. After its end they answer NotFound.
type Step struct {
	of *owner
	ID uint64 // a cache counts its steps up from 1; 0 = none
}

// FillAt says where in the step and how in the destination; Pitch 0 = all of it.
type FillAt struct {
	Group, Shard, FirstColumn, NumColumns uint32 // which group; whose lowering; first column; columns, 0 = all from the first on
	Pitch, ColumnPitch                    uint64 // elements from row to row, and from column to column (0 = dense)
	FillValue                             int64  // tables: behind the end of a row
	NumRows, NumTokens                    uint32 // of arrays of a fixed shape; 0 = those of the step
}

var errNoStep = refuse(InvalidArgument, "step: none")

// Whether calls may write to the scratch of its owner; one that was closed is refused by C.
func (t Step) check() error {
	if t.of == nil || t.of.s == nil {
		return errNoStep
	}
	return nil
}

func (t Step) ask(body func(step C.quire_step, err *C.quire_error) C.quire_code) error {
	if err := t.check(); err != nil {
		return err
	}
	err := call(func(err *C.quire_error) C.quire_code { return body(C.go_step(t.of.p, C.uint64_t(t.ID)), err) })
	runtime.KeepAlive(t.of)
	return err
}

// Commit says what stands: rows in row order. On an error the step is in flight as before. Allocates nothing.
func (t Step) Commit(rows []CommitEntry, symbols []Symbol) error {
	if err := t.check(); err != nil {
		return err
	}
	text, count := symbolsOf(symbols)
	all, n := (*C.quire_commit_entry)(first(rows)), C.uint64_t(len(rows))
	p, s := t.of.p, t.of.s
	err := failure(C.go_commit(p, C.uint64_t(t.ID), all, n, text, count, s), &s.err)
	runtime.KeepAlive(t.of)
	return err
}

// Abort undoes a step and all later ones. flags: AbortNotLaunched where no kernel of them has run or will run, else 0.
func (t Step) Abort(flags uint32) error {
	return t.ask(func(step C.quire_step, err *C.quire_error) C.quire_code {
		return C.quire_abort(step, C.uint32_t(flags), err)
	})
}

// Info answers the facts of the step.
func (t Step) Info() (info StepInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = t.ask(func(step C.quire_step, err *C.quire_error) C.quire_code {
		return C.quire_step_get_info(step, (*C.quire_step_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Fill writes an array of int32; it answers how many elements there are, also where `to` is too short. Allocates nothing.
func (t Step) Fill(kind FillKind, to []int32, at FillAt) (uint64, error) {
	if kind == FillSlots {
		return 0, refuse(InvalidArgument, "kind: FillSlots is int64; call FillSlots")
	}
	return t.fill(kind, first(to), len(to), at)
}

// FillSlots is Fill for the slots, which are int64.
func (t Step) FillSlots(to []int64, at FillAt) (uint64, error) {
	return t.fill(FillSlots, first(to), len(to), at)
}

func (t Step) fill(kind FillKind, to unsafe.Pointer, n int, at FillAt) (uint64, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	p, s := t.of.p, t.of.s
	code := C.go_fill(p, C.uint64_t(t.ID), C.int32_t(kind), C.uint32_t(at.Group), C.uint32_t(at.Shard), C.uint32_t(at.FirstColumn),
		C.uint32_t(at.NumColumns), to, C.uint64_t(n), C.uint64_t(at.Pitch), C.uint64_t(at.ColumnPitch), C.int64_t(at.FillValue),
		C.uint32_t(at.NumRows), C.uint32_t(at.NumTokens), s)
	written, err := uint64(s.number), failure(code, &s.err)
	runtime.KeepAlive(t.of)
	return written, err
}

// Copies lists what must be copied before the kernels; Memory.PrepareStep does it.
func (t Step) Copies() ([]CopyID, error) {
	return listOf(t, func(step C.quire_step, items *CopyID, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_step_list_copies(step, (*C.quire_copy)(unsafe.Pointer(items)), n, count, err)
	})
}

// Zeroes lists what must be zeroed before the kernels; Memory.PrepareStep does it.
func (t Step) Zeroes() ([]ZeroID, error) {
	return listOf(t, func(step C.quire_step, items *ZeroID, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_step_list_zeroes(step, (*C.quire_zero)(unsafe.Pointer(items)), n, count, err)
	})
}

func listOf[T any](t Step, body func(step C.quire_step, items *T, n C.uint64_t, count *C.uint64_t,
	err *C.quire_error) C.quire_code) ([]T, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	var blank T
	all, err := list(blank, func(items *T, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return body(C.go_step(t.of.p, C.uint64_t(t.ID)), items, n, count, err)
	})
	runtime.KeepAlive(t.of)
	return all, err
}

// Export writes the step as bytes for a Follower in another process, into `to` where it has room.
func (t Step) Export(to []byte) ([]byte, error) {
	var size C.uint64_t
	ask := func(p unsafe.Pointer, room int) error {
		return t.ask(func(step C.quire_step, err *C.quire_error) C.quire_code {
			return C.quire_step_export(step, p, C.uint64_t(room), &size, err)
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

// EndLoad says what of a load did not arrive, nothing where failures is empty; it answers the tokens that the sequence has now.
func (t Step) EndLoad(failures []LoadFailure) (uint64, error) {
	var committed C.uint64_t
	err := t.ask(func(step C.quire_step, err *C.quire_error) C.quire_code {
		return C.quire_load_end(step, (*C.quire_load_failure)(first(failures)), C.uint64_t(len(failures)), &committed, nil, err)
	})
	return uint64(committed), err
}

// Follower is a rank of the same plan in another process, which makes no steps of its own: it takes those of its leader over as bytes. Its
// calls and those of its steps are serialized by the caller.
type Follower struct{ owner }

func newFollower(p *C.quire_follower, plan *Config) *Follower {
	f := &Follower{newOwner(unsafe.Pointer(p), plan)}
	if f.s == nil { // refused by every call, as one that nobody made
		f.Close()
		return f
	}
	runtime.SetFinalizer(f, (*Follower).end)
	return f
}

// NewFollower makes a follower with the options of the leader's cache; all its memory is taken here.
func NewFollower(config *Config, options CacheOptions) (*Follower, error) {
	var p *C.quire_follower
	options.structSize = uint32(unsafe.Sizeof(options))
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_follower_create(config.c(), (*C.quire_cache_options)(unsafe.Pointer(&options)), &p, err)
	})
	runtime.KeepAlive(config)
	if err != nil {
		return nil, err
	}
	f := newFollower(p, config)
	if f.s == nil {
		return nil, refuse(ResourceExhausted, "no host memory for a follower")
	}
	return f, nil
}

func (f *Follower) c() *C.quire_follower {
	if f == nil {
		return nil
	}
	return (*C.quire_follower)(f.p)
}

// Close drops the reference. Calls afterwards are refused with InvalidArgument.
func (f *Follower) Close() {
	if f != nil {
		C.quire_follower_release((*C.quire_follower)(f.take()))
		f.plan.Close()
	}
}

func (f *Follower) end() { // nobody has the object any more
	f.Close()
	C.free(unsafe.Pointer(f.s))
}

// Share takes another reference to the same object, with a Close of its own; calls of both are serialized as of one.
func (f *Follower) Share() *Follower {
	if f == nil {
		return newFollower(nil, nil)
	}
	shared := newFollower(C.quire_follower_retain(f.c()), f.plan)
	runtime.KeepAlive(f)
	return shared
}

// Import takes a step over that Step.Export wrote. The last StepDepth ones can be asked; a further one replaces the oldest.
func (f *Follower) Import(bytes []byte) (Step, error) {
	var step C.quire_step
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_follower_import(f.c(), first(bytes), C.uint64_t(len(bytes)), &step, err)
	})
	runtime.KeepAlive(f)
	if err != nil {
		return Step{}, err
	}
	return f.step(step.id), nil
}
