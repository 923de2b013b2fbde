#include "fleet_store.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "failure.h"

namespace fleet {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

bool is_executable(const std::string& path) {
  struct stat s = {};
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool is_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return is_executable(program);
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_executable(folder.append("/").append(program))) return true;
  }
  return false;
}

Store::Store(const std::string& program, const Folder& folder, uint64_t bytes)
    : program_(program),
      socket_(folder.file("store.sock")),
      error_file_(folder.file("store.log")),
      folder_(folder.path()),
      bytes_(bytes) {
  if (!is_program(program))
    throw Failure("no program " + program + " (Debian: redis-server); --store names another",
                  kUsage);
  start();
}

std::string Store::tier() const {
  return "redis:" + nlohmann::json{{"servers", socket_}, {"timeout_ms", 1000}}.dump();
}

void Store::kill() { process_.reset(); }

void Store::start() {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  process_ = std::make_unique<Process>(
      std::vector<std::string>{program_, "--port", "0", "--unixsocket", socket_, "--dir", folder_,
                               "--save", "", "--appendonly", "no", "--logfile", error_file_,
                               "--loglevel", "warning", "--maxmemory", std::to_string(bytes_),
                               "--maxmemory-policy", "allkeys-lru"},
      error_file_);
  while (!answers()) {
    const bool is_late = std::chrono::steady_clock::now() >= limit;
    if (process_->has_ended() || is_late)
      throw Failure("the store " + program_ +
                    (is_late ? " does not answer" : " ended: " + process_->ending()) + "\n" +
                    process_->last_words());
    check_interrupted();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

bool Store::answers() const {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return false;
  timeval second = {1, 0};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  char reply[7] = "";
  const bool is_good = connect(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       send(file, "PING\r\n", 6, MSG_NOSIGNAL) == 6 &&
                       recv(file, reply, 5, MSG_WAITALL) == 5;
  close(file);
  return is_good && std::string(reply) == "+PONG";
}

}  // namespace fleet
