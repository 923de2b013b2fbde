package quire

/*
#include <quire/quire.h>
#include <stdlib.h>

enum { GO_SYNCHRONIZE, GO_APPEND, GO_ATTEND, GO_GATED_DELTA, GO_CONV1D, GO_SELECTIVE_SCAN, GO_PREPARE };

// What the calls of one stream read and write: in C, so that a step allocates nothing in Go.
typedef struct go_calls {
  quire_error err;
  quire_kv_append append;
  quire_attention attend;
  quire_gated_delta gated_delta;
  quire_conv1d conv1d;
  quire_selective_scan scan;
  int64_t timeout;
  void *memory;
  quire_step step;
} go_calls;

// Handles come as void *: Go would box pointers to incomplete structs for its checks, one allocation a call.
static inline quire_code go_call(int what, void *handle, go_calls *c) {
  quire_stream *stream = (quire_stream *)handle;
  switch (what) {
    case GO_APPEND: return quire_op_kv_append(stream, &c->append, &c->err);
    case GO_ATTEND: return quire_op_attention(stream, &c->attend, &c->err);
    case GO_GATED_DELTA: return quire_op_gated_delta(stream, &c->gated_delta, &c->err);
    case GO_CONV1D: return quire_op_conv1d(stream, &c->conv1d, &c->err);
    case GO_SELECTIVE_SCAN: return quire_op_selective_scan(stream, &c->scan, &c->err);
    case GO_PREPARE: return quire_memory_prepare_step((quire_memory *)c->memory, c->step, stream, &c->err);
    default: return quire_stream_synchronize(stream, c->timeout, &c->err);
  }
}
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// What work that is queued on a stream reads and writes: its finalizers must not run before the work is done. All Go references to one
// stream have the same one; the last of them to go waits for the work.
type holding struct {
	mutex sync.Mutex
	set   map[unsafe.Pointer]struct{} // objects of Go
}

// Stream is an in-order queue. Its calls are serialized by the caller.
type Stream struct {
	handle
	calls *C.go_calls
	at    place
	held  *holding
}

const (
	goSynchronize   = C.GO_SYNCHRONIZE
	goAppend        = C.GO_APPEND
	goAttend        = C.GO_ATTEND
	goGatedDelta    = C.GO_GATED_DELTA
	goConv1D        = C.GO_CONV1D
	goSelectiveScan = C.GO_SELECTIVE_SCAN
	goPrepare       = C.GO_PREPARE
)

var errNoStream = refuse(InvalidArgument, "stream is nil")

func newStream(p *C.quire_stream, at place, held *holding) *Stream {
	s := &Stream{handle{unsafe.Pointer(p)}, (*C.go_calls)(allocate(int(unsafe.Sizeof(C.go_calls{})))), at, held}
	if s.calls == nil { // refused by every call, as one that nobody made
		s.Close()
		return s
	}
	s.calls.err.struct_size = C.uint32_t(unsafe.Sizeof(s.calls.err))
	runtime.SetFinalizer(s, (*Stream).end)
	return s
}

func (s *Stream) end() { // nobody has the object any more
	s.Close()
	C.free(unsafe.Pointer(s.calls))
}

// Whether calls may be prepared in it.
func (s *Stream) check() error {
	if s == nil || s.calls == nil {
		return errNoStream
	}
	if s.closed() {
		return refuse(InvalidArgument, "stream was closed")
	}
	return nil
}

// Whether zeroes, copies and fills of this memory may be queued.
func (s *Stream) prepares(m *Memory) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	return s.at.same(m.at)
}

// Keeps objects reachable while the stream is, until it was synchronized.
func (s *Stream) hold(objects ...unsafe.Pointer) {
	if s == nil || s.held == nil {
		return
	}
	s.held.mutex.Lock()
	for _, p := range objects {
		if p != nil {
			s.held.set[p] = struct{}{}
		}
	}
	s.held.mutex.Unlock()
}

func (s *Stream) holdTensor(t *Tensor) { s.hold(unsafe.Pointer(t.Data), unsafe.Pointer(t.In)) }

// The queue is empty.
func (s *Stream) letGo() {
	if s == nil || s.held == nil {
		return
	}
	s.held.mutex.Lock()
	for p := range s.held.set {
		delete(s.held.set, p)
	}
	s.held.mutex.Unlock()
}

// One call whose arguments lie in s.calls.
func (s *Stream) do(what C.int) error {
	p, calls := s.p, s.calls
	err := failure(C.go_call(what, p, calls), &calls.err)
	runtime.KeepAlive(s)
	return err
}

// Any other call.
func (s *Stream) queue(body func(s *C.quire_stream, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(s.c(), err) })
	runtime.KeepAlive(s)
	return err
}

// A call that waits until everything queued is done.
func (s *Stream) wait(body func(s *C.quire_stream, err *C.quire_error) C.quire_code) error {
	err := s.queue(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		code := body(s, err)
		if code == C.QUIRE_OK {
			code = C.quire_stream_synchronize(s, -1, err)
		}
		return code
	})
	if err == nil {
		s.letGo()
	}
	return err
}

// Synchronize waits until everything queued is done; -1 = for ever, 0 = not at all. Buffers, tensors, batches and memory that queued ops
// use stay reachable until it answered nil, or the stream was closed.
func (s *Stream) Synchronize(timeoutNs int64) error {
	if err := s.check(); err != nil {
		return err
	}
	s.calls.timeout = C.int64_t(timeoutNs)
	err := s.do(goSynchronize)
	if err == nil {
		s.letGo()
	}
	return err
}

// PrepareStep queues the zeroes and copies of a step or load: after reserve, before its kernels.
func (m *Memory) PrepareStep(step Step, stream *Stream) error {
	if err := stream.prepares(m); err != nil {
		return err
	}
	if err := step.check(); err != nil {
		return err
	}
	stream.hold(unsafe.Pointer(m)) // the cache is read during the call only
	c := stream.calls
	c.memory, c.step.owner, c.step.id = unsafe.Pointer(m.c()), step.of.p, C.uint64_t(step.ID)
	err := stream.do(goPrepare)
	runtime.KeepAlive(m)
	runtime.KeepAlive(step.of)
	return err
}
