package quire

/*
#include <quire/quire.h>
#include <stdlib.h>

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a call.
static inline quire_code go_reserve(void *cache, const quire_reserve_entry *entries, uint64_t n, const quire_symbol *symbols,
                                    uint64_t num_symbols, quire_reserve_result *results, quire_step *step, quire_error *err) {
  return quire_reserve((quire_cache *)cache, entries, n, symbols, num_symbols, results, step, err);
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

// Identity says who shares with whom: sequences of equal salt, adapter and epoch.
type Identity struct {
	Salt, Adapter string // each at most 4096 bytes; sequences share prefixes only if both are equal
	Epoch         uint64 // of the weights, for example; part of the identity
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

// Cache is bookkeeping without bytes. Its calls and those of its steps are serialized by the caller, but for Probe, Stats, ReadEvents and
// SnapshotEvents, which may run beside others.
type Cache struct {
	owner
	kept *keeping // of all references to it
}

func (c *Cache) c() *C.quire_cache {
	if c == nil {
		return nil
	}
	return (*C.quire_cache)(c.p)
}

func newCache(p *C.quire_cache, plan *Config, kept *keeping) *Cache {
	c := &Cache{newOwner(unsafe.Pointer(p), plan), kept}
	if c.s == nil { // refused by every call, as one that nobody made
		c.Close()
		return c
	}
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
	c := newCache(p, config, &keeping{set: map[*tierSet]struct{}{}})
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
		return newCache(nil, nil, nil)
	}
	shared := newCache(C.quire_cache_retain(c.c()), c.plan, c.kept)
	runtime.KeepAlive(c)
	return shared
}

func (c *Cache) ask(body func(c *C.quire_cache, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(c.c(), err) })
	runtime.KeepAlive(c)
	return err
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

// Reserve reserves one step over all entries; results[i] answers entries[i]. The step is none when nothing was admitted. Allocates nothing.
func (c *Cache) Reserve(entries []ReserveEntry, symbols []Symbol, results []ReserveResult) (Step, error) {
	if err := c.check(); err != nil {
		return Step{}, err
	}
	if len(results) < len(entries) || len(entries) == 0 {
		return Step{}, refuse(InvalidArgument, "results: fewer than entries, or no entries")
	}
	text, count := symbolsOf(symbols)
	want, answers, n := (*C.quire_reserve_entry)(first(entries)), (*C.quire_reserve_result)(first(results)), C.uint64_t(len(entries))
	p, made, failed := c.p, &c.s.step, &c.s.err
	made.id = 0
	code := C.go_reserve(p, want, n, text, count, answers, made, failed)
	step, err := c.step(made.id), failure(code, failed)
	runtime.KeepAlive(c)
	return step, err
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

// BeginLoad admits tokens that a connector will bring; symbols are those of all of them. The load is none where there was no room.
func (c *Cache) BeginLoad(entry ReserveEntry, symbols []Symbol) (result ReserveResult, load Step, err error) {
	text, count := symbolsOf(symbols)
	var step C.quire_step
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_load_begin(c, (*C.quire_reserve_entry)(unsafe.Pointer(&entry)), text, count,
			(*C.quire_reserve_result)(unsafe.Pointer(&result)), &step, err)
	})
	if c != nil {
		load = c.step(step.id)
	}
	return result, load, err
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

// GroupStats are the pages of one group. Any goroutine. OutOfRange: there is no such group.
func (c *Cache) GroupStats(group uint32) (stats GroupStats, err error) {
	stats.structSize = uint32(unsafe.Sizeof(stats))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_get_group_stats(c, C.uint32_t(group), (*C.quire_group_stats)(unsafe.Pointer(&stats)), err)
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
