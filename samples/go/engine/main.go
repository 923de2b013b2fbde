// engine: the loop of an engine without weights: continuous batching under a budget of tokens, chunked prefill, prefix reuse, fork, preemption
// of the youngest, two steps in flight, over attention, recurrent states and a window. Every row is verified. "engine fault" drops the salts:
// the verification must notice. samples/engine has the same in C, over real models and traces.
package main

import (
	"fmt"
	"os"

	"quire.example/quire/bindings/go/quire"
)

func serve(faulty bool) (*server, error) {
	runtime, err := quire.NewRuntime(quire.RuntimeOptions{})
	if err != nil {
		return nil, err
	}
	defer runtime.Close()
	model, err := quire.NewModel(layers, maxLen)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	config, err := quire.NewConfig(model, quire.PlanOptions{NumPages: pages})
	if err != nil {
		return nil, err
	}
	defer config.Close()
	device, err := quire.OpenDevice(runtime, 0)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	s := &server{ready: workload(), faulty: faulty}
	if s.cache, err = quire.NewCache(runtime, config, quire.CacheOptions{MaxSequences: 32, MaxTokensPerStep: 2 * budget}); err != nil {
		return nil, err
	}
	if s.memory, err = quire.NewMemory(device, config, 0); err != nil {
		return nil, err
	}
	defer s.memory.Close()
	if s.stream, err = quire.NewStream(device); err != nil {
		return nil, err
	}
	defer s.stream.Close()
	if s.kernels, err = openKernels(s.memory, s.stream, 2*budget); err != nil {
		return nil, err
	}
	defer s.kernels.close()
	var steps [2]*step
	for i := range steps {
		steps[i] = &step{}
		if steps[i].batch, err = quire.NewBatch(config, 0); err != nil {
			return nil, err
		}
		defer steps[i].batch.Close()
	}
	if err = s.run(steps); err != nil {
		return nil, err
	}
	return s, s.cache.Verify()
}

const pages = 40 // too few for all that runs: somebody gives way

func main() {
	s, err := serve(len(os.Args) > 1 && os.Args[1] == "fault")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer s.cache.Close()
	c, rows, mismatches := s.counts, 0, 0
	for _, l := range s.done {
		n, bad := verify(l)
		rows, mismatches = rows+n, mismatches+bad
	}
	fmt.Printf("%d requests, %d samples: %d steps, %d preemptions, %d forks\n", len(workload()), len(s.done), c.steps, c.preemptions, c.forks)
	fmt.Printf("%d tokens admitted, %d of them reused; %d computed, %d generated\n", c.prompt, c.reused, c.computed, c.generated)
	if mismatches > 0 {
		fmt.Println("rows that differ were found")
		os.Exit(1)
	}
	fmt.Printf("verified %d rows of %d layers, 0 mismatches\n", rows, len(layers))
}
