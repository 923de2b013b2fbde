// Claims: a sequence that was saved goes on in another cache, also with other block sizes, byte for
// byte; errors, panics and ends of readers and writers reach the caller and leave the cache as it
// was; what is wrong is refused. Method: examples on the driver `cpu`; every number in the cache
// says of which token it is.
package quire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func (e *engine) session() SessionOptions {
	o := SessionOptions{Weights: "org/model@1"}
	o.Memories, o.Streams = e.shards()
	return o
}

const sessionTokens = 100

// An engine with a sequence of so many tokens, and the session of it.
func saved(t testing.TB, block uint32) (e *engine, id SequenceID, text []Symbol, session []byte) {
	e, text = newEngine(block), counting(300, sessionTokens+1)
	id = must(e.cache.NewSequence(Identity{Salt: "tenant"}))
	e.compute(t, id, text, sessionTokens)
	var to bytes.Buffer
	info := must(e.cache.SaveSession(id, e.session(), text[:sessionTokens], &to))
	if info.NumTokens != sessionTokens || info.Bytes != uint64(to.Len()) || info.NumRecords == 0 {
		t.Errorf("%+v, %d bytes", info, to.Len())
	}
	e.expect(t, id, text)
	return e, id, text, to.Bytes()
}

func TestASessionGoesOnUnderAnotherPlan(t *testing.T) {
	for _, blocks := range [][2]uint32{{16, 16}, {16, 32}, {32, 16}} {
		writer, _, text, session := saved(t, blocks[0])
		writer.close()
		e := newEngine(blocks[1])
		from, symbols := bytes.NewReader(append(session, "more"...)), make([]Symbol, 256)
		id := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
		info := must(e.cache.RestoreSession(id, e.session(), from, symbols))
		if info.NumTokens != sessionTokens || info.Committed != sessionTokens ||
			info.HitTokens != 0 || info.NumDamaged != 0 ||
			info.Bytes != uint64(len(session)) || from.Len() != len("more") {
			t.Errorf("%v: %+v, %d bytes are left", blocks, info, from.Len())
		}
		if fmt.Sprint(symbols[:sessionTokens]) != fmt.Sprint(text[:sessionTokens]) {
			t.Error(symbols)
		}
		more := append(text, counting(9, 20)...)
		e.expect(t, id, more)
		e.compute(t, id, more, len(more)-1)
		e.expect(t, id, more)
		// By single bytes, beside it: what is here is not read again.
		other := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
		info = must(e.cache.RestoreSession(other, e.session(),
			iotest.OneByteReader(bytes.NewReader(session)), symbols))
		if info.Committed != sessionTokens || info.HitTokens == 0 {
			t.Errorf("%v: %+v", blocks, info)
		}
		e.expect(t, other, more)
		e.close()
	}
}

// Takes so many bytes, then does what it was told.
type limited struct {
	left int
	then func(p []byte) (int, error)
}

func (w *limited) move(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return w.then(p)
	}
	return len(p), nil
}

func (w *limited) Write(p []byte) (int, error) { return w.move(p) }

// The cache has no hold and no load, and saves as before.
func (e *engine) unharmed(t *testing.T, id SequenceID, text []Symbol, session []byte) {
	t.Helper()
	var again bytes.Buffer
	_, err := e.cache.SaveSession(id, e.session(), text[:sessionTokens], &again)
	if err != nil || again.Len() != len(session) {
		t.Error(err, again.Len())
	}
	if stats := must(e.cache.Stats()); stats.Holds != 0 || stats.Loads != 0 ||
		e.cache.Verify() != nil {
		t.Errorf("%+v", stats)
	}
}

