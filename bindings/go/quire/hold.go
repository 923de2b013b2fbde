package quire

/*
#include <quire/quire.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// HoldID names a hold of a cache: blocks that are neither evicted nor written to until EndHold; 0 is none.
type HoldID uint64

// HoldInfo is quire_hold_info: facts of a hold.
type HoldInfo struct {
	structSize uint32
	_          uint32
	FirstToken uint64 // of the sequence
	EndToken   uint64 // the token after the last one
	NumParts   uint64 // in all groups
}

// PrefixDigest is SHA-256 over identity and symbols: equal prefixes have equal digests, in every process.
type PrefixDigest [32]byte

// Unit is quire_unit: a part of a sequence that became complete. End its Hold.
type Unit struct {
	Hold        HoldID       // keeps what the unit has
	Sequence    SequenceID   // may have ended
	FirstToken  uint64       // a multiple of UnitTokens
	EndToken    uint64       // the token after the last one
	Reason      UnitReason   // why it is reported now
	Flags       uint32       // UnitHasState
	Digest      PrefixDigest // of the tokens before EndToken
	AheadDigest PrefixDigest // the same with the tokens that drafts read beyond
}

// UnitOptions is quire_unit_options: what is reported of complete units.
type UnitOptions struct {
	structSize uint32
	Reasons    UnitReason // UnitCommitted, UnitHit, ...: at least one
	UnitTokens uint64     // a multiple of the block size of every group with a token table
	MaxWaiting uint32     // units between report and take; 0 = 1024
	_          uint32
}

// Hold holds what a sequence has of the committed tokens [first, end).
func (c *Cache) Hold(sequence SequenceID, first, end uint64) (HoldID, error) {
	var hold C.quire_hold_id
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_hold_begin(c, C.quire_sequence_id(sequence), C.uint64_t(first), C.uint64_t(end), &hold, err)
	})
	return HoldID(hold), err
}

// EndHold ends a hold: nobody reads its bytes any more.
func (c *Cache) EndHold(hold HoldID) error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_hold_end(c, C.quire_hold_id(hold), err)
	})
}

// HoldInfo tells what a hold has.
func (c *Cache) HoldInfo(hold HoldID) (info HoldInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_hold_get_info(c, C.quire_hold_id(hold), (*C.quire_hold_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// HoldIDs lists what a hold has of a group: [column][block], 0 where nothing is held.
func (c *Cache) HoldIDs(hold HoldID, group uint32) ([]int32, error) {
	ids, err := list(int32(0), func(ids *int32, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_hold_list_ids(c.c(), C.quire_hold_id(hold), C.uint32_t(group), (*C.int32_t)(unsafe.Pointer(ids)), n, count, err)
	})
	runtime.KeepAlive(c)
	return ids, err
}

// WatchUnits starts to report units, or changes what is reported. Units that wait are given up.
func (c *Cache) WatchUnits(options UnitOptions) error {
	options.structSize = uint32(unsafe.Sizeof(options))
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_watch_units(c, (*C.quire_unit_options)(unsafe.Pointer(&options)), err)
	})
}

// WatchNoUnits reports nothing any more.
func (c *Cache) WatchNoUnits() error {
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code { return C.quire_cache_watch_units(c, nil, err) })
}

// TakeUnits takes as many units as there is room for in `into`, the oldest first; it answers how many. The caller ends their holds.
func (c *Cache) TakeUnits(into []Unit) (int, error) {
	var count C.uint64_t
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_take_units(c, (*C.quire_unit)(first(into)), C.uint64_t(len(into)), &count, err)
	})
	return int(count), err
}

// PrefixDigests names prefixes of symbols of these lengths, which increase. Any goroutine; waits for a call that changes the cache.
func (c *Cache) PrefixDigests(identity Identity, symbols []Symbol, ends []uint64) ([]PrefixDigest, error) {
	var a arena
	defer a.free()
	who := identity.c(&a)
	if err := a.missing(); err != nil {
		return nil, err
	}
	text, count := symbolsOf(symbols)
	digests := make([]PrefixDigest, len(ends))
	err := c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_prefix_digests(c, &who, text, count, (*C.uint64_t)(first(ends)), C.uint64_t(len(ends)),
			(*C.uint8_t)(first(digests)), err)
	})
	if err != nil {
		return nil, err
	}
	return digests, nil
}

// Have answers for each group the position before which all is cached that a load needs. Those tokens have no slots.
func (t Step) Have() ([]uint64, error) {
	return listOf(t, func(step C.quire_step, items *uint64, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_load_get_have(step, (*C.uint64_t)(unsafe.Pointer(items)), n, count, err)
	})
}

// EndLoadLate is EndLoad where a transfer that was given up may still write what failures names: late holds it, 0 if there is nothing. End
// it when it is proved that nothing is written any more.
func (t Step) EndLoadLate(failures []LoadFailure) (committed uint64, late HoldID, err error) {
	var tokens C.uint64_t
	var hold C.quire_hold_id
	err = t.ask(func(step C.quire_step, err *C.quire_error) C.quire_code {
		return C.quire_load_end(step, (*C.quire_load_failure)(first(failures)), C.uint64_t(len(failures)), &tokens, &hold, err)
	})
	return uint64(tokens), HoldID(hold), err
}
