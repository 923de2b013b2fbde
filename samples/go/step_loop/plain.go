package main

import (
	"math"

	"quire.example/quire/bindings/go/quire"
)

const heads, kvHeads, dim = 4, 2, 8

// The "model": element x of query (0), key (1) or value (2) of position p of sequence s, a multiple of 1/16.
func element(which, s, p, x int) float32 { return float32((which*5+s*3+p*7+x*11)%23-11) / 16 }

// softmax(q k / sqrt(dim)) v over the positions up to p.
func plain(s, p, x int) float64 {
	shared := x / dim / (heads / kvHeads) * dim // where the head's keys and values start
	total, sum := 0.0, 0.0
	for t := 0; t <= p; t++ {
		dot := 0.0
		for i := 0; i < dim; i++ {
			dot += float64(element(0, s, p, x/dim*dim+i)) * float64(element(1, s, t, shared+i))
		}
		weight := math.Exp(dot / math.Sqrt(dim))
		total += weight
		sum += weight * float64(element(2, s, t, shared+x%dim))
	}
	return sum / total
}

// Floats of C memory for [tokens, heads, dim].
func floats(tokens, heads int) *quire.Buffer {
	buffer, err := quire.NewBuffer(tokens * heads * dim * 4)
	if err != nil {
		panic(err)
	}
	return buffer
}

func rows(data *quire.Buffer, tokens, heads int) quire.Tensor {
	return quire.Tensor{Data: data, DType: quire.Float32, Shape: []int64{int64(tokens), int64(heads), dim}}
}

// Calls visit(token, sequence, position) for all tokens of the step.
func eachToken(b *quire.Batch, visit func(i, s, p int)) {
	for s := 0; s < b.NumRows(); s++ {
		for i := b.Indptr[s]; i < b.Indptr[s+1]; i++ {
			visit(int(i), s, int(b.Pos[i]))
		}
	}
}
