#include "core/layout/member.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/layout/codec.h"
#include "core/model/dtype.h"

namespace quire {
namespace {

uint64_t tensor_bytes(const quire_state_tensor& tensor) {
  uint64_t bytes = element_bytes(tensor.dtype);
  for (uint32_t k = 0; k < tensor.ndim; ++k) bytes *= tensor.shape[k];
  return bytes;
}

}  // namespace

uint64_t state_payload_bytes(const std::vector<quire_state_tensor>& tensors) {
  uint64_t bytes = 0;
  for (const quire_state_tensor& tensor : tensors) bytes += tensor_bytes(tensor);
  return bytes;
}

uint64_t state_span_bytes(const std::vector<quire_state_tensor>& tensors) {
  uint64_t bytes = 0;
  uint64_t widest = 1;
  for (const quire_state_tensor& tensor : tensors) {
    bytes = round_up(bytes, element_bytes(tensor.dtype)) + tensor_bytes(tensor);
    widest = std::max(widest, element_bytes(tensor.dtype));
  }
  return round_up(bytes, widest);
}

uint64_t payload_bytes(const MemberShape& member, uint32_t kernel_blocks_per_part) {
  if (member.is_state()) return state_payload_bytes(member.tensors);
  uint64_t cells = 0;
  for (uint32_t side = 0; side < member.num_sides; ++side) {
    cells += cell_bytes(member.codec, member.codec_params, member.dtype, member.width[side], side);
  }
  return uint64_t{kernel_blocks_per_part} * member.rows * member.num_heads * cells;
}

}  // namespace quire
