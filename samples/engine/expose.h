/* expose.h: metrics for Prometheus, over libquire_exporter where it was built. */
#ifndef ENGINE_EXPOSE_H_
#define ENGINE_EXPOSE_H_

#include "options.h"
#include "rig.h"

struct quire_exporter;

/* Serves /metrics at --metrics; *own stays NULL without that. Complains and returns an exit code.
 */
int expose_open(struct quire_exporter** own, const rig* r, const engine_options* options);
void expose_close(struct quire_exporter** own);

#endif
