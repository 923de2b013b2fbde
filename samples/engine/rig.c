#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_text.h"

int complain_quire(const char* call, const quire_error* err) {
  quire_str name = quire_code_name(err->code);
  return complain("%s: %.*s: %s", call, (int)name.len, name.data, err->message);
}

static quire_str text_of(const char* s) {
  return s == NULL ? (quire_str){NULL, 0} : (quire_str){s, strlen(s)};
}

uint64_t rig_symbols_per_step(const engine_options* options, uint32_t max_len) {
  return max_len + options->batch * 2;
}

static int open_runtime(rig* r, const engine_options* o) {
  quire_error err = {.struct_size = sizeof err};
  quire_runtime_options options = {.struct_size = sizeof options, .header_abi = QUIRE_ABI_VERSION};
  options.num_threads = (uint32_t)o->threads;
  if (o->memory == MEMORY_NONE) options.driver = text_of("none");
  if (quire_runtime_create(&options, &r->runtime, &err) != QUIRE_OK)
    return complain_quire("runtime", &err);
  return ENGINE_OK;
}

static int open_config(rig* r, const engine_options* o, const geometry* geo) {
  quire_error err = {.struct_size = sizeof err};
  quire_plan_options plan = {.struct_size = sizeof plan};
  plan.policy = text_of(o->policy);
  plan.layout = text_of(o->layout);
  plan.block_tokens = (uint32_t)o->block;
  plan.memory_bytes = &o->pool_bytes;
  plan.num_memory_bytes = o->pages == 0 ? 1 : 0;
  plan.num_pages = o->pages;
  plan.max_model_len = geo->max_len;
  plan.max_tokens_in_flight = 2 * o->budget;
  if (o->no_reuse) plan.flags = QUIRE_PLAN_NO_PREFIX_REUSE;
  if (quire_config_create(geo->model, &plan, &r->config, &err) != QUIRE_OK) {
    (void)complain_quire("plan", &err);
    return ENGINE_USAGE;
  }
  r->info.struct_size = sizeof r->info;
  if (quire_config_get_info(r->config, &r->info, &err) != QUIRE_OK)
    return complain_quire("config", &err);
  r->groups = claim_memory(r->info.num_groups, sizeof *r->groups, "groups");
  if (r->groups == NULL) return ENGINE_FAILED;
  for (uint32_t g = 0; g < r->info.num_groups; ++g) {
    r->groups[g].struct_size = sizeof r->groups[g];
    if (quire_config_get_group(r->config, g, &r->groups[g], &err) != QUIRE_OK)
      return complain_quire("group", &err);
  }
  return ENGINE_OK;
}

static int open_regions(rig* r) {
  quire_error err = {.struct_size = sizeof err};
  if (quire_config_list_regions(r->config, 0, NULL, sizeof *r->regions, 0, &r->num_regions, &err) !=
          QUIRE_OK &&
      r->num_regions == 0) {
    return complain_quire("regions", &err);
  }
  r->regions = claim_memory(r->num_regions, sizeof *r->regions, "regions");
  if (r->regions == NULL) return ENGINE_FAILED;
  for (uint64_t i = 0; i < r->num_regions; ++i) r->regions[i].struct_size = sizeof r->regions[i];
  if (quire_config_list_regions(r->config, 0, r->regions, sizeof *r->regions, r->num_regions,
                                &r->num_regions, &err) != QUIRE_OK) {
    return complain_quire("regions", &err);
  }
  for (uint64_t i = 0; i < r->num_regions; ++i) r->pool_bytes += r->regions[i].bytes;
  return ENGINE_OK;
}

static int open_cache(rig* r, const engine_options* o, const geometry* geo, uint32_t live) {
  quire_error err = {.struct_size = sizeof err};
  quire_cache_options options = {.struct_size = sizeof options};
  options.max_sequences = live;
  options.max_entries_per_step = live;
  options.max_tokens_per_step = (uint32_t)(rig_symbols_per_step(o, geo->max_len) + o->budget);
  options.step_depth = 2;
  options.hash_seed = o->seed + 1;
  if (o->num_tiers != 0) options.max_load_tokens = geo->max_len;
  if (o->no_reuse) options.flags = QUIRE_CACHE_NO_PREFIX_REUSE;
  if (quire_cache_create(r->runtime, r->config, &options, &r->cache, &err) != QUIRE_OK)
    return complain_quire("cache", &err);
  quire_cache_stats stats = {.struct_size = sizeof stats};
  if (quire_cache_get_stats(r->cache, &stats, &err) != QUIRE_OK)
    return complain_quire("cache", &err);
  r->host_bytes = stats.host_bytes;
  return ENGINE_OK;
}

