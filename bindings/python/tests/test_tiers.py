"""What a cache lost comes back from a tier or a session, byte for byte; counters and metrics say
so.
"""
import gc
import io
import logging
import tempfile
import unittest

import numpy as np

import quire
from rig import HYBRID, Rig, Test, config, symbols


def stamped(rig: Rig, prompt: np.ndarray) -> int:
    """Computes a prompt whose keys are their positions."""
    want = quire.entries(1)
    want["sequence"] = sequence = rig.cache.create_sequence()
    want["num_symbols"] = want["num_tokens"] = len(prompt)
    want["flags"] = quire.Entry.MATCH
    with rig.cache.reserve(want, prompt) as step:
        group = rig.batch.fill(step.check())[0]
        rig.memory.prepare(step, rig.stream)
        rows = np.broadcast_to(group.positions.astype(np.float32)[:, None, None], (group.num_tokens, 2, 8)).copy()
        rig.stream.kv_append(rig.memory.paged_kv(0), group, rows, rows)
        rig.stream.synchronize()
    return sequence


def keys_of(rig: Rig, sequence: int, tokens: int, prompt: np.ndarray) -> np.ndarray:
    """The first element of each token's key, through the table of a step."""
    want = quire.entries(1)
    want["sequence"], want["num_tokens"] = sequence, 1
    known = rig.cache.sequence(sequence).known
    want["symbols_position"] = want["symbols_offset"] = known
    want["num_symbols"] = len(prompt) - known
    step = rig.cache.reserve(want, prompt).check()
    table = rig.batch.fill(step)[0].table[0, 0]
    keys = rig.memory.tensor(0, kind="lowered").numpy()[table].reshape(-1, 2, 8)[:tokens, 0, 0].copy()
    step.abort()
    return keys


