/* quire/events.h: block names and events. Names are hashes by which routers and other caches know
 * blocks. Events report what happens to the blocks of a cache. Inside quire identity is exact and
 * needs neither.
 *
 * Names form a chain. The name of block i is hash(hash of block i - 1 or of the seed, its tokens,
 * extra keys). It equals vLLM's byte for byte. A cache names its blocks by what vLLM would know of
 * them: adapter, media and salt.
 *
 * An epoch above 0 becomes a part of the salt: salt, "#epoch=" and the epoch in decimal, for
 * example "tenant#epoch=3", or "#epoch=3" without a salt. A salt that contains "#epoch=" gets the
 * suffix in epoch 0, too. Two different pairs of salt and epoch therefore never give the same text.
 * Extra keys contain that text, and quire_hash_blocks takes it.
 *
 * Some different blocks share a name, as in vLLM:
 * - the first block under a salt alone and under an adapter alone, if both have the same text
 * - blocks with different media that were given the same name
 * If several blocks of a group share a name, STORED is reported for the first and REMOVED for the
 * last of them.
 *
 * Events go into a ring of fixed size and are numbered. A reader that is too slow gets DATA_LOSS
 * and starts again from a snapshot. */
#ifndef QUIRE_EVENTS_H_
#define QUIRE_EVENTS_H_

#include <quire/base.h>
#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Hash function and encoding. SHA-256 has 32 bytes, XXH3-128 has 16 (big endian). The pickle forms
 * equal CPython's (protocol 5) if no object occurs twice in a block's tuple. */
typedef int32_t quire_hash_algorithm;
enum quire_hash_algorithm_e {
  QUIRE_HASH_SHA256_CBOR = 1,
  QUIRE_HASH_XXHASH_CBOR = 2,
  QUIRE_HASH_SHA256_PICKLE = 3,
  QUIRE_HASH_XXHASH_PICKLE = 4,
  QUIRE_HASH_ALGORITHM_FORCE32 = -0x7fffffff
};

/* A media item at tokens [position, position + length). Frozen, 32 bytes. */
typedef struct quire_hash_media {
  uint64_t position;
  uint64_t length;                 /* at least 1 */
  uint64_t identifier_offset;      /* into quire_hash_options.identifiers, UTF-8 */
  uint64_t identifier_bytes;
} quire_hash_media;

/* How blocks are hashed. Descriptor. */
typedef struct quire_hash_options {
  uint32_t struct_size;
  quire_hash_algorithm algorithm;
  /* Text whose hash precedes first blocks. Upstream: the value of PYTHONHASHSEED. */
  quire_str seed;
  uint32_t block_tokens;           /* at least 1 */
  uint32_t flags;                  /* QUIRE_HASH_LAST_MEDIA_ONLY */
  quire_str adapter;               /* name, an extra key of every block; empty = none */
  /* An extra key of the first block, including the epoch if it is above 0. Empty = none. */
  quire_str salt;
  const quire_hash_media *media;   /* [num_media], by position, without overlap */
  uint64_t num_media;
  quire_str identifiers;           /* text that media refer to */
  /* Prompt embeddings, [embed_rows][embed_row_bytes]. NULL = none. */
  const void *embeds;
  uint64_t embed_rows;
  uint64_t embed_row_bytes;
  /* Digest of the block before tokens[0]. NULL = the tokens start the sequence. */
  const uint8_t *parent;
  /* Position of tokens[0], a multiple of block_tokens. It is above 0 if and only if parent is
   * given. */
  uint64_t first_token;
} quire_hash_options;

/* Only the last media item is considered, as upstream does for blocks that are completed after the
 * prompt. Without this flag all items are. */
#define QUIRE_HASH_LAST_MEDIA_ONLY 0x1u

/* Returns the bytes of a digest; 0 for an unknown algorithm. Thread: any thread. Blocking: no. */
QUIRE_API uint32_t quire_hash_bytes(quire_hash_algorithm algorithm);
/* Hashes the complete blocks of tokens[num_tokens]. digests: two-call array of capacity digests of
 * quire_hash_bytes() bytes each, without gaps. *count receives the number of blocks. Encoded events
 * contain a digest as a number: its last 8 bytes, big endian (see quire_events_encode).
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity), UNIMPLEMENTED (built without the function; the
 * message names it). */
QUIRE_API quire_code quire_hash_blocks(const quire_hash_options *options, const int64_t *tokens,
                                       uint64_t num_tokens, uint8_t *digests, uint64_t capacity,
                                       uint64_t *count, quire_error *err);

/* How a cache records events. Descriptor. */
typedef struct quire_event_options {
  uint32_t struct_size;
  quire_hash_algorithm algorithm;
  quire_str seed;                  /* as in quire_hash_options */
  uint64_t ring_bytes;             /* memory of the ring; 0 = 16 MiB */
} quire_event_options;

/* What happened to blocks. */
typedef int32_t quire_event_type;
enum quire_event_type_e {
  QUIRE_EVENT_STORED = 1,          /* consecutive blocks of one group can now be found */
  QUIRE_EVENT_REMOVED = 2,         /* these blocks can no longer be found */
  QUIRE_EVENT_CLEARED = 3,         /* no block can be found any more */
  QUIRE_EVENT_TYPE_FORCE32 = -0x7fffffff
};

