"""The library, its errors, and what all objects have in common."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable, ClassVar, Mapping, NamedTuple, NoReturn, Optional, TypeVar, Union

import numpy as np

from ._abi import ffi as ffi  # here for all modules
from ._numbers import ABI_VERSION, Code

NULL = ffi.NULL
CData = Any  # what cffi makes; it has no types of its own
Array = np.ndarray[Any, Any]
T = TypeVar("T", bound="Owned")


class Error(Exception):
    """A call of quire failed. Nothing has changed, unless the method says otherwise.

    - code: a `Code`; compare with it: `error.code == quire.Code.NOT_FOUND`
    - message: one line that names argument, value and limit
    - source: who says so: "library", "driver:cpu", "connector:file", ..., or "python"
    - native_code, native_domain: errno, CUresult, ... (0 = none), and what kind it is
    """

    def __init__(self, code: int, message: str, source: str = "python", native_code: int = 0, native_domain: int = 0) -> None:
        self.code = Code(code) if code in _CODES else Code.UNKNOWN
        self.message = message
        self.source = source
        self.native_code = native_code
        self.native_domain = native_domain
        super().__init__(f"{self.code.name}: {message}")

    def __reduce__(self) -> Any:
        return Error, (int(self.code), self.message, self.source, self.native_code, self.native_domain)


_CODES = {int(code) for code in Code}


def _find_library() -> str:
    """QUIRE_LIBRARY, else the wheel's own, else what the dynamic linker finds."""
    named = os.environ.get("QUIRE_LIBRARY")
    if named:
        return named
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libquire.so.0")
    return own if os.path.exists(own) else "libquire.so.0"


def _open_library() -> Any:
    path = _find_library()
    try:
        # Never unmapped: objects that outlive the interpreter's modules still release what they hold.
        opened = ffi.dlopen(path, ffi.RTLD_NOW | getattr(ffi, "RTLD_NODELETE", 0))
    except OSError as error:
        raise ImportError(f"quire: {error}; QUIRE_LIBRARY names another libquire.so.0") from None
    version = opened.quire_abi_version()
    if version != ABI_VERSION:
        raise ImportError(f"quire: {path} has ABI {version >> 16}.{version & 0xffff}, this package is of "
                          f"{ABI_VERSION >> 16}.{ABI_VERSION & 0xffff}")
    return opened


library_path = _find_library()
lib = _open_library()
_per_thread = threading.local()


def error_struct() -> CData:
    """The quire_error of this thread, which calls fill."""
    try:
        return _per_thread.error
    except AttributeError:
        _per_thread.error = made = ffi.new("quire_error *")
        made.struct_size = ffi.sizeof("quire_error")
        return made


def fail(code: int, error: CData) -> NoReturn:
    """Raises what a call has put into `error`."""
    raise Error(code, text(error.message), text(error.source) or "library", error.native_code, error.native_domain)


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function of the library whose last argument is the error; raises Error."""
    error = error_struct()
    code = function(*arguments, error)
    if code:
        fail(code, error)


def closed(what: str) -> Error:
    return Error(Code.FAILED_PRECONDITION, f"this {what} is closed")


def text(characters: CData) -> str:
    """The text of a char[N] that ends with NUL."""
    return bytes(ffi.string(characters)).decode("utf-8", "replace")


def str_of(value: CData) -> str:
    """The text of a quire_str."""
    return ffi.unpack(value.data, value.len).decode("utf-8", "replace") if value.len else ""


class Kept:
    """Memory that a struct points to, kept as long as this object."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def bytes_at(self, destination: CData, value: Union[str, bytes]) -> None:
        """Sets a quire_str."""
        data = value.encode() if isinstance(value, str) else bytes(value)
        held = ffi.new("char[]", data)
        self.items.append(held)
        destination.data = held
        destination.len = len(data)

    def text(self, value: Union[str, bytes]) -> CData:
        """A quire_str."""
        made = ffi.new("quire_str *")
        self.bytes_at(made, value)
        self.items.append(made)
        return made[0]

    def array(self, kind: str, values: Any) -> CData:
        """A C array of `values`."""
        made = ffi.new(kind, values)
        self.items.append(made)
        return made


def struct(kind: str) -> CData:
    """A zeroed struct with its struct_size."""
    made = ffi.new(kind + " *")
    made.struct_size = ffi.sizeof(kind)
    return made


