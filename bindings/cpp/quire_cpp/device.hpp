// quire_cpp/device.hpp: devices, bytes, kernels, extension ops, connectors. Include quire.hpp.
#pragma once

#include <quire/connector.h>

#include "step.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// A device of the driver that the runtime's selection gives.
class Device : public Handle<quire_device, quire_device_release> {
 public:
  using Handle::Handle;
  // Blocks: loads modules. Errors: UNAVAILABLE, NOT_FOUND (driver name), INCOMPATIBLE_ABI,
  // OUT_OF_RANGE (ordinal).
  static Returned<Device> open(const Runtime& runtime, uint32_t ordinal = 0) {
    return detail::get<Device>(quire_device_open, runtime.get(), ordinal);
  }
  // Another reference to the same object.
  Device share() const { return Device(quire_device_retain(get())); }
  Returned<quire_device_info> info() const { return detail::get<quire_device_info>(quire_device_get_info, get()); }
};

// An in-order queue of a device, and the ops on it. Calls are serialized by the caller. Ops borrow
// their arrays until they are done.
class Stream : public Handle<quire_stream, quire_stream_release> {
 public:
  using Handle::Handle;
  // native: a CUstream or hipStream_t to import, 0 = a new one. Errors: UNIMPLEMENTED (import),
  // RESOURCE_EXHAUSTED.
  static Returned<Stream> create(const Device& device, uint64_t native = 0) {
    return detail::get<Stream>(quire_stream_create, device.get(), native);
  }
  // Another reference to the same object.
  Stream share() const { return Stream(quire_stream_retain(get())); }
  // Waits for everything queued; -1 = for ever, 0 = not at all. Errors: DEADLINE_EXCEEDED,
  // NOT_READY, and of queued work.
  Returned<void> synchronize(int64_t timeout_ns = -1) const { return detail::call(quire_stream_synchronize, get(), timeout_ns); }
  // The ops of quire/ops.h. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, UNIMPLEMENTED naming what the
  // driver lacks.
  Returned<void> kv_append(const quire_kv_append& op) const { return detail::call(quire_op_kv_append, get(), &op); }
  Returned<void> attention(const quire_attention& op) const { return detail::call(quire_op_attention, get(), &op); }
  Returned<void> attention_merge(const quire_attention_merge& op) const { return detail::call(quire_op_attention_merge, get(), &op); }
  Returned<void> gated_delta(const quire_gated_delta& op) const { return detail::call(quire_op_gated_delta, get(), &op); }
  Returned<void> conv1d(const quire_conv1d& op) const { return detail::call(quire_op_conv1d, get(), &op); }
  Returned<void> selective_scan(const quire_selective_scan& op) const { return detail::call(quire_op_selective_scan, get(), &op); }
  Returned<void> copy(std::span<const quire_copy_run> runs) const {
    return detail::call(quire_op_copy, get(), runs.data(), uint64_t{runs.size()});
  }
  Returned<void> fill(std::span<std::byte> destination, uint8_t value) const {
    return detail::call(quire_op_fill, get(), destination.data(), value, uint64_t{destination.size()});
  }
  // Writes the plan of one step's attention, for every layer of the same head shape.
  Returned<void> attention_plan(const quire_attention& op, std::span<std::byte> plan) const {
    return detail::call(quire_op_attention_plan, get(), &op, plan.data(), uint64_t{plan.size()});
  }
  // Bytes of plan and workspace for calls of at most these counts.
  struct Workspace {
    uint64_t plan_bytes = 0, workspace_bytes = 0;
  };
  Returned<Workspace> attention_workspace(uint32_t max_rows, uint64_t max_query_tokens, uint64_t max_kv_len, uint32_t num_q_heads,
                                          uint32_t head_dim_v) const {
    Result<Workspace> bytes;
    quire_op_attention_workspace(get(), max_rows, max_query_tokens, max_kv_len, num_q_heads, head_dim_v, &bytes->plan_bytes,
                                 &bytes->workspace_bytes, bytes.error().raw());
    return detail::finish(std::move(bytes));
  }
};

// A field of a layer's token cache (0: K), or a tensor of its state, for Memory::tensor and the
// exports.
inline quire_export layer_of(uint32_t layer, uint32_t sub = 0, uint32_t item = 0) {
  auto what = make<quire_export>();
  what.layer = layer, what.sub = sub, what.item = item;
  return what;
}

