// From one view to another: which bytes a peer with another block size, head split or order reads and writes. Views of a peer are
// untrusted.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace quire {

// A view and the ids of one sequence in its column: ids[i] holds the i-th run of tokens. `name` is named in messages.
struct KvEnd {
  const quire_kv_view* view = nullptr;
  std::span<const int32_t> ids;
  const char* name = "";
};

// Every number of a view is within its limit and every address of it fits 63 bits. INVALID_ARGUMENT names the field.
Status check_view(const quire_kv_view& view, const char* name);
Status check_view(const quire_state_view& view, const char* name);

// Why rows of one view are not rows of the other: dtype, codec, widths, sides, rows. Empty when raw copies are legal.
std::string difference_of_rows(const quire_kv_view& a, const quire_kv_view& b);
// The field in which one tensor of a state is not the other's, whatever their ranks; empty when it is the same.
std::string difference_of_states(const quire_state_view& a, const quire_state_view& b);

// Appends the runs of tokens [begin, end), merged, by from_offset. Errors as quire_kv_view_list_runs.
Status append_runs(const KvEnd& from, const KvEnd& to, uint64_t begin, uint64_t end, std::vector<quire_run>* out);
Status append_state_runs(const quire_state_view& from, int32_t from_id, const quire_state_view& to, int32_t to_id,
                         std::vector<quire_run>* out);

}  // namespace quire
