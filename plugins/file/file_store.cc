#include "plugins/file/file_store.h"

#include <cerrno>
#include <new>
#include <utility>

namespace quire::file {
namespace {

bool lacks_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

}  // namespace

void Closing::close(Kernel* kernel, File file) {
  try {
    auto request = std::make_unique<Request>();
    request->owner = this;
    request->act = Act::kClose;
    request->file = file.number();
    requests_.push_back(std::move(request));
  } catch (const std::bad_alloc&) {
    return;  // closed here
  }
  file.release();
  kernel->start(requests_.back().get());
}

void Closing::ended(Request* request, int32_t /*result*/) {
  std::erase_if(requests_, [&](const auto& each) { return each.get() == request; });
}

quire_code Store::fail_store(int error, const std::string& what) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      log.say_once(Topic::kNoSpace, QUIRE_LOG_WARN, what + ": " + error_text(error) + "; a twentieth of the objects is evicted");
      condition.no_space(now());
      room.shrink();
      return QUIRE_RESOURCE_EXHAUSTED;
    case EROFS:
    case EACCES:
    case EPERM:
      log.say_once(Topic::kReadOnly, QUIRE_LOG_WARN, what + ": " + error_text(error) + "; nothing is stored for a minute");
      condition.refused(now());
      return QUIRE_PERMISSION_DENIED;
    case ENOENT:
    case ESTALE:
      catalog.check_there();
      return QUIRE_UNAVAILABLE;
    default:
      return fail_load(error, what);
  }
}

quire_code Store::fail_load(int error, const std::string& what) {
  if (lacks_resources(error)) return QUIRE_RESOURCE_EXHAUSTED;
  ++num_io_errors;
  log.say(QUIRE_LOG_ERROR, what + ": " + error_text(error) + " (failure " + std::to_string(num_io_errors) + " of this store)");
  return error == EACCES || error == EPERM ? QUIRE_PERMISSION_DENIED : QUIRE_UNAVAILABLE;
}

}  // namespace quire::file
