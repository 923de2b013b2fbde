package quire

// #include <quire/quire.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// HashOptions says how blocks are hashed: quire_hash_options.
type HashOptions struct {
	Algorithm     HashAlgorithm // which function
	Seed          string        // upstream: the value of PYTHONHASHSEED
	BlockTokens   uint32        // at least 1
	Flags         uint32        // HashLastMediaOnly, or 0
	Adapter, Salt string        // extra keys: of every block, of the first block; empty = none
	Media         []HashMedia   // by position, not overlapping
	Identifiers   string        // text that Media point into
	Embeds        []byte        // prompt embeddings, EmbedRows rows of equal size
	EmbedRows     uint64        // 0 = none
	Parent        []byte        // digest of the block before tokens[0]
	FirstToken    uint64        // position of the first token, above 0 exactly if Parent is given
}

// HashBytes is the size of a digest; 0 for an unknown algorithm.
func HashBytes(algorithm HashAlgorithm) int {
	return int(C.quire_hash_bytes(C.quire_hash_algorithm(algorithm)))
}

// HashBlocks answers the digests of the complete blocks of tokens, HashBytes each, back to back.
func HashBlocks(options HashOptions, tokens []int64) ([]byte, error) {
	var a arena
	defer a.free()
	var o C.quire_hash_options
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.algorithm, o.seed = C.quire_hash_algorithm(options.Algorithm), a.text(options.Seed)
	o.block_tokens, o.flags = C.uint32_t(options.BlockTokens), C.uint32_t(options.Flags)
	o.adapter, o.salt = a.text(options.Adapter), a.text(options.Salt)
	o.media = (*C.quire_hash_media)(unsafe.Pointer(copied(&a, options.Media)))
	o.num_media, o.identifiers = C.uint64_t(len(options.Media)), a.text(options.Identifiers)
	if n := uint64(len(options.Embeds)); options.EmbedRows == 0 && n != 0 || options.EmbedRows != 0 && (n == 0 || n%options.EmbedRows != 0) {
		return nil, refuse(InvalidArgument, fmt.Sprintf("Embeds: %d bytes are not EmbedRows %d rows of equal size", n, options.EmbedRows))
	}
	if options.EmbedRows != 0 {
		o.embeds, o.embed_rows = unsafe.Pointer(copied(&a, options.Embeds)), C.uint64_t(options.EmbedRows)
		o.embed_row_bytes = C.uint64_t(uint64(len(options.Embeds)) / options.EmbedRows)
	}
	if bytes := HashBytes(options.Algorithm); len(options.Parent) != 0 && len(options.Parent) != bytes {
		return nil, refuse(InvalidArgument, "Parent: not a digest of the algorithm")
	}
	o.parent, o.first_token = (*C.uint8_t)(copied(&a, options.Parent)), C.uint64_t(options.FirstToken)
	if err := a.missing(); err != nil {
		return nil, err
	}
	bytes := HashBytes(options.Algorithm)
	blocks := 0
	if options.BlockTokens != 0 {
		blocks = len(tokens) / int(options.BlockTokens)
	}
	digests, err := room[byte](uint64(blocks)*uint64(bytes)+1, "digests")
	if err != nil {
		return nil, err
	}
	var count C.uint64_t
	err = call(func(err *C.quire_error) C.quire_code {
		return C.quire_hash_blocks(&o, (*C.int64_t)(first(tokens)), C.uint64_t(len(tokens)), (*C.uint8_t)(&digests[0]), C.uint64_t(blocks), &count, err)
	})
	if err != nil {
		return nil, err
	}
	return digests[:int(count)*bytes], nil
}

// EventOptions says how a cache records events.
type EventOptions struct {
	Algorithm HashAlgorithm // of the names of blocks
	Seed      string        // text whose hash comes before first blocks
	RingBytes uint64        // 0 = 16 MiB
}

// EnableEvents records events from now on: once, before anything was published.
func (c *Cache) EnableEvents(options EventOptions) error {
	var a arena
	defer a.free()
	var o C.quire_event_options
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.algorithm, o.seed, o.ring_bytes = C.quire_hash_algorithm(options.Algorithm), a.text(options.Seed), C.uint64_t(options.RingBytes)
	if err := a.missing(); err != nil {
		return err
	}
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_enable_events(c, &o, err)
	})
}

// NameMedia says what stands for a medium in hashes and events.
func (c *Cache) NameMedia(first Symbol, identifier string, placeholder int64) error {
	var a arena
	defer a.free()
	text := a.text(identifier)
	if err := a.missing(); err != nil {
		return err
	}
	return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
		return C.quire_cache_name_media(c, C.quire_symbol(first), text, C.int64_t(placeholder), err)
	})
}

// EventBuffer has room for events and what they point to; it is filled again and again.
type EventBuffer struct {
	events []Event
	data   []uint64 // aligned to 8
	batch  EventBatch
}

// NewEventBuffer takes room for so many events with so many bytes of hashes, tokens and names.
func NewEventBuffer(events, bytes int) (*EventBuffer, error) {
	all, err := room[Event](uint64(events), "events")
	if err != nil {
		return nil, err
	}
	data, err := room[uint64](uint64(bytes)/8+1, "bytes") // aligned to 8
	if err != nil {
		return nil, err
	}
	return &EventBuffer{all, data[:(bytes+7)/8], EventBatch{}}, nil
}

