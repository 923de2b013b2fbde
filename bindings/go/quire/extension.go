package quire

// #include <quire/quire.h>
import "C"

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// OpInfo is what a module says of an op.
type OpInfo struct {
	Name, Signature, Doc string // Signature: how its arguments are written; Doc: one line
	Version, Flags, Args uint32 // Flags: ExtensionNative, ExtensionPacked; Args: what callers pass
}

func opInfoOf(i *C.quire_extension_info) OpInfo {
	return OpInfo{lasting(i.name), lasting(i.signature), lasting(i.doc), uint32(i.version), uint32(i.flags), uint32(i.num_args)}
}

// Op is an op that a module publishes by name.
type Op struct{ handle }

func (o *Op) c() *C.quire_extension {
	if o == nil {
		return nil
	}
	return (*C.quire_extension)(o.p)
}

// Ops lists those of the runtime's driver, or of a connector by name.
func (r *Runtime) Ops(connector string) ([]OpInfo, error) {
	var a arena
	defer a.free()
	name, stride := a.text(connector), C.uint64_t(unsafe.Sizeof(C.quire_extension_info{}))
	if err := a.missing(); err != nil {
		return nil, err
	}
	all, err := list(C.quire_extension_info{struct_size: C.uint32_t(stride)}, func(items *C.quire_extension_info, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_extension_list(r.c(), name, items, stride, n, count, err)
	})
	runtime.KeepAlive(r)
	ops := make([]OpInfo, len(all))
	for i := range all {
		ops[i] = opInfoOf(&all[i])
	}
	return ops, err
}

// FindOp finds an op by name in the runtime's driver, or in a connector. minVersion 0 = any; form ExtensionNative or ExtensionPacked insists on one.
func (r *Runtime) FindOp(connector, name string, minVersion, form uint32) (*Op, error) {
	var a arena
	defer a.free()
	in, of := a.text(connector), a.text(name)
	if err := a.missing(); err != nil {
		return nil, err
	}
	var p *C.quire_extension
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_extension_find(r.c(), in, of, C.uint32_t(minVersion), C.uint32_t(form), &p, err)
	})
	runtime.KeepAlive(r)
	if err != nil {
		return nil, err
	}
	o := &Op{handle{unsafe.Pointer(p)}}
	runtime.SetFinalizer(o, (*Op).Close)
	return o, nil
}

// Close drops the reference.
func (o *Op) Close() {
	if o == nil {
		return
	}
	C.quire_extension_release((*C.quire_extension)(o.take()))
	runtime.SetFinalizer(o, nil)
}

// Share takes another reference to the same object, with a Close of its own.
func (o *Op) Share() *Op {
	shared := &Op{handle{unsafe.Pointer(C.quire_extension_retain(o.c()))}}
	runtime.KeepAlive(o)
	runtime.SetFinalizer(shared, (*Op).Close)
	return shared
}

// Info answers name, version and signature.
func (o *Op) Info() (OpInfo, error) {
	var info C.quire_extension_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	err := call(func(err *C.quire_error) C.quire_code { return C.quire_extension_get_info(o.c(), &info, err) })
	if err != nil {
		return OpInfo{}, err
	}
	made := opInfoOf(&info)
	runtime.KeepAlive(o)
	return made, nil
}

func valueOf(arg any, a *arena) (C.quire_value, error) {
	var v C.quire_value
	address := func(p unsafe.Pointer) C.uint64_t { return C.uint64_t(uintptr(p)) }
	switch x := arg.(type) {
	case int32:
		v._type, v.bits = C.QUIRE_VALUE_I32, C.uint64_t(uint32(x))
	case int64:
		v._type, v.bits = C.QUIRE_VALUE_I64, C.uint64_t(x)
	case uint32:
		v._type, v.bits = C.QUIRE_VALUE_U32, C.uint64_t(x)
	case uint64:
		v._type, v.bits = C.QUIRE_VALUE_U64, C.uint64_t(x)
	case float32:
		v._type, v.bits = C.QUIRE_VALUE_F32, C.uint64_t(math.Float32bits(x))
	case float64:
		v._type, v.bits = C.QUIRE_VALUE_F64, C.uint64_t(math.Float64bits(x))
	case string:
		text := (*C.quire_str)(a.take(int(unsafe.Sizeof(C.quire_str{}))))
		if text == nil {
			return v, a.missing()
		}
		*text = a.text(x)
		v._type, v.bits = C.QUIRE_VALUE_STR, address(unsafe.Pointer(text))
	case *Buffer:
		v._type, v.bits = C.QUIRE_VALUE_POINTER, address(x.address())
	case *Stream:
		v._type, v.bits = C.QUIRE_VALUE_STREAM, address(unsafe.Pointer(x.c()))
	case *Tensor:
		if x == nil {
			return v, refuse(InvalidArgument, "args: a tensor is nil")
		}
		tensor, err := x.c()
		if err != nil {
			return v, err
		}
		to := (*C.quire_tensor)(a.take(int(unsafe.Sizeof(tensor))))
		if to == nil {
			return v, a.missing()
		}
		*to = tensor
		v._type, v.bits = C.QUIRE_VALUE_TENSOR, address(unsafe.Pointer(to))
	default:
		return v, refuse(InvalidArgument, fmt.Sprintf("args: %T is no type of ops", arg))
	}
	return v, nil
}

// The streams among the arguments hold the others.
func holdFor(args []any) {
	for _, arg := range args {
		s, _ := arg.(*Stream)
		for _, other := range args {
			switch x := other.(type) {
			case *Buffer:
				s.hold(unsafe.Pointer(x))
			case *Tensor:
				s.holdTensor(x)
			}
		}
	}
}

// Invoke calls the op. Arguments are int32, int64, uint32, uint64, float32, float64, string, *Buffer, *Tensor and *Stream; what an op that is
// queued on a Stream of the arguments reads stays reachable until that was synchronized. The result is nil, a number, or an unsafe.Pointer.
func (o *Op) Invoke(args ...any) (any, error) {
	var a arena
	defer a.free()
	values := make([]C.quire_value, len(args))
	for i, arg := range args {
		var err error
		if values[i], err = valueOf(arg, &a); err != nil {
			return nil, err
		}
	}
	if err := a.missing(); err != nil {
		return nil, err
	}
	holdFor(args)
	var result C.quire_value
	err := call(func(err *C.quire_error) C.quire_code {
		return C.quire_extension_call(o.c(), (*C.quire_value)(first(values)), C.uint64_t(len(values)), &result, err)
	})
	runtime.KeepAlive(o)
	runtime.KeepAlive(args)
	if err != nil {
		return nil, err
	}
	switch bits := uint64(result.bits); result._type {
	case C.QUIRE_VALUE_I32:
		return int32(bits), nil
	case C.QUIRE_VALUE_I64:
		return int64(bits), nil
	case C.QUIRE_VALUE_U32:
		return uint32(bits), nil
	case C.QUIRE_VALUE_U64:
		return bits, nil
	case C.QUIRE_VALUE_F32:
		return math.Float32frombits(uint32(bits)), nil
	case C.QUIRE_VALUE_F64:
		return math.Float64frombits(bits), nil
	case C.QUIRE_VALUE_POINTER:
		return *(*unsafe.Pointer)(unsafe.Pointer(&result.bits)), nil
	case C.QUIRE_VALUE_VOID:
		return nil, nil
	default:
		return nil, refuse(Internal, fmt.Sprintf("the op answered a value of type %d", int32(result._type)))
	}
}
