// A GPU's library without a GPU: what the fakes of libcuda and libamdhip64 share. Device memory is the host's, closed to the host but while
// the device works; queued work runs no sooner than somebody waits for it; kernels are those of the emulation. Calls out of order, handles
// that are not there and addresses of nobody are answered as the libraries answer them. Codes are those that CUDA and HIP have in common.
#pragma once

#include "drivers/gpu/gpu_kernels.h"

#include <cstddef>
#include <cstdint>

namespace quire::fake {

inline constexpr int kOk = 0;
inline constexpr int kInvalid = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kNoBinary = 209;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kNotReady = 600;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kRecording = 900;  // not while a stream records

// The environment, read when asked: QUIRE_FAKE_GPUS (how many), QUIRE_FAKE_GPU_ARCH, QUIRE_FAKE_GPU_WITHOUT (calls that are not there),
// QUIRE_FAKE_GPU_VERSION (of libcuda).
int num_devices();
const char* architecture(const char* fallback);
bool is_without(const char* call);
int version(int newest);

// The begin of a call: it is counted, fails where a test said so, and fails for good on a lost device. kOk to go on.
int enter(const char* call);
// Without the device: lost or not.
int enter_any(const char* call);

struct Handle {
  unsigned char bytes[64];
};

int allocate(int device, size_t bytes, bool host, void** address);
int release(void* address, bool host);
// Where an address lies: 0 nowhere, 1 pinned, 2 of a device.
int place_of(const void* address);
int range_of(const void* address, void** base, size_t* bytes);
int export_memory(const void* base, Handle* handle);
int import_memory(int device, const Handle& handle, void** base);
int close_memory(void* base);
void memory_info(size_t* available, size_t* total);

int create_stream(int device, void** stream);
int destroy_stream(int device, void* stream);
int query_stream(int device, void* stream);
int synchronize_stream(int device, void* stream);
int is_recording(int device, void* stream, bool* yes);
int create_event(int device, void** event);
int destroy_event(int device, void* event);
int record_event(int device, void* event, void* stream);
int wait_event(int device, void* event, void* stream);
int query_event(int device, void* event);
int synchronize_event(int device, void* event);
// Graphs: what a stream recorded, run as often as launched.
int begin_recording(int device, void* stream);
int end_recording(int device, void* stream, void** graph);
int instantiate(void* graph, void** made);
int destroy_graph(void* graph);
int launch_graph(int device, void* graph, void* stream);
int queue_copy(int device, void* stream, void* to, const void* from, size_t bytes);
int queue_fill(int device, void* stream, void* to, uint8_t value, size_t bytes);
int read_now(void* to, const void* from, size_t bytes);

int load_module(int device, const void* image, void** module);
int unload_module(int device, void* module);
// Which image a module is of, in the order in which images were first seen.
int number_of_module(void* module, uint32_t* number);
int find_function(void* module, const char* name, void** function);
int set_shared(void* function, int bytes);
struct Grid {
  uint32_t blocks[3];
  uint32_t threads[3];
  uint32_t shared;
};
int launch(int device, void* stream, void* function, const Grid& grid, uint32_t wave, void** parameters);

// Contexts and what the thread has made current count as alive.
void count_alive(int64_t change);

}  // namespace quire::fake

// What tests tell a fake; found by dlsym.
extern "C" {
// The n-th call of that name from now fails with the code; the call "work" is a piece of queued work, which takes the device with it.
void quire_fake_fail(const char* call, uint32_t nth, int code);
// Queries make no progress while held.
void quire_fake_hold(int held);
// "launch NAME" for those of one kernel.
uint64_t quire_fake_calls(const char* call);
// What was made and not given back: memory, mappings, streams, events, modules, contexts.
int64_t quire_fake_alive();
// A lost device works again, as in a new process.
void quire_fake_revive();
// An engine's own.
void* quire_fake_stream(int device);
void quire_fake_end_stream(int device, void* stream);
void* quire_fake_event(int device);
void quire_fake_end_event(int device, void* event);
int quire_fake_event_done(int device, void* event);
// Capture: what is queued is kept; 1 when everything that was asked for meanwhile may be captured.
void quire_fake_record(void* stream);
int quire_fake_end_record(void* stream);
void quire_fake_replay(void* stream);
}