def two_calls(function: Callable[..., int], kind: str, *arguments: Any, make: Callable[[CData], Any] = bytes) -> Any:
    """The items of a two-call array, each as `make` makes it: arguments, then (items, capacity,
    count, error). Characters are bytes.
    """
    count = ffi.new("uint64_t *")
    error = error_struct()
    capacity = 0
    items = ffi.new(f"{kind}[]", 0)
    while True:
        code = function(*arguments, items, capacity, count, error)
        if count[0] <= capacity:
            if code:
                fail(code, error)
            return ffi.unpack(items, count[0]) if kind == "char" else [make(items[i]) for i in range(count[0])]
        if code and code != Code.OUT_OF_RANGE:
            fail(code, error)
        capacity = count[0]
        items = ffi.new(f"{kind}[]", capacity)


class DType(NamedTuple):
    """An element type, in the numbers of DLPack. `dtype_of` makes it from a name:
    `dtype_of("bf16")`.
    """

    code: int
    bits: int
    lanes: int = 1

    def __str__(self) -> str:
        for name, kind in _NAMES.items():
            if kind == self:
                return name
        return "none" if self.bits == 0 else f"dtype({self.code}, {self.bits}, {self.lanes})"

    @property
    def itemsize(self) -> int:
        """Bytes of an element; 0 below 8 bits."""
        return self.bits * max(self.lanes, 1) // 8

    @property
    def numpy(self) -> Optional[np.dtype[Any]]:
        """The dtype of NumPy; None where NumPy lacks the type (bf16, fp8, fp4)."""
        return _NUMPY.get(self[:2]) if self.lanes <= 1 else None


_NAMES = {
    "float32": DType(2, 32), "float16": DType(2, 16), "float64": DType(2, 64), "bfloat16": DType(4, 16),
    "float8_e4m3fn": DType(10, 8), "float8_e5m2": DType(12, 8), "float8_e8m0fnu": DType(14, 8), "float4_e2m1fn": DType(17, 4),
    "int8": DType(0, 8), "int16": DType(0, 16), "int32": DType(0, 32), "int64": DType(0, 64),
    "uint8": DType(1, 8), "uint16": DType(1, 16), "uint32": DType(1, 32), "uint64": DType(1, 64), "int4": DType(0, 4),
}
_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn",
          "fp8_e5m2": "float8_e5m2", "fp4": "float4_e2m1fn", "half": "float16"}
_NUMPY = {kind[:2]: np.dtype(name) for name, kind in _NAMES.items() if hasattr(np, name) and kind.code <= 2 and kind.bits >= 8}


def dtype_of(kind: Any) -> DType:
    """The DType of a name ("bf16", "float8_e4m3fn", ...), of a dtype of NumPy or torch, or of a
    DType.
    """
    if isinstance(kind, DType):
        return kind
    name = kind if isinstance(kind, str) else str(kind).replace("torch.", "")
    name = _SHORT.get(name, name)
    if name not in _NAMES:
        try:
            name = np.dtype(kind).name
        except TypeError:
            name = ""
    if name not in _NAMES:
        raise TypeError(f"dtype {kind!r} is unknown (known: {', '.join([*_NAMES, *_SHORT])})")
    return _NAMES[name]


def set_dtype(destination: CData, kind: Any) -> None:
    if kind is not None:
        made = dtype_of(kind)
        destination.code, destination.bits, destination.lanes = made.code, made.bits, made.lanes


def get_dtype(value: CData) -> DType:
    return DType(value.code, value.bits, value.lanes or (1 if value.bits else 0))


def _name(kind: Any) -> str:
    return str(kind.cname).removeprefix("struct ")


class Info:
    """What a call answered: attributes, which do not change any more."""

    _struct: ClassVar[str]
    _enums: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, answer: CData) -> None:
        for name, field in ffi.typeof(self._struct).fields:
            if name != "struct_size" and not name.startswith("reserved"):
                self.__dict__[name] = self._value(name, field.type, getattr(answer, name))

    def _value(self, name: str, kind: Any, value: Any) -> Any:
        if kind.kind == "array":
            if kind.item.cname == "uint8_t":
                return bytes(value)
            return text(value) if kind.item.cname == "char" else tuple(value)
        if kind.kind == "struct":
            name = _name(kind)
            if name == "quire_dtype":
                return get_dtype(value)
            if name == "quire_str":
                return str_of(value)
            return next(c for c in Info.__subclasses__() if c._struct == name)(value)
        if name in self._enums:
            try:
                return self._enums[name](value)
            except ValueError:  # of a newer library
                return value
        return value

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is an answer: it does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.__dict__])


