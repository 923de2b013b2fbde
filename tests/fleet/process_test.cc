// Processes of the fleet: what they say, how they end, and that none is left. Method: examples.
#include "samples/fleet/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "samples/fleet/failure.h"

namespace fleet {
namespace {

using Words = std::vector<std::string>;

// All that a process says until its output ends.
std::string all_of(Process* process) {
  std::string text;
  while (process->read(&text)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return text;
}

bool becomes_true(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(FleetProcess, ReadsWritesAndEnds) {
  const Folder folder;
  Process process(Words{"cat"}, folder.file("log"));
  EXPECT_EQ(process.write("some words\n"), 11u);
  std::string text;
  EXPECT_TRUE(becomes_true([&] { return process.read(&text) && text.size() == 11; }));
  EXPECT_EQ(text, "some words\n");
  EXPECT_FALSE(process.has_ended());
  process.close_input();
  EXPECT_EQ(all_of(&process), "");
  EXPECT_TRUE(wait_for(&process, 20'000));
  EXPECT_EQ(process.exit_code(), 0);
}

TEST(FleetProcess, AFullPipeDoesNotBlock) {
  const Folder folder;
  Process process(Words{"sleep", "100"}, folder.file("log"));
  const std::string much(1 << 20, 'x');
  EXPECT_LT(process.write(much), much.size());
}

TEST(FleetProcess, SaysHowItEnded) {
  const Folder folder;
  Process process(Words{"sh", "-c", "echo problem >&2; exit 5"}, folder.file("log"));
  ASSERT_TRUE(wait_for(&process, 20'000));
  EXPECT_EQ(process.ending(), "exit code 5");
  EXPECT_EQ(process.last_words(), "problem\n");
  Process other(Words{"sleep", "100"}, folder.file("log"));
  EXPECT_FALSE(wait_for(&other, 0));
  other.kill();
  EXPECT_TRUE(other.has_ended());
  EXPECT_EQ(other.ending(), "signal 9");
}

TEST(FleetProcess, AProgramThatIsNotThereIsRefused) {
  const Folder folder;
  try {
    const Process process(Words{"/nonexistent/program"}, folder.file("log"));
    FAIL() << "it started";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "cannot start /nonexistent/program: No such file or directory");
  }
}

TEST(FleetProcess, NoneIsLeft) {
  const Folder folder;
  pid_t id = -1;
  {
    const Process process(Words{"sleep", "100"}, folder.file("log"));
    id = process.id();
    process.send_signal(SIGSTOP);
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_NE(::kill(id, 0), 0);
}

// The kernel ends them with their parent, whatever ends that one.
TEST(FleetProcess, NoneOutlivesThisProgram) {
  const Folder folder;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const Process process(Words{"sleep", "100"}, folder.file("log"));
    const pid_t id = process.id();
    if (write(ends[1], &id, sizeof id) != sizeof id) _exit(1);
    pause();
    _exit(0);
  }
  pid_t id = -1;
  ASSERT_EQ(read(ends[0], &id, sizeof id), ssize_t{sizeof id});
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(::kill(id, 0), 0);
  ::kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Whoever reaps it now, it is no sleeping process any more.
  EXPECT_TRUE(becomes_true([id] { return ::kill(id, 0) != 0 || !std::filesystem::exists("/proc/" + std::to_string(id) + "/exe"); }));
}

TEST(FleetProcess, AFolderGoesWithAllInIt) {
  std::string path;
  {
    const Folder folder;
    path = folder.path();
    Process process(Words{"sh", "-c", "echo x >&2"}, folder.file("log"));
    ASSERT_TRUE(wait_for(&process, 20'000));
    EXPECT_TRUE(std::filesystem::exists(folder.file("log")));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace fleet
