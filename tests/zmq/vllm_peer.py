#!/usr/bin/env python3
"""vllm_peer.py SPEAKER: what vLLM's own code makes of our batches.

QUIRE_VLLM names a wheel of vLLM, or a folder that has vllm/distributed/kv_events.py. That module alone is loaded. Needed are msgspec and
pyzmq. Without them the test is skipped (77).
- Every payload is decoded with vLLM's classes. What vLLM's encoder makes of that has the same values and keys in the same order. The bytes
  may differ: some releases of msgspec write the heads of small maps longer than needed.
- vLLM's publisher, given these batches, sends the same frames and answers replays with the same frames.
- A subscriber that loses messages, and asks for them, has at the end the blocks that the cache has.
"""
import json
import os
import random
import subprocess
import sys
import types
import zipfile

MODULE = "vllm/distributed/kv_events.py"


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    import msgspec
    import zmq
except ImportError as error:
    skip("%s: msgspec and pyzmq are needed for vLLM's classes" % error)


def source():
    place = os.environ.get("QUIRE_VLLM", "")
    if not place:
        skip("QUIRE_VLLM names no wheel and no folder of vLLM")
    if os.path.isdir(place):
        with open(os.path.join(place, MODULE), encoding="utf-8") as file:
            return file.read()
    with zipfile.ZipFile(place) as wheel:
        return wheel.read(MODULE).decode("utf-8")


def stub(name, **names):
    module = types.ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


def load():
    class Config:
        def __init__(self, **fields):
            self.__dict__.update(fields)

    class Log:
        def __getattr__(self, _):
            return lambda *_: None

    for package in ("vllm", "vllm.config", "vllm.utils", "vllm.v1", "vllm.v1.core", "vllm.distributed"):
        stub(package, __path__=[])
    stub("vllm.config.kv_events", KVEventsConfig=Config)
    stub("vllm.logger", init_logger=lambda _: Log())
    stub("vllm.v1.core.kv_cache_utils", ExternalBlockHash=bytes | int)
    unused = dict.fromkeys(("get_ip", "get_tcp_uri", "is_valid_ipv6_address", "split_zmq_path"))
    stub("vllm.utils.network_utils", **unused)
    module = types.ModuleType("vllm.distributed.kv_events")
    sys.modules[module.__name__] = module
    exec(compile(source(), MODULE, "exec"), module.__dict__)
    return module


class Speaker:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint, self.replay_endpoint = self.process.stdout.readline().split()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


context = zmq.Context()


def subscriber(endpoint, topic):
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RCVTIMEO, 20000)
    socket.setsockopt(zmq.SUBSCRIBE, topic)
    socket.connect(endpoint)
    return socket


def replay(endpoint, request):
    """The frames of all answers, the end included."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RCVTIMEO, 20000)
    socket.connect(endpoint)
    socket.send_multipart(request)
    answers = [socket.recv_multipart()]
    while answers[-1][-1]:
        answers.append(socket.recv_multipart())
    socket.close(0)
    return answers


def values(payload):
    """A payload as text, in which the order of keys shows."""
    return json.dumps(msgspec.msgpack.decode(payload))


def comparable(frames):
    return frames[:-1] + [values(frames[-1]) if frames[-1] else ""]


def apply(events, batch, index):
    for event in batch.events:
        if isinstance(event, events.AllBlocksCleared):
            index.clear()
        elif event.medium != "GPU" or getattr(event, "locality", None) is not None:
            continue
        elif isinstance(event, events.BlockRemoved):
            for name in event.block_hashes:
                index.pop((event.group_idx, name), None)
        else:
            n = event.block_size
            for i, name in enumerate(event.block_hashes):
                index[event.group_idx, name] = event.token_ids[i * n:(i + 1) * n]


def upstream_frames(events, batches, requests):
    """What vLLM's own publisher sends for these batches, and answers."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        endpoint, replay_endpoint = ("ipc://%s/%s" % (folder, name) for name in ("events", "replay"))
        publisher = events.ZmqEventPublisher(0, endpoint=endpoint, replay_endpoint=replay_endpoint, topic="kv-events")
        socket = subscriber(endpoint, b"")
        first = events.KVEventBatch(ts=0.0, events=[])
        sent, warm_ups = [], 0
        while not sent:  # a subscription takes its time, and nothing says when it is there
            publisher.publish(first)
            warm_ups += 1
            if socket.poll(100):
                sent.append(socket.recv_multipart())
        for batch in batches:
            publisher.publish(batch)
        frames = []
        while len(frames) < len(batches):
            topic, number, payload = socket.recv_multipart()
            number = int.from_bytes(number, "big") - warm_ups
            if number >= 0:
                frames.append([topic, number.to_bytes(8, "big"), payload])
        answers = []
        for start in requests:
            found = replay(replay_endpoint, [b"", (start + warm_ups).to_bytes(8, "big")])
            for answer in found[:-1]:
                answer[2] = (int.from_bytes(answer[2], "big") - warm_ups).to_bytes(8, "big")
            answers.append(found)
        publisher.shutdown()
        socket.close(0)
        return frames, answers


