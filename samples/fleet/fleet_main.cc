// quire_fleet: several engines, a store that they share, and a router. See README.md.
#include <iostream>

#include "failure.h"
#include "fleet.h"
#include "fleet_options.h"
#include "fleet_store.h"
#include "table.h"

namespace fleet {
namespace {

std::vector<Request> workload(const Options& options) {
  std::vector<std::string> command = {options.engine};
  command.insert(command.end(), options.engine_options.begin(), options.engine_options.end());
  command.insert(command.end(), {"--seed", std::to_string(options.seed)});
  const Folder folder;
  return list_requests(command, folder.file("list.log"));
}

void check_alike(const Result& run, const Result& first) {
  for (size_t id = 0; id < run.answers.size(); ++id) {
    if (run.answers[id] != first.answers[id])
      throw Failure("request " + std::to_string(id) + " has another answer in run \"" + run.name +
                        "\" than in \"" + first.name + "\"",
                    kMismatches);
  }
}

int run(const Options& options) {
  static const Mode kModes[] = {
      {"alone", false, false}, {"with store", true, false}, {"store and router", true, true}};
  if (!is_program(options.store))
    throw Failure("no program " + options.store + " (Debian: redis-server); --store names another",
                  kUsage);
  const std::vector<Request> requests = workload(options);
  std::cout << options.engines << " engines, " << requests.size() << " requests, "
            << options.in_flight << " in flight, seed " << options.seed << "\n\n"
            << std::flush;
  std::vector<Result> results;
  uint64_t rows = 0, mismatches = 0;
  for (const Mode& mode : kModes) {
    results.push_back(run_fleet(options, mode, requests));
    rows += results.back().rows;
    mismatches += results.back().mismatches;
    check_alike(results.back(), results.front());
  }
  std::cout << table(results);
  if (!options.json.empty()) write_json(options.json, results);
  std::cout << "verified: " << rows << " rows, " << mismatches << " mismatches\n" << std::flush;
  if (rows == 0) throw Failure("no row was verified");
  return mismatches == 0 ? kDone : kMismatches;
}

extern "C" void on_signal(int signal) { arrived_signal = signal; }

}  // namespace
}  // namespace fleet

int main(int argc, char** argv) {
  fleet::Options options;
  int exit_code = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, fleet::on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  if (!fleet::parse_options(argc, argv, &options, &exit_code)) return exit_code;
  try {
    return fleet::run(options);
  } catch (const fleet::Interrupted& interrupted) {
    std::cerr << "fleet: interrupted; all engines and the store were ended\n";
    return 128 + interrupted.signal;
  } catch (const fleet::Failure& failure) {
    std::cerr << "fleet: " << failure.what() << '\n';
    return failure.code;
  } catch (const std::exception& error) {
    std::cerr << "fleet: " << error.what() << '\n';
    return fleet::kFailed;
  }
}
