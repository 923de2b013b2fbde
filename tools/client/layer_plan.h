// What a layer file says of its plan beside its layers: stages, memory, block and other options, as
// options of quire_config_create.
#pragma once

#include <quire/config.h>

#include <string>
#include <vector>

namespace quire::client {

// How a spec of the file cuts its blocks; 0 and empty where it does not say.
struct ToldSpec {
  size_t index;
  bool state;
  uint64_t block;
  std::string mode;
};

struct LayerPlan {
  quire_plan_options options;  // pointers into the vectors: take them with point() after a copy
  std::vector<uint64_t> memory;
  std::vector<uint32_t> stage_layers;
  std::vector<ToldSpec> specs;

  void point();
};

// model: made of the same text. Policy, layout and dtype stay open. Throws std::invalid_argument
// that names the field.
LayerPlan read_layer_plan(const std::string& text, quire_model* model);

}  // namespace quire::client
