"""dlpack_consumers.py RIG MODULES: NumPy, and PyTorch where it is there, read exported tensors: strides, values, and lifetime: the consumer's
deleter runs on another thread after everything else of quire was released."""
import ctypes
import sys
import threading

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed, so no NumPy reads an exported tensor")
    sys.exit(77)

rig = ctypes.CDLL(sys.argv[1])
rig.rig_export.restype = ctypes.c_void_p
rig.rig_export.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME = ctypes.c_char_p(b"dltensor")  # the capsule keeps the pointer


class Exported:
    def __init__(self, layout, bits, side):
        self.tensor = rig.rig_export(sys.argv[2].encode(), layout, bits, side)
        assert self.tensor, (layout, bits, side)

    def __dlpack__(self, stream=None):
        return new_capsule(self.tensor, NAME, None)

    def __dlpack_device__(self):
        return (1, 0)


def look(layout, bits, side, dtype):
    array = np.from_dlpack(Exported(layout, bits, side))
    rig.rig_close()  # only the array keeps the bytes now
    view = array.view(np.uint16) if bits == 16 else array
    assert array.ndim == 5 and array.dtype == dtype, (array.shape, array.dtype)
    wanted = np.arange(array.size).reshape(array.shape)
    assert np.array_equal(view.astype(np.int64), wanted), "wrong elements"
    strided = not array.flags["C_CONTIGUOUS"]
    # The last reference goes on another thread.
    box = [array, view]
    del array, view
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    return strided


strided = 0
for layout in (b"LPBJKTHD", b"LPBJKHTD", b"LPKBJTHD", b"BJHLPKTD"):
    for side in (0, 1):
        strided += look(layout, 32, side, np.float32)
        strided += look(layout, 16, side, np.float16)
assert strided > 4, "no view was strided: nothing was shown"
print("NumPy %s: 16 views read, %d of them strided; float32, and float16 as uint16" % (np.__version__, strided))

try:
    array = np.from_dlpack(Exported(b"LPBJKTHD", 116, 0))
    print("NumPy reads bfloat16 as", array.dtype)
    del array
except (RuntimeError, BufferError, TypeError) as refusal:
    print("skipped: this NumPy knows no bfloat16 (%s)" % refusal)
rig.rig_close()
try:
    import torch
    tensor = torch.from_dlpack(Exported(b"LPBJKTHD", 116, 0))
    rig.rig_close()
    assert tensor.dtype == torch.bfloat16 and not tensor.is_contiguous()
    print("PyTorch", torch.__version__, "reads bfloat16")
except ImportError:
    print("skipped: PyTorch is not installed (Debian 12's is not among the packages), so nobody reads bfloat16 and versioned capsules here")
