// Package quire is the C ABI of quire for Go: models, plans, bookkeeping, steps, loads, events, devices, bytes, kernels, ops of modules,
// connectors, tiers and sessions.
//
// Errors are *Error with code and message; errors.Is(err, quire.NotFound) asks for a code. Objects have Close, which may be called twice, in
// any order and from any goroutine (quire keeps parents alive), but not while a call on the object runs; a finalizer closes what was
// forgotten, except a Buffer or Batch, whose slices may still be in use. Calls of one Cache and of one Stream are serialized by the caller,
// and one goroutine at a time polls a Connector; everything else, and Probe, Stats and ReadEvents of a Cache, may be called from any goroutine.
// Slices of tokens, entries and results are passed as they are: C reads them during the call only. What a driver reads after a call returned
// (tables and tensors of ops) lies in C memory: see Buffer and Batch. Batch.Next is a whole step in one call of C and allocates nothing.
//
// Structs that the headers define (Stats, KVView, ReserveEntry, ...) have the bytes of C.
//
// pkg-config finds the library. With the build tag quire_static the archive libquire.a goes into the program, which then needs no shared library
// of quire.
package quire

/*
#include <quire/quire.h>
#include <stdlib.h>

extern void quireGoLog(int32_t level, char *component, uint64_t component_len, char *message, uint64_t message_len);
extern int64_t quireGoClock(void);
extern void *quireGoAlloc(uint64_t bytes, uint64_t alignment);
extern void quireGoFree(void *address, uint64_t bytes, uint64_t alignment);

static void go_log(void *user, int32_t level, quire_str component, quire_str message) {
  (void)user;
  quireGoLog(level, (char *)component.data, component.len, (char *)message.data, message.len);
}
static int64_t go_clock(void *user) { return (void)user, quireGoClock(); }
static void *go_alloc(void *user, uint64_t bytes, uint64_t alignment) { return (void)user, quireGoAlloc(bytes, alignment); }
static void go_free(void *user, void *address, uint64_t bytes, uint64_t alignment) { (void)user, quireGoFree(address, bytes, alignment); }
static void go_set_log(quire_runtime_options *options) { options->log = go_log; }
static void go_set_clock(quire_runtime_options *options) { options->clock = go_clock; }
static void go_set_memory(quire_runtime_options *options) { options->alloc = go_alloc, options->release_memory = go_free; }
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Code is a status code of quire, and an error to compare with: errors.Is(err, quire.NotFound).
type Code int32

// The codes of quire/base.h.
const (
	OK                 Code = C.QUIRE_OK
	Cancelled          Code = C.QUIRE_CANCELLED
	Unknown            Code = C.QUIRE_UNKNOWN
	InvalidArgument    Code = C.QUIRE_INVALID_ARGUMENT
	DeadlineExceeded   Code = C.QUIRE_DEADLINE_EXCEEDED
	NotFound           Code = C.QUIRE_NOT_FOUND
	AlreadyExists      Code = C.QUIRE_ALREADY_EXISTS
	PermissionDenied   Code = C.QUIRE_PERMISSION_DENIED
	ResourceExhausted  Code = C.QUIRE_RESOURCE_EXHAUSTED
	FailedPrecondition Code = C.QUIRE_FAILED_PRECONDITION
	Aborted            Code = C.QUIRE_ABORTED
	OutOfRange         Code = C.QUIRE_OUT_OF_RANGE
	Unimplemented      Code = C.QUIRE_UNIMPLEMENTED
	Internal           Code = C.QUIRE_INTERNAL
	Unavailable        Code = C.QUIRE_UNAVAILABLE
	DataLoss           Code = C.QUIRE_DATA_LOSS
	IncompatibleABI    Code = C.QUIRE_INCOMPATIBLE_ABI
	NotReady           Code = C.QUIRE_NOT_READY
	NotRepresentable   Code = C.QUIRE_NOT_REPRESENTABLE
)

// String is the code's name, such as INVALID_ARGUMENT.
func (c Code) String() string { return lasting(C.quire_code_name(C.quire_code(c))) }

// String is one sentence for logs, such as "no such sequence".
func (r Refusal) String() string { return lasting(C.quire_refusal_text(C.quire_refusal(r))) }

// Error makes a code comparable with errors.Is.
func (c Code) Error() string { return c.String() }

// Error is a refusal of quire: one line that names argument, value and limit, and where it came from.
type Error struct {
	Code    Code   // why
	Native  int32  // errno, CUresult, ...; 0 = none
	Domain  int32  // 0 none, 1 errno, 2 CUDA driver, 4 HIP, 5 UCX, 6 dlerror
	Source  string // "library", "driver:cpu", ...; "go": refused by this package
	Message string // one line; names argument, value and limit
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func refuse(code Code, message string) error {
	return &Error{Code: code, Source: "go", Message: message}
}

func newError() C.quire_error {
	return C.quire_error{struct_size: C.uint32_t(unsafe.Sizeof(C.quire_error{}))}
}

func failure(code C.quire_code, err *C.quire_error) error {
	if code == C.QUIRE_OK {
		return nil
	}
	return &Error{Code(code), int32(err.native_code), int32(err.native_domain), C.GoString(&err.source[0]), C.GoString(&err.message[0])}
}

// One call with an error struct of its own.
func call(body func(err *C.quire_error) C.quire_code) error {
	err := newError()
	return failure(body(&err), &err)
}

// A two-call array: asks for the size, then for the items.
func list[T any](blank T, body func(items *T, capacity C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code) ([]T, error) {
	var items []T
	for {
		var first *T
		var count C.uint64_t
		if len(items) > 0 {
			first = &items[0]
		}
		err := newError()
		code := body(first, C.uint64_t(len(items)), &count, &err)
		if (code != C.QUIRE_OK && code != C.QUIRE_OUT_OF_RANGE) || int(count) <= len(items) {
			if code != C.QUIRE_OK {
				return nil, failure(code, &err)
			}
			return items[:count], nil
		}
		var failed error
		if items, failed = room[T](uint64(count), "an array of the library's"); failed != nil {
			return nil, failed
		}
		for i := range items {
			items[i] = blank
		}
	}
}

// So many items, where the host has memory for them: make would end the program.
func room[T any](n uint64, what string) ([]T, error) {
	var one T
	size := uint64(unsafe.Sizeof(one))
	if n > maxBuffer/size {
		return nil, refuse(OutOfRange, what+": below 0, or more than any host has")
	}
	p := allocate(int(n*size + 1))
	if p == nil {
		return nil, refuse(ResourceExhausted, what+": no host memory for so many")
	}
	C.free(p)
	return make([]T, n), nil
}

// A text of the library that lives for ever.
func lasting(text C.quire_str) string { return C.GoStringN(text.data, C.int(text.len)) }

// Texts and arrays for the time of one call.
type arena struct {
	blocks []unsafe.Pointer
	failed bool
}

// Zeroed memory of C; nil where there is none, which the tests make happen. C.malloc and C.CString would end the program.
var allocate = func(bytes int) unsafe.Pointer { return C.calloc(1, C.size_t(bytes)) }

// Zeroed bytes; nil where there is no memory, which missing tells later.
func (a *arena) take(bytes int) unsafe.Pointer {
	p := allocate(bytes)
	if p == nil {
		a.failed = true
		return nil
	}
	a.blocks = append(a.blocks, p)
	return p
}

// Whether something could not be taken: the call must not be made then.
func (a *arena) missing() error {
	if a.failed {
		return refuse(ResourceExhausted, "no host memory for the arguments of a call")
	}
	return nil
}

func (a *arena) text(from string) C.quire_str {
	if from == "" {
		return C.quire_str{}
	}
	p := a.take(len(from) + 1)
	if p == nil {
		return C.quire_str{}
	}
	copy(unsafe.Slice((*byte)(p), len(from)), from)
	return C.quire_str{data: (*C.char)(p), len: C.uint64_t(len(from))}
}

func (a *arena) free() {
	for _, p := range a.blocks {
		C.free(p)
	}
}

// Array of numbers in C; nil where it is empty.
func copied[T any](a *arena, from []T) *T {
	if len(from) == 0 {
		return nil
	}
	p := (*T)(a.take(len(from) * int(unsafe.Sizeof(from[0]))))
	if p == nil {
		return nil
	}
	copy(unsafe.Slice(p, len(from)), from)
	return p
}

// The address of a slice; nil where it is empty.
func first[T any](of []T) unsafe.Pointer {
	if len(of) == 0 {
		return nil
	}
	return unsafe.Pointer(&of[0])
}

// One reference to an object of C. Close may run twice and anywhere; what runs beside another call of the same object is the caller's mistake.
type handle struct{ p unsafe.Pointer }

func (h *handle) take() unsafe.Pointer { return atomic.SwapPointer(&h.p, nil) }
func (h *handle) closed() bool         { return atomic.LoadPointer(&h.p) == nil }

// Text32 and its like are texts in structs of C.
type (
	Text32  [32]byte
	Text64  [64]byte
	Text128 [128]byte
	Text248 [248]byte
	Text256 [256]byte
)

func textOf(bytes []byte) string {
	for i, b := range bytes {
		if b == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}

func (t Text32) String() string  { return textOf(t[:]) }
func (t Text64) String() string  { return textOf(t[:]) }
func (t Text128) String() string { return textOf(t[:]) }
func (t Text248) String() string { return textOf(t[:]) }
func (t Text256) String() string { return textOf(t[:]) }

// Version is the version of the library.
func Version() string { return lasting(C.quire_version()) }

// ABIVersion is the version of its ABI, major << 16 | minor.
func ABIVersion() uint32 { return uint32(C.quire_abi_version()) }

// RuntimeOptions names the driver, where modules are looked for, and flags. Zero values are quire's defaults.
type RuntimeOptions struct {
	Driver        string // "" = QUIRE_DRIVER
	DriverPath    string // absolute folders that are searched first, separated by colons; "" = QUIRE_DRIVER_PATH
	ConnectorPath string // the same for connectors; "" = QUIRE_CONNECTOR_PATH
	NoEnv         bool   // the environment is not read
	TrustPaths    bool   // modules of other owners or in writable folders are accepted
	Threads       uint32 // of the CPU driver; 0 = as many as CPUs names, else all cores
	CPUs          string // where the CPU driver's threads run, e.g. "0-3,8"
	Log           bool   // lines go to the function of SetLog
	LogLevel      int32  // LogTrace, ...
	Clock         bool   // time, such as that of pins, is what the function of SetClock answers
	Memory        bool   // host memory of modules comes from the functions of SetMemory
}

var logTo atomic.Value

// SetLog says where the lines of all runtimes with Log go: called from any thread, and must not call quire. nil = nowhere.
func SetLog(to func(level int32, component, message string)) { logTo.Store(to) }

//export quireGoLog
func quireGoLog(level C.int32_t, component *C.char, componentLen C.uint64_t, message *C.char, messageLen C.uint64_t) {
	defer contain() // a line that makes the receiver panic is lost
	if to, _ := logTo.Load().(func(int32, string, string)); to != nil {
		to(int32(level), C.GoStringN(component, C.int(componentLen)), C.GoStringN(message, C.int(messageLen)))
	}
}

// A panic must not unwind C.
func contain() { _ = recover() }

var clockOf atomic.Value

// SetClock says what time it is for all runtimes with Clock: monotonic nanoseconds. Called from any thread, and must not call quire. Where it
// panics, time stands at 0.
func SetClock(now func() int64) { clockOf.Store(now) }

//export quireGoClock
func quireGoClock() (now C.int64_t) {
	defer contain()
	return C.int64_t(clockOf.Load().(func() int64)())
}

type memoryFuncs struct {
	alloc func(bytes, alignment uint64) unsafe.Pointer
	free  func(address unsafe.Pointer, bytes, alignment uint64)
}

var memoryOf atomic.Value

// SetMemory says where modules of all runtimes with Memory take host memory: memory of C, nil = there is none. Called from any thread, as long
// as anything of such a runtime lives, and must not call quire.
func SetMemory(alloc func(bytes, alignment uint64) unsafe.Pointer, free func(address unsafe.Pointer, bytes, alignment uint64)) {
	memoryOf.Store(memoryFuncs{alloc, free})
}

//export quireGoAlloc
func quireGoAlloc(bytes, alignment C.uint64_t) (address unsafe.Pointer) {
	defer contain()
	return memoryOf.Load().(memoryFuncs).alloc(uint64(bytes), uint64(alignment))
}

//export quireGoFree
func quireGoFree(address unsafe.Pointer, bytes, alignment C.uint64_t) {
	defer contain()
	memoryOf.Load().(memoryFuncs).free(address, uint64(bytes), uint64(alignment))
}

// Runtime is the environment as it was read once. Any goroutine.
type Runtime struct{ handle }

func (r *Runtime) c() *C.quire_runtime {
	if r == nil {
		return nil
	}
	return (*C.quire_runtime)(r.p)
}

// NewRuntime reads the environment; it loads no module yet.
func NewRuntime(options RuntimeOptions) (*Runtime, error) {
	var a arena
	defer a.free()
	var o C.quire_runtime_options
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.header_abi = C.QUIRE_ABI_VERSION
	o.driver, o.driver_path, o.connector_path = a.text(options.Driver), a.text(options.DriverPath), a.text(options.ConnectorPath)
	o.cpus, o.num_threads, o.log_level = a.text(options.CPUs), C.uint32_t(options.Threads), C.quire_log_level(options.LogLevel)
	if err := a.missing(); err != nil {
		return nil, err
	}
	if options.NoEnv {
		o.flags |= C.QUIRE_RUNTIME_NO_ENV
	}
	if options.TrustPaths {
		o.flags |= C.QUIRE_RUNTIME_TRUST_PATHS
	}
	if options.Log {
		C.go_set_log(&o)
	}
	if now, _ := clockOf.Load().(func() int64); options.Clock && now == nil {
		return nil, refuse(FailedPrecondition, "Clock: SetClock was not called")
	} else if options.Clock {
		C.go_set_clock(&o)
	}
	if from, _ := memoryOf.Load().(memoryFuncs); options.Memory && (from.alloc == nil || from.free == nil) {
		return nil, refuse(FailedPrecondition, "Memory: SetMemory was not called")
	} else if options.Memory {
		C.go_set_memory(&o)
	}
	var p *C.quire_runtime
	if err := call(func(err *C.quire_error) C.quire_code { return C.quire_runtime_create(&o, &p, err) }); err != nil {
		return nil, err
	}
	r := &Runtime{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(r, (*Runtime).Close)
	return r, nil
}

// Close drops the reference; what was made from it goes on.
func (r *Runtime) Close() {
	if r == nil {
		return
	}
	C.quire_runtime_release((*C.quire_runtime)(r.take()))
	runtime.SetFinalizer(r, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (r *Runtime) Share() *Runtime {
	shared := &Runtime{handle{unsafe.Pointer(C.quire_runtime_retain(r.c()))}}
	runtime.KeepAlive(r)
	runtime.SetFinalizer(shared, (*Runtime).Close)
	return shared
}

// Probe tries every module that can be found and says what became of each. Loads modules.
func (r *Runtime) Probe() ([]Candidate, error) {
	stride := C.uint64_t(unsafe.Sizeof(Candidate{}))
	found, err := list(Candidate{structSize: uint32(stride)}, func(items *Candidate, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_runtime_probe(r.c(), (*C.quire_probe_info)(unsafe.Pointer(items)), stride, n, count, err)
	})
	runtime.KeepAlive(r)
	return found, err
}
