"""One program for any driver. QUIRE_DRIVER names it: cpu, null, ..."""
import sys

import numpy as np

import quire


def bytes_story(device: quire.Device, stream: quire.Stream) -> None:
    """Every driver has memory, fills and copies."""
    tensor = device.empty([3, 5], "uint8")
    everything = np.zeros(15, np.uint8)
    stream.fill(tensor, 7)
    stream.copy(tensor, everything)
    stream.synchronize()
    print(f"tensor {list(tensor.shape)} filled with 7 and copied: sum {everything.sum()}")


def kernel_story(stream: quire.Stream) -> None:
    """A kernel: two partial results of attention become one. The null driver has none."""
    parts = [np.array([[[1, 2, 3, 4]]], np.float32), np.array([[[3, 4, 5, 6]]], np.float32)]  # [1 token, 1 head, 4]
    weights = [np.full((1, 1), 0.5, np.float32)] * 2
    out = np.zeros((1, 1, 4), np.float32)
    stream.attention_merge(parts, weights, out)
    stream.synchronize()
    print("merged with equal weights:", *(f"{x:.1f}" for x in out.flat))


def main() -> None:
    device = quire.Device()  # reads QUIRE_DRIVER, unless a Runtime says another one
    print(f"driver {device.info.driver}")
    stream = quire.Stream(device)
    bytes_story(device, stream)
    kernel_story(stream)


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
