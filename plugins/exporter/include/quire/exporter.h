/* quire/exporter.h: metrics over HTTP, for engines without a server of their own. Link
 * libquire_exporter as well as libquire.
 *
 * GET /metrics answers with the text of quire_metrics_write: OpenMetrics where the request accepts
 * it, else Prometheus' older form. Other paths are not found. Two threads answer; a request that
 * takes longer than 5 seconds to arrive is dropped. There is no TLS and no password: whoever
 * reaches the port can read the metrics.
 *
 * The server is CivetWeb. It makes the process ignore SIGPIPE.
 *
 * fork(): a child must not use an exporter. It may release it; that frees nothing. While the child
 * lives and does not call exec, the port stays bound, even if the parent releases the exporter. */
#ifndef QUIRE_EXPORTER_H_
#define QUIRE_EXPORTER_H_

#include <quire/base.h>
#include <quire/metrics.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_exporter quire_exporter;

/* Options of quire_exporter_create. Descriptor. */
typedef struct quire_exporter_options {
  uint32_t struct_size;
  uint32_t flags;                        /* 0 */
  /* Where to listen: address in numbers and port, for example "0.0.0.0:9464" or "[::1]:9464".
   * Port 0 = any free one. Empty = "127.0.0.1:9464". */
  quire_str address;
  const quire_metrics_source *sources;   /* [num_sources]; borrowed, the objects are kept alive */
  uint64_t num_sources;
} quire_exporter_options;

/* What an exporter has done. Info. */
typedef struct quire_exporter_info {
  uint32_t struct_size;
  uint32_t port;                         /* on which it listens */
  uint64_t scrapes;                      /* answered with metrics */
  uint64_t failures;                     /* answered with an error */
  uint64_t refusals;                     /* other paths and methods */
} quire_exporter_info;

/* Starts listening. options: borrowed. *out: owned, release it with quire_exporter_release.
 * Thread: any thread. Blocking: no.
 * Errors: INVALID_ARGUMENT (address; sources, as quire_metrics_write), ALREADY_EXISTS (the port is
 * in use), PERMISSION_DENIED, RESOURCE_EXHAUSTED. */
QUIRE_API quire_code quire_exporter_create(const quire_exporter_options *options,
                                           quire_exporter **out, quire_error *err);
/* Stops listening and waits for answers in progress. NULL is allowed.
 * Thread: serialized on exporter. Blocking: for such answers, at most some seconds. */
QUIRE_API void quire_exporter_release(quire_exporter *exporter);
/* Reads the port and the counters.
 * Thread: any thread. Blocking: no. Errors: INVALID_ARGUMENT. */
QUIRE_API quire_code quire_exporter_get_info(quire_exporter *exporter, quire_exporter_info *info,
                                             quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_EXPORTER_H_ */
