/* quire/zmq.h: events of a cache on the wire, over ZeroMQ, as vLLM's publisher sends them. What
 * reads vLLM's events can read them unchanged. Link libquire_zmq as well as libquire.
 *
 * A publisher sends batches of events from a PUB socket. A batch is a message of three frames:
 * - the topic
 * - the number of the batch, 8 bytes, big endian. The first batch of a publisher is number 0.
 * - the events, as quire_events_encode encodes them
 *
 * A subscriber that is too slow loses batches, and sees that from the numbers. It can ask for them
 * at the replay endpoint, a ROUTER socket. A request is a frame that is ignored and the first
 * number that is wanted, big endian; a REQ socket adds the first frame itself. The answers are an
 * empty frame and the three frames of each batch that is still kept, in order. The last answer has
 * an empty topic, the number 2^64 - 1 and no events. Batches that are not kept any more are left
 * out. Requests of another form are not answered.
 *
 * Engines do not wait for subscribers. A publisher has a thread of its own, which owns the sockets.
 * Batches wait for it in a queue. If the queue is full, a new batch is dropped. It uses up its
 * number, so that all subscribers see the gap, and is counted.
 *
 * libzmq ends the process if it has no memory. Batches that wait for slow subscribers and replays
 * are limited by number (hwm, buffer_steps), not by bytes. Endpoints should be reachable only by
 * those who may subscribe.
 *
 * fork(): a child must not use a publisher. It may release it, which gives nothing back. Ports stay
 * bound and connections open until the child ends or calls exec. */
#ifndef QUIRE_ZMQ_H_
#define QUIRE_ZMQ_H_

#include <quire/base.h>
#include <quire/cache.h>
#include <quire/events.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_event_publisher quire_event_publisher;

/* Options of quire_event_publisher_create. Descriptor. */
typedef struct quire_event_publisher_options {
  uint32_t struct_size;
  uint32_t flags;                  /* QUIRE_EVENTS_WHOLE_HASHES */
  /* Where batches are sent. Endpoints with "*" or "::" and those that begin with ipc:// are bound,
   * others are connected to. inproc:// is refused: nobody else has the publisher's context.
   * Empty = port 5557 of all interfaces, by tcp. */
  quire_str endpoint;
  quire_str replay_endpoint;       /* always bound; empty = no replays, and no batch is kept */
  quire_str topic;
  quire_str medium;                /* of all events; empty = "GPU" */
  quire_str locality;              /* of all events, "LOCAL" or "REMOTE"; empty = not said */
  uint64_t buffer_steps;           /* batches that are kept for replays; 0 = 10,000 */
  uint64_t buffer_bytes;           /* of these batches; the latest is always kept; 0 = 256 MiB */
  uint64_t max_queue_size;         /* batches in the queue; 0 = 100,000 */
  uint64_t max_queue_bytes;        /* of these batches; one always has room; 0 = 256 MiB */
  /* Batches that wait for one subscriber. One that has so many unread loses further ones. They take
   * memory until then. 0 = 100,000. */
  uint32_t hwm;
  /* Rank in each batch. It is added to the ports of tcp endpoints; port 0 and "*" stay. A rank
   * above 0 needs tcp endpoints. -1 = nil, and ports stay. */
  int32_t data_parallel_rank;
  /* How long a release may take to send what is queued, in milliseconds. 0 = 1,000. */
  uint32_t linger_ms;
  uint32_t reserved0;              /* 0 */
} quire_event_publisher_options;

/* A batch to publish. Descriptor. */
typedef struct quire_event_message {
  uint32_t struct_size;
  uint32_t reserved0;              /* 0 */
  const quire_event *events;
  uint64_t num_events;
  const uint8_t *data;             /* of the events, aligned to 8 */
  uint64_t data_bytes;
  double time;                     /* seconds since 1970; 0 = now */
  quire_str medium;                /* of these events; empty = that of the publisher */
  quire_str locality;              /* of these events; empty = that of the publisher */
} quire_event_message;

