// What the tests of tiers and sessions share: an engine whose cache says of every number of which
// token it is.
package quire

import (
	"testing"
	"time"
	"unsafe"
)

// An engine with one attention layer, whose blocks have so many tokens.
type engine struct {
	rt     *Runtime
	device *Device
	stream *Stream
	config *Config
	cache  *Cache
	memory *Memory
	batch  *Batch
}

func newEngine(block uint32) *engine {
	rt, device, stream := onCPU()
	model := must(NewModel([]Layer{fullLayer(0)}, 256))
	defer model.Close()
	config := must(NewConfig(model, PlanOptions{NumPages: 33, BlockTokens: block}))
	return &engine{rt, device, stream, config, must(NewCache(rt, config, CacheOptions{})),
		must(NewMemory(device, config, 0)), must(NewBatch(config, 0))}
}

func (e *engine) ends() []func() {
	return []func(){e.cache.Close, e.memory.Close, e.batch.Close, e.config.Close, e.stream.Close,
		e.device.Close, e.rt.Close}
}

func (e *engine) close() {
	for _, end := range e.ends() {
		end()
	}
}

func (e *engine) shards() ([]*Memory, []*Stream) { return []*Memory{e.memory}, []*Stream{e.stream} }

func (e *engine) options(connectors ...*Connector) TiersOptions {
	o := TiersOptions{Weights: "org/model@1", UnitTokens: 32}
	o.Memories, o.Streams = e.shards()
	for _, c := range connectors {
		o.Tiers = append(o.Tiers, Tier{Connector: c, Reasons: UnitCommitted,
			MaxStoreBytes: 1 << 20})
	}
	return o
}

func (e *engine) host() *Connector {
	return must(OpenConnector(e.rt, "host", `{"bytes": "1MiB", "chunk_bytes": "4KiB"}`))
}

// What the layer caches of a token; keys and values differ by the sign.
func cached(symbol Symbol, position, i int) float32 {
	return float32(int(symbol)*8192 + position*32 + i + 1)
}

// Reserves what is missing of text[:end] in one step.
func (e *engine) reserve(t testing.TB, id SequenceID, text []Symbol,
	end int) (Step, ReserveResult) {
	info, got := must(e.cache.Sequence(id)), make([]ReserveResult, 1)
	want := ReserveEntry{Sequence: id, SymbolsPosition: info.Known,
		NumSymbols: uint32(len(text) - int(info.Known)),
		NumTokens:  uint32(end - int(info.Committed))}
	if info.Committed == 0 {
		want.Flags = EntryMatch
	}
	step := must(e.batch.Next(e.cache, e.memory, e.stream, Step{}, nil, nil, []ReserveEntry{want},
		text[info.Known:], got))
	if got[0].Code != OK || got[0].End() != uint64(end) {
		t.Fatalf("%+v", got[0])
	}
	return step, got[0]
}

// Computes and commits text[:end] of a sequence; the hit is what it did not compute.
func (e *engine) compute(t testing.TB, id SequenceID, text []Symbol, end int) (hit uint64) {
	step, got := e.reserve(t, id, text, end)
	key, value := rowsOf(int64(got.NumTokens)), rowsOf(int64(got.NumTokens))
	for i := range key.Data.Float32() {
		at := int(got.Position) + i/(2*dim)
		key.Data.Float32()[i] = cached(text[at], at, i%(2*dim))
		value.Data.Float32()[i] = -cached(text[at], at, i%(2*dim))
	}
	if err := e.stream.Append(must(e.memory.PagedKV(0, 0)), key, value, e.batch); err != nil {
		t.Fatal(err)
	}
	if err := e.stream.Synchronize(-1); err != nil {
		t.Fatal(err)
	}
	done := []CommitEntry{{Sequence: id, NumAccepted: got.NumTokens}}
	if err := step.Commit(done, nil); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Buffer{key.Data, value.Data} {
		b.Close()
	}
	return got.Position
}

// Compares every number of the sequence's tokens; text has one token more.
func (e *engine) expect(t testing.TB, id SequenceID, text []Symbol) {
	t.Helper()
	committed := int(must(e.cache.Sequence(id)).Committed)
	step, _ := e.reserve(t, id, text, committed+1)
	block := int(must(e.config.Group(0)).KernelBlockTokens)
	for item, sign := range []float32{1, -1} {
		view := must(e.memory.Tensor(ExportOptions{Kind: ExportLowered, Item: uint32(item)}))
		for at := 0; at < committed; at++ {
			row := int64(e.batch.Groups[0].Table[at/block])*view.Stride[0] +
				int64(at%block)*view.Stride[1]
			for i := 0; i < 2*dim; i++ {
				here := row + int64(i/dim)*view.Stride[2] + int64(i%dim)*view.Stride[3]
				got := *(*float32)(unsafe.Add(view.Data, here))
				if got != sign*cached(text[at], at, i) {
					t.Fatalf("token %d, item %d, %d: %g", at, item, i, got)
				}
			}
		}
	}
	if err := step.Abort(AbortNotLaunched); err != nil {
		t.Error(err)
	}
}

// Runs until so many units are stored.
func settled(t testing.TB, tiers *Tiers, units uint64) TiersStats {
	for end := time.Now().Add(20 * time.Second); ; {
		if n, err := tiers.Run(1e6, nil); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		stats := must(tiers.Stats())
		if stats.UnitsTaken == units && stats.UnitsInFlight == 0 {
			return stats
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", stats)
		}
	}
}

// Runs until one fetch has ended.
func ended(t testing.TB, tiers *Tiers) FetchResult {
	results := make([]FetchResult, 4)
	for end := time.Now().Add(20 * time.Second); ; {
		n, err := tiers.Run(1e8, results)
		if err != nil || n > 1 || time.Now().After(end) {
			t.Fatal(n, err, must(tiers.Stats()))
		}
		if n == 1 {
			return results[0]
		}
	}
}

// Fetches a prefix into a new sequence, compares it, and computes the rest.
func fetchAll(t testing.TB, e *engine, tiers *Tiers, text []Symbol, wanted uint64) FetchResult {
	t.Helper()
	id := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
	fetch := must(tiers.BeginFetch(id, text, 0))
	got := ended(t, tiers)
	if got.Fetch != fetch || got.Sequence != id || got.Outcome != FetchDone || got.Tier != 0 ||
		got.Committed != wanted ||
		got.Bytes < (wanted-got.HitTokens)*2*2*dim*4 || got.ElapsedNs <= 0 {
		t.Fatalf("%+v", got)
	}
	e.expect(t, id, text)
	if hit := e.compute(t, id, text, len(text)-1); hit != wanted {
		t.Errorf("computed from %d on", hit)
	}
	e.expect(t, id, text)
	return got
}
