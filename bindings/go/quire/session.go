package quire

/*
#include <quire/session.h>

extern int32_t quireGoMove(uintptr_t number, void *bytes, uint64_t n, quire_error *err);

static quire_code go_write(void *user, const void *bytes, uint64_t n, quire_error *err) {
  return quireGoMove((uintptr_t)user, (void *)bytes, n, err);
}
static quire_code go_read(void *user, void *bytes, uint64_t n, quire_error *err) {
  return quireGoMove((uintptr_t)user, bytes, n, err);
}
static quire_code go_save(quire_cache *cache, quire_sequence_id sequence,
                          const quire_session_options *options, const quire_symbol *symbols,
                          uint64_t num_symbols, uintptr_t number, quire_session_info *info,
                          quire_error *err) {
  return quire_session_save(cache, sequence, options, symbols, num_symbols, go_write,
                            (void *)number, info, err);
}
static quire_code go_restore(quire_cache *cache, quire_sequence_id sequence,
                             const quire_session_options *options, uintptr_t number,
                             quire_symbol *symbols, uint64_t capacity, quire_session_info *info,
                             quire_error *err) {
  return quire_session_restore(cache, sequence, options, go_read, (void *)number, symbols,
                               capacity, info, err);
}
*/
import "C"

import (
	"errors"
	"io"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// SessionOptions are what SaveSession and RestoreSession need.
type SessionOptions struct {
	Weights  string    // name of the weights, 1 to 4096 bytes; see TiersOptions
	Memories []*Memory // of all shards, in their order, all in this process
	Streams  []*Stream // by shard: on which the engine prepares and runs steps
}

func (o *SessionOptions) c(a *arena, cache *Cache) (to C.quire_session_options, err error) {
	memories, streams, err := cache.shards(a, o.Memories, o.Streams)
	if err != nil {
		return to, err
	}
	to.struct_size = C.uint32_t(unsafe.Sizeof(to))
	to.weights, to.memories, to.streams = a.text(o.Weights), memories, streams
	return to, a.missing()
}

// The bytes of a session between C, which runs on a goroutine of its own, and the caller's, where
// the reader or writer runs: what it panics with, or ends the goroutine with, never meets C.
type exchange struct {
	bytes chan []byte // memory of C, until the answer
	moved chan error
}

var errMoveEnded = errors.New("the reader or writer did not return")

//export quireGoMove
func quireGoMove(number C.uintptr_t, bytes unsafe.Pointer, n C.uint64_t,
	err *C.quire_error) C.int32_t {
	x := cgo.Handle(number).Value().(*exchange)
	if n == 0 {
		return C.QUIRE_OK
	}
	x.bytes <- unsafe.Slice((*byte)(bytes), int(n))
	failed := <-x.moved
	if failed == nil {
		return C.QUIRE_OK
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&err.message[0])), len(err.message)-1)
	copy(text, "the reader or writer failed") // the caller gets the error itself
	return C.QUIRE_UNKNOWN
}

// Calls C, and moves what it asks to move; the first error of move is the answer. Returns, panics
// and ends the goroutine only when C has returned.
func exchanging(body func(number C.uintptr_t, err *C.quire_error) C.quire_code,
	move func(bytes []byte) error) error {
	x := &exchange{make(chan []byte), make(chan error)}
	number := cgo.NewHandle(x)
	var refused, failed error
	go func() {
		defer close(x.bytes)
		refused = call(func(err *C.quire_error) C.quire_code {
			return body(C.uintptr_t(number), err)
		})
	}()
	waits := false // C, for an answer
	defer func() {
		if waits {
			x.moved <- errMoveEnded
		}
		for range x.bytes {
			x.moved <- errMoveEnded
		}
		number.Delete()
	}()
	for bytes := range x.bytes {
		waits = true
		failed = move(bytes)
		x.moved <- failed
		waits = false
	}
	if failed != nil {
		return failed
	}
	return refused
}

