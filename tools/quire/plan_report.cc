#include "quire/plan_report.h"

#include <algorithm>
#include <utility>

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

Json group_json(quire_config* config, uint32_t group) {
  client::Error error;
  auto info = client::sized<quire_group_info>();
  client::check(quire_config_get_group(config, group, &info, &error), error);
  const double page = static_cast<double>(info.page_bytes_per_block);
  return {{"group", group},
          {"state", info.is_state != 0},
          {"caches", info.num_caches},
          {"lanes", info.num_lanes},
          {"block_tokens", info.block_tokens},
          {"kernel_block_tokens", info.kernel_block_tokens},
          {"parts_per_page", info.parts_per_page},
          {"ids_per_block", info.ids_per_block},
          {"sink_tokens", info.sink_tokens},
          {"window", info.window},
          {"chunk", info.chunk},
          {"payload_bytes_per_block", info.payload_bytes_per_block},
          {"page_bytes_per_block", info.page_bytes_per_block},
          {"padding_share", page > 0 ? 1 - static_cast<double>(info.payload_bytes_per_block) / page : 0}};
}

Json regions_json(quire_config* config, uint32_t shard) {
  client::Error error;
  uint64_t count = 0;
  client::check(quire_config_list_regions(config, shard, nullptr, sizeof(quire_region_info), 0, &count, &error), error);
  std::vector<quire_region_info> regions(count, client::sized<quire_region_info>());
  client::check(quire_config_list_regions(config, shard, regions.data(), sizeof(quire_region_info), count, &count, &error), error);
  Json json = Json::array();
  for (const quire_region_info& region : regions) {
    json.push_back({{"shard", shard},
                    {"region", region.region},
                    {"bytes", region.bytes},
                    {"alignment", region.alignment},
                    {"page_bytes", region.page_stride * region.num_planes},
                    {"planes", region.num_planes}});
  }
  return json;
}

Json capacity_json(quire_model* model, quire_config* config, uint64_t tokens, uint64_t concurrency) {
  const quire_capacity found = capacity_of(model, config, tokens, concurrency);
  return {{"tokens", found.tokens},
          {"guaranteed", found.guaranteed},
          {"decoding", found.decoding},
          {"resident", found.resident},
          {"kv_cache_tokens", found.kv_cache_tokens},
          {"concurrency", found.concurrency},
          {"longest", found.longest},
          {"pages_needed", found.pages_needed},
          {"bytes_needed_per_shard", found.bytes_needed},
          {"fits", found.guaranteed >= found.concurrency}};
}

// What one more token takes of the groups that keep all tokens, and a state of all layers; with padding, on the widest shard.
void add_bytes(Json* json) {
  uint64_t token = 0;
  uint64_t state = 0;
  for (const Json& group : (*json)["groups"]) {
    const auto bytes = group["page_bytes_per_block"].get<uint64_t>();
    if (group["keeps"] == "state") state += bytes;
    if (group["keeps"] == "everything") token += bytes / std::max<uint64_t>(1, group["block_tokens"].get<uint64_t>());
  }
  (*json)["token_bytes"] = token;
  (*json)["state_bytes"] = state;
}

}  // namespace

Json plan_explanation(quire_config* config) {
  client::Error error;
  uint64_t count = 0;
  client::check(quire_config_describe_json(config, nullptr, 0, &count, &error), error);
  std::string text(count, '\0');
  client::check(quire_config_describe_json(config, text.data(), count, &count, &error), error);
  return Json::parse(text);
}

Planned plan_fitted(const PlanArguments& arguments) {
  Planned out;
  out.model = model_of(arguments);
  out.fitted = fit(out.model.get(), arguments, &out.notes);
  return out;
}

Json plan_report(const Planned& planned, uint64_t concurrency) {
  const client::Config& config = planned.fitted.config;
  client::Error error;
  auto facts = client::sized<quire_model_info>();
  client::check(quire_model_get_info(planned.model.get(), &facts, &error), error);
  auto info = client::sized<quire_config_info>();
  client::check(quire_config_get_info(config.get(), &info, &error), error);
  Json json = {{"schema", "quire.plan/1"},
               {"architecture", facts.architecture},
               {"layers", facts.num_layers},
               {"caches", facts.num_caches},
               {"policy", info.policy},
               {"layout", info.layout},
               {"shards", info.num_shards},
               {"match_unit_tokens", info.match_unit_tokens},
               {"num_groups", info.num_groups},
               {"num_pages", info.num_pages},
               {"padding_share", info.padding_share},
               {"max_model_len", info.max_model_len},
               {"capacity_tokens", info.capacity_tokens}};
  json["page_bytes"] = json["pool_bytes"] = 0;
  json["token_bytes"] = json["state_bytes"] = 0;
  json["groups"] = Json::array();
  for (uint32_t group = 0; group < info.num_groups; ++group) json["groups"].push_back(group_json(config.get(), group));
  json["regions"] = Json::array();
  for (uint32_t shard = 0; shard < info.num_shards; ++shard) {
    for (Json& region : regions_json(config.get(), shard)) json["regions"].push_back(std::move(region));
  }
  const Json explained = plan_explanation(config.get());
  for (uint32_t group = 0; group < info.num_groups; ++group) json["groups"][group]["keeps"] = explained["groups"][group]["keeps"];
  add_bytes(&json);
  for (const char* field : {"unused_share", "pipeline_parallel", "hit_alignment_tokens", "checkpoint_tokens", "notes"})
    json[field] = explained[field];
  for (const std::string& note : planned.notes) json["notes"].push_back(note);
  for (const char* field : {"search", "sizing"}) {
    if (explained.contains(field)) json[field] = explained[field];
  }
  const Fitted& fitted = planned.fitted;
  json["fit"] = {{"chose", fitted.chose}, {"asked", fitted.asked}, {"taken", fitted.taken}, {"text", fit_text(fitted)}};
  json["capacity"] = capacity_json(planned.model.get(), config.get(), info.max_model_len, concurrency);
  uint64_t page = 0;
  uint64_t pool = 0;
  for (const Json& region : json["regions"]) {
    if (region["shard"] != 0) continue;
    page += region["page_bytes"].get<uint64_t>();
    pool += region["bytes"].get<uint64_t>();
  }
  json["page_bytes"] = page;  // of shard 0
  json["pool_bytes"] = pool;
  return json;
}

}  // namespace quire::tools
