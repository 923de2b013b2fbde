"""What users see is complete: help texts, options for every field of the headers, the code of the
README, and no import takes long.
"""
import enum
import inspect
import os
import pathlib
import re
import subprocess
import sys
import unittest

import numpy as np

import quire
from quire._core import ffi
from rig import Test

HERE = pathlib.Path(__file__).resolve()
CHECKOUT = HERE.parents[3]

# Options that are said in another way: struct -> {field: where}.
ELSEWHERE = {
    "quire_plan_options": {"num_memory_bytes": "memory_bytes", "num_preferred_layouts": "preferred_layouts",
                           "num_stage_layers": "stage_layers", "vllm": "vllm_flags, ..."},
    "quire_runtime_options": {"header_abi": "always", "log_user": "log", "alloc": "modules allocate with malloc", "release_memory": "alloc",
                              "alloc_user": "alloc", "clock": "CLOCK_MONOTONIC", "clock_user": "clock"},
    "quire_tiers_options": {"event_ring_bytes": "libquire_zmq publishes events", "num_tiers": "tiers",
                            "num_tensor_parallel": "tensor_parallel", "flags": "none are defined"},
    "quire_tier": {"flags": "peers"},
    "quire_batch_options": {"flags": "max_pitch", "memory": "a Batch has it", "bytes": "a Batch has it", "address": "host memory only"},
    "quire_layer": {"num_state_tensors": "state", "state_shard": "StateTensor.shard"},
    "quire_export": {"flags": "as_bytes, read_only"},
    "quire_segment_query": {"flags": "layer"},
    "quire_session_options": {"flags": "none are defined"},
    "quire_fill": {"destination": "out", "capacity": "out"},
    "quire_attention": {"flags": "causal, batch_invariant", "batch": "group", "plan": "made inside the call", "plan_bytes": "plan",
                        "workspace": "the driver's own", "workspace_bytes": "workspace"},
    "quire_kv_append": {"flags": "none are defined", "batch": "group"},
    "quire_peer": {"flags": "grows"},
    "quire_gated_delta": {"flags": "v_major, l2norm", "batch": "group"},
    "quire_conv1d": {"flags": "silu", "batch": "group"},
    "quire_selective_scan": {"flags": "softplus", "batch": "group"},
    "quire_attention_merge": {"num_parts": "parts", "partial_out": "parts", "partial_lse": "lses"},
}
SAID_BY = {
    "quire_plan_options": quire.Config, "quire_cache_options": quire.Cache, "quire_runtime_options": quire.Runtime,
    "quire_tiers_options": quire.Tiers, "quire_tier": quire.Tier, "quire_peer": quire.Peer, "quire_batch_options": quire.Batch,
    "quire_layer": quire.Layer,
    "quire_export": quire.Memory.tensor, "quire_segment_query": quire.Config.segments, "quire_session_options": quire.save_session,
    "quire_fill": quire.Step.fill, "quire_attention": quire.Stream.attention, "quire_kv_append": quire.Stream.kv_append,
    "quire_gated_delta": quire.Stream.gated_delta, "quire_conv1d": quire.Stream.conv1d, "quire_selective_scan": quire.Stream.selective_scan,
    "quire_attention_merge": quire.Stream.attention_merge, "quire_identity": quire.Cache.create_sequence,
    "quire_pin_options": quire.Cache.pin,
}
# Functions that nothing of the package calls, and why.
LEFT_OUT = {
    "quire_\\w+_retain": "Python counts references itself",
    "quire_register_\\w+": "modules inside a process are written in C",
    "quire_memory_bind": "addresses that cannot be checked: bytes come as tensors",
    "quire_code_name": "Code has the names",
    "quire_extension_\\w+": "ops of modules: quire call",
    "quire_connector_(submit|poll|cancel|get_fd|list|register_region|unregister_region)": "connectors are used through Tiers",
    "quire_record_\\w+": "quire tier reads records",
    "quire_load_\\w+|quire_cache_(hold|watch|take|unhold)\\w*|quire_hold\\w*|quire_prefix_digests|quire_unhold": "Tiers do this",
    "quire_follower_\\w+": "ranks in other processes are engines, in C",
    "quire_\\w+_list_runs": "peers that copy blocks themselves, in C",
    "quire_op_attention_(plan|workspace)": "made inside the call",
    "quire_events_\\w+|quire_hash_\\w+|quire_cache_(enable|read|snapshot)_events|quire_cache_name_media|quire_tiers_read_events":
        "routers subscribe to libquire_zmq",
}


