// What the tickets at work share. One thread uses it.
#pragma once

#include <memory>
#include <vector>

#include "plugins/file/catalog.h"
#include "plugins/file/condition.h"
#include "plugins/file/kernel.h"
#include "plugins/file/mailbox.h"
#include "plugins/file/room.h"
#include "plugins/file/staging.h"

namespace quire::file {

// Closes files without waiting for it.
class Closing : public Owner {
 public:
  void close(Kernel* kernel, File file);
  void ended(Request* request, int32_t result) override;
  bool is_busy() const { return !requests_.empty(); }

 private:
  std::vector<std::unique_ptr<Request>> requests_;
};

struct Store {
  Store(const Config& settings, const quire_host_api* host_api, Mailbox* box)
      : config(settings),
        host(host_api),
        mailbox(box),
        log(host_api),
        catalog(config, &log),
        staging(host_api, settings.depth),
        room(config, host_api, &log, &catalog, &condition),
        is_direct(settings.direct) {}

  int64_t now() const { return host->now(host->user); }
  bool may_start_transfer() const { return transfers < config.depth; }
  // The code of a ticket that failed with it; the state of the store follows. `what` was done to
  // the object.
  quire_code fail_store(int error, const std::string& what);
  quire_code fail_load(int error, const std::string& what);

  Config config;
  const quire_host_api* host;
  Mailbox* mailbox;
  Log log;
  Condition condition;
  Catalog catalog;
  Staging staging;
  Room room;
  Closing closing;
  Kernel* kernel = nullptr;
  bool is_direct;             // until the file system refuses it
  bool has_temporary = true;  // O_TMPFILE, until the file system refuses it
  uint64_t num_new_files = 0;
  uint64_t num_io_errors = 0;
  uint32_t transfers = 0;  // reads and writes that the kernel has
};

}  // namespace quire::file
