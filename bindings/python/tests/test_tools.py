"""plan and replay answer what the command line says, as objects; tables and figures where pandas
and matplotlib are installed.
"""
import dataclasses
import importlib.util
import io
import json
import pathlib
import unittest

import quire
from rig import Test

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
MODELS = CHECKOUT / "samples" / "models"


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


class Tools(Test):
    def test_a_plan(self):
        plan = quire.plan(MODELS / "qwen3-next-80b.json", memory="80GiB", tp=2, concurrency=4)
        self.assertEqual((plan.shards, plan.policy, len(plan.groups), plan.capacity.concurrency), (2, "auto", 2, 4))
        self.assertEqual([group.keeps for group in plan.groups], ["state", "everything"])
        self.assertEqual(sum(region.bytes for region in plan.regions if region.shard == 0), plan.pool_bytes)
        # The same plan through the library.
        model = quire.Model.from_json((MODELS / "qwen3-next-80b.json").read_text())
        config = quire.Config(model, memory_bytes="80GiB", tensor_parallel=2)
        self.assertEqual((config.info.num_pages, config.info.layout), (plan.num_pages, plan.layout))
        other = quire.plan(str(MODELS / "llama-3.1-8b.json"), memory=[1 << 33], policy="vllm", no_prefix_reuse=True)
        self.assertEqual(other.policy, "vllm")

    def test_what_the_command_refuses(self):
        llama = MODELS / "llama-3.1-8b.json"
        with self.refused(quire.Code.RESOURCE_EXHAUSTED, "memory_bytes"):
            quire.plan(llama, memory="1KiB")
        with self.refused(quire.Code.INVALID_ARGUMENT, "cannot read"):
            quire.plan("/nonexistent.json")
        with self.refused(quire.Code.INVALID_ARGUMENT, "--no-such"):
            quire.plan(llama, no_such=3)

    def test_a_replay(self):
        run = quire.replay(MODELS / "llama-3.1-8b.json", "conversations:60", memory="4GiB", series=5, seed=3, oracle=["infinite"])
        self.assertEqual(run.requests, 60)
        self.assertEqual(sum(run.misses.values()), run.requests)
        self.assertLessEqual(run.hit_tokens, run.oracles[0]["hit_tokens"])
        self.assertEqual(len(run.series), 5)
        again = quire.replay(MODELS / "llama-3.1-8b.json", "conversations:60", memory="4GiB", seed=3)
        self.assertEqual((again.hit_tokens, again.misses), (run.hit_tokens, run.misses))

    def test_fields_are_those_of_the_schemas(self):
        for kind, path in ((quire.Plan, ()), (quire.PlanGroup, ("groups", "items")), (quire.PlanRegion, ("regions", "items")),
                           (quire.PlanCapacity, ("capacity",)), (quire.Replay, ())):
            name = "replay-1.json" if kind is quire.Replay else "plan-1.json"
            schema = json.loads((CHECKOUT / "docs" / "schemas" / name).read_text())
            for step in path:
                schema = schema["properties"][step] if step != "items" else schema["items"]
            for field in dataclasses.fields(kind):
                required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
                if field.name != "json":
                    self.assertIn(field.name, schema["required"] if required else schema["properties"], kind)

    @unittest.skipUnless(installed("pandas") and installed("matplotlib"), "pandas or matplotlib is not installed: no tables and figures")
    def test_tables_and_figures(self):
        plan = quire.plan(MODELS / "qwen3-next-80b.json", memory="80GiB")
        self.assertEqual(list(plan.table()["keeps"]), ["state", "everything"])
        run = quire.replay(MODELS / "llama-3.1-8b.json", "conversations:60", memory="4GiB", series=5)
        self.assertEqual(len(run.table()), 5)
        self.assertIn("miss_evicted", run.table())
        for figure in (plan.figure(), run.figure()):
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg")
            self.assertGreater(len(drawn.getvalue()), 1000)

    @unittest.skipIf(installed("pandas"), "pandas is installed")
    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(ImportError, "pip install pandas"):
            quire.plan(MODELS / "llama-3.1-8b.json").table()


if __name__ == "__main__":
    unittest.main()
