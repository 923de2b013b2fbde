// What a layer says of its attention.
#pragma once

#include <quire/ops.h>

#include "core/base/status.h"

namespace quire {

// See quire_attention_from_layer; every other field of op stays.
Status describe_attention(const quire_layer& layer, quire_attention* op);

}  // namespace quire