class Help(Test):
    def test_everything_is_described(self):
        for name in quire.__all__:
            thing = getattr(quire, name)
            if inspect.isclass(thing) or callable(thing):
                with self.subTest(name=name):
                    self.assertTrue(thing.__doc__ and len(thing.__doc__) > 9)
                    self.assertFalse(thing.__doc__.startswith(f"{name}("), "a text that dataclasses make")
            if not inspect.isclass(thing) or issubclass(thing, enum.Enum):
                continue
            for member, value in vars(thing).items():
                if member.startswith("_") or not (callable(value) or isinstance(value, (property, classmethod))) or member in TRIVIAL:
                    continue
                with self.subTest(member=f"{name}.{member}"):
                    self.assertTrue(inspect.getdoc(getattr(thing, member)))

    def test_the_version_is_that_of_the_library(self):
        said = re.search(r'^version = "(.*)"', (CHECKOUT / "pyproject.toml").read_text(), re.M)
        self.assertEqual(said[1], quire.__version__)

    def test_help_names_what_users_import(self):
        self.assertEqual(quire.Cache.__module__, "quire")
        self.assertEqual(repr(quire.Code.OK), "<Code.OK: 0>")
        self.assertIn("Step", quire.__doc__)

    def test_every_field_can_be_said(self):
        for struct, by in SAID_BY.items():
            known = set(inspect.signature(by).parameters)
            where = ELSEWHERE.get(struct, {})
            for field, _ in ffi.typeof(struct).fields:
                if field == "struct_size" or field.startswith("reserved"):
                    continue
                with self.subTest(field=f"{struct}.{field}"):
                    self.assertNotEqual(field in known, field in where, "said twice, or not at all")

    def test_every_function_is_called(self):
        package = pathlib.Path(quire.__file__).parent
        code = "".join(path.read_text() for path in package.glob("*.py") if path.name not in ("_abi.py", "_infos.py", "_numbers.py"))
        names = re.findall(r"^    (quire_\w+);", (CHECKOUT / "abi" / "quire.map").read_text(), re.M)
        self.assertGreater(len(names), 100)
        for name in names:
            with self.subTest(function=name):
                left_out = any(re.fullmatch(pattern, name) for pattern in LEFT_OUT)
                self.assertNotEqual(bool(re.search(rf"(lib|opened)\.{name}\b", code)), left_out)

    def test_structured_arrays_have_the_fields_of_the_structs(self):
        for array, struct in ((quire.entries(1), "quire_reserve_entry"), (quire.outcomes(1), "quire_commit_entry")):
            fields = dict(ffi.typeof(struct).fields)
            self.assertEqual(list(array.dtype.names), list(fields))
            self.assertEqual(array.itemsize, ffi.sizeof(struct))
            self.assertEqual([array.dtype.fields[name][1] for name in fields], [field.offset for field in fields.values()])


class Readme(Test):
    def test_the_engine_of_the_readme_serves(self):
        text = (CHECKOUT / "bindings" / "python" / "README.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        model = CHECKOUT / "samples" / "models" / "qwen3-next-80b.json"
        first = blocks[0].replace("Qwen3-Next-80B-A3B/config.json", str(model))
        scope = {"__builtins__": __builtins__, "print": lambda *a: None, "forward": lambda engine, step: len(step.results)}
        exec(compile("\n".join([first, *blocks[1:]]), "README.md", "exec"), scope)
        self.assertEqual(scope["plan"].shards, 2)
        small = ('{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, '
                 '"max_position_embeddings": 512, "torch_dtype": "bfloat16"}')
        engine = scope["Engine"](small, 65)
        prompt = np.arange(100, dtype=np.uint32)
        self.assertEqual([scope["serve"](engine, prompt) for _ in range(2)], [1, 1])
        self.assertEqual(engine.cache.stats().hit_tokens, 96)


class Starting(Test):
    def run_python(self, *arguments, **environment):
        return subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False)

    def test_a_library_that_does_not_fit_is_refused(self):
        for path, word in (("/nonexistent/libquire.so.0", "cannot open shared object"), (str(HERE), "invalid ELF header")):
            done = self.run_python("-c", "import quire", QUIRE_LIBRARY=path)
            self.assertIn("ImportError: quire:", done.stderr)
            self.assertIn(word, done.stderr)

    def test_what_is_alive_at_the_end_ends_well(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1])\n"
                "from rig import *\n"
                "import numpy as np, threading\n"
                "rig = Rig(); want = rig.want(20); step = rig.cache.reserve(want, symbols(20)); rig.batch.fill(step)\n"
                "rig.memory.prepare(step, rig.stream); view = rig.memory.tensor(0); capsule = view.__dlpack__(max_version=(1, 0))\n"
                "array = np.from_dlpack(view); taken = rig.device.take(np.zeros(4)); lent = taken.__dlpack__(max_version=(1, 0))\n"
                "log = quire.Runtime(driver='cpu', log=lambda *line: None, log_level=quire.LogLevel.TRACE); device = quire.Device(log)\n"
                "threading.Thread(target=lambda: threading.Event().wait(5), daemon=True).start()\n"
                "rig.itself = rig\n")
        done = self.run_python("-X", "faulthandler", "-c", code, str(HERE.parent))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


TRIVIAL = {"shape", "strides", "dtype", "address", "device", "closed", "name", "value", "count", "index", "code", "bits", "lanes"}

if __name__ == "__main__":
    unittest.main()
