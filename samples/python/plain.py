"""What step_loop computes on: numbers in place of a model, and attention as it is defined."""
import math

HEADS, KV_HEADS, DIM = 4, 2, 8
QUERY, KEY, VALUE = 0, 1, 2


def element(which: int, sequence: int, position: int, x: int) -> float:
    """Element x of a query, key or value at a position of a sequence. A multiple of 1/16."""
    return ((which * 5 + sequence * 3 + position * 7 + x * 11) % 23 - 11) / 16


def plain(sequence: int, position: int, x: int) -> float:
    """Element x of softmax(q k / sqrt(DIM)) v over all positions up to `position`."""
    head = x // DIM
    kv_head = head // (HEADS // KV_HEADS)  # several query heads share one of these
    total = result = 0.0
    for past in range(position + 1):
        dot = sum(element(QUERY, sequence, position, head * DIM + i) * element(KEY, sequence, past, kv_head * DIM + i) for i in range(DIM))
        weight = math.exp(dot / math.sqrt(DIM))
        total += weight
        result += weight * element(VALUE, sequence, past, kv_head * DIM + x % DIM)
    return result / total
