#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine_text.h"

enum { BAR = 28 };

void progress_open(progress* p, const engine_options* options) {
  p->on = options->progress || isatty(STDERR_FILENO);
  p->begin = seconds_now();
  p->last = 0;
}

double report_share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
}

void progress_show(progress* p, const server* s) {
  double now = seconds_now();
  char tokens[32];
  char bar[BAR + 1];
  int is_done = s->done_requests == s->work->count;
  if (!p->on || (now - p->last < 0.1 && !is_done)) return;
  p->last = now;
  uint32_t filled = (uint32_t)(s->done_requests * BAR / s->work->count);
  for (uint32_t i = 0; i < BAR; ++i) bar[i] = i < filled ? '#' : '.';
  bar[BAR] = '\0';
  (void)fprintf(stderr,
                "\r[%s] %3.0f %%  %" PRIu64 "/%u requests  %s tokens  hits %.1f %%  pages %" PRIu64
                "/%" PRIu64 "  %.0f s ",
                bar, report_share(s->done_requests, s->work->count), s->done_requests,
                s->work->count, grouped(s->counts.computed_tokens, tokens),
                report_share(s->counts.hit_tokens, s->counts.prompt_tokens), s->stats.pages_used,
                s->stats.pages_total, now - p->begin);
  (void)fflush(stderr);
}

void progress_close(const progress* p) {
  if (p->on) (void)fprintf(stderr, "\n");
}

void report_line(const char* name, const char* value, const char* note) {
  (void)printf("  %-24s %14s  %s\n", name, value, note);
}

void report_count(const char* name, uint64_t value, const char* note) {
  char text[32];
  report_line(name, grouped(value, text), note);
}

static void share_line(const char* name, uint64_t part, uint64_t whole, const char* of) {
  char note[64];
  (void)snprintf(note, sizeof note, "%.1f %% of %s", report_share(part, whole), of);
  report_count(name, part, note);
}

static void group_line(const rig* r, const geometry* geo, uint32_t index) {
  const quire_group_info* g = &r->groups[index];
  char bytes[32];
  char kind[48];
  (void)geo;
  if (g->is_state) {
    (void)snprintf(kind, sizeof kind, "recurrent states");
  } else if (g->window != 0) {
    (void)snprintf(kind, sizeof kind, "window of %" PRIu64 " tokens", g->window);
  } else {
    (void)snprintf(kind, sizeof kind, "%s", g->chunk != 0 ? "chunked attention" : "full attention");
  }
  (void)printf(
      "  group %u  %-22s %3u layers  %5u tokens/block  %3u ids/block  %3u parts/page  %9s/block\n",
      index, kind, g->num_caches, g->block_tokens, g->ids_per_block, g->parts_per_page,
      sized((double)g->page_bytes_per_block, bytes));
}

void report_setup(const rig* r, const geometry* geo, const workload* work) {
  char bytes[32];
  char host[32];
  char prompts[32];
  char outputs[32];
  (void)printf("model     %s, %u caches, at most %u tokens per sequence\n", geo->architecture,
               geo->num_caches, geo->max_len);
  (void)printf("plan      policy %s, layout %s, %" PRIu64 " pages, %s pool, padding %.2f %%\n",
               r->info.policy, r->info.layout[0] != '\0' ? r->info.layout : "-", r->info.num_pages,
               sized((double)r->pool_bytes, bytes), 100 * r->info.padding_share);
  for (uint32_t g = 0; g < r->info.num_groups; ++g) group_line(r, geo, g);
  (void)printf("device    %s; bookkeeping %s\n", r->device_name,
               sized((double)r->host_bytes, host));
  report_tier_setup(&r->rack);
  (void)printf("workload  %u requests, %s prompt tokens, %s to generate", work->count,
               grouped(work->prompt_tokens, prompts), grouped(work->output_tokens, outputs));
  if (work->skipped != 0)
    (void)printf(" (%u longer than a sequence may be left out)", work->skipped);
  (void)printf("\n\n");
  (void)fflush(stdout);
}

