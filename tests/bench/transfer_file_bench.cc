// transfer/file/: objects written and synced, and read, with O_DIRECT, in the folder of QUIRE_BENCH_FOLDER or that of temporary files. What
// the disk can do is a matter of file_of_fio.sh, which runs fio beside it. Pieces lie in random order in a pool of 1 GiB.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fixtures.h"
#include "transfers.h"

namespace quire::bench {
namespace {

namespace fs = std::filesystem;

// A folder for one row, removed at the end.
class Folder {
 public:
  Folder() {
    const char* const given = std::getenv("QUIRE_BENCH_FOLDER");
    path_ = (given != nullptr ? fs::path(given) : fs::temp_directory_path()) / ("quire-bench-" + std::to_string(getpid()));
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string config(const std::string& fields) const {
    return "{\"directory\": \"" + path_.string() + "\", \"bytes\": \"64GiB\"" + fields + "}";
  }

 private:
  fs::path path_;
};

void transfer_file(benchmark::State& state, Shape shape, quire_ticket_kind kind) {
  const Folder folder;
  shape.config = folder.config(shape.config);
  Transfers transfers(shape);
  const uint64_t objects = shape.call_bytes / shape.object_bytes;
  const uint64_t pieces = shape.call_bytes / shape.piece_bytes;
  uint64_t call = 0;
  for (; call < 2; ++call) transfers.call(QUIRE_TICKET_STORE, call * objects, call * pieces);
  double best = 1e9;
  for (auto _ : state) {
    const uint64_t first_key = (kind == QUIRE_TICKET_STORE ? call : call % 2) * objects;
    const double seconds = transfers.call(kind, first_key, call * pieces);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
    ++call;
  }
  state.counters["GBps"] = static_cast<double>(shape.call_bytes) / best / 1e9;
}

void add(const std::string& name, const Shape& shape) {
  for (const bool stores : {true, false}) {
    const std::string row = "transfer/" + name + (stores ? "/store" : "/load") + "/object:" + std::to_string(shape.object_bytes) +
                            "/piece:" + std::to_string(shape.piece_bytes);
    benchmark::RegisterBenchmark(row.c_str(), transfer_file, shape, stores ? QUIRE_TICKET_STORE : QUIRE_TICKET_LOAD)
        ->UseManualTime()
        ->Iterations(8)
        ->Unit(benchmark::kMillisecond);
  }
}

const bool kRegistered = [] {
  constexpr uint64_t kMany = uint64_t{1000} * 32768;
  add("file", {"file", "", 2097152, 2097152});
  add("file", {"file", "", 2097152, 32768});
  add("file", {"file", "", 32768, 32768, kMany});
  add("file/unsynced", {"file", ", \"sync\": false", 32768, 32768, kMany});
  add("file/cached", {"file", ", \"direct\": false", 2097152, 2097152});
  return true;
}();

}  // namespace
}  // namespace quire::bench
