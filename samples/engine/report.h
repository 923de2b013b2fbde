/* report.h: the progress bar, the table at the end, the JSON file. */
#ifndef ENGINE_REPORT_H_
#define ENGINE_REPORT_H_

#include "row_oracle.h"
#include "server.h"

typedef struct progress {
  int on;
  double begin;
  double last;
} progress;

/* Draws on standard error when it is a terminal, or when asked to. */
void progress_open(progress* p, const engine_options* options);
void progress_show(progress* p, const server* s);
void progress_close(const progress* p);

void report_setup(const rig* r, const geometry* geo, const workload* work);
void report_table(const server* s);
/* The tiers, if there are any. Complains and returns an exit code. */
int report_tiers(const server* s);
void report_verdict(const verdict* v, const geometry* geo);
/* verdict may be NULL. Complains and returns an exit code. */
int report_json(const char* path, const server* s, const verdict* v);

/* Shared by report.c and report_tiers.c: percent; a line with a number; what they add to the rest.
 */
double report_share(uint64_t part, uint64_t whole);
void report_line(const char* name, const char* value, const char* note);
void report_count(const char* name, uint64_t value, const char* note);
void report_tier_setup(const tier_rack* rack);
int report_tiers_json(FILE* f, const server* s);

#endif
