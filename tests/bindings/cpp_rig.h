// A small model on a driver of the build folder. The includer says whether errors are thrown, so nothing here is shared by units of both
// kinds.
#pragma once

#include <quire.hpp>
#include <string>

namespace {

inline quire_runtime_options rig_options(const char* driver) {
  auto options = quire::make<quire_runtime_options>();
  options.driver = quire::text(driver);
  options.driver_path = quire::text(QUIRE_MODULES);
  options.flags = QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS;
  return options;
}

inline quire_layer rig_layer() {  // full attention, fp32, 2 heads of 8
  auto layer = quire::make<quire_layer>();
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = 2;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  return layer;
}

inline quire_plan_options rig_room(uint64_t pages) {
  auto room = quire::make<quire_plan_options>();
  room.num_pages = pages;
  return room;
}

}  // namespace
