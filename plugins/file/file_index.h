// What a store knows of the objects in its directory: sizes, who uses them, and which one has to go
// first. The directory is the truth; the index follows it (watch.h).
//
// Use is a time, in nanoseconds since 1970 and different for every key of every ticket, so that it
// means the same to other processes and after a restart: it is the access time of the file. A lease
// that other processes have to respect is a modification time that is to come. Keys that are used
// together have an order: the first one is the most recent.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugins/file/file_parts.h"
#include "plugins/file/object_name.h"

namespace quire::file {

// What an object takes of the quota: what it takes of the disk.
inline uint64_t charge_of(uint64_t object_bytes) { return page_ceiling(object_bytes); }

struct Entry {
  std::string_view key;  // the map's
  uint64_t bytes = 0;
  int64_t used = 0;            // its place in the order
  int64_t written_use = 0;     // access time of the file, as far as it is known
  int64_t written_lease = 0;   // modification time of the file, if this process wrote a lease
  int64_t lease_end = 0;       // on the host's clock
  int64_t foreign_end = 0;     // of a lease of another process, in the time of files
  uint32_t loads = 0;          // that read it
  uint32_t slot = 0;           // for listings
  uint32_t seen = 0;           // scan that saw it last
  bool leaving = false;        // being evicted or removed: nobody finds it
  bool wants_writing = false;  // its use is on the way to the file
};

class Index {
 public:
  // nullptr: unknown, or leaving.
  Entry* find(std::string_view key);
  // Also one that is leaving.
  Entry* find_any(std::string_view key);
  // Adds an object or corrects its size; the use is that of a new one only.
  Entry* put(std::string_view key, uint64_t bytes, int64_t used);
  void erase(Entry* entry);
  // Later uses win.
  void touch(Entry* entry, int64_t used);
  // Where it belongs because of somebody else's use, or lack of it.
  void move(Entry* entry, int64_t used);

  uint64_t charged_bytes() const { return charged_bytes_; }
  uint64_t num_objects() const { return by_use_.size(); }

  // From the least recently used object on, until visit returns true.
  template <typename Visit>
  void each_by_use(Visit visit) {
    for (const auto& [used, entry] : by_use_) {
      if (visit(entry)) return;
    }
  }

  // Everything in a folder, before a scan of it and after: what the scan did not mark as seen is
  // gone.
  void begin_scan() { ++scan_; }
  std::vector<Entry*> unseen(unsigned folder);

  // Listings go from slot to slot: an object keeps its slot as long as it is there.
  size_t num_slots() const { return slots_.size(); }
  const Entry* in_slot(size_t slot) const { return slots_[slot]; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using Folder = std::unordered_map<std::string, Entry, Hash, std::equal_to<>>;

  std::array<Folder, kNumFolders> folders_;
  std::set<std::pair<int64_t, Entry*>> by_use_;
  std::vector<Entry*> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t charged_bytes_ = 0;
  uint32_t scan_ = 0;
};

}  // namespace quire::file
