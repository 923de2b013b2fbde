/* tiers.h: the tiers behind the pool: opened by name, and what the engine tells them of itself. */
#ifndef ENGINE_TIERS_H_
#define ENGINE_TIERS_H_

#include <quire/tier.h>

#include "geometry.h"
#include "options.h"

struct rig;

typedef struct tier_rack {
  quire_tiers* tiers; /* NULL = none; then all else is empty */
  uint32_t count;
  quire_connector* connectors[MOST_TIERS];
  char names[MOST_TIERS][32];
  char weights[128];
  uint64_t unit_tokens;
} tier_rack;

/* Opens what --tier names, over a rig whose cache, stream and memory are open. Complains and
 * returns an exit code; what was opened is closed by tiers_close in any case. */
int tiers_open(struct rig* r, const engine_options* options, const geometry* geo);
void tiers_close(tier_rack* rack);
/* Reads the counters. Complains and returns an exit code. */
int tiers_read(const tier_rack* rack, quire_tiers_stats* stats);

#endif
