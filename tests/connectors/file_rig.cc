#include "file_rig.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace quire::file {
namespace {

FakeHost* host_of(void* user) { return static_cast<FakeHost*>(user); }

}  // namespace

FakeHost::FakeHost() {
  api_.struct_size = sizeof api_;
  api_.user = this;
  api_.log = [](void* user, quire_log_level, quire_str, quire_str message) {
    FakeHost* const self = host_of(user);
    const std::lock_guard lock(self->mutex_);
    self->lines_.emplace_back(message.data, message.len);
  };
  api_.alloc = [](void* user, uint64_t bytes, uint64_t alignment) -> void* {
    FakeHost* const self = host_of(user);
    if (self->buffers >= self->most_buffers) return nullptr;
    ++self->buffers;
    return std::aligned_alloc(alignment, bytes);
  };
  api_.release_memory = [](void* user, void* address, uint64_t, uint64_t) {
    --host_of(user)->buffers;
    std::free(address);
  };
  api_.now = [](void* user) { return host_of(user)->now(); };
}

int64_t FakeHost::now() const { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count() + ahead_; }

size_t FakeHost::said(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) { return line.find(text) != std::string::npos; }));
}

class ScriptedKernel : public Kernel {
 public:
  ScriptedKernel(Script* script, std::unique_ptr<Kernel> kernel) : script_(*script), kernel_(std::move(kernel)) {
    const std::lock_guard lock(script_.mutex_);
    script_.kernel_ = kernel_.get();
  }
  ~ScriptedKernel() override {
    const std::lock_guard lock(script_.mutex_);
    script_.kernel_ = nullptr;
  }

  void start(Request* request) override {
    const std::lock_guard lock(script_.mutex_);
    script_.acts_.push_back(request->act);
    if (const auto result = script_.fault_(*request); result) return ended_.push_back({request, *result});
    if (script_.shorten_(*request)) return ended_.push_back({request, part_of(*request)});
    if (!script_.hold_(*request)) return kernel_->start(request);
    held_.push_back(request);
    script_.num_held_ = held_.size();
  }

  void cancel(Request* request) override {
    if (std::find(held_.begin(), held_.end(), request) == held_.end()) kernel_->cancel(request);
  }

  size_t wait(int64_t timeout_ns, std::span<Ended> ends) override {
    if (script_.is_released_.exchange(false)) {
      for (Request* request : held_) kernel_->start(request);
      held_.clear();
      script_.num_held_ = 0;
    }
    const size_t own = std::min(ended_.size(), ends.size() / 2);
    std::copy_n(ended_.begin(), own, ends.begin());
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<ptrdiff_t>(own));
    return own + kernel_->wait(own != 0 ? 0 : timeout_ns, ends.subspan(own));
  }

  void wake() override { kernel_->wake(); }
  void leave() override { kernel_->leave(); }

 private:
  static int32_t part_of(const Request& request) {
    const iovec& first = request.memory[0];
    const size_t bytes = first.iov_len >= 8192 ? first.iov_len / 2 & ~size_t{4095} : first.iov_len;
    const auto at = static_cast<off_t>(request.offset);
    const ssize_t moved =
        request.act == Act::kRead ? pread(request.file, first.iov_base, bytes, at) : pwrite(request.file, first.iov_base, bytes, at);
    return moved < 0 ? -errno : static_cast<int32_t>(moved);
  }

  Script& script_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<Ended> ended_;
  std::vector<Request*> held_;
};

KernelMaker scripted(Script* script) {
  return [script](uint32_t depth, std::string* why) -> std::unique_ptr<Kernel> {
    auto kernel = make_ring_kernel(depth, why);
    if (kernel == nullptr || script == nullptr) return kernel;
    return std::make_unique<ScriptedKernel>(script, std::move(kernel));
  };
}

Fault failing(Act act, int error, int times) {
  return [=, left = times](const Request& request) mutable {
    return request.act == act && left-- > 0 ? std::optional<int32_t>(-error) : std::nullopt;
  };
}

