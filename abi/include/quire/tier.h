/* quire/tier.h: tiers, which offload the KV cache. A tier stores blocks through a connector: in
 * host memory, on disk, in a shared store. A fetch restores a prefix for all groups together:
 * attention, windows and recurrent states at one boundary.
 *
 *   every iteration:   quire_reserve .. quire_commit, quire_tiers_run
 *   a new request:     quire_fetch_begin -> (quire_tiers_run until it has ended) -> quire_reserve
 *
 * Sequences are stored in *units*, aligned ranges of unit_tokens tokens. Of each unit the layers of
 * one live range have one object on every rank, a *record*. Without recurrent layers, a prompt
 * shorter than a unit is neither stored nor fetched. With recurrent layers, a unit ends also where
 * a state was kept: shorter prompts are stored and fetched up to there, and longer ones are fetched
 * only up to such a place.
 *
 * A tier never makes an answer wrong. A record carries checksums (XXH3-64, against accidents, not
 * against tampering) and a fingerprint of all that its bytes depend on; a mismatch is a miss. A
 * tier never makes a request hang: a fetch ends by its deadline, although its transfer may go on.
 * With ns_per_token, a tier is used only where it seems faster than computing.
 *
 * Records of other policies, block sizes and page orders are read, but windows and sinks under
 * longer blocks only if these fit (docs/tiers.md). Those of other tensor-parallel sizes are read if
 * the options name these. A unit comes with all heads, or not at all.
 *
 * Prefill in one process, decode in another: the process that computed a prompt offers it, and the
 * other one fetches it (quire_offer_begin, quire_fetch_begin_peer).
 *
 * The tiers have no thread. All work is done in quire_tiers_run, in small portions. The connectors
 * move bytes on threads of their own. */
#ifndef QUIRE_TIER_H_
#define QUIRE_TIER_H_

#include <quire/connector.h>
#include <quire/events.h>
#include <quire/hold.h>
#include <quire/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tiers of one cache. */
typedef struct quire_tiers quire_tiers;

/* Flag of quire_tier. The connector leads to peers: it is asked by quire_fetch_begin_peer, and
 * offers go to it. It stores nothing else, so `reasons` is 0. Failures do not suspend it, because
 * they may be those of one peer. */
#define QUIRE_TIER_PEERS 0x1u

/* One tier. Frozen, 48 bytes. */
typedef struct quire_tier {
  /* Kept, and used by these tiers alone: others cannot submit to it or poll it any more. */
  quire_connector *connector;
  quire_str name;                  /* for statistics, at most 31 bytes; empty = the connector's */
  /* Which units are written: QUIRE_UNIT_COMMITTED (as soon as they are complete), _HIT (when
   * another sequence resumes after them), _FINISHED (when quire_sequence_finish ends a sequence
   * that has them), _EVICTING (just before the cache evicts them; call quire_tiers_run after every
   * commit). 0 = the tier is only read. */
  uint32_t reasons;
  uint32_t flags;                  /* QUIRE_TIER_* */
  /* Bytes of stores in flight; a unit that is alone may exceed it. If all tiers are full, units
   * wait in the cache, which drops them when it needs their blocks. If only this one is, it skips
   * them. What is in flight is held, so it is missing in the pool.
   * 0 = 64 MiB, or its part of an eighth of the pool, which the tiers that write share equally,
   * if that is less.
   * Of peers: bytes of all offers; one that is alone may exceed it. 0 = a quarter of the pool. Of
   * pools on devices it is host memory, which stays pinned until the tiers are released. */
  uint64_t max_store_bytes;
  uint64_t reserved0;              /* 0 */
} quire_tier;

