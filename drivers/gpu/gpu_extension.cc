// What the GPU drivers publish beside the table of ops: memory that processes share, events of the engine's own, and by which kernel
// attention went.
#include "drivers/gpu/gpu_device.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace quire::gpu {
namespace {

// What travels from one process to the other: 96 bytes, read by the same driver on the same machine.
struct Handle {
  char magic[8];
  int32_t device_type;
  uint32_t reserved0;
  Shared shared;
};
static_assert(sizeof(Handle) == 96);
constexpr char kMagic[8] = {'q', 'u', 'i', 'r', 'e', 'i', 'p', 'c'};

// NOLINTBEGIN(performance-no-int-to-ptr): values carry addresses
quire_driver_stream* stream_of(const quire_value& v) { return reinterpret_cast<quire_driver_stream*>(v.bits); }
void* address_of(const quire_value& v) { return reinterpret_cast<void*>(v.bits); }
// NOLINTEND(performance-no-int-to-ptr)

// A handle of this driver's, copied from the caller's bytes.
quire_code read_handle(const quire_driver_stream& stream, const quire_value& v, Handle* out, const char* what, quire_error* err) {
  if (address_of(v) == nullptr) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s: handle is NULL", what);
  memcpy(out, address_of(v), sizeof *out);
  if (memcmp(out->magic, kMagic, sizeof kMagic) != 0 || out->reserved0 != 0) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s: handle is not one of ipc.export", what);
  }
  const int32_t own = stream.device->runtime->device_type;
  if (out->device_type != own) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s: handle is of device type %d, this driver's is %d", what, out->device_type, own);
  }
  return QUIRE_OK;
}

// A call of the library that took an argument of the caller's: what it refuses was wrong, anything else is as everywhere.
quire_code judge(quire_driver_device* device, int code, const char* what, const char* argument, quire_error* err) {
  if (code == 0 || !device->runtime->unfit(code)) return native(device, code, what, err);
  QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "%s: %s: %s (%d)", what, argument, device->runtime->error_text(code), code);
  if (err != nullptr) err->native_code = code, err->native_domain = device->runtime->error_domain;
  return QUIRE_INVALID_ARGUMENT;
}

// u64(stream,u64,ptr,u64,error)
quire_code ipc_export(void*, const quire_value* args, uint64_t, quire_value* result, quire_error* err) {
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  void* address = address_of(args[1]);
  if (args[2].bits == 0 || args[3].bits < sizeof(Handle)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "ipc.export: handle is %s, %" PRIu64 " bytes, %zu are needed",
                      args[2].bits == 0 ? "NULL" : "given", args[3].bits, sizeof(Handle));
  }
  if (address == nullptr || drivers::host_reads(address)) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "ipc.export: address 0x%" PRIx64 " is not in device memory", args[1].bits);
  }
  quire_driver_device* device = stream->device;
  Handle handle{};
  memcpy(handle.magic, kMagic, sizeof kMagic);
  handle.device_type = device->runtime->device_type;
  QUIRE_TRY(judge(device, device->runtime->ipc_export(device->native, address, &handle.shared), "ipc.export", "address", err));
  memcpy(address_of(args[2]), &handle, sizeof handle);
  result->bits = handle.shared.bytes;
  return QUIRE_OK;
}

// u64(stream,ptr,error)
quire_code ipc_import(void*, const quire_value* args, uint64_t, quire_value* result, quire_error* err) {
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  Handle handle{};
  QUIRE_TRY(read_handle(*stream, args[1], &handle, "ipc.import", err));
  quire_driver_device* device = stream->device;
  void* address = nullptr;
  QUIRE_TRY(judge(device, device->runtime->ipc_import(device->native, handle.shared, &address), "ipc.import", "handle", err));
  result->bits = reinterpret_cast<uint64_t>(address);
  return QUIRE_OK;
}

// code(stream,u64,ptr,error)
quire_code ipc_close(void*, const quire_value* args, uint64_t, quire_value*, quire_error* err) {
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  Handle handle{};
  QUIRE_TRY(read_handle(*stream, args[2], &handle, "ipc.close", err));
  if (args[1].bits <= handle.shared.offset) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "ipc.close: address is not one of ipc.import");
  quire_driver_device* device = stream->device;
  return judge(device, device->runtime->ipc_close(device->native, handle.shared, address_of(args[1])), "ipc.close", "address", err);
}

