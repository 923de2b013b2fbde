// What fork() gives a child: it may release everything that it inherited. Threads of the CPU driver are the parent's and are not there.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../fork_when_quiet.h"
#include "api_rig.h"

namespace quire::test {
namespace {

constexpr uint32_t kThreads = 24;  // more than the C library keeps stacks for: those of threads that are gone are unmapped in the child

// Releases in the order of the rig's destructor, or children first from the runtime on.
enum class Order { kChildrenFirst, kRuntimeFirst };

std::unique_ptr<Rig> rig_in_use() {
  auto rig = std::make_unique<Rig>("", 48, "cpu", "vllm", Rig::hybrid(), kThreads);
  if (!rig->whole()) return rig;
  quire_sequence_id sequence = 0;
  EXPECT_WORKS(quire_sequence_create(rig->cache.get(), nullptr, &sequence, err));
  const quire_step step = rig->reserve(sequence, {1, 2, 3, 4, 5});
  EXPECT_WORKS(quire_memory_prepare_step(rig->memory.get(), step, rig->stream.get(), err));
  EXPECT_WORKS(quire_stream_synchronize(rig->stream.get(), -1, err));
  return rig;
}

void release(std::unique_ptr<Rig> rig, Order order) {
  if (order == Order::kRuntimeFirst) {
    rig->runtime.reset();
    rig->device.reset();
  }
  rig.reset();
}

class Fork : public testing::TestWithParam<Order> {};

TEST_P(Fork, AChildReleasesWhatItInherited) {
  for (int round = 0; round < 4; ++round) {
    std::unique_ptr<Rig> rig = rig_in_use();
    ASSERT_TRUE(rig->whole());
    const pid_t child = fork_when_quiet();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);  // a child that waits for threads is ended
      release(std::move(rig), GetParam());
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_WORKS(quire_stream_synchronize(rig->stream.get(), -1, err));  // the parent's threads go on
    EXPECT_WORKS(quire_cache_verify(rig->cache.get(), err));
    release(std::move(rig), GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Fork, testing::Values(Order::kChildrenFirst, Order::kRuntimeFirst));

}  // namespace
}  // namespace quire::test
