// How far before the end of a prompt its state is kept. The next turn of a conversation resumes at
// the very end. A request that shares a document, but asks something else, never reaches that
// boundary: one up to 2,048 tokens earlier serves it, and costs a conversation the tokens between.
// Every prompt that begins like an earlier one shows which of them would have saved more.
#pragma once

#include <array>
#include <cstdint>

#include "core/prefix/index.h"
#include "core/step/facts.h"
#include "core/step/output_reuse.h"

namespace quire {

class PromptEnds {
 public:
  // Both are borrowed.
  PromptEnds(const Facts& facts, PrefixIndex& index);

  // The token at which the state of a prompt is kept; 0: the prompt is too short to have one.
  uint64_t kept_at(uint64_t prompt) const;
  // A prompt was computed to its end, and the node is its last boundary. `seen`: tokens at its
  // begin that others had before; branch_point: 0, or where it left their way.
  void learn(NodeId node, uint64_t prompt, uint64_t seen, uint64_t branch_point);

  OutputReuse outputs;  // what follows the ends

 private:
  static constexpr std::array<uint64_t, 3> kGrids = {1, 512, 2048};  // tokens; 1: every boundary
  static constexpr uint8_t kBranchPoint = 1u << kGrids.size();
  static constexpr uint32_t kMostUnits = 512;      // that are looked at for one prompt
  static constexpr double kMemory = 1 - 1. / 512;  // of a gain, left when the next prompt comes

  uint64_t end_of(uint64_t prompt, size_t grid) const;

  const Facts& facts_;
  PrefixIndex& index_;
  std::array<uint64_t, kGrids.size()> grids_{};  // tokens; where hits can end, too
  std::array<double, kGrids.size()> gains_{};    // tokens that each would have spared
  size_t best_ = 0;
};

}  // namespace quire