def main():
    events = load()
    speaker = Speaker(sys.argv[1])
    socket = subscriber(speaker.endpoint, b"kv-events")
    assert speaker.ask("subscribed 1") == "1"
    seed = int(os.environ.get("QUIRE_SEED", "5"))
    print("QUIRE_SEED=%d" % seed)
    dice = random.Random(seed)
    decoder, encoder = msgspec.msgpack.Decoder(events.KVEventBatch), msgspec.msgpack.Encoder()

    last = int(speaker.ask("steps %d 300" % seed))
    last = int(speaker.ask("tiers"))
    frames, batches, index, next_number, lost = [], [], {}, 0, 0
    for _ in range(last):
        frames.append(socket.recv_multipart())
        topic, number, payload = frames[-1]
        assert topic == b"kv-events" and int.from_bytes(number, "big") == len(frames) - 1
        batch = decoder.decode(payload)
        assert values(encoder.encode(batch)) == values(payload), (payload, encoder.encode(batch))
        batches.append(batch)
        if dice.random() < 0.3:
            lost += 1
            continue
        if len(frames) - 1 > next_number:
            for answer in replay(speaker.replay_endpoint, [b"", next_number.to_bytes(8, "big")])[:-1]:
                if int.from_bytes(answer[2], "big") == next_number < len(frames) - 1:
                    apply(events, decoder.decode(answer[3]), index)
                    next_number += 1
        assert next_number == len(frames) - 1
        apply(events, batch, index)
        next_number += 1
    for answer in replay(speaker.replay_endpoint, [b"", next_number.to_bytes(8, "big")])[:-1]:
        apply(events, decoder.decode(answer[3]), index)

    expect = {(group, name): tokens for group, name, tokens in json.loads(speaker.ask("index"))}
    assert index == expect, "%d blocks, the cache has %d" % (len(index), len(expect))
    media = {(e.medium, getattr(e, "locality", None)) for batch in batches for e in batch.events if hasattr(e, "medium")}
    assert media == {("GPU", None), ("CPU", "LOCAL"), ("STORAGE", "REMOTE")}, media

    requests = [0, 7, last - 1, last, last + 5]
    ours = [replay(speaker.replay_endpoint, [b"", start.to_bytes(8, "big")]) for start in requests]
    their_frames, theirs = upstream_frames(events, batches, requests)
    assert [comparable(f) for f in their_frames] == [comparable(f) for f in frames]
    assert [[comparable(f) for f in answers] for answers in theirs] == [[comparable(f) for f in answers] for answers in ours]
    speaker.close()
    kinds = {type(e).__name__ for batch in batches for e in batch.events}
    print("%d batches of %s, %d lost and asked for, %d blocks; vLLM's publisher sends the same" %
          (last, ", ".join(sorted(kinds)), lost, len(index)))


main()
