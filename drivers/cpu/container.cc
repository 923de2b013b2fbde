#include "drivers/cpu/container.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quire::cpu {
namespace {

constexpr size_t kPath = 4096;

struct File {
  explicit File(const char* path) : handle(std::fopen(path, "re")) {}
  ~File() {
    if (handle != nullptr) std::fclose(handle);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::FILE* handle;
};

// One group of one hierarchy: <root>/sys/fs/cgroup<mount><path>/<name>.
struct Group {
  const char* root;
  const char* mount;
  const char* path;
};

std::FILE* opened(const Group& group, const char* name, char* line, int size) {
  const int length = std::snprintf(line, static_cast<size_t>(size), "%s/sys/fs/cgroup%s%s/%s", group.root, group.mount, group.path, name);
  return length > 0 && length < size ? std::fopen(line, "re") : nullptr;
}

// The first line of a file of the group; false: there is none.
bool first_line(const Group& group, const char* name, char* line, int size) {
  std::FILE* file = opened(group, name, line, size);
  if (file == nullptr) return false;
  const bool read = std::fgets(line, size, file) != nullptr;
  std::fclose(file);
  return read;
}

// A number of bytes; "max" and numbers that no machine has are no limit.
uint64_t bytes_of(const Group& group, const char* name, uint64_t otherwise) {
  char line[kPath];
  if (!first_line(group, name, line, sizeof line) || line[0] < '0' || line[0] > '9') return otherwise;
  const uint64_t value = std::strtoull(line, nullptr, 10);
  return value < uint64_t{1} << 62 ? value : otherwise;
}

// A row "name number" of memory.stat; 0: there is none.
uint64_t stat_of(const Group& group, const char* name) {
  char line[kPath];
  std::FILE* file = opened(group, "memory.stat", line, sizeof line);
  if (file == nullptr) return 0;
  uint64_t value = 0;
  const size_t length = std::strlen(name);
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, name, length) != 0 || line[length] != ' ') continue;
    value = std::strtoull(line + length, nullptr, 10);
    break;
  }
  std::fclose(file);
  return value;
}

void limit_memory(const Group& group, bool v2, ContainerLimits* limits) {
  const uint64_t most = bytes_of(group, v2 ? "memory.max" : "memory.limit_in_bytes", UINT64_MAX);
  if (most == UINT64_MAX) return;
  const uint64_t used = bytes_of(group, v2 ? "memory.current" : "memory.usage_in_bytes", 0);
  const uint64_t kept = used - std::min(used, stat_of(group, v2 ? "inactive_file" : "total_inactive_file"));
  limits->memory_bytes = std::min(limits->memory_bytes, most);
  limits->memory_left = std::min(limits->memory_left, most - std::min(most, kept));
}

// quota: CPU time in every `period`, both in microseconds.
void limit_cpus(uint64_t quota, uint64_t period, ContainerLimits* limits) {
  if (quota == 0 || period == 0 || quota > uint64_t{1} << 40) return;
  const uint64_t cpus = (quota - 1) / period + 1;
  limits->cpus = static_cast<uint32_t>(std::min<uint64_t>(limits->cpus, cpus));
}

void limit_cpus(const Group& group, bool v2, ContainerLimits* limits) {
  char line[kPath];
  if (v2) {
    if (!first_line(group, "cpu.max", line, sizeof line) || line[0] < '0' || line[0] > '9') return;
    char* rest = nullptr;
    const uint64_t quota = std::strtoull(line, &rest, 10);
    return limit_cpus(quota, std::strtoull(rest, nullptr, 10), limits);
  }
  limit_cpus(bytes_of(group, "cpu.cfs_quota_us", 0), bytes_of(group, "cpu.cfs_period_us", 0), limits);
}

bool has(const char* list, const char* controller) {
  const size_t length = std::strlen(controller);
  for (const char* at = list; at != nullptr; at = std::strchr(at, ',')) {
    if (*at == ',') ++at;
    if (std::strncmp(at, controller, length) == 0 && (at[length] == '\0' || at[length] == ',')) return true;
  }
  return false;
}

// The group and all above it; path is used up. A container often sees its own group as the root, under a path that only the host knows.
void limit_all(const char* root, const char* mount, char* path, bool v2, bool memory, bool cpu, ContainerLimits* limits) {
  for (;;) {
    const Group group{root, mount, path};
    if (memory) limit_memory(group, v2, limits);
    if (cpu) limit_cpus(group, v2, limits);
    char* slash = std::strrchr(path, '/');
    if (slash == nullptr) return;
    *slash = '\0';
  }
}

// A line of /proc/self/cgroup: "number:controllers:path"; v2 has no controllers.
void read_line(const char* root, char* line, ContainerLimits* limits) {
  line[std::strcspn(line, "\n")] = '\0';
  char* controllers = std::strchr(line, ':');
  char* path = controllers == nullptr ? nullptr : std::strchr(controllers + 1, ':');
  if (path == nullptr) return;
  *controllers++ = '\0';
  *path++ = '\0';
  if (std::strcmp(path, "/") == 0) *path = '\0';
  if (std::strstr(path, "/..") != nullptr) *path = '\0';  // above what this process sees
  if (*controllers == '\0') return limit_all(root, "", path, true, true, true, limits);
  if (has(controllers, "memory")) limit_all(root, "/memory", path, false, true, false, limits);
  if (has(controllers, "cpu")) limit_all(root, "/cpu", path, false, false, true, limits);
}

}  // namespace

ContainerLimits container_limits(const char* root) {
  ContainerLimits limits;
  char line[kPath];
  const int length = std::snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  if (length <= 0 || static_cast<size_t>(length) >= sizeof line) return limits;
  const File file(line);
  if (file.handle == nullptr) return limits;
  while (std::fgets(line, sizeof line, file.handle) != nullptr) read_line(root, line, &limits);
  return limits;
}

}  // namespace quire::cpu
