// fleet_store.h: the store that all engines share: a redis-server at a Unix socket, of our own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "process.h"

namespace fleet {

class Store {
 public:
  // Starts it in a folder, and waits until it answers. program: found as a shell would. bytes: most
  // memory; then it evicts what was not used for the longest time.
  Store(const std::string& program, const Folder& folder, uint64_t bytes);

  // The option of an engine for it.
  std::string tier() const;
  bool is_up() const { return process_ != nullptr; }
  void kill();
  // Starts it again, empty, at the same socket.
  void start();

 private:
  bool answers() const;

  const std::string program_, socket_, error_file_, folder_;
  const uint64_t bytes_;
  std::unique_ptr<Process> process_;
};

// Whether it can be started.
bool is_program(const std::string& program);

}  // namespace fleet
