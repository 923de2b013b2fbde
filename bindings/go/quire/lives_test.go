// Claims: what C reads and writes stays as long as C needs it, tensors lie inside their buffers, objects may be closed by several
// goroutines at once, and a step with kernels allocates nothing. Method: examples on the driver `cpu`, with
// the collector called between the steps.
package quire

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

type flag struct{ n uint32 }

func (f *flag) set()     { atomic.StoreUint32(&f.n, 1) }
func (f *flag) is() bool { return atomic.LoadUint32(&f.n) != 0 }

// Says when an object of Go was found unreachable, and ends it then.
func watch[T any](object *T, end func(*T)) *flag {
	gone := new(flag)
	runtime.SetFinalizer(object, nil)
	runtime.SetFinalizer(object, func(object *T) {
		gone.set()
		end(object)
	})
	return gone
}

func collect() {
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
	}
}

// A stream with one prompt of 8 tokens, reserved and ready for kernels.
type served struct {
	stream *Stream
	memory *Memory
	cache  *Cache
	kv     *PagedKV
	batch  *Batch
	step   Step
	id     SequenceID
}

func eightTokens() *served {
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	s := &served{stream: stream, cache: must(NewCache(nil, config, CacheOptions{})), memory: must(NewMemory(device, config, 0))}
	s.kv, s.batch, s.id = must(s.memory.PagedKV(0, 0)), must(NewBatch(config, 0)), must(s.cache.NewSequence(Identity{}))
	s.step = must(s.batch.Next(s.cache, s.memory, stream, Step{}, nil, nil, []ReserveEntry{{Sequence: s.id, NumSymbols: 8, NumTokens: 8}},
		counting(1, 8), make([]ReserveResult, 1)))
	return s
}

func rowsOf(n int64) Tensor {
	return Tensor{Data: must(NewBuffer(int(n) * 2 * dim * 4)), DType: Float32, Shape: []int64{n, 2, dim}}
}

func TestWhatIsQueuedStaysUntilItIsDone(t *testing.T) {
	s := eightTokens()
	all := map[string]*flag{}
	func() {
		key, value, query, out, lse := rowsOf(8), rowsOf(8), rowsOf(8), rowsOf(8), must(NewBuffer(4*2*8))
		cos, sin, sinks, alibi := must(NewBuffer(4*8*8)), must(NewBuffer(4*8*8)), must(NewBuffer(8)), must(NewBuffer(8))
		plan, space, filled := must(NewBuffer(1<<16)), must(NewBuffer(1<<16)), must(NewBuffer(64))
		for name, b := range map[string]*Buffer{"key": key.Data, "value": value.Data, "query": query.Data, "out": out.Data, "lse": lse,
			"cos": cos, "sin": sin, "sinks": sinks, "alibi": alibi, "plan": plan, "space": space, "filled": filled} {
			all[name] = watch(b, (*Buffer).Close)
		}
		all["batch"], all["memory"] = watch(s.batch, (*Batch).Close), watch(s.memory, (*Memory).Close)
		rope := AppendOptions{RopeCos: cos, RopeSin: sin, RopeDim: dim, RopePositions: 8}
		if err := s.stream.AppendWith(s.kv, key, value, s.batch, rope); err != nil {
			t.Fatal(err)
		}
		o := AttentionOptions{SinkLogits: sinks, AlibiSlopes: alibi, Workspace: space}
		o.LSE = Tensor{Data: lse, DType: Float32, Shape: []int64{8, 2}}
		if err := s.stream.AttentionPlan(s.kv, query, out, s.batch, o, plan); err != nil {
			t.Fatal(err)
		}
		o.Plan = plan
		if err := s.stream.AttendWith(s.kv, query, out, s.batch, o); err != nil {
			t.Fatal(err)
		}
		if err := s.stream.Fill(filled, 1); err != nil {
			t.Fatal(err)
		}
		s.batch, s.memory, s.kv = nil, nil, nil
	}()
	collect()
	for name, gone := range all {
		if gone.is() {
			t.Errorf("%s went while it was queued", name)
		}
	}
	other := s.stream.Share()
	s.stream.Close()
	collect()
	if all["batch"].is() {
		t.Error("the batch went while another reference to the stream had work")
	}
	if err := other.Synchronize(-1); err != nil {
		t.Fatal(err)
	}
	collect()
	for name, gone := range all {
		if !gone.is() {
			t.Errorf("%s is kept after Synchronize", name)
		}
	}
	runtime.KeepAlive(other)
}