// code(stream,u64,error)
quire_code event_wait(void*, const quire_value* args, uint64_t, quire_value*, quire_error* err) {
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  if (args[1].bits == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event.wait: event is 0");
  quire_driver_device* device = stream->device;
  return judge(device, device->runtime->event_wait(device->native, address_of(args[1]), stream->native), "event.wait", "event", err);
}

// code(stream,u64,error)
quire_code event_record(void*, const quire_value* args, uint64_t, quire_value*, quire_error* err) {
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  if (args[1].bits == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "event.record: event is 0");
  quire_driver_device* device = stream->device;
  return judge(device, device->runtime->event_record(device->native, address_of(args[1]), stream->native), "event.record", "event", err);
}

// code(stream,ptr,u64,error)
quire_code attention_kernel(void*, const quire_value* args, uint64_t, quire_value*, quire_error* err) {
  static const char* const kNames[kKernelCount] = {
#define QUIRE_GPU_NAME_OF(name, Args) #name,
      QUIRE_GPU_KERNELS(QUIRE_GPU_NAME_OF)
#undef QUIRE_GPU_NAME_OF
  };
  quire_driver_stream* stream = stream_of(args[0]);
  QUIRE_TRY(check_stream(stream, err));
  if (args[1].bits == 0) return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "attention.kernel: text is NULL");
  if (stream->attended == Kernel::plan) return QUIRE_FAIL(err, QUIRE_FAILED_PRECONDITION, "attention.kernel: no attention was queued");
  char said[256];
  int bytes = std::snprintf(said, sizeof said, "%s", kNames[static_cast<uint32_t>(stream->attended)]);
  if (stream->refused != 0) {
    bytes = std::snprintf(said, sizeof said, "%s, boxes refused: %s (%d)", kNames[static_cast<uint32_t>(stream->attended)],
                          stream->device->runtime->error_text(stream->refused), stream->refused);
  }
  const uint64_t whole = static_cast<uint64_t>(bytes) < sizeof said ? static_cast<uint64_t>(bytes) + 1 : sizeof said;
  if (args[2].bits < whole) {
    return QUIRE_FAIL(err, QUIRE_INVALID_ARGUMENT, "attention.kernel: text has %" PRIu64 " bytes, %" PRIu64 " are needed", args[2].bits,
                      whole);
  }
  memcpy(address_of(args[1]), said, whole);
  return QUIRE_OK;
}

template <size_t n>
constexpr quire_str text(const char (&s)[n]) {
  return {s, n - 1};
}

constexpr quire_extension_entry entry(quire_str name, quire_str signature, quire_str doc, quire_packed_fn packed) {
  return {sizeof(quire_extension_entry), 1, name, signature, doc, nullptr, packed};
}

constexpr quire_extension_entry kEntries[] = {
    entry(
        text("ipc.export"), text("u64(stream,u64,ptr,u64,error)"),
        text("(stream, address, handle, bytes of handle): writes a handle of 96 bytes by which another process reaches device memory from "
             "address on; answers how many bytes it reaches. The memory must outlive every use of the handle."),
        ipc_export),
    entry(text("ipc.import"), text("u64(stream,ptr,error)"),
          text("(stream, handle): the address, here, of memory that another process exported, on the stream's device."), ipc_import),
    entry(
        text("ipc.close"), text("code(stream,u64,ptr,error)"),
        text(
            "(stream, address, handle): gives back an address of ipc.import, as often as it was imported. Work that uses it must be done."),
        ipc_close),
    entry(text("event.wait"), text("code(stream,u64,error)"),
          text("(stream, CUevent or hipEvent_t): what is queued from now on waits for an event of the engine's own. May be captured."),
          event_wait),
    entry(text("event.record"), text("code(stream,u64,error)"),
          text("(stream, CUevent or hipEvent_t): records an event of the engine's own behind what is queued. May be captured."),
          event_record),
    entry(
        text("attention.kernel"), text("code(stream,ptr,u64,error)"),
        text(
            "(stream, text, bytes of text): writes, with an ending 0, by which kernel the last attention of the stream went, and where the "
            "copy engine's driver refused its pages, what it said. 256 bytes are enough."),
        attention_kernel),
};

}  // namespace

const quire_extension_table kOps = {sizeof(quire_extension_table), sizeof(quire_extension_entry), sizeof kEntries / sizeof *kEntries,
                                    kEntries};

}  // namespace quire::gpu