static const char* const miss_names[] = {
    "complete hit", "unknown prefix",   "evicted",       "no state at boundary",
    "window hole",  "below match unit", "reuse disabled"};

void report_table(const server* s) {
  const server_counts* c = &s->counts;
  const quire_cache_stats* st = &s->stats;
  char text[32];
  char note[64];
  (void)printf("requests\n");
  (void)snprintf(note, sizeof note, "%" PRIu64 " samples, at most %" PRIu64 " running", c->samples,
                 c->most_running);
  report_count("served", c->requests, note);
  report_count("prompt tokens", c->prompt_tokens, "of first admissions");
  share_line("hit tokens", c->hit_tokens, c->prompt_tokens, "prompt tokens");
  if (s->rig->rack.tiers != NULL)
    share_line("  from tiers", c->fetched_tokens, c->prompt_tokens, "prompt tokens");
  share_line("hit tokens, resumed", c->resumed_hit_tokens, c->resumed_tokens,
             "the tokens of preempted requests");
  if (s->rig->rack.tiers != NULL)
    share_line("  from tiers", c->resumed_fetched_tokens, c->resumed_tokens,
               "the tokens of preempted requests");
  report_count("computed tokens", c->computed_tokens, "");
  report_count("generated tokens", c->generated_tokens, "");
  report_count("late tokens", c->late_tokens, "computed for rows whose sequence was gone");
  (void)printf("prefix matches, by what ended them\n");
  for (uint32_t m = 0; m < sizeof miss_names / sizeof miss_names[0]; ++m) {
    if (st->miss_reasons[m] != 0)
      share_line(miss_names[m], st->miss_reasons[m], st->matches, "matches");
  }
  (void)printf("pool\n");
  (void)snprintf(note, sizeof note, "%s", sized((double)s->rig->pool_bytes, text));
  report_count("pages", st->pages_total, note);
  report_count("pages cached", st->pages_evictable, "at the end: findable, not in use");
  (void)snprintf(text, sizeof text, "%.2f %%", 100 * s->rig->info.padding_share);
  report_line("padding", text, "of page bytes, worst group");
  report_count("hand-overs", st->hand_overs, "pages that changed group");
  report_count("evicted pages", st->evicted_pages, "");
  report_count("checkpoints", st->checkpoints, "states kept");
  report_count("copies", st->copies, "blocks and states copied on write");
  (void)printf("steps\n");
  report_count("steps", c->steps, "two in flight");
  report_count("preemptions", c->preemptions, "");
  report_count("refused entries", c->refusals, "no room at that moment");
  report_count("forks", c->forks, "");
  report_count("chunk stops", c->chunk_stops, "prefill chunks cut for a checkpoint");
  (void)snprintf(text, sizeof text, "%.1f", c->seconds);
  report_line("seconds", text, "");
  report_count("tokens/s",
               (uint64_t)((double)c->computed_tokens / (c->seconds > 0 ? c->seconds : 1)),
               "computed");
  if (s->forward != NULL) {
    double rest = c->seconds - s->forward->seconds;
    (void)snprintf(text, sizeof text, "%.1f", 1e6 * rest / (double)(c->steps == 0 ? 1 : c->steps));
    report_line("us per step", text, "outside kernels: schedule, reserve, tables, commit");
  }
}

void report_verdict(const verdict* v, const geometry* geo) {
  static const char* const kinds[] = {"full attention", "window attention", "chunked attention",
                                      "gated delta"};
  char text[32];
  (void)printf("verification\n");
  for (int k = 0; k < 4; ++k) {
    if (v->kind_rows[k] != 0) report_count(kinds[k], v->kind_rows[k], "rows by kind of layer");
  }
  report_count("fresh", v->plain, "rows of requests that shared nothing");
  report_count("after a prefix hit", v->by_class[0], "rows");
  if (v->by_class[4] != 0) report_count("after a fetch from a tier", v->by_class[4], "rows");
  report_count("after preemption", v->by_class[1], "rows");
  report_count("after fork", v->by_class[2], "rows");
  report_count("across page hand-overs", v->by_class[3], "rows");
  if (v->rows != 0) {
    (void)snprintf(text, sizeof text, "%.2e", v->worst);
    report_line("worst relative L2", text, "");
    (void)printf("  %-24s request %u, sample %u, layer %u (%s), token %u\n", "  at",
                 v->worst_row.request, v->worst_row.sample, geo->layers[v->worst_row.shape].layer,
                 geo->layers[v->worst_row.shape].name, v->worst_row.position);
  }
  (void)snprintf(text, sizeof text, "%.1f", v->seconds);
  report_line("seconds", text, "");
}