func TestAWriterThatFailsEndsTheSave(t *testing.T) {
	e, id, text, session := saved(t, 16)
	defer e.close()
	full := errors.New("the disk is full")
	for _, left := range []int{0, 100, len(session) - 1} {
		for name, test := range map[string]struct {
			then func(p []byte) (int, error)
			want error
		}{
			"fails":    {func([]byte) (int, error) { return 0, fmt.Errorf("no: %w", full) }, full},
			"of quire": {func([]byte) (int, error) { return 0, Unavailable }, Unavailable},
			"short":    {func(p []byte) (int, error) { return len(p) - 1, nil }, io.ErrShortWrite},
			"too much": {func(p []byte) (int, error) { return len(p) + 1, nil }, io.ErrShortWrite},
		} {
			info, err := e.cache.SaveSession(id, e.session(), text, &limited{left, test.then})
			if !errors.Is(err, test.want) || info.NumTokens != 0 {
				t.Errorf("%s behind %d bytes: %v", name, left, err)
			}
		}
	}
	e.unharmed(t, id, text, session)
}

// What f panics with; nothing where it returns.
func panicOf(f func()) (with any) {
	defer func() { with = recover() }()
	f()
	return nil
}

func TestPanicsAndEndsOfWritersAndReadersReachTheCaller(t *testing.T) {
	e, id, text, session := saved(t, 16)
	defer e.close()
	symbols := make([]Symbol, 256)
	save := func(left int, then func()) func() {
		return func() {
			w := &limited{left, func([]byte) (int, error) { then(); return 0, nil }}
			_, err := e.cache.SaveSession(id, e.session(), text, w)
			t.Error("returned", err)
		}
	}
	restore := func(left int, then func()) func() {
		return func() {
			to := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
			defer func() {
				if info := must(e.cache.Sequence(to)); info.Committed != 0 || info.Reserved != 0 {
					t.Errorf("%+v", info)
				}
			}()
			end := readers(func(p []byte) (int, error) { then(); return 0, nil })
			_, err := e.cache.RestoreSession(to, e.session(),
				io.MultiReader(bytes.NewReader(session[:left]), end), symbols)
			t.Error("returned", err)
		}
	}
	for _, left := range []int{0, 100, len(session) - 1} {
		for _, call := range []func(int, func()) func(){save, restore} {
			with := panicOf(call(left, func() { panic("a device that panics") }))
			if with != "a device that panics" {
				t.Errorf("behind %d bytes: %v", left, with)
			}
			done := make(chan bool)
			go func() {
				defer close(done)
				call(left, runtime.Goexit)()
			}()
			<-done
		}
	}
	var none *bytes.Buffer
	with := panicOf(func() { _, _ = e.cache.SaveSession(id, e.session(), text, none) })
	if with == nil {
		t.Error("a writer without memory took bytes")
	}
	e.unharmed(t, id, text, session)
}

type readers func(p []byte) (int, error)

func (r readers) Read(p []byte) (int, error) { return r(p) }

func TestAReaderThatEndsOrFailsEndsTheRestore(t *testing.T) {
	e, _, _, session := saved(t, 16)
	defer e.close()
	id, symbols := must(e.cache.NewSequence(Identity{Salt: "tenant"})), make([]Symbol, 256)
	away := errors.New("the peer is away")
	lefts, at := []int{1, 64, 200, len(session) / 2, len(session) - 1}, 0
	whole := bytes.NewReader(session)
	must(e.cache.RestoreSession(id, e.session(), readers(func(p []byte) (int, error) {
		lefts = append(lefts, at) // where quire begins to read, 0 too
		n, err := whole.Read(p)
		at += n
		return n, err
	}), symbols))
	if err := e.cache.Preempt(id); err != nil || len(lefts) < 9 {
		t.Fatal(err, lefts)
	}
	for _, left := range lefts {
		want := io.ErrUnexpectedEOF
		if left == 0 {
			want = io.EOF
		}
		ends := bytes.NewReader(session[:left])
		if _, err := e.cache.RestoreSession(id, e.session(), ends, symbols); err != want {
			t.Errorf("%d bytes: %v", left, err)
		}
		fails := io.MultiReader(bytes.NewReader(session[:left]), iotest.ErrReader(away))
		_, err := e.cache.RestoreSession(id, e.session(), fails, symbols)
		if !errors.Is(err, away) {
			t.Errorf("%d bytes: %v", left, err)
		}
		if info := must(e.cache.Sequence(id)); info.Committed != 0 || info.Reserved != 0 {
			t.Fatalf("%d bytes: %+v", left, info)
		}
	}
	info := must(e.cache.RestoreSession(id, e.session(), bytes.NewReader(session), symbols))
	if info.Committed != sessionTokens {
		t.Errorf("%+v", info)
	}
}

