// Tests of the file connector are skipped where io_uring is forbidden, as in most containers.
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace {

class NeedsRing : public testing::Environment {
 public:
  void SetUp() override {
    io_uring_params parameters = {};
    const long ring = syscall(SYS_io_uring_setup, 1, &parameters);
    const int error = errno;
    if (ring >= 0) close(static_cast<int>(ring));
    if (ring < 0) GTEST_SKIP() << "io_uring_setup: " << std::strerror(error) << ": the file connector cannot be tested here";
  }
};

const testing::Environment* const kNeedsRing = testing::AddGlobalTestEnvironment(new NeedsRing);

}  // namespace
