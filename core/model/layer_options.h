// The options of a layer file, as far as a model needs them; all are checked, since what a file says of its plan must not be dropped.
// Private to core/model.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/base/status.h"
#include "core/model/hf_fields.h"

namespace quire {

struct LayerOptions {
  uint64_t max_model_len = 0;   // 0 = not stated
  uint64_t encoder_tokens = 0;  // 0 = not stated
  uint64_t draft_tokens = 1;
};

// Blocks of tokens are cut for kernels that take 16 at a time, or a part of them.
constexpr uint64_t kGranule = 16;
// OK for 0, multiples of kGranule and its divisors. source and field: of the message.
Status check_granule(const char* source, const char* field, uint64_t tokens);

// A field that is not known would change what is cached without a word. where: source of the message.
Status only_known(const Json& object, const char* where, std::initializer_list<const char*> known);

// file: the outermost object. Untrusted. Errors name field, value and limit.
Result<LayerOptions> read_layer_options(const Json& file);

}  // namespace quire
