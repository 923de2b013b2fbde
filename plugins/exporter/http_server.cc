#include "plugins/exporter/http_server.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "plugins/common/signals.h"

namespace quire::exporter {
namespace {

constexpr char kOpen[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr char kPlain[] = "text/plain; version=0.0.4; charset=utf-8";

// What CivetWeb says while it starts, which is in this thread.
thread_local std::string* startup_log = nullptr;

Outcome check_address(const std::string& address) {
  const auto bad = [&](const char* why) { return Outcome{QUIRE_INVALID_ARGUMENT, 0, "options.address is \"" + address + "\": " + why}; };
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad("an address and a port, such as 127.0.0.1:9464");
  if (address.find('\0') != std::string::npos) return bad("a NUL is in it");
  const bool is_v6 = address[0] == '[' && address[colon - 1] == ']';
  const std::string host = is_v6 ? address.substr(1, colon - 2) : address.substr(0, colon);
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  if (inet_pton(is_v6 ? AF_INET6 : AF_INET, host.c_str(), parsed.data()) != 1)
    return bad("an address in numbers, such as 0.0.0.0 or [::1]");
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos || std::stoul(port) > 65535) {
    return bad("the port is a number from 0 to 65535");
  }
  return {};
}

// "cannot bind to 127.0.0.1:80: 98 (Address already in use)"
Outcome why_not(const std::string& address, const std::string& log, const char* otherwise) {
  const std::string text = "the exporter does not listen on " + address + ": ";
  const size_t bind = log.find("cannot bind to ");
  if (bind == std::string::npos) return {QUIRE_INVALID_ARGUMENT, 0, text + (log.empty() ? otherwise : log)};
  const size_t open = log.find(" (", bind);
  const size_t number = open == std::string::npos ? open : log.rfind(' ', open - 1);
  const int error = number == std::string::npos ? 0 : std::atoi(log.c_str() + number);
  const quire_code code = error == EADDRINUSE                  ? QUIRE_ALREADY_EXISTS
                          : error == EACCES || error == EPERM  ? QUIRE_PERMISSION_DENIED
                          : error == EMFILE || error == ENFILE ? QUIRE_RESOURCE_EXHAUSTED
                                                               : QUIRE_INVALID_ARGUMENT;
  return {code, error, text + (error != 0 ? plugins::error_text(error) : log)};
}

// An answer of one line, or a page.
void put(mg_connection* connection, int status, const char* type, std::string_view body, bool is_head) {
  mg_response_header_start(connection, status);
  mg_response_header_add(connection, "Content-Type", type, -1);
  mg_response_header_add(connection, "Content-Length", std::to_string(body.size()).c_str(), -1);
  mg_response_header_add(connection, "Connection", "close", -1);
  if (status == 405) mg_response_header_add(connection, "Allow", "GET, HEAD", -1);
  mg_response_header_send(connection);
  if (!is_head) mg_write(connection, body.data(), body.size());
}

}  // namespace

Outcome Server::open(const std::string& address, Page page, std::unique_ptr<Server>* out) {
  if (Outcome outcome = check_address(address); !outcome.ok()) return outcome;
  std::unique_ptr<Server> server(new Server(std::move(page)));
  if (Outcome outcome = server->start(address); !outcome.ok()) return outcome;
  *out = std::move(server);
  return {};
}

Outcome Server::start(const std::string& address) {
  mg_callbacks callbacks{};
  callbacks.begin_request = on_request;
  callbacks.log_message = on_log;
  std::array<const char*, 11> options = {"listening_ports",
                                         address.c_str(),
                                         "num_threads",
                                         "2",
                                         "request_timeout_ms",
                                         "5000",
                                         "enable_keep_alive",
                                         "no",
                                         "enable_directory_listing",
                                         "no",
                                         nullptr};
  mg_init_data init{&callbacks, this, options.data()};
  std::array<char, 256> text{};
  unsigned number = 0;
  mg_error_data error{&number, text.data(), text.size()};
  static std::once_flag once;
  std::call_once(once, [] { mg_init_library(0); });  // which is no call of any thread
  std::string log;
  startup_log = &log;
  {
    const plugins::NoSignals quiet;
    running_ = mg_start2(&init, &error);
  }
  startup_log = nullptr;
  if (running_ == nullptr) return why_not(address, log, text.data());
  std::array<mg_server_port, 1> ports{};
  if (mg_get_server_ports(running_, 1, ports.data()) == 1) port_ = static_cast<uint32_t>(ports[0].port);
  return {};
}

Server::~Server() {
  if (running_ != nullptr) mg_stop(running_);
}

int Server::on_log(const mg_connection* /*connection*/, const char* message) {
  if (startup_log != nullptr && startup_log->empty()) *startup_log = message;
  return 1;  // said: nothing is printed
}

int Server::on_request(mg_connection* connection) {
  auto* const server = static_cast<Server*>(mg_get_request_info(connection)->user_data);
  try {
    return server->answer(connection);
  } catch (const std::bad_alloc&) {
    ++server->counters_.failures;
    put(connection, 500, kPlain, "no host memory\n", std::string_view(mg_get_request_info(connection)->request_method) == "HEAD");
    return 500;
  }
}

int Server::answer(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const std::string_view method = request.request_method;
  const bool is_head = method == "HEAD";
  if (std::string_view(request.local_uri) != "/metrics") {
    ++counters_.refusals;
    put(connection, 404, kPlain, "metrics are at /metrics\n", is_head);
    return 404;
  }
  if (!is_head && method != "GET") {
    ++counters_.refusals;
    put(connection, 405, kPlain, "only GET and HEAD\n", false);
    return 405;
  }
  const char* const accepted = mg_get_header(connection, "Accept");
  const bool is_open = accepted != nullptr && std::strstr(accepted, "application/openmetrics-text") != nullptr;
  std::string text;
  if (const Outcome outcome = page_(is_open, &text); !outcome.ok()) {
    ++counters_.failures;
    put(connection, 500, kPlain, outcome.text + "\n", is_head);
    return 500;
  }
  ++counters_.scrapes;
  put(connection, 200, is_open ? kOpen : kPlain, text, is_head);
  return 200;
}

}  // namespace quire::exporter
