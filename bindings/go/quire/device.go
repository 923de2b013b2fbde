package quire

/*
#include <quire/quire.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Buffer is zeroed memory of C: what ops and tables point to may not be Go's, since a driver reads it after the call. Only Close gives it
// back: its slices stay valid until then. Close it when no op uses it any more.
type Buffer struct {
	handle
	at, n int // first byte behind the address that is freed, and how many
}

const maxBuffer = 1 << 46 // bytes

// NewBuffer takes bytes, aligned to 4096.
func NewBuffer(bytes int) (*Buffer, error) {
	if bytes < 0 || bytes > maxBuffer {
		return nil, refuse(InvalidArgument, "bytes: below 0, or more than any host has")
	}
	p := allocate(bytes + 4096) // what is large is zero without being touched
	if p == nil {
		return nil, refuse(ResourceExhausted, "bytes: no host memory of that size")
	}
	return &Buffer{handle{p}, int(-uintptr(p) % 4096), bytes}, nil
}

// Close gives the memory back.
func (b *Buffer) Close() {
	if b != nil {
		C.free(b.take())
	}
}

func (b *Buffer) address() unsafe.Pointer {
	if b == nil || b.p == nil {
		return nil
	}
	return unsafe.Add(b.p, b.at)
}

// Len is its size in bytes; 0 when it was closed.
func (b *Buffer) Len() int {
	if b == nil || b.p == nil {
		return 0
	}
	return b.n
}

// Bytes is the memory itself.
func (b *Buffer) Bytes() []byte { return unsafe.Slice((*byte)(b.address()), b.Len()) }

// Float32 is the memory as numbers, and so are the next ones.
func (b *Buffer) Float32() []float32 { return unsafe.Slice((*float32)(b.address()), b.Len()/4) }

// Uint16 is for types of 16 bits, such as bfloat16.
func (b *Buffer) Uint16() []uint16 { return unsafe.Slice((*uint16)(b.address()), b.Len()/2) }

// Int32 is for tables.
func (b *Buffer) Int32() []int32 { return unsafe.Slice((*int32)(b.address()), b.Len()/4) }

// Int64 is for slots.
func (b *Buffer) Int64() []int64 { return unsafe.Slice((*int64)(b.address()), b.Len()/8) }

// Device is a device of the driver that the runtime's selection gives. Any goroutine.
type Device struct{ handle }

func (d *Device) c() *C.quire_device {
	if d == nil {
		return nil
	}
	return (*C.quire_device)(d.p)
}

// OpenDevice loads the driver.
func OpenDevice(rt *Runtime, ordinal uint32) (*Device, error) {
	var p *C.quire_device
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_device_open(rt.c(), C.uint32_t(ordinal), &p, err)
	})
	runtime.KeepAlive(rt)
	if err != nil {
		return nil, err
	}
	d := &Device{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(d, (*Device).Close)
	return d, nil
}

// Close drops the reference.
func (d *Device) Close() {
	if d == nil {
		return
	}
	C.quire_device_release((*C.quire_device)(d.take()))
	runtime.SetFinalizer(d, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (d *Device) Share() *Device {
	shared := &Device{handle{unsafe.Pointer(C.quire_device_retain(d.c()))}}
	runtime.KeepAlive(d)
	runtime.SetFinalizer(shared, (*Device).Close)
	return shared
}

// Info answers the facts of the device.
func (d *Device) Info() (info DeviceInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = call(func(err *C.quire_error) C.quire_code {
		return C.quire_device_get_info(d.c(), (*C.quire_device_info)(unsafe.Pointer(&info)), err)
	})
	runtime.KeepAlive(d)
	return info, err
}

// Which device it is: two references to one device have the same place.
type place struct {
	driver   Text32
	kind, id int32
}

func (d *Device) place() (place, error) {
	info, err := d.Info()
	return place{info.Driver, info.DeviceType, info.DeviceID}, err
}

// The place of a stream, which must be that of the memory that it works on.
func (p place) same(memory place) error {
	if p == memory {
		return nil
	}
	return refuse(InvalidArgument, fmt.Sprintf("stream: of device %v %d of kind %d, the memory is of device %v %d of kind %d", p.driver, p.id,
		p.kind, memory.driver, memory.id, memory.kind))
}

func (s *Stream) c() *C.quire_stream {
	if s == nil {
		return nil
	}
	return (*C.quire_stream)(s.p)
}

// NewStream makes a queue of a device.
func NewStream(device *Device) (*Stream, error) { return makeStream(device, 0) }

// ImportStream takes a CUstream or hipStream_t of the engine, which stays the engine's. 0, the default stream of CUDA, cannot be imported.
func ImportStream(device *Device, native uint64) (*Stream, error) {
	if native == 0 {
		return nil, refuse(InvalidArgument, "native: 0 is no stream to import; NewStream makes one")
	}
	return makeStream(device, native)
}

func makeStream(device *Device, native uint64) (*Stream, error) {
	at, err := device.place()
	if err != nil {
		return nil, err
	}
	var p *C.quire_stream
	err = call(func(err *C.quire_error) C.quire_code {
		return C.quire_stream_create(device.c(), C.uint64_t(native), &p, err)
	})
	runtime.KeepAlive(device)
	if err != nil {
		return nil, err
	}
	s := newStream(p, at, &holding{set: map[unsafe.Pointer]struct{}{}})
	if s.calls == nil {
		return nil, refuse(ResourceExhausted, "no host memory for a stream")
	}
	return s, nil
}

// Close drops the reference; the last one waits for queued work.
func (s *Stream) Close() {
	if s == nil {
		return
	}
	if p := s.take(); p != nil {
		C.quire_stream_release((*C.quire_stream)(p))
		s.held = nil
	}
}

// Share takes another reference to the same object, with a Close of its own; calls of both are serialized as of one.
func (s *Stream) Share() *Stream {
	if s == nil {
		return newStream(nil, place{}, nil)
	}
	shared := newStream(C.quire_stream_retain(s.c()), s.at, s.held)
	runtime.KeepAlive(s)
	return shared
}

// Fill queues filling of a buffer's bytes.
func (s *Stream) Fill(to *Buffer, value byte) error {
	s.hold(unsafe.Pointer(to))
	return s.queue(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		return C.quire_op_fill(s, to.address(), C.uint8_t(value), C.uint64_t(to.Len()), err)
	})
}

// Copy queues a copy of all bytes of one buffer to the start of another, which is no shorter.
func (s *Stream) Copy(from, to *Buffer) error {
	return s.CopyRuns([]CopyRun{{from, 0, to, 0, from.Len()}})
}

// CopyRun is one run of bytes from one buffer to another.
type CopyRun struct {
	From   *Buffer // source
	FromAt int     // bytes into From
	To     *Buffer // destination
	ToAt   int     // bytes into To
	Bytes  int     // how many
}

// CopyRuns copies bytes between buffers, and waits for it: the runs are borrowed until then.
func (s *Stream) CopyRuns(runs []CopyRun) error {
	all := make([]C.quire_copy_run, len(runs))
	for i, r := range runs {
		if r.FromAt < 0 || r.ToAt < 0 || r.Bytes < 0 || r.Bytes > r.From.Len()-r.FromAt || r.Bytes > r.To.Len()-r.ToAt {
			return refuse(OutOfRange, "runs: outside of a buffer")
		}
		s.hold(unsafe.Pointer(r.From), unsafe.Pointer(r.To))
		all[i].source = C.uint64_t(uintptr(unsafe.Add(r.From.address(), r.FromAt)))
		all[i].destination, all[i].bytes = C.uint64_t(uintptr(unsafe.Add(r.To.address(), r.ToAt))), C.uint64_t(r.Bytes)
	}
	var a arena
	defer a.free()
	from := copied(&a, all)
	if err := a.missing(); err != nil {
		return err
	}
	return s.wait(func(s *C.quire_stream, err *C.quire_error) C.quire_code {
		return C.quire_op_copy(s, from, C.uint64_t(len(all)), err)
	})
}
