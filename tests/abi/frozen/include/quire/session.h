/* quire/session.h: a sequence outlives its process. A *session* is what the cache has of one
 * sequence, as one stream of bytes: its symbols and, of every group, the blocks and the state that
 * resuming after its last committed token needs. Another process goes on from there, also under
 * another plan: other block sizes, page orders, policies, numbers of ranks, drivers.
 *
 *   quire_session_save -> a file, a socket, an object -> quire_session_restore
 *
 * The stream is written and read once, in order. It is a manifest, which names the model, and
 * records as tiers store them (tier.h). All of it carries checksums (XXH3-64, against accidents,
 * not against tampering). */
#ifndef QUIRE_SESSION_H_
#define QUIRE_SESSION_H_

#include <quire/cache.h>
#include <quire/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the next bytes[num_bytes] of a session; at most some MiB at once. Anything but QUIRE_OK
 * ends the save, which returns that code; fill *err. Called on the thread of the save. */
typedef quire_code (*quire_session_write_fn)(void *user, const void *bytes, uint64_t num_bytes,
                                             quire_error *err);
/* Fills bytes[num_bytes] with the next bytes of a session, all of them. The end of the input is an
 * error like any other. Called on the thread of the restore. */
typedef quire_code (*quire_session_read_fn)(void *user, void *bytes, uint64_t num_bytes,
                                            quire_error *err);

/* What both calls need. Descriptor. */
typedef struct quire_session_options {
  uint32_t struct_size;
  uint32_t flags;                  /* 0 */
  /* Name of the weights, 1 to 4096 bytes; see quire_tiers_options. */
  quire_str weights;
  quire_memory *const *memories;   /* [num_shards of the config]; all shards in this process */
  quire_stream *const *streams;    /* [num_shards]: on which the engine prepares and runs steps */
} quire_session_options;

/* What was saved or restored. Info. */
typedef struct quire_session_info {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t num_tokens;             /* of the session: its symbols */
  /* Restore: tokens that the sequence has now. Fewer than num_tokens if records are damaged, or
   * lack tokens of this plan's blocks (windows whose blocks are longer than the saved ones): it
   * resumes where all groups can, perhaps at 0. */
  uint64_t committed;
  uint64_t hit_tokens;             /* restore: of these, found in the cache */
  uint64_t num_records;
  uint64_t num_damaged;            /* restore: blocks of records whose checksum is another */
  uint64_t bytes;                  /* of the stream, as far as it was written or read */
} quire_session_info;

/* Writes a sequence. It goes on afterwards; it has no step in flight meanwhile.
 * - symbols[num_symbols]: borrowed; at least those of the committed tokens. They are the caller's
 *   word: symbols of other tokens make a session of other tokens.
 * - write, user: called until the session is complete.
 * - info: written on success; NULL is allowed.
 * Thread: serialized on cache, memories and streams. Blocking: yes, until the kernels that are
 * queued on the streams are done and all is written.
 * Errors: INVALID_ARGUMENT (a field; num_symbols; media symbols that the cache never gave out),
 * NOT_FOUND (stale id), FAILED_PRECONDITION (steps in flight, or a load in progress),
 * NOT_REPRESENTABLE (blocks that cannot be packed without holes), UNIMPLEMENTED (device memory;
 * cross attention; built without SHA-256), RESOURCE_EXHAUSTED (host memory, holds), and those of
 * write and of the driver. */
QUIRE_API quire_code quire_session_save(quire_cache *cache, quire_sequence_id sequence,
                                        const quire_session_options *options,
                                        const quire_symbol *symbols, uint64_t num_symbols,
                                        quire_session_write_fn write, void *user,
                                        quire_session_info *info, quire_error *err);

/* Reads a session into a sequence, which then has info.committed tokens. Reserve the rest from
 * there on; no symbols are known beyond the session's.
 * - sequence: empty, opened under the identity (salt, adapter, epoch) that the saved one had.
 * - symbols[capacity]: written, the session's; max_model_len of the config is always enough.
 * - read, user: called until the session is complete.
 * - info: written on success; NULL is allowed.
 * On an error the sequence is empty, and the input is anywhere.
 * Thread: serialized on cache, memories and streams. Blocking: yes, until all is read and in place.
 * Errors: those of save; FAILED_PRECONDITION (the sequence is not empty; another model, other
 * weights or another identity: the message names the first field that differs), OUT_OF_RANGE
 * (capacity; more tokens than max_load_tokens of the cache), DATA_LOSS (no session, or a manifest
 * or a record's header is damaged), RESOURCE_EXHAUSTED (no room in the pool), and those of read. */
QUIRE_API quire_code quire_session_restore(quire_cache *cache, quire_sequence_id sequence,
                                           const quire_session_options *options,
                                           quire_session_read_fn read, void *user,
                                           quire_symbol *symbols, uint64_t capacity,
                                           quire_session_info *info, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_SESSION_H_ */