Choice all(Act act) {
  return [=](const Request& request) { return request.act == act; };
}

void Script::fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void Script::hold(Choice hold) {
  const std::lock_guard lock(mutex_);
  hold_ = std::move(hold);
}

void Script::shorten(Choice shorten) {
  const std::lock_guard lock(mutex_);
  shorten_ = std::move(shorten);
}

void Script::release() {
  const std::lock_guard lock(mutex_);
  is_released_ = true;
  if (kernel_ != nullptr) kernel_->wake();
}

bool Script::wait_held(size_t count) const {
  for (int i = 0; i < 10'000 && num_held_ < count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return num_held_ >= count;
}

std::vector<Act> Script::acts() const {
  const std::lock_guard lock(mutex_);
  return acts_;
}

size_t Script::count(Act act) const {
  const std::vector<Act> all = acts();
  return static_cast<size_t>(std::count(all.begin(), all.end(), act));
}

Folder::Folder(bool in_memory) {
  const std::string top =
      in_memory && std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  path_ = top + "/quire-file-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_ << ": " << std::strerror(errno);
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

Config config(const std::string& directory, uint64_t quota) {
  Config out;
  out.directory = directory;
  out.quota = quota;
  out.depth = 32;
  return out;
}

Buffer::Buffer(uint64_t bytes, uint64_t misalignment)
    : memory(static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + misalignment + 4095) / 4096 * 4096)), std::free),
      data(memory.get() + misalignment),
      size(bytes) {
  std::memset(data, 0xee, size);
}

quire_ticket_run Buffer::run(uint64_t object_offset) const {
  quire_ticket_run run = {};
  run.address = reinterpret_cast<uintptr_t>(data);
  run.bytes = size;
  run.count = 1;
  run.object_offset = object_offset;
  return run;
}

void Buffer::fill(const Bytes& object) const { std::memcpy(data, object.data(), object.size()); }
Bytes Buffer::bytes() const { return {data, data + size}; }

StoreRig::StoreRig(const Config& config, Script* script, FakeHost* host) : host_(host != nullptr ? host : &own_host_) {
  EXPECT_TRUE(mailbox_.open().ok());
  worker_ = std::make_unique<Worker>(config, host_->api(), &mailbox_, scripted(script));
  outcome_ = worker_->open();
}

std::unique_ptr<Ticket> StoreRig::ticket(quire_ticket_kind kind, const Keys& keys, const kit::Runs& runs) {
  auto ticket = std::make_unique<Ticket>();
  quire_ticket& t = ticket->fields;
  t.ticket = next_ticket_++;
  t.kind = kind;
  t.num_runs = static_cast<uint32_t>(runs.size());
  t.num_keys = static_cast<uint32_t>(keys.size());
  t.key_bytes = keys[0].size();
  t.deadline_ns = -1;
  ticket->runs = runs;
  for (const quire_ticket_run& run : runs) t.object_bytes += kind == QUIRE_TICKET_STORE ? run.bytes * run.count : 0;
  for (const Key& key : keys) ticket->keys += key;
  return ticket;
}

void StoreRig::submit_all(std::vector<std::unique_ptr<Ticket>> tickets) {
  uint64_t accepted = 0;
  EXPECT_TRUE(mailbox_.send(tickets, &accepted));
  EXPECT_EQ(accepted, tickets.size());
  worker_->wake();
}

uint64_t StoreRig::submit(std::unique_ptr<Ticket> ticket) {
  const uint64_t number = ticket->fields.ticket;
  std::vector<std::unique_ptr<Ticket>> one;
  one.push_back(std::move(ticket));
  submit_all(std::move(one));
  return number;
}

void StoreRig::cancel(uint64_t ticket) {
  EXPECT_TRUE(mailbox_.cancel(ticket));
  worker_->wake();
}

