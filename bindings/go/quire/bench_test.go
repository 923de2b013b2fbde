// A decode step of 256 sequences (reserve, five arrays, commit) in Go and in a loop of C, in one process over one cache, block by block in turn:
// both see every position of a block and the same lengths. Processor time of the thread, so that other programs do not matter.
package quire

import (
	"runtime"
	"sort"
	"testing"

	"quire.example/quire/bindings/go/quire/internal/decode"
)

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func BenchmarkDecode256(b *testing.B) { // an iteration is one block of 16 tokens in both languages
	const rows, block, blocks = 256, 16, 120
	model := must(NewModel([]Layer{{Kind: LayerFull, KVHeads: 1, QHeads: 1, HeadDimK: 64, HeadDimV: 64, DType: BFloat16}}, (blocks+2)*block))
	config := must(NewConfig(model, PlanOptions{NumPages: rows*(blocks+2) + 2}))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cache *Cache
	var loop decode.Loop
	var batch *Batch
	want, got := make([]ReserveEntry, rows), make([]ReserveResult, rows)
	done, symbols, ids := make([]CommitEntry, rows), counting(0, rows), make([]uint64, rows)
	begin := func() {
		cache, batch = must(NewCache(nil, config, CacheOptions{MaxSequences: rows})), must(NewBatch(config, 0))
		for i := range want {
			id := must(cache.NewSequence(Identity{}))
			ids[i] = uint64(id)
			want[i] = ReserveEntry{Sequence: id, SymbolsOffset: uint64(i), NumSymbols: 1, NumTokens: 1}
			done[i] = CommitEntry{Sequence: id, SymbolsPosition: 1, SymbolsOffset: uint64(i), NumSymbols: 1, NumAccepted: 1}
		}
		step := must(cache.Reserve(want, symbols, got))
		if err := step.Commit(done, symbols); err != nil {
			b.Fatal(err)
		}
		for i := range want {
			want[i].NumSymbols, want[i].SymbolsOffset = 0, 0
		}
		loop = decode.New(cache.p, ids, blocks+2)
	}
	end := func() {
		if err := cache.Verify(); err != nil {
			b.Fatal(err)
		}
		loop.Free()
		batch.Close()
		cache.Close()
	}
	through := func() {
		step := Step{}
		var err error
		for i := 0; i < block; i++ {
			if step, err = batch.Next(cache, nil, nil, step, done, symbols, want, nil, got); err != nil || step.ID == 0 {
				b.Fatal(err)
			}
			for i := range got {
				done[i].SymbolsPosition = got[i].End()
			}
		}
		if err = step.Commit(done, symbols); err != nil {
			b.Fatal(err)
		}
	}
	byC, byGo, ratios := []float64{}, []float64{}, []float64{}
	used := blocks
	for i := 0; i < b.N; i++ {
		if used+2 > blocks {
			b.StopTimer()
			if i > 0 {
				end()
			}
			begin()
			used = 0
			b.StartTimer()
		}
		used += 2
		var times [2]float64
		for turn := 0; turn < 2; turn++ {
			language := (i + turn) % 2 // C Go, Go C: lengths grow, and both see the same on average
			start := decode.ThreadNs()
			if language == 1 {
				through()
			} else if code := loop.Run(block); code != 0 {
				b.Fatal(code)
			}
			times[language] = float64(decode.ThreadNs()-start) / block / 1000
		}
		byC, byGo, ratios = append(byC, times[0]), append(byGo, times[1]), append(ratios, times[1]/times[0])
	}
	end()
	b.ReportMetric(median(byC), "C-us/step")
	b.ReportMetric(median(byGo), "Go-us/step")
	b.ReportMetric(median(ratios), "Go/C")
}
