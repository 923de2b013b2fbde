// Words for a plan: JSON written by hand, so that the planner needs no JSON library.
#include <cinttypes>
#include <cstdio>

#include "core/plan/capacity.h"
#include "core/plan/plan_input.h"

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

// What the longest sequence takes, and how many of them there can be.
std::string capacity_json(const Config& config) {
  const Capacity one = capacity_of(config, config.max_model_len, 1);
  return "{" + field("tokens", one.tokens) + ", " + field("sequences", one.sequences) + ", " +
         field("sequences_packed", one.sequences_packed) + ", " + field("pages_per_sequence", one.pages_needed - 1) + ", " +
         field("bytes_per_shard_for_one", one.bytes_needed) + "}";
}

}  // namespace

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
  out += "  " + share("padding_share", config.padding_share) + ",\n  \"groups\": [\n";
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
