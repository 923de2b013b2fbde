#include "tests/kernels/gpu/graph.h"

#include <dlfcn.h>

#include <quire/base.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace quire::conformance {
namespace {

void* library_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library != nullptr) return library;
  }
  return nullptr;
}

// Arguments are passed as they are: handles and addresses as void *, integers of the width that the call has.
template <typename... Args>
void call(void* library, const char* name, Args... args) {
  const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  const int code = function == nullptr ? -1 : function(args...);
  if (code == 0) return;
  std::fprintf(stderr, "%s: %d\n", name, code);
  std::exit(1);
}

void* cuda() { return library_of({"libcuda.so.1"}); }
void* hip() { return library_of({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}); }

// Device 0's primary context is the thread's while this lives.
class CudaCurrent {
 public:
  CudaCurrent() {
    void* made = nullptr;
    call(cuda(), "cuDeviceGet", &device_, 0);
    call(cuda(), "cuDevicePrimaryCtxRetain", &made, device_);
    call(cuda(), "cuCtxPushCurrent_v2", made);
  }
  ~CudaCurrent() {
    void* left = nullptr;
    call(cuda(), "cuCtxPopCurrent_v2", &left);
    call(cuda(), "cuDevicePrimaryCtxRelease_v2", device_);
  }
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;

 private:
  int device_ = 0;
};

class CudaGraphs : public Graphs {
 public:
  CudaGraphs() : library_(cuda()) { call(library_, "cuStreamCreate", &stream_, 1u); }
  ~CudaGraphs() override {
    for (void* graph : graphs_) call(library_, "cuGraphExecDestroy", graph);
    call(library_, "cuStreamDestroy_v2", stream_);
  }
  void record() override { call(library_, "cuStreamBeginCapture_v2", stream_, 2); }  // relaxed
  void keep() override {
    void* graph = nullptr;
    void* made = nullptr;
    call(library_, "cuStreamEndCapture", stream_, &graph);
    call(library_, "cuGraphInstantiateWithFlags", &made, graph, 0ull);
    call(library_, "cuGraphDestroy", graph);
    graphs_.push_back(made);
  }
  void launch(uint64_t graph) override { call(library_, "cuGraphLaunch", graphs_[graph], stream_); }

 private:
  CudaCurrent current_;
  void* library_;
};

class HipGraphs : public Graphs {
 public:
  HipGraphs() : library_(hip()) {
    call(library_, "hipSetDevice", 0);
    call(library_, "hipStreamCreateWithFlags", &stream_, 1u);
  }
  ~HipGraphs() override {
    for (void* graph : graphs_) call(library_, "hipGraphExecDestroy", graph);
    call(library_, "hipStreamDestroy", stream_);
  }
  void record() override { call(library_, "hipStreamBeginCapture", stream_, 2); }  // relaxed
  void keep() override {
    void* graph = nullptr;
    void* made = nullptr;
    void* none = nullptr;
    call(library_, "hipStreamEndCapture", stream_, &graph);
    call(library_, "hipGraphInstantiate", &made, graph, none, none, size_t{0});
    call(library_, "hipGraphDestroy", graph);
    graphs_.push_back(made);
  }
  void launch(uint64_t graph) override { call(library_, "hipGraphLaunch", graphs_[graph], stream_); }

 private:
  void* library_;
};

}  // namespace

std::unique_ptr<Graphs> Graphs::open(int32_t device_type) {
  if (device_type == QUIRE_DEVICE_CUDA) return std::make_unique<CudaGraphs>();
  if (device_type != QUIRE_DEVICE_ROCM) return nullptr;
  return std::make_unique<HipGraphs>();
}

void* take_native(int32_t device_type, size_t bytes) {
  void* address = nullptr;
  if (device_type == QUIRE_DEVICE_CUDA) {
    const CudaCurrent current;
    call(cuda(), "cuMemAlloc_v2", &address, bytes);
  } else if (device_type == QUIRE_DEVICE_ROCM) {
    call(hip(), "hipSetDevice", 0);
    call(hip(), "hipMalloc", &address, bytes);
  } else if (posix_memalign(&address, 4096, bytes) != 0) {
    std::abort();
  }
  return address;
}

void give_native(int32_t device_type, void* address) {
  if (device_type == QUIRE_DEVICE_CUDA) {
    const CudaCurrent current;
    call(cuda(), "cuMemFree_v2", address);
  } else if (device_type == QUIRE_DEVICE_ROCM) {
    call(hip(), "hipFree", address);
  } else {
    std::free(address);
  }
}

}  // namespace quire::conformance