func TestStatesAndOpsOfOthersStayUntilTheyAreDone(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, stateLayer(0))
	cache := must(NewCache(nil, config, CacheOptions{}))
	all := map[string]*flag{}
	func() {
		memory, batch := must(NewMemory(device, config, 0)), must(NewBatch(config, 0))
		id := must(cache.NewSequence(Identity{}))
		must(batch.Next(cache, memory, stream, Step{}, nil, nil, []ReserveEntry{{Sequence: id, NumSymbols: 2, NumTokens: 2}}, []Symbol{1, 2},
			make([]ReserveResult, 1)))
		all["memory"], all["batch"] = watch(memory, (*Memory).Close), watch(batch, (*Batch).Close)
		tensor := func(name string, shape ...int64) Tensor {
			b := must(NewBuffer(4096))
			all[name] = watch(b, (*Buffer).Close)
			return Tensor{Data: b, DType: Float32, Shape: shape}
		}
		delta := GatedDelta{State: must(memory.PagedState(0, 0, 0)), Query: tensor("query", 2, 2, dim), Key: tensor("key", 2, 2, dim),
			Value: tensor("value", 2, 2, dim), Gate: tensor("gate", 2, 2), Beta: tensor("beta", 2, 2), Out: tensor("out", 2, 2, dim), Scale: 1}
		if err := stream.GatedDelta(delta, batch); err != nil {
			t.Fatal(err)
		}
		conv := Conv1D{State: must(memory.PagedState(0, 0, 1)), Input: tensor("input", 2, 8), Weight: tensor("weight", 8, 4),
			Out: tensor("c", 2, 8)}
		if err := stream.Conv1D(conv, batch); err != nil {
			t.Fatal(err)
		}
		pointed, inTensor := tensor("pointed").Data, tensor("in tensor", 4)
		holdFor([]any{1.0, pointed, &inTensor, stream})
	}()
	collect()
	for name, gone := range all {
		if gone.is() {
			t.Errorf("%s went while it was queued", name)
		}
	}
	if err := stream.Synchronize(-1); err != nil {
		t.Fatal(err)
	}
}

func TestSlicesStayUntilClose(t *testing.T) {
	config := planOf(33, fullLayer(0))
	cache := must(NewCache(nil, config, CacheOptions{}))
	var numbers [][]float32
	var lengths [][]int32
	for i := 0; i < 32; i++ { // of buffers and batches that nobody reaches any more
		numbers = append(numbers, must(NewBuffer(4096)).Float32())
		for j := range numbers[i] {
			numbers[i][j] = float32(i)
		}
		batch, id := must(NewBatch(config, 0)), must(cache.NewSequence(Identity{}))
		want := []ReserveEntry{{Sequence: id, NumSymbols: uint32(i + 1), NumTokens: uint32(i + 1)}}
		step := must(batch.Next(cache, nil, nil, Step{}, nil, nil, want, counting(1, i+1), make([]ReserveResult, 1)))
		lengths = append(lengths, batch.KVLen)
		if err := step.Abort(AbortNotLaunched); err != nil || cache.Finish(id) != nil {
			t.Fatal(err)
		}
	}
	collect()
	for i := 0; i < 256; i++ { // what had been freed would be taken again
		copy(must(NewBuffer(4096)).Float32(), []float32{-1, -1, -1, -1})
	}
	for i := range numbers {
		if numbers[i][0] != float32(i) || numbers[i][1023] != float32(i) || lengths[i][0] != int32(i+1) {
			t.Errorf("%d: %g %g, %d tokens", i, numbers[i][0], numbers[i][1023], lengths[i][0])
		}
	}
}

