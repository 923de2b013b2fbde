// The HTTP server of an exporter, over CivetWeb: one page, asked of a function.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "plugins/common/entry.h"

struct mg_context;
struct mg_connection;

namespace quire::exporter {

using plugins::Outcome;

// Writes the page into *text. is_open: as OpenMetrics. Called by the server's threads.
using Page = std::function<Outcome(bool is_open, std::string* text)>;

struct Counters {
  std::atomic<uint64_t> scrapes{0}, failures{0}, refusals{0};
};

class Server {
 public:
  // address: "host:port". The page is called until the server is destroyed.
  static Outcome open(const std::string& address, Page page, std::unique_ptr<Server>* out);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint32_t port() const { return port_; }
  const Counters& counters() const { return counters_; }

 private:
  explicit Server(Page page) : page_(std::move(page)) {}

  Outcome start(const std::string& address);
  int answer(mg_connection* connection);
  static int on_request(mg_connection* connection);
  static int on_log(const mg_connection* connection, const char* message);

  const Page page_;
  mg_context* running_ = nullptr;
  uint32_t port_ = 0;
  Counters counters_;
};

}  // namespace quire::exporter
