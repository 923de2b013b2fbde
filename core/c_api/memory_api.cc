// quire/memory.h
#include <cinttypes>

#include "core/c_api/handles.h"
#include "core/c_api/plan_views.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxRegions = 65536;

// Device, config and out of the three ways to make a memory.
Status check_making(const quire_device* device, const quire_config* config, quire_memory** out) {
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
  QUIRE_RETURN_IF_ERROR(c_api::check_handle(device, "device"));
  return c_api::check_handle(config, "config");
}

Status hand_out(quire::Result<std::shared_ptr<quire::Memory>> made, quire_memory** out) {
  if (!made.ok()) return made.take_status();
  *out = new quire_memory(std::move(*made));
  return {};
}

template <typename Body>
quire_code with_memory(quire_memory* memory, quire_error* err, Body&& body) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(memory, "memory"));
    return body(*memory->object);
  });
}

// Elements of the array stand sizeof(quire_memory_binding) apart, so the size must be exactly this one.
Status read_bindings(const quire_memory_binding* bindings, uint64_t n, std::vector<quire_memory_binding>* own) {
  QUIRE_RETURN_IF_ERROR(c_api::check_array(bindings, n, "bindings"));
  if (n > kMaxRegions) return quire::invalid("n is %" PRIu64 ", the limit is %" PRIu64, n, kMaxRegions);
  own->assign(bindings, bindings + n);
  for (uint64_t i = 0; i < n; ++i) {
    const std::string name = "bindings[" + std::to_string(i) + "]";
    if ((*own)[i].struct_size != sizeof(quire_memory_binding)) {
      return quire::invalid("%s.struct_size is %u, the only legal one is %zu", name.c_str(), (*own)[i].struct_size,
                            sizeof(quire_memory_binding));
    }
    QUIRE_RETURN_IF_ERROR(c_api::check_zero((*own)[i].reserved0, (name + ".reserved0").c_str()));
  }
  return {};
}

Status read_dlpack(const quire_dlpack& tensor, const char* name, quire_dlpack* own) {
  if ((tensor.versioned == nullptr) == (tensor.legacy == nullptr)) {
    return quire::invalid("%s: %s, exactly one of versioned and legacy must be set", name,
                          tensor.legacy == nullptr ? "both are NULL" : "both are set");
  }
  *own = {tensor.versioned, tensor.legacy};
  return {};
}

quire::Result<quire::DlpackSource> source_of(const quire::Memory& memory, const quire_export* what, uint32_t flags) {
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(what, "what"));
  quire_export own{};
  QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(what, &own, "what"));
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(own.flags, flags, "what.flags"));
  return memory.view_of(own);
}

template <typename Tensor>
Status hand_out_tensor(quire::Result<Tensor*> made, Tensor* quire_dlpack::*member, quire_dlpack* out) {
  if (!made.ok()) return made.take_status();
  *out = {};
  out->*member = *made;
  return {};
}

}  // namespace

quire_code quire_device_open(quire_runtime* runtime, uint32_t ordinal, quire_device** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(runtime, "runtime"));
    auto driver = runtime->object->driver();
    if (!driver.ok()) return driver.take_status();
    auto device = quire::Device::open(std::move(*driver), ordinal);
    if (!device.ok()) return device.take_status();
    *out = new quire_device(std::move(*device));
    return {};
  });
}

quire_device* quire_device_retain(quire_device* device) { return c_api::retain(device); }

void quire_device_release(quire_device* device) { c_api::release(device); }

quire_code quire_device_get_info(quire_device* device, quire_device_info* info, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(device, "device"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    quire_device_info own{};
    QUIRE_RETURN_IF_ERROR(device->object->read_info(&own));
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_stream_create(quire_device* device, uint64_t native, quire_stream** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(device, "device"));
    auto stream = quire::Stream::create(device->object, native);
    if (!stream.ok()) return stream.take_status();
    *out = new quire_stream(std::move(*stream));
    return {};
  });
}

quire_stream* quire_stream_retain(quire_stream* stream) { return c_api::retain(stream); }

void quire_stream_release(quire_stream* stream) { c_api::release(stream); }

quire_code quire_stream_synchronize(quire_stream* stream, int64_t timeout_ns, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(stream, "stream"));
    if (timeout_ns < -1) return quire::invalid("timeout_ns is %" PRId64 ", the smallest legal one is -1 (forever)", timeout_ns);
    const c_api::Alone entered(stream);
    QUIRE_RETURN_IF_ERROR(entered.check("stream"));
    return stream->object->synchronize(timeout_ns);
  });
}

quire_code quire_memory_create(quire_device* device, quire_config* config, uint32_t shard, quire_memory** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(check_making(device, config, out));
    return hand_out(quire::Memory::create(device->object, config->object, shard), out);
  });
}

quire_code quire_memory_bind(quire_device* device, quire_config* config, uint32_t shard, const quire_memory_binding* bindings, uint64_t n,
                             quire_memory** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(check_making(device, config, out));
    std::vector<quire_memory_binding> own;
    QUIRE_RETURN_IF_ERROR(read_bindings(bindings, n, &own));
    return hand_out(quire::Memory::bind(device->object, config->object, shard, own), out);
  });
}

