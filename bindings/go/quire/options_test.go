// Claims: what ops and calls can do beside the plain case arrives as it was asked for; panics of callbacks stop nothing; steps with states
// allocate nothing. Method: examples on the driver `cpu`, against values that follow from the definition.
package quire

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

func numbered(t Tensor) Tensor {
	for i := range t.Data.Float32() {
		t.Data.Float32()[i] = float32(i%37)/8 - 2
	}
	return t
}

func TestATreeMaskHidesWhatIsNotSet(t *testing.T) {
	s := eightTokens()
	key, value, query, out := numbered(rowsOf(8)), numbered(rowsOf(8)), numbered(rowsOf(8)), rowsOf(8)
	if err := s.stream.Append(s.kv, key, value, s.batch); err != nil {
		t.Fatal(err)
	}
	bits, first := must(NewBuffer(9)), must(NewBuffer(16))
	for token := 0; token < 8; token++ { // each sees itself alone; three bits before the row are nobody's
		bit := 3 + token*8 + token
		bits.Bytes()[bit/8] |= 1 << (bit % 8)
	}
	first.Int64()[0], first.Int64()[1] = 3, 67
	for _, all := range []bool{false, true} {
		o := AttentionOptions{Mask: bits, MaskIndptr: first, NotCausal: all}
		if err := s.stream.AttendWith(s.kv, query, out, s.batch, o); err != nil || s.stream.Synchronize(-1) != nil {
			t.Fatal(err)
		}
		for i, found := range out.Data.Float32() {
			if wanted := value.Data.Float32()[i]; math.Abs(float64(found-wanted)) > 1e-6 {
				t.Fatalf("out[%d] is %g, the token's own value %g", i, found, wanted)
			}
		}
	}
	short, wrong := must(NewBuffer(8)), must(NewBuffer(16))
	for _, at := range []int64{-1, 9, math.MaxInt64} {
		wrong.Int64()[0], wrong.Int64()[1] = at, 67
		for _, o := range []AttentionOptions{{Mask: bits, MaskIndptr: wrong}, {Mask: bits, MaskIndptr: short}, {Mask: bits}, {MaskIndptr: first}} {
			if err := s.stream.AttendWith(s.kv, query, out, s.batch, o); !errors.Is(err, OutOfRange) {
				t.Errorf("bit %d: %v", at, err)
			}
		}
	}
}

func TestKeysAreRotatedAndScaled(t *testing.T) {
	s := eightTokens()
	key, value := numbered(rowsOf(8)), numbered(rowsOf(8))
	cos, sin := must(NewBuffer(4*8*dim/2)), must(NewBuffer(4*8*dim/2))
	for i := range sin.Float32() {
		sin.Float32()[i] = 1 // a quarter turn: (a, b) becomes (-b, a)
	}
	o := AppendOptions{RopeCos: cos, RopeSin: sin, RopeDim: dim, RopePositions: 8, ScaleK: 2, ScaleV: 4}
	if err := s.stream.AppendWith(s.kv, key, value, s.batch, o); err != nil || s.stream.Synchronize(-1) != nil {
		t.Fatal(err)
	}
	for side, given := range [][]float32{key.Data.Float32(), value.Data.Float32()} {
		tensor := must(s.memory.Export(ExportOptions{Item: uint32(side)}))
		at := 4 * int(s.batch.Groups[0].Table[0]) * int(tensor.Strides[1])
		stored := unsafe.Slice((*float32)(unsafe.Add(tensor.Data(), at)), len(given))
		for i := range given {
			wanted := given[i] / 4
			if half := dim / 2; side == 0 && i%dim < half {
				wanted = -given[i+half] / 2
			} else if side == 0 {
				wanted = given[i-half] / 2
			}
			if math.Abs(float64(stored[i]-wanted)) > 1e-6 {
				t.Fatalf("side %d: stored[%d] is %g, wanted %g", side, i, stored[i], wanted)
			}
		}
		tensor.Close()
	}
}

func TestMergedLogarithmsComeOut(t *testing.T) {
	_, _, stream := onCPU()
	of := func(value float32, shape ...int64) Tensor {
		b := must(NewBuffer(4 * 4))
		for i := range b.Float32() {
			b.Float32()[i] = value
		}
		return Tensor{Data: b, DType: Float32, Shape: shape}
	}
	out, lse := of(9, 1, 1, 4), of(9, 1, 1)
	if err := stream.MergeWith([]Tensor{of(1, 1, 1, 4), of(3, 1, 1, 4)}, []Tensor{of(0.5, 1, 1), of(0.5, 1, 1)}, out, lse); err != nil {
		t.Fatal(err)
	}
	if wanted := 0.5 + math.Log(2); out.Data.Float32()[0] != 2 || math.Abs(float64(lse.Data.Float32()[0])-wanted) > 1e-6 {
		t.Errorf("%g and %g, wanted 2 and %g", out.Data.Float32()[0], lse.Data.Float32()[0], wanted)
	}
}

