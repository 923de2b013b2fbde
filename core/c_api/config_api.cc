// quire/config.h
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/c_api/plan_views.h"
#include "core/events/event_kind.h"
#include "core/layout/segments.h"
#include "core/plan/capacity.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxShards = 65536;
constexpr uint64_t kMaxPreferred = 16;
constexpr uint64_t kPlanFlags = QUIRE_PLAN_NO_PREFIX_REUSE | QUIRE_PLAN_CONTIGUOUS | QUIRE_PLAN_ONE_TABLE | QUIRE_PLAN_FIT_LENGTH;
constexpr uint64_t kVllmFlags = QUIRE_VLLM_UPSTREAM | QUIRE_VLLM_TRANSFERS | QUIRE_VLLM_ROWS;

Status read_plan_options(const quire_plan_options* options, quire_plan_options* own) {
  *own = {};
  own->struct_size = sizeof *own;
  if (options != nullptr) QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, own, "options"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->flags, kPlanFlags, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own->vllm.flags, kVllmFlags, "options.vllm.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own->vllm.reserved0, "options.vllm.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own->policy, "options.policy", 64));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(own->layout, "options.layout", 64));
  if (own->num_memory_bytes > kMaxShards) {
    return quire::invalid("options.num_memory_bytes is %" PRIu64 ", the limit is %" PRIu64, own->num_memory_bytes, kMaxShards);
  }
  if (own->num_preferred_layouts > kMaxPreferred) {
    return quire::invalid("options.num_preferred_layouts is %" PRIu64 ", the limit is %" PRIu64, own->num_preferred_layouts, kMaxPreferred);
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->preferred_layouts, own->num_preferred_layouts, "options.preferred_layouts"));
  for (uint64_t i = 0; i < own->num_preferred_layouts; ++i) {
    QUIRE_RETURN_IF_ERROR(
        c_api::check_text(own->preferred_layouts[i], ("options.preferred_layouts[" + std::to_string(i) + "]").c_str(), 64));
  }
  if (own->num_stage_layers > kMaxShards) {
    return quire::invalid("options.num_stage_layers is %" PRIu64 ", the limit is %" PRIu64, own->num_stage_layers, kMaxShards);
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_array(own->stage_layers, own->num_stage_layers, "options.stage_layers"));
  return c_api::check_array(own->memory_bytes, own->num_memory_bytes, "options.memory_bytes");
}

// Runs a body on the plan behind the handle.
template <typename Body>
quire_code with_config(quire_config* config, quire_error* err, Body&& body) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    return body(*config->object);
  });
}

}  // namespace

namespace quire::c_api {

Status check_shard(const Config& config, uint32_t shard) {
  if (shard < config.shards.size()) return {};
  return fail(QUIRE_OUT_OF_RANGE, "shard %u: the plan has %zu", shard, config.shards.size());
}

Status check_group(const Config& config, uint32_t group) {
  if (group < config.groups.size()) return {};
  return fail(QUIRE_OUT_OF_RANGE, "group %u: the plan has %zu", group, config.groups.size());
}

Result<const PlaceViews*> find_views(const Config& config, uint32_t shard, uint32_t layer, uint32_t sub) {
  QUIRE_RETURN_IF_ERROR(check_shard(config, shard));
  const CachePlace* place = config.find(layer, sub);
  if (place == nullptr) return fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no cache", layer, sub);
  const PlaceViews* views = &config.shards[shard].views[static_cast<size_t>(place - config.places.data())];
  if (views->kv.num_sides == 0 && views->states.empty()) {
    return fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no cache in shard %u", layer, sub, shard);
  }
  return views;
}

}  // namespace quire::c_api

quire_code quire_config_create(quire_model* model, const quire_plan_options* options, quire_config** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(model, "model"));
    quire_plan_options own;
    QUIRE_RETURN_IF_ERROR(read_plan_options(options, &own));
    auto config = quire::plan(*model->object, own);
    if (!config.ok()) return config.take_status();
    std::vector<std::string> kinds = quire::event_kinds(*model->object, **config);
    *out = new quire_config(std::move(*config), std::move(kinds));
    return {};
  });
}

quire_config* quire_config_retain(quire_config* config) { return c_api::retain(config); }

void quire_config_release(quire_config* config) { c_api::release(config); }

