// What is counted, what fails, and what tests ask.
#include <cstdlib>

#include "tests/kernels/fake_gpu/machine.h"

namespace quire::fake {
namespace {

const char* environment(const char* name) { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe): tests set it before

bool is_terminal(int code) { return code == kIllegalAddress || code == kLaunchFailed; }

}  // namespace

Machine& machine() {
  static auto* const m = new Machine;  // lives as long as the process: modules are never unloaded
  return *m;
}

bool fails(const char* call, int* code) {
  auto& failures = machine().failures;
  const auto found = failures.find(call);
  if (found == failures.end() || --found->second.after != 0) return false;
  *code = found->second.code;
  failures.erase(found);
  return true;
}

int num_devices() {
  const char* n = environment("QUIRE_FAKE_GPUS");
  return n == nullptr ? 1 : std::atoi(n);  // NOLINT(cert-err34-c): of the test's own
}

const char* architecture(const char* fallback) {
  const char* name = environment("QUIRE_FAKE_GPU_ARCH");
  return name == nullptr ? fallback : name;
}

bool is_without(const char* call) {
  const char* names = environment("QUIRE_FAKE_GPU_WITHOUT");
  return names != nullptr && (std::string(",") + names + ",").find(std::string(",") + call + ",") != std::string::npos;
}

int version(int newest) {
  const char* n = environment("QUIRE_FAKE_GPU_VERSION");
  return n == nullptr ? newest : std::atoi(n);  // NOLINT(cert-err34-c): of the test's own
}

int enter_any(const char* call) {
  const Lock lock(machine().mutex);
  ++machine().calls[call];
  int code = kOk;
  if (fails(call, &code) && is_terminal(code)) machine().lost = code;
  return code;
}

int enter(const char* call) {
  const Lock lock(machine().mutex);
  const int code = enter_any(call);
  return machine().lost != 0 ? machine().lost : code;
}

void count_alive(int64_t change) {
  const Lock lock(machine().mutex);
  machine().alive += change;
}

}  // namespace quire::fake

using quire::fake::machine;

extern "C" {

void quire_fake_fail(const char* call, uint32_t nth, int code) {
  const quire::fake::Lock lock(machine().mutex);
  machine().failures[call] = {nth, code};
}

void quire_fake_hold(int held) {
  const quire::fake::Lock lock(machine().mutex);
  machine().held = held != 0;
}

uint64_t quire_fake_calls(const char* call) {
  const quire::fake::Lock lock(machine().mutex);
  return machine().calls[call];
}

int64_t quire_fake_alive() {
  const quire::fake::Lock lock(machine().mutex);
  return machine().alive;
}

void quire_fake_revive() {
  const quire::fake::Lock lock(machine().mutex);
  machine().lost = 0;
  machine().failures.clear();
}

void* quire_fake_stream(int device) {
  void* stream = nullptr;
  quire::fake::create_stream(device, &stream);
  return stream;
}

void quire_fake_end_stream(int device, void* stream) { quire::fake::destroy_stream(device, stream); }

void* quire_fake_event(int device) {
  void* event = nullptr;
  quire::fake::create_event(device, &event);
  return event;
}

void quire_fake_end_event(int device, void* event) { quire::fake::destroy_event(device, event); }

int quire_fake_event_done(int device, void* event) {
  const quire::fake::Lock lock(machine().mutex);
  const auto* e = quire::fake::event_of(device, event);
  return e != nullptr && e->stream != nullptr && e->stream->done >= e->ticket ? 1 : 0;
}

}  // extern "C"