func TestTensorsOfDLPack0AreExchanged(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	bytes := int64(must(config.Regions(0))[0].Bytes)
	returned := 0
	back := func() { returned++ }
	buffer := must(NewBuffer(int(bytes)))
	old := must(NewLegacyDLTensor(buffer, UInt8, []int64{bytes}, []int64{1}, back))
	current := must(NewDLTensor(buffer, UInt8, []int64{bytes}, []int64{1}, false, back))
	if _, err := BindMemory(device, config, 0, old, current); !errors.Is(err, InvalidArgument) || !old.IsLegacy() || current.IsLegacy() {
		t.Error(err) // the shard has one region
	}
	memory := must(BindMemory(device, config, 0, old))
	if err := memory.Poison(stream, 7); err != nil || stream.Synchronize(-1) != nil || old.Data() != nil {
		t.Fatal(err)
	}
	keys := must(memory.Export(ExportOptions{Flags: ExportLegacy}))
	page := must(memory.Export(ExportOptions{Flags: ExportLegacy, Kind: ExportPage, Page: 3}))
	if !keys.IsLegacy() || len(keys.Shape) != 5 || keys.Shape[0] != 33 || *(*byte)(page.Data()) != 7 {
		t.Errorf("%+v", keys)
	}
	if _, err := memory.Export(ExportOptions{Flags: ExportLegacy | ExportReadOnly}); !errors.Is(err, FailedPrecondition) {
		t.Error(err)
	}
	memory.Close()
	given := AdoptLegacyDLTensor(page.Release()) // to another library, and from one
	if page.Data() != nil || page.Release() != nil || *(*byte)(given.Data()) != 7 {
		t.Error("a tensor that was given away is still there")
	}
	seen := must(ImportTensor(device, given, 0))
	if seen.Data() == nil || given.Data() != nil || returned != 0 {
		t.Error("not taken")
	}
	again := AdoptDLTensor(current.Release())
	for _, end := range []func(){seen.Close, keys.Close, again.Close, AdoptDLTensor(nil).Close} {
		end()
	}
	if returned != 2 {
		t.Errorf("%d tensors came back", returned)
	}
	odd := func() *DLTensor {
		return must(NewDLTensor(buffer, DType{2, 24, 1}, []int64{4}, []int64{1}, false, nil))
	}
	if _, err := ImportTensor(device, odd(), 0); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if opaque, err := ImportTensor(device, odd(), ImportAnyDType); err != nil || opaque.Stride[0] != 3 {
		t.Error(err)
	}
}

func TestTimeAndMemoryAreWhatWasGiven(t *testing.T) {
	var now, pieces int64 = 1000, 0
	var given sync.Map // address: *Buffer, aligned to 4096
	SetClock(func() int64 { return atomic.LoadInt64(&now) })
	defer SetClock(func() int64 { return int64(time.Since(time.Time{})) })
	SetMemory(func(bytes, _ uint64) unsafe.Pointer {
		atomic.AddInt64(&pieces, 1)
		b := must(NewBuffer(int(bytes)))
		given.Store(uintptr(b.address()), b)
		return b.address()
	}, func(address unsafe.Pointer, _, _ uint64) {
		atomic.AddInt64(&pieces, -1)
		b, _ := given.LoadAndDelete(uintptr(address))
		b.(*Buffer).Close()
	})
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "cpu", Clock: true, Memory: true}))
	device := must(OpenDevice(rt, 0))
	if atomic.LoadInt64(&pieces) == 0 {
		t.Error("no memory was taken")
	}
	cache := must(NewCache(rt, planOf(33, fullLayer(0)), CacheOptions{}))
	serve(t, cache, must(cache.NewSequence(Identity{})), counting(0, 40))
	pin, _, err := cache.Pin(Identity{}, counting(0, 40), PinOptions{DurationNS: 500})
	if err != nil || must(cache.PinInfo(pin)).DeadlineNS != 1500 {
		t.Error(err)
	}
	atomic.StoreInt64(&now, 1501)
	if err := cache.Unpin(pin); !errors.Is(err, NotFound) {
		t.Error(err)
	}
	for _, end := range []func(){rt.Close, device.Close, cache.Close} {
		end()
	}
	if n := atomic.LoadInt64(&pieces); n != 0 {
		t.Errorf("%d pieces of memory did not come back", n)
	}
}