quire_code quire_config_get_info(quire_config* config, quire_config_info* info, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_config_info own{};
    own.num_groups = static_cast<uint32_t>(object.groups.size());
    own.num_shards = static_cast<uint32_t>(object.shards.size());
    own.match_unit_tokens = object.match_unit_tokens;
    own.num_pages = object.num_pages;
    own.max_model_len = object.max_model_len;
    own.padding_share = object.padding_share;
    own.capacity_tokens = object.capacity_tokens;
    c_api::put_text(own.policy, object.policy);
    for (const quire::GroupPlan& group : object.groups) {
      if (group.is_state()) continue;
      c_api::put_text(own.layout, group.order);
      break;
    }
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_config_get_group(quire_config* config, uint32_t group, quire_group_info* info, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    QUIRE_RETURN_IF_ERROR(c_api::check_group(object, group));
    const quire::GroupPlan& plan = object.groups[group];
    quire_group_info own{};
    own.group = group;
    own.is_state = plan.is_state() ? 1 : 0;
    own.block_tokens = plan.block_tokens;
    own.kernel_block_tokens = plan.kernel_block_tokens;
    own.kernel_blocks_per_part = plan.kernel_blocks_per_part;
    own.parts_per_page = plan.parts_per_page;
    own.ids_per_block = plan.ids_per_block;
    own.num_lanes = plan.num_lanes;
    own.num_caches = static_cast<uint32_t>(plan.places.size());
    own.sink_tokens = plan.live.sink;
    own.window = plan.live.window;
    own.chunk = plan.live.chunk;
    own.payload_bytes_per_block = plan.payload_bytes_per_block;
    own.page_bytes_per_block = plan.page_bytes_per_block;
    own.look_ahead = plan.look_ahead;
    own.encoder_tokens = plan.encoder_tokens;
    own.table_pitch = plan.table_pitch(object.max_model_len);
    own.checkpoint_interval = plan.is_state() ? object.checkpoint_tokens : 0;
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_config_get_place(quire_config* config, uint32_t layer, uint32_t sub, quire_layer_place* place, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(place, "place"));
    const quire::CachePlace* found = object.find(layer, sub);
    if (found == nullptr) return quire::fail(QUIRE_NOT_FOUND, "layer %u, sub %u has no cache", layer, sub);
    quire_layer_place own{};
    own.group = found->group.value;
    own.column = found->column;
    own.lane = found->lane;
    own.index_in_lane = found->index_in_lane;
    own.pipeline_stage = found->stage;
    c_api::write_info(place, own);
    return {};
  });
}

quire_code quire_config_get_kv_view(quire_config* config, uint32_t shard, uint32_t layer, uint32_t sub, quire_kv_view* view,
                                    quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(view, "view"));
    auto views = c_api::find_views(object, shard, layer, sub);
    if (!views.ok()) return views.take_status();
    if ((*views)->kv.num_sides == 0) return quire::fail(QUIRE_NOT_FOUND, "layer %u, sub %u is a state, not a token cache", layer, sub);
    c_api::write_info(view, (*views)->kv);
    return {};
  });
}

quire_code quire_config_get_state_view(quire_config* config, uint32_t shard, uint32_t layer, uint32_t sub, uint32_t tensor,
                                       quire_state_view* view, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(view, "view"));
    auto views = c_api::find_views(object, shard, layer, sub);
    if (!views.ok()) return views.take_status();
    const auto& states = (*views)->states;
    if (states.empty()) return quire::fail(QUIRE_NOT_FOUND, "layer %u, sub %u is a token cache, not a state", layer, sub);
    if (tensor >= states.size()) return quire::fail(QUIRE_OUT_OF_RANGE, "tensor %u: the state has %zu", tensor, states.size());
    c_api::write_info(view, states[tensor]);
    return {};
  });
}

quire_code quire_config_list_regions(quire_config* config, uint32_t shard, quire_region_info* items, uint64_t stride, uint64_t capacity,
                                     uint64_t* count, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_shard(object, shard));
    return c_api::write_two_call_strided(std::span<const quire_region_info>(object.shards[shard].regions), items, stride, capacity, count);
  });
}

quire_code quire_config_get_lowering(quire_config* config, uint32_t shard, uint32_t group, quire_lowering* lowering, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_info(lowering, "lowering"));
    QUIRE_RETURN_IF_ERROR(c_api::check_shard(object, shard));
    QUIRE_RETURN_IF_ERROR(c_api::check_group(object, group));
    c_api::write_info(lowering, object.shards[shard].lowering[group]);
    return {};
  });
}

quire_code quire_config_describe_json(quire_config* config, char* text, uint64_t capacity, uint64_t* count, quire_error* err) {
  return with_config(config, err, [&](const quire::Config& object) -> Status {
    const std::string& json = object.explanation_json;
    return c_api::write_two_call(std::span<const char>(json.data(), json.size()), text, capacity, count);
  });
}
