// quire/config.h: where bytes lie inside pages, and what may be copied from one plan to another
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/c_api/plan_views.h"
#include "core/layout/codec.h"
#include "core/layout/runs.h"
#include "core/layout/segments.h"
#include "core/plan/compare.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxTableIds = uint64_t{1} << 31;

struct Selection {
  quire_segment_query query{};
  const quire::PlaceViews* one = nullptr;  // of a single layer
};

Status read_query(const quire::Config& config, const quire_segment_query* query, Selection* out) {
  quire_segment_query& own = out->query;
  own.struct_size = sizeof own;
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(query, "query"));
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(query, &own, "query"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, QUIRE_SELECT_ONE_LAYER, "query.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_zero(own.reserved0, "query.reserved0"));
  QUIRE_RETURN_IF_ERROR(c_api::check_shard(config, own.shard));
  if (own.num_head_shards == 0) own.num_head_shards = 1;
  if (own.head_shard >= own.num_head_shards) {
    return quire::fail(QUIRE_OUT_OF_RANGE, "query.head_shard %u: num_head_shards is %u", own.head_shard, own.num_head_shards);
  }
  if ((own.flags & QUIRE_SELECT_ONE_LAYER) != 0) {
    auto views = c_api::find_views(config, own.shard, own.layer, own.sub);
    if (!views.ok()) return views.take_status();
    out->one = *views;
    const quire::CachePlace* place = config.find(own.layer, own.sub);
    own.group = place->group.value;
    own.column = place->column;
    return {};
  }
  QUIRE_RETURN_IF_ERROR(c_api::check_group(config, own.group));
  const uint32_t columns = config.groups[own.group].ids_per_block;
  if (own.column < columns) return {};
  return quire::fail(QUIRE_OUT_OF_RANGE, "query.column %u: the group has %u", own.column, columns);
}

Status append_id(const quire::Config& config, const Selection& selection, int32_t id, std::vector<quire_segment>* runs) {
  const quire_segment_query& query = selection.query;
  const quire::ShardPlan& shard = config.shards[query.shard];
  const quire::HeadShard heads{query.head_shard, query.num_head_shards};
  const quire_lowering& lowering = shard.lowering[query.group];
  if (selection.one != nullptr) return quire::append_head_segments(*selection.one, lowering, query.layer, id, heads, runs);
  for (const uint32_t index : config.groups[query.group].places) {
    const quire::CachePlace& place = config.places[index];
    if (place.column != query.column) continue;
    QUIRE_RETURN_IF_ERROR(quire::append_head_segments(shard.views[index], lowering, place.layer, id, heads, runs));
  }
  return {};
}

// The blocks of one side; the view is copied into *view.
Status read_blocks(const quire_kv_blocks* blocks, const char* name, quire_kv_view* view, quire::KvEnd* side) {
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(blocks, name));
  const std::string of = name;
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(blocks->view, (of + ".view").c_str()));
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(blocks->view, view, (of + ".view").c_str()));
  if (blocks->num_ids > kMaxTableIds)
    return quire::invalid("%s.num_ids is %" PRIu64 ", the limit is %" PRIu64, name, blocks->num_ids, kMaxTableIds);
  QUIRE_RETURN_IF_ERROR(c_api::check_array(blocks->ids, blocks->num_ids, (of + ".ids").c_str()));
  *side = {view, {blocks->ids, blocks->num_ids}, name};
  return {};
}

}  // namespace

quire_code quire_config_list_segments(quire_config* config, const quire_segment_query* query, const int32_t* ids, uint64_t num_ids,
                                      quire_segment* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(ids, num_ids, "ids"));
    const quire::Config& object = *config->object;
    Selection selection;
    QUIRE_RETURN_IF_ERROR(read_query(object, query, &selection));
    const uint64_t all = object.num_pages * object.groups[selection.query.group].parts_per_page;
    std::vector<quire_segment> runs;
    for (uint64_t i = 0; i < num_ids; ++i) {
      if (ids[i] < 0 || static_cast<uint64_t>(ids[i]) >= all) {
        return quire::fail(QUIRE_OUT_OF_RANGE, "ids[%" PRIu64 "] = %d is outside [0, %" PRIu64 ")", i, ids[i], all);
      }
      QUIRE_RETURN_IF_ERROR(append_id(object, selection, ids[i], &runs));
    }
    quire::merge_segments(&runs);
    return c_api::write_two_call(std::span<const quire_segment>(runs), items, capacity, count);
  });
}

quire_code quire_config_list_fields(quire_config* config, uint32_t shard, uint32_t layer, uint32_t sub, quire_kv_field* items,
                                    uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(config, "config"));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    auto views = c_api::find_views(*config->object, shard, layer, sub);
    if (!views.ok()) return views.take_status();
    if ((*views)->kv.num_sides == 0) return quire::fail(QUIRE_NOT_FOUND, "layer %u, sub %u is a state, not a token cache", layer, sub);
    const std::vector<quire_kv_field> fields = quire::fields_of((*views)->kv);
    return c_api::write_two_call(std::span<const quire_kv_field>(fields), items, capacity, count);
  });
}

quire_code quire_kv_view_list_runs(const quire_kv_blocks* from, const quire_kv_blocks* to, uint64_t begin, uint64_t end, quire_run* items,
                                   uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    quire_kv_view views[2] = {};
    quire::KvEnd sides[2];
    QUIRE_RETURN_IF_ERROR(read_blocks(from, "from", &views[0], &sides[0]));
    QUIRE_RETURN_IF_ERROR(read_blocks(to, "to", &views[1], &sides[1]));
    std::vector<quire_run> runs;
    QUIRE_RETURN_IF_ERROR(quire::append_runs(sides[0], sides[1], begin, end, &runs));
    return c_api::write_two_call(std::span<const quire_run>(runs), items, capacity, count);
  });
}

quire_code quire_state_view_list_runs(const quire_state_view* from, int32_t from_id, const quire_state_view* to, int32_t to_id,
                                      quire_run* items, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(items, capacity, count));
    quire_state_view a{};
    quire_state_view b{};
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(from, "from"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(to, "to"));
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(from, &a, "from"));
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(to, &b, "to"));
    std::vector<quire_run> runs;
    QUIRE_RETURN_IF_ERROR(quire::append_state_runs(a, from_id, b, to_id, &runs));
    return c_api::write_two_call(std::span<const quire_run>(runs), items, capacity, count);
  });
}

quire_code quire_config_compare(quire_config* a, quire_config* b, quire_compatibility* out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(a, "a"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(b, "b"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(out, "out"));
    const quire::Compatibility found = quire::compare(*a->object, *b->object);
    quire_compatibility own{};
    own.level = found.level;
    c_api::put_text(own.reason, found.reason);
    c_api::write_info(out, own);
    return {};
  });
}