/* One event. Offsets are in bytes into the data that came with it, and are multiples of 8.
 * Frozen, 120 bytes. */
typedef struct quire_event {
  uint64_t number;                 /* counts up from 0 in each cache and tier, without gaps */
  quire_event_type type;
  uint32_t group;
  uint32_t hash_bytes;             /* of one digest */
  uint32_t num_hashes;             /* blocks */
  uint64_t hashes_offset;          /* num_hashes digests, without gaps */
  uint64_t parent_offset;          /* digest of the block before the first */
  uint32_t parent_bytes;           /* hash_bytes, or 0 if the first block starts its sequence */
  /* The group's block size, or fewer tokens if one block can be found before it is full. */
  uint32_t block_tokens;
  uint64_t tokens_offset;          /* int64_t[num_tokens] */
  uint64_t num_tokens;             /* num_hashes * block_tokens */
  uint64_t keys_offset;            /* extra keys, msgpack: nil or an array per block */
  uint64_t keys_bytes;
  uint64_t adapter_offset;         /* name of the adapter */
  uint64_t adapter_number;         /* of quire_identity; 0 = none */
  uint32_t adapter_bytes;          /* 0 = none */
  uint32_t kind_bytes;
  uint64_t kind_offset;            /* name of the group's kind, e.g. "full_attention" */
  uint64_t window;                 /* of sliding windows; 0 = none */
} quire_event;

/* The result of a read. Info. */
typedef struct quire_event_batch {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t num_events;
  uint64_t num_bytes;              /* of data; after OUT_OF_RANGE: the bytes needed */
  uint64_t next;                   /* number to read from next */
  uint64_t oldest;                 /* number of the oldest event in the ring */
} quire_event_batch;

/* Starts recording events and computing hashes for them. Call it once per cache, while no sequence
 * is live and nothing is cached. It costs memory per part and one hash per published match unit.
 * Recording may allocate (texts of media and adapters).
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (ring too small for one block), ALREADY_EXISTS, FAILED_PRECONDITION (a
 * sequence is live or content is cached), UNIMPLEMENTED (hash function). */
QUIRE_API quire_code quire_cache_enable_events(quire_cache *cache,
                                               const quire_event_options *options,
                                               quire_error *err);
/* Sets the name of a media item in hashes and events. Without this call the identifier is the
 * digest in hexadecimal and the token is 0. first: from quire_cache_add_media. identifier: UTF-8,
 * borrowed. placeholder: the token at the item's positions.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (first), FAILED_PRECONDITION (no events). */
QUIRE_API quire_code quire_cache_name_media(quire_cache *cache, quire_symbol first,
                                            quire_str identifier, int64_t placeholder,
                                            quire_error *err);
/* Copies events from number `from` on, until either array is full (data aligned to 8). Returns none
 * if `from` is the number of the next event.
 * Thread: any thread. Blocking: while other events are copied.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (no events), DATA_LOSS (overwritten: take a
 * snapshot), OUT_OF_RANGE (not one event fits, or `from` is ahead of the next event). */
QUIRE_API quire_code quire_cache_read_events(quire_cache *cache, uint64_t from, quire_event *events,
                                             uint64_t capacity, uint8_t *data,
                                             uint64_t data_capacity, quire_event_batch *batch,
                                             quire_error *err);
/* Reports everything that can be found now: one stored event per name, shorter prefixes first. The
 * numbers count from 0 and have no meaning. Continue to read at batch->next. The call returns all
 * or nothing: OUT_OF_RANGE leaves the needed sizes in batch (they may grow before the next call).
 * Thread: any thread. Blocking: waits for a mutating call, and mutating calls wait for it.
 * Errors: as quire_cache_read_events. */
QUIRE_API quire_code quire_cache_snapshot_events(quire_cache *cache, quire_event *events,
                                                 uint64_t capacity, uint8_t *data,
                                                 uint64_t data_capacity, quire_event_batch *batch,
                                                 quire_error *err);

/* Digests are encoded completely. Without this flag a digest is encoded as a number: its last 8
 * bytes, big endian. */
#define QUIRE_EVENTS_WHOLE_HASHES 0x1u

/* How a batch of events is encoded. Descriptor. */
typedef struct quire_event_encoding {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_EVENTS_WHOLE_HASHES */
  double time;                     /* of the batch, in seconds since 1970 */
  int64_t rank;                    /* data parallel; -1 = nil */
  quire_str medium;                /* where the blocks of all events are; empty = "GPU" */
  quire_str locality;              /* the same, "LOCAL" or "REMOTE"; empty = left out */
} quire_event_encoding;

/* Encodes events as one batch of vLLM's wire format (msgpack: [time, events, rank]). encoding:
 * borrowed. bytes: two-call array.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT (medium and locality have at most 255 bytes), OUT_OF_RANGE (capacity;
 * offsets outside data). */
QUIRE_API quire_code quire_events_encode(const quire_event *events, uint64_t num_events,
                                         const uint8_t *data, uint64_t data_bytes,
                                         const quire_event_encoding *encoding, uint8_t *bytes,
                                         uint64_t capacity, uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_EVENTS_H_ */
