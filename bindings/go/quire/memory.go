package quire

/*
#include <quire/quire.h>

static quire_code go_bind_bytes(quire_device *device, quire_config *config, uint32_t shard, const quire_memory_binding *bindings, uint64_t n,
                                quire_memory **out, quire_error *err) {
  return quire_memory_bind(device, config, shard, bindings, n, out, err);
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Memory is the bytes of one shard. Any goroutine.
type Memory struct {
	handle
	bound []any // the engine's own bytes live as long as it: *Buffer, and *Memory that tensors were exported from
	plan  *Config
	shard uint32
	at    place
}

func (m *Memory) c() *C.quire_memory {
	if m == nil {
		return nil
	}
	return (*C.quire_memory)(m.p)
}

// Whether its bytes may be used.
func (m *Memory) check() error {
	if m == nil || m.closed() {
		return refuse(InvalidArgument, "memory is nil, or was closed")
	}
	return nil
}

func newMemory(device *Device, config *Config, shard uint32, body func(out **C.quire_memory, err *C.quire_error) C.quire_code) (*Memory, error) {
	at, err := device.place()
	if err != nil {
		return nil, err
	}
	var p *C.quire_memory
	if err := call(func(err *C.quire_error) C.quire_code { return body(&p, err) }); err != nil {
		return nil, err
	}
	m := &Memory{handle: handle{unsafe.Pointer(p)}, plan: config.Share(), shard: shard, at: at}
	runtime.SetFinalizer(m, (*Memory).Close)
	return m, nil
}

// NewMemory takes the driver's bytes for a shard.
func NewMemory(device *Device, config *Config, shard uint32) (*Memory, error) {
	m, err := newMemory(device, config, shard, func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_create(device.c(), config.c(), C.uint32_t(shard), out, err)
	})
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	return m, err
}

// BindBuffers makes memory of the caller's bytes: one buffer per region of the shard, as Config.Regions lists them. They must not be closed
// before the memory and what was exported from it, both of which keep them reachable.
func BindBuffers(device *Device, config *Config, shard uint32, regions []*Buffer) (*Memory, error) {
	var a arena
	defer a.free()
	info, err := device.Info()
	if err != nil {
		return nil, err
	}
	all := make([]C.quire_memory_binding, len(regions))
	for i, region := range regions {
		all[i].struct_size = C.uint32_t(unsafe.Sizeof(all[i]))
		all[i].region, all[i].address, all[i].bytes = C.uint32_t(i), region.address(), C.uint64_t(region.Len())
		all[i].device_type, all[i].device_id = C.int32_t(info.DeviceType), C.int32_t(info.DeviceID)
	}
	bindings := copied(&a, all)
	if err = a.missing(); err != nil {
		return nil, err
	}
	m, err := newMemory(device, config, shard, func(out **C.quire_memory, err *C.quire_error) C.quire_code {
		return C.go_bind_bytes(device.c(), config.c(), C.uint32_t(shard), bindings, C.uint64_t(len(all)), out, err)
	})
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	runtime.KeepAlive(regions)
	if err != nil {
		return nil, err
	}
	for _, region := range regions {
		m.bound = append(m.bound, region)
	}
	return m, nil
}

// Close drops the reference. Work that uses the bytes must be done.
func (m *Memory) Close() {
	if m == nil {
		return
	}
	C.quire_memory_release((*C.quire_memory)(m.take()))
	m.plan.Close()
	runtime.SetFinalizer(m, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (m *Memory) Share() *Memory {
	shared := &Memory{handle: handle{unsafe.Pointer(C.quire_memory_retain(m.c()))}}
	if m != nil {
		shared.bound, shared.plan, shared.shard, shared.at = m.bound, m.plan.Share(), m.shard, m.at
	}
	runtime.SetFinalizer(shared, (*Memory).Close)
	runtime.KeepAlive(m)
	return shared
}

func (m *Memory) ask(body func(m *C.quire_memory, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(m.c(), err) })
	runtime.KeepAlive(m)
	return err
}

// Region answers address and size of a region, for kernels of the engine's own.
func (m *Memory) Region(region uint32) (unsafe.Pointer, uint64, error) {
	var address unsafe.Pointer
	var bytes C.uint64_t
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_get_region(m, C.uint32_t(region), &address, &bytes, err)
	})
	return address, uint64(bytes), err
}

// View is a strided tensor of a memory: an address of the device, shape, and strides in bytes.
type View struct {
	Data               unsafe.Pointer // address of the device
	DType              DType          // of the elements
	DeviceType, Device int32          // QUIRE_DEVICE_*, and its number
	Shape, Stride      []int64        // Shape in elements, Stride in bytes
}

func viewOf(t *C.quire_tensor) View {
	v := View{Data: t.data, DType: dtypeOf(t.dtype), DeviceType: int32(t.device_type), Device: int32(t.device_id)}
	for i := 0; i < int(t.ndim); i++ {
		v.Shape, v.Stride = append(v.Shape, int64(t.shape[i])), append(v.Stride, int64(t.stride[i]))
	}
	return v
}

// Tensor answers what the options say as a strided tensor, such as a layer's keys; of their flags only ExportAsBytes is legal.
func (m *Memory) Tensor(options ExportOptions) (View, error) {
	var t C.quire_tensor
	options.structSize = uint32(unsafe.Sizeof(options))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_get_tensor(m, (*C.quire_export)(unsafe.Pointer(&options)), &t, err)
	})
	return viewOf(&t), err
}

// PagedKV is the cache of a layer as ops see it. Ops refuse it once the Memory that answered it was closed.
type PagedKV struct {
	kv     C.quire_paged_kv
	memory *Memory
}

// PagedKV answers a layer's cache for the ops.
func (m *Memory) PagedKV(layer, sub uint32) (*PagedKV, error) {
	view := &PagedKV{memory: m}
	return view, m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_get_paged_kv(m, C.uint32_t(layer), C.uint32_t(sub), &view.kv, err)
	})
}

// PagedState is one tensor of a state as ops see it. Ops refuse it once the Memory that answered it was closed.
type PagedState struct {
	state  C.quire_paged_state
	memory *Memory
}

// PagedState answers one tensor of a layer's state for the ops.
func (m *Memory) PagedState(layer, sub, tensor uint32) (*PagedState, error) {
	view := &PagedState{memory: m}
	return view, m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_get_paged_state(m, C.uint32_t(layer), C.uint32_t(sub), C.uint32_t(tensor), &view.state, err)
	})
}

// Poison queues filling of all bytes but the null page's: for tests.
func (m *Memory) Poison(stream *Stream, value byte) error {
	if err := stream.prepares(m); err != nil {
		return err
	}
	stream.hold(unsafe.Pointer(m))
	err := m.ask(func(m *C.quire_memory, err *C.quire_error) C.quire_code {
		return C.quire_memory_poison(m, stream.c(), C.uint8_t(value), err)
	})
	runtime.KeepAlive(stream)
	return err
}
