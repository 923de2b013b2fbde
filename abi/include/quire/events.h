/* quire/events.h: names of blocks as routers and other caches know them (hashes), and what becomes
 * of the blocks of a cache (events). Inside quire identity is exact and needs none of this.
 *
 * A chain of hashes: block i has hash(hash of block i - 1 or the seed's, its tokens, extra keys).
 * Equal to vLLM's in bytes. A cache names its blocks by what vLLM would know of them: adapter,
 * media and salt. An epoch above 0 is a part of the salt: salt, "#epoch=" and the epoch in decimal,
 * as in "tenant#epoch=3" or, with no salt, "#epoch=3". A salt that contains "#epoch=" has it
 * appended in epoch 0, too, so that no two pairs of salt and epoch are one text. Extra keys show
 * that text, and quire_hash_blocks takes it. As in vLLM a salt alone and an adapter alone of one
 * text give one name to their first blocks, and so do media that were given one name. A name that
 * several blocks of a group have is stored with the first of them and removed with the last.
 *
 * Events go into a ring of fixed size and are numbered. A reader that is too slow is told so, and
 * starts again from a snapshot.
 */
#ifndef QUIRE_EVENTS_H_
#define QUIRE_EVENTS_H_

#include <quire/base.h>
#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is hashed with what. SHA-256 has 32 bytes, XXH3-128 16 (big endian). The pickle forms equal
 * CPython's (protocol 5) where no object occurs twice in a block's tuple. */
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
  quire_str seed;                  /* text whose hash precedes first blocks; upstream: the value
                                    * of PYTHONHASHSEED */
  uint32_t block_tokens;           /* at least 1 */
  uint32_t flags;                  /* QUIRE_HASH_* flags */
  quire_str adapter;               /* name, an extra key of every block; empty = none */
  quire_str salt;                  /* an extra key of the first block, with the epoch if it is above
                                      0; empty = none */
  const quire_hash_media *media;   /* [num_media], by position, not overlapping */
  uint64_t num_media;
  quire_str identifiers;           /* text that media point into */
  const void *embeds;              /* prompt embeddings, [embed_rows][embed_row_bytes]; NULL =
                                    * none */
  uint64_t embed_rows;
  uint64_t embed_row_bytes;
  const uint8_t *parent;           /* digest of the block before tokens[0]; NULL = tokens start
                                    * the sequence */
  uint64_t first_token;            /* position of tokens[0], a multiple of block_tokens; above 0
                                    * exactly when parent is given */
} quire_hash_options;

/* Only the last media item is looked at: what upstream does for blocks that are completed after the
 * prompt. Without it all are. */
#define QUIRE_HASH_LAST_MEDIA_ONLY 0x1u

/* Bytes of a digest; 0 for an unknown algorithm. Thread: any thread. Blocking: no. */
QUIRE_API uint32_t quire_hash_bytes(quire_hash_algorithm algorithm);
/* Hashes the complete blocks of tokens[num_tokens]. digests: two-call array of capacity digests,
 * quire_hash_bytes() each, back to back; *count receives the number of blocks. Events carry the
 * last 8 bytes of a digest as a big-endian number.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity),
 * UNIMPLEMENTED (built without the function; the message names it). */
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
  QUIRE_EVENT_STORED = 1,          /* blocks of one group, one behind the other, can be found
                                    * from now on */
  QUIRE_EVENT_REMOVED = 2,         /* they cannot any more */
  QUIRE_EVENT_CLEARED = 3,         /* nothing can */
  QUIRE_EVENT_TYPE_FORCE32 = -0x7fffffff
};

/* One event; offsets are bytes into the data that came with it, multiples of 8. Frozen, 128 bytes.
 */
