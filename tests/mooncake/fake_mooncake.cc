#include "fake_mooncake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "plugins/mooncake/mooncake_library.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kLease = std::chrono::seconds(5);

constexpr int64_t kInternal = -1;
constexpr int64_t kNoMemory = -10;
constexpr int64_t kNoRoom = -200;
constexpr int64_t kInvalid = -600;
constexpr int64_t kNotFound = -704;
constexpr int64_t kLeased = -706;

struct Store {
  std::string directory;
  std::mutex lock;
  std::vector<std::pair<const char*, size_t>> buffers;
  std::map<std::string, std::chrono::steady_clock::time_point> leases;

  bool is_registered(const void* buffer, size_t bytes) {
    const std::lock_guard guard(lock);
    const auto* const first = static_cast<const char*>(buffer);
    return std::any_of(buffers.begin(), buffers.end(),
                       [&](const auto& own) { return first >= own.first && first + bytes <= own.first + own.second; });
  }
  void lease(const std::string& key) {
    const std::lock_guard guard(lock);
    leases[key] = std::chrono::steady_clock::now() + kLease;
  }
  bool is_leased(const std::string& key) {
    const std::lock_guard guard(lock);
    const auto found = leases.find(key);
    return found != leases.end() && found->second > std::chrono::steady_clock::now();
  }
  uint64_t used() const {
    uint64_t bytes = 0;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(directory)) {
      const uint64_t size = entry.file_size(gone);
      bytes += gone ? 0 : size;
    }
    return bytes;
  }
};

bool read_file(const std::string& path, std::string* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  out->assign(std::istreambuf_iterator<char>(file), {});
  return true;
}

// Whole or not at all. False: there is one.
bool write_file(const std::string& path, const std::string& value) {
  static std::atomic<uint64_t> number{0};
  const std::string fresh = path + "." + std::to_string(getpid()) + "." + std::to_string(number++);
  std::ofstream(fresh, std::ios::binary) << value;
  const bool is_first = link(fresh.c_str(), path.c_str()) == 0;
  unlink(fresh.c_str());
  return is_first;
}

int64_t put(Store& store, const std::string& key, const std::string& value) {
  const std::string path = FakeMooncake::path(store.directory, key);
  if (access(path.c_str(), F_OK) == 0) return 0;
  std::string capacity;
  if (read_file(store.directory + "/capacity", &capacity) && store.used() + value.size() > std::stoull(capacity)) return kNoRoom;
  write_file(path, value);
  return 0;
}

// Answers as the script says, or what call(act) does.
template <typename Do>
int64_t answered(Call call, const std::string& key, Do otherwise) {
  try {
    const Act act = FakeMooncake::get().begin(call, key);
    return act.answer && !act.writes_late ? *act.answer : otherwise(act);
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception&) {
    return kInternal;
  }
}

int64_t exists(Store& store, const std::string& key) {
  const bool is_there = access(FakeMooncake::path(store.directory, key).c_str(), F_OK) == 0;
  if (is_there) store.lease(key);
  return is_there ? 1 : 0;
}

}  // namespace

FakeMooncake& FakeMooncake::get() {
  static auto* const fake = new FakeMooncake;  // threads may be in it when the process ends
  return *fake;
}

void FakeMooncake::set_script(Script script) {
  const std::lock_guard guard(lock_);
  script_ = std::move(script);
}

void FakeMooncake::go_on() {
  const std::lock_guard guard(lock_);
  ++turn_;
  for (const Late& late : late_) {
    std::memcpy(late.buffer, late.value.data(), late.value.size());
    num_late_bytes_ += late.value.size();
  }
  late_.clear();
  goes_on_.notify_all();
}

void FakeMooncake::reset() {
  set_script(nullptr);
  go_on();
}

Act FakeMooncake::begin(Call call, const std::string& key) {
  ++calls_[static_cast<size_t>(call)];
  std::unique_lock guard(lock_);
  if (script_ == nullptr) return {};
  Act act = script_(call, key);
  if (!act.waits) return act;
  ++num_waiting_;
  goes_on_.wait(guard, [&, turn = turn_] { return turn_ != turn; });
  --num_waiting_;
  return act;
}

void FakeMooncake::write_later(const void* store, void* buffer, std::string value) {
  const std::lock_guard guard(lock_);
  late_.push_back({store, buffer, std::move(value)});
}

void FakeMooncake::destroyed(const void* store) {
  const std::lock_guard guard(lock_);
  std::erase_if(late_, [&](const Late& late) { return late.store == store; });
  --num_stores_;
}

