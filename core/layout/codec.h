// Codecs as address functions. A codec fixes where bytes lie inside an atom, the smallest thing that the letters of an order move around:
// an element, a cell (one row of one head), a head of a kernel block, or a whole side of a kernel block.
#pragma once

#include <quire/config.h>

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/layout/member.h"
#include "core/model/check_codec.h"

namespace quire {

// Whether the content of a kernel block can be cut between heads; core/model says so of rows.
bool cuts_between_heads(quire_codec codec);

// What T, H and D range over for one side of a member, and the bytes of one step of D.
struct Atom {
  uint64_t rows = 1;
  uint64_t heads = 1;
  uint64_t items = 1;
  uint64_t item_bytes = 1;
  uint64_t padding = 0;  // behind the last item: block_alignment of a codec that holds a whole side
};

// Errors name the layer: INVALID_ARGUMENT (rows of a kernel block are no multiple of the codec's tile, a side is missing), OUT_OF_RANGE.
Result<Atom> atom_of(const MemberShape& member, uint32_t side);
// Bytes of one kernel block of a member as it lies, both sides, alignment included. Of a state, 0.
uint64_t block_span_bytes(const MemberShape& member);
// What offsets and strides of a member must be multiples of, so that nothing lies off its type.
uint64_t alignment_of(const MemberShape& member);
// Bytes that one row of one head keeps on a side, scales and tail included.
uint64_t cell_bytes(quire_codec codec, const quire_codec_params& params, quire_dtype dtype, uint32_t width, uint32_t side);

// Strides of rows and heads of a side whose whole block is one atom; `rows_outer`: T stands left of H.
struct AtomStrides {
  int64_t token = 0;
  int64_t head = 0;
  int64_t dim = 0;
};
AtomStrides strides_inside(const MemberShape& member, uint32_t side, bool rows_outer);

// Every byte of a view's rows as strided fields: elements, scales, tail, by side. The view must be one that lay_out made, or a checked one.
std::vector<quire_kv_field> fields_of(const quire_kv_view& view);
// How runs walk one side of a kernel block: `bytes` lie dense; D is a walked axis only where elements are strided.
struct Grain {
  uint64_t bytes = 0;
  uint32_t rows = 1;   // of the kernel block in one grain
  uint32_t heads = 1;  // in one grain
  uint32_t items = 1;  // grains of one cell
};
Grain grain_of(const quire_kv_view& view, uint32_t side);

}  // namespace quire
