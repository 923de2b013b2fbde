#include "publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine_text.h"

#ifdef ENGINE_EVENTS
#include <quire/zmq.h>

enum { SNAPSHOT_SECONDS = 2 };

static quire_str text_of(const char* s) {
  return s == NULL ? (quire_str){NULL, 0} : (quire_str){s, strlen(s)};
}

/* The names of blocks follow from --seed, as vLLM's do from PYTHONHASHSEED: equal in a fleet. */
static int enable(quire_cache* cache, uint64_t seed) {
  char text[32];
  quire_error err = {.struct_size = sizeof err};
  quire_event_options options = {.struct_size = sizeof options};
  (void)snprintf(text, sizeof text, "%" PRIu64, seed);
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.seed = text_of(text);
  if (quire_cache_enable_events(cache, &options, &err) == QUIRE_OK) return ENGINE_OK;
  return complain_quire("events", &err);
}

int publish_open(publisher* p, const rig* r, const engine_options* o) {
  quire_error err = {.struct_size = sizeof err};
  quire_event_publisher_options options = {.struct_size = sizeof options};
  memset(p, 0, sizeof *p);
  if (o->events == NULL) return ENGINE_OK;
  int rc = enable(r->cache, o->seed);
  if (rc != ENGINE_OK) return rc;
  options.endpoint = text_of(o->events);
  options.replay_endpoint = text_of(o->event_replays);
  options.medium = text_of("CPU");
  options.locality = text_of("LOCAL");
  if (quire_event_publisher_create(&options, &p->own, &err) != QUIRE_OK) {
    char call[320];
    (void)snprintf(call, sizeof call, "--events %.300s", o->events);
    (void)complain_quire(call, &err);
    return err.code == QUIRE_INVALID_ARGUMENT ? ENGINE_USAGE : ENGINE_FAILED;
  }
  p->cache = r->cache;
  return ENGINE_OK;
}

int publish_follow(publisher* p, uint64_t* batches) {
  quire_error err = {.struct_size = sizeof err};
  quire_event_publisher_stats stats = {.struct_size = sizeof stats};
  uint32_t flags = 0;
  *batches = 0;
  if (p->own == NULL) return ENGINE_OK;
  quire_code code = quire_event_publisher_get_stats(p->own, &stats, &err);
  /* Somebody asked for batches that are gone. A snapshot is large: not more often than this. */
  if (stats.late_replays > p->late && seconds_now() - p->snapshot_at >= SNAPSHOT_SECONDS) {
    flags = QUIRE_FOLLOW_SNAPSHOT;
    p->late = stats.late_replays;
    p->snapshot_at = seconds_now();
  }
  if (code == QUIRE_OK) code = quire_event_publisher_follow(p->own, p->cache, flags, &err);
  if (code == QUIRE_OK) code = quire_event_publisher_get_stats(p->own, &stats, &err);
  *batches = stats.next_number;
  return code == QUIRE_OK ? ENGINE_OK : complain_quire("publish events", &err);
}

void publish_close(publisher* p) {
  quire_event_publisher_release(p->own);
  memset(p, 0, sizeof *p);
}

#else

int publish_open(publisher* p, const rig* r, const engine_options* o) {
  (void)r;
  memset(p, 0, sizeof *p);
  if (o->events == NULL) return ENGINE_OK;
  (void)complain(
      "--events: this program was built without libquire_zmq, which needs libzmq (Debian: "
      "libzmq3-dev)");
  return ENGINE_USAGE;
}

int publish_follow(publisher* p, uint64_t* batches) {
  (void)p;
  *batches = 0;
  return ENGINE_OK;
}

void publish_close(publisher* p) { (void)p; }

#endif
