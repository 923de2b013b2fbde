// quire/model.h
#include <cinttypes>

#include "core/c_api/handles.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxCaches = 65536;
constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20;

Status read_layers(const quire_layer* layers, uint64_t stride, uint64_t count, std::vector<quire_layer>* own) {
  QUIRE_RETURN_IF_ERROR(c_api::check_pointer(layers, "layers"));
  QUIRE_RETURN_IF_ERROR(c_api::check_stride(stride, c_api::kFirstBytes<quire_layer>));
  if (count == 0 || count > kMaxCaches) return quire::invalid("count is %" PRIu64 ", the limits are 1 and %" PRIu64, count, kMaxCaches);
  own->resize(count);
  const auto* bytes = reinterpret_cast<const unsigned char*>(layers);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = "layers[" + std::to_string(i) + "]";
    const auto* layer = reinterpret_cast<const quire_layer*>(bytes + i * stride);
    if (layer->struct_size > stride) {
      return quire::invalid("%s.struct_size is %u, the stride is %" PRIu64, name.c_str(), layer->struct_size, stride);
    }
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(layer, &(*own)[i], name.c_str()));
    QUIRE_RETURN_IF_ERROR(c_api::check_text((*own)[i].name, (name + ".name").c_str(), 4096));
  }
  return {};
}

}  // namespace

quire_code quire_model_create(const quire_layer* layers, uint64_t stride, uint64_t count, uint64_t max_model_len, quire_model** out,
                              quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    std::vector<quire_layer> own;
    QUIRE_RETURN_IF_ERROR(read_layers(layers, stride, count, &own));
    auto model = quire::Model::create(own, max_model_len);
    if (!model.ok()) return model.take_status();
    *out = new quire_model(std::make_shared<const quire::Model>(std::move(*model)));
    return {};
  });
}

namespace {

template <typename Read>
quire_code model_from_text(quire_str json, quire_model** out, quire_error* err, Read&& read) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(out, "out"));
    QUIRE_RETURN_IF_ERROR(c_api::check_pointer(json.data, "json.data"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(json, "json", kMaxJsonBytes));
    auto model = read(c_api::text_of(json));
    if (!model.ok()) return model.take_status();
    *out = new quire_model(std::make_shared<const quire::Model>(std::move(*model)));
    return {};
  });
}

}  // namespace

quire_code quire_model_from_json(quire_str json, quire_model** out, quire_error* err) {
  return model_from_text(json, out, err, quire::read_hf_config);
}

quire_code quire_model_from_layers(quire_str json, quire_model** out, quire_error* err) {
  return model_from_text(json, out, err, quire::read_layer_file);
}

quire_code quire_model_describe(quire_model* model, char* text, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(model, "model"));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(text, capacity, count));
    const std::string table = quire::describe(*model->object);
    return c_api::write_two_call(std::span<const char>(table.data(), table.size()), text, capacity, count);
  });
}

quire_model* quire_model_retain(quire_model* model) { return c_api::retain(model); }

void quire_model_release(quire_model* model) { c_api::release(model); }

quire_code quire_model_get_info(quire_model* model, quire_model_info* info, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(model, "model"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(info, "info"));
    const quire::Model& object = *model->object;
    quire_model_info own{};
    own.num_layers = object.num_layers();
    own.num_caches = static_cast<uint32_t>(object.caches().size());
    own.max_model_len = object.max_model_len();
    bool first = true;
    for (const quire::LayerCache& cache : object.caches()) {
      if (cache.desc.num_q_heads == 0) continue;
      own.num_q_heads = first || own.num_q_heads == cache.desc.num_q_heads ? cache.desc.num_q_heads : 0;
      if (!first && own.num_q_heads == 0) break;
      first = false;
    }
    c_api::put_text(own.architecture, object.architecture());
    c_api::write_info(info, own);
    return {};
  });
}

quire_code quire_model_get_layer(quire_model* model, uint32_t index, quire_layer* layer, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(model, "model"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(layer, "layer"));
    const auto caches = model->object->caches();
    if (index >= caches.size()) return quire::fail(QUIRE_OUT_OF_RANGE, "index %u: the model has %zu caches", index, caches.size());
    c_api::write_info(layer, caches[index].desc);
    return {};
  });
}
