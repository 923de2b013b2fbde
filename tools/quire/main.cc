// The quire command line: a client of the C ABI, nothing private.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "client/client.h"
#include "quire/commands.h"

namespace quire::tools {

void print_json(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

}  // namespace quire::tools

namespace {

// File names and texts from outside must not steer the terminal.
std::string printable(const char* text) {
  std::string out;
  for (; *text != '\0'; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    char escaped[8] = {*text};
    if (byte < 0x20 || byte == 0x7F) std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped;
  }
  return out;
}

int run(int argc, char** argv) {
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
    std::fprintf(stderr, "quire: %s\n", printable(failure.what()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Where standard output is closed, the next file that is opened would become it.
  if (fcntl(1, F_GETFD) == -1) {
    std::fprintf(stderr, "quire: cannot write to standard output: %s\n", std::strerror(errno));
    return 1;
  }
  const int code = run(argc, argv);
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "quire: cannot write to standard output: %s\n", errno != 0 ? std::strerror(errno) : "an earlier write failed");
  return 1;
}
