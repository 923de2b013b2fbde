// What is refused and how, who owns what, and that a step allocates nothing. Method: examples, on the driver `null` of the installed tree.
package quire

import (
	"errors"
	"math/rand"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func plan(pages uint64) *Config {
	model := must(NewModel([]Layer{{Kind: LayerFull, KVHeads: 2, QHeads: 2, HeadDimK: 8, HeadDimV: 8, DType: Float32}}, 4096))
	defer model.Close()
	return must(NewConfig(model, PlanOptions{NumPages: pages}))
}

func TestARefusalIsAValueWithCodeAndMessage(t *testing.T) {
	_, err := ModelFromJSON(`{"architectures": [`)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != InvalidArgument || !errors.Is(err, InvalidArgument) || errors.Is(err, NotFound) {
		t.Fatalf("%v", err)
	}
	if len(refused.Message) < 10 || refused.Source != "library" || !strings.HasPrefix(err.Error(), "INVALID_ARGUMENT: ") {
		t.Errorf("%+v", refused)
	}
	config := plan(300)
	if _, err = config.Group(7); !errors.Is(err, OutOfRange) || !strings.Contains(err.Error(), "7") {
		t.Errorf("%v", err)
	}
	rt := must(NewRuntime(RuntimeOptions{Driver: "nosuch", NoEnv: true}))
	if _, err = OpenDevice(rt, 0); !errors.Is(err, NotFound) || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsClosedIsRefused(t *testing.T) {
	config := plan(300)
	cache := must(NewCache(nil, config, CacheOptions{}))
	for i := 0; i < 2; i++ {
		config.Close()
		cache.Close()
	}
	if _, err := config.Info(); !errors.Is(err, InvalidArgument) {
		t.Errorf("%v", err)
	}
	if _, err := cache.NewSequence(Identity{}); !errors.Is(err, InvalidArgument) {
		t.Errorf("%v", err)
	}
	if _, err := cache.Reserve([]ReserveEntry{{}}, nil, nil); !errors.Is(err, InvalidArgument) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsNilIsRefused(t *testing.T) {
	var rt *Runtime
	var model *Model
	var config *Config
	var cache *Cache
	var batch *Batch
	var device *Device
	var stream *Stream
	var memory *Memory
	var buffer *Buffer
	var tensor *DLTensor
	var op *Op
	var connector *Connector
	var follower *Follower
	var step Step
	var tiers *Tiers
	entries, results := []ReserveEntry{{}}, make([]ReserveResult, 1)
	whole := must(NewBatch(plan(300), 0))
	view, state := &PagedKV{}, &PagedState{}
	calls := map[string]func() error{
		"Probe":      func() error { _, err := rt.Probe(); return err },
		"Ops":        func() error { _, err := rt.Ops(""); return err },
		"FindOp":     func() error { _, err := rt.FindOp("", "a", 0, 0); return err },
		"Describe":   func() error { _, err := model.Describe(); return err },
		"NewConfig":  func() error { _, err := NewConfig(nil, PlanOptions{}); return err },
		"Regions":    func() error { _, err := config.Regions(0); return err },
		"Compare":    func() error { _, err := plan(300).Compare(nil); return err },
		"NewCache":   func() error { _, err := NewCache(nil, nil, CacheOptions{}); return err },
		"Reserve":    func() error { _, err := cache.Reserve(entries, nil, results); return err },
		"Commit":     func() error { return step.Commit(nil, nil) },
		"Fill":       func() error { _, err := step.Fill(FillTable, nil, FillAt{}); return err },
		"Import":     func() error { _, err := follower.Import(nil); return err },
		"Copies":     func() error { _, err := step.Copies(); return err },
		"Stats":      func() error { _, err := cache.Stats(); return err },
		"GroupStats": func() error { _, err := cache.GroupStats(0); return err },
		"ReadEvents": func() error { return cache.ReadEvents(0, must(NewEventBuffer(0, 0))) },
		"NewBatch":   func() error { _, err := NewBatch(nil, 0); return err },
		"Next": func() error {
			_, err := batch.Next(cache, nil, nil, Step{}, nil, nil, entries, nil, results)
			return err
		},
		"Next's cache": func() error { _, err := whole.Next(nil, nil, nil, Step{}, nil, nil, entries, nil, results); return err },
		"batch.Fill":   func() error { return batch.Fill(step) },
		"OpenDevice":   func() error { _, err := OpenDevice(nil, 0); return err },
		"NewStream":    func() error { _, err := NewStream(device); return err },
		"Synchronize":  func() error { return stream.Synchronize(-1) },
		"Fill bytes":   func() error { return stream.Fill(buffer, 0) },
		"Copy":         func() error { return stream.Copy(buffer, buffer) },
		"Append":       func() error { return stream.Append(nil, Tensor{}, Tensor{}, whole) },
		"Append's":     func() error { return stream.Append(view, Tensor{}, Tensor{}, batch) },
		"Attend":       func() error { return stream.Attend(view, Tensor{}, Tensor{}, whole) },
		"Attend's":     func() error { return stream.Attend(nil, Tensor{}, Tensor{}, whole) },
		"GatedDelta":   func() error { return stream.GatedDelta(GatedDelta{}, whole) },
		"Conv1D":       func() error { return stream.Conv1D(Conv1D{State: state}, batch) },
		"NewMemory":    func() error { _, err := NewMemory(device, config, 0); return err },
		"PagedKV":      func() error { _, err := memory.PagedKV(0, 0); return err },
		"BindBuffers":  func() error { _, err := BindBuffers(device, config, 0, []*Buffer{nil}); return err },
		"BindMemory":   func() error { _, err := BindMemory(device, config, 0, tensor); return err },
		"ImportTensor": func() error { _, err := ImportTensor(device, tensor, ImportReadOnly); return err },
		"Export":       func() error { _, err := memory.Export(ExportOptions{}); return err },
		"Invoke":       func() error { _, err := op.Invoke(); return err },
		"Connector":    func() error { _, err := OpenConnector(nil, "null", ""); return err },
		"Poll":         func() error { _, err := connector.Poll(0, nil); return err },
		"Health":       func() error { _, err := connector.Health(); return err },
		"Fd":           func() error { _, err := connector.Fd(); return err },
		"List":         func() error { _, _, err := connector.List(0, nil, nil); return err },
		"NewTiers":     func() error { _, err := NewTiers(nil, TiersOptions{}); return err },
		"Run":          func() error { _, err := tiers.Run(0, nil); return err },
		"tiers.Stats":  func() error { _, err := tiers.Share().Stats(); return err },
	}
	for name, refused := range calls {
		if err := refused(); !errors.Is(err, InvalidArgument) || len(err.Error()) < 25 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, end := range []func(){rt.Close, model.Close, config.Close, cache.Close, batch.Close, device.Close, stream.Close, memory.Close,
		buffer.Close, tensor.Close, op.Close, connector.Close, follower.Close, tiers.Close} {
		end()
	}
	if run, sizes := buffer.Runs(0, 8, 1, 0), buffer.Sizes(0, 1); run != (TicketRun{}) || sizes != 0 {
		t.Error(run, sizes)
	}
	if buffer.Len() != 0 || len(buffer.Bytes()) != 0 || tensor.Data() != nil || batch.NumRows() != 0 {
		t.Error("nil has content")
	}
	foreign := &Event{HashesOffset: 1 << 60, NumHashes: 9, HashBytes: 32, NumTokens: 5, TokensOffset: 1 << 50, KindBytes: 4}
	if b := must(NewEventBuffer(1, 8)); b.Hashes(foreign) != nil || b.Tokens(foreign) != nil {
		t.Error("an event of another buffer has content")
	}
}

func TestObjectsMayBeClosedInAnyOrderFromAnyGoroutine(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	order := rand.New(rand.NewSource(seed))
	for run := 0; run < 50; run++ {
		rt := must(NewRuntime(RuntimeOptions{Driver: "null", NoEnv: true}))
		config := plan(300)
		device := must(OpenDevice(rt, 0))
		stream := must(NewStream(device))
		memory := must(NewMemory(device, config, 0))
		view := must(memory.Export(ExportOptions{}))
		cache := must(NewCache(rt, config, CacheOptions{}))
		ends := []func(){rt.Close, config.Close, device.Close, stream.Close, memory.Close, view.Close, cache.Close}
		order.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for _, end := range ends {
			var wait sync.WaitGroup
			wait.Add(1)
			go func(end func()) { end(); wait.Done() }(end)
			wait.Wait()
		}
	}
}

func TestWhatIsForgottenIsClosedByItsFinalizer(t *testing.T) {
	returned := make(chan bool, 1)
	func() {
		buffer := must(NewBuffer(64))
		must(NewDLTensor(buffer, Float32, []int64{16}, []int64{1}, false, func() { returned <- true }))
	}()
	for i := 0; i < 100; i++ {
		runtime.GC()
		select {
		case <-returned:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the deleter of a forgotten tensor did not run")
}

func TestATensorIsTakenOnSuccessAndKeptOnAnError(t *testing.T) {
	device := must(OpenDevice(must(NewRuntime(RuntimeOptions{Driver: "null", NoEnv: true})), 0))
	ended := 0
	buffer := must(NewBuffer(64))
	tensor := must(NewDLTensor(buffer, Float32, []int64{16}, []int64{1}, true, func() { ended++ }))
	if _, err := ImportTensor(device, tensor, 0); !errors.Is(err, PermissionDenied) || tensor.Data() == nil || ended != 0 {
		t.Fatalf("%v", err)
	}
	seen := must(ImportTensor(device, tensor, ImportReadOnly))
	if tensor.Data() != nil || seen.Stride[0] != 4 {
		t.Error("the tensor was not taken")
	}
	tensor.Close()
	seen.Close()
	seen.Close()
	if ended != 1 {
		t.Errorf("the deleter ran %d times", ended)
	}
	if _, err := (&Tensor{Data: buffer, DType: Float32, Shape: []int64{17}}).c(); !errors.Is(err, OutOfRange) {
		t.Errorf("%v", err)
	}
}

// A decode loop of so many sequences; the function runs one step.
func decoding(rows int) (func() error, *Cache) {
	config := plan(uint64(rows*260 + 1))
	cache := must(NewCache(nil, config, CacheOptions{MaxSequences: uint32(rows)}))
	batch := must(NewBatch(config, 0))
	want, got := make([]ReserveEntry, rows), make([]ReserveResult, rows)
	done, symbols := make([]CommitEntry, rows), make([]Symbol, rows*8)
	for i := range want {
		id := must(cache.NewSequence(Identity{}))
		want[i] = ReserveEntry{Sequence: id, SymbolsOffset: uint64(i), NumSymbols: 5, NumTokens: 5}
		done[i] = CommitEntry{Sequence: id, SymbolsOffset: uint64(i), NumSymbols: 1, NumAccepted: 5}
	}
	step := Step{}
	return func() (err error) {
		if step, err = batch.Next(cache, nil, nil, step, done, symbols[:rows], want, symbols, got); err != nil {
			return err
		}
		for i := range want {
			done[i].NumAccepted, done[i].SymbolsPosition = got[i].NumTokens, got[i].End()
			want[i].NumSymbols, want[i].NumTokens = 0, 1
		}
		if step.ID == 0 || batch.NumRows() != rows || batch.KVLen[rows-1] == 0 || batch.Groups[0].Table[0] == 0 {
			return errors.New("the step is not whole")
		}
		return nil
	}, cache
}

func TestAStepAllocatesNothing(t *testing.T) {
	step, cache := decoding(8)
	if err := step(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations per step", n)
	}
	if stats := must(cache.Stats()); stats.Steps < 101 || stats.NumSequences != 8 {
		t.Errorf("%+v", stats)
	}
}

// The same in separate calls, as an engine with a scheduler of its own makes them, and the kernels' entry points.
func TestReserveFillAndCommitAllocateNothing(t *testing.T) {
	config := plan(300)
	cache, batch := must(NewCache(nil, config, CacheOptions{})), must(NewBatch(config, 0))
	want, got := []ReserveEntry{{Sequence: must(cache.NewSequence(Identity{})), NumSymbols: 1, NumTokens: 1}}, make([]ReserveResult, 1)
	rows, told, table := []CommitEntry{{Sequence: want[0].Sequence, NumSymbols: 1, NumAccepted: 1}}, []Symbol{7}, make([]int32, 256)
	if n := testing.AllocsPerRun(100, func() {
		step, err := cache.Reserve(want, told[:want[0].NumSymbols], got)
		if err == nil {
			err = batch.Fill(step)
		}
		if err == nil {
			_, err = step.Fill(FillTable, table, FillAt{})
		}
		if rows[0].SymbolsPosition = got[0].End(); err == nil {
			err = step.Commit(rows, told)
		}
		if err != nil {
			t.Fatal(err)
		}
		want[0].NumSymbols = 0
	}); n != 0 {
		t.Errorf("%g allocations per step", n)
	}
}

func TestStatisticsMayBeReadBesideSteps(t *testing.T) {
	step, cache := decoding(4)
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		for i := 0; i < 200; i++ {
			must(cache.Stats())
		}
		wait.Done()
	}()
	for i := 0; i < 200; i++ {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
}

func TestAPinHoldsAPrefixUntilItIsUnpinned(t *testing.T) {
	cache := must(NewCache(nil, plan(300), CacheOptions{}))
	prompt := make([]Symbol, 40)
	for i := range prompt {
		prompt[i] = Symbol(i)
	}
	hard := PinOptions{Priority: PinHard}
	if _, _, err := cache.Pin(Identity{}, prompt, hard); !errors.Is(err, NotFound) {
		t.Fatalf("%v", err)
	}
	id := must(cache.NewSequence(Identity{}))
	got := make([]ReserveResult, 1)
	step := must(cache.Reserve([]ReserveEntry{{Sequence: id, NumSymbols: 40, NumTokens: 40, Flags: EntryMatch}}, prompt, got))
	if err := step.Commit([]CommitEntry{{Sequence: id, NumAccepted: got[0].NumTokens}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := cache.Finish(id); err != nil {
		t.Fatal(err)
	}
	pin, tokens, err := cache.Pin(Identity{}, prompt, hard)
	if err != nil || tokens == 0 || tokens > 40 {
		t.Fatalf("%d tokens, %v", tokens, err)
	}
	info := must(cache.PinInfo(pin))
	if info.Priority != PinHard || info.Tokens != tokens || info.NumParts == 0 || must(cache.Stats()).PagesUsed == 0 {
		t.Errorf("%+v", info)
	}
	if err := cache.Unpin(pin); err != nil {
		t.Error(err)
	}
	if err := cache.Unpin(pin); !errors.Is(err, NotFound) || must(cache.Stats()).PagesUsed != 0 {
		t.Errorf("%v", err)
	}
	if _, _, err := cache.Pin(Identity{}, prompt, PinOptions{Priority: PinHard + 1}); !errors.Is(err, InvalidArgument) {
		t.Errorf("%v", err)
	}
}

func TestFillRefusesWhatDoesNotFit(t *testing.T) {
	cache := must(NewCache(nil, plan(300), CacheOptions{}))
	id := must(cache.NewSequence(Identity{Salt: "a"}))
	got := make([]ReserveResult, 1)
	step := must(cache.Reserve([]ReserveEntry{{Sequence: id, NumTokens: 20}}, nil, got))
	small := make([]int32, 3)
	if n, err := step.Fill(FillPositions, small, FillAt{}); !errors.Is(err, OutOfRange) || n != 20 || small[1] != 0 {
		t.Errorf("%d %v", n, err)
	}
	if _, err := step.Fill(FillSlots, small, FillAt{}); !errors.Is(err, InvalidArgument) {
		t.Errorf("%v", err)
	}
	if err := step.Abort(0); err != nil {
		t.Error(err)
	}
	if err := cache.Verify(); err != nil {
		t.Error(err)
	}
}
