// Claims: what a tier stored comes back byte for byte, into the same cache and into that of another
// process; what is wrong is refused; what C uses lives as long as it does, and its end is
// serialized on the cache. Method: examples on the driver `cpu` with the connectors `host` and
// `file` of the installed tree; every number in the cache says of which token it is.
package quire

import (
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestWhatATierStoredComesBack(t *testing.T) {
	e := newEngine(16)
	host := e.host()
	o := e.options(host)
	o.Tiers[0].Name, o.MaxFetches, o.TensorParallel = "near", 2, []uint32{2, 4}
	tiers := must(NewTiers(e.cache, o))
	host.Close() // the tiers keep it
	text := counting(100, 120)
	first := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
	e.compute(t, first, text, 119)
	if stats := settled(t, tiers, 3); stats.UnitTokens != 32 || stats.Fetches != 0 {
		t.Errorf("%+v", stats)
	}
	if err := e.cache.Finish(first); err != nil || e.cache.Reset() != nil ||
		e.memory.Poison(e.stream, 7) != nil {
		t.Fatal(err)
	}
	got := fetchAll(t, e, tiers, text, 96)
	if got.HitTokens != 0 {
		t.Errorf("%+v", got)
	}
	one := must(tiers.TierStats(0))
	if one.Name.String() != "near" || one.IsOpen != 1 || one.UnitsStored != 3 ||
		one.ObjectsLoaded != 3 || one.BytesLoaded != got.Bytes ||
		one.TokensFetched != 96 || one.KeysFound == 0 || one.ObjectsDamaged != 0 {
		t.Errorf("%+v", one)
	}
	all := must(tiers.Stats())
	if all.Fetches != 1 || all.Outcomes[FetchDone] != 1 || all.TokensFetched != 96 ||
		all.FetchesInProgress != 0 {
		t.Errorf("%+v", all)
	}
	source := MetricsSource{Cache: e.cache, Tiers: tiers, Memory: e.memory, Labels: `engine="0"`}
	metrics := must(WriteMetrics([]MetricsSource{source}, OpenMetrics))
	if !strings.Contains(metrics, "\nquire_external_prefix_cache_hits_total{engine=\"0\"} 96\n") || !strings.HasSuffix(metrics, "# EOF\n") {
		t.Error(metrics)
	}
	if _, err := WriteMetrics([]MetricsSource{source, source}, PrometheusMetrics); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	tiers.Close()
	e.close()
}

func TestEventsOfATierAreThoseOfTheCache(t *testing.T) {
	e := newEngine(16)
	if err := e.cache.EnableEvents(EventOptions{Algorithm: HashSHA256CBOR, Seed: "7"}); err != nil {
		t.Fatal(err)
	}
	host := e.host()
	o := e.options(host)
	o.EventRingBytes = 1 << 20
	tiers := must(NewTiers(e.cache, o))
	host.Close()
	e.compute(t, must(e.cache.NewSequence(Identity{})), counting(100, 120), 119)
	settled(t, tiers, 3)
	cached, kept := must(NewEventBuffer(32, 8192)), must(NewEventBuffer(32, 8192))
	if err := e.cache.ReadEvents(0, cached); err != nil {
		t.Fatal(err)
	}
	if err := tiers.ReadTierEvents(0, 0, kept); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, event := range cached.Events() {
		all := cached.Hashes(&event)
		for i := 0; i < len(all); i += int(event.HashBytes) {
			names[string(all[i:i+int(event.HashBytes)])] = true
		}
	}
	n := 0
	for _, event := range kept.Events() {
		all := kept.Hashes(&event)
		for i := 0; i < len(all); i += int(event.HashBytes) {
			if !names[string(all[i:i+int(event.HashBytes)])] {
				t.Error("a tier names a block that the cache does not know")
			}
			n++
		}
	}
	if n != 6 { // three units of 32 tokens
		t.Error(n)
	}
	if err := tiers.ReadTierEvents(1, 0, kept); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	tiers.Close()
	e.close()
}

func TestAnotherProcessFindsWhatADirectoryHas(t *testing.T) {
	config := fmt.Sprintf(`{"directory": %q, "bytes": "16MiB"}`, t.TempDir())
	text := counting(7, 100)
	for round := 0; round < 2; round++ {
		e := newEngine(16)
		file := must(OpenConnector(e.rt, "file", config))
		tiers := must(NewTiers(e.cache, e.options(e.host(), file)))
		if round == 0 {
			e.compute(t, must(e.cache.NewSequence(Identity{Salt: "tenant"})), text, 99)
			settled(t, tiers, 3)
		} else {
			id := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
			must(tiers.BeginFetch(id, text, 1e10))
			if got := ended(t, tiers); got.Outcome != FetchDone || got.Tier != 1 ||
				got.Committed != 96 {
				t.Errorf("%+v", got)
			}
			e.expect(t, id, text)
		}
		tiers.Close()
		file.Close()
		e.close()
	}
	// The same bytes, read by hand.
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "none"}))
	file := must(OpenConnector(rt, "file", config))
	defer file.Close()
	items, keys, bytes := make([]ObjectEntry, 8), make([]byte, 1024), must(NewBuffer(1<<20))
	n, _, err := file.List(0, items, keys)
	if err != nil || n != 3 {
		t.Fatal(n, err)
	}
	run := bytes.Run(0, int(items[0].ObjectBytes))
	load := Ticket{Ticket: 1, Kind: TicketLoad, NumRuns: 1, NumKeys: 1, KeyBytes: 32,
		KeyOffset: items[0].KeyOffset, DeadlineNs: -1}
	if n, err := file.Submit([]Ticket{load}, []TicketRun{run}, keys); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	done := make([]Completion, 1)
	if n, err := file.Poll(-1, done); n != 1 || err != nil || done[0].Code != OK {
		t.Fatal(n, err, done)
	}
	record := bytes.Bytes()[:items[0].ObjectBytes]
	info := must(ReadRecord(record))
	if string(info.Key[:]) != string(keys[items[0].KeyOffset:][:32]) ||
		info.EndToken != info.FirstToken+32 || info.BlockTokens != 16 ||
		info.NumBlocks != 2 || info.BlockBytes != 16*2*2*dim*4 || info.NumHeads != 2 ||
		info.NumRanks != 1 || info.WrittenAtNs == 0 ||
		info.HeaderBytes+2*info.BlockBytes != uint64(len(record)) {
		t.Errorf("%+v", info)
	}
	payload := record[info.HeaderBytes:]
	if n := must(CheckRecord(record, 0, payload)); n != 0 {
		t.Error(n)
	}
	payload[info.BlockBytes] ^= 1
	if n := must(CheckRecord(record, 0, payload)); n != 1 {
		t.Error(n)
	}
	if n := must(CheckRecord(record, 0, payload[:info.BlockBytes])); n != 0 {
		t.Error(n)
	}
	if n := must(CheckRecord(record, 2, nil)); n != 0 {
		t.Error(n)
	}
	for name, test := range map[string]struct {
		code Code
		call func() error
	}{
		"short": {OutOfRange, func() error { _, err := ReadRecord(record[:64]); return err }},
		"none": {NotFound, func() error {
			_, err := ReadRecord([]byte("something else than a record, is it not"))
			return err
		}},
		"nil": {InvalidArgument, func() error { _, err := ReadRecord(nil); return err }},
		"part": {OutOfRange, func() error {
			_, err := CheckRecord(record, 0, payload[:5])
			return err
		}},
		"beyond": {OutOfRange, func() error {
			_, err := CheckRecord(record, 2, payload[:info.BlockBytes])
			return err
		}},
	} {
		if err := test.call(); !errors.Is(err, test.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	record[40] ^= 1
	if _, err := ReadRecord(record); !errors.Is(err, DataLoss) {
		t.Error(err)
	}
}

func TestFetchesAreCancelledAndRefused(t *testing.T) {
	e := newEngine(16)
	tiers := must(NewTiers(e.cache, e.options(e.host())))
	defer tiers.Close()
	text := counting(1, 120)
	id := must(e.cache.NewSequence(Identity{}))
	fetch := must(tiers.BeginFetch(id, text, 0))
	if _, err := tiers.BeginFetch(id, text, 0); !errors.Is(err, FailedPrecondition) {
		t.Error(err)
	}
	if err := tiers.CancelFetch(fetch); err != nil {
		t.Error(err)
	}
	if got := ended(t, tiers); got.Fetch != fetch || got.Outcome != FetchCancelled ||
		got.Committed != 0 {
		t.Errorf("%+v", got)
	}
	if err := tiers.CancelFetch(fetch); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	must(tiers.BeginFetch(id, text, 0))
	if got := ended(t, tiers); got.Outcome != FetchNothing || got.Tier != 0xffffffff {
		t.Errorf("%+v", got)
	}
	if _, err := tiers.BeginFetch(999, text, 0); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	if _, err := tiers.BeginFetch(id, text, -1); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := tiers.Run(-1, nil); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := tiers.TierStats(1); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
}

func TestTiersRefuseOptionsThatDoNotFit(t *testing.T) {
	e, other := newEngine(16), newEngine(16)
	host := e.host()
	closed, gone, stopped := e.host(), e.memory.Share(), e.stream.Share()
	closed.Close()
	gone.Close()
	stopped.Close()
	null := must(NewRuntime(RuntimeOptions{Driver: "null", NoEnv: true}))
	far := must(NewStream(must(OpenDevice(null, 0))))
	for name, change := range map[string]func(o *TiersOptions){
		"weights":      func(o *TiersOptions) { o.Weights = "" },
		"long weights": func(o *TiersOptions) { o.Weights = strings.Repeat("w", 4097) },
		"no memory":    func(o *TiersOptions) { o.Memories = nil },
		"no stream":    func(o *TiersOptions) { o.Streams = nil },
		"two shards": func(o *TiersOptions) {
			o.Memories, o.Streams = append(o.Memories, e.memory), append(o.Streams, e.stream)
		},
		"nil memory":      func(o *TiersOptions) { o.Memories = []*Memory{nil} },
		"zero memory":     func(o *TiersOptions) { o.Memories = []*Memory{{}} },
		"closed memory":   func(o *TiersOptions) { o.Memories = []*Memory{gone} },
		"other's memory":  func(o *TiersOptions) { o.Memories = []*Memory{other.memory} },
		"nil stream":      func(o *TiersOptions) { o.Streams = []*Stream{nil} },
		"zero stream":     func(o *TiersOptions) { o.Streams = []*Stream{{}} },
		"closed stream":   func(o *TiersOptions) { o.Streams = []*Stream{stopped} },
		"stream of null":  func(o *TiersOptions) { o.Streams = []*Stream{far} },
		"no tiers":        func(o *TiersOptions) { o.Tiers = nil },
		"nine tiers":      func(o *TiersOptions) { o.Tiers = make([]Tier, 9) },
		"nil connector":   func(o *TiersOptions) { o.Tiers[0].Connector = nil },
		"closed":          func(o *TiersOptions) { o.Tiers[0].Connector = closed },
		"twice":           func(o *TiersOptions) { o.Tiers = append(o.Tiers, o.Tiers[0]) },
		"reasons":         func(o *TiersOptions) { o.Tiers[0].Reasons = 1 << 20 },
		"long name":       func(o *TiersOptions) { o.Tiers[0].Name = strings.Repeat("n", 32) },
		"unit of 5":       func(o *TiersOptions) { o.UnitTokens = 5 },
		"negative time":   func(o *TiersOptions) { o.NsPerToken = -1 },
		"no ranks":        func(o *TiersOptions) { o.TensorParallel = []uint32{2, 0} },
		"many sizes":      func(o *TiersOptions) { o.TensorParallel = make([]uint32, 9) },
		"many fetches":    func(o *TiersOptions) { o.MaxFetches = 4097 },
		"a unit too long": func(o *TiersOptions) { o.UnitTokens = 1 << 17 },
	} {
		o := e.options(host)
		change(&o)
		if tiers, err := NewTiers(e.cache, o); !errors.Is(err, InvalidArgument) || tiers != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone2 := e.cache.Share()
	gone2.Close()
	for name, cache := range map[string]*Cache{"nil": nil, "zero": {}, "closed": gone2} {
		if _, err := NewTiers(cache, e.options(host)); !errors.Is(err, InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tiers := must(NewTiers(e.cache, e.options(host))) // nothing of the refused ones is left
	second, shared := e.cache.Share(), tiers.Share()
	for _, end := range []func(){tiers.Close, shared.Close} {
		if _, err := NewTiers(second, e.options(e.host())); !errors.Is(err, FailedPrecondition) {
			t.Error(err)
		}
		end()
		end()
	}
	must(NewTiers(second, e.options(host))).Close()
	for name, call := range map[string]func() error{
		"Run":         func() error { _, err := tiers.Run(0, nil); return err },
		"BeginFetch":  func() error { _, err := tiers.BeginFetch(1, nil, 0); return err },
		"CancelFetch": func() error { return tiers.CancelFetch(1) },
		"BeginFetchFrom": func() error {
			_, err := tiers.BeginFetchFrom(Peer{Address: "peer:1"}, 1, nil, 0)
			return err
		},
		"BeginOffer": func() error { _, err := tiers.BeginOffer(1, nil, 0, 0); return err },
		"OfferInfo":  func() error { _, err := tiers.OfferInfo(OfferHandle{}); return err },
		"EndOffer":   func() error { return tiers.EndOffer(OfferHandle{}) },
		"TierStats":  func() error { _, err := tiers.TierStats(0); return err },
		"Stats":      func() error { _, err := tiers.Stats(); return err },
		"Share":      func() error { _, err := tiers.Share().Stats(); return err },
	} {
		if err := call(); !errors.Is(err, InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTiersKeepWhatTheyWereMadeOf(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	order := rand.New(rand.NewSource(seed))
	for round := 0; round < 30; round++ {
		e := newEngine(16)
		host := e.host()
		tiers := must(NewTiers(e.cache, e.options(host)))
		shared := tiers.Share()
		e.compute(t, must(e.cache.NewSequence(Identity{})), counting(1, 80), 79)
		ends := append(e.ends(), host.Close, tiers.Close, shared.Close)
		order.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range ends {
			done := make(chan bool)
			go func() { end(); close(done) }()
			<-done
			for _, of := range []*Tiers{tiers, shared} {
				if _, err := of.Run(0, nil); (err == nil) != (!of.closed()) {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestForgottenTiersLiveAsLongAsTheirCache(t *testing.T) {
	for _, queued := range []bool{false, true} {
		var buffer, set *flag
		cache := func() *Cache {
			_, device, stream := onCPU()
			config := planOf(33, fullLayer(0))
			bytes := must(NewBuffer(int(must(config.Regions(0))[0].Bytes)))
			e := &engine{rt: must(NewRuntime(RuntimeOptions{NoEnv: true})), device: device,
				stream: stream, config: config,
				cache: must(NewCache(nil, config, CacheOptions{}))}
			e.batch = must(NewBatch(config, 0))
			e.memory = must(BindBuffers(device, config, 0, []*Buffer{bytes}))
			tiers := must(NewTiers(e.cache, e.options(e.host())))
			e.compute(t, must(e.cache.NewSequence(Identity{})), counting(1, 80), 79)
			must(tiers.Run(0, nil))
			if queued { // and never waited for
				id := must(e.cache.NewSequence(Identity{}))
				step, _ := e.reserve(t, id, counting(500, 20), 19)
				if err := e.memory.PrepareStep(step, stream); err != nil {
					t.Fatal(err)
				}
			}
			e.memory.Close()
			buffer, set = watch(bytes, (*Buffer).Close), watch(tiers.tierSet, (*tierSet).end)
			return e.cache
		}()
		collect()
		if buffer.is() || set.is() {
			t.Errorf("buffer %v, tiers %v: gone before their cache", buffer.is(), set.is())
		}
		runtime.KeepAlive(cache)
		cache = nil
		for i := 0; i < 50 && !buffer.is(); i++ {
			collect()
			if buffer.is() && !set.is() {
				t.Error("the buffer went before the tiers")
			}
		}
		if !buffer.is() || !set.is() {
			t.Errorf("queued %v: buffer %v, tiers %v: stay for ever", queued, buffer.is(), set.is())
		}
	}
}

func TestARunAllocatesNothing(t *testing.T) {
	e := newEngine(16)
	tiers := must(NewTiers(e.cache, e.options(e.host())))
	defer tiers.Close()
	results := make([]FetchResult, 4)
	e.compute(t, must(e.cache.NewSequence(Identity{})), counting(1, 80), 79)
	if n := testing.AllocsPerRun(50, func() {
		if _, err := tiers.Run(0, results); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations a run", n)
	}
}
