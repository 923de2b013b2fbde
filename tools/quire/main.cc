// The quire command line: a client of the C ABI, nothing private.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/help.h"
#include "quire/text.h"

namespace quire::tools {

void print_json(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw client::Failure(QUIRE_UNAVAILABLE, "cannot write " + path);
}

}  // namespace quire::tools

namespace {

constexpr int kError = 1;
constexpr int kUsage = 2;

int fail(int code, const std::string& what) {
  std::fputs(quire::tools::wrapped("quire: " + quire::tools::printable(what), 2).c_str(), stderr);
  return code;
}

int fail_usage(const CLI::App& app, const std::string& what) {
  std::string command = "quire";
  for (auto parsed = app.get_subcommands(); !parsed.empty(); parsed = parsed[0]->get_subcommands()) command += " " + parsed[0]->get_name();
  return fail(kUsage, what + " (see '" + command + " --help')");
}

// Letters to insert, delete or replace.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// Why `word` is not a command, or nothing where it is one.
std::string not_a_command(const CLI::App& app, const std::string& word) {
  constexpr size_t kNear = 2;
  std::string all;
  std::string near;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return {};
    all += (all.empty() ? "" : ", ") + command->get_name();
    if (near.empty() && distance(command->get_name(), word) <= kNear) near = command->get_name();
  }
  return "'" + word + "' is not a command; " + (near.empty() ? "" : "did you mean '" + near + "'? ") + "commands are " + all;
}

int run(int argc, char** argv) {
  CLI::App app("Plans, inspects and replays the KV cache of hybrid models.", "quire");
  try {
    app.set_version_flag("--version", quire::client::to_string(quire_version()));
    app.require_subcommand(1);
    app.formatter(std::make_shared<quire::tools::HelpFormatter>());
    app.footer("Exit status: 0; 1 for an error; 2 for a command line that cannot be understood.");
    quire::tools::add_call(&app);
    quire::tools::add_compare(&app);
    quire::tools::add_info(&app);
    quire::tools::add_plan(&app);
    quire::tools::add_replay(&app);
    quire::tools::add_sweep(&app);
    quire::tools::add_tier(&app);
    if (argc > 1 && argv[1][0] != '-') {
      const std::string why = not_a_command(app, argv[1]);
      if (!why.empty()) return fail_usage(app, why);
    }
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failure) {
    if (failure.get_exit_code() == 0) return app.exit(failure);  // --help and --version
    return fail_usage(app, failure.what());
  } catch (const quire::tools::Usage& failure) {
    return fail_usage(app, failure.what());
  } catch (const std::exception& failure) {
    return fail(kError, failure.what());
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
