// Memory of an owner and a reader in one host. It has bytes of objects and nothing else: how much
// of which slot is filled is said at the socket, so nothing that is read here decides anything.
#pragma once

#include <cstdint>
#include <utility>

namespace quire::ucx {

inline constexpr uint32_t kSlots = 8;
inline constexpr uint64_t kSlotBytes = uint64_t{256} << 10;
inline constexpr uint64_t kRingBytes = kSlots * kSlotBytes;

class Ring {
 public:
  Ring() = default;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The owner's. Its descriptor, for the reader; -1: there is no memory, or errno says why.
  int make();
  // The reader's, which can read only. The descriptor stays the caller's. Its size can never
  // change, or else it is refused: the kernel would end a process that reads what its peer has cut
  // off.
  // nullptr, or why it is refused.
  const char* take(int fd);

  void swap(Ring* other) { std::swap(memory_, other->memory_); }
  bool is_there() const { return memory_ != nullptr; }
  uint8_t* slot(uint32_t number) const { return memory_ + number * kSlotBytes; }

 private:
  uint8_t* memory_ = nullptr;
};

}  // namespace quire::ucx
