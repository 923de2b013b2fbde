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
	p              *C.struct_DLManagedTensorVersioned
	Shape, Strides []int64
}

// NewDLTensor wraps a tensor over a buffer, strides in elements. returned is called once, from any goroutine, when nobody needs the bytes any
// more; the buffer must live until then.
func NewDLTensor(data *Buffer, dtype DType, shape, strides []int64, readOnly bool, returned func()) (*DLTensor, error) {
	if len(shape) > 5 || len(strides) != len(shape) {
		return nil, refuse(InvalidArgument, "shape: more than 5 axes, or strides of another length")
	}
	var flags C.uint64_t
	if readOnly {
		flags = 1
	}
	handle := cgo.NewHandle(func() {
		runtime.KeepAlive(data)
		if returned != nil {
			returned()
		}
	})
	tensor := C.go_tensor_new(data.address(), dtype.c(), C.int32_t(len(shape)), flags, C.uintptr_t(handle))
	if tensor == nil {
		handle.Delete()
		return nil, refuse(ResourceExhausted, "no host memory")
	}
	for i := range shape {
		tensor.shape[i], tensor.strides[i] = C.int64_t(shape[i]), C.int64_t(strides[i])
	}
	t := &DLTensor{&tensor.managed, append([]int64(nil), shape...), append([]int64(nil), strides...)}
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t, nil
}

// Close runs the deleter; nothing for nil.
func (t *DLTensor) Close() {
	if t == nil {
		return
	}
	p := t.p
	t.gone()
	C.go_end(p)
}

func (t *DLTensor) gone() {
	t.p = nil
	runtime.SetFinalizer(t, nil)
}

// Data is the address of the first element; nil when the tensor was closed or taken.
func (t *DLTensor) Data() unsafe.Pointer {
	if t == nil || t.p == nil {
		return nil
	}
	return unsafe.Add(t.p.dl_tensor.data, int(t.p.dl_tensor.byte_offset))
}

// BindMemory makes memory of the caller's bytes: one dense tensor per region of the shard. The tensors are quire's on success and the caller's
// on an error.
func BindMemory(device *Device, config *Config, shard uint32, regions ...*DLTensor) (*Memory, error) {
	var a arena
	defer a.free()
	all := make([]*C.struct_DLManagedTensorVersioned, len(regions))
	for i, region := range regions {
		if region != nil {
			all[i] = region.p
		}
	}
	m, err := newMemory(func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		return C.go_bind(device.c(), config.c(), C.uint32_t(shard), unsafe.Pointer(copied(&a, all)), C.uint64_t(len(all)), out, err)
	})
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	if err != nil {
		return nil, err
	}
	for _, region := range regions {
		region.gone()
	}
	return m, nil
}

func exported(p *C.struct_DLManagedTensorVersioned) *DLTensor {
	n := int(p.dl_tensor.ndim)
	t := &DLTensor{p: p}
	t.Shape = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(p.dl_tensor.shape)), n)...)
	t.Strides = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(p.dl_tensor.strides)), n)...)
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t
}

// Export answers a layer's cache as DLPack tensor of side 0 (K) or 1 (V), or of a state's tensor; it keeps the memory alive.
func (m *Memory) Export(layer, sub, side uint32) (*DLTensor, error) {
	var p *C.struct_DLManagedTensorVersioned
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_dlpack(m, C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(side), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return exported(p), nil
}

// ExportView answers a field of a layer, one id of it, or a page as DLPack tensor, which keeps the memory alive.
func (m *Memory) ExportView(options ExportOptions) (*DLTensor, error) {
	var p *C.struct_DLManagedTensorVersioned
	options.structSize = uint32(unsafe.Sizeof(options))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_export_view(m, (*C.quire_export)(unsafe.Pointer(&options)), &p, err)
	})
	if err != nil {
		return nil, err
	}
	return exported(p), nil
}

// DeviceTensor is a tensor for the ops: an engine's own that was imported, or one in memory of the device. Strides in bytes.
type DeviceTensor struct {
	Shape, Stride []int64
	tensor        C.quire_tensor
	memory        *Memory
}

func deviceTensor(tensor C.quire_tensor, p *C.quire_memory) *DeviceTensor {
	m := &Memory{handle: handle{unsafe.Pointer(p)}}
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
	return deviceTensor(tensor, p), nil
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
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_tensor_import_dlpack(device.c(), from.p, flags, &tensor, &p, err)
	})
	runtime.KeepAlive(device)
	if err != nil {
		return nil, err
	}
	from.gone()
	return deviceTensor(tensor, p), nil
}

// Data is the address of the first element, on the device.
func (t *DeviceTensor) Data() unsafe.Pointer { return t.tensor.data }

// Close gives the tensor back; no op may use it any more.
func (t *DeviceTensor) Close() {
	if t == nil {
		return
	}
	t.memory.Close()
	t.tensor = C.quire_tensor{}
}