typedef struct quire_event {
  uint64_t number;                 /* counts up from 0 in each cache, without gaps */
  quire_event_type type;
  uint32_t group;
  uint32_t hash_bytes;             /* of one digest */
  uint32_t num_hashes;             /* blocks */
  uint64_t hashes_offset;          /* num_hashes digests, back to back */
  uint64_t parent_offset;          /* digest of the block before the first */
  uint32_t parent_bytes;           /* hash_bytes, or 0: the first block starts its sequence */
  uint32_t block_tokens;           /* the group's; fewer where one block is found before it is
                                    * full */
  uint64_t tokens_offset;          /* int64_t[num_tokens] */
  uint64_t num_tokens;             /* num_hashes * block_tokens */
  uint64_t keys_offset;            /* extra keys, msgpack: per block nil or an array */
  uint64_t keys_bytes;
  uint64_t adapter_offset;         /* name */
  uint64_t adapter_number;         /* of quire_identity; 0 = none */
  uint32_t adapter_bytes;          /* 0 = none */
  uint32_t kind_bytes;
  uint64_t kind_offset;            /* name of the group's kind, e.g. "full_attention" */
  uint64_t window;                 /* of sliding windows; 0 = none */
} quire_event;

/* What a read returned. Info. */
typedef struct quire_event_batch {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t num_events;
  uint64_t num_bytes;              /* of data; after OUT_OF_RANGE: what is needed */
  uint64_t next;                   /* number to read from next */
  uint64_t oldest;                 /* number of the oldest event in the ring */
} quire_event_batch;

/* From now on events are recorded, and hashes computed for them. Once per cache, before anything
 * was published; costs memory per part and one hash per published match unit. Recording may
 * allocate (texts of media and adapters).
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT (ring too small for one
 * block), ALREADY_EXISTS, FAILED_PRECONDITION (content is published), UNIMPLEMENTED (hash
 * function). */
QUIRE_API quire_code quire_cache_enable_events(quire_cache *cache,
                                               const quire_event_options *options,
                                               quire_error *err);
/* What stands for a media item in hashes and events; without it the identifier is the digest in
 * hexadecimal and the token 0. first: from quire_cache_add_media. identifier: UTF-8, borrowed.
 * placeholder: the token at the item's positions.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (first),
 * FAILED_PRECONDITION (no events). */
QUIRE_API quire_code quire_cache_name_media(quire_cache *cache, quire_symbol first,
                                            quire_str identifier, int64_t placeholder,
                                            quire_error *err);
/* Copies events from number `from` on, as many as fit both arrays (data aligned to 8). from == the
 * number of the next event returns none.
 * Thread: any thread. Blocking: for the copying of other events. Errors: INVALID_ARGUMENT,
 * FAILED_PRECONDITION (no events), DATA_LOSS (overwritten: take a snapshot), OUT_OF_RANGE (not one
 * fits, or from lies ahead). */
QUIRE_API quire_code quire_cache_read_events(quire_cache *cache, uint64_t from, quire_event *events,
                                             uint64_t capacity, uint8_t *data,
                                             uint64_t data_capacity, quire_event_batch *batch,
                                             quire_error *err);
/* Everything that can be found now: one stored event per name, shorter prefixes first; numbers
 * count from 0 and mean nothing, batch->next is where reading goes on. All or nothing: OUT_OF_RANGE
 * leaves the sizes needed in batch (they may grow until the next call).
 * Thread: any thread. Blocking: waits for a mutating call, and mutating calls wait for it. Errors:
 * as quire_cache_read_events. */
QUIRE_API quire_code quire_cache_snapshot_events(quire_cache *cache, quire_event *events,
                                                 uint64_t capacity, uint8_t *data,
                                                 uint64_t data_capacity, quire_event_batch *batch,
                                                 quire_error *err);

/* Digests go out whole; without it as numbers (their last 8 bytes). */
#define QUIRE_EVENTS_WHOLE_HASHES 0x1u

/* Encodes events as one batch of vLLM's wire format (msgpack: [time, events, rank]); rank -1 = nil.
 * bytes: two-call array.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity; offsets
 * outside data). */
QUIRE_API quire_code quire_events_encode(const quire_event *events, uint64_t num_events,
                                         const uint8_t *data, uint64_t data_bytes, double time,
                                         int64_t rank, uint32_t flags, uint8_t *bytes,
                                         uint64_t capacity, uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_EVENTS_H_ */