/* Options of quire_tiers_create. Descriptor. */
typedef struct quire_tiers_options {
  uint32_t struct_size;
  uint32_t flags;                  /* 0 */
  /* Name of the weights, 1 to 4096 bytes, for example "org/model@revision". Anything else that
   * changes cached values needs another name, too: rope scaling, quantization, tokenizer. */
  quire_str weights;
  /* [num_shards of the config], kept. All shards are in this process. */
  quire_memory *const *memories;
  /* [num_shards]: the streams on which the engine prepares and runs steps; kept. */
  quire_stream *const *streams;
  const quire_tier *tiers;         /* [num_tiers]: the nearest first */
  uint64_t num_tiers;              /* 1 to 8 */
  /* A multiple of block_tokens of every group, at most 65536. 0 = chosen: 64 to 4096 tokens, such
   * that the records of a unit of one live range take 1 MiB over all ranks, but none more than the
   * max_object_bytes of a connector. */
  uint64_t unit_tokens;
  /* Prefill time per token, in nanoseconds; measure it. A fetch that is expected to take more than
   * 0.8 of computing the same tokens is not begun. Those of an encoder count, too. 0 = unknown:
   * everything that is found is fetched. */
  double ns_per_token;
  /* Fetches at the same time, at most 4096; 0 = max_loads of the cache. */
  uint32_t max_fetches;
  uint32_t reserved0;              /* 0 */
  /* [num_tensor_parallel], at most 8, each 1 to 1024: other tensor-parallel sizes whose records are
   * read, too. They are asked for where records of our own size are missing, in another look-up
   * within the same time. Our own may be among them.
   * NULL, 0 = only our own size is read. */
  const uint32_t *tensor_parallel;
  uint64_t num_tensor_parallel;
  /* Memory of the ring of events of each tier that writes; see quire_tiers_read_events. 0 = no
   * events. */
  uint64_t event_ring_bytes;
} quire_tiers_options;

/* Creates the tiers of a cache, one quire_tiers per cache. They take its units from now on: while
 * they exist, quire_cache_watch_units and _take_units are FAILED_PRECONDITION. *out: owned; it
 * keeps cache, memories, streams and connectors.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (a field; a memory of another config; one connector twice; records of
 * unit_tokens that are larger than a connector's max_object_bytes; a ring too small for one block),
 * FAILED_PRECONDITION (a tier writes but the cache has no prefix reuse; the cache has tiers
 * already, or records no events for event_ring_bytes; a connector has tickets in flight, or is used
 * by other tiers), NOT_REPRESENTABLE (blocks that cannot be packed without holes), UNIMPLEMENTED
 * (cross attention, unless all tiers have QUIRE_TIER_PEERS; EVICTING with draft layers; a
 * connector without host memory, with keys shorter than 32 bytes or with objects shorter than one
 * block; built without SHA-256), and the connectors' and the driver's. */
QUIRE_API quire_code quire_tiers_create(quire_cache *cache, const quire_tiers_options *options,
                                        quire_tiers **out, quire_error *err);
/* Adds a reference and returns the argument. Thread: any thread. Blocking: no. */
QUIRE_API quire_tiers *quire_tiers_retain(quire_tiers *tiers);
/* Drops a reference; NULL is allowed. Dropping the last one cancels all fetches, and waits until no
 * connector touches memory of the tiers.
 * It waits 5 seconds at most. A connector that has not ended its tickets by then is wrong (C-3). It
 * may still read and write their bytes, so these stay: the cache, the memories and the connector
 * live until the process ends, and their blocks stay held. An error is logged, and num_in_flight of
 * quire_connector_get_stats is not 0. Bytes that the engine bound (quire_memory_bind) must then
 * stay, too.
 * Thread: serialized on cache for the last one. Blocking: yes, last one. */
QUIRE_API void quire_tiers_release(quire_tiers *tiers);

/* A fetch. Ids count up from 1. 0 is never a valid id. */
typedef uint64_t quire_fetch_id;

/* How a fetch ended. */
typedef int32_t quire_fetch_outcome;
enum quire_fetch_outcome_e {
  QUIRE_FETCH_DONE = 1,            /* everything that was found, and worth it, arrived */
  QUIRE_FETCH_NOTHING = 2,         /* no tier has more than the cache */
  QUIRE_FETCH_SLOWER = 3,          /* not begun: computing is expected to be faster */
  QUIRE_FETCH_NO_ROOM = 4,         /* no room for a load now, or too many late transfers */
  QUIRE_FETCH_LATE = 5,            /* given up: the deadline passed, or progress was too slow */
  QUIRE_FETCH_FAILED = 6,          /* records were missing or damaged, or a tier failed */
  QUIRE_FETCH_CANCELLED = 7,
  QUIRE_FETCH_OUTCOME_FORCE32 = -0x7fffffff
};

