// process.h: child processes that never outlive this program, and a folder that goes with it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fleet {

// A new folder among the temporary files, removed at the end with all that is in it. Sockets have
// room in it: their paths are short.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A running program. Its standard error goes to a file. It is killed and reaped with this object,
// and the kernel kills it if this program dies. It has a process group of its own, so that Ctrl-C
// reaches this program alone.
class Process {
 public:
  // Its standard input and output are pipes to here.
  Process(const std::vector<std::string>& command, const std::string& error_file);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  int output() const { return output_; }  // to read from; never blocks
  void send_signal(int signal) const;
  // Writes what the pipe takes now. Returns how many bytes that was.
  size_t write(const std::string& text) const;
  // Appends what has arrived. Returns false when the output has ended.
  bool read(std::string* text) const;
  void close_input();

  // Whether it has ended; then it is reaped.
  bool has_ended();
  void kill();  // with its children; returns when it has ended
  int exit_code() const;
  std::string ending() const;  // "exit code 3", "signal 9"
  // The end of what it wrote to standard error.
  std::string last_words() const;

 private:
  void start(const std::vector<std::string>& command, const int* input, const int* output);

  std::string name_, error_file_;
  pid_t id_ = -1;
  int input_ = -1, output_ = -1;
  bool is_reaped_ = false;
  int status_ = 0;
};

// Waits for at most so many milliseconds until it has ended. Returns whether it has.
bool wait_for(Process* process, int milliseconds);

}  // namespace fleet
