package quire

/*
#include <quire/quire.h>
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// The memories and streams of a plan's shards as C takes them: arrays in C memory, which live as
// long as the arena. The streams hold the memories, since work on them is queued. The caller keeps
// both reachable.
func (c *Cache) shards(a *arena, memories []*Memory,
	streams []*Stream) (to **C.quire_memory, on **C.quire_stream, err error) {
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	if c.closed() {
		return nil, nil, refuse(InvalidArgument, "cache was closed")
	}
	info, err := c.plan.Info()
	if err != nil {
		return nil, nil, err
	}
	n := int(info.NumShards)
	if len(memories) != n || len(streams) != n {
		return nil, nil, refuse(InvalidArgument,
			fmt.Sprintf("options: %d memories and %d streams, the plan has %d shards",
				len(memories), len(streams), n))
	}
	bytes, queues := make([]*C.quire_memory, n), make([]*C.quire_stream, n)
	for i, m := range memories {
		if err := streams[i].prepares(m); err != nil {
			return nil, nil, err
		}
		bytes[i], queues[i] = m.c(), streams[i].c()
	}
	to, on = copied(a, bytes), copied(a, queues)
	if err := a.missing(); err != nil {
		return nil, nil, err
	}
	holdMemories(streams, memories)
	return to, on, nil
}

// Each stream holds the memory of its shard until it was synchronized.
func holdMemories(streams []*Stream, memories []*Memory) {
	for i, s := range streams {
		s.hold(unsafe.Pointer(memories[i]))
	}
}

// What lives as long as any reference to one cache, since its end is serialized on the cache: a
// finalizer may run it once nobody can call the cache any more.
type keeping struct {
	mutex sync.Mutex
	set   map[*tierSet]struct{}
}

func (k *keeping) add(t *tierSet) {
	k.mutex.Lock()
	k.set[t] = struct{}{}
	k.mutex.Unlock()
}

func (k *keeping) empty() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.set) == 0
}

func (k *keeping) drop(t *tierSet) {
	k.mutex.Lock()
	delete(k.set, t)
	k.mutex.Unlock()
}