/* The end of a fetch. Frozen, 64 bytes. */
typedef struct quire_fetch_result {
  quire_fetch_id fetch;
  quire_sequence_id sequence;
  quire_fetch_outcome outcome;
  uint32_t tier;                   /* index of the tier that gave most bytes; 0xffffffff = none */
  /* Tokens that the sequence has now, whatever the outcome. 0 = it is empty: reserve with
   * QUIRE_ENTRY_MATCH. Otherwise reserve the rest without it, from `known` of
   * quire_sequence_get_info on: a load knows symbols beyond what it brought. */
  uint64_t committed;
  uint64_t hit_tokens;             /* of these, found in the cache */
  uint64_t bytes;                  /* that were brought */
  int64_t elapsed_ns;
  uint64_t reserved0;              /* 0 */
} quire_fetch_result;

/* Asks the tiers for a prefix of symbols[num_symbols], beyond what the cache has. At least the last
 * token is left to compute. A fetch is one load of the cache, or several, one after the other, if
 * more than max_load_tokens are to come. It goes on while each load brings everything; each has a
 * look-up of its own. With recurrent layers a load ends where a state was kept: if no two states
 * are that close, set max_load_tokens to the longest prompt. A fetch ends at a multiple of
 * unit_tokens, or where a state was kept.
 * - sequence: empty. Do not use it until the fetch has ended; to drop it, cancel first.
 * - symbols: borrowed; tokens, and media symbols of this cache.
 * - deadline_ns: nanoseconds from now. 0 = derived. Look-ups get a twentieth of the time to compute
 *   the prompt, or 10 s without ns_per_token. The load gets three times what it should take and
 *   50 ms; where that is not known, 0.8 of the time to compute, or what look-ups left of the 10 s.
 *   Each load has such times of its own, but a deadline that was given is that of the fetch.
 *   With ns_per_token it is given up earlier (LATE) if its progress is too slow. That is judged
 *   after another twentieth, or after twice what it should take if the tier's speed was measured.
 * - *out: the fetch. It may have ended already; quire_tiers_run reports it in any case.
 * Thread: serialized on tiers and cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (stale id), FAILED_PRECONDITION (the sequence is not empty,
 * or a fetch of it is in progress), RESOURCE_EXHAUSTED (max_fetches). */
QUIRE_API quire_code quire_fetch_begin(quire_tiers *tiers, quire_sequence_id sequence,
                                       const quire_symbol *symbols, uint64_t num_symbols,
                                       int64_t deadline_ns, quire_fetch_id *out, quire_error *err);
/* What one process offers another. Frozen, 32 bytes. */
typedef struct quire_offer {
  uint8_t handle[16];              /* random; whoever has it can read the offer */
  uint64_t end_token;              /* the reader resumes here: it computes what follows */
  uint64_t num_bytes;              /* of all ranks, with headers */
} quire_offer;

/* How an offer stands. Info. */
typedef struct quire_offer_info {
  uint32_t struct_size;
  uint32_t is_ready;               /* 1 = pass the handle on now: all of it can be read, or it grows
                                    * and its reader may wait for it (QUIRE_PEER_GROWS) */
  uint64_t num_records;            /* of all of it */
  uint64_t num_tokens;             /* that can be read now; end_token = it is complete */
} quire_offer_info;