// Each alone, since one op would hold for the other.
func TestEveryOpHoldsWhatItUses(t *testing.T) {
	s := eightTokens()
	_, device, _ := onCPU()
	states := planOf(33, stateLayer(0))
	memory, batch := must(NewMemory(device, states, 0)), must(NewBatch(states, 0))
	cache := must(NewCache(nil, states, CacheOptions{}))
	want := []ReserveEntry{{Sequence: must(cache.NewSequence(Identity{})), NumSymbols: 1, NumTokens: 1}}
	must(batch.Next(cache, nil, nil, Step{}, nil, nil, want, []Symbol{1}, make([]ReserveResult, 1)))
	state, tensor, buffer := must(memory.PagedState(0, 0, 0)), must(NewTensor(device, Float32, []int64{1}, nil)), must(NewBuffer(64))
	ofTokens := []unsafe.Pointer{unsafe.Pointer(s.kv), unsafe.Pointer(s.batch)}
	ofStates := []unsafe.Pointer{unsafe.Pointer(state), unsafe.Pointer(batch)}
	in := Tensor{In: tensor}
	all := Tensor{Data: buffer, DType: Float32, Shape: []int64{1}}
	// Some are refused by quire; the arguments are held before it is asked.
	for name, test := range map[string]struct {
		call func()
		held []unsafe.Pointer
	}{
		"Append":     {func() { _ = s.stream.Append(s.kv, in, all, s.batch) }, ofTokens},
		"Attend":     {func() { _ = s.stream.Attend(s.kv, in, all, s.batch) }, ofTokens},
		"Plan":       {func() { _ = s.stream.AttentionPlan(s.kv, in, all, s.batch, AttentionOptions{}, buffer) }, ofTokens},
		"GatedDelta": {func() { _ = s.stream.GatedDelta(GatedDelta{State: state, Query: in, Out: all}, batch) }, ofStates},
		"Conv1D":     {func() { _ = s.stream.Conv1D(Conv1D{State: state, Input: in, Out: all}, batch) }, ofStates},
		"Merge":      {func() { _ = s.stream.Merge([]Tensor{in}, []Tensor{all}, Tensor{}) }, nil},
		"Invoke":     {func() { _, _ = new(Op).Invoke(&in, buffer, s.stream) }, nil},
		"Prepare":    {func() { _ = s.memory.PrepareStep(s.step, s.stream) }, []unsafe.Pointer{unsafe.Pointer(s.memory)}},
		"Poison":     {func() { _ = s.memory.Poison(s.stream, 0) }, []unsafe.Pointer{unsafe.Pointer(s.memory)}},
		"Fill":       {func() { _ = s.stream.Fill(buffer, 0) }, []unsafe.Pointer{unsafe.Pointer(buffer)}},
	} {
		if err := s.stream.Synchronize(-1); err != nil {
			t.Fatal(err)
		}
		test.call()
		held := test.held
		if name != "Prepare" && name != "Poison" && name != "Fill" {
			held = append(held, unsafe.Pointer(tensor), unsafe.Pointer(buffer))
		}
		for i, p := range held {
			if _, found := s.stream.held.set[p]; !found {
				t.Errorf("%s does not hold argument %d", name, i)
			}
		}
	}
}

