// Claims: where the host has no memory for an argument the call is refused and nothing leaks or crashes; ops read the tables of C, whatever
// became of the slices of a Batch; sizes that do not fit are refused; the selective scan computes what its formula says and allocates nothing.
// Method: every allocation of every call that takes texts or lists fails once; examples against plain arithmetic, with seeds printed.
package quire

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"testing"
	"time"
	"unsafe"
)

func TestMissingHostMemoryIsAnError(t *testing.T) {
	s := eightTokens()
	rt, device, stream := onCPU()
	config := planOf(33, fullLayer(0))
	e, id, text, session := saved(t, 16)
	tiers, host, empty := e.options(), e.host(), must(e.cache.NewSequence(Identity{Salt: "tenant"}))
	tiers.Tiers = []Tier{{Connector: host, Name: "near"}}
	size := int(must(config.Regions(0))[0].Bytes)
	piece, key, op := must(NewBuffer(size)), rowsOf(8), new(Op)
	lse := Tensor{Data: must(NewBuffer(64)), DType: Float32, Shape: []int64{8, 2}}
	region := must(NewDLTensor(piece, UInt8, []int64{int64(size)}, []int64{1}, false, nil))
	defer func(before func(int) unsafe.Pointer) { allocate = before }(allocate)
	real := allocate
	for name, call := range map[string]func() error{
		"NewRuntime":      func() error { _, err := NewRuntime(RuntimeOptions{Driver: "null", NoEnv: true, CPUs: "0"}); return err },
		"NewModel":        func() error { _, err := NewModel([]Layer{{Name: "a", Kind: LayerFull}}, 8); return err },
		"ModelFromJSON":   func() error { _, err := ModelFromJSON("{}"); return err },
		"ModelFromLayers": func() error { _, err := ModelFromLayers("{}"); return err },
		"NewConfig": func() error {
			_, err := NewConfig(nil, PlanOptions{Policy: "a", Layout: "b", PreferredLayouts: []string{"c"}, MemoryBytes: []uint64{1},
				StageLayers: []uint32{1}})
			return err
		},
		"NewCache":     func() error { _, err := NewCache(nil, config, CacheOptions{MaxSequences: 2}); return err },
		"NewSequence":  func() error { _, err := s.cache.NewSequence(Identity{Salt: "a", Adapter: "b"}); return err },
		"Pin":          func() error { _, _, err := s.cache.Pin(Identity{Salt: "a"}, nil, PinOptions{}); return err },
		"Probe":        func() error { _, err := s.cache.Probe(Identity{Adapter: "a"}, nil); return err },
		"EnableEvents": func() error { return new(Cache).EnableEvents(EventOptions{Seed: "0"}) },
		"NameMedia":    func() error { return s.cache.NameMedia(1, "a", 1) },
		"HashBlocks": func() error {
			return hashed(HashOptions{Seed: "a", Parent: make([]byte, 32), Embeds: []byte{1}, EmbedRows: 1})
		},
		"NewStream":     func() error { _, err := NewStream(device); return err },
		"CopyRuns":      func() error { return stream.CopyRuns([]CopyRun{{piece, 0, piece, 64, 64}}) },
		"Merge":         func() error { return stream.Merge([]Tensor{key}, []Tensor{lse}, key) },
		"BindBuffers":   func() error { _, err := BindBuffers(device, config, 0, []*Buffer{piece}); return err },
		"BindMemory":    func() error { _, err := BindMemory(device, config, 0, region); return err },
		"Ops":           func() error { _, err := rt.Ops("null"); return err },
		"FindOp":        func() error { _, err := rt.FindOp("null", "a", 0, 0); return err },
		"Invoke":        func() error { _, err := op.Invoke("a", &key); return err },
		"OpenConnector": func() error { _, err := OpenConnector(rt, "null", "{}"); return err },
		"NewBatch":      func() error { _, err := NewBatch(config, 0); return err },
		"NewBuffer":     func() error { _, err := NewBuffer(64); return err },
		"Events":        func() error { _, err := NewEventBuffer(1, 8); return err },
		"BeginFetchFrom": func() error {
			_, err := new(Tiers).BeginFetchFrom(Peer{Address: "peer:1"}, 1, nil, 0)
			return err
		},
		"NewTiers":    func() error { made, err := NewTiers(e.cache, tiers); made.Close(); return err },
		"SaveSession": func() error { return saveOf(e.cache, id, e.session(), text) },
		"RestoreSession": func() error {
			_, err := e.cache.RestoreSession(empty, e.session(), bytes.NewReader(session), make([]Symbol, 256))
			return err
		},
	} {
		failed := 0
		for ; failed < 100; failed++ {
			left := failed
			reached := false
			allocate = func(bytes int) unsafe.Pointer {
				if left--; left < 0 {
					reached = true
					return nil
				}
				return real(bytes)
			}
			err := call()
			allocate = real
			if !reached {
				break
			}
			if !errors.Is(err, ResourceExhausted) {
				t.Errorf("%s without allocation %d: %v", name, failed, err)
			}
		}
		if failed == 0 || failed == 100 {
			t.Errorf("%s: %d allocations failed", name, failed)
		}
	}
	allocate = func(int) unsafe.Pointer { return nil }
	cache, queue := s.cache.Share(), stream.Share()
	allocate = real
	if _, err := cache.Reserve(make([]ReserveEntry, 1), nil, make([]ReserveResult, 1)); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	if err := queue.Synchronize(-1); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	made := must(NewTiers(e.cache, tiers))
	defer made.Close()
	allocate = func(int) unsafe.Pointer { return nil }
	shared := made.Share()
	allocate = real
	if _, err := shared.Run(0, nil); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

func hashed(o HashOptions) error {
	o.Algorithm, o.BlockTokens = HashSHA256CBOR, 1
	_, err := HashBlocks(o, []int64{1, 2})
	return err
}

func TestEmbeddingsAreRowsOfEqualSize(t *testing.T) {
	for _, o := range []HashOptions{{Embeds: []byte{1, 2, 3}, EmbedRows: 2}, {Embeds: []byte{1, 2}}, {EmbedRows: 2}, {EmbedRows: math.MaxUint64},
		{Embeds: []byte{1, 2}, EmbedRows: math.MaxUint64}} {
		if err := hashed(o); !errors.Is(err, InvalidArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	a := must(HashBlocks(HashOptions{Algorithm: HashSHA256CBOR, BlockTokens: 1, Embeds: []byte{1, 2, 3, 4}, EmbedRows: 2}, []int64{1, 2}))
	b := must(HashBlocks(HashOptions{Algorithm: HashSHA256CBOR, BlockTokens: 1, Embeds: []byte{1, 2, 3, 5}, EmbedRows: 2}, []int64{1, 2}))
	if string(a[:32]) != string(b[:32]) || string(a[32:]) == string(b[32:]) {
		t.Errorf("%x %x", a, b)
	}
}

func TestOpsReadTheTablesAndNotTheirSlices(t *testing.T) {
	s := eightTokens()
	mask, indptr, cos := must(NewBuffer(8)), must(NewBuffer(16)), must(NewBuffer(4*8*8))
	for i := range mask.Bytes() {
		mask.Bytes()[i] = 0xff
	}
	indptr.Int64()[1] = 64
	s.batch.KVLen, s.batch.Indptr, s.batch.Pos, s.batch.Groups = nil, nil, nil, nil
	rope := AppendOptions{RopeCos: cos, RopeSin: cos, RopeDim: dim, RopePositions: 8}
	if err := s.stream.AppendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, rope); err != nil {
		t.Error(err)
	}
	rope.RopePositions = 7
	if err := s.stream.AppendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, rope); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	o := AttentionOptions{Mask: mask, MaskIndptr: indptr}
	if err := s.stream.AttendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, o); err != nil || s.stream.Synchronize(-1) != nil {
		t.Error(err)
	}
	indptr.Int64()[0] = 1
	if err := s.stream.AttendWith(s.kv, rowsOf(8), rowsOf(8), s.batch, o); !errors.Is(err, OutOfRange) {
		t.Error(err)
	}
	s.batch.Groups = make([]GroupTables, 9)
	if err := s.batch.Fill(s.step); err != nil || len(s.batch.Groups) != 1 || s.batch.Groups[0].NumSlots != 8 || s.batch.Pos[7] != 7 {
		t.Error(err, s.batch.Groups)
	}
}

