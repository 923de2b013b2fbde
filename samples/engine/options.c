#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"

typedef enum option_type {
  OPTION_HEADING,
  OPTION_FLAG,
  OPTION_NUMBER,
  OPTION_BYTES,
  OPTION_TEXT,
  OPTION_TIER,
  OPTION_CHOICE
} option_type;

typedef struct option_row {
  const char* name;
  option_type type;
  size_t offset;
  uint64_t low, high;   /* numbers and bytes */
  const char* argument; /* choices: the words, by value */
  const char* help;
} option_row;

enum { MOST_ROWS = 16000, ROWS_OF_EACH = 24 };

#define AT(field) offsetof(engine_options, field)
#define MILLION ((uint64_t)1000000)

static const option_row rows[] = {
    {"Model", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--model", OPTION_TEXT, AT(model), 0, 0, "FILE",
     "a Hugging Face config.json; without it a small built-in hybrid model"},
    {"--layers", OPTION_NUMBER, AT(layers), 1, 4096, "N", "keep the first N layers"},
    {"--kv-heads", OPTION_NUMBER, AT(kv_heads), 1, 1024, "N",
     "KV heads of attention layers; query heads scale with them"},
    {"--head-dim", OPTION_NUMBER, AT(head_dim), 1, 4096, "N", "elements of a head"},
    {"--state-heads", OPTION_NUMBER, AT(state_heads), 1, 1024, "N",
     "value heads of recurrent layers; key heads scale with them"},
    {"--state-dim", OPTION_NUMBER, AT(state_dim), 1, 4096, "N",
     "elements of a recurrent head, keys and values"},
    {"--context", OPTION_NUMBER, AT(max_len), 16, 16 * MILLION, "N", "longest sequence in tokens"},
    {"Workload", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--trace", OPTION_TEXT, AT(trace), 0, 0, "FILE|-",
     "requests in Mooncake's JSONL format; without it generated conversations"},
    {"--scale-tokens", OPTION_NUMBER, AT(scale_tokens), 1, 512, "N",
     "tokens that stand for a 512-token block of the trace"},
    {"--conversations", OPTION_NUMBER, AT(conversations), 1, MILLION, "N",
     "generated conversations"},
    {"--turns", OPTION_NUMBER, AT(turns), 1, 1000, "N", "turns of each"},
    {"--open", OPTION_NUMBER, AT(open), 1, MILLION, "N", "conversations open at once"},
    {"--requests", OPTION_NUMBER, AT(requests), 1, 100 * MILLION, "N", "serve at most N requests"},
    {"--seed", OPTION_NUMBER, AT(seed), 0, UINT64_MAX, "N", "seed of the generator"},
    {"Service", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--serve", OPTION_FLAG, AT(serve), 0, 0, "",
     "read requests from standard input as they arrive, and answer them: lines of JSON"},
    {"--list-requests", OPTION_FLAG, AT(list), 0, 0, "",
     "print the workload as such lines, and end"},
    {"--events", OPTION_TEXT, AT(events), 0, 0, "ENDPOINT",
     "publish over ZeroMQ which blocks are cached, e.g. ipc:///tmp/events"},
    {"--event-replays", OPTION_TEXT, AT(event_replays), 0, 0, "ENDPOINT",
     "where subscribers ask for batches of events that they lost"},
    {"--metrics", OPTION_TEXT, AT(metrics), 0, 0, "HOST:PORT",
     "answer /metrics for Prometheus there, e.g. 127.0.0.1:9464"},
    {"Cache", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--memory", OPTION_CHOICE, AT(memory), 0, 0, "driver|engine|none",
     "whose bytes: the driver's, this program's, or bookkeeping only"},
    {"--pool", OPTION_BYTES, AT(pool_bytes), 1, (uint64_t)1 << 50, "BYTES",
     "memory of the pool; K, M and G are understood"},
    {"--pages", OPTION_NUMBER, AT(pages), 2, (uint64_t)1 << 31, "N",
     "pages of the pool, instead of --pool"},
    {"--policy", OPTION_TEXT, AT(policy), 0, 0, "NAME", "planning policy: vllm, pack:N, auto"},
    {"--block", OPTION_NUMBER, AT(block), 1, 65536, "N", "tokens of a block of attention groups"},
    {"--layout", OPTION_TEXT, AT(layout), 0, 0, "LETTERS", "order of letters, e.g. BPJKTHD"},
    {"--no-reuse", OPTION_FLAG, AT(no_reuse), 0, 0, "", "no prefix reuse"},
    {"Tiers", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--tier", OPTION_TIER, 0, 0, 0, "NAME:SETTINGS",
     "prefixes go there, too: host:SIZE, file:DIR:SIZE, NAME:{JSON}; repeatable"},
    {"--unit", OPTION_NUMBER, AT(unit), 1, 65536, "N",
     "tokens that tiers store together, a multiple of every block"},
    {"--token-ns", OPTION_NUMBER, AT(token_ns), 1, 1000 * MILLION, "N",
     "nanoseconds to compute a prompt token: slower fetches are not begun"},
    {"Schedule", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--batch", OPTION_NUMBER, AT(batch), 1, 4096, "N", "requests running at once"},
    {"--budget", OPTION_NUMBER, AT(budget), 16, MILLION, "N", "tokens computed in one step"},
    {"--threads", OPTION_NUMBER, AT(threads), 1, 1024, "N",
     "threads of the CPU driver and of --verify"},
    {"Checks", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--verify", OPTION_FLAG, AT(verify), 0, 0, "",
     "recompute sampled rows from scratch and compare"},
    {"--rows", OPTION_NUMBER, AT(rows), 1, 100 * MILLION, "N",
     "most rows to verify; with --serve about so many of each request"},
    {"--fault", OPTION_CHOICE, AT(fault), 0, 0, "none|swap-block|stale-state|other-prefix",
     "break something on purpose; succeeds when --verify catches it"},
    {"--check", OPTION_NUMBER, AT(check_every), 1, 100 * MILLION, "K",
     "re-derive the cache's invariants every K steps"},
    {"Output", OPTION_HEADING, 0, 0, 0, "", ""},
    {"--json", OPTION_TEXT, AT(json), 0, 0, "FILE", "write the figures as JSON"},
    {"--outputs", OPTION_TEXT, AT(outputs), 0, 0, "FILE",
     "write the rows that symbols were sampled from: every layer's, shortened"},
    {"--progress", OPTION_FLAG, AT(progress), 0, 0, "",
     "progress bar even if standard error is not a terminal"},
};

static void defaults(engine_options* o) {
  memset(o, 0, sizeof *o);
  o->max_len = 2048;
  o->scale_tokens = 64;
  o->conversations = 48;
  o->turns = 5;
  o->open = 14;
  o->seed = 1;
  o->pool_bytes =
      (uint64_t)4608 << 10; /* too little for the built-in model's batch: preemption happens */
  o->batch = 14;
  o->budget = 256;
  o->threads = 2;
}

static void print_help(void) {
  (void)printf(
      "usage: quire_engine [options]\n\nAn inference engine without weights: serves requests "
      "through quire's cache and kernels,\nand checks the results.\n");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    char left[80];
    if (rows[i].type == OPTION_HEADING) {
      (void)printf("\n%s\n", rows[i].name);
      continue;
    }
    (void)snprintf(left, sizeof left, "%s %s", rows[i].name, rows[i].argument);
    if (strlen(left) > 26) {
      (void)printf("  %s\n  %-26s %s\n", left, "", rows[i].help);
    } else {
      (void)printf("  %-26s %s\n", left, rows[i].help);
    }
  }
  (void)printf(
      "  %-26s %s\n\nExit codes: 0 done (with --fault: the fault was caught), 1 mismatches (with "
      "--fault: none found),\n"
      "2 bad options or input files, 3 the run failed.\n",
      "--help", "this text");
}

