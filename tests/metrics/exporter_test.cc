// Metrics over HTTP: who asks what, who asks slowly, and who asks while the engine runs.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <quire/exporter.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/metrics/metrics_text.h"
#include "tests/tier/tier_rig.h"

namespace quire::test {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

struct Error : quire_error {
  Error() : quire_error(QUIRE_INIT(quire_error)) {}
};

quire_str str(const std::string& text) { return {text.data(), text.size()}; }

class Connection {
 public:
  explicit Connection(uint32_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{30, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    is_open_ = connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool is_open() const { return is_open_; }
  void say(const std::string& text) const {
    EXPECT_EQ(send(socket_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // All until the other side closes.
  std::string hear() const {
    std::string all;
    char piece[4096];
    for (ssize_t n = 0; (n = recv(socket_, piece, sizeof piece, 0)) > 0;) all.append(piece, static_cast<size_t>(n));
    return all;
  }

 private:
  int socket_;
  bool is_open_ = false;
};

struct Answer {
  int status = 0;
  std::string head, body;
};

Answer ask(uint32_t port, const std::string& request, const std::string& headers = "") {
  const Connection connection(port);
  EXPECT_TRUE(connection.is_open());
  connection.say(request + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  const std::string all = connection.hear();
  const size_t end = all.find("\r\n\r\n");
  EXPECT_NE(end, std::string::npos) << all;
  if (end == std::string::npos) return {};
  return {std::atoi(all.c_str() + all.find(' ')), all.substr(0, end + 2), all.substr(end + 4)};
}

struct Served {
  Clock clock;
  FakeStore store;
  std::unique_ptr<Engine> engine;
  quire_exporter* exporter = nullptr;
  uint32_t port = 0;

  static EngineOptions options() {
    EngineOptions options;
    options.layers = {full_layer(), state_layer()};
    return options;
  }
  Served() : engine(std::make_unique<Engine>(clock, options(), std::vector<FakeStore*>{&store})) {
    const std::string labels = "engine=\"3\"";
    const quire_metrics_source source = {engine->cache(), engine->tiers(), engine->memory(0), str(labels), nullptr};
    Error err;
    EXPECT_EQ(open("127.0.0.1:0", &source, &exporter, &err), QUIRE_OK) << err.message;
    port = info().port;
    EXPECT_GT(port, 0U);
  }
  ~Served() { quire_exporter_release(exporter); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  static quire_code open(const std::string& address, const quire_metrics_source* source, quire_exporter** out, Error* err) {
    quire_exporter_options options = QUIRE_INIT(quire_exporter_options);
    options.address = str(address);
    options.sources = source;
    options.num_sources = source == nullptr ? 0 : 1;
    return quire_exporter_create(&options, out, err);
  }
  quire_exporter_info info() const {
    quire_exporter_info info = QUIRE_INIT(quire_exporter_info);
    Error err;
    EXPECT_EQ(quire_exporter_get_info(exporter, &info, &err), QUIRE_OK) << err.message;
    return info;
  }
};

TEST(MetricsExporter, AnswersInTheFormThatIsAcceptedAndNothingElse) {
  const Served served;
  served.engine->compute(count_text(1, 100));
  const std::string accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
  const Answer open = ask(served.port, "GET /metrics", accept);
  EXPECT_EQ(open.status, 200);
  EXPECT_NE(open.head.find("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), std::string::npos) << open.head;
  EXPECT_NE(open.head.find("Content-Length: " + std::to_string(open.body.size()) + "\r\n"), std::string::npos) << open.head;
  EXPECT_EQ(read(open.body, QUIRE_METRICS_OPENMETRICS).at("quire_steps").samples.begin()->first, "quire_steps_total{engine=\"3\"}");
  const Answer plain = ask(served.port, "GET /metrics?x=1");
  EXPECT_NE(plain.head.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos) << plain.head;
  EXPECT_TRUE(read(plain.body, QUIRE_METRICS_PROMETHEUS).contains("quire_steps_total"));
  const Answer head = ask(served.port, "HEAD /metrics", accept);
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.body.empty());
  EXPECT_NE(head.head.find("Content-Length: "), std::string::npos);
  EXPECT_EQ(served.info().scrapes, 3U);
  for (const char* request : {"GET /", "GET /metrics/", "GET /metricsx", "GET /../metrics/../etc/passwd", "HEAD /x"}) {
    EXPECT_EQ(ask(served.port, request).status, 404) << request;
  }
  const Answer post = ask(served.port, "POST /metrics", "Content-Length: 0\r\n");
  EXPECT_EQ(post.status, 405);
  EXPECT_NE(post.head.find("Allow: GET, HEAD\r\n"), std::string::npos) << post.head;
  EXPECT_EQ(ask(served.port, "DELETE /metrics").status, 405);
  EXPECT_EQ(served.info().scrapes, 3U);
  EXPECT_EQ(served.info().refusals, 7U);
  EXPECT_EQ(served.info().failures, 0U);
}

TEST(MetricsExporter, RefusesWhatItCannotListenOn) {
  const Served served;
  quire_exporter* other = nullptr;
  Error err;
  EXPECT_EQ(Served::open("127.0.0.1:" + std::to_string(served.port), nullptr, &other, &err), QUIRE_ALREADY_EXISTS);
  EXPECT_EQ(std::string(err.message),
            "the exporter does not listen on 127.0.0.1:" + std::to_string(served.port) + ": Address already in use");
  EXPECT_STREQ(err.source, "library:exporter");
  for (const char* address : {"9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:9464s",
                              "127.0.0.1:1,127.0.0.1:2", "127.0.0.1 :1", "+127.0.0.1:1", "localhost:0", "[127.0.0.1]:0", "::1:0"}) {
    EXPECT_EQ(Served::open(address, nullptr, &other, &err), QUIRE_INVALID_ARGUMENT) << address;
    EXPECT_NE(std::string(err.message).find("options.address"), std::string::npos) << err.message;
  }
  EXPECT_EQ(Served::open(std::string("127.0.0.1\0:1", 12), nullptr, &other, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(Served::open("192.0.2.1:0", nullptr, &other, &err), QUIRE_INVALID_ARGUMENT) << err.message;  // no address of this machine
  EXPECT_EQ(other, nullptr);
}

TEST(MetricsExporter, RefusesWrongArguments) {
  const Served served;
  quire_exporter* other = nullptr;
  Error err;
  quire_exporter_options options = QUIRE_INIT(quire_exporter_options);
  EXPECT_EQ(quire_exporter_create(nullptr, &other, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_exporter_create(&options, nullptr, &err), QUIRE_INVALID_ARGUMENT);
  options.flags = 1;
  EXPECT_EQ(quire_exporter_create(&options, &other, &err), QUIRE_INVALID_ARGUMENT);
  options.flags = 0;
  options.num_sources = 1;
  EXPECT_EQ(quire_exporter_create(&options, &other, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("options.sources is NULL"), std::string::npos) << err.message;
  quire_metrics_source source{};
  source.labels = {"x", 1};
  options.sources = &source;
  EXPECT_EQ(quire_exporter_create(&options, &other, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(err.message).find("sources[0].labels"), std::string::npos) << err.message;
  options.struct_size = 4;
  EXPECT_EQ(quire_exporter_create(&options, &other, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_exporter_get_info(nullptr, nullptr, &err), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_exporter_get_info(served.exporter, nullptr, &err), QUIRE_INVALID_ARGUMENT);
  quire_exporter_release(nullptr);
  EXPECT_EQ(other, nullptr);
}

TEST(MetricsExporter, KeepsWhatItReports) {
  Served served;
  served.engine->compute(count_text(1, 100));
  served.engine->settle();
  served.engine.reset();
  const auto families = read(ask(served.port, "GET /metrics").body, QUIRE_METRICS_PROMETHEUS);
  EXPECT_GT(families.at("quire_steps_total").samples.begin()->second, 0);
}

TEST(MetricsExporter, AnswersWhileTheEngineRuns) {
  const Served served;
  std::atomic<bool> is_done{false};
  std::atomic<uint64_t> answers{0};
  std::vector<std::thread> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&] {
      while (!is_done) {
        const Answer answer = ask(served.port, "GET /metrics", "Accept: application/openmetrics-text\r\n");
        EXPECT_EQ(answer.status, 200);
        EXPECT_TRUE(answer.body.ends_with("# EOF\n"));
        ++answers;
      }
    });
  }
  for (quire_symbol i = 0; i < 40 || answers < 40; ++i) {
    served.engine->compute(count_text(1 + 1000 * (i % 7), 200));
    served.engine->settle();
  }
  is_done = true;
  for (std::thread& scraper : scrapers) scraper.join();
  EXPECT_EQ(served.info().scrapes, answers);
}

TEST(MetricsExporter, SilentClientsDelayOthersForSecondsOnly) {
  const Served served;
  std::vector<std::unique_ptr<Connection>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<Connection>(served.port));
    silent.back()->say("GET /met");
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(ask(served.port, "GET /metrics").status, 200);
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begun).count(), 25);
}

TEST(MetricsExporter, EndsWhileAClientIsSilent) {
  auto served = std::make_unique<Served>();
  const Connection silent(served->port);
  silent.say("GET /met");
  const auto begun = std::chrono::steady_clock::now();
  served.reset();
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - begun).count(), 15);
}

TEST(MetricsExporter, AChildOfForkMayReleaseIt) {
  const Served served;
  const pid_t child = fork();
  if (child == 0) {
    quire_exporter_release(served.exporter);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ask(served.port, "GET /metrics").status, 200);
}

}  // namespace
}  // namespace quire::test
