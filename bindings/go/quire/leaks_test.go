// Claim: nothing is left behind. Method: rounds of everything, closed in every order and from other goroutines, too, and the bytes that malloc has given out, those of the library's C++ as well.
package quire

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"quire.example/quire/bindings/go/quire/internal/inuse"
)

// Finalizers give back what was forgotten.
func settle() {
	for calm := 0; calm < 4; calm++ {
		before := inuse.Bytes()
		runtime.GC()
		time.Sleep(2 * time.Millisecond)
		if inuse.Bytes() < before {
			calm = 0
		}
	}
}

// Bytes more after 100 rounds than before, the least of up to 20 times: a leak grows every time, caches fill up once.
func growth(round func()) int64 {
	least := int64(math.MaxInt64)
	settle()
	for i := 0; i < 20 && least >= 1600; i++ { // one allocation that every round forgets is at least 3200 bytes
		before := inuse.Bytes()
		for j := 0; j < 100; j++ {
			round()
		}
		settle()
		if after := inuse.Bytes() - before; after < least && after > -1600 { // less: garbage of tests before went meanwhile
			least = after
		}
	}
	return least
}

// Pieces that a thread's own cache keeps count as given out, and Go moves goroutines between threads: so malloc works without these
// caches, in one arena. glibc reads this once, when a process starts.
const exact = "GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1"

func TestRoundsOfEverythingLeaveNothing(t *testing.T) {
	if os.Getenv("QUIRE_TEST_EXACT") == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestRoundsOfEverythingLeaveNothing$", "-test.v")
		again.Env = append(os.Environ(), exact, "QUIRE_TEST_EXACT=1")
		if printed, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		return
	}
	if left := growth(func() { newBytes(100) }); left < 10000 {
		t.Fatalf("%d bytes: this measure sees no leaks", left)
	}
	served := growth(func() {
		rt, device, stream := onCPU()
		config := planOf(33, fullLayer(0), stateLayer(1))
		cache, memory := must(NewCache(rt, config, CacheOptions{})), must(NewMemory(device, config, 0))
		batch := must(NewBatch(config, 0))
		serve(t, cache, must(cache.NewSequence(Identity{Salt: "a"})), counting(0, 40))
		exported := must(memory.Export(ExportOptions{}))
		rt.Close()
		memory.Close()
		imported := must(ImportTensor(device, exported, 0))
		for _, end := range []func(){device.Close, cache.Close, config.Close, imported.Close, stream.Close, batch.Close, exported.Close} {
			end()
		}
	})
	if served >= 1600 {
		t.Errorf("%d bytes after 100 rounds of serving", served)
	}
	turn := 0
	shuffled := growth(func() { // in every order, half of it on another goroutine
		rt, device, stream := onCPU()
		config := planOf(33, fullLayer(0))
		cache, memory := must(NewCache(rt, config, CacheOptions{})), must(NewMemory(device, config, 0))
		batch, connector := must(NewBatch(config, 0)), must(OpenConnector(rt, "null", ""))
		serve(t, cache, must(cache.NewSequence(Identity{})), counting(0, 40))
		exported, old := must(memory.Export(ExportOptions{})), must(memory.Export(ExportOptions{Item: 1, Flags: ExportLegacy}))
		imported := must(ImportTensor(device, must(memory.Export(ExportOptions{Item: 1})), 0))
		ends := []func(){rt.Close, device.Close, stream.Close, config.Close, cache.Close, memory.Close, batch.Close, connector.Close,
			exported.Close, old.Close, imported.Close}
		turn++
		done := make(chan bool)
		for i := range ends {
			end := ends[(i+turn)%len(ends)]
			if turn/len(ends)%2 == 1 {
				end = ends[(len(ends)-i+turn)%len(ends)]
			}
			if i%2 == 0 {
				end()
				continue
			}
			go func() { end(); done <- true }()
			<-done
		}
	})
	if shuffled >= 1600 {
		t.Errorf("%d bytes after 100 rounds of closing in every order on two goroutines", shuffled)
	}
	e := newEngine(16)
	offloaded := growth(func() { // half of it is forgotten
		e := newEngine(16)
		host, text := e.host(), counting(turn, 80)
		tiers := must(NewTiers(e.cache, e.options(host)))
		id := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
		e.compute(t, id, text, 79)
		settled(t, tiers, 2)
		other, session := must(e.cache.NewSequence(Identity{Salt: "tenant"})), new(bytes.Buffer)
		must(tiers.BeginFetch(other, text, 0))
		must(e.cache.SaveSession(id, e.session(), text, session))
		if turn++; turn%2 == 0 {
			tiers.Close()
			host.Close()
		}
		e.close()
	})
	if offloaded >= 1600 {
		t.Errorf("%d bytes after 100 rounds of tiers", offloaded)
	}
	moved := growth(func() {
		id, text := must(e.cache.NewSequence(Identity{})), counting(1, 50)
		e.compute(t, id, text, 49)
		session := new(bytes.Buffer)
		must(e.cache.SaveSession(id, e.session(), text, session))
		full := &limited{100, func([]byte) (int, error) { panic("full") }}
		if panicOf(func() { _, _ = e.cache.SaveSession(id, e.session(), text, full) }) == nil {
			t.Error("no panic")
		}
		from, symbols := session.Bytes(), make([]Symbol, 256)
		for _, n := range []int{len(from) / 2, len(from)} {
			to := must(e.cache.NewSequence(Identity{}))
			if _, err := e.cache.RestoreSession(to, e.session(), bytes.NewReader(from[:n]), symbols); (err == nil) != (n == len(from)) {
				t.Error(err)
			}
			if err := e.cache.Finish(to); err != nil {
				t.Error(err)
			}
		}
		if err := e.cache.Finish(id); err != nil || e.cache.Reset() != nil {
			t.Error(err)
		}
	})
	if moved >= 1600 {
		t.Errorf("%d bytes after 100 rounds of sessions", moved)
	}
	refused := growth(func() {
		if _, err := ModelFromJSON(`{"architectures": ["Nobody"]}`); err == nil {
			t.Error("taken")
		}
		config := planOf(33, fullLayer(0))
		cache := must(NewCache(nil, config, CacheOptions{}))
		if _, err := cache.Reserve([]ReserveEntry{{Sequence: 1, NumSymbols: 9}}, nil, make([]ReserveResult, 1)); err == nil {
			t.Error("taken")
		}
		cache.Close()
		config.Close()
	})
	if refused >= 1600 {
		t.Errorf("%d bytes after 100 rounds of refusals", refused)
	}
}

func newBytes(n int) unsafe.Pointer { return must(NewBuffer(n)).p } // forgotten on purpose