class Offloading(Test):
    def offloaded(self, connector: quire.Connector) -> None:
        rig, prompt = Rig(), symbols(200)
        with quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(connector, quire.Unit.COMMITTED, name="near")],
                         unit_tokens=64) as tiers:
            with self.refused(quire.Code.FAILED_PRECONDITION):
                quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(quire.Connector("null"))])
            rig.cache.finish(stamped(rig, prompt))
            while tiers.tier_stats(0).units_stored < 3:
                tiers.run(10_000_000)
            rig.cache.reset()
            self.assertEqual(rig.cache.probe(prompt).hit_tokens, 0)
            rig.memory.poison(rig.stream)
            sequence = rig.cache.create_sequence()
            fetch = tiers.fetch(sequence, prompt)
            results = []
            while not results:
                results = tiers.run(10_000_000)
            self.assertEqual((results[0].fetch, results[0].outcome, results[0].committed), (fetch, quire.FetchOutcome.DONE, 192))
            np.testing.assert_array_equal(keys_of(rig, sequence, 192, prompt), np.arange(192))
            self.assertEqual((tiers.stats().tokens_fetched, tiers.tier_stats(0).name), (192, "near"))
            text = quire.metrics(quire.Source(rig.cache, tiers, rig.memory, 'engine="0"'))
            self.assertIn('quire_prefix_cache_hits_total{engine="0"', text)
            self.assertTrue(quire.metrics(quire.Source(rig.cache), openmetrics=True).endswith("# EOF\n"))
            with self.refused(quire.Code.NOT_FOUND):
                tiers.cancel(fetch)
        with self.refused(quire.Code.FAILED_PRECONDITION, "closed"):
            tiers.run()
        rig.cache.verify()

    def test_host_memory(self):
        connector = quire.Connector("host", {"bytes": 1 << 24})
        self.offloaded(connector)
        self.assertGreater(connector.stats().bytes_loaded, 0)
        self.assertEqual(connector.health().state, quire.ConnectorState.UP)
        self.assertFalse(connector.info.flags & quire.ConnectorFlag.PERSISTENT)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            self.offloaded(quire.Connector("file", {"directory": folder, "bytes": 1 << 24}))

    def test_tiers_that_were_forgotten_live_as_long_as_their_cache(self):
        rig = Rig()
        connector = quire.Connector("host", {"bytes": 1 << 24})
        quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(connector, quire.Unit.COMMITTED)])
        gc.collect()
        rig.cache.finish(stamped(rig, symbols(100)))
        with self.refused(quire.Code.FAILED_PRECONDITION):
            quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(connector)])
        tiers_of_another = Rig()
        with self.refused(quire.Code.FAILED_PRECONDITION):
            quire.Tiers(tiers_of_another.cache, "w", [tiers_of_another.memory], [tiers_of_another.stream], [quire.Tier(connector)])
        rig.cache.close()
        quire.Tiers(tiers_of_another.cache, "w", [tiers_of_another.memory], [tiers_of_another.stream], [quire.Tier(connector)]).close()

    def test_offers_are_held_until_they_end(self):
        rig, prompt = Rig(), symbols(200)
        null = quire.Tier(quire.Connector("null"), peers=True, max_store_bytes=1 << 20)  # it ends an offer at once
        with quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [null], unit_tokens=64) as tiers:
            sequence = stamped(rig, prompt)
            offers = [tiers.offer(sequence, prompt) for _ in range(2)]
            for offer in offers:
                self.assertEqual((len(offer.handle), offer.end_token), (16, 192))
                self.assertGreater(offer.num_bytes, 192 * 2 * 2 * 8 * 4)
            self.assertNotEqual(offers[0].handle, offers[1].handle)
            info = tiers.offer_info(offers[0].handle)
            self.assertEqual((info.is_ready, info.num_records), (0, 3))
            self.assertEqual((tiers.stats().offers, tiers.stats().offers_in_progress, rig.cache.stats().holds), (2, 2, 2))
            tiers.end_offer(offers[1].handle)
            self.assertEqual((tiers.stats().offers, tiers.stats().offers_in_progress, rig.cache.stats().holds), (2, 1, 1))
            for _ in range(1000):
                self.assertEqual(tiers.run(1_000_000), [])
                if not tiers.stats().offers_in_progress:
                    break
            self.assertEqual(rig.cache.stats().holds, 0)
            for offer in offers:
                with self.refused(quire.Code.NOT_FOUND):
                    tiers.offer_info(offer.handle)
                with self.refused(quire.Code.NOT_FOUND):
                    tiers.end_offer(offer.handle)
            with self.refused(quire.Code.OUT_OF_RANGE, "num_symbols"):
                tiers.offer(sequence, prompt[:100])
            with self.refused(quire.Code.OUT_OF_RANGE, "tier"):
                tiers.offer(sequence, prompt, 1)
            with self.refused(quire.Code.INVALID_ARGUMENT, "15 bytes"):
                tiers.offer_info(bytes(15))
            peer = quire.Peer("peer:1", offers[0].handle, offers[0].end_token)
            looked_up = tiers.tier_stats(0).keys_looked_up
            fetch = tiers.fetch_from(peer, rig.cache.create_sequence(), symbols(200, 5000))
            results = []
            while not results:
                results = tiers.run(10_000_000)
            self.assertEqual((results[0].fetch, results[0].outcome), (fetch, quire.FetchOutcome.NOTHING))
            self.assertGreater(tiers.tier_stats(0).keys_looked_up, looked_up)
            with self.refused(quire.Code.NOT_FOUND, "no offer was refused"):  # there is none
                tiers.refusal(fetch)
            with self.refused(quire.Code.INVALID_ARGUMENT, "address"):
                tiers.fetch_from(quire.Peer("", offers[0].handle, 192), rig.cache.create_sequence(), prompt)
        rig.cache.verify()

    def test_offers_need_a_tier_of_peers(self):
        rig, prompt = Rig(), symbols(200)
        with self.refused(quire.Code.INVALID_ARGUMENT, "reasons"):
            quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(quire.Connector("null"), quire.Unit.COMMITTED, peers=True)])
        with quire.Tiers(rig.cache, "w", [rig.memory], [rig.stream], [quire.Tier(quire.Connector("null"))], unit_tokens=64) as tiers:
            with self.refused(quire.Code.FAILED_PRECONDITION, "QUIRE_TIER_PEERS"):
                tiers.offer(stamped(rig, prompt), prompt)
            with self.refused(quire.Code.FAILED_PRECONDITION, "QUIRE_TIER_PEERS"):
                tiers.fetch_from(quire.Peer("peer:1", bytes(16), 192), rig.cache.create_sequence(), prompt)

    def test_what_is_wrong_is_said(self):
        rig = Rig()
        with self.refused(quire.Code.INVALID_ARGUMENT, "weights"):
            quire.Tiers(rig.cache, "", [rig.memory], [rig.stream], [quire.Tier(quire.Connector("null"))])
        with self.refused(quire.Code.INVALID_ARGUMENT, "1 shards"):
            quire.Tiers(rig.cache, "w", [], [], [])
        with self.refused(quire.Code.NOT_FOUND, "no_such"):
            quire.Connector("no_such")
        with self.refused(quire.Code.INVALID_ARGUMENT):
            quire.Connector("host", {"capacity": "much"})
        with self.refused(quire.Code.INVALID_ARGUMENT, "label"):
            quire.metrics(quire.Source(rig.cache, labels="{"))


