// Claims: every part of the ABI works through this package as the headers say, what is wrong is refused. Method: examples on
// the drivers cpu and null of the installed tree.
package quire

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
)

const dim = 16

func fullLayer(layer uint32) Layer {
	return Layer{Kind: LayerFull, Layer: layer, KVHeads: 2, QHeads: 2, HeadDimK: dim, HeadDimV: dim, DType: Float32}
}

func stateLayer(layer uint32) Layer {
	return Layer{Kind: LayerState, Layer: layer, StateKind: StateGDN, DType: Float32, State: []StateTensor{
		{DType: Float32, Ndim: 3, Shape: [4]uint64{2, dim, dim}}, {DType: Float32, Ndim: 2, Shape: [4]uint64{3, 8}}}}
}

func planOf(pages uint64, layers ...Layer) *Config {
	model := must(NewModel(layers, 256))
	defer model.Close()
	return must(NewConfig(model, PlanOptions{NumPages: pages}))
}

func counting(from, n int) []Symbol {
	all := make([]Symbol, n)
	for i := range all {
		all[i] = Symbol(from + i)
	}
	return all
}

// Computes and commits a whole prompt, chunk by chunk.
func serve(t testing.TB, cache *Cache, id SequenceID, prompt []Symbol) (hit uint32) {
	done := 0
	for round := 0; done < len(prompt); round++ {
		known := must(cache.Sequence(id)).Known
		entry := ReserveEntry{Sequence: id, SymbolsPosition: known, NumSymbols: uint32(len(prompt) - int(known)),
			NumTokens: uint32(len(prompt) - done)}
		if round == 0 {
			entry.Flags = EntryMatch | EntryPromptEnd
		}
		got := make([]ReserveResult, 1)
		step := must(cache.Reserve([]ReserveEntry{entry}, prompt[known:], got))
		if got[0].Code != OK {
			t.Fatal(got[0].Code)
		}
		if round == 0 {
			hit = got[0].HitTokens
		}
		if err := step.Commit([]CommitEntry{{Sequence: id, NumAccepted: got[0].NumTokens}}, nil); err != nil {
			t.Fatal(err)
		}
		done = int(got[0].End())
	}
	return hit
}

