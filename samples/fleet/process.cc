#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "failure.h"

namespace fleet {

volatile std::sig_atomic_t arrived_signal = 0;

namespace {

namespace fs = std::filesystem;
constexpr size_t kLastWords = 2000;  // bytes
constexpr size_t kFileName = 16;     // bytes, of the longest name of a socket

std::string errno_text() { return std::strerror(errno); }

void make_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure("cannot make a pipe: " + errno_text());
}

void set_nonblocking(int file) { fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK); }

void close_end(int* file) {
  if (*file >= 0) close(*file);
  *file = -1;
}

}  // namespace

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "quire-fleet-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Failure("cannot make the folder " + pattern + ": " + errno_text());
  path_ = pattern;
  if (path_.size() + kFileName < sizeof sockaddr_un{}.sun_path) return;
  rmdir(path_.c_str());
  throw Failure("the path of sockets would be too long: " + path_ + "/...; set TMPDIR", kUsage);
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Process::Process(const std::vector<std::string>& command, const std::string& error_file)
    : name_(command.front()), error_file_(error_file) {
  int input[2], output[2];
  make_pipe(input);
  make_pipe(output);
  start(command, input, output);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  output_ = output[0];
  set_nonblocking(input_);
  set_nonblocking(output_);
}

// Whether exec works is said through a pipe that exec closes.
void Process::start(const std::vector<std::string>& command, const int* input, const int* output) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int report[2];
  make_pipe(report);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ < 0) throw Failure("cannot start " + name_ + ": " + errno_text());
  if (id_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it died before
    setpgid(0, 0);
    std::signal(SIGPIPE, SIG_DFL);
    const int errors =
        open(error_file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (errors >= 0 && dup2(input[0], 0) >= 0 && dup2(output[1], 1) >= 0 && dup2(errors, 2) >= 0)
      execvp(words[0], words.data());
    const int problem = errno;
    if (::write(report[1], &problem, sizeof problem) < 0) _exit(126);
    _exit(127);
  }
  close(report[1]);
  int problem = 0;
  const ssize_t got = ::read(report[0], &problem, sizeof problem);
  close(report[0]);
  if (got <= 0) return;
  waitpid(id_, nullptr, 0);
  for (int end : {input[0], input[1], output[0], output[1]}) close(end);
  throw Failure("cannot start " + name_ + ": " + std::strerror(problem));
}

Process::~Process() {
  kill();
  close_end(&input_);
  close_end(&output_);
}

void Process::send_signal(int signal) const {
  if (!is_reaped_) ::kill(id_, signal);
}

size_t Process::write(const std::string& text) const {
  size_t done = 0;
  while (done < text.size() && input_ >= 0) {
    const ssize_t n = ::write(input_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;  // it is full, or the process died, which others notice
    done += static_cast<size_t>(n);
  }
  return done;
}

bool Process::read(std::string* text) const {
  char part[1 << 16];
  while (true) {
    const ssize_t n = ::read(output_, part, sizeof part);
    if (n > 0) text->append(part, static_cast<size_t>(n));
    if (n == 0) return false;
    if (n < 0 && errno != EINTR) return errno == EAGAIN;
  }
}

void Process::close_input() { close_end(&input_); }

bool Process::has_ended() {
  if (!is_reaped_) is_reaped_ = waitpid(id_, &status_, WNOHANG) == id_;
  return is_reaped_;
}

void Process::kill() {
  if (is_reaped_) return;
  ::kill(-id_, SIGKILL);  // its whole group, in case it is a script
  while (waitpid(id_, &status_, 0) < 0 && errno == EINTR) continue;
  is_reaped_ = true;
}

int Process::exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }

std::string Process::ending() const {
  if (WIFSIGNALED(status_)) return "signal " + std::to_string(WTERMSIG(status_));
  return "exit code " + std::to_string(exit_code());
}

std::string Process::last_words() const {
  std::ifstream file(error_file_, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  return text.size() > kLastWords ? text.substr(text.size() - kLastWords) : text;
}

bool wait_for(Process* process, int milliseconds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!process->has_ended()) {
    if (std::chrono::steady_clock::now() >= limit) return false;
    check_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace fleet
