/* quire/session.h: a sequence outlives its process. A *session* is one sequence as one stream of
 * bytes: the symbols of its committed tokens and, for every group, the blocks or the state that the
 * next token needs. Another process can go on from there, even under another plan: with other block
 * sizes, page orders, policies, numbers of ranks or drivers.
 *
 *   quire_session_save -> a file, a socket, an object -> quire_session_restore
 *
 * The stream is written and read once, in order. It is a manifest, which names the model, and
 * records as tiers store them (tier.h). All of it carries checksums (XXH3-64, against accidents,
 * not against tampering): a forged session can have any content, but does no other harm. */
#ifndef QUIRE_SESSION_H_
#define QUIRE_SESSION_H_

#include <quire/cache.h>
#include <quire/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the next bytes[num_bytes] of a session, at most 4 MiB at once. Any code but QUIRE_OK ends
 * the save, which returns that code; fill *err. Called on the thread of the save. It must not use
 * the cache. */
typedef quire_code (*quire_session_write_fn)(void *user, const void *bytes, uint64_t num_bytes,
                                             quire_error *err);
/* Fills all of bytes[num_bytes] with the next bytes of a session. If the input ends before, that is
 * an error like any other: any code but QUIRE_OK ends the restore, which returns it. Called on the
 * thread of the restore. It must not use the cache. */
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
  /* Restore: tokens that the sequence has now. Fewer than num_tokens if records are damaged, or if
   * a window has longer blocks here than where it was saved and its first block is not complete.
   * The sequence then resumes where all groups can, perhaps at 0. */
  uint64_t committed;
  uint64_t hit_tokens;             /* restore: of these, found in the cache */
  uint64_t num_records;
  uint64_t num_damaged;            /* restore: blocks of records whose checksum does not match */
  uint64_t bytes;                  /* of the session */
} quire_session_info;

/* Writes a session of a sequence, which can go on afterwards. It must have no step in flight.
 * - symbols[num_symbols]: borrowed; at least those of the committed tokens. They are not compared
 *   with the sequence's: wrong symbols make a session of a wrong text.
 * - write, user: called until the session is complete.
 * - info: written on success; NULL is allowed.
 * Thread: serialized on cache, memories and streams. Blocking: yes, until the kernels that are
 * queued on the streams are done and all is written.
 * Errors: INVALID_ARGUMENT (a field; num_symbols; media symbols that the cache never gave out),
 * NOT_FOUND (stale id), FAILED_PRECONDITION (steps in flight, or a load in progress),
 * NOT_REPRESENTABLE (blocks that cannot be packed without holes), UNIMPLEMENTED (cross
 * attention; built without SHA-256), RESOURCE_EXHAUSTED (host memory, holds), and those of write
 * and of the driver. */
QUIRE_API quire_code quire_session_save(quire_cache *cache, quire_sequence_id sequence,
                                        const quire_session_options *options,
                                        const quire_symbol *symbols, uint64_t num_symbols,
                                        quire_session_write_fn write, void *user,
                                        quire_session_info *info, quire_error *err);

/* Reads a session into a sequence, which then has info.committed tokens. If there are any, reserve
 * the rest, with symbols from `known` of quire_sequence_get_info on. Media of the session are added
 * to the cache (quire_cache_add_media).
 * - sequence: empty, opened under the identity (salt, adapter, epoch) that the saved one had.
 * - symbols[capacity]: receives the symbols of the session; max_model_len of the config is always
 *   enough.
 * - read, user: called until the session is complete; what comes after it is not read.
 * - info: written on success; NULL is allowed.
 * After an error an empty sequence is still empty. How far the input was read is not specified.
 * Thread: serialized on cache, memories and streams. Blocking: yes, until all is read and in place.
 * Errors: those of save; FAILED_PRECONDITION (the sequence is not empty; another model, other
 * weights or another identity: the message names the first field that differs), OUT_OF_RANGE
 * (capacity; more tokens than max_load_tokens of the cache), DATA_LOSS (no session; its manifest or
 * a record's header is damaged; a record that does not belong to the stream or stands in it twice),
 * UNIMPLEMENTED (a session of another version), RESOURCE_EXHAUSTED (no room in the pool; max_loads
 * or max_media), and those of read. */
QUIRE_API quire_code quire_session_restore(quire_cache *cache, quire_sequence_id sequence,
                                           const quire_session_options *options,
                                           quire_session_read_fn read, void *user,
                                           quire_symbol *symbols, uint64_t capacity,
                                           quire_session_info *info, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_SESSION_H_ */
