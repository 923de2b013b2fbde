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
}

type managed = C.struct_DLManagedTensorVersioned

// NewDLTensor wraps a tensor over a buffer, inside of it, strides in elements. returned is called once, from any goroutine, when nobody
// needs the bytes any more; until then the buffer stays reachable, and must not be closed.
func NewDLTensor(data *Buffer, dtype DType, shape, strides []int64, readOnly bool, returned func()) (*DLTensor, error) {
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
	t := &DLTensor{handle{unsafe.Pointer(&tensor.managed)}, append([]int64(nil), shape...), append([]int64(nil), strides...), nil}
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t, nil
}

// Close runs the deleter; nothing for nil.
func (t *DLTensor) Close() {
	if t == nil {
		return
	}
	if p := t.take(); p != nil {
		C.go_end((*managed)(p))
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
	p := (*managed)(atomic.LoadPointer(&t.p))
	if p == nil {
		return nil
	}
	data := unsafe.Add(p.dl_tensor.data, int(p.dl_tensor.byte_offset))
	runtime.KeepAlive(t)
	return data
}

// BindMemory makes memory of the caller's bytes: one dense tensor per region of the shard. The tensors are quire's on success and the caller's
// on an error.
func BindMemory(device *Device, config *Config, shard uint32, regions ...*DLTensor) (*Memory, error) {
	var a arena
	defer a.free()
	all := make([]unsafe.Pointer, len(regions))
	for i, region := range regions {
		if region != nil {
			all[i] = region.take() // nobody closes it meanwhile
		}
	}
	m, err := newMemory(func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		return C.go_bind(device.c(), config.c(), C.uint32_t(shard), unsafe.Pointer(copied(&a, all)), C.uint64_t(len(all)), out, err)
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

func exported(p *managed, of *Memory) *DLTensor {
	n := int(p.dl_tensor.ndim)
	t := &DLTensor{handle: handle{unsafe.Pointer(p)}, of: of}
	t.Shape = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(p.dl_tensor.shape)), n)...)
	t.Strides = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(p.dl_tensor.strides)), n)...)
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t
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
	return exported(p, m), nil
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
	return exported(p, m), nil
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
	var flags C.uint64_t
	if readOnly {
		flags = C.QUIRE_IMPORT_READ_ONLY
	}
	if from == nil {
		return nil, refuse(InvalidArgument, "from is nil")
	}
	var tensor C.quire_tensor
	var p *C.quire_memory
	taken := from.take() // nobody closes it meanwhile
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_tensor_import_dlpack(device.c(), (*managed)(taken), flags, &tensor, &p, err)
	})
	runtime.KeepAlive(device)
	if err != nil {
		atomic.StorePointer(&from.p, taken)
		return nil, err
	}
	return deviceTensor(tensor, p, from.gone()), nil
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
