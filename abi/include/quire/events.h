/* quire/events.h: names of blocks as routers and other caches know them (hashes). Inside quire identity is exact and needs none of this.
 *
 * A chain of hashes: block i has hash(hash of block i - 1 or the seed's, its tokens, extra keys). Equal to vLLM's in bytes.
 */
#ifndef QUIRE_EVENTS_H_
#define QUIRE_EVENTS_H_

#include <quire/base.h>
#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is hashed with what. SHA-256 has 32 bytes, XXH3-128 16 (big endian). The pickle forms equal CPython's (protocol 5) where no object
 * occurs twice in a block's tuple. Since: 0.1 */
typedef int32_t quire_hash_algorithm;
enum quire_hash_algorithm_e {
  QUIRE_HASH_SHA256_CBOR = 1,
  QUIRE_HASH_XXHASH_CBOR = 2,
  QUIRE_HASH_SHA256_PICKLE = 3,
  QUIRE_HASH_XXHASH_PICKLE = 4,
  QUIRE_HASH_ALGORITHM_FORCE32 = 0x7fffffff
};

/* A media item at tokens [position, position + length). Frozen, 32 bytes. Since: 0.1 */
typedef struct quire_hash_media {
  uint64_t position;
  uint64_t length;                 /* at least 1 */
  uint64_t identifier_offset;      /* into quire_hash_options.identifiers, UTF-8 */
  uint64_t identifier_bytes;
} quire_hash_media;

/* How blocks are hashed. Descriptor. Since: 0.1 */
typedef struct quire_hash_options {
  uint32_t struct_size;
  quire_hash_algorithm algorithm;
  quire_str seed;                  /* text whose hash precedes first blocks; upstream: the value of PYTHONHASHSEED */
  uint32_t block_tokens;           /* at least 1 */
  uint32_t flags;                  /* QUIRE_HASH_* flags */
  quire_str adapter;               /* name, an extra key of every block; empty = none */
  quire_str salt;                  /* an extra key of the first block; empty = none */
  const quire_hash_media *media;   /* [num_media], by position, not overlapping */
  uint64_t num_media;
  quire_str identifiers;           /* text that media point into */
  const void *embeds;              /* prompt embeddings, [embed_rows][embed_row_bytes]; NULL = none */
  uint64_t embed_rows;
  uint64_t embed_row_bytes;
  const uint8_t *parent;           /* digest of the block before tokens[0]; NULL = tokens start the sequence */
  uint64_t first_token;            /* position of tokens[0], a multiple of block_tokens; above 0 exactly when parent is given */
  const void *next;                /* NULL */
} quire_hash_options;

/* Only the last media item is looked at: what upstream does for blocks that are completed after the prompt. Without it all are. */
#define QUIRE_HASH_LAST_MEDIA_ONLY 0x1u

/* Bytes of a digest; 0 for an unknown algorithm. Thread: any thread. Blocking: no. Since: 0.1 */
QUIRE_API uint32_t quire_hash_bytes(quire_hash_algorithm algorithm);
/* Hashes the complete blocks of tokens[num_tokens]. digests: two-call array of capacity digests, quire_hash_bytes() each, back to back;
 * *count receives the number of blocks. Events carry the last 8 bytes of a digest as a big-endian number.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (capacity), UNIMPLEMENTED (built without the function; the
 * message names it). Since: 0.1 */
QUIRE_API quire_code quire_hash_blocks(const quire_hash_options *options, const int64_t *tokens, uint64_t num_tokens, uint8_t *digests,
                                       uint64_t capacity, uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_EVENTS_H_ */
