// Claim: a batch has the arrays of steps of any size, of one shape where that was asked for, and those of cross attention.
package quire

import (
	"errors"
	"math"
	"testing"
)

func TestABatchGrowsAndOneOfAFixedShapeIsPadded(t *testing.T) {
	config := planOf(65, fullLayer(0), stateLayer(1))
	cache := must(NewCache(nil, config, CacheOptions{}))
	batch, fixed := must(NewBatch(config, 0)), must(NewFixedBatch(config, 0, 3, 200))
	of := must(config.Place(0, 0)).Group
	grown, size := 0, uint64(0)
	for n := 1; n < 200; n += 9 {
		id, before := must(cache.NewSequence(Identity{})), batch.c.options.bytes
		want := []ReserveEntry{{Sequence: id, NumSymbols: uint32(n), NumTokens: uint32(n), Flags: EntryNoStop}}
		step := must(batch.Next(cache, nil, nil, Step{}, nil, nil, want, counting(0, n), make([]ReserveResult, 1)))
		if err := fixed.Fill(step); err != nil {
			t.Fatal(err)
		}
		if now := batch.c.options.bytes; now != before {
			grown++
			if now < 2*before {
				t.Errorf("%d bytes, and then %d", before, now)
			}
		}
		all, padded := batch.Groups[of], fixed.Groups[of]
		if batch.NumTokens() != n || len(batch.Pos) != n || all.NumSlots != n || batch.KVLen[0] != int32(n) || batch.Indptr[1] != int32(n) {
			t.Fatalf("%d tokens: %+v", n, batch)
		}
		if fixed.NumRows() != 3 || fixed.NumTokens() != 200 || fixed.KVLen[1] != 0 || fixed.Indptr[3] != int32(n) ||
			padded.Pitch != int(must(config.Group(of)).TablePitch) || padded.Slots[n-1] != all.Slots[n-1] || padded.Slots[199] != -1 {
			t.Fatalf("%d tokens: %+v", n, fixed)
		}
		if size != 0 && uint64(fixed.c.options.bytes) != size {
			t.Error("one size for all")
		}
		size = uint64(fixed.c.options.bytes)
		if step.Abort(AbortNotLaunched) != nil || cache.Finish(id) != nil {
			t.Fatal(n)
		}
	}
	if grown > 7 {
		t.Errorf("%d times", grown)
	}
	id, got := must(cache.NewSequence(Identity{})), make([]ReserveResult, 1)
	want := []ReserveEntry{{Sequence: id, NumSymbols: 201, NumTokens: 201, Flags: EntryNoStop}}
	step, err := fixed.Next(cache, nil, nil, Step{}, nil, nil, want, counting(0, 201), got)
	if !errors.Is(err, OutOfRange) || step.ID != 0 {
		t.Error(step, err)
	}
	if fixed.NumRows() != 0 || len(fixed.KVLen) != 0 || must(cache.Sequence(id)).StepsInFlight != 0 {
		t.Error("an error leaves an empty batch, and no step")
	}
}

func TestStatesAlongARowHaveLists(t *testing.T) {
	config := planOf(65, stateLayer(0))
	block := int(must(config.Group(0)).BlockTokens)
	options := CacheOptions{Flags: CacheStatesAtBlocks, CheckpointInterval: uint64(block)}
	cache, batch := must(NewCache(nil, config, options)), must(NewBatch(config, 0))
	id, n := must(cache.NewSequence(Identity{})), 2*block+1
	want := []ReserveEntry{{Sequence: id, NumSymbols: uint32(n), NumTokens: uint32(n), Flags: EntryNoStop}}
	must(batch.Next(cache, nil, nil, Step{}, nil, nil, want, counting(0, n), make([]ReserveResult, 1)))
	g := batch.Groups[0]
	ends := g.StateEnds
	if len(g.StateIndptr) != 2 || len(g.StateWrite) != 3 || len(ends) != 3 || ends[0] != int32(block) || ends[2] != int32(n) {
		t.Errorf("%+v", g)
	}
}

func TestCrossAttentionSeesTheEncodersTokensInEveryStep(t *testing.T) {
	const encoder = 20
	cross := fullLayer(0)
	cross.Kind, cross.Sub, cross.EncoderTokens = LayerCross, 1, 24
	o := must(cross.Attention())
	if _, err := stateLayer(0).Attention(); !errors.Is(err, InvalidArgument) || !o.NotCausal || must(fullLayer(0).Attention()).NotCausal {
		t.Fatal(err, o)
	}
	_, device, stream := onCPU()
	config := planOf(33, fullLayer(0), cross)
	cache, memory, batch := must(NewCache(nil, config, CacheOptions{})), must(NewMemory(device, config, 0)), must(NewBatch(config, 0))
	kv, of := must(memory.PagedKV(0, 1)), must(config.Place(0, 1)).Group
	key := rowsOf(encoder)
	key.Shape[0] = encoder
	for i := range key.Data.Float32() {
		key.Data.Float32()[i] = float32(i / dim) // all of a row, so that a mean tells which rows were seen
	}
	id, got, last := must(cache.NewSequence(Identity{})), make([]ReserveResult, 1), Step{}
	want := []ReserveEntry{{Sequence: id, NumSymbols: 3, NumTokens: 3, EncoderTokens: encoder}}
	for i, tokens := range []int64{3, 1} {
		done := []CommitEntry{{Sequence: id, SymbolsPosition: 3, NumSymbols: 1, NumAccepted: 3}}[:i]
		step := must(batch.Next(cache, memory, stream, last, done, []Symbol{9}, want, []Symbol{1, 2, 3}, got))
		if batch.Groups[of].NumSlots != encoder*(1-i) || batch.Groups[of].KVLen[0] != encoder || batch.KVLen[0] != int32(3+i) {
			t.Fatalf("%+v", batch.Groups[of])
		}
		key.Shape[0] = int64(batch.Groups[of].NumSlots)
		if err := stream.Append(kv, key, key, batch); err != nil {
			t.Fatal(err)
		}
		query, out := rowsOf(8), rowsOf(8) // zeroes: every key has the same weight
		query.Shape[0], out.Shape[0] = tokens, tokens
		if err := stream.AttendWith(kv, query, out, batch, o); err != nil || stream.Synchronize(-1) != nil {
			t.Fatal(err)
		}
		mean := float64(encoder - 1) // of 0, 2, 4, ...
		if found := float64(out.Data.Float32()[0]); math.Abs(found-mean) > 1e-4 {
			t.Errorf("%g instead of %g", found, mean)
		}
		last, want[0] = step, ReserveEntry{Sequence: id, NumTokens: 1}
	}
}
