// Codecs: how many bytes a row keeps, and which parameters make sense. Where the bytes lie is the business of core/layout.
#pragma once

#include <quire/model.h>

#include <cstdint>

#include "core/base/status.h"

namespace quire {

// Bytes that one row of one head keeps on a side (0 = K or the only one, 1 = V), scales and tail included; 0 where the side is absent.
uint64_t cell_bytes(const quire_layer& layer, uint32_t side);

// Whether a kernel block can be cut between rows: plain elements and records.
bool cuts_between_rows(quire_codec codec);

// Makes the rows of a latent cache fp8 records of so many bytes: 656 for 512 + 64 elements, 584 for 448 + 64. False, and nothing changed,
// where there is no such record.
bool fp8_record(uint32_t bytes, quire_layer* layer);

// Puts scales behind the rows of a token cache: one float for a row of a head, or one float8 for 16 elements. Errors: INVALID_ARGUMENT
// naming the layer (widths that do not divide, one-sided rows with scales for 16, types that take no scales).
Status add_scales(quire_dtype dtype, int32_t kv_scales, quire_layer* layer);

// Checks codec and codec_params of a token cache whose heads, widths and dtype are checked already. Errors name layer, field, value, limit.
Status check_codec(const quire_layer& layer);

}  // namespace quire
