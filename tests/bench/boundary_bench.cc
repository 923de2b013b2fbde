// boundary/: what the C ABI and the loader cost. direct is the driver's own function; abi the same through the exported function and the
// table; invoke an extension op by name, native or packed; open a runtime that loads modules. The null driver answers. tickets submits and
// polls 64 tickets of a run each, to the null connector's own table and through the library in turn: nanoseconds per ticket. Calls are
// timed in rounds of a thousand by processor time; best_ns is what the quickest hundredth of the rounds stays below, over_ns what it takes
// over that of direct calls, with which it takes turns: other processes disturb these least.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <quire/connector.h>
#include <quire/driver.h>
#include <quire/quire.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "client/client.h"

namespace quire::bench {
namespace {

using Op = std::unique_ptr<quire_extension, client::Release<quire_extension_release>>;
using Stream = std::unique_ptr<quire_stream, client::Release<quire_stream_release>>;

std::string module_folder() { return QUIRE_MODULES; }

client::Runtime runtime(const std::string& driver, const std::string& folder) {
  auto options = client::sized<quire_runtime_options>();
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = client::to_str(driver);
  options.driver_path = options.connector_path = client::to_str(folder);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  quire_runtime* made = nullptr;
  client::Error error;
  client::check(quire_runtime_create(&options, &made, &error), error);
  return client::Runtime(made);
}

struct Opened {
  client::Runtime runtime = bench::runtime("null", module_folder());
  client::Device device;
  Stream stream;

