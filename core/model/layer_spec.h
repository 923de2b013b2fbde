// One spec of a layer file: what a layer caches, and how the file cuts and pads its pages. Private to core/model.
#pragma once

#include "core/base/status.h"
#include "core/model/cache_spec.h"
#include "core/model/hf_fields.h"
#include "core/model/model_layers.h"

namespace quire {

struct LayerSpec {
  quire_layer layer{};
  CacheSpec pages;
};

// encoder_tokens: of the file's options. Untrusted. Errors name field, value and what is known.
Result<LayerSpec> read_layer_spec(const Json& spec, uint64_t encoder_tokens);

}  // namespace quire
