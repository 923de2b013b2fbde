// A hybrid model: recurrent layers keep one state per sequence, so a prompt resumes only where a state was kept.
package main

import (
	"fmt"
	"os"

	"quire.example/quire/bindings/go/quire"
)

const config = `{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 256,
  "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "linear_conv_kernel_dim": 4,
  "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_value_head_dim": 16,
  "max_position_embeddings": 1024, "torch_dtype": "bfloat16"}`

var misses = []string{"complete", "unknown prefix", "evicted", "no state kept there", "window hole", "shorter than one unit", "disabled"}

// Serves a prompt, chunk by chunk: a chunk ends where a state is worth keeping.
func serve(cache *quire.Cache, name string, prompt []quire.Symbol, salt string) error {
	sequence, err := cache.NewSequence(quire.Identity{Salt: salt})
	if err != nil {
		return err
	}
	want := []quire.ReserveEntry{{Sequence: sequence, Flags: quire.EntryMatch | quire.EntryPromptEnd}}
	got := make([]quire.ReserveResult, 1)
	for want[0].SymbolsOffset < uint64(len(prompt)) {
		rest := uint32(len(prompt)) - uint32(want[0].SymbolsOffset)
		want[0].NumSymbols, want[0].NumTokens = rest, rest
		step, err := cache.Reserve(want, prompt, got)
		if err != nil {
			return err
		}
		if got[0].Code != quire.OK {
			return got[0].Code
		}
		if want[0].Flags&quire.EntryMatch != 0 {
			fmt.Printf("%s: %d of %d tokens reused, attention alone %d: %s; chunks", name, got[0].HitTokens, len(prompt), got[0].FullHitTokens,
				misses[got[0].Miss])
		}
		want[0].Flags = quire.EntryPromptEnd
		want[0].SymbolsPosition, want[0].SymbolsOffset = got[0].End(), got[0].End()
		fmt.Printf(" %d..%d", got[0].Position, want[0].SymbolsOffset)
		if err = step.Commit([]quire.CommitEntry{{Sequence: sequence, NumAccepted: got[0].NumTokens}}, nil); err != nil {
			return err
		}
	}
	fmt.Println()
	return cache.Finish(sequence)
}

func story() error {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		return err
	}
	defer runtime.Close()
	model, err := quire.ModelFromJSON(config)
	if err != nil {
		return err
	}
	defer model.Close()
	plan, err := quire.NewConfig(model, quire.PlanOptions{NumPages: 101})
	if err != nil {
		return err
	}
	defer plan.Close()
	cache, err := quire.NewCache(runtime, plan, quire.CacheOptions{})
	if err != nil {
		return err
	}
	defer cache.Close()
	info, err := plan.Info()
	for g := uint32(0); g < info.NumGroups && err == nil; g++ {
		group, _ := plan.Group(g)
		kind := []string{"attention", "states"}[group.IsState]
		fmt.Printf("group %d: %s, layers %d, blocks of %d tokens\n", g, kind, group.NumCaches, group.BlockTokens)
	}
	prompt := make([]quire.Symbol, 300)
	for i := range prompt {
		prompt[i] = quire.Symbol(1000 + i)
	}
	for _, one := range []struct {
		name   string
		at250  quire.Symbol
		tenant string
	}{{"first", 1250, ""}, {"again", 1250, ""}, {"parts at 250", 7, ""}, {"parts there too", 8, ""}, {"other salt", 8, "tenant 2"}} {
		prompt[250] = one.at250 // another question about the same document
		if err = serve(cache, one.name, prompt, one.tenant); err != nil {
			return err
		}
	}
	return cache.Verify()
}

func main() {
	if err := story(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
