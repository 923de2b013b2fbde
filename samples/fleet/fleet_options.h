// fleet_options.h: the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fleet {

struct Options {
  uint64_t engines = 3;
  uint64_t in_flight = 12;  // requests at once, of all engines
  uint64_t kill_every = 0;  // an engine is killed after every so many answers; 0 = never
  uint64_t stop_every = 0;  // an engine is stopped, as if it hung; 0 = never
  bool kill_store = false;  // once, in the middle; it comes back empty
  uint64_t deadline = 30;   // seconds that an engine may say nothing while it has requests
  uint64_t seed = 1;
  std::string engine;                  // program
  std::string store = "redis-server";  // program
  uint64_t store_bytes = uint64_t{256} << 20;
  std::string json;  // file; empty = none
  std::vector<std::string> engine_options;
};

// Returns false if help or an error was printed; *exit_code says what main returns.
bool parse_options(int argc, char** argv, Options* options, int* exit_code);

}  // namespace fleet
