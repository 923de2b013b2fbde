// An engine's memory, its stream and its graphs, by the vendor's own library: what the driver imports, and what it queues there is recorded
// once and launched as often as wanted. The calls are found by name in the library that the driver has loaded; no header of the vendor's is
// needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace quire::conformance {

class Graphs {
 public:
  // Of device 0; NULL where the driver's devices (QUIRE_DEVICE_*) have no graphs. Ends the process where the library fails, as all here.
  static std::unique_ptr<Graphs> open(int32_t device_type);
  virtual ~Graphs() = default;
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  // For stream_create.
  uint64_t native() const { return reinterpret_cast<uintptr_t>(stream_); }
  virtual void record() = 0;
  // What was queued since record() as the next graph.
  virtual void keep() = 0;
  virtual void launch(uint64_t graph) = 0;

 protected:
  Graphs() = default;
  void* stream_ = nullptr;
  std::vector<void*> graphs_;
};

// Memory of device 0 that no driver has seen; of the process where devices of that type have none of their own.
void* take_native(int32_t device_type, size_t bytes);
void give_native(int32_t device_type, void* address);

}  // namespace quire::conformance