std::optional<quire_completion> StoreRig::end_of(uint64_t ticket, int64_t timeout_ns) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  while (ended_.count(ticket) == 0) {
    const int64_t left = std::chrono::nanoseconds(limit - std::chrono::steady_clock::now()).count();
    if (left <= 0) return std::nullopt;
    std::array<quire_completion, 64> ends;
    const uint64_t count = mailbox_.receive(left, ends);
    for (uint64_t i = 0; i < count; ++i) EXPECT_TRUE(ended_.emplace(ends[i].ticket, ends[i]).second) << "ended twice";
  }
  const quire_completion end = ended_[ticket];
  return end;
}

uint64_t StoreRig::begin_store(const Key& key, const Buffer& from, int64_t deadline_ns) {
  auto own = ticket(QUIRE_TICKET_STORE, {key}, {from.run()});
  own->fields.deadline_ns = deadline_ns;
  return submit(std::move(own));
}

uint64_t StoreRig::begin_load(const Key& key, const Buffer& to, int64_t deadline_ns, int32_t priority) {
  auto own = ticket(QUIRE_TICKET_LOAD, {key}, {to.run()});
  own->fields.deadline_ns = deadline_ns;
  own->fields.priority = priority;
  return submit(std::move(own));
}

quire_completion StoreRig::store(const Key& key, const Bytes& object, uint64_t misalignment) {
  const Buffer buffer(object.size(), misalignment);
  buffer.fill(object);
  const auto end = end_of(begin_store(key, buffer));
  EXPECT_TRUE(end.has_value()) << "the store did not end";
  return end.value_or(quire_completion{});
}

quire_completion StoreRig::load(const Key& key, uint64_t bytes, Bytes* out, uint64_t shift) {
  const Buffer buffer(bytes, shift);
  const auto end = end_of(begin_load(key, buffer));
  EXPECT_TRUE(end.has_value()) << "the load did not end";
  if (out != nullptr) *out = buffer.bytes();
  return end.value_or(quire_completion{});
}

quire_completion StoreRig::remove(const Key& key) {
  return end_of(submit(ticket(QUIRE_TICKET_REMOVE, {key}))).value_or(quire_completion{});
}

std::vector<uint64_t> StoreRig::sizes(const Keys& keys, int64_t lease_ns, uint32_t* flags) {
  std::vector<uint64_t> sizes(keys.size(), UINT64_MAX);
  auto own = ticket(QUIRE_TICKET_LOOKUP, keys);
  own->fields.sizes = sizes.data();
  own->fields.lease_ns = lease_ns;
  const auto end = end_of(submit(std::move(own)));
  EXPECT_TRUE(end && end->code == QUIRE_OK);
  if (flags != nullptr && end) *flags = end->flags;
  return sizes;
}

bool StoreRig::holds(const Key& key, const Bytes& object) {
  Bytes out;
  return load(key, object.size(), &out).code == QUIRE_OK && out == object;
}

// What the worker shows is of before it took the look-up, or later; a second one comes behind that.
void StoreRig::round_trip() {
  for (int i = 0; i < 2; ++i) {
    uint64_t size = 0;
    auto own = ticket(QUIRE_TICKET_LOOKUP, {Key(1, 'x')});
    own->fields.sizes = &size;
    end_of(submit(std::move(own)));
  }
}

const Shown& StoreRig::shown() {
  round_trip();
  return worker_->shown();
}

quire_connector_state StoreRig::state() { return shown().state; }

Listing StoreRig::list(uint64_t cursor, std::vector<quire_object_entry>* items, std::vector<uint8_t>* keys) {
  Listing listing;
  listing.cursor = cursor;
  listing.items = *items;
  listing.keys = *keys;
  mailbox_.send_listing(&listing);
  worker_->wake();
  mailbox_.await_listing(&listing);
  return listing;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    const bool is_own = each.is_directory() && each.path().filename().string().size() == 2;
    if (!is_own && each.path().filename() != "lock") files.push_back(each.path().lexically_relative(folder).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

size_t num_open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

pid_t in_child(const std::function<void()>& what) {
  const pid_t child = fork();
  if (child != 0) return child;
  what();
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

bool ended_well(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace quire::file
