// quire tier: what tiers keep. It looks at files by itself instead of through the connector: LIST
// has neither times nor what is no object, and io_uring is forbidden in many containers.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/record_report.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

struct InspectArguments {
  std::string directory;
  bool list = false;
  bool no_verify = false;
  bool json = false;
};

void inspect(const InspectArguments& arguments) {
  RecordReport report;
  report.directory = arguments.directory;
  report.checked = !arguments.no_verify;
  report.lists = arguments.list;
  report.files = read_record_files(arguments.directory, report.checked);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  report.now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  arguments.json ? print_json(record_json(report)) : print_records(report);
  const uint64_t bad = count_bad(report.files);
  if (bad == 0) return;
  throw client::Failure(QUIRE_DATA_LOSS,
                        with_commas(bad) + " damaged or not readable, of " + counted(report.files.objects.size(), "object"));
}

}  // namespace

void add_tier(CLI::App* app) {
  CLI::App* tier = app->add_subcommand("tier", "What tiers keep on disk: lists and verifies records");
  tier->require_subcommand(1);
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = tier->add_subcommand("inspect", "Lists and verifies the records that the connector 'file' keeps in a directory");
  command->add_option("directory", arguments->directory, "the connector's directory")->required();
  command->add_flag("--list", arguments->list, "also one line for each object");
  command->add_flag("--no-verify", arguments->no_verify, "read headers only, and compare no bytes with their checksums");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] { inspect(*arguments); });
}

}  // namespace quire::tools
