package main

import "quire.example/quire/bindings/go/quire"

// Every number that weights would have given is a function of h(p), a hash of the salt and of all symbols up to position p: a wrong block, order
// or salt gives other numbers.

const (
	heads, kvHeads, stateHeads, dim = 4, 2, 2, 16
	window                          = 32
	maxLen                          = 256
)

// What a number is for.
const (
	query uint64 = iota
	key
	value
	gate
	beta
)

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func next(h uint64, symbol quire.Symbol) uint64 { return mix(h ^ uint64(symbol)*0x9e3779b97f4a7c15) }

func sampled(h uint64, sample int) quire.Symbol { return quire.Symbol(mix(h^uint64(sample+1)) % 1000) }

// A number in [-1, 1), exact in 24 bits.
func number(h, layer, what uint64, index int) float32 {
	return float32(int64(mix(h^layer<<40^what<<32^uint64(index))>>40)-1<<23) / (1 << 23)
}

// The decay's logarithm in (-0.5, 0], and beta in [0, 1).
func gateOf(h, layer uint64, head int) float32 { return (number(h, layer, gate, head) - 1) / 4 }
func betaOf(h, layer uint64, head int) float32 { return (number(h, layer, beta, head) + 1) / 2 }

// One request: prompts of a pair are equal but for their tail, and every third request has a second sample.
type request struct {
	salt    uint64
	prompt  []quire.Symbol
	output  int
	samples int
}

func workload() []request {
	var all []request
	for i := 0; i < 10; i++ {
		r := request{salt: uint64(i % 2), output: 12 + i%7, samples: 1}
		if i%3 == 0 {
			r.samples = 2
		}
		for p := 0; p < 48; p++ { // what all have in common
			r.prompt = append(r.prompt, quire.Symbol(1+p))
		}
		for p := 0; p < 24+8*(i%5); p++ {
			r.prompt = append(r.prompt, quire.Symbol(2000+100*(i/4)+p))
		}
		all = append(all, r)
	}
	return all
}
