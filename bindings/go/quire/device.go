package quire

/*
#include <quire/quire.h>
#include <stdlib.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Buffer is zeroed memory of C: what ops and tables point to may not be Go's, since a driver reads it after the call. Close it when no op uses
// it any more; its slices must not be used then.
type Buffer struct {
	p unsafe.Pointer
	n int
}

// NewBuffer takes bytes, aligned to 4096.
func NewBuffer(bytes int) (*Buffer, error) {
	whole := C.size_t((bytes + 4096) / 4096 * 4096)
	b := &Buffer{C.aligned_alloc(4096, whole), bytes}
	if b.p == nil {
		return nil, &Error{Code: ResourceExhausted, Source: "go", Message: "bytes: no host memory of that size"}
	}
	for i := range unsafe.Slice((*byte)(b.p), int(whole)) {
		*(*byte)(unsafe.Add(b.p, i)) = 0
	}
	runtime.SetFinalizer(b, (*Buffer).Close)
	return b, nil
}

// Close gives the memory back.
func (b *Buffer) Close() {
	C.free(b.p)
	b.p, b.n = nil, 0
	runtime.SetFinalizer(b, nil)
}

// Bytes is the memory itself.
func (b *Buffer) Bytes() []byte { return unsafe.Slice((*byte)(b.p), b.n) }

// Float32 is the memory as numbers.
func (b *Buffer) Float32() []float32 { return unsafe.Slice((*float32)(b.p), b.n/4) }

// Device is a device of the driver that the runtime's selection gives.
type Device struct{ p *C.quire_device }

// OpenDevice loads the driver.
func OpenDevice(rt *Runtime, ordinal uint32) (*Device, error) {
	d := &Device{}
	err := newError()
	code := C.quire_device_open(rt.p, C.uint32_t(ordinal), &d.p, &err)
	runtime.KeepAlive(rt)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(d, (*Device).Close)
	return d, nil
}

// Close drops the reference.
func (d *Device) Close() {
	C.quire_device_release(d.p)
	d.p = nil
	runtime.SetFinalizer(d, nil)
}

// DeviceInfo is what a device says of itself.
type DeviceInfo struct {
	Driver, Name string
	Type         int32
	Alignment    uint64
}

// Info answers the facts of the device.
func (d *Device) Info() (DeviceInfo, error) {
	var info C.quire_device_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := newError()
	code := C.quire_device_get_info(d.p, &info, &err)
	runtime.KeepAlive(d)
	return DeviceInfo{C.GoString(&info.driver[0]), C.GoString(&info.name[0]), int32(info.device_type), uint64(info.alignment)},
		failure(code, &err)
}

// Stream is an in-order queue. Its calls are serialized by the caller.
type Stream struct{ p *C.quire_stream }

// NewStream makes a queue of a device.
func NewStream(device *Device) (*Stream, error) {
	s := &Stream{}
	err := newError()
	code := C.quire_stream_create(device.p, 0, &s.p, &err)
	runtime.KeepAlive(device)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(s, (*Stream).Close)
	return s, nil
}

// Close waits for queued work and drops the reference.
func (s *Stream) Close() {
	C.quire_stream_release(s.p)
	s.p = nil
	runtime.SetFinalizer(s, nil)
}

// Synchronize waits until everything queued is done; -1 = for ever, 0 = not at all.
func (s *Stream) Synchronize(timeoutNs int64) error {
	err := newError()
	code := C.quire_stream_synchronize(s.p, C.int64_t(timeoutNs), &err)
	runtime.KeepAlive(s)
	return failure(code, &err)
}

// Tensor is a dense or strided tensor in a buffer; Stride in bytes, nil = dense.
type Tensor struct {
	Data   *Buffer
	Offset int // bytes into Data
	DType  DType
	Shape  []int64
	Stride []int64
}

func (t *Tensor) c() (C.quire_tensor, error) {
	var out C.quire_tensor
	if t.Data == nil {
		return out, nil
	}
	if len(t.Shape) > 5 || (t.Stride != nil && len(t.Stride) != len(t.Shape)) || t.Offset < 0 {
		return out, &Error{Code: InvalidArgument, Source: "go", Message: "tensor: more than 5 axes, strides of other length, or offset below 0"}
	}
	out.data = unsafe.Add(t.Data.p, t.Offset)
	out.dtype = t.DType.c()
	out.device_type = C.QUIRE_DEVICE_CPU
	out.ndim = C.int32_t(len(t.Shape))
	bytes := int64(t.DType.Bits) / 8
	last := int64(t.Offset) + bytes // the byte behind the last element
	for i := len(t.Shape) - 1; i >= 0; i-- {
		out.shape[i], out.stride[i] = C.int64_t(t.Shape[i]), C.int64_t(bytes)
		if t.Stride != nil {
			out.stride[i] = C.int64_t(t.Stride[i])
		}
		bytes *= t.Shape[i]
		last += (t.Shape[i] - 1) * int64(out.stride[i])
	}
	if bytes != 0 && last > int64(t.Data.n) {
		return out, &Error{Code: OutOfRange, Source: "go", Message: "tensor: reaches behind its buffer"}
	}
	return out, nil
}

// Fill queues filling of a buffer's bytes.
func (s *Stream) Fill(to *Buffer, value byte) error {
	err := newError()
	code := C.quire_op_fill(s.p, to.p, C.uint8_t(value), C.uint64_t(to.n), &err)
	runtime.KeepAlive(s)
	return failure(code, &err)
}

// Copy queues a copy of all bytes of one buffer to the start of another, which is no shorter.
func (s *Stream) Copy(from, to *Buffer) error {
	if from.n > to.n {
		return &Error{Code: OutOfRange, Source: "go", Message: "to: shorter than from"}
	}
	run := C.quire_copy_run{source: C.uint64_t(uintptr(from.p)), destination: C.uint64_t(uintptr(to.p)), bytes: C.uint64_t(from.n)}
	err := newError()
	code := C.quire_op_copy(s.p, &run, 1, &err)
	runtime.KeepAlive(s)
	return failure(code, &err)
}

// Memory is the bytes of one shard.
type Memory struct{ p *C.quire_memory }

// NewMemory takes the driver's bytes for a shard.
func NewMemory(device *Device, config *Config, shard uint32) (*Memory, error) {
	m := &Memory{}
	err := newError()
	code := C.quire_memory_create(device.p, config.p, C.uint32_t(shard), &m.p, &err)
	runtime.KeepAlive(device)
	runtime.KeepAlive(config)
	if code != C.QUIRE_OK {
		return nil, failure(code, &err)
	}
	runtime.SetFinalizer(m, (*Memory).Close)
	return m, nil
}

// Close drops the reference. Work that uses the bytes must be done.
func (m *Memory) Close() {
	C.quire_memory_release(m.p)
	m.p = nil
	runtime.SetFinalizer(m, nil)
}

// Cache of a layer as ops see it.
type PagedKV struct{ kv C.quire_paged_kv }

// PagedKV answers a layer's cache for the ops.
func (m *Memory) PagedKV(layer, sub uint32) (*PagedKV, error) {
	view := &PagedKV{}
	err := newError()
	code := C.quire_memory_get_paged_kv(m.p, C.uint32_t(layer), C.uint32_t(sub), &view.kv, &err)
	runtime.KeepAlive(m)
	return view, failure(code, &err)
}

// Append writes keys and values [tokens, heads, dim] into the slots of a step.
func (s *Stream) Append(kv *PagedKV, key, value Tensor, step *Batch, group int) error {
	var op C.quire_kv_append
	var wrong error
	op.struct_size = C.uint32_t(unsafe.Sizeof(op))
	op.kv = kv.kv
	if op.key, wrong = key.c(); wrong != nil {
		return wrong
	}
	if op.value, wrong = value.c(); wrong != nil {
		return wrong
	}
	op.slots, op.num_tokens = step.c.group[group].slots, C.uint64_t(step.NumTokens())
	err := newError()
	code := C.quire_op_kv_append(s.p, &op, &err)
	runtime.KeepAlive(s)
	return failure(code, &err)
}

// Attend runs causal attention of query [tokens, heads, dim] over the rows of a step into out.
func (s *Stream) Attend(kv *PagedKV, query, out Tensor, step *Batch, group int) error {
	var op C.quire_attention
	var wrong error
	op.struct_size = C.uint32_t(unsafe.Sizeof(op))
	op.flags = C.QUIRE_ATTENTION_CAUSAL
	op.kv = kv.kv
	if op.query, wrong = query.c(); wrong != nil {
		return wrong
	}
	if op.out, wrong = out.c(); wrong != nil {
		return wrong
	}
	op.table, op.table_pitch = step.c.group[group].table, step.c.group[group].pitch
	op.query_indptr, op.kv_len, op.num_rows = step.c.query_indptr, step.c.kv_len, C.uint32_t(step.NumRows())
	err := newError()
	code := C.quire_op_attention(s.p, &op, &err)
	runtime.KeepAlive(s)
	return failure(code, &err)
}

// Merge makes one result of partial ones: tensors [tokens, heads, dim] and natural logarithms [tokens, heads].
func (s *Stream) Merge(parts, lse []Tensor, out Tensor) error {
	n := len(parts)
	if n == 0 || len(lse) != n {
		return &Error{Code: InvalidArgument, Source: "go", Message: "parts: none, or another number than lse"}
	}
	bytes := C.size_t(unsafe.Sizeof(C.quire_tensor{}))
	all := C.calloc(C.size_t(2*n), bytes) // the op points to it, so it lies in C
	defer C.free(all)
	tensors := unsafe.Slice((*C.quire_tensor)(all), 2*n)
	var op C.quire_attention_merge
	var wrong error
	for i := range parts {
		if tensors[i], wrong = parts[i].c(); wrong != nil {
			return wrong
		}
		if tensors[n+i], wrong = lse[i].c(); wrong != nil {
			return wrong
		}
	}
	op.struct_size = C.uint32_t(unsafe.Sizeof(op))
	op.num_parts = C.uint32_t(n)
	op.partial_out, op.partial_lse = &tensors[0], &tensors[n]
	if op.out, wrong = out.c(); wrong != nil {
		return wrong
	}
	err := newError()
	code := C.quire_op_attention_merge(s.p, &op, &err)
	if code == C.QUIRE_OK { // the tensors above are borrowed until the op is done
		code = C.quire_stream_synchronize(s.p, -1, &err)
	}
	runtime.KeepAlive(s)
	return failure(code, &err)
}