namespace detail {
inline quire_dlpack dlpack_of(DLManagedTensorVersioned* raw) noexcept { return {raw, nullptr}; }
inline quire_dlpack dlpack_of(DLManagedTensor* raw) noexcept { return {nullptr, raw}; }
inline DLManagedTensorVersioned* pick(const quire_dlpack& of, DLManagedTensorVersioned*) noexcept { return of.versioned; }
inline DLManagedTensor* pick(const quire_dlpack& of, DLManagedTensor*) noexcept { return of.legacy; }
}  // namespace detail

// The bytes of one shard.
class Memory : public Handle<quire_memory, quire_memory_release> {
 public:
  using Handle::Handle;
  // The driver's bytes. Errors: OUT_OF_RANGE (shard), RESOURCE_EXHAUSTED.
  static Returned<Memory> create(const Device& device, const Config& config, uint32_t shard = 0) {
    return detail::get<Memory>(quire_memory_create, device.get(), config.get(), shard);
  }
  // The engine's bytes, one binding per region; they must outlive the memory. Errors:
  // INVALID_ARGUMENT naming value and limit.
  static Returned<Memory> bind(const Device& device, const Config& config, uint32_t shard, std::span<const quire_memory_binding> bindings) {
    return detail::get<Memory>(quire_memory_bind, device.get(), config.get(), shard, bindings.data(), uint64_t{bindings.size()});
  }
  // The engine's bytes as one DLPack tensor per region: taken on success, untouched on an error. At
  // most 64 regions.
  static Returned<Memory> bind(const Device& device, const Config& config, uint32_t shard, std::span<DlTensor> tensors) {
    return bind_tensors(device, config, shard, tensors);
  }
  static Returned<Memory> bind(const Device& device, const Config& config, uint32_t shard, std::span<LegacyDlTensor> tensors) {
    return bind_tensors(device, config, shard, tensors);
  }
  Memory share() const { return Memory(quire_memory_retain(get())); }
  // The bytes of a region, in the device's memory. Errors: OUT_OF_RANGE.
  Returned<std::span<std::byte>> region(uint32_t region) const {
    Result<std::span<std::byte>> bytes;
    void* address = nullptr;
    uint64_t size = 0;
    const quire_code code = quire_memory_get_region(get(), region, &address, &size, bytes.error().raw());
    if (code == QUIRE_OK) *bytes = {static_cast<std::byte*>(address), static_cast<size_t>(size)};
    return detail::finish(std::move(bytes));
  }
  // A layer's cache for the ops. Errors: NOT_FOUND.
  Returned<quire_paged_kv> paged_kv(uint32_t layer, uint32_t sub = 0) const {
    return detail::get<quire_paged_kv>(quire_memory_get_paged_kv, get(), layer, sub);
  }
  Returned<quire_paged_state> paged_state(uint32_t layer, uint32_t sub, uint32_t tensor) const {
    return detail::get<quire_paged_state>(quire_memory_get_paged_state, get(), layer, sub, tensor);
  }
  // A layer, one id of it or a page as a strided tensor. Errors: NOT_FOUND, OUT_OF_RANGE,
  // NOT_REPRESENTABLE (tiles).
  Returned<quire_tensor> tensor(const quire_export& what) const { return detail::get<quire_tensor>(quire_memory_get_tensor, get(), &what); }
  // The same as a DLPack tensor that keeps the memory alive.
  Returned<DlTensor> export_dlpack(quire_export what) const { return export_tensor<DlTensor>(what, what.flags & ~QUIRE_EXPORT_LEGACY); }
  // For consumers of DLPack 0.x. Errors: UNIMPLEMENTED (a type that 0.x does not know),
  // FAILED_PRECONDITION (read-only), too.
  Returned<LegacyDlTensor> export_legacy(quire_export what) const {
    return export_tensor<LegacyDlTensor>(what, what.flags | QUIRE_EXPORT_LEGACY);
  }
  // Queues the zeroes and copies of a step or load. Call it after the reserve and before the step's
  // kernels.
  Returned<void> prepare(const StepView& step, const Stream& stream) const {
    return detail::call(quire_memory_prepare_step, get(), step.get(), stream.get());
  }
  // Fills every byte but the null page (for tests).
  Returned<void> poison(const Stream& stream, uint8_t byte) const { return detail::call(quire_memory_poison, get(), stream.get(), byte); }

