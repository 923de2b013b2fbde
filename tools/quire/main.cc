// The quire command line: a client of the C ABI, nothing private.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "client/client.h"
#include "quire/commands.h"

namespace quire::tools {

void print_json(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

}  // namespace quire::tools

int main(int argc, char** argv) {
  try {
    CLI::App app("Plans, inspects and replays the KV cache of hybrid models.", "quire");
    app.set_version_flag("--version", quire::client::to_string(quire_version()));
    app.require_subcommand(1);
    quire::tools::add_call(&app);
    quire::tools::add_info(&app);
    quire::tools::add_plan(&app);
    quire::tools::add_replay(&app);
    CLI11_PARSE(app, argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "quire: %s\n", failure.what());
    return 1;
  }
  return 0;
}