func TestAnExportKeepsTheBytesThatWereBound(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	bytes := int(must(config.Regions(0))[0].Bytes)
	bind := map[string]func(b *Buffer) *Memory{
		"BindBuffers": func(b *Buffer) *Memory { return must(BindBuffers(device, config, 0, []*Buffer{b})) },
		"BindMemory": func(b *Buffer) *Memory {
			tensor := must(NewDLTensor(b, UInt8, []int64{int64(bytes)}, []int64{1}, false, nil))
			return must(BindMemory(device, config, 0, tensor))
		},
	}
	for name, from := range bind {
		var gone *flag
		tensor := func() *DeviceTensor {
			buffer := must(NewBuffer(bytes))
			gone = watch(buffer, (*Buffer).Close)
			memory := from(buffer)
			if err := memory.Poison(stream, 7); err != nil || stream.Synchronize(-1) != nil {
				t.Fatal(err)
			}
			exported := must(memory.Export(ExportOptions{}))
			memory = nil
			collect()
			if gone.is() {
				t.Fatalf("%s: the buffer went before the export", name)
			}
			return must(ImportTensor(device, exported, 0)) // takes the export, and what it keeps
		}()
		collect()
		if gone.is() {
			t.Fatalf("%s: the buffer went before the tensor that was imported", name)
		}
		if tensor.Data() == nil {
			t.Error("no data")
		}
		tensor.Close()
		runtime.KeepAlive(tensor)
		tensor = nil
		for i := 0; i < 20 && !gone.is(); i++ {
			collect()
		}
		if !gone.is() {
			t.Errorf("%s: the buffer stays for ever", name)
		}
	}
}

func TestTensorsLieInsideTheirBuffers(t *testing.T) {
	s := eightTokens()
	buffer := must(NewBuffer(64))
	for _, shape := range []Tensor{{Offset: math.MaxInt64 - 3, Shape: []int64{1, 1, 4}}, {Offset: math.MaxInt64, Shape: []int64{0}},
		{Offset: 65, Shape: []int64{0}}, {Offset: 52, Shape: []int64{4}}, {Shape: []int64{2, 4}, Stride: []int64{52, 4}}, {Offset: -1}} {
		shape.Data, shape.DType = buffer, Float32
		if made, err := shape.c(); err == nil {
			t.Errorf("%+v: %+v", shape, made)
		}
	}
	inside := Tensor{Data: buffer, DType: Float32, Offset: 48, Shape: []int64{4}}
	if _, err := inside.c(); err != nil {
		t.Error(err)
	}
	for _, positions := range []int{math.MaxInt64, math.MaxInt64/8 + 1, 1 << 60, 9} {
		rope := AppendOptions{RopeCos: buffer, RopeSin: buffer, RopeDim: dim, RopePositions: positions}
		if err := s.stream.AppendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, rope); !errors.Is(err, OutOfRange) {
			t.Errorf("%d positions: %v", positions, err)
		}
	}
	for _, test := range []struct {
		dtype           DType
		shape, strides  []int64
		inside, invalid bool
	}{
		{Float32, []int64{16}, []int64{1}, true, false},
		{Float32, []int64{17}, []int64{1}, false, false},
		{Float32, []int64{2, 8}, []int64{9, 1}, false, false},
		{Float32, []int64{2, 8}, []int64{8, 1}, true, false},
		{Float32, []int64{2}, []int64{-1}, false, false},
		{Float32, []int64{-1}, []int64{1}, false, false},
		{Float32, []int64{3}, []int64{math.MaxInt64}, false, false},
		{Float32, []int64{1 << 62, 1 << 62}, []int64{1, 1}, false, false},
		{Float32, []int64{0, 99}, []int64{99, 1}, true, false},
		{DType{Code: 2, Bits: 32, Lanes: 4}, []int64{5}, []int64{1}, false, false},
		{DType{Code: 2, Bits: 4, Lanes: 1}, []int64{128}, []int64{1}, true, false},
		{DType{}, []int64{1}, []int64{1}, false, true},
	} {
		tensor, err := NewDLTensor(buffer, test.dtype, test.shape, test.strides, false, nil)
		if (err == nil) != test.inside || (!test.inside && !errors.Is(err, OutOfRange) && !test.invalid) {
			t.Errorf("%+v: %v", test, err)
		}
		tensor.Close()
	}
}

