/* report_tiers.c: what the tiers did: a column for each, then the fetches of all. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine_text.h"
#include "report.h"

enum { COLUMNS = 4 };

typedef struct tier_column {
  quire_tier_stats stats;
  quire_connector_health health;
  quire_connector_stats tickets;
} tier_column;

static const char* const outcome_names[] = {"",        "done", "nothing", "slower",
                                            "no_room", "late", "failed",  "cancelled"};
static const char* const outcome_notes[] = {"",
                                            "brought tokens",
                                            "no tier had more than the pool",
                                            "computing is faster",
                                            "the pool had no room for a load; some asked again",
                                            "given up: the deadline passed",
                                            "records were missing or damaged, or a tier failed",
                                            "given up: cancelled"};

static int read_column(const tier_rack* rack, uint32_t tier, tier_column* c) {
  quire_error err = {.struct_size = sizeof err};
  memset(c, 0, sizeof *c);
  c->stats.struct_size = sizeof c->stats;
  c->health.struct_size = sizeof c->health;
  c->tickets.struct_size = sizeof c->tickets;
  if (quire_tiers_get_tier_stats(rack->tiers, tier, &c->stats, &err) != QUIRE_OK ||
      quire_connector_get_stats(rack->connectors[tier], &c->tickets, &err) != QUIRE_OK)
    return complain_quire("tier", &err);
  /* Not every connector knows how it is. */
  if (quire_connector_get_health(rack->connectors[tier], &c->health, &err) != QUIRE_OK)
    memset(&c->health, 0, sizeof c->health);
  return ENGINE_OK;
}

/* Microseconds that half of the tickets took less than: a power of two. 0 = there was none. */
static uint64_t median_us(const uint64_t latency[32]) {
  uint64_t all = 0;
  uint64_t sum = 0;
  for (int i = 0; i < 32; ++i) all += latency[i];
  for (int i = 0; i < 32 && all != 0; ++i) {
    sum += latency[i];
    if (2 * sum >= all) return UINT64_C(1) << i;
  }
  return 0;
}

static void show_count(uint64_t value, char text[48]) { (void)grouped(value, text); }
static void show_bytes(uint64_t value, char text[48]) { (void)sized((double)value, text); }

static void show_capacity(uint64_t value, char text[48]) {
  (void)snprintf(text, 48, "unknown");
  if (value != 0) show_bytes(value, text);
}

static void show_speed(uint64_t ns_per_mib, char text[48]) {
  char bytes[32];
  (void)snprintf(text, 48, "unknown");
  if (ns_per_mib != 0)
    (void)snprintf(text, 48, "%s/s", sized(1e9 / (double)ns_per_mib * 1048576.0, bytes));
}

/* ns in a readable unit. */
static void show_time(uint64_t ns, char text[48]) {
  (void)snprintf(text, 48, "unknown");
  if (ns != 0) (void)snprintf(text, 48, "%.0f us", 1e-3 * (double)ns);
  if (ns >= 1000000) (void)snprintf(text, 48, "%.1f ms", 1e-6 * (double)ns);
}

static void show_bound(uint64_t us, char text[48]) {
  (void)snprintf(text, 48, "-");
  if (us != 0) (void)snprintf(text, 48, "< %" PRIu64 " us", us);
  if (us >= 1000) (void)snprintf(text, 48, "< %.1f ms", 1e-3 * (double)us);
}

typedef struct table {
  tier_column columns[COLUMNS];
  uint32_t first, count;
} table;

static void row(const table* t, const char* name, const uint64_t* values,
                void (*show)(uint64_t value, char text[48])) {
  char text[48];
  (void)printf("  %-26s", name);
  for (uint32_t i = 0; i < t->count; ++i) {
    show(values[i], text);
    (void)printf(" %15s", text);
  }
  (void)printf("\n");
}

