// Dense byte runs behind ids: what a transfer or a copy moves. Payload only, padding never.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <vector>

#include "core/layout/layout.h"

namespace quire {

// Appends the runs of part `id` of one member; `layer` is written into each run.
void append_segments(const PlaceViews& views, const quire_lowering& lowering, uint32_t layer, int32_t id, std::vector<quire_segment>* out);
// Sorts by (region, offset) and joins runs that touch; a joined run carries the layer of its first byte.
void merge_segments(std::vector<quire_segment>* runs);

}  // namespace quire
