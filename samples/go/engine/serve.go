package main

import (
	"errors"
	"fmt"

	"quire.example/quire/bindings/go/quire"
)

const (
	maxRunning, budget = 4, 48
	cooldownSteps      = 4
)

// live is one sample of one request, from admission to its last token. The engine keeps its symbols: a preempted one starts again from them.
type live struct {
	request                *request
	sample                 int
	id                     quire.SequenceID // 0 = no sequence yet
	symbols                []quire.Symbol
	hashes                 []uint64 // hashes[p + 1] = h(p)
	given, reserved        int      // symbols that the cache has; tokens reserved, those in flight included
	prefillEnd, end, epoch int      // symbols at admission; of the whole sequence; grows when rows in flight become void
	forks                  bool     // a second sample begins after the prompt
	out                    [3][][]float32
}

func (l *live) learn(symbol quire.Symbol) {
	l.symbols = append(l.symbols, symbol)
	l.hashes = append(l.hashes, next(l.hashes[len(l.hashes)-1], symbol))
}

type row struct {
	of                      *live
	epoch, position, tokens int
}

type step struct {
	step  quire.Step
	rows  []row
	batch *quire.Batch
}

type counts struct {
	steps, preemptions, forks, prompt, reused, computed, generated int
}

type server struct {
	cache                  *quire.Cache
	memory                 *quire.Memory
	stream                 *quire.Stream
	kernels                *kernels
	faulty                 bool // every tenant's prefixes look alike to the cache: the verification must notice
	ready                  []request
	waiting, running, done []*live
	cooldown               int
	counts                 counts
	entries                []quire.ReserveEntry
	asked                  []*live
	symbols                []quire.Symbol
	results                []quire.ReserveResult
}

func (s *server) identity(l *live) quire.Identity {
	if s.faulty {
		return quire.Identity{}
	}
	return quire.Identity{Salt: fmt.Sprint("tenant-", l.request.salt)}
}

func (s *server) refill() {
	for len(s.waiting) < maxRunning && len(s.ready) > 0 {
		r := &s.ready[0]
		s.ready = s.ready[1:]
		l := &live{request: r, end: len(r.prompt) + r.output, hashes: []uint64{mix(r.salt)}, forks: r.samples == 2}
		for layer := range l.out {
			l.out[layer] = make([][]float32, maxLen)
		}
		for _, symbol := range r.prompt {
			l.learn(symbol)
		}
		s.waiting = append(s.waiting, l)
	}
}

// ask adds an entry to the call that is being built; the symbols from `given` to `end` go with it.
func (s *server) ask(l *live, tokens, end int, flags uint32) {
	entry := quire.ReserveEntry{Sequence: l.id, SymbolsOffset: uint64(len(s.symbols)), NumTokens: uint32(tokens), Flags: flags}
	if end > l.given {
		entry.SymbolsPosition, entry.NumSymbols = uint64(l.given), uint32(end-l.given)
		s.symbols = append(s.symbols, l.symbols[l.given:end]...)
	}
	s.entries, s.asked = append(s.entries, entry), append(s.asked, l)
}