func TestStreamZeroIsNotImported(t *testing.T) {
	_, device, _ := onCPU()
	if _, err := ImportStream(device, 0); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
}

const scanHeads, scanDim, scanState = 2, 4, 3

// One token of the scan in plain arithmetic: writes out and changes state.
func scanned(d *SelectiveScan, token int, state *[scanHeads][scanDim][scanState]float64, out *[scanHeads][scanDim]float64) {
	at := func(t Tensor, i int) float64 { return float64(t.Data.Float32()[i]) }
	for h := 0; h < scanHeads; h++ {
		step := math.Log1p(math.Exp(at(d.Dt, token*scanHeads+h) + at(d.DtBias, h)))
		step = math.Min(math.Max(step, float64(d.DtMin)), float64(d.DtMax))
		for i := 0; i < scanDim; i++ {
			x, sum := at(d.X, (token*scanHeads+h)*scanDim+i), 0.0
			for j := 0; j < scanState; j++ {
				s := &state[h][i][j]
				*s = math.Exp(step*at(d.A, h))**s + step*x*at(d.B, token*scanState+j)
				sum += *s * at(d.C, token*scanState+j)
			}
			z := at(d.Z, (token*scanHeads+h)*scanDim+i)
			out[h][i] = (sum + at(d.Skip, h)*x) * z / (1 + math.Exp(-z))
		}
	}
}