func TestPlansAnswerEveryQuestion(t *testing.T) {
	model := must(NewModel([]Layer{fullLayer(0), stateLayer(1)}, 256))
	if info := must(model.Info()); info.NumCaches != 2 || info.MaxModelLen != 256 {
		t.Errorf("%+v", info)
	}
	if layer := must(model.Layer(1)); layer.Kind != LayerState || len(layer.State) != 2 || layer.State[0].Shape[2] != dim || layer.Name == "" {
		t.Errorf("%+v", layer)
	}
	if text := must(model.Describe()); !strings.Contains(text, "full") {
		t.Error(text)
	}
	shared := model.Share()
	model.Close()
	config := must(NewConfig(shared, PlanOptions{NumPages: 33, Policy: "vllm", PreferredLayouts: []string{"BLPJKTHD"}}))
	info := must(config.Info())
	if info.Policy.String() != "vllm" || info.NumPages != 33 || info.NumGroups != 2 {
		t.Errorf("%+v", info)
	}
	if place := must(config.Place(1, 0)); must(config.Group(place.Group)).IsState != 1 {
		t.Errorf("%+v", place)
	}
	place := must(config.Place(0, 0))
	view, field := must(config.KVView(0, 0, 0)), must(config.Fields(0, 0, 0))
	if view.NumHeads != 2 || len(field) != 2 || field[1].Offset != view.Offset[1] {
		t.Errorf("%+v %+v", view, field)
	}
	if state := must(config.StateView(0, 1, 0, 1)); state.Shape != [4]uint64{3, 8, 0, 0} && state.Shape != [4]uint64{3, 8, 1, 1} {
		t.Errorf("%+v", state)
	}
	if lowering := must(config.Lowering(0, place.Group)); lowering.NumLoweredIDs == 0 {
		t.Errorf("%+v", lowering)
	}
	if capacity := must(config.Capacity(CacheOptions{}, 0, 0)); capacity.Tokens != 256 || capacity.Guaranteed == 0 || capacity.Resident < capacity.Guaranteed {
		t.Errorf("%+v", capacity)
	}
	segments := must(config.Segments(SegmentQuery{Group: place.Group, Column: place.Column}, []int32{1}))
	chosen := must(config.Segments(SegmentQuery{Flags: SelectOneLayer, Layer: place.Group}, []int32{1}))
	if len(segments) == 0 || len(chosen) == 0 || chosen[0] != segments[0] {
		t.Errorf("%+v %+v", segments, chosen)
	}
	if runs := must(KVRuns(view, []int32{1}, view, []int32{2}, 0, 16)); len(runs) == 0 || runs[0].FromOffset == runs[0].ToOffset {
		t.Errorf("%+v", runs)
	}
	state := must(config.StateView(0, 1, 0, 0))
	if runs := must(StateRuns(state, 1, state, 2)); len(runs) == 0 {
		t.Error("no runs")
	}
	if relation := must(config.Compare(planOf(35, fullLayer(0), stateLayer(1)))); relation.Level != CompatIdentical && relation.Reason.String() == "" {
		t.Errorf("%+v", relation)
	}
	if text := must(config.DescribeJSON()); !strings.HasPrefix(text, "{") {
		t.Error(text)
	}
	if _, err := ModelFromLayers("{"); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := NewModel([]Layer{{Kind: LayerState, State: make([]StateTensor, 5)}}, 8); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

func TestSequencesAreForkedTruncatedPreemptedAndFoundAgain(t *testing.T) {
	config := planOf(33, fullLayer(0))
	cache := must(NewCache(nil, config, CacheOptions{MaxSequences: 8}))
	first := must(cache.AddMedia([32]byte{1}, 4))
	prompt := append(counting(1, 36), first, first+1, first+2, first+3)
	a := must(cache.NewSequence(Identity{Salt: "s"}))
	serve(t, cache, a, prompt)
	if again := must(cache.AddMedia([32]byte{1}, 4)); again != first {
		t.Errorf("%d, not %d", again, first)
	}
	if found := must(cache.Probe(Identity{Salt: "s"}, prompt)); found.HitTokens != 32 || found.Miss != MissNone {
		t.Errorf("%+v", found)
	}
	if found := must(cache.Probe(Identity{Salt: "t"}, prompt)); found.HitTokens != 0 {
		t.Errorf("%+v", found)
	}
	child := must(cache.Fork(a))
	if info := must(cache.Sequence(child)); info.Committed != 40 {
		t.Errorf("%+v", info)
	}
	if err := cache.Truncate(child, 20); err != nil || must(cache.Sequence(child)).Committed != 20 {
		t.Error(err)
	}
	if err := cache.Truncate(child, 21); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	if err := cache.Preempt(a); err != nil || must(cache.Sequence(a)).Committed != 0 {
		t.Error(err)
	}
	if hit := serve(t, cache, a, prompt); hit != 32 {
		t.Errorf("hit %d", hit)
	}
	got := make([]ReserveResult, 1)
	step := must(cache.Reserve([]ReserveEntry{{Sequence: child, NumTokens: 2}}, nil, got))
	if info := must(step.Info()); info.NumTokens != 2 || info.NumCopies != uint64(len(must(step.Copies()))) ||
		info.NumZeroes != uint64(len(must(step.Zeroes()))) {
		t.Errorf("%+v", info)
	}
	if err := step.Abort(AbortNotLaunched | 2); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if err := step.Abort(AbortNotLaunched); err != nil {
		t.Error(err)
	}
	early := ReserveEntry{Sequence: child, SymbolsPosition: must(cache.Sequence(child)).Known + 1, NumSymbols: 1, NumTokens: 1}
	step = must(cache.Reserve([]ReserveEntry{early}, []Symbol{7}, got))
	if step.ID != 0 || got[0].Code != InvalidArgument || got[0].Reason != RefusalPosition || got[0].Reason.String() == RefusalStale.String() {
		t.Errorf("%+v: %s", got, got[0].Reason)
	}
	if n := must(cache.ForgetBlocks(0, []int32{1, 2, 3, 4, 5, 6, 7, 8})); n == 0 {
		t.Error("nothing was forgotten")
	}
	for _, id := range []SequenceID{a, child} {
		if err := cache.Finish(id); err != nil {
			t.Error(err)
		}
	}
	if err := cache.Finish(a); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	if err := cache.Reset(); err != nil || must(cache.Stats()).HostBytes == 0 || cache.Verify() != nil {
		t.Error(err)
	}
}

func TestLoadsArriveOrDoNot(t *testing.T) {
	cache := must(NewCache(nil, planOf(33, fullLayer(0)), CacheOptions{}))
	prompt := counting(1, 40)
	for _, arrives := range []bool{false, true} {
		id := must(cache.NewSequence(Identity{}))
		got, load, err := cache.BeginLoad(ReserveEntry{Sequence: id, NumSymbols: 40, NumTokens: 32, Flags: EntryMatch}, prompt)
		if err != nil || load.ID == 0 || got.NumTokens != 32 {
			t.Fatal(err, got)
		}
		slots := make([]int64, 32)
		if n := must(load.FillSlots(slots, FillAt{})); n != 32 || slots[31] < 0 {
			t.Error(slots)
		}
		if arrives {
			if n := must(load.EndLoad(nil)); n != 32 || must(cache.Probe(Identity{}, prompt)).HitTokens != 32 {
				t.Error(n)
			}
		} else if n := must(load.EndLoad([]LoadFailure{{NumTokens: 32}})); n != 0 || must(cache.Probe(Identity{}, prompt)).HitTokens != 0 {
			t.Error(n)
		}
	}
}

func TestEventsTellWhatHashingTells(t *testing.T) {
	cache := must(NewCache(nil, planOf(33, fullLayer(0)), CacheOptions{}))
	if err := cache.EnableEvents(EventOptions{Algorithm: HashSHA256CBOR, Seed: "0"}); err != nil {
		t.Fatal(err)
	}
	if err := cache.NameMedia(must(cache.AddMedia([32]byte{7}, 2)), "picture", 5); err != nil {
		t.Error(err)
	}
	serve(t, cache, must(cache.NewSequence(Identity{})), counting(0, 40))
	buffer := must(NewEventBuffer(16, 4096))
	if err := cache.ReadEvents(0, buffer); err != nil || len(buffer.Events()) == 0 || buffer.Batch().Next == 0 {
		t.Fatal(err)
	}
	tokens := make([]int64, 40)
	for i := range tokens {
		tokens[i] = int64(i)
	}
	wanted := must(HashBlocks(HashOptions{Algorithm: HashSHA256CBOR, Seed: "0", BlockTokens: 16}, tokens))
	var told []byte
	for i := range buffer.Events() {
		e := &buffer.Events()[i]
		told = append(told, buffer.Hashes(e)...)
		if e.Type != EventStored || buffer.Kind(e) != "full_attention" || buffer.Adapter(e) != "" || len(buffer.Tokens(e)) == 0 {
			t.Errorf("%+v", e)
		}
	}
	if !bytes.Equal(told, wanted) || len(wanted) != 2*HashBytes(HashSHA256CBOR) {
		t.Errorf("%x, wanted %x", told, wanted)
	}
	if len(must(buffer.Encode(EventEncoding{Flags: EventsWholeHashes, Time: 1.5, Rank: -1, Medium: "CPU"}))) == 0 {
		t.Error("nothing was encoded")
	}
	next := buffer.Batch().Next
	if err := cache.SnapshotEvents(buffer); err != nil || len(buffer.Events()) != 2 || buffer.Batch().Next != next {
		t.Error(err)
	}
	small := must(NewEventBuffer(1, 0))
	if err := cache.SnapshotEvents(small); !errors.Is(err, OutOfRange) || small.Batch().NumBytes == 0 || len(small.Events()) != 0 {
		t.Error(err)
	}
	if _, err := HashBlocks(HashOptions{Algorithm: HashSHA256CBOR}, tokens); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := HashBlocks(HashOptions{Algorithm: HashSHA256CBOR, BlockTokens: 16, Parent: []byte{1}}, tokens); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

func onCPU() (*Runtime, *Device, *Stream) {
	rt := must(NewRuntime(RuntimeOptions{Driver: "cpu", NoEnv: true, Threads: 1}))
	device := must(OpenDevice(rt, 0))
	return rt, device, must(NewStream(device))
}

func TestStatesAreConvolvedAndUpdated(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, stateLayer(0))
	cache, memory := must(NewCache(nil, config, CacheOptions{})), must(NewMemory(device, config, 0))
	batch, id := must(NewBatch(config, 0)), must(cache.NewSequence(Identity{}))
	got := make([]ReserveResult, 1)
	step := must(batch.Next(cache, memory, stream, Step{}, nil, nil, []ReserveEntry{{Sequence: id, NumSymbols: 2, NumTokens: 2}}, []Symbol{1, 2}, got))
	if step.ID == 0 || batch.NumTokens() != 2 {
		t.Fatal(got)
	}
	tensor := func(fill float32, shape ...int64) Tensor {
		n := 1
		for _, extent := range shape {
			n *= int(extent)
		}
		b := must(NewBuffer(4 * n))
		for i := range b.Float32() {
			b.Float32()[i] = fill
		}
		return Tensor{Data: b, DType: Float32, Shape: shape}
	}
	out := tensor(0, 2, 2, dim)
	// S <- exp(0) S + 1 * k (v - S^T k)^T with k = q = 1/4 and v = 2: S^T k = 0 at first, so S = k v^T and o = S^T q = |k|^2 v = 2.
	delta := GatedDelta{State: must(memory.PagedState(0, 0, 0)), Query: tensor(0.25, 2, 2, dim), Key: tensor(0.25, 2, 2, dim),
		Value: tensor(2, 2, 2, dim), Gate: tensor(0, 2, 2), Beta: tensor(1, 2, 2), Out: out, Scale: 1}
	if err := stream.GatedDelta(delta, batch); err != nil {
		t.Fatal(err)
	}
	filtered := tensor(0, 2, 8)
	conv := Conv1D{State: must(memory.PagedState(0, 0, 1)), Input: tensor(1, 2, 8), Weight: tensor(0.5, 8, 4), Out: filtered}
	if err := stream.Conv1D(conv, batch); err != nil {
		t.Fatal(err)
	}
	if err := stream.Synchronize(-1); err != nil {
		t.Fatal(err)
	}
	for i, value := range out.Data.Float32() {
		if math.Abs(float64(value)-2) > 1e-5 {
			t.Fatalf("out[%d] = %g", i, value)
		}
	}
	if f := filtered.Data.Float32(); f[0] != 0.5 || f[8] != 1 { // one input, then two, of the four taps
		t.Error(f)
	}
	if err := stream.AppendWith(&PagedKV{}, out, out, batch, AppendOptions{}); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if err := step.Commit([]CommitEntry{{Sequence: id, NumAccepted: 2}}, nil); err != nil {
		t.Error(err)
	}
}

func TestTensorsOfTheDeviceAreMadeAndExported(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	if info := must(device.Info()); info.Driver.String() != "cpu" || info.DeviceType != DeviceCPU {
		t.Errorf("%+v", info)
	}
	regions := must(config.Regions(0))
	memory := must(BindBuffers(device, config, 0, []*Buffer{must(NewBuffer(int(regions[0].Bytes)))}))
	if err := memory.Poison(stream, 7); err != nil || stream.Synchronize(-1) != nil {
		t.Fatal(err)
	}
	_, size, err := memory.Region(0)
	if err != nil || size < regions[0].Bytes {
		t.Error(err, size)
	}
	if view := must(memory.Tensor(ExportOptions{Kind: ExportLowered})); len(view.Shape) != 4 || view.Shape[0] != 33 {
		t.Errorf("%+v", view)
	}
	if view := must(memory.Tensor(ExportOptions{Item: 1})); view.Shape[0] != 33 || view.Stride[4] != 4 {
		t.Errorf("%+v", view)
	}
	page := must(memory.Export(ExportOptions{Kind: ExportPage, Page: 3, Flags: ExportReadOnly}))
	if *(*byte)(page.Data()) != 7 {
		t.Error("the page is not poisoned")
	}
	own := must(NewTensor(device, BFloat16, []int64{3, 5}, nil))
	shared := own.Share()
	own.Close()
	if shared.Stride[0] != 10 || shared.Data() == nil || own.Data() != nil {
		t.Errorf("%+v", shared)
	}
	from, to := must(NewBuffer(64)), must(NewBuffer(64))
	from.Bytes()[9] = 5
	if err := stream.CopyRuns([]CopyRun{{from, 8, to, 16, 4}}); err != nil || to.Bytes()[17] != 5 {
		t.Error(err)
	}
	if err := stream.CopyRuns([]CopyRun{{from, 61, to, 0, 4}}); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	if _, err := BindBuffers(device, config, 0, []*Buffer{to}); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	plan, work, err := stream.AttentionWorkspace(4, 64, 256, 2, dim)
	if err != nil || plan == 0 {
		t.Error(err, plan, work)
	}
}

func TestModulesAreProbedAndTheirOpsCalled(t *testing.T) {
	lines := 0
	SetLog(func(int32, string, string) { lines++ })
	defer SetLog(nil)
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "cpu", Log: true, LogLevel: LogTrace}))
	must(OpenDevice(rt, 0)).Close() // says which driver was selected
	usable := 0
	for _, candidate := range must(rt.Probe()) {
		if candidate.Kind == 1 && candidate.Code == OK && (candidate.Name.String() == "cpu" || candidate.Name.String() == "null") {
			usable++
		}
	}
	if usable != 2 || lines == 0 {
		t.Errorf("%d drivers, %d lines", usable, lines)
	}
	folder := os.Getenv("QUIRE_OWN_DRIVER")
	if folder == "" {
		t.Skip("QUIRE_OWN_DRIVER names no folder with the driver of samples/own_driver")
	}
	rt = must(NewRuntime(RuntimeOptions{Driver: "own", DriverPath: folder, TrustPaths: true}))
	if ops := must(rt.Ops("")); len(ops) != 1 || ops[0].Signature != "f64(f64,f64,f32)" {
		t.Fatalf("%+v", ops)
	}
	op := must(rt.FindOp("", "own.blend", 1, 0))
	rt.Close()
	if result := must(op.Invoke(10.0, 20.0, float32(0.25))); math.Abs(result.(float64)-12.5) > 1e-12 {
		t.Error(result)
	}
	if info := must(op.Info()); info.Name != "own.blend" || info.Args != 3 {
		t.Errorf("%+v", info)
	}
	for _, args := range [][]any{{1.0}, {"x", 1.0, float32(1)}, {struct{}{}, 1.0, float32(1)}} {
		if _, err := op.Invoke(args...); !errors.Is(err, InvalidArgument) {
			t.Error(err)
		}
	}
}