// Events are those of the last read.
func (b *EventBuffer) Events() []Event {
	if b == nil {
		return nil
	}
	return b.events[:b.batch.NumEvents]
}

// Batch says where to read next, and after OutOfRange how much room is needed.
func (b *EventBuffer) Batch() EventBatch {
	if b == nil {
		return EventBatch{}
	}
	return b.batch
}

func (b *EventBuffer) bytes() []byte {
	if b == nil || len(b.data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&b.data[0])), 8*len(b.data))
}

// A part of the data; empty where the event is not of this buffer.
func (b *EventBuffer) part(offset, n uint64) []byte {
	all := b.bytes()
	if offset > uint64(len(all)) || n > uint64(len(all))-offset {
		return nil
	}
	return all[offset:][:n]
}

// Hashes are the digests of an event of this buffer, back to back.
func (b *EventBuffer) Hashes(e *Event) []byte {
	return b.part(e.HashesOffset, uint64(e.NumHashes)*uint64(e.HashBytes))
}

// Parent is the digest of the block before the first; empty where a sequence starts.
func (b *EventBuffer) Parent(e *Event) []byte { return b.part(e.ParentOffset, uint64(e.ParentBytes)) }

// Tokens are those of the blocks of an event of this buffer.
func (b *EventBuffer) Tokens(e *Event) []int64 {
	if e.NumTokens == 0 || e.NumTokens > 1<<40 || e.TokensOffset%8 != 0 {
		return nil
	}
	all := b.part(e.TokensOffset, 8*e.NumTokens)
	if all == nil {
		return nil
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(&all[0])), e.NumTokens)
}

// Keys are the extra keys of an event, msgpack.
func (b *EventBuffer) Keys(e *Event) []byte { return b.part(e.KeysOffset, e.KeysBytes) }

// Adapter is the name of an event's adapter; Kind that of its group's kind.
func (b *EventBuffer) Adapter(e *Event) string {
	return string(b.part(e.AdapterOffset, uint64(e.AdapterBytes)))
}

// Kind names the kind of an event's group, e.g. "full_attention".
func (b *EventBuffer) Kind(e *Event) string { return string(b.part(e.KindOffset, uint64(e.KindBytes))) }

func (b *EventBuffer) read(body func(events *C.quire_event, n C.uint64_t, data *C.uint8_t, bytes C.uint64_t, batch *C.quire_event_batch) error) error {
	if b == nil {
		return refuse(InvalidArgument, "into: the event buffer is nil")
	}
	b.batch = EventBatch{structSize: uint32(unsafe.Sizeof(b.batch))}
	err := body((*C.quire_event)(first(b.events)), C.uint64_t(len(b.events)), (*C.uint8_t)(first(b.data)), C.uint64_t(8*len(b.data)),
		(*C.quire_event_batch)(unsafe.Pointer(&b.batch)))
	if err != nil {
		b.batch.NumEvents = 0
	}
	return err
}

// ReadEvents copies events from a number on into the buffer, as many as fit. Any goroutine. DataLoss: take a snapshot.
func (c *Cache) ReadEvents(from uint64, into *EventBuffer) error {
	return into.read(func(events *C.quire_event, n C.uint64_t, data *C.uint8_t, bytes C.uint64_t, batch *C.quire_event_batch) error {
		return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
			return C.quire_cache_read_events(c, C.uint64_t(from), events, n, data, bytes, batch, err)
		})
	})
}

// SnapshotEvents writes everything that can be found now as events; reading goes on at Batch().Next. Any goroutine.
func (c *Cache) SnapshotEvents(into *EventBuffer) error {
	return into.read(func(events *C.quire_event, n C.uint64_t, data *C.uint8_t, bytes C.uint64_t, batch *C.quire_event_batch) error {
		return c.ask(func(c *C.quire_cache, err *C.quire_error) C.quire_code {
			return C.quire_cache_snapshot_events(c, events, n, data, bytes, batch, err)
		})
	})
}

// EventEncoding says how a batch of events is encoded: quire_event_encoding.
type EventEncoding struct {
	Flags    uint32  // EventsWholeHashes
	Time     float64 // seconds since 1970
	Rank     int64   // data parallel; -1 = none
	Medium   string  // of all events; empty = "GPU"
	Locality string  // of all events; empty = left out
}

// Encode is the buffer's events as one batch of vLLM's wire format.
func (b *EventBuffer) Encode(encoding EventEncoding) ([]byte, error) {
	var a arena
	defer a.free()
	var o C.quire_event_encoding
	o.struct_size = C.uint32_t(unsafe.Sizeof(o))
	o.flags, o.time, o.rank = C.uint32_t(encoding.Flags), C.double(encoding.Time), C.int64_t(encoding.Rank)
	o.medium, o.locality = a.text(encoding.Medium), a.text(encoding.Locality)
	if err := a.missing(); err != nil {
		return nil, err
	}
	events, data := b.Events(), b.bytes()
	return list(byte(0), func(items *byte, n C.uint64_t, count *C.uint64_t, err *C.quire_error) C.quire_code {
		return C.quire_events_encode((*C.quire_event)(first(events)), C.uint64_t(len(events)), (*C.uint8_t)(first(data)),
			C.uint64_t(len(data)), &o, (*C.uint8_t)(items), n, count, err)
	})
}
