#include "tiers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine_settings.h"
#include "engine_text.h"
#include "rig.h"
#include "values.h"

enum { UNITS_PER_SEQUENCE = 16, GOOD_RECORD_BYTES = 1 << 20 };

static uint64_t fold(uint64_t h, uint64_t value) { return mix64(h ^ mix64(value + 1)); }

static uint64_t fold_float(uint64_t h, float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return fold(h, bits);
}

/* Every number that a layer's bytes follow from. The library knows shapes itself; what it cannot
 * know is what this program calls weights. */
static uint64_t fold_layer(uint64_t h, const layer_shape* l) {
  const uint64_t numbers[] = {l->layer,
                              l->sub,
                              l->source,
                              l->source_sub,
                              (uint64_t)l->is_state,
                              l->q_heads,
                              l->kv_heads,
                              l->window,
                              l->chunk,
                              l->sink_tokens,
                              (uint64_t)l->sink_logits,
                              l->dim_k,
                              l->dim_v,
                              l->heads_k,
                              l->heads_v,
                              l->conv_width,
                              l->channels,
                              (uint64_t)l->dtype.code,
                              l->dtype.bits};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) h = fold(h, numbers[i]);
  return fold_float(fold_float(h, l->softcap), l->alibi);
}

/* Of all that bytes depend on. */
static void name_weights(const geometry* geo, uint64_t seed, char* text, uint64_t capacity) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < geo->num_layers; ++i) h = fold_layer(h, &geo->layers[i]);
  (void)snprintf(text, capacity, "quire_engine %s %016" PRIx64 " seed %" PRIu64, geo->architecture,
                 h, seed);
}

static uint64_t common_multiple(uint64_t a, uint64_t b) {
  uint64_t x = a;
  uint64_t y = b;
  while (y != 0) {
    uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* Records of a MiB move best. But of a unit that is not complete nothing is kept, so a sequence has
 * several units even if they are small. */
static uint64_t choose_unit(const rig* r, const geometry* geo) {
  uint64_t unit = 1;
  uint64_t bytes = 0; /* of a block per token, in the group that has most */
  for (uint32_t g = 0; g < r->info.num_groups; ++g) {
    const quire_group_info* group = &r->groups[g];
    unit = common_multiple(unit, group->block_tokens);
    uint64_t each = group->payload_bytes_per_block / group->block_tokens;
    if (!group->is_state && each > bytes) bytes = each;
  }
  while (2 * unit * UNITS_PER_SEQUENCE <= geo->max_len && unit * bytes < GOOD_RECORD_BYTES)
    unit *= 2;
  return unit;
}

static int open_connector(rig* r, tier_rack* rack, const char* text) {
  quire_error err = {.struct_size = sizeof err};
  tier_settings settings;
  quire_connector** connector = &rack->connectors[rack->count];
  int rc = tier_settings_parse(&settings, text);
  if (rc == ENGINE_OK &&
      quire_connector_open(r->runtime, (quire_str){settings.name, strlen(settings.name)},
                           (quire_str){settings.config, strlen(settings.config)}, connector,
                           &err) != QUIRE_OK) {
    char call[320];
    (void)snprintf(call, sizeof call, "--tier %.300s", text);
    (void)complain_quire(call, &err);
    rc = err.code == QUIRE_INVALID_ARGUMENT || err.code == QUIRE_NOT_FOUND ? ENGINE_USAGE
                                                                           : ENGINE_FAILED;
  }
  if (rc == ENGINE_OK) {
    const char* slash = strrchr(settings.name, '/');
    (void)snprintf(rack->names[rack->count], sizeof rack->names[0], "%.31s",
                   slash != NULL ? slash + 1 : settings.name);
    for (char* c = rack->names[rack->count]; *c != '\0'; ++c) {
      if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
        *c = '_'; /* the report writes it as JSON */
    }
    ++rack->count;
  }
  tier_settings_free(&settings);
  return rc;
}

int tiers_open(rig* r, const engine_options* o, const geometry* geo) {
  tier_rack* rack = &r->rack;
  quire_error err = {.struct_size = sizeof err};
  quire_tier tiers[MOST_TIERS];
  memset(tiers, 0, sizeof tiers);
  for (uint64_t i = 0; i < o->num_tiers; ++i) {
    int rc = open_connector(r, rack, o->tiers[i]);
    if (rc != ENGINE_OK) return rc;
    tiers[i].connector = rack->connectors[i];
    tiers[i].name = (quire_str){rack->names[i], strlen(rack->names[i])};
    if ((o->peers >> i & 1u) != 0) {
      tiers[i].flags = QUIRE_TIER_PEERS;
      continue;
    }
    /* What is complete is written at once, to disk as well: a process that is killed, or a sequence
     * that never ends, has then left all it computed. */
    tiers[i].reasons = QUIRE_UNIT_COMMITTED;
  }
  name_weights(geo, o->seed, rack->weights, sizeof rack->weights);
  quire_tiers_options options = {.struct_size = sizeof options};
  options.weights = (quire_str){rack->weights, strlen(rack->weights)};
  options.memories = &r->memory;
  options.streams = &r->stream;
  options.tiers = tiers;
  options.num_tiers = o->num_tiers;
  options.unit_tokens = o->unit != 0 ? o->unit : choose_unit(r, geo);
  options.ns_per_token = (double)o->token_ns;
  if (quire_tiers_create(r->cache, &options, &rack->tiers, &err) != QUIRE_OK) {
    (void)complain_quire("tiers", &err);
    return err.code == QUIRE_INVALID_ARGUMENT ? ENGINE_USAGE : ENGINE_FAILED;
  }
  quire_tiers_stats stats;
  int rc = tiers_read(rack, &stats);
  rack->unit_tokens = stats.unit_tokens;
  return rc;
}

void tiers_close(tier_rack* rack) {
  quire_tiers_release(rack->tiers);
  for (uint32_t i = 0; i < rack->count; ++i) quire_connector_release(rack->connectors[i]);
  memset(rack, 0, sizeof *rack);
}

int tiers_read(const tier_rack* rack, quire_tiers_stats* stats) {
  quire_error err = {.struct_size = sizeof err};
  memset(stats, 0, sizeof *stats);
  stats->struct_size = sizeof *stats;
  if (quire_tiers_get_stats(rack->tiers, stats, &err) != QUIRE_OK)
    return complain_quire("tiers", &err);
  return ENGINE_OK;
}
