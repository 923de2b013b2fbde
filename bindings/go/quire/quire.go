// Package quire is the C ABI of quire for Go: models, plans, bookkeeping, devices, bytes and the ops of the step loop.
//
// Errors are *Error with code and message; errors.Is(err, quire.NotFound) asks for a code. Objects have Close, which may be called twice and in
// any order (quire keeps parents alive); a finalizer closes what was forgotten. Calls of one Cache and of one Stream are serialized by the
// caller. Slices of tokens, entries and results are passed as they are: C reads them during the call only. What a driver reads after a call
// returned (tables and tensors of ops) lies in C memory: see Buffer. Connectors, events, loads and kernels of states are not bound yet.
package quire

/*
#cgo pkg-config: quire
#include <quire/quire.h>
#include <stdlib.h>
#include <string.h>

static quire_code go_runtime(const char *driver, uint64_t driver_len, const char *path, uint64_t path_len, uint64_t flags, uint32_t threads,
                             quire_runtime **out, quire_error *err) {
  quire_runtime_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver.data = driver, options.driver.len = driver_len;
  options.driver_path.data = path, options.driver_path.len = path_len;
  options.flags = flags;
  options.num_threads = threads;
  return quire_runtime_create(&options, out, err);
}
static quire_code go_model_json(const char *text, uint64_t len, quire_model **out, quire_error *err) {
  quire_str json = {text, len};
  return quire_model_from_json(json, out, err);
}
static quire_code go_config(quire_model *model, uint64_t pages, const uint64_t *bytes, uint64_t num_bytes, uint32_t block, quire_config **out,
                            quire_error *err) {
  quire_plan_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.num_pages = pages;
  options.memory_bytes = bytes;
  options.num_memory_bytes = num_bytes;
  options.block_tokens = block;
  return quire_config_create(model, &options, out, err);
}
*/
import "C"

