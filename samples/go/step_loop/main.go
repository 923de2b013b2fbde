// The step loop: one call for commit, reserve and tables, append and attention on the driver that QUIRE_DRIVER names. A plain loop checks all.
package main

import (
	"fmt"
	"math"
	"os"

	"quire.example/quire/bindings/go/quire"
)

const tokens, steps = 32, 6

var query, key, value, out = floats(tokens, heads), floats(tokens, kvHeads), floats(tokens, kvHeads), floats(tokens, heads)

func forward(b *quire.Batch, kv *quire.PagedKV, stream *quire.Stream) error {
	eachToken(b, func(i, s, p int) {
		for x := 0; x < heads*dim; x++ {
			query.Float32()[i*heads*dim+x] = element(0, s, p, x)
		}
		for x := 0; x < kvHeads*dim; x++ {
			key.Float32()[i*kvHeads*dim+x], value.Float32()[i*kvHeads*dim+x] = element(1, s, p, x), element(2, s, p, x)
		}
	})
	n := b.NumTokens()
	if err := stream.Append(kv, rows(key, n, kvHeads), rows(value, n, kvHeads), b); err != nil {
		return err
	}
	if err := stream.Attend(kv, rows(query, n, heads), rows(out, n, heads), b); err != nil {
		return err
	}
	return stream.Synchronize(-1)
}

func loop(cache *quire.Cache, memory *quire.Memory, stream *quire.Stream, b *quire.Batch) error {
	kv, err := memory.PagedKV(0, 0)
	if err != nil {
		return err
	}
	first, _ := cache.NewSequence(quire.Identity{})
	second, _ := cache.NewSequence(quire.Identity{})
	want := []quire.ReserveEntry{{Sequence: first, NumSymbols: 20, NumTokens: 20}, {Sequence: second, SymbolsOffset: 20, NumSymbols: 7, NumTokens: 7}}
	got, done, symbols := make([]quire.ReserveResult, 2), make([]quire.CommitEntry, 0, 2), make([]quire.Symbol, tokens)
	for i := range symbols {
		symbols[i] = quire.Symbol(1000 + i)
	}
	step := quire.Step{}
	for round := 0; round < steps; round++ {
		if step, err = b.Next(cache, memory, stream, step, done, symbols[:2], want, symbols, got); err != nil {
			return err
		}
		if err = forward(b, kv, stream); err != nil {
			return err
		}
		sum, worst := 0.0, 0.0
		eachToken(b, func(i, s, p int) {
			for x := 0; x < heads*dim; x++ {
				result := float64(out.Float32()[i*heads*dim+x])
				sum, worst = sum+math.Abs(result), math.Max(worst, math.Abs(result-plain(s, p, x)))
			}
		})
		verdict := map[bool]string{true: "equal to plain attention", false: "WRONG"}[worst < 1e-5]
		fmt.Printf("%d tokens, lengths %d %d, checksum %.2f, %s\n", b.NumTokens(), b.KVLen[0], b.KVLen[1], sum, verdict)
		done = done[:0]
		for s := range got { // here an engine samples: symbols[s]
			done = append(done, quire.CommitEntry{Sequence: want[s].Sequence, SymbolsPosition: got[s].End(), SymbolsOffset: uint64(s),
				NumSymbols: 1, NumAccepted: got[s].NumTokens})
			want[s] = quire.ReserveEntry{Sequence: want[s].Sequence, NumTokens: 1}
		}
	}
	return step.Commit(done, symbols[:2])
}

func main() {
	layer := quire.Layer{Kind: quire.LayerFull, KVHeads: kvHeads, QHeads: heads, HeadDimK: dim, HeadDimV: dim, DType: quire.Float32}
	run := func() error { // what is not closed here is closed by its finalizer, or with the process
		runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
		model, _ := quire.NewModel([]quire.Layer{layer}, 64)
		config, _ := quire.NewConfig(model, quire.PlanOptions{NumPages: 9})
		if err != nil {
			return err
		}
		device, err := quire.OpenDevice(runtime, 0)
		if err != nil {
			return err
		}
		cache, _ := quire.NewCache(runtime, config, quire.CacheOptions{})
		stream, _ := quire.NewStream(device)
		memory, _ := quire.NewMemory(device, config, 0)
		tables, err := quire.NewBatch(config, 0)
		if err != nil {
			return err
		}
		defer tables.Close()
		return loop(cache, memory, stream, tables)
	}
	if err := run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