  Opened() {
    client::Error error;
    quire_device* d = nullptr;
    client::check(quire_device_open(runtime.get(), 0, &d, &error), error);
    device.reset(d);
    quire_stream* s = nullptr;
    client::check(quire_stream_create(d, 0, &s, &error), error);
    stream.reset(s);
  }
};

// The table of the null driver or connector, as a module's author would get it.
template <typename Api>
const Api* table(const std::string& kind, uint32_t version) {
  void* module = dlopen((module_folder() + "/libquire_" + kind + "_null.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string symbol = "quire_" + kind + "_query";
  const auto query = module == nullptr ? nullptr : reinterpret_cast<quire_module_query_fn>(dlsym(module, symbol.c_str()));
  auto question = client::sized<quire_query>();
  question.abi_min = question.abi_max = version;
  const quire_manifest* manifest = nullptr;
  client::Error error;
  if (query == nullptr || query(&question, &manifest, &error) != QUIRE_OK) return nullptr;
  return static_cast<const Api*>(manifest->api);
}

const quire_driver_api* table() { return table<quire_driver_api>("driver", QUIRE_DRIVER_ABI_VERSION); }

constexpr int kRound = 1000;

// Nanoseconds of processor time per call.
template <typename Call>
double round_ns(const Call& call) {
  const auto now = [] {
    struct timespec t {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  };
  const double begin = now();
  for (int i = 0; i < kRound; ++i) call();
  return (now() - begin) / kRound;
}

// What the quickest hundredth of the rounds stays below: the very quickest may be an accident of the clock.
double quick(std::vector<double> of) {
  const auto at = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 100);
  std::nth_element(of.begin(), at, of.end());
  return *at;
}

// Rounds of `call` and of direct calls in turn.
template <typename Call>
void measure(benchmark::State& state, const Call& call) {
  const quire_driver_api* api = table();
  if (api == nullptr) return state.SkipWithError("the null driver is not built");
  client::Error error;
  std::vector<double> rounds;
  std::vector<double> direct_rounds;
  for (auto _ : state) {
    direct_rounds.push_back(round_ns([&] { benchmark::DoNotOptimize(api->fill(nullptr, nullptr, 0, 0, &error)); }));
    rounds.push_back(round_ns(call));
  }
  state.counters["best_ns"] = quick(rounds);
  state.counters["over_ns"] = quick(rounds) - quick(direct_rounds);
}

void direct(benchmark::State& state) {
  const quire_driver_api* api = table();
  if (api == nullptr) return state.SkipWithError("the null driver is not built");
  client::Error error;
  measure(state, [&] { benchmark::DoNotOptimize(api->fill(nullptr, nullptr, 0, 0, &error)); });
}

void abi(benchmark::State& state) {
  const Opened opened;
  client::Error error;
  measure(state, [&] { benchmark::DoNotOptimize(quire_op_fill(opened.stream.get(), nullptr, 0, 0, &error)); });
}

int32_t type_of(const std::string& word) {
  static const std::vector<std::string> words = {"void", "i32", "i64", "u32", "u64", "f32", "f64", "ptr"};
  return static_cast<int32_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

// Values for what stands between the brackets of a signature, without what the library supplies.
std::vector<quire_value> values_for(const std::string& signature) {
  std::vector<quire_value> values;
  for (size_t at = signature.find('(') + 1; at < signature.size();) {
    const size_t end = signature.find_first_of(",)", at);
    const std::string word = signature.substr(at, end - at);
    if (!word.empty() && word != "self" && word != "error") values.push_back({type_of(word), 0, values.size() + 1});
    at = end + 1;
  }
  return values;
}

void invoke(benchmark::State& state, const char* name, uint32_t form) {
  const Opened opened;
  client::Error error;
  quire_extension* found = nullptr;
  client::check(quire_extension_find(opened.runtime.get(), {}, client::to_str(name), 0, form, &found, &error), error);
  const Op op(found);
  auto info = client::sized<quire_extension_info>();
  client::check(quire_extension_get_info(found, &info, &error), error);
  const std::vector<quire_value> args = values_for(client::to_string(info.signature));
  quire_value result{};
  client::check(quire_extension_call(found, args.data(), args.size(), &result, &error), error);
  measure(state, [&] { benchmark::DoNotOptimize(quire_extension_call(found, args.data(), args.size(), &result, &error)); });
}

void open_runtime(benchmark::State& state) {
  const std::string folder = QUIRE_FIVE_MODULES;
  if (!std::filesystem::exists(folder)) return state.SkipWithError("the modules for this benchmark are not built (QUIRE_TESTS=OFF)");
  uint64_t count = 0;
  for (auto _ : state) {
    const client::Runtime opened = runtime("none", folder);
    std::vector<quire_probe_info> infos(16, client::sized<quire_probe_info>());
    client::Error error;
    client::check(quire_runtime_probe(opened.get(), infos.data(), sizeof(quire_probe_info), infos.size(), &count, &error), error);
  }
  state.counters["modules"] = static_cast<double>(count);
}

// 64 stores of a run of 4 KiB each.
struct Tickets {
  static constexpr uint64_t kMany = 64;
  std::vector<quire_ticket> tickets = std::vector<quire_ticket>(kMany);
  std::vector<quire_ticket_run> runs = std::vector<quire_ticket_run>(kMany);
  std::vector<uint8_t> keys = std::vector<uint8_t>(32 * kMany, 7);
  std::vector<uint8_t> bytes = std::vector<uint8_t>(4096 * kMany);
  quire_completion ends[kMany];

  explicit Tickets(uint64_t region) {
    for (uint64_t i = 0; i < kMany; ++i) {
      quire_ticket& t = tickets[i];
      t.ticket = i;
      t.kind = QUIRE_TICKET_STORE;
      t.first_run = i;
      t.num_runs = t.num_keys = 1;
      t.key_offset = 32 * i;
      t.key_bytes = 32;
      t.object_bytes = 4096;
      t.deadline_ns = -1;
      runs[i] = {region, reinterpret_cast<uintptr_t>(&bytes[4096 * i]), 4096, 1, 0, 0, 0};
    }
  }
};

void tickets(benchmark::State& state) {
  const auto* api = table<quire_connector_api>("connector", QUIRE_CONNECTOR_ABI_VERSION);
  if (api == nullptr) return state.SkipWithError("the null connector is not built");
  const client::Runtime opened = runtime("none", module_folder());
  client::Error error;
  quire_connector* connector = nullptr;
  client::check(quire_connector_open(opened.get(), client::to_str("null"), {}, &connector, &error), error);
  const std::unique_ptr<quire_connector, client::Release<quire_connector_release>> owned(connector);
  auto options = client::sized<quire_connector_options>();
  quire_connector_instance* instance = nullptr;
  client::check(api->open(&options, &instance, &error), error);
  Tickets direct_tickets(0);
  Tickets own(0);
  uint64_t region = 0;
  client::check(quire_connector_register_region(connector, own.bytes.data(), own.bytes.size(), QUIRE_DEVICE_CPU, 0, &region, &error),
                error);
  for (quire_ticket_run& run : own.runs) run.region = region;
  uint64_t moved = 0;
  const auto run = [&](const auto& submit, const auto& poll, auto* of, Tickets& t) {
    uint64_t accepted = 0, count = 0;
    submit(of, t.tickets.data(), t.kMany, t.runs.data(), t.kMany, t.keys.data(), t.keys.size(), &accepted, &error);
    poll(of, 0, t.ends, t.kMany, &count, &error);
    moved += count;
  };
  std::vector<double> direct_rounds, rounds;
  for (auto _ : state) {
    direct_rounds.push_back(round_ns([&] { run(api->submit, api->poll, instance, direct_tickets); }));
    rounds.push_back(round_ns([&] { run(quire_connector_submit, quire_connector_poll, connector, own); }));
  }
  api->close(instance);
  if (moved != Tickets::kMany * kRound * (rounds.size() + direct_rounds.size())) return state.SkipWithError("tickets were lost");
  state.counters["direct_ns_per_ticket"] = quick(direct_rounds) / Tickets::kMany;
  state.counters["ns_per_ticket"] = quick(rounds) / Tickets::kMany;
}

BENCHMARK(direct)->Name("boundary/direct");
BENCHMARK(abi)->Name("boundary/abi");
BENCHMARK_CAPTURE(invoke, native_1, "echo.u64", QUIRE_EXTENSION_NATIVE)->Name("boundary/invoke/native:1");
BENCHMARK_CAPTURE(invoke, native_16, "echo.integers", QUIRE_EXTENSION_NATIVE)->Name("boundary/invoke/native:16");
BENCHMARK_CAPTURE(invoke, native_floats, "echo.floats", QUIRE_EXTENSION_NATIVE)->Name("boundary/invoke/native:12_floats");
BENCHMARK_CAPTURE(invoke, native_mixed, "echo.mixed", QUIRE_EXTENSION_NATIVE)->Name("boundary/invoke/native:13_mixed");
BENCHMARK_CAPTURE(invoke, packed_1, "echo.u64", QUIRE_EXTENSION_PACKED)->Name("boundary/invoke/packed:1");
BENCHMARK_CAPTURE(invoke, packed_16, "echo.integers", QUIRE_EXTENSION_PACKED)->Name("boundary/invoke/packed:16");
BENCHMARK(tickets)->Name("boundary/tickets:64")->Unit(benchmark::kMillisecond);
BENCHMARK(open_runtime)->Name("boundary/open_five_modules")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire::bench