static int parse_number(const option_row* row, const char* text, uint64_t* value) {
  char* end = NULL;
  errno = 0;
  uint64_t number = strtoull(text, &end, 10);
  int bad = end == text || errno != 0 || text[0] == '-' || text[0] == '+' || text[0] == ' ';
  if (!bad && row->type == OPTION_BYTES && *end != '\0') {
    const char* suffix = strchr("KMG", *end);
    int shift = suffix == NULL ? 0 : 10 * (int)(suffix - "KMG" + 1);
    if (suffix != NULL) shift = *end == 'K' ? 10 : (*end == 'M' ? 20 : 30);
    bad = suffix == NULL || number > (UINT64_MAX >> shift);
    number <<= bad ? 0 : shift;
    ++end;
  }
  if (bad || *end != '\0') {
    (void)complain("%s: '%s' is not a number", row->name, text);
    return ENGINE_USAGE;
  }
  if (number < row->low || number > row->high) {
    (void)complain("%s: %" PRIu64 " is outside %" PRIu64 " .. %" PRIu64, row->name, number,
                   row->low, row->high);
    return ENGINE_USAGE;
  }
  *value = number;
  return ENGINE_OK;
}

static int parse_choice(const option_row* row, const char* text, int64_t* value) {
  const char* word = row->argument;
  size_t len = strlen(text);
  for (int64_t i = 0; *word != '\0'; ++i) {
    size_t n = strcspn(word, "|");
    if (n == len && strncmp(word, text, n) == 0) {
      *value = i;
      return ENGINE_OK;
    }
    word += n + (word[n] == '|');
  }
  (void)complain("%s: '%s' is none of %s", row->name, text, row->argument);
  return ENGINE_USAGE;
}

