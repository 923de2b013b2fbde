// router.h: which engine a request is sent to.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fleet {

// What a router knows of an engine when a request comes.
struct Candidate {
  bool is_free = false;  // it is up and takes another request
  uint64_t hit = 0;      // tokens of the prompt that it has cached
  uint64_t work = 0;     // tokens that it has to compute for others first
};

// One of those that are free, each with the same chance. None if none is.
std::optional<size_t> choose_random(const std::vector<Candidate>& engines, std::mt19937_64* random);
// The one where the prompt is done first: the fewest tokens to compute before its end. Among equals
// the one that has most of it cached, then any.
std::optional<size_t> choose_by_prefix(const std::vector<Candidate>& engines,
                                       uint64_t prompt_tokens, std::mt19937_64* random);

}  // namespace fleet