// FNV-1a, twice: names of keys may be longer than those of files.
std::string FakeMooncake::path(const std::string& directory, const std::string& key) {
  std::string name = "/";
  for (uint64_t hash : {uint64_t{0xcbf29ce484222325}, uint64_t{0x9e3779b97f4a7c15}}) {
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    name += digits;
  }
  return directory + name;
}

}  // namespace quire::test

using quire::test::Act;
using quire::test::answered;
using quire::test::Call;
using quire::test::FakeMooncake;
using quire::test::put;
using quire::test::read_file;
using quire::test::Store;

extern "C" {

FAKE_API void* mooncake_store_create() {
  FakeMooncake::get().created();
  return new Store;
}

FAKE_API void mooncake_store_destroy(void* store) {
  FakeMooncake::get().destroyed(store);
  delete static_cast<Store*>(store);
}

FAKE_API int mooncake_store_setup(void* store, const char* /*host*/, const char* /*metadata*/, uint64_t /*segment*/, uint64_t /*local*/,
                                  const char* /*protocol*/, const char* /*device*/, const char* master) {
  return static_cast<int>(answered(Call::kSetup, "", [&](const Act& /*act*/) -> int64_t {
    static_cast<Store*>(store)->directory = master;
    return std::filesystem::is_directory(master) ? 0 : -900;
  }));
}

FAKE_API int mooncake_store_register_buffer(void* store, void* buffer, size_t bytes) {
  return static_cast<int>(answered(Call::kRegister, "", [&](const Act& /*act*/) -> int64_t {
    auto& own = *static_cast<Store*>(store);
    const std::lock_guard guard(own.lock);
    own.buffers.emplace_back(static_cast<const char*>(buffer), bytes);
    return 0;
  }));
}

FAKE_API int mooncake_store_put_from(void* store, const char* key, void* buffer, size_t bytes,
                                     const quire::mooncake::Replication* /*replication*/) {
  return static_cast<int>(answered(Call::kPut, key, [&](const Act& act) -> int64_t {
    auto& own = *static_cast<Store*>(store);
    if (!own.is_registered(buffer, bytes)) return quire::test::kInvalid;
    std::string value(static_cast<const char*>(buffer), bytes);
    if (act.alters) act.alters(&value);
    return put(own, key, value);
  }));
}

FAKE_API int64_t mooncake_store_get_into(void* store, const char* key, void* buffer, size_t bytes) {
  return answered(Call::kGet, key, [&](const Act& act) -> int64_t {
    auto& own = *static_cast<Store*>(store);
    std::string value;
    if (!own.is_registered(buffer, bytes)) return quire::test::kInvalid;
    if (!read_file(FakeMooncake::path(own.directory, key), &value)) return quire::test::kNotFound;
    own.lease(key);
    if (act.alters) act.alters(&value);
    if (value.size() > bytes) return quire::test::kInvalid;
    const auto size = static_cast<int64_t>(value.size());
    if (act.writes_late) {
      FakeMooncake::get().write_later(store, buffer, std::move(value));
      return act.answer.value_or(size);
    }
    std::memcpy(buffer, value.data(), value.size());
    return size;
  });
}

FAKE_API int mooncake_store_is_exist(void* store, const char* key) {
  return static_cast<int>(answered(Call::kExist, key, [&](const Act& /*act*/) { return exists(*static_cast<Store*>(store), key); }));
}

FAKE_API int mooncake_store_batch_is_exist(void* store, const char** keys, size_t n, int* results) {
  return static_cast<int>(answered(Call::kBatchExist, "", [&](const Act& /*act*/) -> int64_t {
    for (size_t i = 0; i < n; ++i) results[i] = static_cast<int>(exists(*static_cast<Store*>(store), keys[i]));
    return 0;
  }));
}

FAKE_API int64_t mooncake_store_get_size(void* store, const char* key) {
  return answered(Call::kSize, key, [&](const Act& /*act*/) -> int64_t {
    auto& own = *static_cast<Store*>(store);
    struct stat status = {};
    if (stat(FakeMooncake::path(own.directory, key).c_str(), &status) != 0) return quire::test::kNotFound;
    own.lease(key);
    return status.st_size;
  });
}

FAKE_API int mooncake_store_remove(void* store, const char* key, int force) {
  return static_cast<int>(answered(Call::kRemove, key, [&](const Act& /*act*/) -> int64_t {
    auto& own = *static_cast<Store*>(store);
    if (force == 0 && own.is_leased(key)) return quire::test::kLeased;
    return unlink(FakeMooncake::path(own.directory, key).c_str()) == 0 ? 0 : quire::test::kNotFound;
  }));
}
}
