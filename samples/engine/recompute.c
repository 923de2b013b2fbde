#include "recompute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"
#include "values.h"

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

int recompute_open(recompute* r, const geometry* geo, uint32_t longest) {
  uint64_t row = 1, keys = 1, values = 1, state = 1, channels = 1, width = 1, head = 1;
  for (uint32_t i = 0; i < geo->num_layers; ++i) {
    const layer_shape* s = &geo->layers[i];
    row = most(row, s->row);
    head = most(head, most(s->dim_k, s->dim_v));
    if (!s->is_state) {
      keys = most(keys, (uint64_t)s->kv_heads * s->dim_k);
      values = most(values, (uint64_t)s->kv_heads * s->dim_v);
      continue;
    }
    state = most(state, (uint64_t)s->heads_v * s->dim_v * s->dim_k);
    channels =
        most(channels, 2 * (uint64_t)s->heads_k * s->dim_k + (uint64_t)s->heads_v * s->dim_v);
    width = most(width, s->conv_width);
  }
  memset(r, 0, sizeof *r);
  r->symbols = claim_memory(longest, sizeof *r->symbols, "verification");
  r->hashes = claim_memory(longest, sizeof *r->hashes, "verification");
  r->row = claim_memory(row, sizeof *r->row, "verification");
  r->keys = claim_memory(longest * keys, sizeof *r->keys, "verification");
  r->values = claim_memory(longest * values, sizeof *r->values, "verification");
  r->logits = claim_memory(longest, sizeof *r->logits, "verification");
  r->state = claim_memory(state, sizeof *r->state, "verification");
  r->inputs = claim_memory(width * channels, sizeof *r->inputs, "verification");
  r->taps = claim_memory(width * channels, sizeof *r->taps, "verification");
  r->mixed = claim_memory(channels, sizeof *r->mixed, "verification");
  r->piece = claim_memory(head, sizeof *r->piece, "verification");
  int ok = r->symbols != NULL && r->hashes != NULL && r->row != NULL && r->keys != NULL &&
           r->values != NULL && r->logits != NULL;
  ok = ok && r->state != NULL && r->inputs != NULL && r->taps != NULL && r->mixed != NULL &&
       r->piece != NULL;
  return ok ? ENGINE_OK : ENGINE_FAILED;
}

void recompute_close(recompute* r) {
  free(r->symbols);
  free(r->hashes);
  free(r->row);
  free(r->keys);
  free(r->values);
  free(r->logits);
  free(r->state);
  free(r->inputs);
  free(r->taps);
  free(r->mixed);
  free(r->piece);
  memset(r, 0, sizeof *r);
}

void recompute_begin(recompute* r, const layer_shape* s, uint32_t len) {
  r->shape = s;
  r->next = 0;
  if (s->is_state) {
    memset(r->state, 0, (uint64_t)s->heads_v * s->dim_v * s->dim_k * sizeof *r->state);
    for (uint32_t c = 0; c < s->channels && s->conv_width != 0; ++c) {
      values_float(value_weight_seed(s->layer, c), r->taps + (uint64_t)c * s->conv_width,
                   s->conv_width);
    }
    memset(r->inputs, 0, (uint64_t)s->conv_width * s->channels * sizeof *r->inputs);
    return;
  }
  for (uint32_t p = 0; p < len; ++p) {
    for (uint32_t h = 0; h < s->kv_heads; ++h) {
      uint64_t at = (uint64_t)p * s->kv_heads + h;
      values_float(value_seed(r->hashes[p], s->source, VALUE_KEY, h), r->keys + at * s->dim_k,
                   s->dim_k);
      values_float(value_seed(r->hashes[p], s->source, VALUE_VALUE, h), r->values + at * s->dim_v,
                   s->dim_v);
    }
  }
}

static int is_seen(const layer_shape* s, uint32_t key, uint32_t query) {
  if (s->chunk != 0) return key / s->chunk == query / s->chunk;
  return s->window == 0 || key < s->sink_tokens || key + s->window > query;
}

static double logit_of(const recompute* r, uint32_t head, uint32_t kv_head, uint32_t key,
                       uint32_t query) {
  const layer_shape* s = r->shape;
  const float* k = r->keys + ((uint64_t)key * s->kv_heads + kv_head) * s->dim_k;
  double sum = 0;
  for (uint32_t d = 0; d < s->dim_k; ++d) sum += (double)(r->piece[d] * k[d]);
  sum /= sqrt((double)s->dim_k);
  if (s->softcap > 0) sum = s->softcap * tanh(sum / s->softcap);
  if (s->alibi > 0)
    sum +=
        (double)(s->alibi * (float)(head + 1) / (float)s->q_heads) * ((double)key - (double)query);
  return sum;
}

