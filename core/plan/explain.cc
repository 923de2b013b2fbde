// Words for a plan: JSON written by hand, so that the planner needs no JSON library.
#include <cinttypes>
#include <cstdio>

#include "core/plan/capacity.h"
#include "core/plan/vllm/published_plan.h"

namespace quire {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

namespace {

std::string field(const char* name, uint64_t value) { return std::string("\"") + name + "\": " + std::to_string(value); }

std::string share(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "\"%s\": %.6f", name, value);
  return text;
}

std::string group_json(const Config& config, uint32_t g) {
  const GroupPlan& plan = config.groups[g];
  const LiveRange& live = plan.live;
  std::string out = "    {" + field("group", g);
  out += live.state          ? ", \"keeps\": \"state\""
         : live.fixed        ? ", \"keeps\": \"encoder\""
         : live.everything() ? ", \"keeps\": \"everything\""
                             : ", \"keeps\": \"range\"";
  if (live.window != 0) out += ", " + field("window", live.window);
  if (live.chunk != 0) out += ", " + field("chunk", live.chunk);
  if (live.sink != 0) out += ", " + field("sink_tokens", live.sink);
  out += ", " + field("block_tokens", plan.block_tokens) + ", " + field("kernel_block_tokens", plan.kernel_block_tokens);
  out += ", " + field("lanes", plan.num_lanes) + ", " + field("ids_per_block", plan.ids_per_block) + ", " +
         field("parts_per_page", plan.parts_per_page);
  out += ", \"layout\": " + quoted(plan.order);
  out += ", " + field("payload_bytes_per_block", plan.payload_bytes_per_block) + ", " +
         field("page_bytes_per_block", plan.page_bytes_per_block);
  if (plan.page_bytes_per_block != 0) {
    out += ", " +
           share("padding_share", 1.0 - static_cast<double>(plan.payload_bytes_per_block) / static_cast<double>(plan.page_bytes_per_block));
  }
  out += ", \"layers\": [";
  for (size_t i = 0; i < plan.places.size(); ++i) {
    out += (i != 0 ? ", " : "") + std::to_string(config.places[plan.places[i]].layer);
  }
  return out + "]}";
}

// What the longest sequence takes, and how many of them there can be in a cache with default options.
std::string capacity_json(const Config& config) {
  CacheUse use;
  use.publishes = config.prefix_reuse;
  const Capacity one = capacity_of(config, use, config.max_model_len, 1);
  return "{" + field("tokens", one.tokens) + ", " + field("guaranteed", one.guaranteed) + ", " + field("decoding", one.decoding) + ", " +
         field("resident", one.resident) + ", " + field("pages_per_sequence", one.pages_needed - 1) + ", " +
         field("bytes_per_shard_for_one", one.bytes_needed) + ", " + field("kv_cache_tokens", config.kv_cache_tokens) + "}";
}

// Why a group pads: planes of equal strips, blocks that leave a rest, or pages as long as another group needs them.
std::string reason_of_padding(const Config& config, const GroupPlan& plan) {
  const std::string planes = plan.order.substr(0, plan.order.find('B'));
  bool widths_differ = false;
  bool aligned = false;
  for (const uint32_t place : plan.places) {
    for (const ShardPlan& shard : config.shards) {
      const quire_kv_view& kv = shard.views[place].kv;
      widths_differ |= kv.num_sides == 2 && kv.head_dim[0] != kv.head_dim[1];
      aligned |= kv.num_sides != 0 && kv.codec_params.block_alignment > 1;
    }
  }
  const bool by_side = planes.find('K') != std::string::npos && widths_differ;
  if (by_side) return "layout " + plan.order + " gives K and V planes of equal strips, and they differ in width";
  if (!planes.empty()) return "layout " + plan.order + " cuts pages into planes of equal strips, as long as the longest needs";
  if (aligned) return "the codec of its rows aligns kernel blocks";
  if (plan.parts_per_page == 1) return "a page holds one part and is as long as the longest group needs, over all stages";
  return "a page holds " + std::to_string(plan.parts_per_page) + " whole parts";
}

}  // namespace