/* One row: the same field of every column. */
#define ROW(name, expression, show)           \
  do {                                        \
    for (uint32_t i = 0; i < t->count; ++i) { \
      const tier_column* c = &t->columns[i];  \
      values[i] = (expression);               \
    }                                         \
    row(t, name, values, show);               \
  } while (0)

static void print_table(const table* t, const tier_rack* rack, uint64_t admitted) {
  uint64_t values[COLUMNS];
  char text[48];
  (void)printf("%-28s", "tiers");
  for (uint32_t i = 0; i < t->count; ++i) {
    (void)snprintf(text, sizeof text, "%u %.13s", t->first + i + 1, rack->names[t->first + i]);
    (void)printf(" %15s", text);
  }
  (void)printf("\n");
  ROW("capacity", c->health.capacity_bytes, show_capacity);
  ROW("used", c->health.used_bytes, show_bytes);
  ROW("fetched tokens", c->stats.tokens_fetched, show_count);
  (void)printf("  %-26s", "  of admitted tokens");
  for (uint32_t i = 0; i < t->count; ++i)
    (void)printf(" %13.1f %%", report_share(t->columns[i].stats.tokens_fetched, admitted));
  (void)printf("\n");
  ROW("bytes loaded", c->stats.bytes_loaded, show_bytes);
  ROW("bytes stored", c->stats.bytes_stored, show_bytes);
  ROW("load speed, estimated", c->stats.ns_per_mib, show_speed);
  ROW("look-up time, estimated", c->stats.latency_ns, show_time);
  ROW("load time, median", median_us(c->tickets.load_latency), show_bound);
  ROW("store time, median", median_us(c->tickets.store_latency), show_bound);
  ROW("records found", c->stats.keys_found, show_count);
  ROW("records loaded", c->stats.objects_loaded, show_count);
  ROW("records stored", c->stats.objects_stored, show_count);
  ROW("records evicted", c->health.num_evicted, show_count);
  ROW("missing when loaded", c->stats.objects_missing, show_count);
  ROW("damaged", c->stats.objects_damaged, show_count);
  ROW("failed loads", c->stats.objects_failed, show_count);
  ROW("units stored", c->stats.units_stored, show_count);
  ROW("units dropped", c->stats.units_dropped, show_count);
  ROW("times left alone", c->stats.times_closed, show_count);
}

int report_tiers(const server* s) {
  const tier_rack* rack = &s->rig->rack;
  uint64_t admitted = s->counts.prompt_tokens + s->counts.resumed_tokens;
  quire_tiers_stats stats;
  char note[80];
  if (rack->tiers == NULL) return ENGINE_OK;
  for (uint32_t first = 0; first < rack->count; first += COLUMNS) {
    table t = {.first = first};
    for (; t.count < COLUMNS && first + t.count < rack->count; ++t.count) {
      int rc = read_column(rack, first + t.count, &t.columns[t.count]);
      if (rc != ENGINE_OK) return rc;
    }
    print_table(&t, rack, admitted);
  }
  int rc = tiers_read(rack, &stats);
  if (rc != ENGINE_OK) return rc;
  (void)printf("fetches\n");
  report_count("begun", stats.fetches, "");
  for (uint32_t i = QUIRE_FETCH_DONE; i <= QUIRE_FETCH_CANCELLED; ++i) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s", outcome_names[i]);
    for (char* c = name; *c != '\0'; ++c) *c = (char)(*c == '_' ? ' ' : *c);
    if (i == QUIRE_FETCH_DONE || stats.outcomes[i] != 0)
      report_count(name, stats.outcomes[i], outcome_notes[i]);
  }
  if (stats.outcomes[QUIRE_FETCH_DONE] != 0) {
    double done = (double)stats.outcomes[QUIRE_FETCH_DONE];
    char bytes[32];
    char text[32];
    (void)snprintf(text, sizeof text, "%.1f ms", 1e-6 * (double)s->counts.fetch_ns / done);
    (void)snprintf(note, sizeof note, "of those done, %s each; others run meanwhile",
                   sized((double)s->counts.fetch_bytes / done, bytes));
    report_line("mean time", text, note);
  }
  (void)snprintf(note, sizeof note, "%.1f %% of admitted tokens",
                 report_share(stats.tokens_fetched, admitted));
  report_count("fetched tokens", stats.tokens_fetched, note);
  (void)snprintf(note, sizeof note, "from the pool, of %" PRIu64 " tokens each", rack->unit_tokens);
  report_count("units taken", stats.units_taken, note);
  if (s->stats.units_given_up != 0)
    report_count("units given up", s->stats.units_given_up, "not stored: the pool needed them");
  if (stats.quarantined_ever != 0)
    report_count("quarantined loads", stats.quarantined_ever, "late bytes, kept apart");
  return ENGINE_OK;
}

