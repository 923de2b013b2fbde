// sampling.h: the next token from a row of logits.
#pragma once

#include <cstdint>
#include <span>

namespace lm {

struct Sampling {
  float temperature = 0;  // 0 = the most likely token
  int64_t top_k = 0;      // 0 = all
  float top_p = 1;
  uint64_t seed = 0;
};

// The draw depends on seed, sample and position only: the same token comes out in whatever batch,
// chunk or order, and with or without drafts.
int32_t sample_token(std::span<const float> logits, const Sampling& sampling, uint64_t sample,
                     uint64_t position);

}  // namespace lm
