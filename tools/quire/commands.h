// The commands of the quire command line. Each adds itself to the application; its callback does the work and throws on failure.
#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace quire::tools {

void add_call(CLI::App* app);
void add_info(CLI::App* app);
void add_plan(CLI::App* app);
void add_replay(CLI::App* app);

// Options that plan and replay share.
struct PlanArguments {
  std::string config;
  uint64_t memory = 80ull << 30;
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  uint32_t context_parallel = 1;
  bool contiguous = false;
  uint64_t concurrency = 1;
  std::string kv_dtype;
  std::string policy;
  std::string layout;
  uint64_t max_len = 0;
  uint64_t pages = 0;
};

void add_plan_arguments(CLI::App* command, PlanArguments* arguments);

// Two spaces of indent, sorted as written, newline at the end.
void print_json(const nlohmann::ordered_json& json);

}  // namespace quire::tools
