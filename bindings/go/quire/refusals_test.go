// Claims: objects that were not made by this package's functions, or were closed, are refused by every method, without a crash, and before
// anything changed. Method: every exported method of every type over zero values, by reflection; examples on the driver `cpu`.
package quire

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

// An argument without sense: objects that nobody made, lists of one empty item.
func nothing(of reflect.Type) reflect.Value {
	switch of.Kind() {
	case reflect.Pointer:
		return reflect.New(of.Elem())
	case reflect.Slice:
		return reflect.MakeSlice(of, 1, 1)
	}
	return reflect.Zero(of)
}

// Calls with nothing at all; the error, where there is one to answer.
func callWithNothing(f reflect.Value) (err error, answers bool) {
	var args []reflect.Value
	for i := 0; i < f.Type().NumIn() && !(f.Type().IsVariadic() && i == f.Type().NumIn()-1); i++ {
		args = append(args, nothing(f.Type().In(i)))
	}
	for _, out := range f.Call(args) {
		if out.Type() == reflect.TypeOf((*error)(nil)).Elem() {
			err, _ = out.Interface().(error)
			answers = true
		}
	}
	return err, answers
}

// Exported types with exported methods on pointers, from the source text.
func typesWithMethods(t *testing.T) map[string]bool {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range packages["quire"].Files {
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.IsExported() {
				if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
					found[typeName(star)] = true
				}
			}
		}
	}
	return found
}