/* What a publisher has done. Info. */
typedef struct quire_event_publisher_stats {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t next_number;            /* of the next batch */
  uint64_t sent;                   /* batches that were handed to the socket */
  uint64_t dropped;                /* batches that were not: the queue was full, or no memory */
  /* How often a subscriber fell behind by hwm batches. From there on it loses batches until it
   * reads again. */
  uint64_t overruns;
  uint64_t queued;                 /* batches in the queue */
  uint64_t queued_bytes;
  uint64_t kept;                   /* batches that can be replayed */
  uint64_t kept_bytes;
  uint64_t oldest_kept;            /* number; next_number if none is kept */
  uint64_t subscriptions;          /* of connected subscribers, to any topic */
  uint64_t replays;                /* requests that were answered */
  uint64_t replayed;               /* batches in these answers */
  uint64_t late_replays;           /* requests for a number below oldest_kept */
  uint64_t malformed_requests;
  uint64_t snapshots;              /* published by quire_event_publisher_follow */
} quire_event_publisher_stats;

/* Where a publisher is. Info. */
typedef struct quire_event_publisher_info {
  uint32_t struct_size;
  int32_t data_parallel_rank;
  /* With the rank and, where libzmq chose it, the port. NUL terminated, truncated. */
  char endpoint[256];
  char replay_endpoint[256];       /* the same; empty without replays */
} quire_event_publisher_info;

/* Opens the sockets and starts the publisher's thread. options: borrowed. *out: owned, release it
 * with quire_event_publisher_release.
 * Thread: any thread. Blocking: yes, binds sockets, and may ask a name server for the address of a
 * host.
 * Errors: INVALID_ARGUMENT, ALREADY_EXISTS (the endpoint is in use), PERMISSION_DENIED,
 * RESOURCE_EXHAUSTED, INCOMPATIBLE_ABI (of the libquire that was loaded). */
QUIRE_API quire_code quire_event_publisher_create(const quire_event_publisher_options *options,
                                                  quire_event_publisher **out, quire_error *err);
/* Sends what is queued for at most linger_ms, then drops the rest and closes the sockets. NULL is
 * allowed.
 * Thread: serialized on publisher. Blocking: for about linger_ms. */
QUIRE_API void quire_event_publisher_release(quire_event_publisher *publisher);

/* Encodes a batch in this thread and queues it. message: borrowed. QUIRE_OK also if the batch was
 * dropped.
 * Thread: any thread. Blocking: while another thread publishes.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (offsets outside data), RESOURCE_EXHAUSTED,
 * FAILED_PRECONDITION (in a child of fork). No number is used up. */
QUIRE_API quire_code quire_event_publisher_publish(quire_event_publisher *publisher,
                                                   const quire_event_message *message,
                                                   quire_error *err);

/* Publish a snapshot instead of the new events. */
#define QUIRE_FOLLOW_SNAPSHOT 0x1u

/* Publishes the events of a cache since the last call, with the publisher's medium and locality;
 * nothing if there are none. Call it after each commit. A snapshot is one batch that begins with
 * AllBlocksCleared, so that every subscriber starts again. It is published if
 * - QUIRE_FOLLOW_SNAPSHOT asks for it
 * - the cache has overwritten events that were not read yet
 * - batches of this publisher were dropped; it then waits until half of the queue is empty
 * A publisher follows one cache: that of the first call, which is kept alive.
 * Thread: one call at a time per publisher. It reads the cache as quire_cache_read_events does.
 * Blocking: while events are copied; a snapshot also as quire_cache_snapshot_events.
 * Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (no events are enabled, or in a
 * child of fork). The next call goes on where this one stopped. */
QUIRE_API quire_code quire_event_publisher_follow(quire_event_publisher *publisher,
                                                  quire_cache *cache, uint32_t flags,
                                                  quire_error *err);

/* Writes counters. Those of the publisher's thread may be of different moments.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (in a child of fork). */
QUIRE_API quire_code quire_event_publisher_get_stats(quire_event_publisher *publisher,
                                                     quire_event_publisher_stats *stats,
                                                     quire_error *err);
/* Writes the endpoints.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (in a child of fork). */
QUIRE_API quire_code quire_event_publisher_get_info(quire_event_publisher *publisher,
                                                    quire_event_publisher_info *info,
                                                    quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_ZMQ_H_ */
