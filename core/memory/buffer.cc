// Strided tensors: the shape is checked here, for every driver alike.
#include "core/memory/buffer.h"

#include <algorithm>
#include <cinttypes>

#include "core/base/checked.h"
#include "core/layout/dlpack_tensor.h"
#include "core/memory/allocate.h"

namespace quire {
namespace {

Result<uint64_t> item_bytes(const quire_dtype& dtype) {
  const uint64_t bits = uint64_t{dtype.bits} * (dtype.lanes == 0 ? 1 : dtype.lanes);
  if (bits == 0 || bits % 8 != 0) return invalid("tensor.dtype: %u bits x %u lanes is no whole number of bytes", dtype.bits, dtype.lanes);
  return bits / 8;
}

// Row-major strides; the products fit, the total was checked.
void make_dense(quire_tensor* tensor, uint64_t item) {
  auto stride = static_cast<int64_t>(item);
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    tensor->stride[i] = stride;
    stride *= std::max<int64_t>(tensor->shape[i], 1);
  }
}

// Bytes from the first element's first byte to the last one's last. Elements must not share bytes: with the dimensions ordered by stride,
// each stride covers everything that the smaller ones span.
Result<uint64_t> span_bytes(const quire_tensor& tensor, uint64_t item) {
  int32_t order[5] = {};
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    int32_t k = i;
    for (; k > 0 && tensor.stride[order[k - 1]] > tensor.stride[i]; --k) order[k] = order[k - 1];
    order[k] = i;
  }
  uint64_t span = item;
  for (int32_t k = 0; k < tensor.ndim; ++k) {
    const int32_t i = order[k];
    if (tensor.shape[i] <= 1) continue;
    const auto stride = static_cast<uint64_t>(tensor.stride[i]);
    if (stride < span) {
      return invalid("tensor.stride[%d] is %" PRId64 " bytes, elements overlap below %" PRIu64, i, tensor.stride[i], span);
    }
    const auto reach = checked_mul(stride, static_cast<uint64_t>(tensor.shape[i] - 1));
    const auto next = reach ? checked_add(*reach, span) : reach;
    if (!next)
      return fail(QUIRE_OUT_OF_RANGE, "tensor.shape[%d] %" PRId64 " x stride %" PRId64 " is beyond 63 bits", i, tensor.shape[i],
                  tensor.stride[i]);
    span = *next;
  }
  return span;
}

// Checks the wish and completes strides; returns the bytes it needs.
Result<uint64_t> lay_out(quire_tensor* tensor) {
  auto item = item_bytes(tensor->dtype);
  if (!item.ok()) return item;
  bool any_stride = false;
  bool empty = false;
  uint64_t total = *item;
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    if (tensor->shape[i] < 0) return invalid("tensor.shape[%d] is %" PRId64 ", the limit is 0", i, tensor->shape[i]);
    if (tensor->stride[i] < 0) return invalid("tensor.stride[%d] is %" PRId64 ", the limit is 0", i, tensor->stride[i]);
    any_stride |= tensor->stride[i] != 0;
    empty |= tensor->shape[i] == 0;
    const auto next = checked_mul(total, static_cast<uint64_t>(std::max<int64_t>(tensor->shape[i], 1)));
    if (!next)
      return fail(QUIRE_OUT_OF_RANGE, "tensor.shape: the product up to dimension %d (%" PRId64 ") is beyond 63 bits", i, tensor->shape[i]);
    total = *next;
  }
  if (!any_stride) make_dense(tensor, *item);
  if (empty) return uint64_t{0};
  return span_bytes(*tensor, *item);
}

}  // namespace

Result<std::shared_ptr<Buffer>> Buffer::create(std::shared_ptr<Device> device, quire_tensor* tensor) {
  quire_tensor own = *tensor;
  auto bytes = lay_out(&own);
  if (!bytes.ok()) return bytes.take_status();
  own.data = nullptr;
  own.device_type = device->info().device_type;
  own.device_id = device->info().device_id;
  std::shared_ptr<Buffer> buffer(new Buffer(std::move(device)));
  const Device& on = *buffer->device_;
  quire_error error{};
  error.struct_size = sizeof error;
  // A driver may place tensors its own way; without that entry they are plain bytes.
  const quire_code code = on.api().tensor_create(on.get(), &own, QUIRE_MEM_DEVICE, &buffer->allocation_, &buffer->bytes_, &error);
  if (code != QUIRE_OK) buffer->allocation_ = nullptr;  // whatever a driver wrote there is not ours
  if (code == QUIRE_UNIMPLEMENTED) {
    QUIRE_RETURN_IF_ERROR(allocate_on(on, *bytes, 1, QUIRE_MEM_DEVICE, &buffer->allocation_, &buffer->bytes_));
    own.data = buffer->allocation_;
  } else if (code != QUIRE_OK) {
    return on.driver().status(code, error);
  }
  *tensor = own;
  return buffer;
}

Result<std::shared_ptr<Buffer>> Buffer::import(std::shared_ptr<Device> device, const quire_dlpack& dlpack, uint32_t flags,
                                               quire_tensor* tensor) {
  auto source = inspect_strided_dlpack(dlpack, flags, "dlpack");
  if (!source.ok()) return source.take_status();
  if (source->ndim > kMaxTensorDims)
    return fail(QUIRE_OUT_OF_RANGE, "dlpack: ndim is %d, a quire_tensor has at most %d", source->ndim, kMaxTensorDims);
  const quire_device_info& info = device->info();
  if (source->device_type != info.device_type || source->device_id != info.device_id) {
    return invalid("dlpack: device (%d, %d), wanted is (%d, %d)", source->device_type, source->device_id, info.device_type, info.device_id);
  }
  std::shared_ptr<Buffer> buffer(new Buffer(std::move(device)));
  buffer->dlpack_ = dlpack;
  *tensor = source->tensor();
  return buffer;
}

Buffer::~Buffer() {
  if (allocation_ != nullptr) device_->api().mem_free(device_->get(), allocation_, bytes_, QUIRE_MEM_DEVICE);
  if (dlpack_.versioned != nullptr || dlpack_.legacy != nullptr) release_dlpack(dlpack_);
}

}  // namespace quire
