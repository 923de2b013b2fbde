#include "tests/gpu/graph.h"

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

class CudaGraphs : public Graphs {
 public:
  explicit CudaGraphs(void* library) : library_(library) {
    int device = 0;
    void* made = nullptr;
    call(library_, "cuDeviceGet", &device, 0);
    call(library_, "cuDevicePrimaryCtxRetain", &made, device);
    call(library_, "cuCtxPushCurrent_v2", made);  // stays this thread's
    call(library_, "cuStreamCreate", &stream_, 1u);
  }
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
  void* library_;
};

class HipGraphs : public Graphs {
 public:
  explicit HipGraphs(void* library) : library_(library) {
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
  if (device_type == QUIRE_DEVICE_CUDA) return std::make_unique<CudaGraphs>(library_of({"libcuda.so.1"}));
  if (device_type != QUIRE_DEVICE_ROCM) return nullptr;
  return std::make_unique<HipGraphs>(library_of({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}));
}

}  // namespace quire::conformance
