// transfer/ucx/same_host/: loads over shared memory from an owner in the same process that has copies, in turn with memcpy of the same
// pieces by one thread; of_memcpy is a speed, the median over these pairs. transfer/ucx/load/: loads over TCP on loopback from an owner in
// the same process that has copies, and a loop of ucp_get_nbx over the same number of bytes in pieces of the same size. The two take turns,
// and which is first changes. of_get is a speed, the median over these pairs. The loop checks nothing and lets its peer say what is where;
// its ends spin, and the connector's sleep. The pieces of the connector lie anywhere; of_contiguous compares them with pieces that lie
// together.
#include <benchmark/benchmark.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "transfers.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void require_ucs(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

// A context over tcp with one worker.
struct Side {
  ucp_context_h ucx = nullptr;
  ucp_worker_h worker = nullptr;
  Side() {
    ucp_config_t* config = nullptr;
    require_ucs(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    require_ucs(ucp_config_modify(config, "TLS", "tcp"), "TLS");
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_RMA;
    require_ucs(ucp_init(&params, config, &ucx), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker_params = {};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    require_ucs(ucp_worker_create(ucx, &worker_params, &worker), "ucp_worker_create");
  }
  ~Side() {
    ucp_worker_destroy(worker);
    ucp_cleanup(ucx);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
};

// Gets from memory of the same process.
class GetLoop {
 public:
  explicit GetLoop(uint64_t bytes) : from_(bytes, 1), to_(bytes) {
    ucp_mem_map_params_t map = {};
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = from_.data();
    map.length = bytes;
    require_ucs(ucp_mem_map(owner_.ucx, &map, &memory_), "ucp_mem_map");
    void* packed = nullptr;
    size_t size = 0;
    require_ucs(ucp_rkey_pack(owner_.ucx, memory_, &packed, &size), "ucp_rkey_pack");
    ucp_address_t* address = nullptr;
    size_t address_bytes = 0;
    require_ucs(ucp_worker_get_address(owner_.worker, &address, &address_bytes), "ucp_worker_get_address");
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = address;
    require_ucs(ucp_ep_create(reader_.worker, &params, &endpoint_), "ucp_ep_create");
    require_ucs(ucp_ep_rkey_unpack(endpoint_, packed, &rkey_), "ucp_ep_rkey_unpack");
    ucp_rkey_buffer_release(packed);
    ucp_worker_release_address(owner_.worker, address);
    thread_ = std::thread([this] {
      for (; state_ != kOver; state_.wait(kRests)) {
        while (state_ == kRuns) ucp_worker_progress(owner_.worker);
      }
    });
  }
  ~GetLoop() {
    set(kOver);
    thread_.join();
    ucp_rkey_destroy(rkey_);
    ucp_mem_unmap(owner_.ucx, memory_);
  }
  GetLoop(const GetLoop&) = delete;
  GetLoop& operator=(const GetLoop&) = delete;

  double run(uint64_t piece) {
    set(kRuns);
    const auto begin = Clock::now();
    ucp_request_param_t param = {};
    std::vector<void*> requests;
    for (uint64_t at = 0; at < to_.size(); at += piece) {
      void* const request = ucp_get_nbx(endpoint_, to_.data() + at, piece, reinterpret_cast<uintptr_t>(from_.data()) + at, rkey_, &param);
      if (UCS_PTR_IS_ERR(request)) require_ucs(UCS_PTR_STATUS(request), "ucp_get_nbx");
      if (request != nullptr) requests.push_back(request);
    }
    for (void* const request : requests) {
      while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(reader_.worker);
      require_ucs(ucp_request_check_status(request), "get");
      ucp_request_free(request);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    set(kRests);  // its processor is the connector's now
    return seconds;
  }

 private:
  enum State { kRests, kRuns, kOver };
  void set(State state) {
    state_ = state;
    state_.notify_all();
  }
  Side owner_, reader_;
  std::vector<uint8_t> from_, to_;
  ucp_mem_h memory_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h rkey_ = nullptr;
  std::atomic<State> state_{kRests};
  std::thread thread_;
};

// An owner with all objects, and where it listens.
struct Served {
  explicit Served(Shape shape, bool same_host) : way(same_host ? "auto" : "off") {
    const std::string path = "/tmp/quire-bench-ucx-" + std::to_string(getpid());
    shape.config =
        R"({"trusted": true, "copies": "200MiB", "listen": "127.0.0.1:0", "same_host": ")" + way + R"(", "port_file": ")" + path + "\"}";
    owner = std::make_unique<Transfers>(shape);
    owner->call(QUIRE_TICKET_STORE, 0, 0);
    std::ifstream(path) >> address;
    unlink(path.c_str());
  }
  std::string reader_config() const { return R"({"trusted": true, "same_host": ")" + way + R"(", "peers": ")" + address + "\"}"; }
  const std::string way;
  std::unique_ptr<Transfers> owner;
  std::string address;
};

enum class Other { kGet, kContiguous, kMemcpy };

void load(benchmark::State& state, Shape shape, bool same_host, Other instead) {
  const Served served(shape, same_host);
  shape.config = served.reader_config();
  Transfers reader(shape);
  Shape together = shape;
  together.piece_bytes = shape.object_bytes;
  std::unique_ptr<Transfers> other;
  std::unique_ptr<GetLoop> loop;
  if (instead == Other::kContiguous) {
    other = std::make_unique<Transfers>(together);
  } else if (instead == Other::kGet) {
    loop = std::make_unique<GetLoop>(shape.call_bytes);
  }
  const uint64_t pieces = shape.call_bytes / shape.piece_bytes;
  std::vector<double> ratios, own_times, other_times;
  uint64_t call = 0;
  for (auto _ : state) {
    const auto theirs = [&] {
      if (instead == Other::kGet) return loop->run(shape.piece_bytes);
      if (instead == Other::kMemcpy) return reader.copy(QUIRE_TICKET_LOAD, call * pieces, 0);
      return other->call(QUIRE_TICKET_LOAD, 0, call * (shape.call_bytes / shape.object_bytes));
    };
    double their_time = call % 2 == 0 ? theirs() : 0;
    const double own = reader.call(QUIRE_TICKET_LOAD, 0, call * pieces);
    if (call % 2 != 0) their_time = theirs();
    ++call;
    ratios.push_back(their_time / own);
    own_times.push_back(own);
    other_times.push_back(their_time);
    state.SetIterationTime(own);
  }
  static constexpr const char* kNames[] = {"get", "contiguous", "memcpy"};
  const std::string name = kNames[static_cast<size_t>(instead)];
  state.counters["of_" + name] = median(ratios);
  state.counters["GBps"] = static_cast<double>(shape.call_bytes) / median(own_times) / 1e9;
  state.counters[name + "_GBps"] = static_cast<double>(shape.call_bytes) / median(other_times) / 1e9;
}

const bool kRegistered = [] {
  constexpr uint64_t kMany = uint64_t{1000} * 32768;
  const auto add = [](const Shape& shape, bool same_host, Other instead) {
    const std::string row = std::string("transfer/ucx/") + (same_host ? "same_host/" : "") + "load/" +
                            (instead == Other::kContiguous ? "scattered/" : "") + "object:" + std::to_string(shape.object_bytes) +
                            "/piece:" + std::to_string(shape.piece_bytes);
    benchmark::RegisterBenchmark(row.c_str(), load, shape, same_host, instead)
        ->UseManualTime()
        ->Iterations(21)
        ->Unit(benchmark::kMillisecond);
  };
  for (const bool same_host : {false, true}) {
    add({"ucx", "", 2097152, 2097152}, same_host, same_host ? Other::kMemcpy : Other::kGet);
    add({"ucx", "", 32768, 32768, kMany}, same_host, same_host ? Other::kMemcpy : Other::kGet);
    add({"ucx", "", kMany, 32768, kMany}, same_host, Other::kContiguous);
  }
  return true;
}();

}  // namespace
}  // namespace quire::bench
