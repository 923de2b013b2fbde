"""DLPack both ways: the engine's buffer goes in, a layer's cache comes out as a view of the same
bytes. Nothing is copied.
"""
import sys
import weakref
from typing import Any

import numpy as np

import quire


def aligned(size: int, alignment: int) -> np.ndarray:
    whole = np.zeros(size + alignment, np.uint8)
    start = -whole.ctypes.data % alignment
    return whole[start:start + size]


def says_when_back(array: np.ndarray, name: str) -> np.ndarray:
    weakref.finalize(array, print, f"{name} is the engine's again")
    return array


def story(device: quire.Device, config: quire.Config, region: Any) -> quire.Tensor:
    """Returns the view, which outlives its memory."""
    # In: one dense tensor per region. From now on the memory keeps it.
    buffer = says_when_back(aligned(region.bytes, region.alignment), "the buffer")
    memory = quire.Memory.bind(device, config, [buffer])
    view = memory.tensor(0)  # the keys of layer 0
    keys = view.numpy()
    print(f"keys: {list(keys.shape)} with strides", *(stride // 4 for stride in keys.strides))

    # Out: a write through the view changes the engine's buffer.
    keys[2, 0, 5, 1, 7] = 1.5
    at = keys[2, 0, 5, 1, 7:].ctypes.data - buffer.ctypes.data
    print(f"key of page 2, token 5, head 1, item 7: byte {at} of the buffer, {buffer[at:at + 4].view(np.float32)[0]:.1f}")

    # In, for an op: rows of 16 elements, 20 elements apart, used in place. A read-only tensor must be taken as read-only.
    rows = np.lib.stride_tricks.as_strided(np.zeros(60, np.float32), (3, 2, 8), (80, 32, 4), writeable=False)
    query = says_when_back(rows, "the query")
    try:
        device.take(query)
    except quire.Error as error:
        print(error)
    taken = device.take(query, read_only=True)
    del query, rows
    print("query: strides", *taken.strides, "bytes")
    return view


def main() -> None:
    layer = quire.Layer(quire.LayerKind.FULL, num_kv_heads=2, num_q_heads=2, head_dim_k=8, head_dim_v=8, dtype="fp32")
    runtime = quire.Runtime()
    config = quire.Config(quire.Model([layer], max_model_len=64), num_pages=5)
    region = config.regions()[0]
    print(f"region: {region.bytes} bytes, aligned to {region.alignment}")
    view = story(quire.Device(runtime), config, region)
    print("the memory is released, the view is not")
    del view


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
