/* engine: an inference engine without weights. See README.md. */
#include <inttypes.h>
#include <stdio.h>

#include "engine_text.h"
#include "expose.h"
#include "forward.h"
#include "geometry.h"
#include "options.h"
#include "publish.h"
#include "report.h"
#include "rig.h"
#include "row_oracle.h"
#include "sampler.h"
#include "server.h"
#include "stream.h"
#include "workload.h"

typedef struct engine {
  engine_options options;
  geometry geo;
  workload work;
  rig rig;
  forward forward;
  sampler kept;
  stream stream;
  publisher publisher;
  struct quire_exporter* exporter;
  server server;
  progress bar;
  verdict verdict;
} engine;

static int open_workload(engine* e) {
  const engine_options* o = &e->options;
  uint64_t longest =
      e->rig.info.capacity_tokens < e->geo.max_len ? e->rig.info.capacity_tokens : e->geo.max_len;
  e->work.max_len = (uint32_t)longest;
  e->work.block_tokens = (uint32_t)o->scale_tokens;
  if (o->serve) return stream_open(&e->stream, &e->work);
  return o->trace == NULL ? workload_converse(&e->work, o) : workload_read_trace(&e->work, o);
}

static int set_up(engine* e) {
  const engine_options* o = &e->options;
  uint32_t slots = (uint32_t)o->batch * 3 +
                   2; /* running, their second samples, and those that wait with a sequence */
  int rc = geometry_open(&e->geo, o);
  if (rc == ENGINE_OK) rc = rig_open(&e->rig, o, &e->geo, slots);
  if (rc == ENGINE_OK) rc = open_workload(e);
  if (rc != ENGINE_OK || o->list) return rc;
  rc = publish_open(&e->publisher, &e->rig, o);
  if (rc == ENGINE_OK) rc = expose_open(&e->exporter, &e->rig, o);
  if (rc == ENGINE_OK && o->memory != MEMORY_NONE)
    rc = forward_open(&e->forward, &e->rig, &e->geo, (uint32_t)o->budget);
  if (rc == ENGINE_OK && o->verify) rc = sampler_open(&e->kept, &e->geo, &e->work, o);
  if (rc != ENGINE_OK) return rc;
  return server_open(&e->server, o, &e->geo, &e->work, &e->rig,
                     o->memory != MEMORY_NONE ? &e->forward : NULL, o->verify ? &e->kept : NULL,
                     o->serve ? &e->stream : NULL, slots);
}

static int outputs_open(engine* e) {
  if (e->options.outputs == NULL) return ENGINE_OK;
  e->server.outputs = fopen(e->options.outputs, "w");
  return e->server.outputs != NULL ? ENGINE_OK : complain("cannot write %s", e->options.outputs);
}

static int after_step(void* user, server* s) {
  engine* e = user;
  uint64_t batches = 0;
  int rc = publish_follow(&e->publisher, &batches);
  if (rc == ENGINE_OK && s->stream != NULL)
    return stream_answer(s->stream, s, batches, &e->verdict);
  progress_show(&e->bar, s);
  return rc;
}

/* Answers requests as they arrive, until standard input ends. */
static int serve(engine* e) {
  int rc = stream_greet(&e->server);
  if (rc == ENGINE_OK) rc = server_run(&e->server, after_step, e);
  if (rc == ENGINE_OK && e->options.json != NULL)
    rc = report_json(e->options.json, &e->server, e->options.verify ? &e->verdict : NULL);
  if (rc != ENGINE_OK) return rc;
  (void)printf("{\"ended\": true, \"verified_rows\": %" PRIu64 ", \"mismatches\": %" PRIu64 "}\n",
               e->verdict.rows, e->verdict.mismatches);
  return e->verdict.mismatches == 0 ? ENGINE_OK : ENGINE_MISMATCH;
}

/* Runs the whole workload, then says how it was. */
static int run(engine* e) {
  report_setup(&e->rig, &e->geo, &e->work);
  progress_open(&e->bar, &e->options);
  int rc = outputs_open(e);
  if (rc == ENGINE_OK) rc = server_run(&e->server, after_step, e);
  progress_close(&e->bar);
  if (e->server.outputs != NULL && fclose(e->server.outputs) != 0)
    rc = complain("cannot write %s", e->options.outputs);
  if (rc != ENGINE_OK) return rc;
  report_table(&e->server);
  rc = report_tiers(&e->server);
  if (rc != ENGINE_OK) return rc;
  if (e->options.verify) {
    rc = oracle_verify(&e->verdict, &e->kept, &e->geo, &e->work, (uint32_t)e->options.threads);
    if (rc == ENGINE_OK) report_verdict(&e->verdict, &e->geo);
  }
  if (rc == ENGINE_OK && e->options.json != NULL)
    rc = report_json(e->options.json, &e->server, e->options.verify ? &e->verdict : NULL);
  return rc;
}

/* The last line, and the exit code. */
static int conclude(const engine* e) {
  const verdict* v = &e->verdict;
  if (!e->options.verify) return ENGINE_OK;
  int is_good = e->options.fault == FAULT_NONE ? v->mismatches == 0 : v->mismatches != 0;
  if (e->options.fault != FAULT_NONE)
    (void)printf("fault %s: %s\n", fault_name(e->options.fault), is_good ? "caught" : "NOT CAUGHT");
  (void)printf("verified %" PRIu64 " rows, %" PRIu64 " mismatches\n", v->rows, v->mismatches);
  if (v->rows == 0) return complain("no row was verified; raise --rows or the workload");
  return is_good ? ENGINE_OK : ENGINE_MISMATCH;
}

static int act(engine* e) {
  if (e->options.list) return stream_list(&e->work);
  if (e->options.serve) return serve(e);
  int rc = run(e);
  return rc == ENGINE_OK ? conclude(e) : rc;
}

static void tear_down(engine* e) {
  server_close(&e->server);
  stream_close(&e->stream);
  publish_close(&e->publisher);
  expose_close(&e->exporter);
  sampler_close(&e->kept);
  forward_close(&e->forward);
  rig_close(&e->rig);
  workload_free(&e->work);
  geometry_close(&e->geo);
}

int main(int argc, char** argv) {
  static engine e;
  int done = 0;
  int rc = options_parse(&e.options, argc, argv, &done);
  if (rc != ENGINE_OK || done) return rc;
  rc = set_up(&e);
  if (rc == ENGINE_OK) rc = act(&e);
  tear_down(&e);
  if (fflush(stdout) != 0) rc = complain("cannot write to standard output");
  return rc;
}