func TestSeveralGoroutinesMayCloseAtOnce(t *testing.T) {
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	for i := 0; i < 200; i++ {
		returned := 0
		tensor := must(NewDLTensor(must(NewBuffer(64)), UInt8, []int64{64}, []int64{1}, false, func() { returned++ }))
		batch, shared, own := must(NewBatch(config, 0)), stream.Share(), must(NewTensor(device, Float32, []int64{4}, nil))
		var wait sync.WaitGroup
		for j := 0; j < 4; j++ {
			for _, end := range []func(){tensor.Close, batch.Close, shared.Close, own.Close} {
				wait.Add(1)
				go func(end func()) { end(); wait.Done() }(end)
			}
		}
		wait.Wait()
		if returned != 1 || tensor.Data() != nil || batch.NumRows() != 0 || own.Data() != nil {
			t.Fatalf("returned %d times", returned)
		}
	}
}

func TestSizesWithoutSenseAndNilsAreNoPanics(t *testing.T) {
	config := planOf(33, fullLayer(0), stateLayer(1))
	if _, err := NewBatch(config, 1); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	for _, n := range []int{-1, math.MinInt, math.MaxInt, math.MaxInt - 1, math.MaxInt / 8, 1 << 45, 1 << 42} {
		for _, sizes := range [][2]int{{n, 1}, {1, n}, {n, n}} {
			if _, err := NewEventBuffer(sizes[0], sizes[1]); !errors.Is(err, OutOfRange) && !errors.Is(err, ResourceExhausted) {
				t.Errorf("%v: %v", sizes, err)
			}
		}
	}
	var memory *Memory
	var tensor *DeviceTensor
	var events *EventBuffer
	if _, err := memory.Share().PagedKV(0, 0); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if tensor.Data() != nil || events.Events() != nil || events.Batch().NumEvents != 0 ||
		events.Hashes(&Event{HashBytes: 1, NumHashes: 1}) != nil {
		t.Error("nil has content")
	}
	if err := must(NewCache(nil, config, CacheOptions{})).ReadEvents(0, events); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if _, err := new(Op).Invoke((*Tensor)(nil)); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	(&DeviceTensor{}).Close()
	var stream *Stream
	stream.Share().Close()
	if err := new(Stream).Synchronize(0); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

// Counted: allocations of Go in reserve, tables, zeroes and copies, append, attention, wait and commit of a decode step.
func TestAStepWithKernelsAllocatesNothing(t *testing.T) {
	s := eightTokens()
	key, query, out := rowsOf(1), rowsOf(1), rowsOf(1)
	done, told := []CommitEntry{{Sequence: s.id, NumAccepted: 8}}, []Symbol{9}
	want, got := []ReserveEntry{{Sequence: s.id, SymbolsPosition: 8, NumSymbols: 1, NumTokens: 1}}, make([]ReserveResult, 1)
	round := func() {
		step, err := s.batch.Next(s.cache, s.memory, s.stream, s.step, done, nil, want, told, got)
		if err == nil {
			s.step, done[0].NumAccepted, want[0].SymbolsPosition = step, 1, got[0].End()
			err = s.memory.PrepareStep(step, s.stream)
		}
		if err == nil {
			err = s.stream.Append(s.kv, key, key, s.batch)
		}
		if err == nil {
			err = s.stream.Attend(s.kv, query, out, s.batch)
		}
		if err == nil {
			err = s.stream.Synchronize(-1)
		}
		if err != nil || step.ID == 0 {
			t.Fatal(err, got)
		}
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%g allocations a step", n)
	}
	if len(s.stream.held.set) != 0 {
		t.Error("something is held")
	}
}