 private:
  template <class T>
  Returned<T> export_tensor(quire_export what, uint32_t flags) const {
    what.flags = flags;
    Result<T> made;
    quire_dlpack raw{};
    const quire_code code = quire_memory_export(get(), &what, &raw, made.error().raw());
    if (code == QUIRE_OK) *made->slot() = detail::pick(raw, *made->slot());
    return detail::finish(std::move(made));
  }
  template <class T>
  static Returned<Memory> bind_tensors(const Device& device, const Config& config, uint32_t shard, std::span<BasicDlTensor<T>> tensors) {
    std::array<quire_dlpack, 64> raw{};
    if (tensors.size() > raw.size()) {
      return detail::finish(Result<Memory>(Error(QUIRE_OUT_OF_RANGE, "tensors: more than 64")));
    }
    for (size_t i = 0; i < tensors.size(); ++i) raw[i] = detail::dlpack_of(tensors[i].get());
    Result<Memory> memory;
    const quire_code code =
        quire_memory_bind_dlpack(device.get(), config.get(), shard, raw.data(), tensors.size(), memory->slot(), memory.error().raw());
    for (size_t i = 0; code == QUIRE_OK && i < tensors.size(); ++i) tensors[i].release();
    return detail::finish(std::move(memory));
  }
};

// The bytes of one tensor.
class Buffer : public Handle<quire_buffer, quire_buffer_release> {
 public:
  using Handle::Handle;
  Buffer share() const { return Buffer(quire_buffer_retain(get())); }
};

// A strided tensor and what keeps its bytes.
struct Tensor {
  quire_tensor view{};
  Buffer buffer;

  // Memory from the device for a tensor of this dtype and shape (all strides 0 = dense). Errors:
  // INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
  static Returned<Tensor> create(const Device& device, const quire_tensor& wanted) {
    Result<Tensor> made;
    made->view = wanted;
    quire_buffer_create(device.get(), &made->view, made->buffer.slot(), made.error().raw());
    return detail::finish(std::move(made));
  }
  // An engine's tensor for the ops, with its strides; flags: QUIRE_IMPORT_*. Taken on success,
  // untouched on an error. Errors: INVALID_ARGUMENT naming the field, OUT_OF_RANGE,
  // PERMISSION_DENIED (read-only).
  template <class T>
  static Returned<Tensor> import(const Device& device, BasicDlTensor<T>& tensor, uint32_t flags = 0) {
    Result<Tensor> made;
    const quire_dlpack raw = detail::dlpack_of(tensor.get());
    const quire_code code = quire_buffer_import(device.get(), &raw, flags, &made->view, made->buffer.slot(), made.error().raw());
    if (code == QUIRE_OK) tensor.release();
    return detail::finish(std::move(made));
  }
};

// An extension op of a driver or connector.
class Op : public Handle<quire_extension, quire_extension_release> {
 public:
  using Handle::Handle;
  // connector: empty = the driver. form: QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED, 0 =
  // either. Blocks: loads the module. Errors: NOT_FOUND, UNIMPLEMENTED (form), UNAVAILABLE.
  static Returned<Op> find(const Runtime& runtime, std::string_view connector, std::string_view name, uint32_t min_version = 0,
                           uint32_t form = 0) {
    return detail::get<Op>(quire_extension_find, runtime.get(), text(connector), text(name), min_version, form);
  }
  // The ops of a driver or connector. Allocates.
  static Returned<std::vector<quire_extension_info>> list(const Runtime& runtime, std::string_view connector = {}) {
    return detail::list<quire_extension_info, true>(quire_extension_list, runtime.get(), text(connector));
  }
  Op share() const { return Op(quire_extension_retain(get())); }
  Returned<quire_extension_info> signature() const { return detail::get<quire_extension_info>(quire_extension_get_info, get()); }
  // Errors: INVALID_ARGUMENT (arity, types), and the op's own.
  Returned<quire_value> invoke(std::span<const quire_value> args) const {
    return detail::get<quire_value>(quire_extension_call, get(), args.data(), uint64_t{args.size()});
  }
};

