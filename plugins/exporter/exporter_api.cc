// quire/exporter.h: every exported function checks its arguments, calls, and reports.
#include <quire/exporter.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "plugins/common/library.h"
#include "plugins/exporter/http_server.h"

using quire::exporter::Server;
using quire::plugins::guarded_export;
using quire::plugins::invalid;
using quire::plugins::Outcome;

namespace {

constexpr char kSource[] = "library:exporter";  // of errors
constexpr uint64_t kMostAddress = 255;
constexpr uint32_t kFirstOptions = 40;  // bytes of the first quire_exporter_options; later ones are longer
static_assert(sizeof(quire_exporter_options) >= kFirstOptions);

// The caller's sources with their labels; the objects are kept alive.
class Sources {
 public:
  Sources(const quire_metrics_source* from, uint64_t n) : all_(from, from + n) {
    labels_.reserve(n);
    for (quire_metrics_source& s : all_) {
      labels_.emplace_back(s.labels.data == nullptr ? "" : std::string(s.labels.data, s.labels.len));
      s.labels = {labels_.back().data(), labels_.back().size()};
    }
    for (const quire_metrics_source& s : all_) {
      quire_cache_retain(s.cache);
      quire_tiers_retain(s.tiers);
      quire_memory_retain(s.memory);
    }
  }
  ~Sources() {
    for (const quire_metrics_source& s : all_) {
      quire_tiers_release(s.tiers);
      quire_cache_release(s.cache);
      quire_memory_release(s.memory);
    }
  }
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  Outcome write(bool is_open, std::string* text) {
    text->resize(room_.load(std::memory_order_relaxed));  // what was needed last, so that it is written once
    Outcome outcome = write(all_.data(), all_.size(), is_open, text);
    if (outcome.ok()) room_.store(text->size() + 1024, std::memory_order_relaxed);
    return outcome;
  }
  static Outcome write(const quire_metrics_source* sources, uint64_t n, bool is_open, std::string* text) {
    const quire_metrics_format format = is_open ? QUIRE_METRICS_OPENMETRICS : QUIRE_METRICS_PROMETHEUS;
    while (true) {
      quire_error error = QUIRE_INIT(quire_error);
      uint64_t count = 0;
      char* const room = text->empty() ? nullptr : text->data();
      const quire_code code = quire_metrics_write(sources, n, format, room, text->size(), &count, &error);
      if (code != QUIRE_OK && (code != QUIRE_OUT_OF_RANGE || count <= text->size())) return {code, 0, error.message};
      const bool is_all = count <= text->size();
      text->resize(is_all ? count : count + 1024);  // it may grow until the next call
      if (is_all) return {};
    }
  }

 private:
  std::vector<quire_metrics_source> all_;
  std::vector<std::string> labels_;
  std::atomic<size_t> room_{0};
};

Outcome read_options(const quire_exporter_options* from, quire_exporter_options* to) {
  if (Outcome outcome = quire::plugins::read_descriptor(from, "options", kFirstOptions, to); !outcome.ok()) return outcome;
  if (to->flags != 0) return invalid("options.flags: none are defined");
  if (to->sources == nullptr && to->num_sources != 0) return invalid("options.sources is NULL");
  if (to->address.data == nullptr && to->address.len != 0) return invalid("options.address.data is NULL");
  if (to->address.len > kMostAddress) return invalid("options.address has " + std::to_string(to->address.len) + " bytes");
  return {};
}

}  // namespace

struct quire_exporter {
  std::unique_ptr<Sources> sources;
  std::unique_ptr<Server> server;  // goes first
  pid_t home = getpid();
};

quire_code quire_exporter_create(const quire_exporter_options* options, quire_exporter** out, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    quire_exporter_options own{};
    if (out == nullptr) return invalid("out is NULL");
    if (Outcome outcome = read_options(options, &own); !outcome.ok()) return outcome;
    std::string text;  // what cannot be written now is refused now
    if (Outcome outcome = Sources::write(own.sources, own.num_sources, true, &text); !outcome.ok()) return outcome;
    auto exporter = std::make_unique<quire_exporter>();
    exporter->sources = std::make_unique<Sources>(own.sources, own.num_sources);
    const std::string address = own.address.len == 0 ? "127.0.0.1:9464" : std::string(own.address.data, own.address.len);
    const auto page = [sources = exporter->sources.get()](bool is_open, std::string* to) { return sources->write(is_open, to); };
    if (Outcome outcome = Server::open(address, page, &exporter->server); !outcome.ok()) return outcome;
    *out = exporter.release();
    return {};
  });
}

void quire_exporter_release(quire_exporter* exporter) {
  if (exporter == nullptr) return;
  if (exporter->home != getpid()) return;  // its threads are not here, and they may have held locks
  delete exporter;
}

quire_code quire_exporter_get_info(quire_exporter* exporter, quire_exporter_info* info, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (exporter == nullptr) return invalid("exporter is NULL");
    quire_exporter_info own = QUIRE_INIT(quire_exporter_info);
    own.port = exporter->server->port();
    const auto& counters = exporter->server->counters();
    own.scrapes = counters.scrapes, own.failures = counters.failures, own.refusals = counters.refusals;
    return quire::plugins::write_info(own, "info", info);
  });
}
