// The bytes that the runs of a ticket name, by their place in the object. A run is never spelled
// out piece by piece: what a stretch of the object has of it is computed.
#pragma once

#include <quire/connector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace quire::plugins {

// Bytes of the object that lie together in memory.
struct Extent {
  uint64_t begin = 0;  // in the object
  uint64_t bytes = 0;
  uint8_t* memory = nullptr;
};

class Pieces {
 public:
  // Of one ticket, as the library passes them: checked.
  explicit Pieces(std::span<const quire_ticket_run> runs);

  // Of all pieces together.
  uint64_t bytes() const { return bytes_; }
  // Of the object: behind the last piece.
  uint64_t end() const { return end_; }
  // The first byte of the object at or behind `from` that a piece has. None: there is none.
  std::optional<uint64_t> next(uint64_t from) const;
  // What lies in [begin, end) of the object, in order. False: it is more than `most` extents; then
  // *out has some of them.
  bool collect(uint64_t begin, uint64_t end, size_t most, std::vector<Extent>* out) const;
  // Copies what lies in [begin, end) of the object between the pieces and memory that begins with
  // the object's byte `begin`.
  void gather(uint64_t begin, uint64_t end, uint8_t* to) const;
  void scatter(uint64_t begin, uint64_t end, const uint8_t* from) const;

 private:
  struct Run {
    uint64_t begin = 0;  // of the first piece in the object
    uint64_t end = 0;    // behind the last one
    uint64_t piece = 0;  // bytes of a piece
    uint64_t count = 0;
    uint64_t object_stride = 0;
    int64_t stride = 0;
    uint8_t* memory = nullptr;
    uint64_t end_so_far = 0;  // the greatest end of this run and those before it
  };
  static Run ordered(const quire_ticket_run& run);
  size_t first_run(uint64_t begin) const;
  template <typename Visit>
  bool each(uint64_t begin, uint64_t end, Visit visit) const;

  std::vector<Run> runs_;  // by `begin`
  uint64_t bytes_ = 0;
  uint64_t end_ = 0;
};

}  // namespace quire::plugins
