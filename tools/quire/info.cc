// quire info: what this library is, which modules it finds, and which device it opens.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;

std::vector<quire_probe_info> probe(quire_runtime* runtime) {
  client::Error error;
  uint64_t count = 0;
  client::check(quire_runtime_probe(runtime, nullptr, sizeof(quire_probe_info), 0, &count, &error), error);
  std::vector<quire_probe_info> modules(count, client::sized<quire_probe_info>());
  client::check(quire_runtime_probe(runtime, modules.data(), sizeof(quire_probe_info), modules.size(), &count, &error), error);
  modules.resize(count);
  return modules;
}

Json device_json(quire_runtime* runtime, uint32_t ordinal) {
  quire_device* opened = nullptr;
  client::Error error;
  const quire_code code = quire_device_open(runtime, ordinal, &opened, &error);
  if (code != QUIRE_OK) return {{"code", client::to_string(quire_code_name(code))}, {"reason", error.message}};
  const client::Device device(opened);
  auto info = client::sized<quire_device_info>();
  client::check(quire_device_get_info(device.get(), &info, &error), error);
  return {{"code", "OK"},
          {"driver", info.driver},
          {"name", info.name},
          {"device_type", info.device_type},
          {"device_id", info.device_id},
          {"total_bytes", info.total_bytes},
          {"free_bytes", info.free_bytes},
          {"alignment", info.alignment},
          {"wave_width", info.wave_width}};
}

Json collect(const std::string& driver) {
  const client::Runtime runtime = client::open_runtime(driver);
  const uint32_t abi = quire_abi_version();
  Json json = {{"schema", "quire.info/1"},
               {"version", client::to_string(quire_version())},
               {"abi", std::to_string(abi >> 16) + "." + std::to_string(abi & 0xffff)}};
  json["modules"] = Json::array();
  for (const quire_probe_info& module : probe(runtime.get())) {
    json["modules"].push_back({{"kind", module.kind == 1 ? "driver" : "connector"},
                               {"name", module.name},
                               {"code", client::to_string(quire_code_name(module.code))},
                               {"step", module.step},
                               {"milliseconds", static_cast<double>(module.duration_ns) / 1e6},
                               {"path", module.path},
                               {"reason", module.reason}});
  }
  json["device"] = device_json(runtime.get(), 0);
  return json;
}

// A driver that was asked for by name must open; auto may find none.
bool names_driver(const std::string& option) {
  const char* const set = std::getenv("QUIRE_DRIVER");
  const std::string asked = !option.empty() ? option : set != nullptr ? set : "";
  return !asked.empty() && asked != "auto" && asked != "none";
}

std::string no_device(const Json& device) { return device["code"].get<std::string>() + ": " + device["reason"].get<std::string>(); }

std::string text_of(const Json& value) { return value.get<std::string>(); }

// The steps of negotiation, by number (see quire_probe_info.step).
const char* step_text(int step) {
  static constexpr const char* kSteps[] = {"looked for",     "file accepted",     "note read",    "mapped",        "query found",
                                           "query answered", "manifest accepted", "table copied", "instance made", "usable"};
  return step >= 0 && step < 10 ? kSteps[step] : "?";
}

void print_library(const Json& json) {
  std::printf("quire %s, ABI %s\n\n", text_of(json["version"]).c_str(), text_of(json["abi"]).c_str());
}

void print_device(const Json& device) {
  if (device["code"] != "OK") {
    std::printf("%s", wrapped("\ndevice: none (" + no_device(device) + ")", 2).c_str());
    return;
  }
  std::printf("\ndevice: %s, %s, %s\n", text_of(device["driver"]).c_str(), printable(text_of(device["name"])).c_str(),
              client::bytes_text(device["total_bytes"].get<uint64_t>()).c_str());
}

// Paths stand on a line of their own: nobody can break them. Reasons mostly begin with the path.
void print_place(const Json& module) {
  const std::string path = printable(text_of(module["path"]));
  std::string reason = printable(text_of(module["reason"]));
  if (!path.empty() && reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  if (!path.empty()) std::printf("    %s\n", path.c_str());
  if (!reason.empty()) std::printf("    %s", wrapped(reason, 4).c_str());
}

// One line per candidate, and below it where it is and why it was refused.
void print_modules(const Json& json, bool probe) {
  print_library(json);
  std::vector<std::vector<std::string>> rows = {{"kind", "module", "result"}};
  if (probe) rows[0].insert(rows[0].end(), {"step reached", "ms"});
  for (const Json& module : json["modules"]) {
    const std::string name = text_of(module["name"]);
    rows.push_back({text_of(module["kind"]), name.empty() ? "-" : name, text_of(module["code"])});
    if (!probe) continue;
    char ms[32];
    std::snprintf(ms, sizeof ms, "%.3f", module["milliseconds"].get<double>());
    rows.back().insert(rows.back().end(), {step_text(module["step"].get<int>()), ms});
  }
  const std::string lines = table(rows, 4);
  size_t from = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t end = lines.find('\n', from) + 1;
    std::printf("%s", lines.substr(from, end - from).c_str());
    if (i != 0) print_place(json["modules"][i - 1]);
    from = end;
  }
  print_device(json["device"]);
}

void print_model(const std::string& path, const std::string& as, bool as_json) {
  const client::Model model = client::model_of_text(client::read_model_text(path, as), path);
  const std::string table = client::describe(model.get());
  if (!as_json) {
    std::printf("%s", table.c_str());
    return;
  }
  auto facts = client::sized<quire_model_info>();
  client::Error error;
  client::check(quire_model_get_info(model.get(), &facts, &error), error);
  print_json({{"schema", "quire.model/1"},
              {"architecture", facts.architecture},
              {"layers", facts.num_layers},
              {"caches", facts.num_caches},
              {"max_model_len", facts.max_model_len},
              {"table", table}});
}

}  // namespace

void add_info(CLI::App* app) {
  struct Arguments {
    std::string driver;
    bool probe = false;
    std::string model;
    std::string as;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand("info", "Version, modules found and the device that would be used");
  command->add_option("--driver", arguments->driver, "instead of QUIRE_DRIVER: a name, a list a,b, auto or none");
  command->add_flag("--probe", arguments->probe, "every candidate: how far it came, why, and how long it took");
  command->add_option("--model", arguments->model, "print the caches of this config.json or layer file instead");
  command->add_option("--as", arguments->as, "read the config of --model like one of this architecture");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] {
    if (!arguments->as.empty() && arguments->model.empty()) throw Usage("--as: without --model no config is read");
    if (!arguments->model.empty()) return print_model(arguments->model, arguments->as, arguments->json);
    const Json json = collect(arguments->driver);
    arguments->json ? print_json(json) : print_modules(json, arguments->probe);
    if (names_driver(arguments->driver) && json["device"]["code"] != "OK") throw std::runtime_error(no_device(json["device"]));
  });
}

}  // namespace quire::tools
