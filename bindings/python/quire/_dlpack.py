"""Tensors that go in and come out as DLPack capsules, without a copy."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

import numpy as np

from ._core import NULL, CData, DType, Error, dtype_of, ffi
from ._numbers import Code, DeviceType

_VERSIONED = b"dltensor_versioned"
_LEGACY = b"dltensor"
READ_ONLY = 1

_api = ctypes.pythonapi
_new_capsule = _api.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_raw_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))


# Both functions that C calls live as long as the process, with all that they need in their defaults: capsules and tensors of others
# may outlive the modules of the interpreter.
@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _unused(capsule: int, is_valid: Any = _raw_is_valid, pointer_of: Any = _raw_pointer_of, cast: Any = ffi.cast, null: Any = NULL,
            kinds: Any = ((_VERSIONED, "struct DLManagedTensorVersioned *"), (_LEGACY, "struct DLManagedTensor *"))) -> None:
    """Destructor of a capsule: a tensor that nobody took is given back."""
    for name, kind in kinds:
        if is_valid(capsule, name):
            tensor = cast(kind, pointer_of(capsule, name))
            if tensor.deleter != null:
                tensor.deleter(tensor)


_api.Py_IncRef(ctypes.py_object(_unused))
_UNUSED = ctypes.cast(_unused, ctypes.c_void_p).value

_lent: dict[int, Any] = {}


@ffi.callback("void(struct DLManagedTensorVersioned *)")
def _returned(tensor: CData, lent: dict[int, Any] = _lent, cast: Any = ffi.cast) -> None:
    lent.pop(int(cast("uintptr_t", tensor)), None)


_api.Py_IncRef(ctypes.py_object(_returned))


def lend(owner: Any, address: int, dtype: DType, shape: Sequence[int], strides: Optional[Sequence[int]], device_type: int, device_id: int,
         read_only: bool) -> CData:
    """A DLManagedTensorVersioned over bytes of `owner`, which it keeps until its deleter is called.
    strides: elements; None = dense.
    """
    made = ffi.new("struct DLManagedTensorVersioned *")
    sizes = ffi.new("int64_t[]", max(len(shape), 1))
    steps = ffi.new("int64_t[]", max(len(shape), 1))
    step = 1
    for i in reversed(range(len(shape))):
        sizes[i] = shape[i]
        steps[i] = step if strides is None else strides[i]
        step *= shape[i]
    made.major, made.minor = 1, 0
    made.flags = READ_ONLY if read_only else 0
    made.deleter = _returned
    view = made.dl_tensor
    view.data = ffi.cast("void *", address)
    view.device_type, view.device_id, view.ndim = device_type, device_id, len(shape)
    view.dtype.code, view.dtype.bits, view.dtype.lanes = dtype.code, dtype.bits, max(dtype.lanes, 1)
    view.shape, view.strides = sizes, steps
    _lent[int(ffi.cast("uintptr_t", made))] = (made, sizes, steps, owner)
    return made


def lend_array(array: Any, read_only: bool = False) -> CData:
    """`lend` for an array of NumPy: whatever its version, read-only ones included."""
    dtype = dtype_of(array.dtype)
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise Error(Code.NOT_REPRESENTABLE, f"strides {array.strides} are no multiples of {size} bytes: DLPack counts elements")
    interface = array.__array_interface__
    return lend(array, interface["data"][0], dtype, array.shape, [stride // size for stride in array.strides], DeviceType.CPU, 0,
                read_only or interface["data"][1])


def give_back(tensor: CData) -> None:
    """Ends a tensor that was lent and that nobody took."""
    tensor.deleter(tensor)


def capsule_of(tensor: CData, versioned: bool) -> Any:
    """A capsule that owns the tensor until a consumer takes it."""
    return _new_capsule(int(ffi.cast("uintptr_t", tensor)), _VERSIONED if versioned else _LEGACY, _UNUSED)


def foreign(tensor: Any) -> tuple[Any, CData, bool]:
    """(capsule, managed tensor, whether it is versioned) of an object with __dlpack__. The capsule
    owns it until `taken`.
    """
    try:
        capsule = tensor.__dlpack__(max_version=(1, 0))
    except TypeError:  # before DLPack 1.0
        capsule = tensor.__dlpack__()
    if _is_valid(capsule, _VERSIONED):
        return capsule, ffi.cast("struct DLManagedTensorVersioned *", _pointer_of(capsule, _VERSIONED)), True
    if _is_valid(capsule, _LEGACY):
        return capsule, ffi.cast("struct DLManagedTensor *", _pointer_of(capsule, _LEGACY)), False
    raise TypeError(f"__dlpack__ of {type(tensor).__name__} gave no tensor that nobody took")


_USED = {True: ctypes.c_char_p(b"used_dltensor_versioned"), False: ctypes.c_char_p(b"used_dltensor")}


def taken(capsule: Any, versioned: bool) -> None:
    """Says that somebody else owns the tensor of a capsule now."""
    _set_name(capsule, _USED[versioned])


class Taker:
    """quire_dlpack structs of tensors that a call takes over if it succeeds."""

    def __init__(self, tensors: Sequence[Any], read_only: bool = False) -> None:
        self.structs = ffi.new("quire_dlpack[]", max(len(tensors), 1))
        self.capsules: list[tuple[Any, bool]] = []
        self.lent: list[CData] = []
        for i, tensor in enumerate(tensors):
            if isinstance(tensor, np.ndarray):
                self.lent.append(lend_array(tensor))
                self.structs[i].versioned = self.lent[-1]
            elif hasattr(tensor, "__dlpack__"):
                capsule, managed, versioned = foreign(tensor)
                self.capsules.append((capsule, versioned))
                if versioned:
                    self.structs[i].versioned = managed
                else:
                    self.structs[i].legacy = managed
            else:
                self.refused()
                raise TypeError(f"a tensor must have __dlpack__, which {type(tensor).__name__} lacks")

    def took(self) -> None:
        for capsule, versioned in self.capsules:
            taken(capsule, versioned)

    def refused(self) -> None:
        for tensor in self.lent:
            give_back(tensor)