func TestTicketsOfAConnectorEndOnce(t *testing.T) {
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "none"}))
	if _, err := OpenConnector(rt, "nosuch", ""); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	connector := must(OpenConnector(rt, "null", ""))
	rt.Close()
	info := must(connector.Info())
	if info.MaxInFlight == 0 {
		t.Errorf("%+v", info)
	}
	buffer := must(NewBuffer(256))
	region, err := connector.RegisterBuffer(buffer)
	if err != nil && !errors.Is(err, Unimplemented) {
		t.Error(err)
	}
	tickets := []Ticket{
		{Ticket: 7, Kind: TicketStore, NumRuns: 1, NumKeys: 1, KeyBytes: 3, ObjectBytes: 32, DeadlineNs: -1, Priority: 1},
		{Ticket: 8, Kind: TicketLoad, FirstRun: 1, NumRuns: 1, NumKeys: 1, KeyBytes: 3, DeadlineNs: -1},
		{Ticket: 9, Kind: TicketLookup, NumKeys: 3, KeyBytes: 1, Sizes: buffer.Sizes(128, 3), LeaseNs: 5, DeadlineNs: -1},
	}
	buffer.Int64()[18] = 77
	runs := []TicketRun{buffer.Runs(0, 8, 4, 16), buffer.Run(64, 32)}
	runs[0].Region, runs[1].Region = region, region
	runs[1].ObjectOffset = 4096
	if n, err := connector.Submit(tickets, runs[:1], []byte("key")); !errors.Is(err, OutOfRange) || n != 0 {
		t.Error(n, err)
	}
	if n, err := connector.Submit(tickets, runs, []byte("key")); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if err := connector.Unregister(region); !errors.Is(err, FailedPrecondition) {
		t.Error(err)
	}
	items := make([]Completion, 4)
	ended := map[uint64]bool{}
	for len(ended) < 3 {
		n, err := connector.Poll(-1, items)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items[:n] {
			ended[item.Ticket] = true
		}
	}
	if err := connector.Cancel(7); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	if _, err := connector.Poll(-1, items); !errors.Is(err, FailedPrecondition) {
		t.Error(err)
	}
	if region != 0 {
		if err := connector.Unregister(region); err != nil {
			t.Error(err)
		}
	}
	if stats := must(connector.Stats()); stats.NumSubmitted != 3 || stats.NumInFlight != 0 || stats.BytesStored != 32 || stats.KeysLookedUp != 3 {
		t.Errorf("%+v", stats)
	}
	if size := buffer.Int64()[18]; size != 0 {
		t.Errorf("a look-up wrote %d", size)
	}
	if health := must(connector.Health()); health.State != ConnectorUp {
		t.Errorf("%+v", health)
	}
	if fd, err := connector.Fd(); fd < 0 || err != nil {
		t.Error(fd, err)
	}
	if n, next, err := connector.List(0, make([]ObjectEntry, 2), make([]byte, 8)); n != 0 || next != 0 || err != nil {
		t.Error(n, next, err)
	}
	if _, err := connector.Submit([]Ticket{{Ticket: 1, Kind: 77}}, nil, nil); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	connector.Close()
	if _, err := connector.Info(); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