static void json_counts(FILE* f, const server* s) {
  const server_counts* c = &s->counts;
  const quire_cache_stats* st = &s->stats;
  const struct {
    const char* name;
    uint64_t value;
  } fields[] = {{"requests", c->requests},
                {"samples", c->samples},
                {"prompt_tokens", c->prompt_tokens},
                {"hit_tokens", c->hit_tokens},
                {"resumed_tokens", c->resumed_tokens},
                {"resumed_hit_tokens", c->resumed_hit_tokens},
                {"fetched_tokens", c->fetched_tokens},
                {"resumed_fetched_tokens", c->resumed_fetched_tokens},
                {"computed_tokens", c->computed_tokens},
                {"generated_tokens", c->generated_tokens},
                {"late_tokens", c->late_tokens},
                {"steps", c->steps},
                {"preemptions", c->preemptions},
                {"forks", c->forks},
                {"refused_entries", c->refusals},
                {"chunk_stops", c->chunk_stops},
                {"skipped_requests", s->work->skipped},
                {"pages", st->pages_total},
                {"pages_cached", st->pages_evictable},
                {"pool_bytes", s->rig->pool_bytes},
                {"bookkeeping_bytes", s->rig->host_bytes},
                {"hand_overs", st->hand_overs},
                {"evicted_pages", st->evicted_pages},
                {"checkpoints", st->checkpoints},
                {"copies", st->copies}};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i)
    (void)fprintf(f, "  \"%s\": %" PRIu64 ",\n", fields[i].name, fields[i].value);
  (void)fprintf(f, "  \"miss_reasons\": {");
  for (uint32_t m = 0; m < sizeof miss_names / sizeof miss_names[0]; ++m) {
    (void)fprintf(f, "%s\"%s\": %" PRIu64, m == 0 ? "" : ", ", miss_names[m], st->miss_reasons[m]);
  }
  (void)fprintf(f, "},\n  \"padding_share\": %.6f,\n  \"seconds\": %.6f",
                s->rig->info.padding_share, c->seconds);
}

int report_json(const char* path, const server* s, const verdict* v) {
  FILE* f = fopen(path, "w");
  if (f == NULL) return complain("cannot write %s: %s", path, strerror(errno));
  (void)fprintf(f, "{\n");
  json_counts(f, s);
  if (v != NULL) {
    (void)fprintf(f, ",\n  \"verified_rows\": %" PRIu64 ",\n  \"mismatches\": %" PRIu64, v->rows,
                  v->mismatches);
    (void)fprintf(f, ",\n  \"rows_after_hit\": %" PRIu64 ",\n  \"rows_after_preemption\": %" PRIu64,
                  v->by_class[0], v->by_class[1]);
    (void)fprintf(f, ",\n  \"rows_after_fetch\": %" PRIu64, v->by_class[4]);
    (void)fprintf(f, ",\n  \"rows_attention\": %" PRIu64 ",\n  \"rows_state\": %" PRIu64,
                  v->attention, v->state);
    (void)fprintf(f, ",\n  \"worst_relative_l2\": %.6e", isfinite(v->worst) ? v->worst : 1e300);
  }
  int rc = report_tiers_json(f, s);
  (void)fprintf(f, "\n}\n");
  if (fclose(f) != 0) return complain("cannot write %s: %s", path, strerror(errno));
  return rc;
}
