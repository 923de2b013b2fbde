// fake_gpu_test DRIVER LIBRARY: the tests with a driver over one of the fakes, and single ones of them as a process of their own.
#include "tests/kernels/fake_gpu/fake_gpu_rig.h"

#include <sys/wait.h>
#include <unistd.h>

namespace quire {

Given given;
int64_t not_ours = 0;

int in_process(const char* test, const std::vector<std::pair<std::string, std::string>>& variables) {
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, v] : variables) setenv(name.c_str(), v.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string filter = std::string("--gtest_filter=Process.") + test;
    execl("/proc/self/exe", "fake_gpu_test", given.driver.c_str(), given.library.c_str(), filter.c_str(), static_cast<char*>(nullptr));
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace quire

int main(int argc, char** argv) {
  testing::GTEST_FLAG(filter) = "-Process.*";  // those are run by others, see in_process
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: fake_gpu_test DRIVER LIBRARY\n");
    return 2;
  }
  quire::given = {argv[1], argv[2]};
  // Cases take the driver's pinned memory.
  bool absent = false;
  const std::string problem = quire::conformance::open_driver(quire::modules(), quire::given.driver, 0, &absent);
  if (!problem.empty() && !absent) std::fprintf(stderr, "%s\n", problem.c_str());
  if (problem.empty()) quire::not_ours = quire::alive();
  int result = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) result = 3;  // a name that is none
  if (problem.empty()) quire::conformance::close_driver();
  return result;
}
