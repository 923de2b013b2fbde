// request.h: what clients ask for, and what engines answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fleet {

struct Request {
  uint64_t id = 0;
  std::optional<uint64_t> after;  // this one must be answered before
  uint64_t tenant = 0;
  std::vector<int64_t> prompt;
  std::string line;  // as an engine reads it
};

struct Answer {
  uint64_t id = 0;
  uint64_t prompt_tokens = 0;
  uint64_t hit_tokens = 0;      // not computed
  uint64_t fetched_tokens = 0;  // of these: from the store
  uint64_t computed_tokens = 0;
  uint64_t verified_rows = 0, mismatches = 0;
  std::vector<uint32_t> tokens;
};

// The workload of `quire_engine OPTIONS --list-requests`; ids count from 0. Throws Failure.
std::vector<Request> list_requests(const std::vector<std::string>& engine,
                                   const std::string& error_file);

}  // namespace fleet