func lower(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func (s *server) plan() error {
	left := budget
	for _, l := range s.running {
		known := len(l.symbols)
		if left == 0 || (known <= l.reserved && l.reserved+1 >= l.end) { // its last result is in flight
			continue
		}
		tokens := 1 // its symbol comes with the commit of the step in flight
		if known > l.reserved {
			tokens = lower(known-l.reserved, left)
		}
		var flags uint32
		if l.reserved < l.prefillEnd && l.reserved+tokens >= l.prefillEnd {
			flags = quire.EntryPromptEnd
		}
		s.ask(l, tokens, lower(l.reserved+tokens, known), flags)
		left -= tokens
	}
	if s.cooldown > 0 {
		s.cooldown--
		if len(s.running) > 0 {
			return nil
		}
	}
	s.refill()
	for i, l := range s.waiting {
		if left == 0 || len(s.running)+i >= maxRunning {
			break
		}
		if l.id == 0 {
			var err error
			if l.id, err = s.cache.NewSequence(s.identity(l)); err != nil {
				return err
			}
		}
		found, err := s.cache.Probe(s.identity(l), l.symbols)
		if err != nil {
			return err
		}
		rest := len(l.symbols) - int(found.HitTokens)
		tokens, flags := lower(rest, left), uint32(quire.EntryMatch)
		if tokens == rest {
			flags |= quire.EntryPromptEnd
		}
		s.ask(l, tokens, len(l.symbols), flags)
		left -= tokens
	}
	return nil
}

// reserve builds one call and takes its answers: running requests first, oldest first, then those that wait.
func (s *server) reserve(to *step) error {
	to.step, to.rows = quire.Step{}, to.rows[:0]
	s.entries, s.asked, s.symbols = s.entries[:0], s.asked[:0], s.symbols[:0]
	if err := s.plan(); err != nil || len(s.entries) == 0 {
		return err
	}
	var err error
	s.results = append(s.results[:0], make([]quire.ReserveResult, len(s.entries))...)
	if to.step, err = s.cache.Reserve(s.entries, s.symbols, s.results); err != nil {
		return err
	}
	starved := false
	for i, r := range s.results {
		l := s.asked[i]
		isWaiting := len(s.waiting) > 0 && s.waiting[0] == l
		if errors.Is(r.Code, quire.ResourceExhausted) {
			starved = starved || !isWaiting
			if isWaiting {
				break // in order: whoever waits behind it waits as well
			}
			continue
		}
		if r.Code != quire.OK {
			return r.Code
		}
		if isWaiting {
			s.waiting, s.running = s.waiting[1:], append(s.running, l)
			l.prefillEnd = len(l.symbols)
			s.counts.prompt += len(l.symbols)
			s.counts.reused += int(r.HitTokens)
		}
		l.reserved = int(r.Position) + int(r.NumTokens)
		info, err := s.cache.Sequence(l.id)
		if err != nil {
			return err
		}
		l.given = int(info.Known)
		to.rows = append(to.rows, row{l, l.epoch, int(r.Position), int(r.NumTokens)})
	}
	if starved { // the youngest makes room; its blocks come free when the steps in flight are done
		s.cooldown = cooldownSteps
		if err = s.preempt(); err != nil {
			return err
		}
	}
	if to.step.ID == 0 {
		return nil
	}
	return to.batch.Fill(to.step)
}

func (s *server) preempt() error {
	l := s.running[len(s.running)-1]
	if err := s.cache.Preempt(l.id); err != nil {
		return err
	}
	s.running = s.running[:len(s.running)-1]
	s.waiting = append([]*live{l}, s.waiting...)
	l.epoch++
	l.given, l.reserved = 0, 0
	s.counts.preemptions++
	return nil
}

// launch runs a reserved step's kernels and keeps their results.
func (s *server) launch(st *step) error {
	if err := s.memory.PrepareStep(st.step, s.stream); err != nil {
		return err
	}
	hashes := make([]uint64, st.batch.NumTokens())
	for i, r := range st.rows {
		for t := 0; t < r.tokens && r.epoch == r.of.epoch; t++ {
			hashes[int(st.batch.Indptr[i])+t] = r.of.hashes[r.position+t+1]
		}
	}
	return s.kernels.run(st.batch, hashes, func(layer, width int, out []float32) {
		for i, r := range st.rows {
			for t := 0; t < r.tokens && r.epoch == r.of.epoch; t++ {
				at := (int(st.batch.Indptr[i]) + t) * width
				r.of.out[layer][r.position+t] = append([]float32(nil), out[at:at+width]...)
			}
		}
	})
}

// commit says what stands: those that computed the last known symbol sample the next one.
func (s *server) commit(st *step) error {
	outcomes, told := make([]quire.CommitEntry, len(st.rows)), []quire.Symbol{}
	for i, r := range st.rows {
		outcomes[i] = quire.CommitEntry{Sequence: r.of.id, SymbolsOffset: uint64(len(told)), NumAccepted: uint32(r.tokens)}
		if r.epoch != r.of.epoch {
			continue
		}
		s.counts.computed += r.tokens
		if r.position+r.tokens == len(r.of.symbols) {
			outcomes[i].SymbolsPosition, outcomes[i].NumSymbols = uint64(len(r.of.symbols)), 1
			r.of.learn(sampled(r.of.hashes[len(r.of.hashes)-1], r.of.sample))
			told = append(told, r.of.symbols[len(r.of.symbols)-1])
			r.of.given = len(r.of.symbols)
			s.counts.generated++
		}
	}
	if err := st.step.Commit(outcomes, told); err != nil {
		return err
	}
	s.counts.steps++
	st.step = quire.Step{}
	for i, r := range st.rows {
		if r.epoch != r.of.epoch || outcomes[i].NumSymbols == 0 {
			continue
		}
		if r.of.forks {
			if err := s.fork(r.of); err != nil {
				return err
			}
		}
		if len(r.of.symbols) >= r.of.end {
			if err := s.finish(r.of); err != nil {
				return err
			}
		}
	}
	return nil
}

// fork begins the second sample with the committed tokens of the first: the prompt.
func (s *server) fork(parent *live) error {
	child := &live{request: parent.request, sample: 1, end: parent.end}
	var err error
	if child.id, err = s.cache.Fork(parent.id); err != nil {
		return err
	}
	info, err := s.cache.Sequence(child.id)
	if err != nil {
		return err
	}
	n := int(info.Committed)
	if n != len(parent.request.prompt) {
		return fmt.Errorf("the child of a fork has %d tokens, the prompt %d", n, len(parent.request.prompt))
	}
	child.symbols = append(child.symbols, parent.symbols[:n]...)
	child.hashes = append(child.hashes, parent.hashes[:n+1]...)
	child.given, child.reserved, child.prefillEnd = n, n, n
	for layer := range child.out {
		child.out[layer] = make([][]float32, maxLen)
	}
	child.learn(sampled(child.hashes[n], child.sample))
	s.counts.generated++
	s.counts.forks++
	parent.forks = false
	s.running = append(s.running, child)
	return nil
}

func (s *server) finish(l *live) error {
	if err := s.cache.Finish(l.id); err != nil {
		return err
	}
	for i := range s.running {
		if s.running[i] == l {
			s.running = append(s.running[:i], s.running[i+1:]...)
			break
		}
	}
	l.epoch++
	s.done = append(s.done, l)
	return nil
}

// run serves everything: while a step runs the next one is reserved; then the first is committed.
func (s *server) run(steps [2]*step) error {
	now, after := steps[0], steps[1]
	if err := s.reserve(now); err != nil {
		return err
	}
	for idle := 0; len(s.running)+len(s.waiting)+len(s.ready) > 0 || now.step.ID != 0; now, after = after, now {
		if now.step.ID != 0 {
			if err := s.launch(now); err != nil {
				return err
			}
		}
		if err := s.reserve(after); err != nil {
			return err
		}
		if idle++; now.step.ID != 0 {
			idle = 0
			if err := s.commit(now); err != nil {
				return err
			}
		}
		if idle > 2*cooldownSteps {
			return errors.New("no request can go on")
		}
	}
	return nil
}