func TestRunsAndSizesStayInTheirBuffer(t *testing.T) {
	buffer := must(NewBuffer(100))
	defer buffer.Close()
	const most = int(^uint(0) >> 1)
	for _, wrong := range [][4]int{{-1, 8, 1, 0}, {0, -1, 1, 0}, {0, 8, 0, 8}, {93, 8, 1, 0}, {0, 8, 3, 47}, {16, 8, 3, -9}, {0, 8, most, 8},
		{0, 8, 2, most}, {0, 8, 2, -most - 1}, {most, most, 1, 0}} {
		if run := buffer.Runs(wrong[0], wrong[1], wrong[2], wrong[3]); run != (TicketRun{}) {
			t.Errorf("%v: %+v", wrong, run)
		}
	}
	for _, right := range [][4]int{{0, 8, 3, 46}, {92, 8, 1, most}, {16, 8, 3, -8}, {92, 8, 2, -92}} {
		if run := buffer.Runs(right[0], right[1], right[2], right[3]); run.Count != uint64(right[2]) || run.Bytes != 8 {
			t.Errorf("%v: %+v", right, run)
		}
	}
	for _, wrong := range [][2]int{{-8, 1}, {0, 0}, {4, 1}, {0, 13}, {96, 1}, {104, 1}, {0, most}} {
		if buffer.Sizes(wrong[0], wrong[1]) != 0 {
			t.Error(wrong)
		}
	}
	if buffer.Sizes(88, 1) == 0 || buffer.Sizes(0, 12) == 0 {
		t.Error("12 numbers fit")
	}
}

func TestGoroutinesSubmitWhileOnePolls(t *testing.T) {
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "none"}))
	defer rt.Close()
	connector := must(OpenConnector(rt, "null", ""))
	defer connector.Close()
	var inside sync.WaitGroup
	defer inside.Wait() // before Close: the last tickets may end while Submit has not returned
	const threads, many = 3, 300
	for thread := 0; thread < threads; thread++ {
		inside.Add(1)
		go func(thread int) {
			defer inside.Done()
			for i := 0; i < many; {
				ticket := Ticket{Ticket: uint64(thread<<32 | i), Kind: TicketRemove, NumKeys: 1, KeyBytes: 1, DeadlineNs: -1}
				n, err := connector.Submit([]Ticket{ticket}, nil, []byte("k"))
				if err != nil {
					t.Error(err)
					return
				}
				i += n
			}
		}(thread)
	}
	ended := map[uint64]bool{}
	items := make([]Completion, 16)
	for len(ended) < threads*many && !t.Failed() {
		n, err := connector.Poll(1000000, items)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items[:n] {
			if ended[item.Ticket] {
				t.Errorf("ticket %x ended twice", item.Ticket)
			}
			ended[item.Ticket] = true
		}
	}
}
