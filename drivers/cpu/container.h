// What a container grants this process: the limits of its control groups (cgroup v2, or v1), which
// /proc/meminfo and the affinity of threads do not show. Every group from the process's own to the
// root counts; the smallest limit holds.
#pragma once

#include <cstdint>

namespace quire::cpu {

struct ContainerLimits {
  uint64_t memory_bytes = UINT64_MAX;  // UINT64_MAX: no limit
  // What may be taken before that limit: file pages that the kernel can drop count as free.
  uint64_t memory_left = UINT64_MAX;
  uint32_t cpus = UINT32_MAX;  // CPU time per time, rounded up; UINT32_MAX: no limit
};

// Files that are absent, unreadable or not understood limit nothing. root: "", or a folder that
// stands for / (tests). Allocates nothing; a few file reads.
ContainerLimits container_limits(const char* root);

}  // namespace quire::cpu
