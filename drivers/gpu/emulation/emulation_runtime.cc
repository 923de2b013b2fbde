#include "drivers/gpu/emulation/emulation_runtime.h"

#include "drivers/gpu/emulation/lanes.h"
#include "drivers/gpu/emulation/warpgroup.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace quire::gpu {
namespace emulation {

const Entry* kernels_of_wave32();  // table.cc, compiled once per width
const Entry* kernels_of_wave64();
const Entry* kernels_of_rdna();  // table_rdna.cc

namespace {

struct Device {
  const Entry* kernels;
  uint32_t wave;
  uint32_t multiprocessors;
  bool matrix;
  bool flow;
};

struct alignas(64) Line {
  char bytes[64];
};

struct Recorded {
  Entry entry;  // NULL = fill
  std::vector<Line> arguments;
  uint32_t blocks;
  uint32_t shared;
  Kernel kernel;
};

struct FillArguments {
  uint64_t to;
  uint64_t from;  // 0 = fill with value
  uint64_t bytes;
  uint8_t value;
};

struct Stream {
  std::vector<Recorded> recorded;
  bool recording = false;
  bool spoilt = false;
};

std::atomic<uint32_t> recording_streams{0};
std::atomic<uint32_t> failing{0};
std::atomic<int> failing_code{0};

// NOLINTBEGIN(performance-no-int-to-ptr): the ABI carries addresses
void move_bytes(const FillArguments& f) {
  if (f.from == 0) {
    memset(reinterpret_cast<void*>(f.to), f.value, f.bytes);
  } else {
    memcpy(reinterpret_cast<void*>(f.to), reinterpret_cast<const void*>(f.from), f.bytes);
  }
}
// NOLINTEND(performance-no-int-to-ptr)

int queue_bytes(void* stream, const FillArguments& f) {
  auto* s = static_cast<Stream*>(stream);
  if (!s->recording) {
    move_bytes(f);
    return 0;
  }
  static_assert(sizeof f <= sizeof(Line));
  Recorded r{nullptr, std::vector<Line>(1), 0, 0, Kernel::kCount};
  memcpy(r.arguments.data(), &f, sizeof f);
  s->recorded.push_back(std::move(r));
  return 0;
}

int device_count(uint32_t* count) {
  *count = 1;
  return 0;
}

int device_open(uint32_t, const quire_driver_options& options, void** device) {
  auto* made = new (std::nothrow) Device;
  if (made == nullptr) return kOutOfMemory;
  const bool wide = options.flags == 2 || options.flags == 4;
  const Entry* narrow = options.flags == 5 ? kernels_of_rdna() : kernels_of_wave32();
  *made = {wide ? kernels_of_wave64() : narrow, wide ? 64u : 32u, options.num_threads == 1 ? 1u : 6u, options.flags > 2,
           options.flags == 6};
  *device = made;
  return 0;
}

void device_close(void* device) { delete static_cast<Device*>(device); }

uint64_t physical_bytes() {
  const long page = sysconf(_SC_PAGESIZE);
  const long pages = sysconf(_SC_PHYS_PAGES);
  return page > 0 && pages > 0 ? static_cast<uint64_t>(page) * static_cast<uint64_t>(pages) : uint64_t{1} << 40;
}

int device_facts(void* device, Facts* facts) {
  const Device& d = *static_cast<Device*>(device);
  facts->multiprocessors = d.multiprocessors;
  facts->wave = d.wave;
  facts->shared_bytes = 227 << 10;
  facts->argument_bytes = d.multiprocessors == 1 ? 4096 : kManyArgumentBytes;
  facts->matrix = d.matrix;
  facts->flow_rows = d.flow ? 1 : 0;
  facts->total_bytes = physical_bytes();
  facts->free_bytes = physical_bytes();
  std::snprintf(facts->name, sizeof facts->name, "emulation, waves of %u%s", d.wave,
                d.flow     ? ", products of warpgroups"
                : d.matrix ? ", matrix instructions"
                           : "");
  return 0;
}

int alloc(void*, uint64_t bytes, uint64_t alignment, bool, void** address) {
  if (recording_streams.load() != 0) return kNotAllowed;
  if (bytes > physical_bytes() || posix_memalign(address, alignment, bytes) != 0) return kOutOfMemory;
  return 0;
}

int release(void*, void* address, bool) {
  std::free(address);
  return recording_streams.load() != 0 ? kNotAllowed : 0;
}

int stream_create(void*, void** stream) {
  *stream = create_stream();
  return *stream == nullptr ? kOutOfMemory : 0;
}

void stream_destroy(void*, void* stream) { destroy_stream(stream); }

int stream_wait(void*, void* stream) {
  auto* s = static_cast<Stream*>(stream);
  if (!s->recording) return 0;
  s->spoilt = true;
  return kNotAllowed;
}

// Streams run inline, so whatever was queued before an event is done.
int event_create(void*, void** event) {
  *event = new (std::nothrow) char;
  return *event == nullptr ? kOutOfMemory : 0;
}
void event_destroy(void*, void* event) { delete static_cast<char*>(event); }
int event_on_stream(void*, void*, void*) { return 0; }
int event_wait(void*, void*) { return 0; }

int copy_bytes(void*, void* stream, uint64_t to, uint64_t from, uint64_t bytes) { return queue_bytes(stream, {to, from, bytes, 0}); }
int fill_bytes(void*, void* stream, uint64_t to, uint8_t value, uint64_t bytes) { return queue_bytes(stream, {to, 0, bytes, value}); }

int launch(void* device, void* stream, Kernel kernel, uint32_t blocks, uint32_t shared, const void* arguments, size_t bytes) {
  if (failing.load() != 0 && failing.fetch_sub(1) == 1) return failing_code.load();
  const Entry entry = static_cast<Device*>(device)->kernels[static_cast<uint32_t>(kernel)];
  auto* s = static_cast<Stream*>(stream);
  if (!s->recording) return run_grid(entry, arguments, blocks, shared, threads_of(kernel)) ? 0 : kOutOfMemory;
  Recorded r{entry, std::vector<Line>((bytes + sizeof(Line) - 1) / sizeof(Line)), blocks, shared, kernel};
  memcpy(r.arguments.data(), arguments, bytes);
  s->recorded.push_back(std::move(r));
  return 0;
}

int map_boxes(void*, const BoxShape& shape, TensorMap* map) { return make_map(shape, map) ? 0 : kUnfit; }

const char* error_text(int native) {
  switch (native) {
    case kUnfit:
      return "no boxes of that shape";
    case kOutOfMemory:
      return "out of memory";
    case kNotAllowed:
      return "not allowed while a stream records";
    case kUnsupported:
      return "the emulation has no other processes";
    case kLost:
      return "an address that is not the device's was used";
    default:
      return "unknown error";
  }
}

bool exhausted(int native) { return native == kOutOfMemory; }
bool terminal(int native) { return native == kLost; }

bool unsupported(int native) { return native == kUnsupported; }
bool unfit(int) { return false; }

int copies(void* device, void* stream, const quire_copy_run* runs, uint32_t n) {
  int code = 0;
  for (uint32_t i = 0; i < n && code == 0; ++i) code = copy_bytes(device, stream, runs[i].destination, runs[i].source, runs[i].bytes);
  return code;
}
int ipc_export(void*, const void*, Shared*) { return kUnsupported; }
int ipc_import(void*, const Shared&, void**) { return kUnsupported; }
int ipc_close(void*, const Shared&, void*) { return kUnsupported; }

constexpr Runtime kRuntime = {
    QUIRE_DEVICE_CPU,
    QUIRE_DEVICE_CPU,
    1,
    -1,
    device_count,
    device_open,
    device_close,
    device_facts,
    alloc,
    release,
    stream_create,
    stream_destroy,
    stream_wait,
    stream_wait,
    event_create,
    event_destroy,
    event_on_stream,
    event_on_stream,
    event_wait,
    event_wait,
    fill_bytes,
    launch,
    map_boxes,
    error_text,
    exhausted,
    terminal,
    unsupported,
    unfit,
    copies,
    ipc_export,
    ipc_import,
    ipc_close,
};

}  // namespace

void* create_stream() { return new (std::nothrow) Stream; }

void destroy_stream(void* stream) { delete static_cast<Stream*>(stream); }

void begin_capture(void* stream) {
  auto* s = static_cast<Stream*>(stream);
  s->recorded.clear();
  s->recording = true;
  s->spoilt = false;
  ++recording_streams;
}

bool end_capture(void* stream) {
  auto* s = static_cast<Stream*>(stream);
  s->recording = false;
  --recording_streams;
  return !s->spoilt;
}

uint64_t captured_launches(void* stream) { return static_cast<Stream*>(stream)->recorded.size(); }

Kernel captured_kernel(void* stream, uint64_t launch) { return static_cast<Stream*>(stream)->recorded[launch].kernel; }

void replay(void* stream) {
  for (const Recorded& r : static_cast<Stream*>(stream)->recorded) {
    if (r.entry != nullptr) {
      run_grid(r.entry, r.arguments.data(), r.blocks, r.shared, threads_of(r.kernel));
      continue;
    }
    FillArguments f{};
    memcpy(&f, r.arguments.data(), sizeof f);
    move_bytes(f);
  }
}

void fail_launch(uint32_t nth, int code) {
  failing_code = code;
  failing = nth;
}

}  // namespace emulation

quire_code load_runtime(const quire_driver_options& options, const Runtime** out, quire_error* err) {
  const uint64_t wanted = options.flags & QUIRE_DRIVER_KERNELS_MASK;
  if (options.flags != wanted || wanted > 6) {
    return QUIRE_FAIL(
        err, QUIRE_UNAVAILABLE,
        "driver_options.flags 0x%llx: 1 is a wave of 32, 2 of 64, 3 and 4 with matrix instructions, 5 of 32 with RDNA's, 6 like "
        "3 with products of warpgroups",
        static_cast<unsigned long long>(options.flags));
  }
  *out = &emulation::kRuntime;
  return QUIRE_OK;
}

}  // namespace quire::gpu

namespace quire::drivers {

const char* const kDriverName = "emulation";
const bool kDecodesRows = false;

bool reads_device_type(int32_t device_type) { return device_type == 0 || device_type == QUIRE_DEVICE_CPU; }

bool host_reads(const void*) { return true; }

}  // namespace quire::drivers
