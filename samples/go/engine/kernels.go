package main

import "quire.example/quire/bindings/go/quire"

// The model: attention over everything, a recurrent layer, attention over a window.
var layers = []quire.Layer{
	{Kind: quire.LayerFull, KVHeads: kvHeads, QHeads: heads, HeadDimK: dim, HeadDimV: dim, DType: quire.Float32},
	{Kind: quire.LayerState, Layer: 1, StateKind: quire.StateGDN, DType: quire.Float32,
		State: []quire.StateTensor{{DType: quire.Float32, Ndim: 3, Shape: [4]uint64{stateHeads, dim, dim}}}},
	{Kind: quire.LayerSlidingWindow, Layer: 2, KVHeads: kvHeads, QHeads: heads, HeadDimK: dim, HeadDimV: dim, DType: quire.Float32, Window: window},
}

// kernels runs the layers of a step on the driver.
type kernels struct {
	stream *quire.Stream
	kv     [3]*quire.PagedKV
	state  *quire.PagedState
	buffer map[string]*quire.Buffer // tensors of one step, reused by all layers
}

func openKernels(memory *quire.Memory, stream *quire.Stream, tokens int) (*kernels, error) {
	k := &kernels{stream: stream, buffer: map[string]*quire.Buffer{}}
	var err error
	for l := range layers {
		if layers[l].Kind == quire.LayerState {
			k.state, err = memory.PagedState(uint32(l), 0, 0)
		} else {
			k.kv[l], err = memory.PagedKV(uint32(l), 0)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"query", "key", "value", "gate", "beta", "out"} {
		if k.buffer[name], err = quire.NewBuffer(4 * tokens * heads * dim); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *kernels) close() {
	for _, b := range k.buffer {
		b.Close()
	}
}

// fill writes a tensor [tokens, heads, width] of what the weights would have given.
func (k *kernels) fill(name string, hashes []uint64, layer, what uint64, heads, width int) quire.Tensor {
	to := k.buffer[name].Float32()
	for t, h := range hashes {
		for i := 0; i < heads*width; i++ {
			switch what {
			case gate:
				to[t*heads+i] = gateOf(h, layer, i)
			case beta:
				to[t*heads+i] = betaOf(h, layer, i)
			default:
				to[t*heads*width+i] = number(h, layer, what, i)
			}
		}
	}
	shape := []int64{int64(len(hashes)), int64(heads), int64(width)}
	if what == gate || what == beta {
		shape = shape[:2]
	}
	return quire.Tensor{Data: k.buffer[name], DType: quire.Float32, Shape: shape}
}

// run computes all layers; done receives the results of each: [tokens][width] numbers.
func (k *kernels) run(batch *quire.Batch, hashes []uint64, done func(layer, width int, out []float32)) error {
	for l := range layers {
		layer := uint64(l)
		n, width := int64(len(hashes)), heads*dim
		if layers[l].Kind == quire.LayerState {
			width = stateHeads * dim
			out := quire.Tensor{Data: k.buffer["out"], DType: quire.Float32, Shape: []int64{n, stateHeads, dim}}
			err := k.stream.GatedDelta(quire.GatedDelta{State: k.state, Flags: quire.GatedDeltaL2norm, Out: out,
				Query: k.fill("query", hashes, layer, query, stateHeads, dim), Key: k.fill("key", hashes, layer, key, stateHeads, dim),
				Value: k.fill("value", hashes, layer, value, stateHeads, dim), Gate: k.fill("gate", hashes, layer, gate, stateHeads, 1),
				Beta: k.fill("beta", hashes, layer, beta, stateHeads, 1)}, batch)
			if err != nil {
				return err
			}
		} else {
			keys, values := k.fill("key", hashes, layer, key, kvHeads, dim), k.fill("value", hashes, layer, value, kvHeads, dim)
			if err := k.stream.Append(k.kv[l], keys, values, batch); err != nil {
				return err
			}
			out := quire.Tensor{Data: k.buffer["out"], DType: quire.Float32, Shape: []int64{n, heads, dim}}
			options := quire.AttentionOptions{Window: uint32(layers[l].Window)}
			if err := k.stream.AttendWith(k.kv[l], k.fill("query", hashes, layer, query, heads, dim), out, batch, options); err != nil {
				return err
			}
		}
		if err := k.stream.Synchronize(-1); err != nil {
			return err
		}
		done(l, width, k.buffer["out"].Float32()[:int(n)*width])
	}
	return nil
}
