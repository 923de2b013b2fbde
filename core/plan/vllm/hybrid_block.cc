#include "core/plan/vllm/hybrid_block.h"

#include <algorithm>
#include <cinttypes>
#include <numeric>

#include "core/base/checked.h"

namespace quire {

Result<HybridBlock> grow_block(const HybridBlockInput& input) {
  if (input.token_bytes == 0 || input.block_tokens == 0 || input.min_kernel_block == 0) {
    return invalid("token_bytes = %" PRIu64 ", block_tokens = %" PRIu64 ", min_kernel_block = %" PRIu64 "; all must be at least 1",
                   input.token_bytes, input.block_tokens, input.min_kernel_block);
  }
  uint64_t step = std::max(input.min_kernel_block, input.block_tokens);
  if (input.latent) step = std::max<uint64_t>(step, 128);
  HybridBlock out;
  out.state_block_tokens = input.state_block_tokens != 0 ? input.state_block_tokens : input.max_model_len;
  if (input.mode == StateMode::kAll) {
    const uint64_t spacing = input.state_block_tokens != 0 ? input.state_block_tokens : std::max<uint64_t>(input.chunk_tokens, 1);
    const auto common = checked_mul(step, spacing / std::gcd(step, spacing));
    if (!common) return fail(QUIRE_OUT_OF_RANGE, "lcm of %" PRIu64 " and %" PRIu64 " tokens passes 63 bits", step, spacing);
    step = *common;
  }
  // A multiple of `step` whose tokens weigh at least one state.
  const auto grown = checked_mul(step, ceil_div(ceil_div(input.state_bytes, input.token_bytes), step));
  if (!grown) return fail(QUIRE_OUT_OF_RANGE, "block of %" PRIu64 " state bytes passes 63 bits", input.state_bytes);
  out.block_tokens = std::max(input.block_tokens, *grown);
  if (input.mode == StateMode::kAll) out.state_block_tokens = *grown;
  if (input.mode == StateMode::kAlign) out.state_block_tokens = out.block_tokens;
  const auto page = checked_mul(out.block_tokens, input.token_bytes);
  if (!page) {
    return fail(QUIRE_OUT_OF_RANGE, "page of %" PRIu64 " tokens of %" PRIu64 " bytes passes 63 bits", out.block_tokens, input.token_bytes);
  }
  out.page_bytes = input.state_bytes != 0 ? *page : 0;
  return out;
}

Result<MixedPrecision> align_precisions(const MixedPrecisionInput& input) {
  if (input.token_bytes == 0 || input.block_tokens == 0 || input.min_kernel_block == 0) {
    return invalid("token_bytes = %" PRIu64 ", block_tokens = %" PRIu64 ", min_kernel_block = %" PRIu64 "; all must be at least 1",
                   input.token_bytes, input.block_tokens, input.min_kernel_block);
  }
  if (input.wide_token_bytes <= input.token_bytes) return MixedPrecision{input.block_tokens, 0};
  const uint64_t step = std::max(input.min_kernel_block, input.block_tokens);
  const auto smallest = checked_mul(input.wide_token_bytes, input.min_kernel_block);
  const auto bytes_of_step = checked_mul(step, input.token_bytes);
  if (!smallest || !bytes_of_step) {
    return fail(QUIRE_OUT_OF_RANGE, "tokens of %" PRIu64 " and %" PRIu64 " bytes pass 63 bits", input.token_bytes, input.wide_token_bytes);
  }
  const auto block = checked_mul(step, ceil_div(std::max(*smallest, input.state_page), *bytes_of_step));
  const auto page = block ? checked_mul(*block, input.token_bytes) : std::nullopt;
  if (!page) return fail(QUIRE_OUT_OF_RANGE, "block for a page of %" PRIu64 " bytes passes 63 bits", input.state_page);
  return MixedPrecision{*block, *page};
}

}  // namespace quire