static void attend(recompute* r, uint32_t position, uint32_t head) {
  const layer_shape* s = r->shape;
  uint32_t kv_head = head / (s->q_heads / s->kv_heads);
  double top = s->sink_logits ? (double)value_sink(s->layer, head) : -INFINITY;
  double total = 0;
  double* out = r->row + (uint64_t)head * s->dim_v;
  values_float(value_seed(r->hashes[position], s->layer, VALUE_QUERY, head), r->piece, s->dim_k);
  for (uint32_t j = 0; j <= position; ++j) {
    r->logits[j] = is_seen(s, j, position) ? logit_of(r, head, kv_head, j, position) : -INFINITY;
    if (r->logits[j] > top) top = r->logits[j];
  }
  if (s->sink_logits) total = exp((double)value_sink(s->layer, head) - top);
  memset(out, 0, s->dim_v * sizeof *out);
  for (uint32_t j = 0; j <= position; ++j) {
    double weight = exp(r->logits[j] - top);
    const float* v = r->values + ((uint64_t)j * s->kv_heads + kv_head) * s->dim_v;
    if (weight == 0) continue;
    total += weight;
    for (uint32_t d = 0; d < s->dim_v; ++d) out[d] += weight * (double)v[d];
  }
  for (uint32_t d = 0; d < s->dim_v; ++d) out[d] /= total;
}

/* Inputs of the recurrence at a token: q | k | v in `mixed`, through the short convolution and SiLU
 * where there is one. */
static void mix_inputs(recompute* r, uint32_t p) {
  const layer_shape* s = r->shape;
  if (s->conv_width == 0) {
    double* to = r->mixed;
    for (uint32_t part = 0; part < 3; ++part) {
      uint32_t heads = part == 2 ? s->heads_v : s->heads_k;
      uint32_t dim = part == 2 ? s->dim_v : s->dim_k;
      enum value_role role = part == 0 ? VALUE_QUERY : (part == 1 ? VALUE_KEY : VALUE_VALUE);
      for (uint32_t h = 0; h < heads; ++h) {
        values_float(value_seed(r->hashes[p], s->layer, role, h), r->piece, dim);
        for (uint32_t d = 0; d < dim; ++d) *to++ = (double)r->piece[d];
      }
    }
    return;
  }
  values_float(value_seed(r->hashes[p], s->layer, VALUE_CONV, 0),
               r->inputs + (uint64_t)(p % s->conv_width) * s->channels, s->channels);
  for (uint32_t c = 0; c < s->channels; ++c) {
    double sum = 0;
    for (uint32_t w = 0; w < s->conv_width;
         ++w) { /* tap w sees token p - (width - 1) + w; before token 0 there is zero */
      uint32_t slot = (p + 1 + w) % s->conv_width;
      sum += (double)(r->taps[(uint64_t)c * s->conv_width + w] *
                      r->inputs[(uint64_t)slot * s->channels + c]);
    }
    r->mixed[c] = sum / (1 + exp(-sum));
  }
}

static void normalise(double* x, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += x[i] * x[i];
  double scale = 1 / sqrt(sum + 1e-6);
  for (uint32_t i = 0; i < n; ++i) x[i] *= scale;
}

/* S <- exp(g) S;  S <- S + beta k (v - S^T k)^T;  o = S^T q / sqrt(dim_k). One token of one value
 * head; S is [dim_v][dim_k]. */
static void absorb(recompute* r, uint32_t p, uint32_t head, int wanted) {
  const layer_shape* s = r->shape;
  uint32_t key_head = head / (s->heads_v / s->heads_k);
  const double* q = r->mixed + (uint64_t)key_head * s->dim_k;
  const double* k = r->mixed + (uint64_t)(s->heads_k + key_head) * s->dim_k;
  const double* v = r->mixed + 2 * (uint64_t)s->heads_k * s->dim_k + (uint64_t)head * s->dim_v;
  double decay = exp((double)value_gate(r->hashes[p], s->layer, head));
  double beta = (double)value_beta(r->hashes[p], s->layer, head);
  double scale = 1 / sqrt((double)s->dim_k);
  for (uint32_t i = 0; i < s->dim_v; ++i) {
    double* line = r->state + ((uint64_t)head * s->dim_v + i) * s->dim_k;
    double seen = 0;
    double out = 0;
    for (uint32_t d = 0; d < s->dim_k; ++d) seen += line[d] * k[d];
    double push = beta * (v[i] - decay * seen);
    for (uint32_t d = 0; d < s->dim_k; ++d) line[d] = decay * line[d] + push * k[d];
    if (!wanted) continue;
    for (uint32_t d = 0; d < s->dim_k; ++d) out += line[d] * q[d];
    r->row[(uint64_t)head * s->dim_v + i] = out * scale;
  }
}

void recompute_row(recompute* r, uint32_t position) {
  const layer_shape* s = r->shape;
  if (!s->is_state) {
    for (uint32_t h = 0; h < s->q_heads; ++h) attend(r, position, h);
    return;
  }
  for (; r->next <= position; ++r->next) {
    mix_inputs(r, r->next);
    for (uint32_t h = 0; h < 2 * s->heads_k; ++h)
      normalise(r->mixed + (uint64_t)h * s->dim_k, s->dim_k);
    for (uint32_t h = 0; h < s->heads_v; ++h) absorb(r, r->next, h, r->next == position);
  }
}
