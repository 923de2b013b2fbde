#include "expose.h"

#include <stdio.h>
#include <string.h>

#include "engine_text.h"

#ifdef ENGINE_METRICS
#include <quire/exporter.h>

int expose_open(struct quire_exporter** own, const rig* r, const engine_options* o) {
  quire_error err = {.struct_size = sizeof err};
  quire_exporter_options options = {.struct_size = sizeof options};
  quire_metrics_source source = {.cache = r->cache, .tiers = r->rack.tiers, .memory = r->memory};
  *own = NULL;
  if (o->metrics == NULL) return ENGINE_OK;
  options.address = (quire_str){o->metrics, strlen(o->metrics)};
  options.sources = &source;
  options.num_sources = 1;
  if (quire_exporter_create(&options, own, &err) == QUIRE_OK) return ENGINE_OK;
  (void)complain_quire("--metrics", &err);
  return err.code == QUIRE_INVALID_ARGUMENT ? ENGINE_USAGE : ENGINE_FAILED;
}

void expose_close(struct quire_exporter** own) {
  quire_exporter_release(*own);
  *own = NULL;
}

#else

int expose_open(struct quire_exporter** own, const rig* r, const engine_options* o) {
  (void)r;
  *own = NULL;
  if (o->metrics == NULL) return ENGINE_OK;
  (void)complain(
      "--metrics: this program was built without libquire_exporter, which needs CivetWeb (Debian: "
      "libcivetweb-dev)");
  return ENGINE_USAGE;
}

void expose_close(struct quire_exporter** own) { (void)own; }

#endif
