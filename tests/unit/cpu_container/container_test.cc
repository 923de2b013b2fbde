// Limits of control groups, read from folders that stand for the files of a system.
#include "drivers/cpu/container.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace quire::cpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Container : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "quire_container_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void put_group(const std::string& lines) { put("/proc/self/cgroup", lines); }
  ContainerLimits read() const { return container_limits(root_.c_str()); }

  std::string root_;
};

TEST_F(Container, NothingLimitsWhereNothingIsFound) {
  for (int i = 0; i < 2; ++i) {
    const ContainerLimits limits = read();
    EXPECT_EQ(limits.memory_bytes, UINT64_MAX);
    EXPECT_EQ(limits.memory_left, UINT64_MAX);
    EXPECT_EQ(limits.cpus, UINT32_MAX);
    put_group("0::/a/b");  // of which there are no files
  }
}

TEST_F(Container, TheSmallestLimitOnTheWayUpHolds) {
  put_group("0::/pods/pod7/main");
  put("/sys/fs/cgroup/pods/pod7/main/memory.max", "max");
  put("/sys/fs/cgroup/pods/pod7/main/cpu.max", "max 100000");
  put("/sys/fs/cgroup/pods/pod7/memory.max", std::to_string(512 * kMiB));
  put("/sys/fs/cgroup/pods/pod7/memory.current", std::to_string(200 * kMiB));
  put("/sys/fs/cgroup/pods/pod7/memory.stat", "anon 7\ninactive_file_x 9\ninactive_file " + std::to_string(50 * kMiB));
  put("/sys/fs/cgroup/pods/pod7/cpu.max", "250000 100000");
  put("/sys/fs/cgroup/pods/memory.max", std::to_string(4096 * kMiB));
  put("/sys/fs/cgroup/pods/memory.current", std::to_string(4000 * kMiB));
  put("/sys/fs/cgroup/pods/cpu.max", "800000 100000");
  const ContainerLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, 512 * kMiB);
  EXPECT_EQ(limits.memory_left, 96 * kMiB) << "the group above has less left";
  EXPECT_EQ(limits.cpus, 3u) << "2.5, rounded up";
}

TEST_F(Container, InANamespaceItsOwnGroupIsTheRoot) {
  for (const char* group : {"0::/", "0::/../..", "0::/docker/8a3f"}) {
    put_group(group);
    put("/sys/fs/cgroup/memory.max", std::to_string(64 * kMiB));
    put("/sys/fs/cgroup/memory.current", std::to_string(80 * kMiB));
    put("/sys/fs/cgroup/cpu.max", "50000 100000");
    const ContainerLimits limits = read();
    EXPECT_EQ(limits.memory_bytes, 64 * kMiB) << group;
    EXPECT_EQ(limits.memory_left, 0u) << group;
    EXPECT_EQ(limits.cpus, 1u) << group << ": half a CPU is one thread";
  }
}

TEST_F(Container, TheFirstVersionHasAFolderForEachController) {
  put_group("9:name=systemd:/\n5:cpuacct,cpu:/box\n4:memory:/box/inner\n3:cpuset:/box\n0::/");
  put("/sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "9223372036854771712");  // no limit
  put("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(100 * kMiB));
  put("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", std::to_string(60 * kMiB));
  put("/sys/fs/cgroup/memory/box/memory.stat", "inactive_file 0\ntotal_inactive_file " + std::to_string(10 * kMiB));
  put("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "400000");
  put("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  const ContainerLimits limits = read();
  EXPECT_EQ(limits.memory_bytes, 100 * kMiB);
  EXPECT_EQ(limits.memory_left, 50 * kMiB);
  EXPECT_EQ(limits.cpus, 4u);
}

TEST_F(Container, WhatIsNotUnderstoodLimitsNothing) {
  put_group("0::/a\nno colons\n1:\n2:memory\n" + std::string(9000, 'x') + ":memory:/");
  for (const char* text : {"", "max", "-5", "many", " 12"}) {
    put("/sys/fs/cgroup/a/memory.max", text);
    put("/sys/fs/cgroup/a/cpu.max", text);
    const ContainerLimits limits = read();
    EXPECT_EQ(limits.memory_bytes, UINT64_MAX) << "'" << text << "'";
    EXPECT_EQ(limits.cpus, UINT32_MAX) << "'" << text << "'";
  }
  put("/sys/fs/cgroup/a/cpu.max", "100000 0");
  EXPECT_EQ(read().cpus, UINT32_MAX) << "a period of nothing";
  put("/sys/fs/cgroup/a/cpu.max", "100000");
  EXPECT_EQ(read().cpus, UINT32_MAX) << "no period";
}

}  // namespace
}  // namespace quire::cpu
