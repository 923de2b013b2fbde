/* Tests of the parts of the engine that need no library: values, traces, the generator, the
 * recomputation and its verdict. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "line.h"
#include "recompute.h"
#include "row_oracle.h"
#include "values.h"

static int failures;

#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)
/* The same for what the rest of the test stands on. */
#define REQUIRE(condition)               \
  do {                                   \
    int holds = (condition) != 0;        \
    expect(holds, #condition, __LINE__); \
    if (!holds) return;                  \
  } while (0)

static void expect(int ok, const char* what, int line) {
  if (ok) return;
  ++failures;
  (void)fprintf(stderr, "parts_test.c:%d: %s\n", line, what);
}

static void test_values(void) {
  const quire_dtype kinds[] = {
      {QUIRE_DTYPE_BFLOAT, 16, 1}, {QUIRE_DTYPE_FLOAT, 16, 1}, {QUIRE_DTYPE_FLOAT, 32, 1}};
  float plain[37];
  unsigned char stored[37 * 4];
  int varied = 0;
  values_float(42, plain, 37);
  for (int i = 1; i < 37; ++i) varied += plain[i] != plain[0];
  EXPECT(varied > 30);
  for (size_t k = 0; k < 3; ++k) { /* storing loses nothing */
    values_store(42, kinds[k], stored, 37);
    for (uint32_t i = 0; i < 37; ++i)
      EXPECT(load_element(stored + (size_t)i * dtype_bytes(kinds[k]), kinds[k]) == plain[i]);
  }
  uint64_t a = prefix_step(prefix_step(prefix_root(0), 5), 6);
  EXPECT(a != prefix_step(prefix_step(prefix_root(0), 6), 5)); /* order */
  EXPECT(a != prefix_step(prefix_step(prefix_root(1), 5), 6)); /* salt */
  EXPECT(next_symbol(a, 0) != next_symbol(a, 1));
  EXPECT(dtype_bytes((quire_dtype){QUIRE_DTYPE_INT, 8, 1}) == 0);
}

static void test_trace(void) {
  const char* good =
      "{\"timestamp\": 0, \"input_length\": 1030, \"output_length\": 100, \"hash_ids\": [7, 8, "
      "9]}\n"
      "{\"timestamp\": 5, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [7]}\n\n"
      "{\"timestamp\": 9, \"input_length\": 900000, \"output_length\": 1, \"hash_ids\": [7]}\n";
  workload w = {.max_len = 1024, .block_tokens = 64};
  uint32_t prompt[1024];
  uint32_t other[1024];
  EXPECT(workload_parse_trace(&w, good, "good", 0) == ENGINE_OK);
  EXPECT(w.count == 2 && w.skipped == 1);
  EXPECT(w.requests[0].prompt_len == 129 &&
         w.requests[0].output_len == 13); /* 1030 = 2 blocks and 6 tokens: 1/8 of all, rounded up */
  workload_prompt(&w, 0, prompt);
  workload_prompt(&w, 1, other);
  EXPECT(memcmp(prompt, other, 64 * sizeof prompt[0]) == 0); /* equal ids, equal prefixes */
  EXPECT(memcmp(prompt, prompt + 64, 64 * sizeof prompt[0]) != 0);
  workload_free(&w);
}

static void test_bad_traces(void) {
  static const char* const bad[] = {
      "{\"output_length\": 1, \"hash_ids\": [7]}\n",
      "{\"input_length\": 0, \"output_length\": 1, \"hash_ids\": [7]}\n",
      "{\"input_length\": -4, \"output_length\": 1, \"hash_ids\": [7]}\n",
      "{\"input_length\": 99999999999999999999999, \"output_length\": 1, \"hash_ids\": [7]}\n",
      "{\"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7]}\n",
      "{\"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 8, 9]}\n",
      "{\"input_length\": 600, \"output_length\": 1, \"hash_ids\": [7, 8\n",
      "{\"input_length\": 600, \"output_length\": 1, \"hash_ids\"",
      "{\"input_length\": 600, \"output_length\": \"1\", \"hash_ids\": [7, 8]}\n",
      "hello\n",
      "",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    workload w = {.max_len = 1024, .block_tokens = 64};
    EXPECT(workload_parse_trace(&w, bad[i], "bad", 0) == ENGINE_USAGE);
    workload_free(&w);
  }
}

static void test_generator(void) {
  engine_options o = {.conversations = 24, .turns = 6, .open = 10, .seed = 3};
  workload a = {.max_len = 900};
  workload b = {.max_len = 900};
  uint64_t shared = 0, salted = 0, forked = 0, follow = 0;
  REQUIRE(workload_converse(&a, &o) == ENGINE_OK && workload_converse(&b, &o) == ENGINE_OK);
  REQUIRE(a.requests != NULL && a.count == b.count && a.count > 60);
  for (uint32_t i = 0; i < a.count; ++i) {
    const work_request* r = &a.requests[i];
    EXPECT(r->prompt_len + r->output_len <= 900 && r->output_len > 0);
    REQUIRE(r->symbols != NULL && b.requests[i].symbols != NULL);
    EXPECT(memcmp(r->symbols, b.requests[i].symbols, r->prompt_len * sizeof *r->symbols) == 0);
    salted += r->salt;
    forked += r->samples == 2;
    EXPECT(r->after == NO_REQUEST || r->after < i);
    if (r->turn == 0) continue;
    const work_request* before = &a.requests[r->after];
    uint32_t same = 0;
    EXPECT(before->turn == r->turn - 1 && before->salt == r->salt);
    while (same < before->prompt_len && same < r->prompt_len &&
           before->symbols[same] == r->symbols[same])
      ++same;
    shared += same;
    follow += before->prompt_len;
  }
  EXPECT(salted > 0 && salted < a.count && forked > 0);
  EXPECT(shared * 10 > follow * 7 &&
         shared < follow); /* histories grow, but tails drift and users edit */
  workload_free(&a);
  workload_free(&b);
}

/* Attention of one head, written another way: weights first, then a weighted sum, without the
 * running maximum. */
static double naive_attention(const layer_shape* s, const uint64_t* h, uint32_t p, uint32_t d) {
  float q[8], k[8], v[8];
  double top = 0, bottom = 0;
  values_float(value_seed(h[p], s->layer, VALUE_QUERY, 1), q, 8);
  for (uint32_t j = 0; j <= p; ++j) {
    double dot = 0;
    if (s->window != 0 && p - j >= s->window && j >= s->sink_tokens) continue;
    values_float(value_seed(h[j], s->layer, VALUE_KEY, 0), k, 8);
    values_float(value_seed(h[j], s->layer, VALUE_VALUE, 0), v, 8);
    for (int i = 0; i < 8; ++i) dot += (double)q[i] * (double)k[i];
    double weight = exp(dot / sqrt(8.0) -
                        (double)s->alibi * (double)(p - j)); /* head 1 of 2: the whole slope */
    bottom += weight;
    top += weight * (double)v[d];
  }
  return top / bottom;
}

static layer_shape small_attention(uint32_t window, uint32_t sink) {
  layer_shape s = {.layer = 2,
                   .source = 2,
                   .q_heads = 2,
                   .kv_heads = 1,
                   .dim_k = 8,
                   .dim_v = 8,
                   .row = 16,
                   .window = window};
  s.sink_tokens = sink;
  s.alibi = 1.0F / 128;
  return s;
}

static layer_shape small_delta(void) {
  return (layer_shape){.layer = 1,
                       .is_state = 1,
                       .heads_k = 1,
                       .heads_v = 2,
                       .dim_k = 4,
                       .dim_v = 4,
                       .conv_width = 4,
                       .channels = 16,
                       .row = 8};
}

static void fill_hashes(uint64_t* h, uint32_t n) {
  uint64_t x = prefix_root(0);
  for (uint32_t p = 0; p < n; ++p) h[p] = x = prefix_step(x, p % 7);
}

static void test_attention(void) {
  layer_shape shapes[] = {small_attention(0, 0), small_attention(5, 0), small_attention(5, 2)};
  geometry g = {.layers = shapes, .num_layers = 3};
  recompute r;
  REQUIRE(recompute_open(&r, &g, 40) == ENGINE_OK);
  fill_hashes(r.hashes, 40);
  for (int i = 0; i < 3; ++i) {
    recompute_begin(&r, &shapes[i], 40);
    for (uint32_t p = 0; p < 40; p += 13) {
      recompute_row(&r, p);
      for (uint32_t d = 0; d < 8; ++d)
        EXPECT(fabs(r.row[8 + d] - naive_attention(&shapes[i], r.hashes, p, d)) < 1e-9);
    }
  }
  recompute_close(&r);
}

/* The first token by hand: S = beta k v^T, so o = beta (q . k) v / sqrt(d). */
static void test_delta(void) {
  layer_shape s = small_delta();
  geometry g = {.layers = &s, .num_layers = 1};
  recompute r;
  float x[16], taps[4];
  double y[16], qk = 0, qq = 0, kk = 0;
  REQUIRE(recompute_open(&r, &g, 10) == ENGINE_OK);
  fill_hashes(r.hashes, 10);
  recompute_begin(&r, &s, 10);
  recompute_row(&r, 0);
  values_float(value_seed(r.hashes[0], 1, VALUE_CONV, 0), x, 16);
  for (uint32_t c = 0; c < 16; ++c) {
    values_float(value_weight_seed(1, c), taps, 4);
    double z = (double)taps[3] * (double)x[c];
    y[c] = z / (1 + exp(-z));
  }
  for (int i = 0; i < 4; ++i) {
    qk += y[i] * y[4 + i];
    qq += y[i] * y[i];
    kk += y[4 + i] * y[4 + i];
  }
  for (uint32_t h = 0; h < 2; ++h) {
    double scale =
        (double)value_beta(r.hashes[0], 1, h) * qk / sqrt(qq + 1e-6) / sqrt(kk + 1e-6) / 2;
    for (uint32_t d = 0; d < 4; ++d)
      EXPECT(fabs(r.row[h * 4 + d] - scale * y[8 + h * 4 + d]) < 1e-9);
  }
  recompute_close(&r);
}

/* Rows that are right pass; one that is not is counted and named. */
static void test_verdict(void) {
  layer_shape shapes[] = {small_attention(0, 0), small_delta()};
  geometry g = {.layers = shapes,
                .num_layers = 2,
                .num_attention = 1,
                .num_state = 1,
                .max_row = 16,
                .max_len = 300};
  engine_options o = {.conversations = 4, .turns = 1, .open = 4, .seed = 5, .rows = 300};
  workload w = {.max_len = 300};
  sampler kept;
  recompute r;
  verdict v;
  REQUIRE(workload_converse(&w, &o) == ENGINE_OK);
  REQUIRE(sampler_open(&kept, &g, &w, &o) == ENGINE_OK && recompute_open(&r, &g, 300) == ENGINE_OK);
  for (uint32_t request = 0; request < w.count; ++request) {
    uint32_t len = w.requests[request].prompt_len + w.requests[request].output_len - 1;
    oracle_hashes(&w, request, 0, len, r.symbols, r.hashes);
    for (uint32_t shape = 0; shape < 2; ++shape) {
      recompute_begin(&r, &shapes[shape], len);
      for (uint32_t p = 0; p < len; ++p) {
        recompute_row(&r, p);
        float* to = sampler_take(&kept, request, 0, shape, p, p > 60 ? ROW_AFTER_HIT : 0);
        for (uint32_t i = 0; to != NULL && i < shapes[shape].row; ++i) to[i] = (float)r.row[i];
      }
    }
  }
  EXPECT(kept.num_rows > 100);
  EXPECT(oracle_verify(&v, &kept, &g, &w, 2) == ENGINE_OK);
  EXPECT(v.rows == kept.num_rows && v.mismatches == 0 && v.attention > 20 && v.state > 20 &&
         v.by_class[0] > 0 && v.worst < 1e-6);
  const kept_row* bad = &kept.rows[kept.num_rows / 2];
  kept.values[bad->offset] += 1;
  EXPECT(oracle_verify(&v, &kept, &g, &w, 2) == ENGINE_OK && v.mismatches == 1 && v.worst > 0.01);
  EXPECT(v.worst_row.request == bad->request && v.worst_row.position == bad->position &&
         v.worst_row.shape == bad->shape);
  kept.values[bad->offset] = NAN;
  EXPECT(oracle_verify(&v, &kept, &g, &w, 1) == ENGINE_OK && v.mismatches == 1 && isinf(v.worst));
  recompute_close(&r);
  sampler_close(&kept);
  workload_free(&w);
}

static int parse(int argc, char** argv, engine_options* o) {
  int done = 0;
  return options_parse(o, argc, argv, &done);
}

static void test_options(void) {
  engine_options o;
  char* good[] = {"engine", "--pool", "8M", "--fault=swap-block", "--layers", "3"};
  EXPECT(parse(6, good, &o) == ENGINE_OK && o.pool_bytes == 8u << 20 &&
         o.fault == FAULT_SWAP_BLOCK && o.verify == 1 && o.layers == 3);
  char* bad[][3] = {{"engine", "--nonsense", "1"},       {"engine", "--layers", "0"},
                    {"engine", "--layers", "x"},         {"engine", "--pool", "8X"},
                    {"engine", "--pool", "-1"},          {"engine", "--batch", "1e3"},
                    {"engine", "--fault", "swap"},       {"engine", "--verify=1", "--check"},
                    {"engine", "--check", NULL},         {"engine", "--seed", ""},
                    {"engine", "--pool", "99999999999G"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i)
    EXPECT(parse(bad[i][2] == NULL ? 2 : 3, bad[i], &o) == ENGINE_USAGE);
  char* tiers[] = {"engine", "--tier", "host:1MiB", "--tier=file:/a:1GiB"};
  EXPECT(parse(4, tiers, &o) == ENGINE_OK && o.num_tiers == 2 &&
         strcmp(o.tiers[1], "file:/a:1GiB") == 0);
  char* none[] = {"engine", "--tier", "host:1MiB", "--no-reuse"};
  EXPECT(parse(4, none, &o) == ENGINE_USAGE);
  char* clash[] = {"engine", "--memory", "none", "--verify"};
  EXPECT(parse(4, clash, &o) == ENGINE_USAGE);
}

/* Whether the text is read as this connector with these settings. */
static int reads_as(const char* text, const char* name, const char* config) {
  tier_settings s;
  int same = tier_settings_parse(&s, text) == ENGINE_OK && strcmp(s.name, name) == 0 &&
             strcmp(s.config, config) == 0;
  tier_settings_free(&s);
  return same;
}

static void test_tier_settings(void) {
  static const char* const bad[] = {
      "",      "host",       "host:",        ":1GiB",      "file:1GiB",
      "file:", "file::1GiB", "file:/a/dir:", "redis:a:1B", "file:/a"};
  EXPECT(reads_as("host:256MiB", "host", "{\"bytes\": \"256MiB\"}"));
  EXPECT(reads_as("file:/a/b:1GiB", "file", "{\"directory\": \"/a/b\", \"bytes\": \"1GiB\"}"));
  EXPECT(reads_as("file:/a:b\"\\\n:1 GiB", "file",
                  "{\"directory\": \"/a:b\\\"\\\\\\u000a\", \"bytes\": \"1 GiB\"}"));
  EXPECT(reads_as("redis:{\"a\": \"b:c\"}", "redis", "{\"a\": \"b:c\"}"));
  tier_settings s;
  EXPECT(tier_settings_parse(&s, "file:here:1GiB") == ENGINE_OK && s.config != NULL &&
         strncmp(s.config, "{\"directory\": \"/", 16) == 0 && strstr(s.config, "/here\"") != NULL);
  tier_settings_free(&s);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    EXPECT(tier_settings_parse(&s, bad[i]) == ENGINE_USAGE);
    tier_settings_free(&s);
  }
}

static line_cursor line_of(const char* text) { return (line_cursor){text, text + strlen(text)}; }

static void test_lines(void) {
  const char* text =
      "{\"b\": [1, 22,333 ], \"bb\" : 7, \"none\": [], \"big\": 1152921504606846977}";
  line_cursor c = line_of(text);
  uint64_t value = 0;
  uint64_t values[3] = {0};
  EXPECT(line_field(c, "bb", 7, &value) && value == 7);
  EXPECT(!line_field(c, "bb", 6, &value));
  EXPECT(!line_field(c, "b", 6, &value));                   /* not a number */
  EXPECT(!line_field(c, "big", UINT64_C(1) << 60, &value)); /* 2^60 + 1 */
  EXPECT(!line_field(c, "a", 6, &value));
  EXPECT(line_seek(&c, "none") && line_elements(c) == 0);
  c = line_of(text);
  REQUIRE(line_seek(&c, "b") && line_elements(c) == 3);
  line_cursor again = c;
  EXPECT(line_array(&c, 333, values, 3) && values[0] == 1 && values[1] == 22 && values[2] == 333);
  c = again;
  EXPECT(!line_array(&c, 332, values, 3));
  c = again;
  EXPECT(!line_array(&c, 333, values, 2)); /* there is another one */
  c = line_of("[1 2]");
  EXPECT(!line_array(&c, 9, values, 2));
  c = line_of("[1, 2");
  EXPECT(!line_array(&c, 9, values, 2) && line_elements(line_of("[1, 2")) == 2);
}

/* Rows of one request leave; the others keep their values. */
static void test_split(void) {
  layer_shape shapes[2] = {{.row = 3}, {.row = 2}};
  const geometry geo = {.layers = shapes, .num_layers = 2, .max_row = 3};
  kept_row rows[8];
  float values[32];
  sampler all = {.geo = &geo, .rows = rows, .values = values};
  for (uint32_t i = 0; i < 8; ++i) {
    uint32_t shape = i % 2;
    rows[i] = (kept_row){.request = i % 3, .shape = shape, .position = i, .offset = all.num_values};
    for (uint32_t k = 0; k < shapes[shape].row; ++k) values[all.num_values++] = (float)(10 * i + k);
    ++all.num_rows;
  }
  sampler out;
  REQUIRE(sampler_split(&all, 1, &out) == ENGINE_OK);
  EXPECT(out.num_rows == 3 && all.num_rows == 5);
  for (int side = 0; side < 2; ++side) {
    const sampler* s = side == 0 ? &all : &out;
    for (uint64_t i = 0; i < s->num_rows; ++i) {
      const kept_row* row = &s->rows[i];
      EXPECT((row->request == 1) == (side == 1));
      for (uint32_t k = 0; k < shapes[row->shape].row; ++k)
        EXPECT(s->values[row->offset + k] == (float)(10 * row->position + k));
    }
  }
  sampler_close(&out);
}

int main(void) {
  char text[32];
  test_values();
  test_trace();
  test_bad_traces();
  test_generator();
  test_attention();
  test_delta();
  test_verdict();
  test_options();
  test_tier_settings();
  test_lines();
  test_split();
  EXPECT(strcmp(grouped(1234567, text), "1,234,567") == 0 &&
         strcmp(sized(1536, text), "1.5 KiB") == 0);
  (void)printf(failures == 0 ? "all parts pass\n" : "%d expectations failed\n", failures);
  return failures == 0 ? 0 : 1;
}