func TestSessionsThatDoNotFitAreRefused(t *testing.T) {
	e, id, text, session := saved(t, 16)
	defer e.close()
	other := newEngine(16)
	closed := other.cache.Share()
	closed.Close()
	symbols := make([]Symbol, 256)
	empty := must(e.cache.NewSequence(Identity{Salt: "tenant"}))
	guest := must(e.cache.NewSequence(Identity{}))
	restore := func(id SequenceID, o SessionOptions, from []byte, symbols []Symbol) error {
		_, err := e.cache.RestoreSession(id, o, bytes.NewReader(from), symbols)
		return err
	}
	with := func(change func(o *SessionOptions)) SessionOptions {
		o := e.session()
		change(&o)
		return o
	}
	plain, foreign := e.session(), other.session()
	unnamed := with(func(o *SessionOptions) { o.Weights = "" })
	renamed := with(func(o *SessionOptions) { o.Weights = "org/model@2" })
	bare := with(func(o *SessionOptions) { o.Memories = nil })
	damaged := append([]byte(nil), session...)
	damaged[20] ^= 1
	for name, test := range map[string]struct {
		code Code
		err  error
		text string
	}{
		"save: weights": {InvalidArgument, saveOf(e.cache, id, unnamed, text), "weights"},
		"save: shards":  {InvalidArgument, saveOf(e.cache, id, bare, text), "shards"},
		"save: memory":  {InvalidArgument, saveOf(e.cache, id, foreign, text), "config"},
		"save: symbols": {InvalidArgument, saveOf(e.cache, id, plain, text[:50]), "symbols"},
		"save: stale":   {NotFound, saveOf(e.cache, 12345, plain, text), ""},
		"save: nil":     {InvalidArgument, saveOf(nil, id, plain, text), "cache"},
		"save: zero":    {InvalidArgument, saveOf(new(Cache), id, plain, text), "cache"},
		"save: closed":  {InvalidArgument, saveOf(closed, id, plain, text), "closed"},
		"weights":       {InvalidArgument, restore(empty, unnamed, session, symbols), "weights"},
		"renamed":       {FailedPrecondition, restore(empty, renamed, session, symbols), "model@"},
		"shards":        {InvalidArgument, restore(empty, bare, session, symbols), "shards"},
		"capacity":      {OutOfRange, restore(empty, plain, session, symbols[:99]), "99"},
		"not empty":     {FailedPrecondition, restore(id, plain, session, symbols), "tokens"},
		"nothing":       {DataLoss, restore(empty, plain, make([]byte, 4096), symbols), "session"},
		"damaged":       {DataLoss, restore(empty, plain, damaged, symbols), ""},
		"tenant":        {FailedPrecondition, restore(guest, plain, session, symbols), "identity"},
	} {
		if !errors.Is(test.err, test.code) || !strings.Contains(test.err.Error(), test.text) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
	if _, err := e.cache.SaveSession(id, e.session(), text, nil); !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	_, err := e.cache.RestoreSession(empty, e.session(), nil, symbols)
	if !errors.Is(err, InvalidArgument) {
		t.Error(err)
	}
	// One bit of a record: what can be resumed without it is restored.
	damaged[20] ^= 1
	damaged[len(damaged)-1] ^= 1
	to := must(other.cache.NewSequence(Identity{Salt: "tenant"}))
	info := must(other.cache.RestoreSession(to, foreign, bytes.NewReader(damaged), symbols))
	if info.NumDamaged != 1 || info.Committed != 96 || info.NumTokens != sessionTokens {
		t.Errorf("%+v", info)
	}
	other.expect(t, to, text)
	e.unharmed(t, id, text, session)
}

func saveOf(cache *Cache, id SequenceID, o SessionOptions, text []Symbol) error {
	_, err := cache.SaveSession(id, o, text, io.Discard)
	return err
}