std::vector<std::string> notes_of_padding(const Config& config) {
  constexpr double kTold = 0.01;
  std::vector<std::string> out;
  for (size_t g = 0; g < config.groups.size(); ++g) {
    const GroupPlan& plan = config.groups[g];
    if (plan.page_bytes_per_block == 0) continue;
    const double share = 1 - static_cast<double>(plan.payload_bytes_per_block) / static_cast<double>(plan.page_bytes_per_block);
    if (share < kTold) continue;
    char text[160];
    std::snprintf(text, sizeof text, "group %zu pads %.2f %%: a block of %" PRIu64 " bytes takes %" PRIu64 " bytes of pages; ", g,
                  100 * share, plan.payload_bytes_per_block, plan.page_bytes_per_block);
    out.push_back(text + reason_of_padding(config, plan));
  }
  return out;
}

std::string note_of_unused(uint32_t group, double share, uint32_t without, uint32_t stages) {
  char text[160];
  std::snprintf(text, sizeof text, "group %u leaves %.2f %% of its pages unused, which is no padding: %u of %u stages have no layer of it",
                group, 100 * share, without, stages);
  return text;
}

std::string explain(const Config& config, const PlanInput& input, const Arrangement& arrangement) {
  std::string out = "{\n  \"policy\": " + quoted(config.policy) + ",\n  \"architecture\": " + quoted(input.model->architecture()) + ",\n";
  out += "  " + field("tensor_parallel", input.tensor_parallel) + ",\n  " + field("pipeline_parallel", input.pipeline_parallel) + ",\n  " +
         field("context_parallel", input.context_parallel) + ",\n";
  out += "  " + field("max_model_len", config.max_model_len) + ",\n  " + field("max_tokens_in_flight", config.max_tokens_in_flight) + ",\n";
  out += "  " + field("match_unit_tokens", config.match_unit_tokens) + ",\n  " +
         field("hit_alignment_tokens", config.hit_alignment_tokens) + ",\n  " + field("checkpoint_tokens", config.checkpoint_tokens) +
         ",\n";
  out += "  " + field("num_groups", config.groups.size()) + ",\n  " + field("page_bytes", config.shards[0].page_bytes) + ",\n";
  out += "  " + field("num_pages", config.num_pages) + ",\n  " + field("capacity_tokens", config.capacity_tokens) + ",\n";
  out += "  " + share("padding_share", config.padding_share) + ",\n";
  out += "  " + share("unused_share", arrangement.unused_share) + ",\n  \"groups\": [\n";
  for (uint32_t g = 0; g < config.groups.size(); ++g) out += group_json(config, g) + (g + 1 < config.groups.size() ? ",\n" : "\n");
  out += "  ],\n  \"shards\": [\n";
  for (size_t s = 0; s < config.shards.size(); ++s) {
    const ShardPlan& shard = config.shards[s];
    out += "    {" + field("shard", s) + ", " + field("page_bytes", shard.page_bytes) + ", " + field("regions", shard.regions.size());
    out += ", " + field("bytes", shard.page_bytes * config.num_pages) + "}" + (s + 1 < config.shards.size() ? ",\n" : "\n");
  }
  out += "  ],\n";
  out += "  \"capacity\": " + capacity_json(config) + ",\n";
  if (arrangement.sizing != nullptr) out += "  \"sizing\": " + describe_sizing(*arrangement.sizing) + ",\n";
  if (!arrangement.search_json.empty()) out += "  \"search\": " + arrangement.search_json + ",\n";
  out += "  \"notes\": [";
  const std::vector<std::string>& notes = arrangement.notes;
  for (size_t i = 0; i < notes.size(); ++i) out += (i != 0 ? ", " : "") + quoted(notes[i]);
  return out + "]\n}\n";
}

}  // namespace quire