func TestPanicsOfCallbacksStopNothing(t *testing.T) {
	SetLog(func(int32, string, string) { panic("a receiver that panics") })
	defer SetLog(nil)
	SetClock(func() int64 { panic("a clock that panics") })
	defer SetClock(func() int64 { return 0 })
	rt := must(NewRuntime(RuntimeOptions{NoEnv: true, Driver: "cpu", Log: true, LogLevel: LogTrace, Clock: true}))
	must(OpenDevice(rt, 0)).Close()
	cache := must(NewCache(rt, planOf(33, fullLayer(0)), CacheOptions{}))
	serve(t, cache, must(cache.NewSequence(Identity{})), counting(0, 40))
	pin, _, err := cache.Pin(Identity{}, counting(0, 40), PinOptions{DurationNS: 500})
	if err != nil || must(cache.PinInfo(pin)).DeadlineNS != 500 {
		t.Error(err)
	}
	must(NewDLTensor(must(NewBuffer(4)), UInt8, []int64{4}, []int64{1}, false, func() { panic("an owner that panics") })).Close()
}

// Counted: allocations of Go in a decode step of states.
func TestAStepWithStatesAllocatesNothing(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, stateLayer(0))
	cache, memory := must(NewCache(nil, config, CacheOptions{})), must(NewMemory(device, config, 0))
	batch, id := must(NewBatch(config, 0)), must(cache.NewSequence(Identity{}))
	tensor := func(shape ...int64) Tensor {
		return numbered(Tensor{Data: must(NewBuffer(4096)), DType: Float32, Shape: shape})
	}
	delta := GatedDelta{State: must(memory.PagedState(0, 0, 0)), Query: tensor(1, 2, dim), Key: tensor(1, 2, dim), Value: tensor(1, 2, dim),
		Gate: tensor(1, 2), Beta: tensor(1, 2), Out: tensor(1, 2, dim), Flags: GatedDeltaL2norm}
	conv := Conv1D{State: must(memory.PagedState(0, 0, 1)), Input: tensor(1, 8), Weight: tensor(8, 4), Out: tensor(1, 8), SiLU: true}
	want, got := []ReserveEntry{{Sequence: id, NumSymbols: 1, NumTokens: 1}}, make([]ReserveResult, 1)
	done, told, last := []CommitEntry{{Sequence: id, NumAccepted: 1}}, []Symbol{9}, Step{}
	if n := testing.AllocsPerRun(50, func() {
		rows := done
		if last.ID == 0 {
			rows = nil
		}
		step, err := batch.Next(cache, memory, stream, last, rows, nil, want, told, got)
		if err == nil {
			err = stream.GatedDelta(delta, batch)
		}
		if err == nil {
			err = stream.Conv1D(conv, batch)
		}
		if err == nil {
			err = stream.Synchronize(-1)
		}
		if last = step; err != nil || step.ID == 0 {
			t.Fatal(err, got)
		}
		want[0].SymbolsPosition = got[0].End()
	}); n != 0 {
		t.Errorf("%g allocations a step", n)
	}
}

func TestAFollowerAnswersLikeItsLeader(t *testing.T) {
	config := planOf(33, fullLayer(0), stateLayer(1))
	leader, follower := must(NewCache(nil, config, CacheOptions{})), must(NewFollower(config, CacheOptions{}))
	here, there := must(NewBatch(config, 0)), must(NewBatch(config, 0))
	id := must(leader.NewSequence(Identity{}))
	step := must(leader.Reserve([]ReserveEntry{{Sequence: id, NumSymbols: 20, NumTokens: 20, Flags: EntryPromptEnd}}, counting(0, 20), make([]ReserveResult, 1)))
	bytes := must(step.Export(nil))
	seen := must(follower.Import(bytes))
	if err := here.Fill(step); err != nil || there.Fill(seen) != nil {
		t.Fatal(err)
	}
	if info := must(seen.Info()); info.NumTokens != 16 || here.KVLen[0] != there.KVLen[0] || here.KVLen[0] != 16 {
		t.Errorf("%+v", info)
	}
	for g, group := range here.Groups {
		for i, lowered := range group.Table {
			if other := there.Groups[g].Table[i]; other != lowered {
				t.Fatalf("group %d: table[%d] is %d, the leader's %d", g, i, other, lowered)
			}
		}
	}
	if again := must(step.Export(bytes)); &again[0] != &bytes[0] {
		t.Error("what has room is not used")
	}
	if _, err := follower.Import(nil); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	for _, cut := range [][]byte{bytes[:9], bytes[1:]} {
		if _, err := follower.Import(cut); !errors.Is(err, DataLoss) {
			t.Errorf("%d bytes: %v", len(cut), err)
		}
	}
	if err := seen.Commit(nil, nil); !errors.Is(err, FailedPrecondition) || seen.ID != step.ID {
		t.Error(err)
	}
	follower.Share().Close()
	if follower.Close(); !errors.Is(there.Fill(seen), InvalidArgument) {
		t.Error("a step of what was closed")
	}
}