/* The engine's own bytes, one block per region. */
static int bind_own(rig* r) {
  quire_error err = {.struct_size = sizeof err};
  quire_memory_binding* bindings = claim_memory(r->num_regions, sizeof *bindings, "bindings");
  r->owned = claim_memory(r->num_regions, sizeof *r->owned, "regions");
  int rc = bindings == NULL || r->owned == NULL ? ENGINE_FAILED : ENGINE_OK;
  for (uint64_t i = 0; i < r->num_regions && rc == ENGINE_OK; ++i) {
    uint64_t alignment = r->regions[i].alignment < 64 ? 64 : r->regions[i].alignment;
    uint64_t bytes = (r->regions[i].bytes + alignment - 1) / alignment * alignment;
    r->owned[i] = aligned_alloc(alignment, bytes);
    if (r->owned[i] == NULL)
      rc = complain("no memory for region %u: %llu bytes", r->regions[i].region,
                    (unsigned long long)bytes);
    bindings[i].struct_size = sizeof bindings[i];
    bindings[i].region = r->regions[i].region;
    bindings[i].address = r->owned[i];
    bindings[i].bytes = bytes;
    bindings[i].device_type = QUIRE_DEVICE_CPU;
  }
  if (rc == ENGINE_OK && quire_memory_bind(r->device, r->config, 0, bindings, r->num_regions,
                                           &r->memory, &err) != QUIRE_OK) {
    rc = complain_quire("bind memory", &err);
  }
  free(bindings);
  return rc;
}

static int open_device(rig* r, const engine_options* o) {
  quire_error err = {.struct_size = sizeof err};
  quire_device_info info = {.struct_size = sizeof info};
  if (quire_device_open(r->runtime, 0, &r->device, &err) != QUIRE_OK)
    return complain_quire("device", &err);
  if (quire_device_get_info(r->device, &info, &err) != QUIRE_OK)
    return complain_quire("device", &err);
  if (info.device_type != QUIRE_DEVICE_CPU) {
    return complain(
        "driver %s: this program fills its inputs on the host and reads results there; set "
        "QUIRE_DRIVER=cpu",
        info.driver);
  }
  (void)snprintf(r->device_name, sizeof r->device_name, "%s: %.90s", info.driver, info.name);
  if (quire_stream_create(r->device, 0, &r->stream, &err) != QUIRE_OK)
    return complain_quire("stream", &err);
  if (o->memory == MEMORY_ENGINE) return bind_own(r);
  if (quire_memory_create(r->device, r->config, 0, &r->memory, &err) != QUIRE_OK)
    return complain_quire("memory", &err);
  return ENGINE_OK;
}

/* Bytes that nobody wrote are not zero by luck: a read of a wrong place shows. */
static int poison(rig* r) {
  quire_error err = {.struct_size = sizeof err};
  if (quire_memory_poison(r->memory, r->stream, 0x7b, &err) != QUIRE_OK)
    return complain_quire("poison", &err);
  if (quire_stream_synchronize(r->stream, -1, &err) != QUIRE_OK)
    return complain_quire("poison", &err);
  return ENGINE_OK;
}

int rig_open(rig* r, const engine_options* options, const geometry* geo, uint32_t live) {
  memset(r, 0, sizeof *r);
  int rc = open_runtime(r, options);
  if (rc == ENGINE_OK) rc = open_config(r, options, geo);
  if (rc == ENGINE_OK) rc = open_regions(r);
  if (rc == ENGINE_OK) rc = open_cache(r, options, geo, live);
  if (rc == ENGINE_OK && options->memory != MEMORY_NONE) {
    rc = open_device(r, options);
    if (rc == ENGINE_OK) rc = poison(r);
    if (rc == ENGINE_OK && options->num_tiers != 0) rc = tiers_open(r, options, geo);
  } else if (rc == ENGINE_OK) {
    (void)snprintf(r->device_name, sizeof r->device_name, "none: bookkeeping only");
  }
  return rc;
}

void rig_close(rig* r) {
  tiers_close(&r->rack);
  quire_stream_release(r->stream);
  quire_memory_release(r->memory);
  quire_device_release(r->device);
  quire_cache_release(r->cache);
  quire_config_release(r->config);
  quire_runtime_release(r->runtime);
  for (uint64_t i = 0; i < r->num_regions && r->owned != NULL; ++i) free(r->owned[i]);
  free((void*)r->owned);
  free(r->regions);
  free(r->groups);
  memset(r, 0, sizeof *r);
}
