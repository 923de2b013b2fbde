// Hello: a cache without a device. A prompt is computed, then asked for again: its full blocks are found.
package main

import (
	"errors"
	"fmt"
	"os"

	"quire.example/quire/bindings/go/quire"
)

// Computes a prompt and finishes its sequence, so that what it published can be found.
func serve(cache *quire.Cache, prompt []quire.Symbol) (quire.SequenceID, error) {
	sequence, err := cache.NewSequence(quire.Identity{})
	if err != nil {
		return 0, err
	}
	n := uint32(len(prompt))
	want := []quire.ReserveEntry{{Sequence: sequence, NumSymbols: n, NumTokens: n, Flags: quire.EntryMatch | quire.EntryPromptEnd}}
	got := make([]quire.ReserveResult, 1)
	step, err := cache.Reserve(want, prompt, got)
	if err != nil {
		return 0, err
	}
	if got[0].Code != quire.OK {
		return 0, got[0].Code
	}
	fmt.Printf("prompt of %d tokens: %d reused, %d to compute, blocks", n, got[0].HitTokens, got[0].NumTokens)

	// Here an engine fills its tables and runs its layers over the tokens from Position on.
	ids := make([]int32, 8)
	if _, err = step.Fill(quire.FillRawTable, ids, quire.FillAt{FillValue: -1}); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if id >= 0 {
			fmt.Printf(" %d", id)
		}
	}
	fmt.Println()
	if err = step.Commit([]quire.CommitEntry{{Sequence: sequence, NumAccepted: got[0].NumTokens}}, nil); err != nil {
		return 0, err
	}
	return sequence, cache.Finish(sequence)
}

func story() error {
	layer := quire.Layer{Kind: quire.LayerFull, KVHeads: 2, QHeads: 4, HeadDimK: 64, HeadDimV: 64, DType: quire.BFloat16}
	second := layer
	second.Layer = 1
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	model, err := quire.NewModel([]quire.Layer{layer, second}, 512)
	if err != nil {
		return err
	}
	defer model.Close()
	config, err := quire.NewConfig(model, quire.PlanOptions{NumPages: 33}) // page 0 is the null page
	if err != nil {
		return err
	}
	defer config.Close()
	cache, err := quire.NewCache(runtime, config, quire.CacheOptions{})
	if err != nil {
		return err
	}
	defer cache.Close()
	info, _ := config.Info()
	group, _ := config.Group(0)
	fmt.Printf("plan: %d group, %d pages, blocks of %d tokens\n", info.NumGroups, info.NumPages, group.BlockTokens)
	prompt := make([]quire.Symbol, 40)
	for i := range prompt {
		prompt[i] = quire.Symbol(1000 + i)
	}
	var sequence quire.SequenceID
	for _, symbol := range []quire.Symbol{1020, 1020, 7} { // the third parts in the second block
		prompt[20] = symbol
		if sequence, err = serve(cache, prompt); err != nil {
			return err
		}
	}
	stats, err := cache.Stats()
	fmt.Printf("reused %d of %d tokens; pages: %d free, %d cached, %d used\n", stats.HitTokens, stats.MatchedPromptTokens, stats.PagesFree,
		stats.PagesEvictable, stats.PagesUsed)
	if refused := cache.Finish(sequence); errors.Is(refused, quire.NotFound) {
		fmt.Println("finished twice:", refused)
	}
	return err
}

func main() {
	if err := story(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