// The handle first: once the memory has the tensors nothing may fail any more.
quire_code quire_memory_bind_dlpack(quire_device* device, quire_config* config, uint32_t shard, const quire_dlpack* tensors, uint64_t n,
                                    quire_memory** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(check_making(device, config, out));
    QUIRE_RETURN_IF_ERROR(c_api::check_shard(*config->object, shard));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(tensors, n, "tensors"));
    if (n > kMaxRegions) return quire::invalid("n is %" PRIu64 ", the limit is %" PRIu64, n, kMaxRegions);
    std::vector<quire_dlpack> imports(n);
    for (uint64_t i = 0; i < n; ++i) {
      QUIRE_RETURN_IF_ERROR(read_dlpack(tensors[i], ("tensors[" + std::to_string(i) + "]").c_str(), &imports[i]));
    }
    auto handle = std::make_unique<quire_memory>(nullptr);
    auto made = quire::Memory::bind_dlpack(device->object, config->object, shard, imports);
    if (!made.ok()) return made.take_status();
    handle->object = std::move(*made);
    *out = handle.release();
    return {};
  });
}

quire_memory* quire_memory_retain(quire_memory* memory) { return c_api::retain(memory); }

void quire_memory_release(quire_memory* memory) { c_api::release(memory); }

quire_code quire_memory_get_region(quire_memory* memory, uint32_t region, void** address, uint64_t* bytes, quire_error* err) {
  return with_memory(memory, err, [&](const quire::Memory& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(address, "address"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(bytes, "bytes"));
    return object.region(region, address, bytes);
  });
}

quire_code quire_memory_get_tensor(quire_memory* memory, const quire_export* what, quire_tensor* out, quire_error* err) {
  return with_memory(memory, err, [&](const quire::Memory& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    auto source = source_of(object, what, QUIRE_EXPORT_AS_BYTES);
    if (!source.ok()) return source.take_status();
    if (source->ndim > quire::kMaxTensorDims) {
      return quire::fail(QUIRE_NOT_REPRESENTABLE, "what: a tensor of %d dimensions, a quire_tensor has at most %d", source->ndim,
                         quire::kMaxTensorDims);
    }
    *out = source->tensor();
    return {};
  });
}

quire_code quire_memory_export(quire_memory* memory, const quire_export* what, quire_dlpack* out, quire_error* err) {
  return with_memory(memory, err, [&](const quire::Memory& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    auto source = source_of(object, what, QUIRE_EXPORT_READ_ONLY | QUIRE_EXPORT_AS_BYTES | QUIRE_EXPORT_LEGACY);
    if (!source.ok()) return source.take_status();
    if ((what->flags & QUIRE_EXPORT_LEGACY) != 0)
      return hand_out_tensor(quire::export_dlpack_legacy(*source, memory->object), &quire_dlpack::legacy, out);
    return hand_out_tensor(quire::export_dlpack(*source, memory->object), &quire_dlpack::versioned, out);
  });
}

quire_code quire_memory_prepare_step(quire_memory* memory, quire_step step, quire_stream* stream, quire_error* err) {
  return with_memory(memory, err, [&](quire::Memory& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(stream, "stream"));
    return c_api::read_step(step, [&](quire::StepReader& reader, quire::StepId id) -> Status {
      if (object.config() != &reader.config()) return quire::invalid("step and memory were made from different configs");
      auto copies = reader.step_copies(id);
      if (!copies.ok()) return copies.take_status();
      auto zeroes = reader.step_zeroes(id);
      if (!zeroes.ok()) return zeroes.take_status();
      return object.prepare_step(*copies, *zeroes, *stream->object);
    });
  });
}

quire_code quire_memory_poison(quire_memory* memory, quire_stream* stream, uint8_t byte, quire_error* err) {
  return with_memory(memory, err, [&](const quire::Memory& object) -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(stream, "stream"));
    return object.poison(*stream->object, byte);
  });
}

quire_code quire_buffer_create(quire_device* device, quire_tensor* tensor, quire_buffer** out, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(tensor, "tensor"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(device, "device"));
    QUIRE_RETURN_IF_ERROR(c_api::check_tensor(*tensor, "tensor"));
    quire_tensor own = *tensor;
    auto made = quire::Buffer::create(device->object, &own);
    if (!made.ok()) return made.take_status();
    *out = new quire_buffer(std::move(*made));
    *tensor = own;
    return {};
  });
}

quire_code quire_buffer_import(quire_device* device, const quire_dlpack* dlpack, uint32_t flags, quire_tensor* tensor, quire_buffer** out,
                               quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(tensor, "tensor"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(dlpack, "dlpack"));
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(device, "device"));
    QUIRE_RETURN_IF_ERROR(c_api::check_flags(flags, QUIRE_IMPORT_READ_ONLY | QUIRE_IMPORT_ANY_DTYPE, "flags"));
    quire_dlpack import{};
    QUIRE_RETURN_IF_ERROR(read_dlpack(*dlpack, "dlpack", &import));
    auto handle = std::make_unique<quire_buffer>(nullptr);  // first: once the buffer has the tensor nothing may fail
    auto made = quire::Buffer::import(device->object, import, flags, tensor);
    if (!made.ok()) return made.take_status();
    handle->object = std::move(*made);
    *out = handle.release();
    return {};
  });
}

quire_buffer* quire_buffer_retain(quire_buffer* buffer) { return c_api::retain(buffer); }

void quire_buffer_release(quire_buffer* buffer) { c_api::release(buffer); }
