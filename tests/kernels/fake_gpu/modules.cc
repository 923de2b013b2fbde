// Kernels: the emulation's, by the names that the drivers ask for.
#include <cstring>

#include "drivers/gpu/emulation/lanes.h"
#include "tests/kernels/fake_gpu/machine.h"

namespace quire::gpu::emulation {
const Entry* kernels_of_wave32();
const Entry* kernels_of_wave64();
}  // namespace quire::gpu::emulation

namespace quire::fake {
namespace {

const char* const kNames[gpu::kKernelCount] = {
#define QUIRE_FAKE_NAME(name, Args) "quire_kernel_" #name,
    QUIRE_GPU_KERNELS(QUIRE_FAKE_NAME)
#undef QUIRE_FAKE_NAME
};
constexpr size_t kArguments[gpu::kKernelCount] = {
#define QUIRE_FAKE_BYTES(name, Args) sizeof(gpu::Args),
    QUIRE_GPU_KERNELS(QUIRE_FAKE_BYTES)
#undef QUIRE_FAKE_BYTES
};

}  // namespace

int load_module(int device, const void* image, void** module) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  // Stand-ins of the tests, or what nvcc and hipcc make.
  static const char kFatbin[] = {0x50, static_cast<char>(0xed), 0x55, static_cast<char>(0xba)};
  if (memcmp(image, "quire unit ", 11) != 0 && memcmp(image, kFatbin, 4) != 0 && memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) {
    return kInvalidImage;
  }
  uint32_t number = 0;
  while (number < m.images.size() && m.images[number] != image) ++number;
  if (number == m.images.size()) m.images.push_back(image);
  auto made = std::make_unique<Module>(Module{device, number});
  *module = made.get();
  m.modules[made.get()] = std::move(made);
  ++m.alive;
  return kOk;
}

int unload_module(int device, void* module) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.modules.find(module);
  if (found == m.modules.end() || found->second->device != device) return kInvalidHandle;
  finish_all();
  for (auto it = m.functions.begin(); it != m.functions.end();) it = it->second->module == module ? m.functions.erase(it) : std::next(it);
  m.modules.erase(found);
  --m.alive;
  return kOk;
}

int number_of_module(void* module, uint32_t* number) {
  const Lock lock(machine().mutex);
  const auto found = machine().modules.find(module);
  if (found == machine().modules.end()) return kInvalidHandle;
  *number = found->second->number;
  return kOk;
}

// Kernels lie in the first three modules by turns, so that a driver has to look for them.
int find_function(void* module, const char* name, void** function) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.modules.find(module);
  if (found == m.modules.end()) return kInvalidHandle;
  for (uint32_t k = 0; k < gpu::kKernelCount; ++k) {
    if (strcmp(kNames[k], name) != 0 || k % 3 != found->second->number) continue;
    auto made = std::make_unique<Function>(Function{found->second.get(), k, 48 << 10});
    *function = made.get();
    m.functions[made.get()] = std::move(made);
    return kOk;
  }
  return kNotFound;
}

int set_shared(void* function, int bytes) {
  const Lock lock(machine().mutex);
  const auto found = machine().functions.find(function);
  if (found == machine().functions.end()) return kInvalidHandle;
  found->second->shared = static_cast<uint32_t>(bytes);
  return kOk;
}

int launch(int device, void* stream, void* function, const Grid& grid, uint32_t wave, void** parameters) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.functions.find(function);
  if (found == m.functions.end() || found->second->module->device != device) return kInvalidHandle;
  const Function& f = *found->second;
  if (grid.threads[0] * grid.threads[1] * grid.threads[2] != gpu::threads_of(static_cast<gpu::Kernel>(f.kernel))) return kInvalid;
  if (grid.blocks[0] == 0 || grid.blocks[1] != 1 || grid.blocks[2] != 1 || grid.shared > f.shared || parameters == nullptr) return kInvalid;
  const auto* from = static_cast<const char*>(parameters[0]);
  struct alignas(64) Line {
    char bytes[64];
  };
  if (kArguments[f.kernel] > (wave == 64 ? 4096 : gpu::kManyArgumentBytes)) return kInvalid;
  auto arguments = std::make_shared<std::vector<Line>>(kArguments[f.kernel] / sizeof(Line) + 1);
  memcpy(arguments->data(), from, kArguments[f.kernel]);
  const gpu::emulation::Entry entry = (wave == 64 ? gpu::emulation::kernels_of_wave64() : gpu::emulation::kernels_of_wave32())[f.kernel];
  ++m.calls[std::string("launch ") + (kNames[f.kernel] + sizeof "quire_kernel_" - 1)];
  const uint32_t blocks = grid.blocks[0];
  const uint32_t shared = grid.shared;
  const uint32_t threads = gpu::threads_of(static_cast<gpu::Kernel>(f.kernel));
  return queue(device, stream,
               {[=] {
                  if (!gpu::emulation::run_grid(entry, arguments->data(), blocks, shared, threads)) machine().lost = kLaunchFailed;
                },
                nullptr, 0});
}

}  // namespace quire::fake
