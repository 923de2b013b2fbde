/* quire/metrics.h: what caches, tiers, memories and drivers count, as text for Prometheus. An
 * engine that has an HTTP server answers with this text. Others link libquire_exporter
 * (quire/exporter.h).
 *
 * Names begin with quire_. What follows is vLLM's name where the meaning is the same, for example
 * quire_prefix_cache_hits_total for vllm:prefix_cache_hits_total. docs/metrics.md lists all.
 *
 * Counters do not fall while their object lives. Latencies are histograms whose buckets are
 * powers of two. */
#ifndef QUIRE_METRICS_H_
#define QUIRE_METRICS_H_

#include <quire/base.h>
#include <quire/cache.h>
#include <quire/memory.h>
#include <quire/tier.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Objects that count, at most one of each kind, and the labels of their samples. NULL = none.
 * Frozen, 48 bytes. */
typedef struct quire_metrics_source {
  quire_cache *cache;
  quire_tiers *tiers;
  quire_memory *memory;            /* one shard; its device is reported with it */
  /* Labels of all samples, in the form of the text: engine="0",model_name="m". Escapes of values
   * are \\, \" and \n. UTF-8. Empty = none. */
  quire_str labels;
  void *reserved0;                 /* NULL */
} quire_metrics_source;

/* The form of the text. */
typedef int32_t quire_metrics_format;
enum quire_metrics_format_e {
  /* Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8 */
  QUIRE_METRICS_OPENMETRICS = 1,
  /* Content-Type: text/plain; version=0.0.4; charset=utf-8 */
  QUIRE_METRICS_PROMETHEUS = 2,
  QUIRE_METRICS_FORMAT_FORCE32 = -0x7fffffff
};

/* Writes the metrics of all sources as one text. An HTTP thread can call it while the engine runs.
 * - sources[num_sources]: borrowed. Two caches need different labels, and so do two sets of tiers
 *   and two memories of the same shard. quire adds the label of the shard.
 * - text: two-call array, not NUL terminated. The text may be longer at the next call.
 * Thread: any thread. Blocking: waits for a mutating call of each cache.
 * Errors: INVALID_ARGUMENT (labels: syntax, a name twice or one of quire's; two sources with the
 * same labels), OUT_OF_RANGE (capacity). */
QUIRE_API quire_code quire_metrics_write(const quire_metrics_source *sources, uint64_t num_sources,
                                         quire_metrics_format format, char *text, uint64_t capacity,
                                         uint64_t *count, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_METRICS_H_ */
