#include "plugins/mooncake/mooncake_session.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "plugins/mooncake/answers.h"
#include "plugins/mooncake/value.h"

namespace quire::mooncake {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

Outcome Session::open(const Library& library, const Config& config, std::shared_ptr<Session>* out) {
  const std::shared_ptr<Session> session(new Session(library));
  if (Outcome outcome = session->map(config); !outcome.ok()) return outcome;
  if (Outcome outcome = session->set_up(config); !outcome.ok()) return outcome;
  *out = session;
  return {};
}

Outcome Session::map(const Config& config) {
  buffer_bytes_ = (config.object_bytes + kSealBytes + kPage - 1) / kPage * kPage;
  num_buffers_ = config.buffers;
  num_threads_ = config.threads;
  free_.reserve(num_buffers_);
  const uint64_t bytes = buffer_bytes_ * num_buffers_;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return {QUIRE_RESOURCE_EXHAUSTED, errno,
            "no memory for " + std::to_string(num_buffers_) + " staging buffers of " + std::to_string(buffer_bytes_) +
                " bytes; see config fields buffers and object_bytes"};
  }
  madvise(memory, bytes, MADV_DONTFORK);  // a child has nothing of it
  memory_ = {static_cast<uint8_t*>(memory), bytes};
  for (uint64_t i = num_buffers_; i-- > 0;) free_.push_back(memory_.data() + i * buffer_bytes_);
  return {};
}

Outcome Session::set_up(const Config& config) {
  store_ = library_.create();
  if (store_ == nullptr) return {QUIRE_RESOURCE_EXHAUSTED, 0, "mooncake_store_create made no client"};
  const int answer = library_.setup(store_, config.host.c_str(), config.metadata.c_str(), config.segment_bytes, 0, config.protocol.c_str(),
                                    config.device.c_str(), config.master.c_str());
  if (answer != 0) {
    // A positive number is none that the library has.
    const quire_code code = answer > 0 ? QUIRE_INTERNAL : code_of(answer);
    return {code, 0,
            "mooncake_store_setup with master " + config.master + ", metadata " + config.metadata + ", host " + config.host + ": " +
                name_of(answer)};
  }
  const int registered = library_.register_buffer(store_, memory_.data(), memory_.size());
  if (registered == 0) return {};
  return {registered > 0 ? QUIRE_INTERNAL : code_of(registered), 0,
          "mooncake_store_register_buffer of " + std::to_string(memory_.size()) + " bytes: " + name_of(registered)};
}

Session::~Session() {
  if (store_ != nullptr) library_.destroy(store_);
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

uint8_t* Session::take() {
  const std::lock_guard guard(lock_);
  if (free_.empty()) return nullptr;
  uint8_t* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void Session::give_back(uint8_t* buffer, bool settled) {
  const std::lock_guard guard(lock_);
  if (settled) return free_.push_back(buffer);
  ++num_quarantined_;
}

bool Session::is_worn_out() {
  const std::lock_guard guard(lock_);
  return num_buffers_ - num_quarantined_ < num_threads_;
}

}  // namespace quire::mooncake
