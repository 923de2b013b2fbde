package quire_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"quire.example/quire/bindings/go/quire"
)

// What the examples share: a model of one layer that attends, and its plan.
func smallPlan(pages uint64) *quire.Config {
	layer := quire.Layer{Kind: quire.LayerFull, KVHeads: 1, QHeads: 1, HeadDimK: 16, HeadDimV: 16, DType: quire.Float32}
	model, err := quire.NewModel([]quire.Layer{layer}, 256)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close() // a plan does not need its model
	config, err := quire.NewConfig(model, quire.PlanOptions{NumPages: pages})
	if err != nil {
		log.Fatal(err)
	}
	return config
}

// A plan says how the layers of a model share pages, and how many sequences fit.
func ExampleNewConfig() {
	state := quire.Layer{Kind: quire.LayerState, State: []quire.StateTensor{{DType: quire.Float32, Ndim: 2, Shape: [4]uint64{16, 16}}}}
	full := quire.Layer{Kind: quire.LayerFull, Layer: 1, KVHeads: 2, QHeads: 4, HeadDimK: 64, HeadDimV: 64, DType: quire.BFloat16}
	model, err := quire.NewModel([]quire.Layer{state, full}, 4096)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	config, err := quire.NewConfig(model, quire.PlanOptions{MemoryBytes: []uint64{64 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	defer config.Close()
	info, err := config.Info()
	if err != nil {
		log.Fatal(err)
	}
	for i := uint32(0); i < info.NumGroups; i++ {
		group, err := config.Group(i)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("group %d: states %t, blocks of %d tokens\n", i, group.IsState == 1, group.BlockTokens)
	}
	// Output:
	// group 0: states true, blocks of 16 tokens
	// group 1: states false, blocks of 16 tokens
}

// A view says where the elements of a layer lie, for kernels of the engine's own.
func ExampleConfig_KVView() {
	config := smallPlan(17)
	defer config.Close()
	view, err := config.KVView(0, 0, 0) // shard, layer, cache of the layer
	if err != nil {
		log.Fatal(err)
	}
	// The key of block 3, token 5, head 0, element 7.
	at := view.Offset[0] + 3*view.Unit[0] + 5*view.StrideToken[0] + 7*view.StrideDim[0]
	fmt.Printf("%d sides of %d elements, blocks of %d tokens\n", view.NumSides, view.HeadDim[0], view.BlockTokens)
	fmt.Printf("byte %d of region %d\n", at, view.Region)
	// Output:
	// 2 sides of 16 elements, blocks of 16 tokens
	// byte 6492 of region 0
}

// The step loop: reserve, compute, commit. A prompt that comes again finds its full blocks.
func ExampleCache_Reserve() {
	config := smallPlan(17)
	defer config.Close()
	cache, err := quire.NewCache(nil, config, quire.CacheOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	prompt := make([]quire.Symbol, 40)
	for i := range prompt {
		prompt[i] = quire.Symbol(100 + i)
	}
	for i := 0; i < 2; i++ {
		sequence, err := cache.NewSequence(quire.Identity{Salt: "tenant"})
		if err != nil {
			log.Fatal(err)
		}
		want := []quire.ReserveEntry{{Sequence: sequence, NumSymbols: 40, NumTokens: 40, Flags: quire.EntryMatch | quire.EntryPromptEnd}}
		got := make([]quire.ReserveResult, 1)
		step, err := cache.Reserve(want, prompt, got)
		if err != nil || got[0].Code != quire.OK {
			log.Fatal(err, got[0].Reason)
		}
		fmt.Printf("%d tokens found, %d to compute\n", got[0].HitTokens, got[0].NumTokens)
		// ... the layers of the model run here ...
		row := []quire.CommitEntry{{Sequence: sequence, NumAccepted: got[0].NumTokens, SymbolsPosition: 40, NumSymbols: 1}}
		if err = step.Commit(row, []quire.Symbol{7}); err != nil {
			log.Fatal(err)
		}
		if err = cache.Finish(sequence); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 0 tokens found, 40 to compute
	// 32 tokens found, 8 to compute
}

// A refusal is an *Error, which errors.Is compares with a Code.
func ExampleError() {
	config := smallPlan(17)
	defer config.Close()
	_, err := config.Group(7)
	var refused *quire.Error
	fmt.Println(errors.Is(err, quire.OutOfRange), errors.As(err, &refused) && refused.Source == "library")
	// Output: true true
}

// What a cache counts, for a server of metrics: WriteMetrics may be called from any goroutine.
func ExampleWriteMetrics() {
	config := smallPlan(17)
	defer config.Close()
	cache, err := quire.NewCache(nil, config, quire.CacheOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	text, err := quire.WriteMetrics([]quire.MetricsSource{{Cache: cache, Labels: `engine="0"`}}, quire.PrometheusMetrics)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(text, `quire_prefix_cache_hits_total{engine="0"} 0`))
	// Output: true
}

// The bytes of a layer as a tensor that other libraries take over, without a copy.
func ExampleMemory_Export() {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{Driver: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	device, err := quire.OpenDevice(runtime, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer device.Close()
	config := smallPlan(17)
	defer config.Close()
	memory, err := quire.NewMemory(device, config, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Close()
	keys, err := memory.Export(quire.ExportOptions{Kind: quire.ExportLayer})
	if err != nil {
		log.Fatal(err)
	}
	defer keys.Close() // or Release, where another library takes it over
	fmt.Println(keys.Shape)
	// Output: [17 1 16 1 16]
}
