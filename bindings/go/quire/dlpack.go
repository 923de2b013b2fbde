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
static void go_end(struct DLManagedTensorVersioned *tensor) {
  if (tensor != 0 && tensor->deleter != 0) tensor->deleter(tensor);
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

// The two forms of a managed tensor as the calls take them.
func dlpackOf(p unsafe.Pointer, old bool) C.quire_dlpack {
	if old {
		return C.quire_dlpack{legacy: (*legacy)(p)}
	}
	return C.quire_dlpack{versioned: (*managed)(p)}
}

// DLTensor is a DLPack tensor: shape and strides in elements. Close runs its deleter, unless quire took it.
type DLTensor struct {
	handle
	Shape, Strides []int64 // elements; Strides nil = dense
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
// on an error.
func BindMemory(device *Device, config *Config, shard uint32, regions ...*DLTensor) (*Memory, error) {
	var a arena
	defer a.free()
	all := make([]unsafe.Pointer, len(regions))
	tensors := copied(&a, make([]C.quire_dlpack, len(regions)))
	if err := a.missing(); err != nil {
		return nil, err
	}
	for i, region := range regions {
		if region != nil {
			all[i] = region.take() // nobody closes it meanwhile
		}
		unsafe.Slice(tensors, len(all))[i] = dlpackOf(all[i], region.IsLegacy())
	}
	m, err := newMemory(device, config, shard, func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_bind_dlpack(device.c(), config.c(), C.uint32_t(shard), tensors, C.uint64_t(len(all)), out, err)
	})
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	for i, region := range regions {
		if err == nil {
			if of := region.gone(); of != nil { // its bytes may be of a tensor that was exported from another memory
				m.bound = append(m.bound, of)
			}
		} else if all[i] != nil {
			atomic.StorePointer(&region.p, all[i])
		}
	}
	runtime.KeepAlive(regions)
	return m, err
}

// Export answers a field of a layer or one id of it, a state's tensor, or a page as DLPack tensor, which keeps the memory alive.
func (m *Memory) Export(options ExportOptions) (*DLTensor, error) {
	var made C.quire_dlpack
	options.structSize = uint32(unsafe.Sizeof(options))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export(m, (*C.quire_export)(unsafe.Pointer(&options)), &made, err)
	})
	if err != nil {
		return nil, err
	}
	if made.legacy != nil {
		return ownTensor(unsafe.Pointer(made.legacy), true, m), nil
	}
	return ownTensor(unsafe.Pointer(made.versioned), false, m), nil
}

// DeviceTensor is a tensor for the ops: an engine's own that was imported, or one in memory of the device. Strides in bytes.
type DeviceTensor struct {
	handle
	Shape, Stride []int64 // Shape in elements, Stride in bytes
	tensor        C.quire_tensor
	of            *Memory // that its bytes were exported from
}

func deviceTensor(tensor *C.quire_tensor, p *C.quire_buffer, of *Memory) *DeviceTensor {
	view := viewOf(tensor)
	t := &DeviceTensor{handle{unsafe.Pointer(p)}, view.Shape, view.Stride, *tensor, of}
	runtime.SetFinalizer(t, (*DeviceTensor).Close)
	return t
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
	var p *C.quire_buffer
	err := call(func(err *C.quire_error) C.quire_code { return C.quire_buffer_create(device.c(), &tensor, &p, err) })
	runtime.KeepAlive(device)
	if err != nil {
		return nil, err
	}
	return deviceTensor(&tensor, p, nil), nil
}

// ImportTensor takes a tensor for the ops with its strides: the tensor is quire's on success and the caller's on an error. flags:
// ImportReadOnly where the caller only reads, so that tensors that say so are taken, ImportAnyDType for types that quire has no name for.
func ImportTensor(device *Device, from *DLTensor, flags uint32) (*DeviceTensor, error) {
	if from == nil {
		return nil, refuse(InvalidArgument, "from is nil")
	}
	var tensor C.quire_tensor
	var p *C.quire_buffer
	taken := from.take() // nobody closes it meanwhile
	given := dlpackOf(taken, from.legacy)
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_buffer_import(device.c(), &given, C.uint32_t(flags), &tensor, &p, err)
	})
	runtime.KeepAlive(device)
	if err != nil {
		atomic.StorePointer(&from.p, taken)
		return nil, err
	}
	made := deviceTensor(&tensor, p, from.gone())
	runtime.KeepAlive(from)
	return made, nil
}

// Data is the address of the first element, on the device; nil when it was closed.
func (t *DeviceTensor) Data() unsafe.Pointer {
	if t == nil || t.closed() {
		return nil
	}
	return t.tensor.data
}

// Share takes another reference to the same bytes, with a Close of its own.
func (t *DeviceTensor) Share() *DeviceTensor {
	if t == nil {
		return nil
	}
	shared := deviceTensor(&t.tensor, C.quire_buffer_retain((*C.quire_buffer)(t.p)), t.of)
	runtime.KeepAlive(t)
	return shared
}

// Close gives the tensor back; no op may use it any more.
func (t *DeviceTensor) Close() {
	if t == nil {
		return
	}
	C.quire_buffer_release((*C.quire_buffer)(t.take()))
	runtime.SetFinalizer(t, nil)
}