static void json_tier(FILE* f, const tier_rack* rack, uint32_t tier, const tier_column* c) {
  const quire_tier_stats* st = &c->stats;
  const struct {
    const char* name;
    uint64_t value;
  } fields[] = {{"capacity_bytes", c->health.capacity_bytes},
                {"used_bytes", c->health.used_bytes},
                {"tokens_fetched", st->tokens_fetched},
                {"bytes_loaded", st->bytes_loaded},
                {"bytes_stored", st->bytes_stored},
                {"ns_per_mib", st->ns_per_mib},
                {"lookup_ns", st->latency_ns},
                {"records_looked_up", st->keys_looked_up},
                {"records_found", st->keys_found},
                {"records_loaded", st->objects_loaded},
                {"records_stored", st->objects_stored},
                {"records_existed", st->objects_existed},
                {"records_evicted", c->health.num_evicted},
                {"records_missing", st->objects_missing},
                {"records_damaged", st->objects_damaged},
                {"records_failed", st->objects_failed},
                {"units_stored", st->units_stored},
                {"units_dropped", st->units_dropped},
                {"times_closed", st->times_closed}};
  (void)fprintf(f, "%s\n    {\"name\": \"%s\"", tier == 0 ? "" : ",", rack->names[tier]);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i)
    (void)fprintf(f, ",\n     \"%s\": %" PRIu64, fields[i].name, fields[i].value);
  (void)fprintf(f, "}");
}

int report_tiers_json(FILE* f, const server* s) {
  const tier_rack* rack = &s->rig->rack;
  quire_tiers_stats stats;
  if (rack->tiers == NULL) return ENGINE_OK;
  int rc = tiers_read(rack, &stats);
  (void)fprintf(f, ",\n  \"unit_tokens\": %" PRIu64 ",\n  \"units_taken\": %" PRIu64,
                stats.unit_tokens, stats.units_taken);
  (void)fprintf(f, ",\n  \"units_given_up\": %" PRIu64, s->stats.units_given_up);
  (void)fprintf(f, ",\n  \"fetches\": {\"begun\": %" PRIu64, stats.fetches);
  for (uint32_t i = QUIRE_FETCH_DONE; i <= QUIRE_FETCH_CANCELLED; ++i)
    (void)fprintf(f, ", \"%s\": %" PRIu64, outcome_names[i], stats.outcomes[i]);
  (void)fprintf(f, "},\n  \"tiers\": [");
  for (uint32_t i = 0; i < rack->count && rc == ENGINE_OK; ++i) {
    tier_column column;
    rc = read_column(rack, i, &column);
    if (rc == ENGINE_OK) json_tier(f, rack, i, &column);
  }
  (void)fprintf(f, "]");
  return rc;
}

void report_tier_setup(const tier_rack* rack) {
  for (uint32_t i = 0; i < rack->count; ++i) (void)printf("tier %u    %s\n", i + 1, rack->names[i]);
  if (rack->count == 0) return;
  (void)printf("units     %" PRIu64 " tokens, stored when complete\n", rack->unit_tokens);
  (void)printf("weights   %s\n", rack->weights);
}
