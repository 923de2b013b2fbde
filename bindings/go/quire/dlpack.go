package quire

/*
#include <quire/quire.h>
#include <stdlib.h>

// DLPack 1.x as its standard says.
struct go_view {
  void *data;
  int32_t device_type, device_id, ndim;
  quire_dtype dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *owner;
  void (*deleter)(struct DLManagedTensorVersioned *);
  uint64_t flags;
  struct go_view view;
};

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
  tensor->managed.view.data = data;
  tensor->managed.view.device_type = QUIRE_DEVICE_CPU;
  tensor->managed.view.ndim = ndim;
  tensor->managed.view.dtype = dtype;
  tensor->managed.view.shape = tensor->shape;
  tensor->managed.view.strides = tensor->strides;
  tensor->number = number;
  return tensor;
}
static void go_end(struct DLManagedTensorVersioned *tensor) {
  if (tensor != 0 && tensor->deleter != 0) tensor->deleter(tensor);
}
static quire_code go_bind(quire_device *device, quire_config *config, uint32_t shard, struct DLManagedTensorVersioned *tensor,
                          quire_memory **out, quire_error *err) {
  return quire_memory_bind_dlpack(device, config, shard, &tensor, 1, out, err);
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
		return nil, &Error{Code: InvalidArgument, Source: "go", Message: "shape: more than 5 axes, or strides of another length"}
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
	tensor := C.go_tensor_new(data.p, dtype.c(), C.int32_t(len(shape)), flags, C.uintptr_t(handle))
	if tensor == nil {
		handle.Delete()
		return nil, &Error{Code: ResourceExhausted, Source: "go", Message: "no host memory"}
	}
	for i := range shape {
		tensor.shape[i], tensor.strides[i] = C.int64_t(shape[i]), C.int64_t(strides[i])
	}
	t := &DLTensor{&tensor.managed, shape, strides}
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
	if t.p == nil {
		return nil
	}
	return unsafe.Add(t.p.view.data, int(t.p.view.byte_offset))
}

// BindMemory makes memory of the caller's bytes: one dense tensor for a shard of one region. The tensor is quire's on success and the caller's
// on an error.
func BindMemory(device *Device, config *Config, shard uint32, bytes *DLTensor) (*Memory, error) {
	m := &Memory{}
	err := newError()
	code := C.go_bind(device.p, config.p, C.uint32_t(shard), bytes.p, &m.p, &err)
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	bytes.gone()
	runtime.SetFinalizer(m, (*Memory).Close)
	return m, nil
}

// Export answers a layer's cache as DLPack tensor of side 0 (K) or 1 (V), or of a state's tensor; it keeps the memory alive.
func (m *Memory) Export(layer, sub, side uint32) (*DLTensor, error) {
	t := &DLTensor{}
	err := newError()
	code := C.quire_memory_export_dlpack(m.p, C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(side), &t.p, &err)
	runtime.KeepAlive(m)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	n := int(t.p.view.ndim)
	t.Shape = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(t.p.view.shape)), n)...)
	t.Strides = append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(t.p.view.strides)), n)...)
	runtime.SetFinalizer(t, (*DLTensor).Close)
	return t, nil
}

// Import is an engine's tensor as the ops see it; strides in bytes. Close gives it back.
type Import struct {
	Shape, Stride []int64
	memory        *Memory
}

// ImportTensor takes a tensor for the ops with its strides. readOnly: the caller only reads, so tensors that say so are taken.
func ImportTensor(device *Device, from *DLTensor, readOnly bool) (*Import, error) {
	var flags C.uint64_t
	if readOnly {
		flags = C.QUIRE_IMPORT_READ_ONLY
	}
	var tensor C.quire_tensor
	m := &Memory{}
	err := newError()
	code := C.quire_tensor_import_dlpack(device.p, from.p, flags, &tensor, &m.p, &err)
	runtime.KeepAlive(device)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	from.gone()
	runtime.SetFinalizer(m, (*Memory).Close)
	seen := &Import{memory: m}
	for i := 0; i < int(tensor.ndim); i++ {
		seen.Shape, seen.Stride = append(seen.Shape, int64(tensor.shape[i])), append(seen.Stride, int64(tensor.stride[i]))
	}
	return seen, nil
}

// Close gives the tensor back.
func (i *Import) Close() { i.memory.Close() }
