// The commands of the quire command line. Each adds itself to the application; its callback does
// the work and throws on failure.
#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace quire::tools {

// The command line asks for something that no command could do, whatever the files say: exit status
// 2 instead of 1.
class Usage : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

void add_call(CLI::App* app);
void add_compare(CLI::App* app);
void add_info(CLI::App* app);
void add_plan(CLI::App* app);
void add_replay(CLI::App* app);
void add_sweep(CLI::App* app);
void add_tier(CLI::App* app);

// Options that plan and replay share.
struct PlanArguments {
  std::string config;
  std::vector<uint64_t> memory;  // bytes: of every shard, or one for all; empty = the layer file's, else 80 GiB
  uint32_t tensor_parallel = 0;  // these: 0 = the layer file's, else 1
  uint32_t pipeline_parallel = 0;
  uint32_t context_parallel = 0;
  std::vector<uint32_t> stage_layers;
  bool contiguous = false;
  bool no_prefix_reuse = false;
  std::string fit;  // what gives way where not all fits: length, memory or none; empty = what nobody asked for
  uint64_t concurrency = 1;
  std::string as;             // the architecture that the config is read as
  std::string speculative;    // "mtp", or the config of a draft; empty = nothing is drafted
  uint32_t draft_tokens = 0;  // 0 = as many as the config has draft layers, else 1
  std::string kv_dtype;
  std::string policy = "auto";
  std::string compat;
  std::string layout;
  std::vector<std::string> preferred;
  std::string state_mode;
  uint32_t block = 0;
  uint32_t kernel_block = 0;
  uint64_t in_flight = 0;
  uint64_t max_len = 0;
  uint64_t pages = 0;
};

// All options of a plan; without those of size, what does not say how much there is: --memory,
// --pages, --tp and --max-len are left out.
enum class PlanOptions { kAll, kWithoutSizes };
void add_plan_arguments(CLI::App* command, PlanArguments* arguments, PlanOptions which = PlanOptions::kAll);

// Two spaces of indent, in the order they were added, newline at the end.
void print_json(const nlohmann::ordered_json& json);

// Throws client::Failure where it cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace quire::tools
