// What a fetch does with single records.
#pragma once

#include <span>

#include "core/tier/fetch.h"
#include "core/tier/tier_state.h"
#include "core/tier/transfer.h"

namespace quire {

// Names at every length that a record of the prompt can end at, with and without what drafts read
// ahead.
Status name_prompt(const TierState& state, Fetch* f);
// Records of this end and family are to be loaded from those who have all of them. set: sources.
void add_pending(const TierState& state, uint32_t family, std::span<const uint32_t> set,  //
                 uint64_t end, Fetch* f);
// What did not come, as tokens of its groups.
void note_failure(const TierState& state, const Transfer& t, Fetch* f);

}  // namespace quire