static int add_tier(engine_options* options, const char* text) {
  tier_settings settings;
  if (options->num_tiers == MOST_TIERS) {
    (void)complain("--tier %s: at most %d tiers", text, MOST_TIERS);
    return ENGINE_USAGE;
  }
  int rc = tier_settings_parse(&settings, text);
  tier_settings_free(&settings);
  options->tiers[options->num_tiers++] = text;
  return rc;
}

static int parse_value(const option_row* row, engine_options* options, const char* text) {
  unsigned char* field = (unsigned char*)options + row->offset;
  uint64_t number = 0;
  int64_t choice = 0;
  int rc = ENGINE_OK;
  if (row->type == OPTION_TEXT) {
    memcpy(field, &text, sizeof text);
  } else if (row->type == OPTION_TIER) {
    rc = add_tier(options, text);
  } else if (row->type == OPTION_CHOICE) {
    rc = parse_choice(row, text, &choice);
    if (rc == ENGINE_OK) memcpy(field, &choice, sizeof choice);
  } else {
    rc = parse_number(row, text, &number);
    if (rc == ENGINE_OK) memcpy(field, &number, sizeof number);
  }
  return rc;
}

static const option_row* find_row(const char* name, size_t len) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    if (rows[i].type != OPTION_HEADING && strlen(rows[i].name) == len &&
        strncmp(rows[i].name, name, len) == 0)
      return &rows[i];
  }
  return NULL;
}

static int consistent(const engine_options* o) {
  const char* text = NULL;
  if (o->verify && o->memory == MEMORY_NONE)
    text = "--verify needs bytes: --memory driver or engine, not none";
  if (o->outputs != NULL && o->memory == MEMORY_NONE)
    text = "--outputs needs bytes: --memory driver or engine, not none";
  if (o->fault != FAULT_NONE && o->memory == MEMORY_NONE)
    text = "--fault needs bytes: --memory driver or engine, not none";
  if (o->fault == FAULT_OTHER_PREFIX && o->no_reuse)
    text = "--fault other-prefix needs prefix reuse: drop --no-reuse";
  if (o->num_tiers != 0 && o->memory == MEMORY_NONE)
    text = "--tier needs bytes: --memory driver or engine, not none";
  if (o->num_tiers != 0 && o->no_reuse) text = "--tier needs prefix reuse: drop --no-reuse";
  if (o->num_tiers == 0 && (o->unit != 0 || o->token_ns != 0))
    text = "--unit and --token-ns are about tiers: --tier is missing";
  if (o->serve && o->list) text = "--serve and --list-requests: one of them";
  if (o->serve && o->outputs != NULL) text = "--outputs: --serve answers on standard output";
  if (o->event_replays != NULL && o->events == NULL)
    text = "--event-replays is about events: --events is missing";
  if (o->events != NULL && o->no_reuse) text = "--events needs prefix reuse: drop --no-reuse";
  if (text == NULL) return ENGINE_OK;
  (void)complain("%s", text);
  return ENGINE_USAGE;
}

const char* fault_name(int64_t fault) {
  static const char* const names[] = {"none", "swap-block", "stale-state", "other-prefix"};
  return names[fault];
}

int options_parse(engine_options* options, int argc, char** argv, int* done) {
  defaults(options);
  *done = 0;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_help();
      *done = 1;
      return ENGINE_OK;
    }
    const char* equals = strchr(argv[i], '=');
    const option_row* row =
        find_row(argv[i], equals != NULL ? (size_t)(equals - argv[i]) : strlen(argv[i]));
    const char* text = equals != NULL ? equals + 1 : NULL;
    if (row == NULL || (row->type == OPTION_FLAG && text != NULL)) {
      (void)complain(row == NULL ? "unknown option %s (see --help)" : "%s takes no value", argv[i]);
      return ENGINE_USAGE;
    }
    if (row->type == OPTION_FLAG) {
      int64_t on = 1;
      memcpy((unsigned char*)options + row->offset, &on, sizeof on);
      continue;
    }
    if (text == NULL && i + 1 < argc) text = argv[++i];
    if (text == NULL) {
      (void)complain("%s needs a value: %s", row->name, row->argument);
      return ENGINE_USAGE;
    }
    int rc = parse_value(row, options, text);
    if (rc != ENGINE_OK) return rc;
  }
  if (options->fault != FAULT_NONE) options->verify = 1;
  if (options->rows == 0) options->rows = options->serve ? ROWS_OF_EACH : MOST_ROWS;
  return consistent(options);
}
