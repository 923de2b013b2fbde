// The memory of a store: reserved when it is opened, private to the process or shared with others
// under a name.
#pragma once

#include <cstdint>
#include <string>

#include "plugins/common/entry.h"
#include "plugins/host/host_layout.h"

namespace quire::host {

using plugins::Outcome;

struct RegionOptions {
  uint64_t capacity = 0;  // bytes of chunks
  uint64_t chunk_bytes = 0;
  bool huge_pages = false;
  std::string shared;  // name; empty = private memory
};

// Characters of a name of shared memory; it becomes a part of a file's name.
inline constexpr uint64_t kMaxNameBytes = 64;
bool is_shared_name(const std::string& name);

class Region {
 public:
  Region() = default;
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Reserves memory and formats it, or opens shared memory that exists. Shared memory appears under
  // its name when it is ready: nobody finds it half made. A process that dies while it makes it
  // leaves nothing behind.
  Outcome open(const RegionOptions& options);
  // In a child of fork(). The memory is not there (MADV_DONTFORK), and its addresses may belong to
  // something else.
  void forget() { base_ = nullptr; }

  char* base() const { return base_; }
  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  const Geometry& geometry() const { return geometry_; }
  // What did not work and can be done without; for the log. Empty = nothing.
  const std::string& remark() const { return remark_; }

 private:
  Outcome open_private();
  Outcome open_shared(const std::string& name);
  Outcome make_shared(const std::string& path, bool* lost_race);
  Outcome join_shared(int file, const std::string& path);
  Outcome check_shared(int file, const std::string& path) const;
  Outcome map(int file);
  void settle_pages();

  char* base_ = nullptr;
  Geometry geometry_;
  bool huge_pages_ = false;
  std::string remark_;
};

// Makes header, records, buckets and free list of an empty store. The memory is zero.
Outcome format(char* base, const Geometry& geometry);

}  // namespace quire::host
