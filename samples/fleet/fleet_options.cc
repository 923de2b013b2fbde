#include "fleet_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "failure.h"

namespace fleet {
namespace {

// Three pools hold about what 24 open conversations need, if each has another part of it.
const std::vector<std::string> kWorkload = {"--conversations", "48", "--open", "24",
                                            "--turns",         "5",  "--pool", "4M"};

std::string next_to_this_program(const std::string& name) {
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
  o->engine = next_to_this_program("quire_engine");
  o->engine_options = kWorkload;
  const auto number = [&app](const char* name, uint64_t* value, uint64_t least, uint64_t most,
                             const std::string& help) {
    const std::string shown = *value != 0 ? " [" + std::to_string(*value) + "]" : "";
    app.add_option(name, *value, help + shown)
        ->check(CLI::Range(least, most).description(""))
        ->type_name("N");
  };
  number("--engines", &o->engines, 1, 64, "engine processes");
  number("--in-flight", &o->in_flight, 1, 4096, "requests at once, of all engines");
  number("--kill", &o->kill_every, 1, UINT64_MAX,
         "kill an engine after every N answers; another process takes its place");
  number("--stop", &o->stop_every, 1, UINT64_MAX,
         "stop an engine after every N answers, as if it hung");
  app.add_flag("--kill-store", o->kill_store,
               "kill the store in the middle of each run; it comes back empty");
  number("--deadline", &o->deadline, 1, 86400,
         "an engine that has requests and says nothing for N seconds is killed");
  number("--seed", &o->seed, 0, UINT64_MAX, "of the workload, of routes and of what is killed");
  app.add_option("--engine", o->engine, "the program quire_engine [in the same folder]")
      ->type_name("FILE");
  app.add_option("--store", o->store, "the program redis-server or valkey-server [redis-server]")
      ->type_name("FILE");
  app.add_option("--store-bytes", o->store_bytes, "memory of the store [256M]")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(uint64_t{1} << 20, uint64_t{1} << 50).description(""))
      ->type_name("BYTES");
  app.add_option("--json", o->json, "write the table to a file")->type_name("FILE");
  app.add_option("engine_options", o->engine_options, "after --: options of quire_engine")
      ->type_name("OPTION");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? kDone : kUsage;
    return false;
  }
  return true;
}

}  // namespace fleet
