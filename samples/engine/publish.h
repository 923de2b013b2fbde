/* publish.h: events of the cache for routers, over libquire_zmq where it was built. */
#ifndef ENGINE_PUBLISH_H_
#define ENGINE_PUBLISH_H_

#include "options.h"
#include "rig.h"

struct quire_event_publisher;

typedef struct publisher {
  struct quire_event_publisher* own; /* NULL = no events */
  quire_cache* cache;
  uint64_t late;      /* replays that were asked for in vain, until now */
  double snapshot_at; /* seconds */
} publisher;

/* Binds what --events names, and lets the empty cache report events. Complains and returns an exit
 * code, as the next one. */
int publish_open(publisher* p, const rig* r, const engine_options* options);
/* Sends what happened since the last call. *batches: sent until now, or to be sent soon. */
int publish_follow(publisher* p, uint64_t* batches);
void publish_close(publisher* p);

#endif
