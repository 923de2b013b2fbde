// Where the threads of the CPU driver run.
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "api_rig.h"

namespace quire::test {
namespace {

std::set<int> threads_of_process() {
  std::set<int> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ids.insert(std::atoi(entry.path().filename().c_str()));
  return ids;
}

std::set<int> cpus_of(int thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(thread, sizeof set, &set), 0);
  std::set<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.insert(i);
  }
  return cpus;
}

struct Opened {
  Owned<quire_runtime> runtime;
  Owned<quire_device> device;
  quire_code code = QUIRE_OK;
  std::string message;
};

Opened open(const std::string& cpus, uint32_t num_threads) {
  Opened opened;
  quire_runtime_options options = runtime_options("cpu");
  options.cpus = {cpus.data(), cpus.size()};
  options.num_threads = num_threads;
  quire_runtime* runtime = nullptr;
  Error e;
  opened.code = quire_runtime_create(&options, &runtime, &e);
  opened.runtime.reset(runtime);
  quire_device* device = nullptr;
  if (opened.code == QUIRE_OK) opened.code = quire_device_open(runtime, 0, &device, &e);
  opened.device.reset(device);
  opened.message = e.message;
  return opened;
}

TEST(Threads, RunWhereTheyAreToldAndTheCallerStays) {
  const std::set<int> mine = cpus_of(0);
  ASSERT_FALSE(mine.empty());
  const int first = *mine.begin();
  const int last = *mine.rbegin();
  const std::set<int> before = threads_of_process();
  const std::string list = first == last ? std::to_string(first) : std::to_string(first) + "," + std::to_string(last);
  const Opened opened = open(list, 5);
  ASSERT_EQ(opened.code, QUIRE_OK) << opened.message;
  std::multiset<int> where;
  for (const int thread : threads_of_process()) {
    if (before.count(thread) != 0) continue;
    const std::set<int> cpus = cpus_of(thread);
    ASSERT_EQ(cpus.size(), 1U);
    where.insert(*cpus.begin());
  }
  // Threads 1 to 4; thread 0 is this one.
  const std::multiset<int> wanted =
      first == last ? std::multiset<int>{first, first, first, first} : std::multiset<int>{last, first, last, first};
  EXPECT_EQ(where, wanted);
  EXPECT_EQ(cpus_of(0), mine);
}

TEST(Threads, AreAsManyAsCpusWhenNobodySays) {
  const std::set<int> mine = cpus_of(0);
  const Opened opened = open(std::to_string(*mine.begin()), 0);
  ASSERT_EQ(opened.code, QUIRE_OK) << opened.message;
  quire_device_info info{};
  info.struct_size = sizeof info;
  EXPECT_WORKS(quire_device_get_info(opened.device.get(), &info, err));
  EXPECT_EQ(std::string(info.name).rfind("CPU, 1 threads", 0), 0U) << info.name;
}

TEST(Threads, ACpuThatIsNotThereIsRefusedAndNothingStays) {
  const std::set<int> before = threads_of_process();
  const Opened opened = open("65000-65001", 3);
  EXPECT_EQ(opened.code, QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(opened.message.find("may not run on CPU 65001"), std::string::npos) << opened.message;
  EXPECT_EQ(threads_of_process(), before);
}

}  // namespace
}  // namespace quire::test
