#!/usr/bin/env python3
"""peers.py without torch says so; with one that answers nothing of worth (here, without a GPU) every shape has a row of every peer, a peer
that fails says why, and bytes and operations are those of the shape.   peers_test.py PEERS"""
import json
import os
import subprocess
import sys
import tempfile

FAKE = '''
import types

__version__ = "0"
bfloat16 = uint8 = None


class Tensor:
    def __init__(self, shape):
        self.shape = tuple(shape)

    def copy_(self, other):
        return self


def randn(*shape, dtype, device):
    return Tensor(shape)


def empty(n, dtype, device):
    return Tensor([n])


def empty_like(other):
    return Tensor(other.shape)


def compile(f):
    return f


cuda = types.SimpleNamespace(
    is_available=lambda: %s, synchronize=lambda: None, get_device_name=lambda ordinal: "none"
)

from . import nn
'''
NN = '''
import types


def attend(q, k, v, is_causal, enable_gqa):
    assert q.shape[0] == k.shape[0] == v.shape[0] and k.shape[1] == v.shape[1] == 8 and q.shape[1] % 8 == 0
    assert q.shape[3] == k.shape[3] == v.shape[3] == 128 and is_causal == (q.shape[2] > 1) and enable_gqa
    return q


functional = types.SimpleNamespace(scaled_dot_product_attention=attend)
'''
ATTENTION = '''
import contextlib


class SDPBackend:
    FLASH_ATTENTION = 1  # and no CUDNN_ATTENTION


@contextlib.contextmanager
def sdpa_kernel(backends):
    yield
'''
FLEX = '''
def create_block_mask(sees, b, h, q, k, device):
    assert sees(0, 0, 2, 1) and sees(0, 0, 1, 1) and not sees(0, 0, 0, 1)
    return (q, k)


def flex_attention(q, k, v, block_mask, enable_gqa):
    assert (block_mask is None) == (q.shape[2] == 1) and enable_gqa
    return q
'''


def ask(folder, peers):
    environment = dict(os.environ, PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1")
    answer = subprocess.run([sys.executable, peers, "--small"], capture_output=True, text=True, env=environment)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(peers):
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/torch/__init__.py", "raise ImportError('not here')")
        assert ask(folder, peers) == {"unavailable": "torch cannot be imported: not here"}
        write(f"{folder}/torch/nn/__init__.py", NN)
        write(f"{folder}/torch/__init__.py", FAKE % "False")
        assert ask(folder, peers) == {"unavailable": "torch has no GPU here"}
        write(f"{folder}/torch/__init__.py", FAKE % "True")
        write(f"{folder}/torch/nn/attention/__init__.py", ATTENTION)
        write(f"{folder}/torch/nn/attention/flex_attention.py", FLEX)
        told = ask(folder, peers)
        rows = told["rows"]
        names = {row["name"] for row in rows}
        assert len(names) == 8 and len(rows) == 24, rows
        for row in rows:
            if "cudnn" in row["peer"]:
                assert "CUDNN_ATTENTION" in row["unavailable"], row
                continue
            prefill = "prefill" in row["name"]
            assert row["median_us"] > 0 and ("TFLOPs" in row) == prefill and ("GBps" in row) != prefill, row
        one = next(row for row in rows if row["name"].endswith("G:4/ctx:8x32k") and "flash" in row["peer"])
        assert round(one["GBps"] * one["median_us"] * 1e3) == 2 * 8 * 8 * 256 * 128 * 2, one
        print(len(rows), "rows")


main(sys.argv[1])