class Owned:
    """An object of the library. `close()` gives it up, as do `with` and the garbage collector;
    other objects that need it keep it.
    """

    _handle: Optional[CData]

    def _own(self, pointer: CData, release: Callable[[CData], None]) -> None:
        # The reference is dropped when the last user of the handle is gone: a call in another thread is one.
        self._handle = ffi.gc(pointer, release)

    @property
    def _pointer(self) -> CData:
        handle = self._handle
        if handle is None:
            raise closed(type(self).__name__)
        return handle

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle is None

    def close(self) -> None:
        """Gives the object up; calling it again does nothing. Other calls raise
        `FAILED_PRECONDITION` from now on.
        """
        self._handle = None

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<quire.{type(self).__name__}{' (closed)' if self._handle is None else ''}>"


def overlapping(what: str) -> Error:
    return Error(Code.FAILED_PRECONDITION, f"another call on this {what} has not ended: one call at a time")


class Serial:
    """`with guard:` around calls that are serialized on an object; a second one raises instead of
    waiting.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.lock = threading.Lock()

    def __enter__(self) -> None:
        if not self.lock.acquire(False):
            raise overlapping(self.what)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def count_of(name: str, value: Any, bits: int = 64) -> int:
    """A number for an unsigned field."""
    number = value.__index__() if hasattr(value, "__index__") else None
    if number is None:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if not 0 <= number < 1 << bits:
        raise Error(Code.INVALID_ARGUMENT, f"{name} {number} is outside [0, 2^{bits})")
    return int(number)


def set_fields(destination: CData, kept: Kept, fields: Mapping[str, Any]) -> None:
    """Sets fields of a descriptor from keyword arguments: numbers, texts, dtypes. None leaves a
    field zero.
    """
    kinds = dict(ffi.typeof(destination).item.fields)
    for name, value in fields.items():
        if value is None:
            continue
        kind = kinds[name].type
        if _name(kind) == "quire_str":
            if not isinstance(value, (str, bytes)):
                raise TypeError(f"{name} must be a str, not {type(value).__name__}")
            kept.bytes_at(getattr(destination, name), value)
        elif _name(kind) == "quire_dtype":
            set_dtype(getattr(destination, name), value)
        elif kind.cname in ("double", "float"):
            setattr(destination, name, float(value))
        elif "unsigned" in kind.cname or kind.cname.startswith("uint"):
            setattr(destination, name, count_of(name, value, 8 * ffi.sizeof(kind)))
        else:
            setattr(destination, name, int(value))


# ---- arrays

def struct_dtype(kind: str) -> np.dtype[Any]:
    """The dtype of NumPy of a C struct of numbers."""
    names, formats, offsets = [], [], []
    for name, field in ffi.typeof(kind).fields:
        size = ffi.sizeof(field.type)
        signed = field.type.cname.startswith("int")
        names.append(name)
        formats.append(f"{'i' if signed else 'u'}{size}")
        offsets.append(field.offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(kind)})


_SYMBOLS = ffi.typeof("uint32_t[]")
_UINT32 = np.dtype(np.uint32)
_from_buffer = ffi.from_buffer


def symbols_of(symbols: Any) -> tuple[CData, int]:
    """Pointer and number of symbols. An array must be uint32 and is not copied; lists are
    converted.
    """
    if not isinstance(symbols, np.ndarray):
        if hasattr(symbols, "__dlpack__") or hasattr(symbols, "__array_interface__"):
            raise TypeError(f"symbols must be a numpy.ndarray of uint32, not {type(symbols).__name__}")
        wide = np.asarray(symbols)
        if wide.size and (wide.dtype.kind not in "iu" or int(wide.min()) < 0 or int(wide.max()) >= 1 << 32):
            raise TypeError("symbols must be integers in [0, 2^32)")
        symbols = wide.astype(np.uint32)
    if symbols.dtype != _UINT32:
        raise TypeError(f"symbols must be uint32, not {symbols.dtype}: pass symbols.astype(numpy.uint32)")
    if symbols.ndim != 1 or not symbols.flags.c_contiguous:
        raise TypeError("symbols must have one dimension and be contiguous: pass numpy.ascontiguousarray(symbols)")
    return _from_buffer(_SYMBOLS, symbols), len(symbols)