class Sessions(Test):
    def test_another_plan_goes_on(self):
        rig, prompt, file = Rig(), symbols(100), io.BytesIO()
        sequence = stamped(rig, prompt)
        saved = quire.save_session(rig.cache, sequence, file, prompt, weights="w", memories=[rig.memory], streams=[rig.stream])
        self.assertEqual((saved.num_tokens, saved.bytes), (100, len(file.getvalue())))
        other = Rig(config(pages=90, block_tokens=32))
        file.seek(0)
        restored = other.cache.create_sequence()
        info, read = quire.restore_session(other.cache, restored, file, weights="w", memories=[other.memory], streams=[other.stream])
        self.assertEqual((info.committed, read.tolist()), (100, prompt.tolist()))
        np.testing.assert_array_equal(keys_of(other, restored, 100, symbols(101)), np.arange(100))
        for text, code in ((file.getvalue()[:-9], None), (b"x" * 9999, quire.Code.DATA_LOSS)):
            empty = other.cache.create_sequence()
            with self.assertRaises(EOFError if code is None else quire.Error):
                quire.restore_session(other.cache, empty, io.BytesIO(text), weights="w", memories=[other.memory], streams=[other.stream])
        third = Rig(config(HYBRID))
        file.seek(0)
        with self.refused(quire.Code.FAILED_PRECONDITION):
            quire.restore_session(third.cache, third.cache.create_sequence(), file, weights="w", memories=[third.memory],
                                  streams=[third.stream])


class Runtimes(Test):
    def test_a_log_gets_lines(self):
        lines = []
        runtime = quire.Runtime(driver="cpu", log=lambda level, component, message: lines.append((level, component)),
                                log_level=quire.LogLevel.TRACE)
        quire.Device(runtime)
        self.assertTrue(lines)
        self.assertIsInstance(lines[0][0], quire.LogLevel)
        self.assertEqual(logging.getLogger().handlers, [])  # nothing of ours

    def test_modules_are_named(self):
        found = {(info.name, info.code) for info in quire.Runtime().probe()}
        self.assertIn(("cpu", quire.Code.OK), found)
        with self.refused(quire.Code.UNAVAILABLE, "none"):
            quire.Device(quire.Runtime(driver="none"))
        with self.refused(quire.Code.OUT_OF_RANGE):
            quire.Device(quire.Runtime(driver="cpu"), 7)


if __name__ == "__main__":
    unittest.main()