/* Offers the first tokens of a sequence to one reader, through a tier with QUIRE_TIER_PEERS.
 * For a pool in host memory nothing is copied: the connector sends from the pool, so the offer
 * holds its blocks (quire/hold.h) until the connector ends it: its reader is done, its lease is
 * over (a setting of the connector), or it was withdrawn. For a pool on a device the records are
 * copied into pinned host memory, and the connector sends the copies. If all shards are on devices,
 * the blocks are held until their records were submitted.
 *
 * An offer of more than what is committed *grows*: begin it before or while the prompt is computed,
 * and its reader loads each chunk while the next one is computed. Each quire_tiers_run adds the
 * units that were committed since the last call. Call it after every commit, and more often while
 * num_tokens of quire_offer_get_info lags: a call computes checksums of some 16 MiB. Keep the
 * sequence, and compute nothing beyond end_token, until num_tokens is end_token. It may be
 * preempted, and must compute the same symbols again then. An offer whose sequence ends earlier, or
 * goes beyond its end, is withdrawn. Of an offer that does not grow the sequence may go on, or
 * finish, at once.
 * - symbols[num_symbols]: borrowed; those that the sequence has or will compute, at least end_token
 *   and those that drafts read ahead of it. The bytes are found under these symbols, so computing
 *   others would give wrong answers elsewhere.
 * - end_token: a multiple of the tokens at which all groups can resume, here and in the process
 *   that reads; with cross attention any. 0 = the last one that is committed. Groups with a state
 *   have it at the last committed token only. So, with recurrent layers, commit up to exactly
 *   end_token. Leave the reader at least one token of the prompt to compute.
 * - tier: its index.
 * - *out: the offer. num_bytes of one that grows: at most.
 * quire_tiers_run prepares the offer, after the kernels that are queued by then. It can be passed
 * on when is_ready of quire_offer_get_info is 1.
 * With cross attention an offer has the tokens of the encoder, too. Their number is known when the
 * first step of the sequence is reserved, so begin the offer after that. A sequence that is
 * preempted must be computed again with the same input of the encoder; with another number of its
 * tokens the offer is withdrawn. Such an offer may end at any token. Inside a block it needs a
 * sequence without steps in flight.
 * Thread: serialized on tiers and cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (end_token), NOT_FOUND (stale id), OUT_OF_RANGE (tier, too few symbols,
 * end_token beyond max_model_len), FAILED_PRECONDITION (no QUIRE_TIER_PEERS; nothing is committed,
 * and end_token is 0; cross attention before anything is reserved; of an offer that does not grow:
 * a load of the sequence is in progress, a step in flight writes the block that it ends in, or the
 * state or a block of a window at its end is not there), RESOURCE_EXHAUSTED (max_store_bytes,
 * holds, 4,096 offers), UNIMPLEMENTED (a connector that registers regions; one that grows, through
 * a connector whose objects are too short for its description). */
QUIRE_API quire_code quire_offer_begin(quire_tiers *tiers, quire_sequence_id sequence,
                                       const quire_symbol *symbols, uint64_t num_symbols,
                                       uint64_t end_token, uint32_t tier, quire_offer *out,
                                       quire_error *err);
/* Reads how an offer stands. handle: [16].
 * Thread: serialized on tiers. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (unknown, or it has ended: its reader is done, its lease is
 * over, or the connector or a device failed). */
QUIRE_API quire_code quire_offer_get_info(quire_tiers *tiers, const uint8_t *handle,
                                          quire_offer_info *info, quire_error *err);
/* Withdraws an offer. Its blocks, or their copies, stay until the connector has proved that it
 * reads them no more. handle: [16].
 * Thread: serialized on tiers. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (unknown, or it has ended). */
QUIRE_API quire_code quire_offer_end(quire_tiers *tiers, const uint8_t *handle, quire_error *err);

/* Flag of quire_peer. The offer may grow still: what is missing is waited for, until end_token is
 * reached, the offer ends, or the deadline passes. */
#define QUIRE_PEER_GROWS 0x1u

/* Where a fetch finds what another process offers. A router passes it on. Descriptor. */
typedef struct quire_peer {
  uint32_t struct_size;
  uint32_t tier;                   /* index of a tier with QUIRE_TIER_PEERS */
  quire_str address;               /* of the other process, as the connector wants it, 1 to 255
                                    * bytes; borrowed */
  uint8_t handle[16];              /* of quire_offer */
  uint64_t end_token;
  uint32_t flags;                  /* QUIRE_PEER_* */
  /* Cross attention: encoder_tokens (quire_sequence_info) of the offered sequence. Otherwise 0. */
  uint32_t encoder_tokens;
} quire_peer;

