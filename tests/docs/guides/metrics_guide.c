/* The code of docs/metrics.md: the text of a cache without tiers. */
#include <quire/exporter.h>
#include <quire/metrics.h>
#include <quire/quire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page declares only what it calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "metrics_c.inc"

static void must(quire_code code, const quire_error* err) {
  if (code == QUIRE_OK) return;
  fprintf(stderr, "%s\n", err->message);
  exit(1);
}

int main(void) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_layer layer = QUIRE_INIT(quire_layer);
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = 1;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype.code = 2;
  layer.dtype.bits = 16;
  layer.dtype.lanes = 1;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_cache* cache = NULL;
  quire_plan_options plan = QUIRE_INIT(quire_plan_options);
  plan.num_pages = 18;
  must(quire_model_create(&layer, sizeof layer, 1, 256, &model, &err), &err);
  must(quire_config_create(model, &plan, &config, &err), &err);
  must(quire_cache_create(NULL, config, NULL, &cache, &err), &err);
  uint64_t size = 0;
  char* text = metrics_text(cache, NULL, NULL, &size);
  const char* line = "quire_pages{engine=\"0\",model_name=\"m\",state=\"free\"} 17\n";
  int ok = text != NULL && size > strlen(line);
  if (ok) {
    text[size - 1] = '\0';
    ok = strstr(text, line) != NULL;
  }
  free(text);
  quire_metrics_source other = {0};
  other.labels.data = "1";
  other.labels.len = 1; /* refused before it listens */
  ok = ok && serve_metrics(&other, 1, &err) == NULL && err.code == QUIRE_INVALID_ARGUMENT;
  quire_cache_release(cache);
  quire_config_release(config);
  quire_model_release(model);
  return ok ? 0 : 1;
}