func TestWhatNobodyMadeIsRefused(t *testing.T) {
	missing, calls := typesWithMethods(t), 0
	delete(missing, "ReserveResult") // numbers
	for _, object := range []any{&Runtime{}, &Model{}, &Config{}, &Cache{}, &Batch{}, &Device{}, &Stream{}, &Memory{}, &Buffer{}, &DLTensor{},
		&DeviceTensor{}, &Op{}, &Connector{}, &EventBuffer{}, &Error{}, &Follower{}, &Step{}, &Tiers{}} {
		value := reflect.ValueOf(object)
		of := value.Type().Elem().Name()
		delete(missing, of)
		for i := 0; i < value.NumMethod(); i++ {
			name := of + "." + value.Type().Method(i).Name
			err, answers := callWithNothing(value.Method(i))
			calls++
			if of == "Error" || name == "EventBuffer.Encode" { // a batch of no events
				continue
			}
			if answers && (err == nil || len(err.Error()) < 20) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name := range missing {
		t.Errorf("%s: no zero value of it is tried", name)
	}
	for name, f := range map[string]any{"NewConfig": NewConfig, "NewCache": NewCache, "NewBatch": NewBatch, "NewFixedBatch": NewFixedBatch,
		"NewFollower": NewFollower, "OpenDevice": OpenDevice, "NewStream": NewStream, "NewMemory": NewMemory, "BindBuffers": BindBuffers,
		"NewTensor": NewTensor, "ImportTensor": ImportTensor, "OpenConnector": OpenConnector, "NewDLTensor": NewDLTensor,
		"HashBlocks": HashBlocks, "NewTiers": NewTiers, "ReadRecord": ReadRecord, "CheckRecord": CheckRecord} {
		if err, _ := callWithNothing(reflect.ValueOf(f)); err == nil {
			t.Errorf("%s took nothing", name)
		}
	}
	if _, err := BindMemory(new(Device), new(Config), 0, new(DLTensor)); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if calls < 120 {
		t.Errorf("only %d methods", calls)
	}
}

// A live batch over a cache that nobody made, and ops over views that nobody made.
func TestALiveObjectRefusesOnesThatNobodyMade(t *testing.T) {
	s := eightTokens()
	entries, results := []ReserveEntry{{Sequence: s.id, NumTokens: 1}}, make([]ReserveResult, 1)
	for name, call := range map[string]func() error{
		"Next": func() error {
			_, err := s.batch.Next(new(Cache), nil, nil, Step{}, nil, nil, entries, nil, results)
			return err
		},
		"Fill":     func() error { return s.batch.Fill(Step{}) },
		"Prepare":  func() error { return s.memory.PrepareStep(Step{}, s.stream) },
		"Commit":   func() error { return Step{}.Commit(nil, nil) },
		"Append":   func() error { return s.stream.Append(new(PagedKV), rowsOf(8), rowsOf(8), s.batch) },
		"batch":    func() error { return s.stream.Append(s.kv, rowsOf(8), rowsOf(8), new(Batch)) },
		"tensor":   func() error { return s.stream.Append(s.kv, Tensor{In: new(DeviceTensor)}, rowsOf(8), s.batch) },
		"shared":   func() error { _, err := new(Cache).Share().Reserve(entries, nil, results); return err },
		"streamed": func() error { return new(Stream).Share().Append(s.kv, rowsOf(8), rowsOf(8), s.batch) },
	} {
		if err := call(); !errors.Is(err, InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNextWantsAMemoryAndAStreamOrNeither(t *testing.T) {
	s := eightTokens()
	rows, told := []CommitEntry{{Sequence: s.id, NumAccepted: 8}}, []Symbol{9}
	entries, results := []ReserveEntry{{Sequence: s.id, SymbolsPosition: 8, NumSymbols: 1, NumTokens: 1}}, make([]ReserveResult, 1)
	over, on := s.memory.Share(), s.stream.Share()
	over.Close()
	on.Close()
	for name, with := range map[string]struct {
		memory *Memory
		stream *Stream
	}{"closed memory": {over, s.stream}, "memory alone": {s.memory, nil}, "stream alone": {nil, s.stream}, "closed stream": {s.memory, on},
		"both closed": {over, on}, "zero memory": {new(Memory), s.stream}, "zero stream": {s.memory, new(Stream)}, "closed alone": {over, nil}} {
		step, err := s.batch.Next(s.cache, with.memory, with.stream, s.step, rows, nil, entries, told, results)
		if !errors.Is(err, InvalidArgument) || step.ID != 0 {
			t.Errorf("%s: step %d, %v", name, step.ID, err)
		}
		if info, err := s.step.Info(); err != nil || info.NumTokens != 8 {
			t.Fatalf("%s: something changed: %v", name, err)
		}
	}
	last := s.step
	for _, with := range []struct {
		memory *Memory
		stream *Stream
	}{{s.memory, s.stream}, {nil, nil}} {
		step, err := s.batch.Next(s.cache, with.memory, with.stream, last, rows, nil, entries, told, results)
		if err != nil || step.ID == 0 {
			t.Fatal(step, err)
		}
		last, rows[0].NumAccepted, entries[0].SymbolsPosition = step, 1, results[0].End()
	}
}

func TestAClosedMemoryIsRefusedByTheViewsOfIt(t *testing.T) {
	s := eightTokens()
	key := rowsOf(8)
	append := func() error { return s.stream.Append(s.kv, key, key, s.batch) }
	attend := func() error { return s.stream.Attend(s.kv, key, key, s.batch) }
	plan := func() error {
		return s.stream.AttentionPlan(s.kv, key, key, s.batch, AttentionOptions{}, must(NewBuffer(1<<16)))
	}
	if err := append(); err != nil || s.stream.Synchronize(-1) != nil {
		t.Fatal(err)
	}
	other := must(s.memory.Share().PagedKV(0, 0))
	s.memory.Close()
	for i, refused := range []func() error{append, attend, plan} {
		if err := refused(); !errors.Is(err, InvalidArgument) || !strings.Contains(err.Error(), "memory") {
			t.Errorf("%d: %v", i, err)
		}
	}
	s.kv = other // the bytes are there as long as a reference is
	if err := append(); err != nil || s.stream.Synchronize(-1) != nil {
		t.Error(err)
	}
	_, device, stream := onCPU()
	config := planOf(33, stateLayer(0))
	cache, memory, batch := must(NewCache(nil, config, CacheOptions{})), must(NewMemory(device, config, 0)), must(NewBatch(config, 0))
	id := must(cache.NewSequence(Identity{}))
	step := must(batch.Next(cache, memory, stream, Step{}, nil, nil, []ReserveEntry{{Sequence: id, NumSymbols: 2, NumTokens: 2}}, []Symbol{1, 2},
		make([]ReserveResult, 1)))
	state := must(memory.PagedState(0, 0, 0))
	memory.Close()
	for i, err := range []error{stream.GatedDelta(GatedDelta{State: state}, batch), stream.Conv1D(Conv1D{State: state}, batch),
		stream.SelectiveScan(SelectiveScan{State: state}, batch), memory.PrepareStep(step, stream), memory.Poison(stream, 0)} {
		if !errors.Is(err, InvalidArgument) || (i < 3 && !strings.Contains(err.Error(), "memory")) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// What is optional is not left out silently where it was closed.
func TestAClosedOptionIsRefused(t *testing.T) {
	s := eightTokens()
	closed := must(NewBuffer(1 << 16))
	closed.Close()
	_, device, _ := onCPU()
	gone := must(NewTensor(device, Float32, []int64{8, 2}, nil))
	gone.Close()
	for i, o := range []AttentionOptions{{SinkLogits: closed}, {AlibiSlopes: closed}, {Plan: closed}, {Workspace: closed},
		{LSE: Tensor{In: gone}}, {LSE: Tensor{Data: closed, DType: Float32, Shape: []int64{8, 2}}}} {
		if err := s.stream.AttendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, o); !errors.Is(err, InvalidArgument) && !errors.Is(err, OutOfRange) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A batch of a step of 8 tokens under a plan of its own.
func TestBatchLayerAndStreamBelongTogether(t *testing.T) {
	s := eightTokens()
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	other, key := must(NewMemory(device, config, 0)), rowsOf(8)
	view, far := must(other.PagedKV(0, 0)), must(NewStream(must(OpenDevice(must(NewRuntime(RuntimeOptions{Driver: "null", NoEnv: true})), 0))))
	refused := func(name string, code Code, err error) {
		if !errors.Is(err, code) || !strings.HasPrefix(err.(*Error).Source, "go") {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("plan", InvalidArgument, s.stream.Append(view, key, key, s.batch))
	refused("plan", InvalidArgument, s.stream.Attend(view, key, key, s.batch))
	refused("device", InvalidArgument, far.Append(s.kv, key, key, s.batch))
	refused("device of prepare", InvalidArgument, s.memory.PrepareStep(s.step, far))
	refused("device of Poison", InvalidArgument, s.memory.Poison(far, 1))
	if text := s.memory.Poison(far, 1).Error(); !strings.Contains(text, "null") || !strings.Contains(text, "cpu") {
		t.Error(text)
	}
	entries, results := []ReserveEntry{{Sequence: s.id, NumSymbols: 1, NumTokens: 1}}, make([]ReserveResult, 1)
	_, err := s.batch.Next(s.cache, s.memory, far, s.step, nil, nil, entries, []Symbol{9}, results)
	refused("device of Next", InvalidArgument, err)
	foreign := must(NewCache(nil, config, CacheOptions{}))
	_, err = s.batch.Next(foreign, nil, nil, Step{}, nil, nil, entries, []Symbol{9}, results)
	refused("cache of Next", InvalidArgument, err)
	step := must(foreign.Reserve([]ReserveEntry{{Sequence: must(foreign.NewSequence(Identity{})), NumSymbols: 1, NumTokens: 1}}, []Symbol{9}, results))
	refused("cache of Fill", InvalidArgument, s.batch.Fill(step))
	_, err = s.batch.Next(s.cache, nil, nil, step, nil, nil, entries, []Symbol{9}, results)
	refused("step of Next", InvalidArgument, err)
	// Other references to the same objects, and another opening of the same device, are no others.
	again := must(NewStream(must(OpenDevice(must(NewRuntime(RuntimeOptions{Driver: "cpu", NoEnv: true})), 0))))
	shared := must(s.memory.Share().PagedKV(0, 0))
	if err := s.stream.Share().Append(shared, key, key, s.batch); err != nil || s.stream.Synchronize(-1) != nil {
		t.Error(err)
	}
	if err := again.Append(s.kv, key, key, s.batch); err != nil || again.Synchronize(-1) != nil {
		t.Error(err)
	}
	if err := s.batch.Fill(s.step); err != nil {
		t.Error(err)
	}
	// What is closed elsewhere does not matter: everybody has a reference of its own.
	config.Close()
	one, tables := must(NewMemory(device, planOf(33, stateLayer(0)), 0)), must(NewBatch(planOf(33, stateLayer(0)), 0))
	state := must(one.PagedState(0, 0, 0))
	refused("GatedDelta", InvalidArgument, stream.GatedDelta(GatedDelta{State: state}, tables))
	refused("Conv1D", InvalidArgument, stream.Conv1D(Conv1D{State: state}, tables))
	refused("SelectiveScan", InvalidArgument, stream.SelectiveScan(SelectiveScan{State: state}, tables))
	stream.at.kind, one.at.kind = DeviceCUDA, DeviceCUDA // as NewStream and NewMemory find it on such a device
	refused("CUDA", Unimplemented, stream.GatedDelta(GatedDelta{State: state}, tables))
	refused("CUDA", Unimplemented, stream.Append(view, key, key, s.batch))
	refused("CUDA", Unimplemented, stream.AttentionPlan(view, key, key, s.batch, AttentionOptions{}, must(NewBuffer(64))))
}

func TestABatchOfOneShardIsNotForTheMemoryOfAnother(t *testing.T) {
	_, device, stream := onCPU()
	model := must(NewModel([]Layer{fullLayer(0)}, 256))
	config := must(NewConfig(model, PlanOptions{NumPages: 33, TensorParallel: 2}))
	cache := must(NewCache(nil, config, CacheOptions{}))
	for shard := uint32(0); shard < 2; shard++ {
		memory, batch := must(NewMemory(device, config, shard)), must(NewBatch(config, 1))
		id := must(cache.NewSequence(Identity{}))
		must(batch.Next(cache, memory, stream, Step{}, nil, nil, []ReserveEntry{{Sequence: id, NumSymbols: 1, NumTokens: 1}}, []Symbol{1},
			make([]ReserveResult, 1)))
		key := Tensor{Data: must(NewBuffer(4 * dim)), DType: Float32, Shape: []int64{1, 1, dim}}
		err := stream.Append(must(memory.PagedKV(0, 0)), key, key, batch)
		if (err == nil) != (shard == 1) || (err != nil && !strings.Contains(err.Error(), "shard")) {
			t.Errorf("memory of shard %d: %v", shard, err)
		}
	}
	if err := stream.Synchronize(-1); err != nil {
		t.Error(err)
	}
}