/* As quire_fetch_begin, and asks a peer for what it offers. Whatever else the cache and the tiers
 * have is used, too: only what is missing comes from the peer. When the fetch ends, the peer learns
 * that the offer is not needed any more. Tensor-parallel size, blocks, page order and policy of the
 * peer may differ, as those of records may (quire_tiers_options.tensor_parallel). If the offer does
 * not fit this process, quire_fetch_get_refusal says why.
 *
 * After a fetch that brought something, a sequence with cross attention has the encoder's tokens,
 * too: reserve the rest with encoder_tokens 0. If it brought nothing, the sequence is empty.
 *
 * With QUIRE_PEER_GROWS the load begins at once, with room for all of the prompt, and records come
 * as the peer adds them. The peer is asked again after a sixteenth of the time since something came
 * last, 1 to 50 ms. If it neither answers nor sends for a second, or its offer has ended, the fetch
 * ends with what came. deadline_ns 0: the first look-up has the time of any fetch; then twice the
 * time to compute the prompt and 1 s, or 60 s without ns_per_token. Progress is not judged, since
 * it is that of the other process. Such a fetch is one of max_loads for as long.
 * Thread: serialized on tiers and cache. Blocking: no.
 * Errors: those of quire_fetch_begin, INVALID_ARGUMENT (flags; encoder_tokens without cross
 * attention), OUT_OF_RANGE (tier, encoder_tokens), FAILED_PRECONDITION (no QUIRE_TIER_PEERS). */
QUIRE_API quire_code quire_fetch_begin_peer(quire_tiers *tiers, quire_sequence_id sequence,
                                            const quire_symbol *symbols, uint64_t num_symbols,
                                            int64_t deadline_ns, const quire_peer *peer,
                                            quire_fetch_id *out, quire_error *err);
/* What an offer says of itself, in the order in which its reader compares it. */
typedef int32_t quire_offer_field;
enum quire_offer_field_e {
  QUIRE_OFFER_VERSION = 1,         /* of the description, or of the format of records */
  QUIRE_OFFER_WEIGHTS = 2,
  QUIRE_OFFER_LAYERS = 3,          /* what a layer caches: heads, sizes, types, codec, window,
                                    * sinks */
  QUIRE_OFFER_UNIT_TOKENS = 4,
  QUIRE_OFFER_RANKS = 5,           /* a tensor-parallel size that the options do not name, other
                                    * pipeline stages or context-parallel ranks */
  QUIRE_OFFER_GROUPS = 6,          /* its plan divides the layers otherwise */
  QUIRE_OFFER_LOOK_AHEAD = 7,      /* tokens that drafts read ahead */
  QUIRE_OFFER_SALT = 8,
  QUIRE_OFFER_ADAPTER = 9,
  QUIRE_OFFER_EPOCH = 10,
  QUIRE_OFFER_END_TOKEN = 11,      /* it is not that of quire_peer, the prompt has no token left to
                                    * compute after it, or groups cannot all resume there here */
  QUIRE_OFFER_PROMPT = 12,         /* other tokens */
  QUIRE_OFFER_BLOCK_TOKENS = 13,   /* windows under longer blocks than the writer's */
  QUIRE_OFFER_ENCODER_TOKENS = 14, /* another number than that of quire_peer */
  QUIRE_OFFER_FIELD_FORCE32 = -0x7fffffff
};

/* Why nothing came of an offer. Info. */
typedef struct quire_offer_refusal {
  uint32_t struct_size;
  quire_offer_field field;         /* the first one that differs */
  char name[64];                   /* of it, for example "unit_tokens" or "layer 3.0" */
  char here[128];                  /* its value in this process; empty = it is not shown */
  char there[128];                 /* its value in the peer; untrusted text */
} quire_offer_refusal;

/* Reads why a fetch did not get an offer, or got only a part of it: the first field of the offer
 * that this process cannot use. The fetch looks for it within its deadline, before it is reported.
 * There is no answer if the deadline passed, if the peer or the connector failed, or if nothing
 * differs. Values of salt, adapter and prompt are never shown.
 * - fetch: has been reported. Answers of the latest 64 such fetches are kept.
 * Thread: any thread. Blocking: for moments.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (there is no answer). */
QUIRE_API quire_code quire_fetch_get_refusal(quire_tiers *tiers, quire_fetch_id fetch,
                                             quire_offer_refusal *refusal, quire_error *err);
