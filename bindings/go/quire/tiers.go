package quire

/*
#include <quire/tier.h>
#include <stdlib.h>

// What a run writes: in C, so that it allocates nothing in Go.
typedef struct go_tiers {
  quire_error err;
  uint64_t count;
} go_tiers;

// Handles come as void *: Go would box pointers to incomplete structs for its checks.
static inline quire_code go_run(void *tiers, int64_t timeout, quire_fetch_result *results,
                                uint64_t capacity, go_tiers *t) {
  t->count = 0;
  return quire_tiers_run((quire_tiers *)tiers, timeout, results, capacity, &t->count, &t->err);
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Tier is one tier of TiersOptions.
type Tier struct {
	// Used only by the tiers while they exist: Submit, Poll and Cancel return FailedPrecondition.
	Connector *Connector
	Name      string // for statistics, at most 31 bytes; "" = the connector's
	// Which units are written: UnitCommitted (as soon as they are complete), UnitHit (when another
	// sequence resumes after them), UnitFinished (when Cache.Finish ends a sequence that has them),
	// UnitEvicting (just before the cache evicts them). 0 = the tier is only read.
	Reasons UnitReason
	// Bytes of stores in flight; a unit that is alone may exceed it. 0 = 64 MiB, or its part of an
	// eighth of the pool, which the tiers that write share equally, if that is less. Of peers: bytes
	// of all offers; 0 = a quarter of the pool.
	MaxStoreBytes uint64
	// The connector leads to other processes: BeginOffer and BeginFetchFrom use the tier, and nothing
	// else does. Reasons is 0. Failures do not suspend it: they may be those of one peer.
	Peers bool
}

// TiersOptions are what NewTiers is given.
type TiersOptions struct {
	// Name of the weights, 1 to 4096 bytes, for example "org/model@revision". Anything else that
	// changes cached values needs another name, too: rope scaling, quantization, tokenizer.
	Weights  string
	Memories []*Memory // of all shards, in their order, all in this process
	Streams  []*Stream // by shard: on which the engine prepares and runs steps
	Tiers    []Tier    // 1 to 8, the nearest first
	// A multiple of the block size of every group, at most 65536. 0 = chosen: 64 to 4096 tokens,
	// such that the records of a unit of one group take 1 MiB over all ranks, but none more than
	// the MaxObjectBytes of a connector.
	UnitTokens uint64
	// Prefill time per token, in nanoseconds; measure it. A fetch that is expected to take
	// more than 0.8 of computing the same tokens is not begun. 0 = unknown: all that is found is fetched.
	NsPerToken float64
	MaxFetches uint32 // at the same time, at most 4096; 0 = MaxLoads of the cache
	// Other tensor-parallel sizes whose records are read, too: at most 8, each 1 to 1024. They are
	// asked for where records of this process's own size are missing.
	TensorParallel []uint32
	// Memory of the ring of events of each tier that writes; see ReadTierEvents. 0 = no events.
	EventRingBytes uint64
}

// What C has and what it uses. It has no way back to the cache, which keeps it: see keeping.
type tierSet struct {
	handle
	s        *C.go_tiers
	memories []*Memory // references of its own, with what was bound to them
	streams  []*Stream // the same: they hold what is queued
}

// Tiers offload the KV cache of one Cache through connectors. Its calls are serialized by the
// caller, with each other and with those of the cache, and Run with those of the memories and
// streams. No progress is made without Run.
//
// Close it: one that was forgotten lives as long as its Cache, since the end of the last reference
// is serialized on the cache, too. It keeps cache, memories, streams and connectors; buffers that
// are bound to a memory must not be closed before it.
type Tiers struct {
	*tierSet
	kept *keeping
}

func (t *Tiers) c() *C.quire_tiers {
	if t == nil || t.tierSet == nil {
		return nil
	}
	return (*C.quire_tiers)(t.p)
}

// Whether calls may write to its scratch; one that was closed is refused by C.
func (t *Tiers) check() error {
	if t == nil || t.tierSet == nil || t.s == nil {
		return refuse(InvalidArgument, "tiers is nil, or was made without NewTiers")
	}
	return nil
}

// With references of its own to the memories and streams.
func newTierSet(memories []*Memory, streams []*Stream) (*tierSet, error) {
	t := &tierSet{s: (*C.go_tiers)(allocate(int(unsafe.Sizeof(C.go_tiers{}))))}
	for i, m := range memories {
		t.memories, t.streams = append(t.memories, m.Share()), append(t.streams, streams[i].Share())
	}
	missing := t.s == nil
	for _, s := range t.streams {
		missing = missing || s.calls == nil
	}
	if missing {
		t.closeShards()
		C.free(unsafe.Pointer(t.s))
		return nil, refuse(ResourceExhausted, "no host memory for tiers")
	}
	t.s.err.struct_size = C.uint32_t(unsafe.Sizeof(t.s.err))
	runtime.SetFinalizer(t, (*tierSet).end)
	return t, nil
}

func (t *tierSet) release() { C.quire_tiers_release((*C.quire_tiers)(t.take())) }

// The streams first: the last reference to one waits for what is queued.
func (t *tierSet) closeShards() {
	for _, s := range t.streams {
		s.Close()
	}
	for _, m := range t.memories {
		m.Close()
	}
}

// Nobody has the object or the cache any more. Memories that are held by streams end later.
func (t *tierSet) end() {
	t.release()
	C.free(unsafe.Pointer(t.s))
}

func (t Tier) c(a *arena) C.quire_tier {
	var c C.quire_tier
	c.connector, c.name = t.Connector.c(), a.text(t.Name)
	c.reasons, c.max_store_bytes = C.uint32_t(t.Reasons), C.uint64_t(t.MaxStoreBytes)
	if t.Peers {
		c.flags = C.QUIRE_TIER_PEERS
	}
	return c
}

// NewTiers makes the tiers of a cache, one Tiers per cache. They take its units from now on:
// WatchUnits and TakeUnits return FailedPrecondition while they exist. Serialized on cache.
// Errors: InvalidArgument (an option; a memory of another config; one connector twice; records of
// UnitTokens that are larger than a connector's MaxObjectBytes), FailedPrecondition (a tier writes
// but the cache has no prefix reuse; it has tiers that were not closed; a connector has tickets in
// flight, or is used by other tiers), NotRepresentable (blocks that cannot be packed without holes),
// Unimplemented (cross attention, unless all tiers have Peers; a connector without host memory, with
// keys shorter than 32 bytes or with objects shorter than one block; built without SHA-256), and the
// connectors'.
func NewTiers(cache *Cache, options TiersOptions) (*Tiers, error) {
	var a arena
	defer a.free()
	memories, streams, err := cache.shards(&a, options.Memories, options.Streams)
	if err != nil {
		return nil, err
	}
	if !cache.kept.empty() {
		return nil, refuse(FailedPrecondition, "cache: it has tiers, which were not closed yet")
	}
	var o C.quire_tiers_options
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.weights, o.memories, o.streams = a.text(options.Weights), memories, streams
	o.unit_tokens, o.ns_per_token = C.uint64_t(options.UnitTokens), C.double(options.NsPerToken)
	o.max_fetches, o.num_tiers = C.uint32_t(options.MaxFetches), C.uint64_t(len(options.Tiers))
	all := make([]C.quire_tier, len(options.Tiers))
	for i, tier := range options.Tiers {
		all[i] = tier.c(&a)
	}
	o.tiers = copied(&a, all)
	sizes := make([]C.uint32_t, len(options.TensorParallel))
	for i, size := range options.TensorParallel {
		sizes[i] = C.uint32_t(size)
	}
	o.tensor_parallel, o.num_tensor_parallel = copied(&a, sizes), C.uint64_t(len(sizes))
	o.event_ring_bytes = C.uint64_t(options.EventRingBytes)
	if err := a.missing(); err != nil {
		return nil, err
	}
	set, err := newTierSet(options.Memories, options.Streams)
	if err != nil {
		return nil, err
	}
	var p *C.quire_tiers
	err = cache.ask(func(cache *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_tiers_create(cache, &o, &p, err)
	})
	runtime.KeepAlive(options.Memories)
	runtime.KeepAlive(options.Streams)
	runtime.KeepAlive(options.Tiers)
	if err != nil {
		set.closeShards()
		return nil, err
	}
	set.p = unsafe.Pointer(p)
	return cache.keep(set), nil
}

func (c *Cache) keep(set *tierSet) *Tiers {
	c.kept.add(set)
	return &Tiers{set, c.kept}
}

// Close drops the reference. The last one cancels all fetches, waits until no connector touches
// memory of the tiers, and is serialized on the cache. As before Memory.Close, what is queued on
// the streams must be done if nobody else has the memories. Calls afterwards are refused.
func (t *Tiers) Close() {
	if t == nil || t.tierSet == nil {
		return
	}
	t.release()
	t.closeShards()
	t.kept.drop(t.tierSet)
}

// Share takes another reference to the same object, with a Close of its own; calls of both are
// serialized as of one.
func (t *Tiers) Share() *Tiers {
	if t == nil || t.tierSet == nil || t.p == nil {
		return &Tiers{}
	}
	set, err := newTierSet(t.memories, t.streams)
	if err != nil { // refused by every call, as one that nobody made
		return &Tiers{}
	}
	set.p = unsafe.Pointer(C.quire_tiers_retain(t.c()))
	runtime.KeepAlive(t)
	t.kept.add(set)
	return &Tiers{set, t.kept}
}

// ReadTierEvents copies events of what a tier keeps, from a number on, as Cache.ReadEvents those of
// the cache. Any goroutine. FailedPrecondition: no EventRingBytes, or the tier is only read. There
// are no snapshots: after DataLoss go on at Batch().Oldest.
func (t *Tiers) ReadTierEvents(tier uint32, from uint64, into *EventBuffer) error {
	return into.read(func(events *C.quire_event, n C.uint64_t, data *C.uint8_t, bytes C.uint64_t, batch *C.quire_event_batch) error {
		return t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
			return C.quire_tiers_read_events(t, C.uint32_t(tier), C.uint64_t(from), events, n, data, bytes, batch, err)
		})
	})
}

func (t *Tiers) ask(body func(t *C.quire_tiers, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(t.c(), err) })
	runtime.KeepAlive(t)
	return err
}

// BeginFetch asks the tiers for a prefix of symbols, beyond what the cache has. At least the last
// token is left to compute. One fetch brings at most MaxLoadTokens of the cache: set that to the
// longest prompt. The sequence is empty; do not use it until the fetch has ended, and to drop it,
// cancel first. symbols are read during the call. deadlineNs: nanoseconds from now; 0 = derived
// from NsPerToken and the measured speed of the tiers. The fetch may have ended already; Run
// reports it in any case.
// Errors: InvalidArgument, NotFound (stale id), FailedPrecondition (the sequence is not empty, or a
// fetch of it is in progress), ResourceExhausted (MaxFetches).
func (t *Tiers) BeginFetch(sequence SequenceID, symbols []Symbol,
	deadlineNs int64) (FetchID, error) {
	text, count := symbolsOf(symbols)
	var fetch C.quire_fetch_id
	err := t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_fetch_begin(t, C.quire_sequence_id(sequence), text, count,
			C.int64_t(deadlineNs), &fetch, err)
	})
	return FetchID(fetch), err
}

// CancelFetch ends a fetch early: Run reports it at its next call. Blocks of unfinished transfers
// stay quarantined until these have ended. Errors: NotFound (unknown, or it has ended).
func (t *Tiers) CancelFetch(fetch FetchID) error {
	return t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_fetch_cancel(t, C.quire_fetch_id(fetch), err)
	})
}

// Run does what there is to do: takes units from the cache and stores them, follows transfers, ends
// fetches. Call it in every iteration. It waits up to timeoutNs (0 = not at all) while transfers
// are in flight and none completes; an engine without steps calls it so while fetches are in
// progress. Before it, prepare every reserved step and queue the kernels of committed ones: stores
// wait for the work that is queued by now, and for no later work.
// Fetches that have ended go into results, each once; it answers how many. Others stay for the next
// call. Allocates nothing. The streams keep the memories reachable until they were synchronized.
// Errors: InvalidArgument, ResourceExhausted (host memory; nothing is lost, call again). Failures
// of connectors are counted, not returned.
func (t *Tiers) Run(timeoutNs int64, results []FetchResult) (int, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	holdMemories(t.streams, t.memories)
	p, s, into := t.p, t.s, (*C.quire_fetch_result)(first(results))
	code := C.go_run(p, C.int64_t(timeoutNs), into, C.uint64_t(len(results)), s)
	n, err := int(s.count), failure(code, &s.err)
	runtime.KeepAlive(t)
	return n, err
}

// TierStats reads the counters of a tier, by its index in TiersOptions.Tiers.
// Errors: OutOfRange (tier).
func (t *Tiers) TierStats(tier uint32) (stats TierStats, err error) {
	stats.structSize = uint32(unsafe.Sizeof(stats))
	err = t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_tiers_get_tier_stats(t, C.uint32_t(tier),
			(*C.quire_tier_stats)(unsafe.Pointer(&stats)), err)
	})
	return stats, err
}

// Stats reads the counters of all tiers together.
func (t *Tiers) Stats() (stats TiersStats, err error) {
	stats.structSize = uint32(unsafe.Sizeof(stats))
	err = t.ask(func(t *C.quire_tiers, err *C.quire_error) C.quire_code {
		return C.quire_tiers_get_stats(t, (*C.quire_tiers_stats)(unsafe.Pointer(&stats)), err)
	})
	return stats, err
}

// ReadRecord reads the header of a record, for tools that look at what a connector keeps. bytes:
// the record from its first byte on, untrusted, at least its header. Any goroutine.
// Errors: InvalidArgument, NotFound (they do not begin as a record does), Unimplemented (a record
// of another version), OutOfRange (its header is longer), DataLoss (the header is damaged).
func ReadRecord(bytes []byte) (info RecordInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = call(func(err *C.quire_error) C.quire_code {
		return C.quire_record_read(first(bytes), C.uint64_t(len(bytes)),
			(*C.quire_record_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// CheckRecord compares blocks of a record's payload with the checksums in its header; it answers
// how many are damaged. header: the record from its first byte on, untrusted, at least its header.
// blocks: whole blocks of the payload, from block number firstBlock on. Any goroutine.
// Errors: those of ReadRecord, and OutOfRange (no whole blocks, or more than it has).
func CheckRecord(header []byte, firstBlock uint64, blocks []byte) (damaged uint64, err error) {
	var n C.uint64_t
	err = call(func(err *C.quire_error) C.quire_code {
		return C.quire_record_check(first(header), C.uint64_t(len(header)), C.uint64_t(firstBlock),
			first(blocks), C.uint64_t(len(blocks)), &n, err)
	})
	return uint64(n), err
}
