package main

import "math"

// The results of one sequence, recomputed from its hashes alone, in double precision and without quire.

// attended is one row of attention at a position.
func attended(hashes []uint64, layer uint64, position, window int) []float64 {
	out := make([]float64, heads*dim)
	from := 0
	if window != 0 && position >= window {
		from = position + 1 - window
	}
	for head := 0; head < heads; head++ {
		kv := head / (heads / kvHeads)
		sum := 0.0
		for p := from; p <= position; p++ { // logits are small: no maximum is needed
			logit := 0.0
			for d := 0; d < dim; d++ {
				logit += float64(number(hashes[position+1], layer, query, head*dim+d)) * float64(number(hashes[p+1], layer, key, kv*dim+d))
			}
			weight := math.Exp(logit / math.Sqrt(dim))
			sum += weight
			for d := 0; d < dim; d++ {
				out[head*dim+d] += weight * float64(number(hashes[p+1], layer, value, kv*dim+d))
			}
		}
		for d := 0; d < dim; d++ {
			out[head*dim+d] /= sum
		}
	}
	return out
}

func unit(h, layer, what uint64, head int) (v [dim]float64) {
	sum := 1e-6
	for d := range v {
		v[d] = float64(number(h, layer, what, head*dim+d))
		sum += v[d] * v[d]
	}
	for d := range v {
		v[d] /= math.Sqrt(sum)
	}
	return v
}

// updated are all rows of the gated delta rule, from the first position on.
func updated(hashes []uint64, layer uint64, n int) [][]float64 {
	rows := make([][]float64, n)
	for p := range rows {
		rows[p] = make([]float64, stateHeads*dim)
	}
	for head := 0; head < stateHeads; head++ {
		var state [dim][dim]float64 // [k][v]
		for p := range rows {
			h := hashes[p+1]
			q, k, decay := unit(h, layer, query, head), unit(h, layer, key, head), math.Exp(float64(gateOf(h, layer, head)))
			for v := 0; v < dim; v++ {
				seen := 0.0
				for i := range state {
					state[i][v] *= decay
					seen += state[i][v] * k[i]
				}
				learnt := float64(betaOf(h, layer, head)) * (float64(number(h, layer, value, head*dim+v)) - seen)
				for i := range state {
					state[i][v] += learnt * k[i]
					rows[p][head*dim+v] += state[i][v] * q[i] / math.Sqrt(dim)
				}
			}
		}
	}
	return rows
}

// verify compares what the kernels gave for a sample, row by row (relative L2 at most 1e-4): rows compared, and rows that differ.
func verify(l *live) (rows, mismatches int) {
	recurrent := updated(l.hashes, 1, len(l.symbols))
	for layer := range layers {
		for p, row := range l.out[layer] {
			if row == nil {
				continue
			}
			wanted := recurrent[p]
			if layer != 1 {
				wanted = attended(l.hashes, uint64(layer), p, int(layers[layer].Window))
			}
			apart, size := 0.0, 0.0
			for i := range wanted {
				apart += (float64(row[i]) - wanted[i]) * (float64(row[i]) - wanted[i])
				size += wanted[i] * wanted[i]
			}
			rows++
			if !(math.Sqrt(apart) <= 1e-4*math.Sqrt(size)) {
				mismatches++
			}
		}
	}
	return rows, mismatches
}
