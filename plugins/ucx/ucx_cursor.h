// The way through the runs of a load: stretches that one message asks for, in the order of the
// runs.
#pragma once

#include <quire/connector.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {

struct Stretch {
  std::vector<Range> ranges;         // of the object
  std::vector<ucp_dt_iov_t> places;  // in memory, of the same bytes
  uint64_t bytes = 0;
};

class Cursor {
 public:
  explicit Cursor(std::span<const quire_ticket_run> runs) : runs_(runs) {}

  bool is_at_end() const { return run_ == runs_.size(); }
  // At most so many bytes, ranges and places. Not empty unless it is at the end.
  Stretch next(uint64_t most_bytes, size_t most_ranges, size_t most_places);

 private:
  std::span<const quire_ticket_run> runs_;
  size_t run_ = 0;
  uint64_t piece_ = 0;
  uint64_t byte_ = 0;  // of the piece
};

}  // namespace quire::ucx