/* Ends a fetch early: quire_tiers_run reports it at its next call. Blocks of unfinished transfers
 * stay quarantined until these have ended.
 * Thread: serialized on tiers and cache. Blocking: no.
 * Errors: NOT_FOUND (unknown, or it has ended). */
QUIRE_API quire_code quire_fetch_cancel(quire_tiers *tiers, quire_fetch_id fetch, quire_error *err);

/* Does what there is to do: takes units from the cache and stores them, follows transfers, ends
 * fetches. Nothing moves on without this call. Waits up to timeout_ns (0 = not at all) while
 * transfers are in flight and none completes; an engine without steps calls it so while fetches are
 * in progress.
 * Before this call, prepare every reserved step and queue the kernels of committed ones: stores
 * wait for the work that is queued by now, and for no later work.
 * - results[capacity]: fetches that have ended, each once; others stay for the next call.
 * - *count: their number.
 * Thread: serialized on tiers, cache, memories and streams: loads are reserved and prepared here.
 * Blocking: up to timeout_ns; it computes checksums, of at most some 8 MiB of stores in a call, and
 * of what was loaded.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (host memory; nothing is lost, call again). Failures
 * of connectors are counted, not returned. */
QUIRE_API quire_code quire_tiers_run(quire_tiers *tiers, int64_t timeout_ns,
                                     quire_fetch_result *results, uint64_t capacity,
                                     uint64_t *count, quire_error *err);

/* What happened in one tier. Info. */
typedef struct quire_tier_stats {
  uint32_t struct_size;
  uint32_t is_open;                /* 1 = in use; 0 = suspended after 5 failures in a row, for 5 s
                                    * to 5 min */
  char name[32];
  uint64_t units_stored;           /* all objects of a unit were written, or existed */
  uint64_t units_dropped;          /* not written: too much was in flight, or a store failed */
  uint64_t objects_stored;
  uint64_t objects_existed;
  uint64_t objects_loaded;
  uint64_t objects_missing;        /* found by a look-up, and gone when they were loaded */
  uint64_t objects_damaged;        /* checksum, size or name was another; they were removed */
  uint64_t objects_failed;         /* other errors of loads */
  uint64_t bytes_stored;
  uint64_t bytes_loaded;
  uint64_t bytes_in_flight;
  uint64_t keys_looked_up;
  uint64_t keys_found;
  uint64_t tokens_fetched;         /* of fetches that are done, by the tier that gave most */
  uint64_t times_closed;           /* suspended */
  uint64_t ns_per_mib;             /* of loads, as it is estimated now; 0 = unknown */
  uint64_t latency_ns;             /* of look-ups, as it is estimated now; 0 = unknown */
  uint64_t offers_refused;         /* fetches for which quire_fetch_get_refusal has an answer */
} quire_tier_stats;

/* Reads the counters of a tier.
 * Thread: any thread. Blocking: for moments. Errors: INVALID_ARGUMENT, OUT_OF_RANGE (tier). */
QUIRE_API quire_code quire_tiers_get_tier_stats(quire_tiers *tiers, uint32_t tier,
                                                quire_tier_stats *stats, quire_error *err);

/* What happened in all tiers. Info. */
typedef struct quire_tiers_stats {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t unit_tokens;
  uint64_t fetches;                /* begun */
  uint64_t fetches_in_progress;
  uint64_t outcomes[8];            /* by quire_fetch_outcome */
  uint64_t tokens_fetched;
  uint64_t tokens_hit;             /* of the same fetches, found in the cache */
  uint64_t units_taken;            /* from the cache */
  uint64_t units_in_flight;        /* held for stores */
  uint64_t quarantined;            /* loads that were given up and may still be written; now */
  uint64_t quarantined_ever;
  uint64_t tokens_asked;           /* of fetches that ended: beyond what the cache had */
  uint64_t fetch_ns;               /* from quire_fetch_begin to the end; sum */
  /* Element i counts fetches that took less than 2^i microseconds and not less than half of that.
   * The last element counts the rest, too. */
  uint64_t fetch_latency[32];
  uint64_t offers;                 /* begun */
  uint64_t offers_in_progress;
} quire_tiers_stats;