// A piece of a ticket: `bytes` dense bytes at `address` are those from object_offset on of the
// object. For several pieces set count, stride and object_stride.
inline quire_ticket_run run_of(const void* address, uint64_t bytes, uint64_t object_offset = 0) noexcept {
  return {0, reinterpret_cast<uintptr_t>(address), bytes, 1, 0, object_offset, 0};
}

// A loaded connector with its tickets. Any thread may call; one at a time polls, and one lists.
class Connector : public Handle<quire_connector, quire_connector_release> {
 public:
  using Handle::Handle;
  // config: the connector's settings as JSON. Blocks: loads the module. Errors: NOT_FOUND,
  // INVALID_ARGUMENT, INCOMPATIBLE_ABI.
  static Returned<Connector> open(const Runtime& runtime, std::string_view name, std::string_view config = {}) {
    return detail::get<Connector>(quire_connector_open, runtime.get(), text(name), text(config));
  }
  Connector share() const { return Connector(quire_connector_retain(get())); }
  Returned<quire_connector_info> info() const { return detail::get<quire_connector_info>(quire_connector_get_info, get()); }
  Returned<quire_connector_stats> stats() const { return detail::get<quire_connector_stats>(quire_connector_get_stats, get()); }
  // Errors: UNIMPLEMENTED.
  Returned<quire_connector_health> health() const { return detail::get<quire_connector_health>(quire_connector_get_health, get()); }
  // accepted: how many tickets, from the first on, are in flight from now on, also after an error.
  // Poll, then submit the rest. Bytes and `sizes` of a ticket stay until its completion was polled.
  // Errors: INVALID_ARGUMENT, OUT_OF_RANGE, and the connector's.
  Returned<void> submit(std::span<const quire_ticket> tickets, std::span<const quire_ticket_run> runs, std::span<const uint8_t> keys,
                        uint64_t& accepted) const {
    return detail::call(quire_connector_submit, get(), tickets.data(), uint64_t{tickets.size()}, runs.data(), uint64_t{runs.size()},
                        keys.data(), uint64_t{keys.size()}, &accepted);
  }
  // Completions into `to`; waits up to timeout_ns for the first; returns how many. Errors:
  // FAILED_PRECONDITION.
  Returned<uint64_t> poll(int64_t timeout_ns, std::span<quire_completion> to) const {
    return detail::get<uint64_t>(quire_connector_poll, get(), timeout_ns, to.data(), uint64_t{to.size()});
  }
  // Asks for an early end. Errors: NOT_FOUND, UNIMPLEMENTED.
  Returned<void> cancel(uint64_t ticket) const { return detail::call(quire_connector_cancel, get(), ticket); }
  // Readable while completions wait; for poll(2). Errors: UNIMPLEMENTED.
  Returned<int32_t> fd() const { return detail::get<int32_t>(quire_connector_get_fd, get()); }
  // Objects from `cursor` on into `to`, their keys into `keys`; returns how many. cursor: 0 at
  // first, and 0 again after the last ones. Errors: OUT_OF_RANGE (a key does not fit),
  // UNIMPLEMENTED.
  Returned<uint64_t> list(uint64_t& cursor, std::span<quire_object_entry> to, std::span<uint8_t> keys) const {
    Result<uint64_t> count;
    quire_connector_list(get(), &cursor, to.data(), uint64_t{to.size()}, &*count, keys.data(), uint64_t{keys.size()}, count.error().raw());
    return detail::finish(std::move(count));
  }
  // Registers bytes that runs name by the number returned; they must outlive the registration.
  Returned<uint64_t> register_region(std::span<std::byte> bytes, int32_t device_type = QUIRE_DEVICE_CPU, int32_t device_id = 0) const {
    return detail::get<uint64_t>(quire_connector_register_region, get(), static_cast<void*>(bytes.data()), uint64_t{bytes.size()},
                                 device_type, device_id);
  }
  // Errors: NOT_FOUND, FAILED_PRECONDITION (a ticket in flight uses it).
  Returned<void> unregister_region(uint64_t region) const { return detail::call(quire_connector_unregister_region, get(), region); }
};

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
