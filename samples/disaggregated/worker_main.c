/* worker_main.c: a worker's command line, and its loop. README.md describes both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_text.h"
#include "worker.h"

enum { MOST_SETTINGS = 1024, IDLE_MS = 5 };

#define ALIVE_SECONDS 0.1

static const char usage[] =
    "usage: quire_pd_worker prefill|decode --router HOST:PORT [options] [-- options of "
    "quire_engine]\n"
    "  --listen HOST     prefill: the address that decode workers reach (127.0.0.1)\n"
    "  --secret FILE     the same 32 bytes or more for all; without it nothing is proved\n"
    "  --lease MS        prefill: an offer that nobody reads ends then (5000)\n"
    "  --deadline MS     decode: what has not come by then is computed (500)\n"
    "  --unit N          tokens that travel together, the same for all (64)\n"
    "  --slots N         requests at once (4)\n"
    "  --fault wrong-row decode: damage a row of every prompt that came\n"
    "Exit codes: 0 the router has gone, 2 bad options, 3 it failed.\n";

typedef struct arguments {
  const char *router, *listen, *secret, *lease, *deadline, *slots, *unit, *fault;
} arguments;

static int parse(worker* w, arguments* a, int argc, char** argv) {
  const struct {
    const char* name;
    const char** value;
  } known[] = {{"--router", &a->router}, {"--listen", &a->listen},     {"--secret", &a->secret},
               {"--lease", &a->lease},   {"--deadline", &a->deadline}, {"--slots", &a->slots},
               {"--fault", &a->fault},   {"--unit", &a->unit}};
  int done = 0;
  int i = 2;
  w->is_decode = argc > 1 && strcmp(argv[1], "decode") == 0;
  int is_good = w->is_decode || (argc > 1 && strcmp(argv[1], "prefill") == 0);
  for (; i + 1 < argc && is_good && strcmp(argv[i], "--") != 0; i += 2) {
    size_t k = 0;
    while (k < sizeof known / sizeof known[0] && strcmp(known[k].name, argv[i]) != 0) ++k;
    is_good = k < sizeof known / sizeof known[0];
    if (is_good) *known[k].value = argv[i + 1];
  }
  w->slots = strtoull(a->slots, NULL, 10);
  w->deadline_ns = strtoll(a->deadline, NULL, 10) * 1000000;
  w->breaks_rows = strcmp(a->fault, "wrong-row") == 0;
  is_good = is_good && a->router != NULL && w->slots >= 1 && w->slots <= MOST_JOBS &&
            w->deadline_ns > 0 && strtoul(a->lease, NULL, 10) != 0 &&
            (w->breaks_rows || *a->fault == '\0') && (i == argc || strcmp(argv[i], "--") == 0);
  if (is_good) return options_parse(&w->options, argc > i ? argc - i : 1, argv + i, &done);
  (void)fputs(usage, stderr);
  return ENGINE_USAGE;
}

/* The connector's settings. A prefill worker serves at a free port, which the connector writes into
 * port_file. */
static void write_settings(const worker* w, const arguments* a, const char* port_file,
                           char text[MOST_SETTINGS]) {
  char secret[MOST_SETTINGS / 4] = "\"trusted\": true";
  char listen[MOST_SETTINGS / 2] = "";
  if (a->secret != NULL)
    (void)snprintf(secret, sizeof secret, "\"secret_file\": \"%s\"", a->secret);
  if (!w->is_decode)
    (void)snprintf(listen, sizeof listen,
                   ", \"listen\": \"%s:0\", \"port_file\": \"%s\", \"lease\": \"%sms\"", a->listen,
                   port_file, a->lease);
  (void)snprintf(text, MOST_SETTINGS, "ucx:{%s%s}", secret, listen);
}

