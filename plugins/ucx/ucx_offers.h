// What an instance has for its peers. An offer is the bytes of a ticket where they lie; it lasts
// until its lease is over, it is consumed, or its ticket is cancelled. A copy has memory of its own
// and lasts until others need the room. Pure: time comes from outside, nothing here sends.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugins/common/pieces.h"
#include "plugins/ucx/ucx_key.h"
#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {

inline constexpr uint64_t kCopyOverhead = 512;  // of each copy, for its entry

struct Object {
  ObjectKey key;
  uint64_t bytes = 0;
  uint64_t ticket = 0;                    // of an offer
  std::optional<plugins::Pieces> pieces;  // of an offer
  std::unique_ptr<uint8_t[]> memory;      // of a copy
  int64_t lease_end = 0;                  // an offer goes then, a copy may
  uint32_t uses = 0;                      // transfers that read it
  bool is_gone = false;                   // nobody finds it any more
  quire_code code = QUIRE_OK;             // what an offer that is gone ends with
  std::list<std::shared_ptr<Object>>::iterator place;

  bool is_offer() const { return pieces.has_value(); }
};
using ObjectRef = std::shared_ptr<Object>;

// An offer that has ended: nothing reads its bytes any more.
struct OfferEnd {
  uint64_t ticket = 0;
  quire_code code = QUIRE_OK;
  uint64_t bytes = 0;
};

class Offers {
 public:
  enum class Put { kTaken, kExisted, kNoRoom };

  // copies_bytes: for copies altogether.
  Offers(uint64_t copies_bytes, int64_t lease_ns)
      : copies_bytes_(copies_bytes),  //
        lease_ns_(lease_ns) {}

  // Throw std::bad_alloc; then nothing was taken.
  Put offer(const ObjectKey& key, std::span<const quire_ticket_run> runs, uint64_t bytes,  //
            uint64_t ticket, int64_t now);
  Put copy(const ObjectKey& key, std::span<const quire_ticket_run> runs, uint64_t bytes,  //
           int64_t now);

  // nullptr: there is none. A wrong handle looks the same.
  ObjectRef find(const ObjectKey& key, int64_t now);
  // A copy becomes the youngest.
  void touch(const ObjectRef& object);
  // Its lease does not end before `until`.
  void renew(const ObjectRef& object, int64_t until);
  void begin_use(const ObjectRef& object) { ++object->uses; }
  void end_use(const ObjectRef& object);
  // Nobody finds it from now on.
  void remove(const ObjectRef& object, quire_code code);
  // All offers with this handle. False: there are none.
  bool remove_all(const Handle& handle, quire_code code);
  // The offer of a ticket, also if it is gone and not ended; nullptr: there is none.
  ObjectRef of_ticket(uint64_t ticket) const;
  // Offers whose lease is over are gone. When the next one will be; INT64_MAX: none.
  int64_t expire(int64_t now);
  // The ends since the last call.
  std::vector<OfferEnd> take_ends() { return std::exchange(ends_, {}); }

  // The bytes of a range that lies in the object, at most `most` extents. False: they are more.
  static bool collect(const Object& object, const Range& range, size_t most,  //
                      std::vector<plugins::Extent>* out);
  static void gather(const Object& object, const Range& range, uint8_t* to);

  int64_t lease_ns() const { return lease_ns_; }
  uint64_t num_objects() const { return names_.size(); }
  uint64_t num_unfinished() const { return by_ticket_.size(); }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t num_evicted() const { return num_evicted_; }

 private:
  using Names = std::unordered_multimap<std::string, ObjectRef>;

  bool make_room(uint64_t bytes, int64_t now);
  void end_if_unused(const ObjectRef& object);

  const uint64_t copies_bytes_;
  const int64_t lease_ns_;
  Names names_;
  std::unordered_map<uint64_t, ObjectRef> by_ticket_;  // offers that have not ended
  std::set<std::pair<int64_t, Object*>> leases_;       // of offers that are not gone
  std::list<ObjectRef> copies_;                        // the oldest first
  uint64_t used_bytes_ = 0;
  uint64_t num_evicted_ = 0;
  std::vector<OfferEnd> ends_;
};

}  // namespace quire::ucx
