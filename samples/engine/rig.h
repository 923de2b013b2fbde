/* rig.h: the library's objects that the engine runs on, opened once. */
#ifndef ENGINE_RIG_H_
#define ENGINE_RIG_H_

#include <quire/quire.h>

#include "geometry.h"
#include "options.h"
#include "tiers.h"

typedef struct rig {
  quire_runtime* runtime;
  quire_config* config;
  quire_cache* cache;
  quire_device* device; /* NULL with --memory none, as the next two */
  quire_stream* stream;
  quire_memory* memory;
  quire_config_info info;
  quire_group_info* groups; /* [info.num_groups] */
  quire_region_info* regions;
  uint64_t num_regions;
  void** owned;        /* --memory engine: this program's bytes, one block per region */
  uint64_t pool_bytes; /* of all regions */
  uint64_t host_bytes; /* bookkeeping */
  char device_name[128];
  tier_rack rack;
} rig;

/* live: most sequences at once. Complains and returns an exit code; what was opened is closed by
 * rig_close in any case. */
int rig_open(rig* r, const engine_options* options, const geometry* geo, uint32_t live);
void rig_close(rig* r);
/* Most symbols that one reserve call may pass. */
uint64_t rig_symbols_per_step(const engine_options* options, uint32_t max_len);

#endif