/* The cache and its tiers: those of --tier, and after them the one that leads to peers. */
static int open_cache(worker* w, const arguments* a) {
  static char settings[MOST_SETTINGS]; /* of this process's worker, whose options keep it */
  char port_file[] = "/tmp/quire_pd.XXXXXX";
  engine_options* o = &w->options;
  o->unit = strtoull(a->unit, NULL, 10);
  int fd = mkstemp(port_file);
  if (fd < 0) return complain("no file can be made in /tmp");
  write_settings(w, a, port_file, settings);
  o->peers = (uint64_t)1 << o->num_tiers;
  o->tiers[o->num_tiers++] = settings;
  (void)close(fd);
  int rc = rig_open(&w->rig, o, &w->geo, (uint32_t)w->slots);
  char* text = NULL;
  uint64_t n = 0;
  if (rc == ENGINE_OK && !w->is_decode) {
    rc = read_whole_file(port_file, ADDRESS_BYTES, &text, &n);
    if (rc == ENGINE_OK)
      (void)snprintf(w->address, ADDRESS_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
  }
  free(text);
  (void)unlink(port_file);
  return rc;
}

static int open_worker(worker* w, const arguments* a) {
  uint64_t head = 1;
  if (w->options.num_tiers == MOST_TIERS) return complain("one --tier less: peers are one, too");
  int rc = geometry_open(&w->geo, &w->options);
  if (rc == ENGINE_OK) rc = open_cache(w, a);
  if (rc == ENGINE_OK)
    rc = forward_open(&w->forward, &w->rig, &w->geo, (uint32_t)w->options.budget);
  if (rc == ENGINE_OK) rc = batch_open(&w->batch, &w->rig);
  if (rc != ENGINE_OK) return rc;
  for (uint32_t i = 0; i < w->geo.num_layers; ++i) {
    const layer_shape* s = &w->geo.layers[i];
    uint64_t bytes = 4 * (uint64_t)(s->dim_k > s->dim_v ? s->dim_k : s->dim_v);
    if (bytes > head) head = bytes;
  }
  w->head = claim_memory(head, 1, "a head");
  w->token_hash = claim_memory(w->options.budget, sizeof *w->token_hash, "a step");
  w->work.requests = claim_memory(w->slots, sizeof *w->work.requests, "requests");
  w->work.count = (uint32_t)w->slots;
  return w->head != NULL && w->token_hash != NULL && w->work.requests != NULL ? ENGINE_OK
                                                                              : ENGINE_FAILED;
}

static void close_worker(worker* w) {
  for (job* j = w->jobs; j < w->jobs + MOST_JOBS; ++j) {
    free(j->symbols);
    free(j->hashes);
    sampler_close(&j->results);
  }
  free(w->work.requests); /* the prompts are those of the jobs */
  free(w->token_hash);
  free(w->head);
  batch_close(&w->batch);
  forward_close(&w->forward);
  rig_close(&w->rig);
  geometry_close(&w->geo);
  wire_close(&w->router);
}

/* The unit must be the same everywhere: the records of another one are not found. */
static int greet(worker* w, const char* router) {
  char line[128];
  int fd = wire_connect(router);
  if (fd < 0) return ENGINE_FAILED;
  wire_open(&w->router, fd);
  int n = snprintf(line, sizeof line, "hello %s %" PRIu64 " %" PRIu64 "\n",
                   w->is_decode ? "decode" : "prefill", w->slots, w->rig.rack.unit_tokens);
  return wire_send(&w->router, line, (size_t)n) ? ENGINE_OK
                                                : complain("%s does not listen", router);
}

/* Until the router closes the connection. */
static int serve(worker* w) {
  int did = 0;
  double said = seconds_now();
  for (;;) {
    int rc = ENGINE_OK;
    if (seconds_now() - said > ALIVE_SECONDS) {
      if (!wire_send(&w->router, "alive\n", 6)) return ENGINE_OK;
      said = seconds_now();
    }
    if (!wire_receive(&w->router, did ? 0 : IDLE_MS)) return ENGINE_OK;
    for (char* line = wire_line(&w->router); line != NULL && rc == ENGINE_OK;
         line = wire_line(&w->router))
      rc = worker_take(w, line);
    if (rc == ENGINE_OK) rc = worker_round(w, &did);
    if (rc != ENGINE_OK) return rc;
  }
}

int main(int argc, char** argv) {
  static worker w;
  arguments a = {.listen = "127.0.0.1",
                 .lease = "5000",
                 .deadline = "500",
                 .slots = "4",
                 .unit = "64",
                 .fault = ""};
  w.router.fd = -1;
  int rc = parse(&w, &a, argc, argv);
  if (rc == ENGINE_OK) rc = open_worker(&w, &a);
  if (rc == ENGINE_OK) rc = greet(&w, a.router);
  if (rc == ENGINE_OK) rc = serve(&w);
  close_worker(&w);
  return rc;
}