// A prompt of two tokens, then decode steps that go on with the state; allocations of Go are counted.
func TestTheSelectiveScanIsItsFormulaAndAllocatesNothing(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewSource(seed))
	_, device, stream := onCPU()
	config := planOf(33, Layer{Kind: LayerState, StateKind: StateMamba2, DType: Float32,
		State: []StateTensor{{DType: Float32, Ndim: 3, Shape: [4]uint64{scanHeads, scanDim, scanState}}}})
	cache, memory := must(NewCache(nil, config, CacheOptions{})), must(NewMemory(device, config, 0))
	batch, id := must(NewBatch(config, 0)), must(cache.NewSequence(Identity{}))
	tensor := func(shape ...int64) Tensor {
		n := int64(1)
		for _, extent := range shape {
			n *= extent
		}
		return Tensor{Data: must(NewBuffer(int(4 * n))), DType: Float32, Shape: shape}
	}
	of := func(n int64) *SelectiveScan {
		return &SelectiveScan{State: must(memory.PagedState(0, 0, 0)), X: tensor(n, scanHeads, scanDim), Dt: tensor(n, scanHeads), A: tensor(scanHeads),
			B: tensor(n, 1, scanState), C: tensor(n, 1, scanState), Out: tensor(n, scanHeads, scanDim), Skip: tensor(scanHeads),
			DtBias: tensor(scanHeads), Z: tensor(n, scanHeads, scanDim), Softplus: true, DtMin: 0.3, DtMax: 0.9}
	}
	prompt, decode := of(2), of(1)
	entries, results := []ReserveEntry{{Sequence: id, NumSymbols: 2, NumTokens: 2}}, make([]ReserveResult, 1)
	told, rows, last := []Symbol{1, 2}, []CommitEntry{{Sequence: id}}, Step{}
	run := func(d *SelectiveScan) {
		step, err := batch.Next(cache, memory, stream, last, rows, nil, entries, told, results)
		if err == nil {
			err = stream.SelectiveScan(*d, batch)
		}
		if err == nil {
			err = stream.Synchronize(-1)
		}
		if last = step; err != nil || step.ID == 0 {
			t.Fatal(err, results)
		}
		n := results[0].NumTokens
		rows[0].NumAccepted, entries[0].NumSymbols, entries[0].NumTokens, told = n, 1, 1, told[:1]
		entries[0].SymbolsPosition = results[0].End()
	}
	var state [scanHeads][scanDim][scanState]float64
	for round := 0; round < 4; round++ {
		d := decode
		if round == 0 {
			d = prompt
		}
		for _, in := range []Tensor{d.X, d.Dt, d.B, d.C, d.Skip, d.DtBias, d.Z, d.A} {
			for i := range in.Data.Float32() {
				in.Data.Float32()[i] = dice.Float32()*2 - 1
			}
		}
		run(d)
		for token := 0; token < int(d.X.Shape[0]); token++ {
			var wanted [scanHeads][scanDim]float64
			scanned(d, token, &state, &wanted)
			for i, got := range d.Out.Data.Float32()[token*scanHeads*scanDim:][:scanHeads*scanDim] {
				if want := wanted[i/scanDim][i%scanDim]; math.Abs(float64(got)-want) > 1e-5 {
					t.Fatalf("round %d, token %d, %d: %g, wanted %g", round, token, i, got, want)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(50, func() { run(decode) }); n != 0 {
		t.Errorf("%g allocations a step", n)
	}
}