// SaveSession writes a session to w: one sequence as one stream of bytes, from which another
// process can go on, even under another plan. The sequence must have no step in flight, and can go
// on afterwards. symbols: at least those of its committed tokens; they are not compared with the
// sequence's. w gets at most 4 MiB at once and must not use the cache.
// Serialized on cache, memories and streams. It returns when the kernels that are queued on the
// streams are done and all is written.
// Errors: the error of w itself, also io.ErrShortWrite; InvalidArgument (an option; symbols),
// NotFound (stale id), FailedPrecondition (steps in flight, or a load in progress),
// NotRepresentable (blocks that cannot be packed without holes), Unimplemented (device memory;
// cross attention; built without SHA-256), ResourceExhausted (host memory, holds), and the
// driver's. A panic in w propagates to the caller.
func (c *Cache) SaveSession(id SequenceID, options SessionOptions, symbols []Symbol,
	w io.Writer) (info SessionInfo, err error) {
	if w == nil {
		return info, refuse(InvalidArgument, "w is nil")
	}
	var a arena
	defer a.free()
	o, err := options.c(&a, c)
	if err != nil {
		return info, err
	}
	text, count := symbolsOf(symbols)
	info.structSize = uint32(unsafe.Sizeof(info))
	err = exchanging(func(number C.uintptr_t, err *C.quire_error) C.quire_code {
		code := C.go_save(c.c(), C.quire_sequence_id(id), &o, text, count, number,
			(*C.quire_session_info)(unsafe.Pointer(&info)), err)
		runtime.KeepAlive(c)
		runtime.KeepAlive(options)
		return code
	}, func(bytes []byte) error {
		n, err := w.Write(bytes)
		if err == nil && n != len(bytes) {
			err = io.ErrShortWrite
		}
		return err
	})
	return info, err
}

// RestoreSession reads a session from r into a sequence, which then has info.Committed tokens. If
// there are any, reserve the rest, with symbols from Known of its SequenceInfo on. The sequence is
// empty, opened under the identity (salt, adapter,
// epoch) that the saved one had. symbols receives those of the session, info.NumTokens;
// MaxModelLen of the config is always enough. r is read to the end of the session, not further, and
// must not use the cache. After an error an empty sequence is still empty.
// Serialized on cache, memories and streams. It returns when all is read and in place.
// Errors: the error of r itself: io.EOF if it has nothing, io.ErrUnexpectedEOF if it ends within
// the session; those of SaveSession; FailedPrecondition (the sequence is not empty; another model,
// other weights or another identity: the message names the first field that differs), OutOfRange
// (symbols; more tokens than MaxLoadTokens of the cache), DataLoss (no session; its manifest or a
// record's header is damaged; a record that does not belong to the stream or stands in it twice),
// Unimplemented (a session of another version), ResourceExhausted (no room in the pool; MaxLoads or
// MaxMedia). A panic in r propagates to the caller.
func (c *Cache) RestoreSession(id SequenceID, options SessionOptions, r io.Reader,
	symbols []Symbol) (info SessionInfo, err error) {
	if r == nil {
		return info, refuse(InvalidArgument, "r is nil")
	}
	var a arena
	defer a.free()
	o, err := options.c(&a, c)
	if err != nil {
		return info, err
	}
	into, count := symbolsOf(symbols)
	info.structSize = uint32(unsafe.Sizeof(info))
	begun := false
	err = exchanging(func(number C.uintptr_t, err *C.quire_error) C.quire_code {
		code := C.go_restore(c.c(), C.quire_sequence_id(id), &o, number, into, count,
			(*C.quire_session_info)(unsafe.Pointer(&info)), err)
		runtime.KeepAlive(c)
		runtime.KeepAlive(options)
		return code
	}, func(bytes []byte) error {
		_, err := io.ReadFull(r, bytes)
		if err == io.EOF && begun {
			err = io.ErrUnexpectedEOF
		}
		begun = true
		return err
	})
	return info, err
}