/* Reads the counters.
 * Thread: any thread. Blocking: for moments. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_tiers_get_stats(quire_tiers *tiers, quire_tiers_stats *stats,
                                           quire_error *err);

/* Copies events of a tier from number `from` on, as quire_cache_read_events does those of the
 * cache: the same names, groups and form. Each tier counts its own numbers from 0.
 * - STORED: the tier has these blocks now. It comes when the last object of their unit was written,
 *   or was found to exist. Units that end at a state inside a longer one are not reported.
 * - REMOVED: a fetch found an object of theirs missing or damaged, of whatever rank. Then all
 *   blocks of the unit in its groups are taken back. What a connector evicts is noticed only then,
 *   and only if its STORED is still in the ring. So a reader takes these events as hints, and
 *   forgets what is old.
 * Blocks that others wrote, or an earlier process, are not reported.
 * Thread: any thread. Blocking: while other events are copied.
 * Errors: as quire_cache_read_events, OUT_OF_RANGE (tier), FAILED_PRECONDITION (no
 * event_ring_bytes; a tier that is only read). There are no snapshots: after DATA_LOSS go on at
 * batch->oldest. */
QUIRE_API quire_code quire_tiers_read_events(quire_tiers *tiers, uint32_t tier, uint64_t from,
                                             quire_event *events, uint64_t capacity, uint8_t *data,
                                             uint64_t data_capacity, quire_event_batch *batch,
                                             quire_error *err);

/* What the header of a record says. A record is what a tier keeps as one object: blocks that the
 * layers of one live range have on one shard, of the tokens of a unit, or their states. Info. */
typedef struct quire_record_info {
  uint32_t struct_size;
  uint32_t version;                /* of the format */
  uint8_t key[32];                 /* under which it is kept */
  uint8_t fingerprint[32];         /* of the name of the weights and of what the layers cache */
  uint8_t prefix[32];              /* of all tokens up to end_token */
  uint64_t caches;                 /* the same number where two records are of the same layers */
  uint64_t first_token;            /* of the unit; a state is that of end_token */
  uint64_t end_token;
  uint64_t header_bytes;           /* the payload begins there: num_blocks blocks */
  uint64_t block_bytes;
  uint64_t num_blocks;
  uint64_t first_block[2];         /* of the sequence, of up to two stretches of blocks: */
  uint64_t end_block[2];           /* sinks and the tail of a window */
  int64_t written_at_ns;           /* since 1970 */
  uint32_t block_tokens;           /* states: 0 */
  uint32_t is_state;
  uint32_t num_caches;             /* layers, or parts of layers with a cache of their own */
  uint32_t first_layer;
  uint32_t last_layer;
  uint32_t first_head;             /* token caches, those of the first layer: which heads it has */
  uint32_t num_heads;              /* states: 0 */
  uint32_t rank;                   /* token caches: of context parallelism; states: of the shards */
  uint32_t num_ranks;
  uint32_t reserved0;              /* 0 */
} quire_record_info;

/* Reads the header of a record, for tools that look at what a connector keeps.
 * - bytes[num_bytes]: the record from its first byte on; untrusted.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (they do not begin as a record does), UNIMPLEMENTED (a record
 * of another version), OUT_OF_RANGE (its header is longer than that), DATA_LOSS (the header is
 * damaged). */
QUIRE_API quire_code quire_record_read(const void *bytes, uint64_t num_bytes,
                                       quire_record_info *info, quire_error *err);
/* Compares blocks of a record's payload with the checksums in its header.
 * - header[header_bytes]: the record from its first byte on, at least its header; untrusted.
 * - first_block, blocks[num_bytes]: whole blocks of the payload, from this one on.
 * - *num_damaged: blocks whose bytes are others.
 * Thread: any thread. Blocking: no.
 * Errors: those of quire_record_read, and OUT_OF_RANGE (no whole blocks, or more than it has). */
QUIRE_API quire_code quire_record_check(const void *header, uint64_t header_bytes,
                                        uint64_t first_block, const void *blocks,
                                        uint64_t num_bytes, uint64_t *num_damaged,
                                        quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_TIER_H_ */
