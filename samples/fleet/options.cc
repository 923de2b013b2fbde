#include "options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "failure.h"

namespace fleet {
namespace {

// Three pools hold about what 24 open conversations need, if each has another part of it.
const std::vector<std::string> kWorkload = {"--conversations", "48", "--open", "24",
                                            "--turns",         "5",  "--pool", "4M"};

std::string beside_this_program(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

}  // namespace

bool parse_options(int argc, char** argv, Options* o, int* exit_code) {
  CLI::App app(
      "Engines, a store that they share and a router that follows their events. One workload runs\n"
      "three times: with engines alone, with the store, and with the router as well. Every "
      "sampled\n"
      "row is verified. Options after -- are those of quire_engine: model, workload, pool.");
  o->engine = beside_this_program("quire_engine");
  o->engine_options = kWorkload;
  app.add_option("--engines", o->engines, "engine processes")->check(CLI::Range(1, 64));
  app.add_option("--in-flight", o->in_flight, "requests at once, of all engines")
      ->check(CLI::Range(1, 4096));
  app.add_option("--kill", o->kill_every, "kill an engine after every N answers, and restart it")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX));
  app.add_option("--stop", o->stop_every, "stop an engine after every N answers, as if it hung")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX));
  app.add_flag("--kill-store", o->kill_store,
               "kill the store in the middle of each run; it comes "
               "back empty");
  app.add_option("--deadline", o->deadline,
                 "seconds after which a silent engine with requests is killed")
      ->check(CLI::Range(1, 86400));
  app.add_option("--seed", o->seed, "of the workload, of routes and of what is killed");
  app.add_option("--engine", o->engine, "the program quire_engine");
  app.add_option("--store", o->store, "the program redis-server or valkey-server");
  app.add_option("--store-bytes", o->store_bytes, "memory of the store")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 50));
  app.add_option("--json", o->json, "write the table to a file");
  app.add_option("engine_options", o->engine_options, "after --: options of quire_engine");
  for (CLI::Option* option : app.get_options()) option->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? kDone : kUsage;
    return false;
  }
  return true;
}

}  // namespace fleet