import (
	"runtime"
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
func (c Code) String() string {
	name := C.quire_code_name(C.quire_code(c))
	return C.GoStringN(name.data, C.int(name.len))
}

// Error makes a code comparable with errors.Is.
func (c Code) Error() string { return c.String() }

// Error is a refusal of quire: one line that names argument, value and limit, and where it came from.
type Error struct {
	Code    Code
	Native  int32 // errno, CUresult, ...; 0 = none
	Source  string
	Message string
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func newError() C.quire_error {
	return C.quire_error{struct_size: C.uint32_t(unsafe.Sizeof(C.quire_error{}))}
}

func failure(code C.quire_code, err *C.quire_error) error {
	if code == C.QUIRE_OK {
		return nil
	}
	return &Error{Code(code), int32(err.native_code), C.GoString(&err.source[0]), C.GoString(&err.message[0])}
}

// Version is the version of the library.
func Version() string {
	text := C.quire_version()
	return C.GoStringN(text.data, C.int(text.len))
}

// A text for the time of one call; nothing where it is empty.
func cText(text string) (*C.char, C.uint64_t, func()) {
	if text == "" {
		return nil, 0, func() {}
	}
	copied := C.CString(text)
	return copied, C.uint64_t(len(text)), func() { C.free(unsafe.Pointer(copied)) }
}

// RuntimeOptions names the driver, where its module is looked for, and flags. Zero values are quire's defaults.
type RuntimeOptions struct {
	Driver     string // "" = QUIRE_DRIVER
	DriverPath string
	NoEnv      bool
	TrustPaths bool
	Threads    uint32
}

// Runtime is the environment as it was read once. Any goroutine.
type Runtime struct{ p *C.quire_runtime }

// NewRuntime reads the environment; it loads no module yet.
func NewRuntime(options RuntimeOptions) (*Runtime, error) {
	driver, driverLen, freeDriver := cText(options.Driver)
	defer freeDriver()
	path, pathLen, freePath := cText(options.DriverPath)
	defer freePath()
	var flags C.uint64_t
	if options.NoEnv {
		flags |= C.QUIRE_RUNTIME_NO_ENV
	}
	if options.TrustPaths {
		flags |= C.QUIRE_RUNTIME_TRUST_PATHS
	}
	r := &Runtime{}
	err := newError()
	if code := C.go_runtime(driver, driverLen, path, pathLen, flags, C.uint32_t(options.Threads), &r.p, &err); code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(r, (*Runtime).Close)
	return r, nil
}

// Close drops the reference; what was made from it goes on.
func (r *Runtime) Close() {
	C.quire_runtime_release(r.p)
	r.p = nil
	runtime.SetFinalizer(r, nil)
}

// Model says what the layers of a model cache. Immutable.
type Model struct{ p *C.quire_model }

// ModelFromJSON reads the text of a Hugging Face config.json.
func ModelFromJSON(config string) (*Model, error) {
	text, length, free := cText(config)
	defer free()
	m := &Model{}
	err := newError()
	if code := C.go_model_json(text, length, &m.p, &err); code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// DType is an element type, with the numbers of DLPack.
type DType struct {
	Code, Bits uint8
	Lanes      uint16
}

// Float32 and BFloat16 are the types of most caches.
var (
	Float32  = DType{C.QUIRE_DTYPE_FLOAT, 32, 1}
	BFloat16 = DType{C.QUIRE_DTYPE_BFLOAT, 16, 1}
	UInt8    = DType{C.QUIRE_DTYPE_UINT, 8, 1}
)

func (d DType) c() C.quire_dtype {
	return C.quire_dtype{code: C.uint8_t(d.Code), bits: C.uint8_t(d.Bits), lanes: C.uint16_t(d.Lanes)}
}

// Layer is one cache with keys and values of a layer; recurrent ones come from ModelFromJSON.
type Layer struct {
	Layer, KVHeads, QHeads, HeadDimK, HeadDimV uint32
	Window                                     uint64 // 0 = everything is kept
	DType                                      DType
}

// NewModel makes a model of layers, in order.
func NewModel(layers []Layer, maxModelLen uint64) (*Model, error) {
	all := make([]C.quire_layer, len(layers)+1) // one more, so that there is an address
	for i, layer := range layers {
		to := &all[i]
		to.struct_size = C.uint32_t(unsafe.Sizeof(*to))
		to.kind = C.QUIRE_LAYER_FULL
		if layer.Window != 0 {
			to.kind = C.QUIRE_LAYER_SLIDING_WINDOW
		}
		to.layer, to.window, to.dtype = C.uint32_t(layer.Layer), C.uint64_t(layer.Window), layer.DType.c()
		to.num_kv_heads, to.num_q_heads = C.uint32_t(layer.KVHeads), C.uint32_t(layer.QHeads)
		to.head_dim_k, to.head_dim_v = C.uint32_t(layer.HeadDimK), C.uint32_t(layer.HeadDimV)
	}
	m := &Model{}
	err := newError()
	code := C.quire_model_create(&all[0], C.uint64_t(unsafe.Sizeof(all[0])), C.uint64_t(len(layers)), C.uint64_t(maxModelLen), &m.p, &err)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close drops the reference.
func (m *Model) Close() {
	C.quire_model_release(m.p)
	m.p = nil
	runtime.SetFinalizer(m, nil)
}

// PlanOptions says how much memory a plan has: bytes (one number, or one per shard), or pages.
type PlanOptions struct {
	NumPages    uint64
	MemoryBytes []uint64
	BlockTokens uint32
}

// Config is a plan: groups, pages, blocks. Immutable; any goroutine.
type Config struct{ p *C.quire_config }

// NewConfig plans the cache of a model.
func NewConfig(model *Model, options PlanOptions) (*Config, error) {
	var bytes *C.uint64_t
	if n := len(options.MemoryBytes); n > 0 { // the options point to it, so it lies in C
		bytes = (*C.uint64_t)(C.calloc(C.size_t(n), 8))
		defer C.free(unsafe.Pointer(bytes))
		copy(unsafe.Slice((*uint64)(unsafe.Pointer(bytes)), n), options.MemoryBytes)
	}
	c := &Config{}
	err := newError()
	code := C.go_config(model.p, C.uint64_t(options.NumPages), bytes, C.uint64_t(len(options.MemoryBytes)), C.uint32_t(options.BlockTokens),
		&c.p, &err)
	runtime.KeepAlive(model)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(c, (*Config).Close)
	return c, nil
}

// Close drops the reference.
func (c *Config) Close() {
	C.quire_config_release(c.p)
	c.p = nil
	runtime.SetFinalizer(c, nil)
}

// ConfigInfo is the whole plan.
type ConfigInfo struct {
	Groups, Shards            uint32
	Pages, MaxLen, CapacityOf uint64 // the null page included; tokens; the longest sequence that always fits
}

// Info answers the facts of the plan.
func (c *Config) Info() (ConfigInfo, error) {
	var info C.quire_config_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := newError()
	code := C.quire_config_get_info(c.p, &info, &err)
	runtime.KeepAlive(c)
	return ConfigInfo{uint32(info.num_groups), uint32(info.num_shards), uint64(info.num_pages), uint64(info.max_model_len),
		uint64(info.capacity_tokens)}, failure(code, &err)
}

// GroupInfo is one group of layers.
type GroupInfo struct {
	IsState                           bool
	BlockTokens, KernelBlock, Columns uint32
	Caches                            uint32 // layers and subs in it
}

// Group answers the facts of one group.
func (c *Config) Group(group uint32) (GroupInfo, error) {
	var info C.quire_group_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := newError()
	code := C.quire_config_get_group(c.p, C.uint32_t(group), &info, &err)
	runtime.KeepAlive(c)
	return GroupInfo{info.is_state != 0, uint32(info.block_tokens), uint32(info.kernel_block_tokens), uint32(info.ids_per_block),
		uint32(info.num_caches)}, failure(code, &err)
}

// RegionInfo is one allocation of a shard.
type RegionInfo struct{ Bytes, Alignment uint64 }

// Regions lists the allocations of a shard.
func (c *Config) Regions(shard uint32) ([]RegionInfo, error) {
	var count C.uint64_t
	err := newError()
	stride := C.uint64_t(unsafe.Sizeof(C.quire_region_info{}))
	if code := C.quire_config_list_regions(c.p, C.uint32_t(shard), nil, stride, 0, &count, &err); code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	items := make([]C.quire_region_info, count+1)
	for i := range items {
		items[i].struct_size = C.uint32_t(stride)
	}
	code := C.quire_config_list_regions(c.p, C.uint32_t(shard), &items[0], stride, count, &count, &err)
	runtime.KeepAlive(c)
	regions := make([]RegionInfo, count)
	for i := range regions {
		regions[i] = RegionInfo{uint64(items[i].bytes), uint64(items[i].alignment)}
	}
	return regions, failure(code, &err)
}
