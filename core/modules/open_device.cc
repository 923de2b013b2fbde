#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/modules/module_search.h"

namespace quire {
namespace {

quire_error empty_error() {
  quire_error error{};
  error.struct_size = sizeof error;
  return error;
}

bool is_known_code(quire_code code) {
  return (code >= QUIRE_OK && code <= QUIRE_DATA_LOSS) || (code >= QUIRE_INCOMPATIBLE_ABI && code <= QUIRE_NOT_REPRESENTABLE);
}

}  // namespace

Status module_status(quire_code code, const quire_error& error, ModuleKind kind, const std::string& name) {
  if (code == QUIRE_OK) return {};
  quire_error answer = error;
  answer.message[sizeof answer.message - 1] = '\0';
  const char* message = answer.message[0] == '\0' ? "no message" : answer.message;
  const char* kind_name = module_kind_name(kind);
  if (!is_known_code(code)) return fail(QUIRE_UNKNOWN, "%s %s answered with unknown code %d: %s", kind_name, name.c_str(), code, message);
  return fail(code, "%s %s: %s", kind_name, name.c_str(), message).with_native(error.native_domain, error.native_code);
}

quire_code known_code(quire_code code) { return is_known_code(code) ? code : QUIRE_UNKNOWN; }

quire_code fail_module_call(quire_code code, quire_error* error, const char* source) {
  const quire_code answer = known_code(code);
  if (error == nullptr || error->struct_size < sizeof(quire_error)) return answer;
  error->code = answer;
  std::snprintf(error->source, sizeof error->source, "%s", source);
  error->message[sizeof error->message - 1] = '\0';
  if (answer != code) std::snprintf(error->message, sizeof error->message, "unknown code %d", code);
  if (error->message[0] == '\0') std::snprintf(error->message, sizeof error->message, "the module gave code %d and no message", code);
  return answer;
}

Driver::Driver(std::shared_ptr<Runtime> runtime, Module module, quire_driver_instance* instance)
    : runtime_(std::move(runtime)), module_(std::move(module)), source_("driver:" + module_.name), instance_(instance) {}

Driver::~Driver() { module_.driver.destroy(instance_); }

Result<std::shared_ptr<Device>> Device::open(std::shared_ptr<Driver> driver, uint32_t ordinal) {
  quire_error error = empty_error();
  uint32_t count = 0;
  quire_code code = driver->api().device_count(driver->instance(), &count, &error);
  if (code != QUIRE_OK) return driver->status(code, error);
  if (ordinal >= count) return fail(QUIRE_OUT_OF_RANGE, "ordinal %u: driver %s has %u device(s)", ordinal, driver->name().c_str(), count);
  std::shared_ptr<Device> device(new Device(std::move(driver)));
  code = device->api().device_open(device->driver_->instance(), ordinal, &device->device_, &error);
  if (code != QUIRE_OK) {
    device->device_ = nullptr;
    return device->driver_->status(code, error);
  }
  if (device->device_ == nullptr) {
    return fail(QUIRE_UNKNOWN, "driver %s: device_open answered OK and NULL", device->driver_->name().c_str());
  }
  QUIRE_RETURN_IF_ERROR(device->read_info(&device->info_));
  return device;
}

Device::~Device() {
  if (device_ != nullptr) driver_->api().device_close(device_);
}

Status Device::read_info(quire_device_info* info) const {
  quire_error error = empty_error();
  quire_device_info answer{};
  answer.struct_size = sizeof answer;
  const quire_code code = driver_->api().device_info(device_, &answer, &error);
  if (code != QUIRE_OK) return driver_->status(code, error);
  answer.struct_size = sizeof answer;
  answer.driver[sizeof answer.driver - 1] = '\0';
  answer.name[sizeof answer.name - 1] = '\0';
  if (answer.alignment == 0 || (answer.alignment & (answer.alignment - 1)) != 0) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "driver %s: device_info.alignment %llu is not a power of two", driver_->name().c_str(),
                static_cast<unsigned long long>(answer.alignment));
  }
  *info = answer;
  return {};
}

Result<std::shared_ptr<Stream>> Stream::create(std::shared_ptr<Device> device, uint64_t native) {
  quire_error error = empty_error();
  std::shared_ptr<Stream> stream(new Stream(std::move(device)));
  const quire_code code = stream->api().stream_create(stream->device_->get(), native, &stream->stream_, &error);
  if (code != QUIRE_OK) {
    stream->stream_ = nullptr;
    return stream->device_->driver().status(code, error);
  }
  if (stream->stream_ == nullptr) {
    return fail(QUIRE_UNKNOWN, "driver %s: stream_create answered OK and NULL", stream->device_->driver().name().c_str());
  }
  return stream;
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  quire_error error = empty_error();
  if (api().stream_synchronize(stream_, -1, &error) != QUIRE_OK) {
    const std::string line = std::string("work queued on a released stream failed: ") + error.message;
    device_->driver().runtime()->log().write(QUIRE_LOG_ERROR, source(), line);
  }
  api().stream_destroy(stream_);
}

Status Stream::synchronize(int64_t timeout_ns) const {
  quire_error error = empty_error();
  return device_->driver().status(api().stream_synchronize(stream_, timeout_ns, &error), error);
}

Status Stream::copy(const quire_copy_run* runs, uint64_t n) const {
  quire_error error = empty_error();
  return device_->driver().status(api().copy(stream_, runs, n, &error), error);
}

Status Stream::fill(void* destination, uint8_t value, uint64_t bytes) const {
  quire_error error = empty_error();
  return device_->driver().status(api().fill(stream_, destination, value, bytes, &error), error);
}

}  // namespace quire
