"""Other clients of a Mooncake store: wheel_peer.py HOST METADATA MASTER WHAT...

hold BYTES      gives memory to the store until its standard input ends; writes "ready" when it does
put NAME HEX    stores a value; writes what Mooncake answered
get NAME        writes the value in base16
"""
import ctypes
import sys

from mooncake.store import MooncakeDistributedStore

host, metadata, master, what, *rest = sys.argv[1:]
store = MooncakeDistributedStore()
segment = int(rest[0]) if what == "hold" else 0
answer = store.setup(host, metadata, segment, 0, "tcp", "", master)
if answer != 0:
    sys.exit("setup: %d" % answer)
if what == "hold":
    print("ready", flush=True)
    sys.stdin.read()
else:
    room = ctypes.create_string_buffer(1 << 20)
    store.register_buffer(ctypes.addressof(room), len(room))
    if what == "put":
        value = bytes.fromhex(rest[1])
        ctypes.memmove(room, value, len(value))
        print(store.put_from(rest[0], ctypes.addressof(room), len(value)))
    else:
        size = store.get_into(rest[0], ctypes.addressof(room), len(room))
        print(room.raw[:size].hex() if size >= 0 else size)
store.close()
