package quire

/*
#include <quire/quire.h>
#include <quire/connector.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Connector keeps objects elsewhere. Any goroutine may call it; one at a time polls, and one lists.
type Connector struct{ handle }

func (c *Connector) c() *C.quire_connector {
	if c == nil {
		return nil
	}
	return (*C.quire_connector)(c.p)
}

// OpenConnector loads the connector of a name (or an absolute path); config: its own settings as JSON text.
func OpenConnector(rt *Runtime, name, config string) (*Connector, error) {
	var a arena
	defer a.free()
	of, with := a.text(name), a.text(config)
	if err := a.missing(); err != nil {
		return nil, err
	}
	var p *C.quire_connector
	err := call(func(err *C.quire_error) C.quire_code { return C.quire_connector_open(rt.c(), of, with, &p, err) })
	runtime.KeepAlive(rt)
	if err != nil {
		return nil, err
	}
	c := &Connector{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(c, (*Connector).Close)
	return c, nil
}

// Close drops the reference. The last one cancels what is in flight and returns when nothing of it is touched any more.
func (c *Connector) Close() {
	if c == nil {
		return
	}
	C.quire_connector_release((*C.quire_connector)(c.take()))
	runtime.SetFinalizer(c, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (c *Connector) Share() *Connector {
	shared := &Connector{handle{unsafe.Pointer(C.quire_connector_retain(c.c()))}}
	runtime.KeepAlive(c)
	runtime.SetFinalizer(shared, (*Connector).Close)
	return shared
}

func (c *Connector) ask(body func(c *C.quire_connector, err *C.quire_error) C.quire_code) error {
	err := call(func(err *C.quire_error) C.quire_code { return body(c.c(), err) })
	runtime.KeepAlive(c)
	return err
}

// Info answers what it can do.
func (c *Connector) Info() (info ConnectorInfo, err error) {
	info.structSize = uint32(unsafe.Sizeof(info))
	err = c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_get_info(c, (*C.quire_connector_info)(unsafe.Pointer(&info)), err)
	})
	return info, err
}

// Stats answers its tickets since it was opened.
func (c *Connector) Stats() (stats ConnectorStats, err error) {
	stats.structSize = uint32(unsafe.Sizeof(stats))
	err = c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_get_stats(c, (*C.quire_connector_stats)(unsafe.Pointer(&stats)), err)
	})
	return stats, err
}

// Health asks the connector how it is.
func (c *Connector) Health() (health ConnectorHealth, err error) {
	health.structSize = uint32(unsafe.Sizeof(health))
	err = c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_get_health(c, (*C.quire_connector_health)(unsafe.Pointer(&health)), err)
	})
	return health, err
}

// Fd answers a file descriptor for poll(2) or epoll(7), readable while completions wait. It is the connector's: neither read nor close it.
func (c *Connector) Fd() (int, error) {
	var fd C.int32_t
	err := c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_get_fd(c, &fd, err)
	})
	return int(fd), err
}

// List writes objects that the connector has to items, and their keys to keys. It answers how many, and where to go on: cursor is 0 at first,
// and next is 0 after the last ones.
func (c *Connector) List(cursor uint64, items []ObjectEntry, keys []byte) (n int, next uint64, err error) {
	at, count := C.uint64_t(cursor), C.uint64_t(0)
	err = c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_list(c, &at, (*C.quire_object_entry)(first(items)), C.uint64_t(len(items)), &count,
			(*C.uint8_t)(first(keys)), C.uint64_t(len(keys)), err)
	})
	return int(count), uint64(at), err
}

// Run is a run of a ticket in a buffer, of one piece at the object's first byte; the buffer must live until the ticket's completion was polled.
// Bytes beyond the buffer are cut off.
func (b *Buffer) Run(offset, bytes int) TicketRun {
	if offset < 0 || offset > b.Len() || bytes < 0 {
		return TicketRun{}
	}
	if bytes > b.Len()-offset {
		bytes = b.Len() - offset
	}
	return TicketRun{Address: uint64(uintptr(unsafe.Add(b.address(), offset))), Bytes: uint64(bytes), Count: 1}
}

// Runs is Run for count pieces that lie stride bytes apart; in the object one follows the other. It is empty where a piece leaves the buffer.
func (b *Buffer) Runs(offset, bytes, count, stride int) TicketRun {
	limit, step := b.Len(), stride
	if step < 0 {
		step = -step
	}
	if offset < 0 || bytes < 0 || count < 1 || step < 0 || offset > limit || bytes > limit-offset {
		return TicketRun{}
	}
	room := limit - offset - bytes // behind the first piece, or before it
	if stride < 0 {
		room = offset
	}
	if count > 1 && step > room/(count-1) {
		return TicketRun{}
	}
	run := b.Run(offset, bytes)
	run.Count, run.Stride, run.ObjectStride = uint64(count), int64(stride), int64(bytes)
	return run
}

// Sizes is where a look-up of n keys writes: n numbers of 8 bytes, from offset on. 0 where they do not fit; Submit refuses that.
func (b *Buffer) Sizes(offset, n int) uint64 {
	if offset < 0 || n < 1 || offset%8 != 0 || offset > b.Len() || n > (b.Len()-offset)/8 {
		return 0
	}
	at := uint64(uintptr(unsafe.Add(b.address(), offset)))
	runtime.KeepAlive(b)
	return at
}

// Submit submits tickets, whose runs and keys lie in runs and keys; it answers how many of the first were taken, also with an error: poll, then
// submit the rest. The bytes of an accepted ticket and its sizes are the connector's until its completion was polled.
func (c *Connector) Submit(tickets []Ticket, runs []TicketRun, keys []byte) (int, error) {
	var accepted C.uint64_t
	err := c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_submit(c, (*C.quire_ticket)(first(tickets)), C.uint64_t(len(tickets)), (*C.quire_ticket_run)(first(runs)),
			C.uint64_t(len(runs)), (*C.uint8_t)(first(keys)), C.uint64_t(len(keys)), &accepted, err)
	})
	return int(accepted), err
}

// Poll answers how many completions it wrote; it waits up to timeoutNs for the first: 0 = not at all, -1 = for ever.
func (c *Connector) Poll(timeoutNs int64, items []Completion) (int, error) {
	var count C.uint64_t
	err := c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_poll(c, C.int64_t(timeoutNs), (*C.quire_completion)(first(items)), C.uint64_t(len(items)), &count, err)
	})
	return int(count), err
}

// Cancel asks for an early end of a ticket; its completion still comes.
func (c *Connector) Cancel(ticket uint64) error {
	return c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_cancel(c, C.uint64_t(ticket), err)
	})
}

// RegisterBuffer registers bytes that runs will name by the region that it answers. The buffer must outlive the registration.
func (c *Connector) RegisterBuffer(b *Buffer) (uint64, error) {
	region, err := c.Register(b.address(), uint64(b.Len()), DeviceCPU, 0)
	runtime.KeepAlive(b)
	return region, err
}

// Register is RegisterBuffer for other bytes, such as Memory.Region's.
func (c *Connector) Register(address unsafe.Pointer, bytes uint64, deviceType, deviceID int32) (uint64, error) {
	var region C.uint64_t
	err := c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_register_region(c, address, C.uint64_t(bytes), C.int32_t(deviceType), C.int32_t(deviceID), &region, err)
	})
	return uint64(region), err
}

// Unregister ends a registration.
func (c *Connector) Unregister(region uint64) error {
	return c.ask(func(c *C.quire_connector, err *C.quire_error) C.quire_code {
		return C.quire_connector_unregister_region(c, C.uint64_t(region), err)
	})
}
