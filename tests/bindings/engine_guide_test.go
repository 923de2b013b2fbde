// Runs the Go code of docs/in-your-engine.md, which go.sh puts beside this: prefill, a prefix found again, a pool too small for two.
package engine

import (
	"errors"
	"testing"

	"quire.example/quire/bindings/go/quire"
)

const config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "torch_dtype": "bfloat16"}`

// One prompt in one step; the sequence, and what was answered.
func prefill(t *testing.T, e *Engine, prompt []quire.Symbol, batch *quire.Batch) (quire.SequenceID, quire.ReserveResult) {
	sequence, err := e.Cache.NewSequence(quire.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	n := uint32(len(prompt))
	wants := []quire.ReserveEntry{{Sequence: sequence, NumSymbols: n, NumTokens: n, Flags: quire.EntryMatch | quire.EntryPromptEnd}}
	got := make([]quire.ReserveResult, 1)
	step, err := e.Begin(quire.Step{}, nil, nil, wants, prompt, got, batch)
	if err != nil {
		t.Fatal(err)
	}
	if step.ID == 0 {
		return sequence, got[0]
	}
	if uint32(batch.Indptr[1]) != got[0].NumTokens || uint32(batch.KVLen[0]) != n || uint64(batch.Pos[0]) != got[0].Position {
		t.Error(batch.Indptr[:2], batch.KVLen[0], batch.Pos[0])
	}
	if err = step.Commit(Outcomes(nil, got, []bool{true}), []quire.Symbol{7}); err != nil {
		t.Fatal(err)
	}
	return sequence, got[0]
}

func TestTheGuide(t *testing.T) {
	// 512 bytes per layer, side and block of 16 tokens of 2 heads of 16: 4 KiB a page; 40 pages serve one prompt of 400, not two.
	e, err := Open(config, 40*4096)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := quire.NewBatch(e.Config, 0)
	if err != nil {
		t.Fatal(err)
	}
	prompt := make([]quire.Symbol, 400)
	for i := range prompt {
		prompt[i] = quire.Symbol(i)
	}
	if err = e.WatchUnits(16); err != nil {
		t.Fatal(err)
	}
	first, got := prefill(t, e, prompt[:100], batch)
	stored := uint64(0)
	count := func(unit quire.Unit, group uint32, ids []int32) error {
		if stored++; group != 0 || len(ids) != 1 || ids[0] == 0 || unit.EndToken != 16*stored {
			t.Error(unit, group, ids)
		}
		return nil
	}
	if err = e.StoreUnits(count); err != nil || stored != 6 {
		t.Error(stored, err)
	}
	if stats, err := e.Cache.Stats(); err != nil || stats.Holds != 0 {
		t.Error(stats.Holds, err)
	}
	if got.HitTokens != 0 || got.NumTokens != 100 || e.Cache.Finish(first) != nil {
		t.Errorf("%+v", got)
	}
	second, got := prefill(t, e, prompt, batch)
	if got.Code != quire.OK || got.HitTokens != 96 {
		t.Errorf("%+v", got)
	}
	prompt[0] = 9999
	third, got := prefill(t, e, prompt, batch)
	if got.Code != quire.ResourceExhausted || got.MissingPages == 0 {
		t.Errorf("%+v", got)
	}
	running, preempted, err := e.GiveWay(got, []quire.SequenceID{second})
	if err != nil || preempted != second || len(running) != 0 {
		t.Error(err, preempted)
	}
	if _, preempted, err = e.GiveWay(got, running); err != nil || preempted != 0 {
		t.Error(err, preempted)
	}
	if err = e.Cache.Finish(third); err != nil {
		t.Error(err)
	}
	if _, got = prefill(t, e, prompt, batch); got.Code != quire.OK {
		t.Errorf("%+v", got)
	}
	if stats, err := e.Cache.Stats(); err != nil || stats.Preemptions != 1 || stats.Steps != 3 {
		t.Errorf("%+v %v", stats, err)
	}
	if _, err = Open(config[:20], 1<<20); !errors.Is(err, quire.InvalidArgument) {
		t.Error(err)
	}
	batch.Close()
	e.Close()
}

const hybrid = `{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 256,
 "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
 "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
 "linear_value_head_dim": 16, "max_position_embeddings": 1024, "torch_dtype": "bfloat16"}`

// A model whose first groups have states.
func TestTheGuideWithStates(t *testing.T) {
	e, err := Open(hybrid, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	small, err := quire.NewFixedBatch(e.Config, 0, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := quire.NewBatch(e.Config, 0)
	if err != nil {
		t.Fatal(err)
	}
	sequence, err := e.Cache.NewSequence(quire.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	wants := []quire.ReserveEntry{{Sequence: sequence, NumSymbols: 300, NumTokens: 300, Flags: quire.EntryMatch | quire.EntryPromptEnd}}
	got := make([]quire.ReserveResult, 1)
	prompt := make([]quire.Symbol, 300)
	if step, err := e.Begin(quire.Step{}, nil, nil, wants, prompt, got, small); step.ID != 0 || !errors.Is(err, quire.OutOfRange) {
		t.Error(step, err)
	}
	step, err := e.Begin(quire.Step{}, nil, nil, wants, prompt, got, batch)
	if err != nil || step.ID == 0 {
		t.Fatal(step, err)
	}
	for g, of := range batch.Groups {
		group, err := e.Config.Group(uint32(g))
		if err != nil {
			t.Fatal(err)
		}
		if group.IsState != 0 && (of.Table != nil || of.StateRead[0] != 0 || of.StateWrite[0] <= 0) {
			t.Error(g, of.StateRead[0], of.StateWrite[0])
		}
		if group.IsState == 0 && (of.StateRead != nil || of.Slots[0] != int64(of.Table[0])*int64(group.KernelBlockTokens)) {
			t.Error(g, of.Table[0], of.Slots[0])
		}
	}
	if err = step.Commit(Outcomes(nil, got, []bool{false}), nil); err != nil {
		t.Error(err)
	}
	if group, err := e.Config.Group(0); err != nil || group.IsState == 0 {
		t.Error(group, err)
	}
}

// Whole requests on a model whose first groups have states: what is reused, and that no step stays in flight after an error.
func TestWholeRequests(t *testing.T) {
	e, err := Open(hybrid, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	batch, err := quire.NewBatch(e.Config, 0)
	if err != nil {
		t.Fatal(err)
	}
	small, err := quire.NewFixedBatch(e.Config, 0, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	prompt := make([]quire.Symbol, 300)
	for i := range prompt {
		prompt[i] = quire.Symbol(1000 + i)
	}
	runs, failAt := 0, 0
	run := func(e *Engine, batch *quire.Batch, step quire.Step) (quire.Symbol, error) {
		if runs++; runs == failAt {
			return 0, quire.Unavailable
		}
		if step.ID == 0 || batch.NumRows() != 1 || int(batch.KVLen[0]) < batch.NumTokens() {
			t.Error(step, batch.NumRows())
		}
		return quire.Symbol(500 + runs), nil
	}
	out, reused, err := e.Serve(batch, run, "tenant", prompt, 4)
	if err != nil || reused != 0 || runs <= 4 || len(out) != 4 || int(out[3]) != 500+runs {
		t.Fatal(out, reused, runs, err)
	}
	if _, reused, err = e.Serve(batch, run, "tenant", prompt, 4); err != nil || reused <= 200 {
		t.Error(reused, err)
	}
	if _, reused, err = e.Serve(batch, run, "another", prompt, 1); err != nil || reused != 0 {
		t.Error(reused, err)
	}
	failAt = runs + 2
	if out, _, err = e.Serve(batch, run, "tenant", prompt, 4); !errors.Is(err, quire.Unavailable) || runs != failAt {
		t.Error(out, err)
	}
	if _, _, err = e.Serve(small, run, "fresh", prompt, 4); !errors.Is(err, quire.OutOfRange) {
		t.Error(err)
	}
	if stats, err := e.Cache.Stats(); err != nil || stats.NumSequences != 0 {
		t.Error(stats.NumSequences, err)
	}
	if out, _, err = e.Serve(batch, run, "tenant", prompt, 4); err != nil || len(out) != 4 {
		t.Error(out, err)
	}
	tight, err := Open(config, 40*4096)
	if err != nil {
		t.Fatal(err)
	}
	defer tight.Close()
	if batch, err = quire.NewBatch(tight.Config, 0); err != nil {
		t.Fatal(err)
	}
	prefill(t, tight, make([]quire.Symbol, 400), batch)
	others := make([]quire.Symbol, 400)
	others[0] = 6
	if _, _, err = tight.Serve(batch, run, "", others, 1); !errors.Is(err, quire.ResourceExhausted) {
		t.Error(err)
	}
}
