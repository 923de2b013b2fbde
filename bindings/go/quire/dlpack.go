package quire

/*
#include <quire/quire.h>
#include <quire/sdk/dlpack.h>
#include <stdlib.h>

extern void quireGoReturned(uintptr_t number);

typedef struct go_tensor {
  struct DLManagedTensorVersioned managed;
  int64_t shape[5], strides[5];
  uintptr_t number;
} go_tensor;

static void go_deleter(struct DLManagedTensorVersioned *self) {
  go_tensor *tensor = (go_tensor *)self->owner;
  uintptr_t number = tensor->number;
  free(tensor);
  quireGoReturned(number);
}
static go_tensor *go_tensor_new(void *data, quire_dtype dtype, int32_t ndim, uint64_t flags, uintptr_t number) {
  go_tensor *tensor = (go_tensor *)calloc(1, sizeof *tensor);
  if (tensor == 0) return 0;
  tensor->managed.major = 1;
  tensor->managed.owner = tensor;
  tensor->managed.deleter = go_deleter;
  tensor->managed.flags = flags;
  tensor->managed.dl_tensor.data = data;
  tensor->managed.dl_tensor.device_type = QUIRE_DEVICE_CPU;
  tensor->managed.dl_tensor.ndim = ndim;
  tensor->managed.dl_tensor.dtype = dtype;
  tensor->managed.dl_tensor.shape = tensor->shape;
  tensor->managed.dl_tensor.strides = tensor->strides;
  tensor->number = number;
  return tensor;
}
// DLPack 0.x.
struct DLManagedTensor {
  quire_dl_view dl_tensor;
  void *owner;
  void (*deleter)(struct DLManagedTensor *self);
};

typedef struct go_legacy {
  struct DLManagedTensor managed;
  go_tensor *tensor;
} go_legacy;

static void go_legacy_deleter(struct DLManagedTensor *self) {
  go_tensor *tensor = ((go_legacy *)self->owner)->tensor;
  free(self->owner);
  go_deleter(&tensor->managed);
}
static go_legacy *go_legacy_new(go_tensor *tensor) {
  go_legacy *legacy = tensor == 0 ? 0 : (go_legacy *)calloc(1, sizeof *legacy);
  if (legacy == 0) return free(tensor), legacy;
  legacy->managed.owner = legacy;
  legacy->managed.deleter = go_legacy_deleter;
  legacy->managed.dl_tensor = tensor->managed.dl_tensor;
  legacy->tensor = tensor;
  return legacy;
}
static void go_legacy_end(struct DLManagedTensor *tensor) {
  if (tensor != 0 && tensor->deleter != 0) tensor->deleter(tensor);
}
static quire_code go_legacy_bind(quire_device *device, quire_config *config, uint32_t shard, void *tensors, uint64_t n, quire_memory **out,
                                 quire_error *err) {
  return quire_memory_bind_dlpack_legacy(device, config, shard, (struct DLManagedTensor *const *)tensors, n, out, err);
}
static void go_end(struct DLManagedTensorVersioned *tensor) {
  if (tensor != 0 && tensor->deleter != 0) tensor->deleter(tensor);
}
static quire_code go_bind(quire_device *device, quire_config *config, uint32_t shard, void *tensors, uint64_t n, quire_memory **out,
                          quire_error *err) {
  return quire_memory_bind_dlpack(device, config, shard, (struct DLManagedTensorVersioned *const *)tensors, n, out, err);
}
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"sync/atomic"
	"unsafe"
)

//export quireGoReturned
func quireGoReturned(number C.uintptr_t) {
	defer contain() // nobody waits for what the engine does with it
	handle := cgo.Handle(number)
	returned, _ := handle.Value().(func())
	handle.Delete()
	if returned != nil {
		returned()
	}
}

// DLTensor is a DLPack tensor: shape and strides in elements. Close runs its deleter, unless quire took it.
type DLTensor struct {
	handle
	Shape, Strides []int64
	of             *Memory // that it was exported from: what is bound to it must live as long as the tensor
	legacy         bool    // of DLPack 0.x
}

type (
	managed = C.struct_DLManagedTensorVersioned
	legacy  = C.struct_DLManagedTensor
)

// NewDLTensor wraps a tensor over a buffer, inside of it, strides in elements. returned is called once, from any goroutine, when nobody
// needs the bytes any more; until then the buffer stays reachable, and must not be closed.
func NewDLTensor(data *Buffer, dtype DType, shape, strides []int64, readOnly bool, returned func()) (*DLTensor, error) {
	return newDLTensor(data, dtype, shape, strides, readOnly, false, returned)
}

// NewLegacyDLTensor is NewDLTensor of DLPack 0.x, which cannot say that it is read-only.
func NewLegacyDLTensor(data *Buffer, dtype DType, shape, strides []int64, returned func()) (*DLTensor, error) {
	return newDLTensor(data, dtype, shape, strides, false, true, returned)
}

func newDLTensor(data *Buffer, dtype DType, shape, strides []int64, readOnly, old bool, returned func()) (*DLTensor, error) {
	if len(shape) > 5 || len(strides) != len(shape) {
		return nil, refuse(InvalidArgument, "shape: more than 5 axes, or strides of another length")
	}
	var steps [5]int64
	copy(steps[:], strides)
	last, empty, err := reach(shape, &steps)
	if err != nil {
		return nil, err
	}
	bits := int64(dtype.Bits)
	if dtype.Lanes > 1 {
		bits *= int64(dtype.Lanes)
	}
	if bits == 0 {
		return nil, refuse(InvalidArgument, "dtype: elements of no bits")
	}
	if !empty && last >= 8*int64(data.Len())/bits {
		return nil, refuse(OutOfRange, "shape, strides: the tensor reaches behind its buffer")
	}
	var flags C.uint64_t
	if readOnly {
		flags = 1
	}
	number := cgo.NewHandle(func() {
		runtime.KeepAlive(data)
		if returned != nil {
			returned()
		}
	})
	tensor := C.go_tensor_new(data.address(), dtype.c(), C.int32_t(len(shape)), flags, C.uintptr_t(number))
	runtime.KeepAlive(data)
	if tensor == nil {
		number.Delete()
		return nil, refuse(ResourceExhausted, "no host memory")
	}
	for i := range shape {
		tensor.shape[i], tensor.strides[i] = C.int64_t(shape[i]), C.int64_t(strides[i])
	}
	p := unsafe.Pointer(&tensor.managed)
	if old {
		made := C.go_legacy_new(tensor)
		if made == nil {
			number.Delete()
			return nil, refuse(ResourceExhausted, "no host memory")
		}
		p = unsafe.Pointer(&made.managed)
	}
	return ownTensor(p, old, nil), nil
}

// AdoptDLTensor takes a DLManagedTensorVersioned * of another library over: its deleter runs when it is closed, or when quire needs it no more.
func AdoptDLTensor(p unsafe.Pointer) *DLTensor { return ownTensor(p, false, nil) }

// AdoptLegacyDLTensor is AdoptDLTensor of a DLManagedTensor *, DLPack 0.x.
func AdoptLegacyDLTensor(p unsafe.Pointer) *DLTensor { return ownTensor(p, true, nil) }

// Release gives the tensor away, as DLManagedTensorVersioned * or, where it IsLegacy, DLManagedTensor *: whoever has it calls its deleter. What
// it was exported from, buffers that were bound included, must not be closed, nor become unreachable, before. nil when it was closed or taken.
func (t *DLTensor) Release() unsafe.Pointer {
	if t == nil {
		return nil
	}
	p := t.take()
	if p != nil {
		t.gone()
	}
	return p
}

// IsLegacy says that it is of DLPack 0.x.
func (t *DLTensor) IsLegacy() bool { return t != nil && t.legacy }

// The description inside of a managed tensor that is there.
func (t *DLTensor) view(p unsafe.Pointer) *C.quire_dl_view {
	if t.legacy {
		return &(*legacy)(p).dl_tensor
	}
	return &(*managed)(p).dl_tensor
}

func ownTensor(p unsafe.Pointer, old bool, of *Memory) *DLTensor {
	t := &DLTensor{handle: handle{p}, of: of, legacy: old}
	if p == nil {
		return t
	}
	view := t.view(p)
	n := int(view.ndim)
	if n < 0 || view.shape == nil {
		n = 0 // quire refuses it
	}
	t.Shape = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(view.shape)), n)...)
	if view.strides != nil {
		t.Strides = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(view.strides)), n)...)
	} else {
		t.Strides = make([]int64, n) // dense, row-major
		for i, dense := n-1, int64(1); i >= 0; i-- {
			t.Strides[i] = dense
			dense *= t.Shape[i]
		}
	}
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t
}

// Close runs the deleter; nothing for nil.
func (t *DLTensor) Close() {
	if t == nil {
		return
	}
	if p := t.take(); p != nil {
		if t.legacy {
			C.go_legacy_end((*legacy)(p))
		} else {
			C.go_end((*managed)(p))
		}
		t.gone()
	}
}

// What nobody has any more, or quire now; by the one who took it.
func (t *DLTensor) gone() *Memory {
	of := t.of
	t.of = nil
	runtime.SetFinalizer(t, nil)
	return of
}

// Data is the address of the first element, valid while the tensor is reachable; nil when the tensor was closed or taken.
func (t *DLTensor) Data() unsafe.Pointer {
	if t == nil {
		return nil
	}
	p := atomic.LoadPointer(&t.p)
	if p == nil {
		return nil
	}
	view := t.view(p)
	data := unsafe.Add(view.data, int(view.byte_offset))
	runtime.KeepAlive(t)
	return data
}

// BindMemory makes memory of the caller's bytes: one dense tensor per region of the shard. The tensors are quire's on success and the caller's
// on an error; all of one version of DLPack, 1.x or 0.x.
func BindMemory(device *Device, config *Config, shard uint32, regions ...*DLTensor) (*Memory, error) {
	var a arena
	defer a.free()
	all := make([]unsafe.Pointer, len(regions))
	for _, region := range regions {
		if region.IsLegacy() != regions[0].IsLegacy() {
			return nil, refuse(InvalidArgument, "regions: tensors of DLPack 0.x and 1.x")
		}
	}
	tensors := copied(&a, all)
	if err := a.missing(); err != nil {
		return nil, err
	}
	for i, region := range regions {
		if region != nil {
			all[i] = region.take() // nobody closes it meanwhile
		}
	}
	copy(unsafe.Slice(tensors, len(all)), all)
	m, err := newMemory(device, config, shard, func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		if len(regions) != 0 && regions[0].IsLegacy() {
			return C.go_legacy_bind(device.c(), config.c(), C.uint32_t(shard), unsafe.Pointer(tensors), C.uint64_t(len(all)), out, err)
		}
		return C.go_bind(device.c(), config.c(), C.uint32_t(shard), unsafe.Pointer(tensors), C.uint64_t(len(all)), out, err)
	})
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	for i, region := range regions {
		if err == nil {
			m.keep(region.gone())
		} else if all[i] != nil {
			atomic.StorePointer(&region.p, all[i])
		}
	}
	runtime.KeepAlive(regions)
	return m, err
}

// The bytes of m may be of a tensor that was exported from another memory.
func (m *Memory) keep(of *Memory) {
	if of != nil {
		m.bound = append(m.bound, of)
	}
}

// Export answers a layer's cache as DLPack tensor of side 0 (K) or 1 (V), or of a state's tensor; it keeps the memory alive.
func (m *Memory) Export(layer, sub, side uint32) (*DLTensor, error) {
	var p *managed
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_dlpack(m, C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(side), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return ownTensor(unsafe.Pointer(p), false, m), nil
}

// ExportView answers a field of a layer, one id of it, or a page as DLPack tensor, which keeps the memory alive.
func (m *Memory) ExportView(options ExportOptions) (*DLTensor, error) {
	var p *managed
	options.structSize = uint32(unsafe.Sizeof(options))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_view(m, (*C.quire_export)(unsafe.Pointer(&options)), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return ownTensor(unsafe.Pointer(p), false, m), nil
}

// ExportLegacy is Export for consumers of DLPack 0.x.
func (m *Memory) ExportLegacy(layer, sub, side uint32) (*DLTensor, error) {
	var p *legacy
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_dlpack_legacy(m, C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(side), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return ownTensor(unsafe.Pointer(p), true, m), nil
}

// ExportViewLegacy is ExportView for consumers of DLPack 0.x.
func (m *Memory) ExportViewLegacy(options ExportOptions) (*DLTensor, error) {
	var p *legacy
	options.structSize = uint32(unsafe.Sizeof(options))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_view_legacy(m, (*C.quire_export)(unsafe.Pointer(&options)), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return ownTensor(unsafe.Pointer(p), true, m), nil
}

// DeviceTensor is a tensor for the ops: an engine's own that was imported, or one in memory of the device. Strides in bytes.
type DeviceTensor struct {
	Shape, Stride []int64
	tensor        C.quire_tensor
	memory        *Memory
}

func deviceTensor(tensor C.quire_tensor, p *C.quire_memory, of *Memory) *DeviceTensor {
	m := &Memory{handle: handle{unsafe.Pointer(p)}}
	m.keep(of)
	runtime.SetFinalizer(m, (*Memory).Close)
	view := viewOf(&tensor)
	return &DeviceTensor{view.Shape, view.Stride, tensor, m}
}

// NewTensor makes a strided tensor in memory of the device; stride in bytes, nil = dense.
func NewTensor(device *Device, dtype DType, shape, stride []int64) (*DeviceTensor, error) {
	var tensor C.quire_tensor
	if len(shape) > 5 || (stride != nil && len(stride) != len(shape)) {
		return nil, refuse(InvalidArgument, "shape: more than 5 axes, or strides of another length")
	}
	tensor.dtype, tensor.ndim = dtype.c(), C.int32_t(len(shape))
	for i := range shape {
		tensor.shape[i] = C.int64_t(shape[i])
		if stride != nil {
			tensor.stride[i] = C.int64_t(stride[i])
		}
	}
	var p *C.quire_memory
	err := call(func(err *C.quire_error) C.quire_code { return C.quire_tensor_create(device.c(), &tensor, &p, err) })
	runtime.KeepAlive(device)
	if err != nil {
		return nil, err
	}
	return deviceTensor(tensor, p, nil), nil
}

// ImportTensor takes a tensor for the ops with its strides: the tensor is quire's on success and the caller's on an error. readOnly: the
// caller only reads, so tensors that say so are taken.
func ImportTensor(device *Device, from *DLTensor, readOnly bool) (*DeviceTensor, error) {
	if readOnly {
		return ImportTensorWith(device, from, ImportReadOnly)
	}
	return ImportTensorWith(device, from, 0)
}

// ImportTensorWith is ImportTensor with flags: ImportReadOnly, and ImportAnyDType for types that quire has no name for.
func ImportTensorWith(device *Device, from *DLTensor, flags uint64) (*DeviceTensor, error) {
	if from == nil {
		return nil, refuse(InvalidArgument, "from is nil")
	}
	var tensor C.quire_tensor
	var p *C.quire_memory
	taken := from.take() // nobody closes it meanwhile
	err := call(func(err *C.quire_error) C.quire_code {
		if from.legacy {
			return C.quire_tensor_import_dlpack_legacy(device.c(), (*legacy)(taken), C.uint64_t(flags), &tensor, &p, err)
		}
		return C.quire_tensor_import_dlpack(device.c(), (*managed)(taken), C.uint64_t(flags), &tensor, &p, err)
	})
	runtime.KeepAlive(device)
	if err != nil {
		atomic.StorePointer(&from.p, taken)
		return nil, err
	}
	made := deviceTensor(tensor, p, from.gone())
	runtime.KeepAlive(from)
	return made, nil
}

// Data is the address of the first element, on the device.
func (t *DeviceTensor) Data() unsafe.Pointer {
	if t == nil {
		return nil
	}
	return t.tensor.data
}

// Close gives the tensor back; no op may use it any more.
func (t *DeviceTensor) Close() {
	if t == nil || t.memory == nil {
		return
	}
	if p := t.memory.take(); p != nil {
		t.tensor = C.quire_tensor{}
		C.quire_memory_release((*C.quire_memory)(p))
		runtime.SetFinalizer(t.memory, nil)
	}
}
