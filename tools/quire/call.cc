// quire call: an extension op of the driver or of a connector, by name, with arguments read as its signature says.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"
#include "quire/text.h"

namespace quire::tools {
namespace {

using Json = nlohmann::ordered_json;
using client::to_str;
using client::to_string;
using OpHandle = std::unique_ptr<quire_extension, client::Release<quire_extension_release>>;

struct Arguments {
  std::string name;
  std::vector<std::string> values;
  std::string driver;
  std::string connector;
  bool list = false;
  bool native = false;
  bool json = false;
};

std::vector<std::string> parameters_of(const std::string& signature) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : signature.substr(signature.find('(') + 1)) {
    if (c != ',' && c != ')') {
      word += c;
      continue;
    }
    if (!word.empty() && word != "self" && word != "error") words.push_back(word);
    word.clear();
  }
  return words;
}

template <typename From>
uint64_t bits_of(From value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// The whole text must be a number of the type.
template <typename Parse>
auto number(const std::string& text, const std::string& type, Parse parse) {
  size_t used = 0;
  decltype(parse(text, &used)) value{};
  try {
    value = parse(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (text.empty() || used != text.size()) throw Usage("'" + text + "' is no " + type);
  return value;
}

uint64_t unsigned_number(const std::string& text, const std::string& type, uint64_t limit) {
  const uint64_t value = number(text, type, [](const std::string& t, size_t* used) { return std::stoull(t, used, 0); });
  if (text[0] == '-' || value > limit) throw Usage("'" + text + "' is no " + type);
  return value;
}

int64_t signed_number(const std::string& text, const std::string& type, int64_t low, int64_t high) {
  const int64_t value = number(text, type, [](const std::string& t, size_t* used) { return std::stoll(t, used, 0); });
  if (value < low || value > high) throw Usage("'" + text + "' is no " + type);
  return value;
}

quire_value value_of(const std::string& type, const std::string& text, std::deque<quire_str>* strings) {
  if (type == "i32") return {QUIRE_VALUE_I32, 0, bits_of(static_cast<int32_t>(signed_number(text, type, INT32_MIN, INT32_MAX)))};
  if (type == "i64") return {QUIRE_VALUE_I64, 0, bits_of(signed_number(text, type, INT64_MIN, INT64_MAX))};
  if (type == "u32") return {QUIRE_VALUE_U32, 0, unsigned_number(text, type, UINT32_MAX)};
  if (type == "u64") return {QUIRE_VALUE_U64, 0, unsigned_number(text, type, UINT64_MAX)};
  if (type == "ptr") return {QUIRE_VALUE_POINTER, 0, unsigned_number(text, type, UINT64_MAX)};
  if (type == "f32") {
    const float value = number(text, type, [](const std::string& t, size_t* used) { return std::stof(t, used); });
    return {QUIRE_VALUE_F32, 0, bits_of(value)};
  }
  if (type == "f64") {
    const double value = number(text, type, [](const std::string& t, size_t* used) { return std::stod(t, used); });
    return {QUIRE_VALUE_F64, 0, bits_of(value)};
  }
  if (type == "str") {
    strings->push_back(to_str(text));
    return {QUIRE_VALUE_STR, 0, reinterpret_cast<uint64_t>(&strings->back())};
  }
  throw Usage("the command line has no way to write a " + type);
}

Json json_of(const quire_value& value) {
  switch (value.type) {
    case QUIRE_VALUE_VOID:
      return nullptr;
    case QUIRE_VALUE_I32:
      return static_cast<int32_t>(static_cast<uint32_t>(value.bits));
    case QUIRE_VALUE_I64:
      return static_cast<int64_t>(value.bits);
    case QUIRE_VALUE_F32: {
      float single = 0;
      std::memcpy(&single, &value.bits, sizeof single);
      return single;
    }
    case QUIRE_VALUE_F64: {
      double wide = 0;
      std::memcpy(&wide, &value.bits, sizeof wide);
      return wide;
    }
    default:
      return value.bits;
  }
}

void list(const Arguments& arguments, quire_runtime* runtime) {
  client::Error error;
  uint64_t count = 0;
  const quire_str connector = to_str(arguments.connector);
  client::check(quire_extension_list(runtime, connector, nullptr, 0, 0, &count, &error), error);
  std::vector<quire_extension_info> ops(count, client::sized<quire_extension_info>());
  client::check(quire_extension_list(runtime, connector, ops.data(), sizeof(quire_extension_info), count, &count, &error), error);
  Json json = {{"schema", "quire.ops/1"}, {"ops", Json::array()}};
  for (const quire_extension_info& op : ops) {
    json["ops"].push_back({{"name", to_string(op.name)},
                           {"version", op.version},
                           {"signature", to_string(op.signature)},
                           {"doc", to_string(op.doc)},
                           {"native", (op.flags & QUIRE_EXTENSION_NATIVE) != 0},
                           {"packed", (op.flags & QUIRE_EXTENSION_PACKED) != 0}});
    if (!arguments.json) {
      std::printf("%s %s\n    %s", to_string(op.name).c_str(), to_string(op.signature).c_str(), wrapped(to_string(op.doc), 4).c_str());
    }
  }
  if (arguments.json) return print_json(json);
  if (ops.empty()) std::printf("no extension ops\n");
}

void call(const Arguments& arguments) {
  const client::Runtime runtime = client::open_runtime(arguments.driver);
  if (arguments.list || arguments.name.empty()) return list(arguments, runtime.get());
  client::Error error;
  quire_extension* found = nullptr;
  client::check(quire_extension_find(runtime.get(), to_str(arguments.connector), to_str(arguments.name), 0,
                                     arguments.native ? QUIRE_EXTENSION_NATIVE : 0, &found, &error),
                error);
  const OpHandle op(found);
  auto info = client::sized<quire_extension_info>();
  client::check(quire_extension_get_info(op.get(), &info, &error), error);
  const std::vector<std::string> parameters = parameters_of(to_string(info.signature));
  if (parameters.size() != arguments.values.size()) {
    throw Usage(arguments.name + " takes " + std::to_string(parameters.size()) + " arguments (" + to_string(info.signature) +
                "), given are " + std::to_string(arguments.values.size()));
  }
  std::deque<quire_str> strings;
  std::vector<quire_value> values;
  for (size_t i = 0; i < parameters.size(); ++i) values.push_back(value_of(parameters[i], arguments.values[i], &strings));
  quire_value result{};
  client::check(quire_extension_call(op.get(), values.data(), values.size(), &result, &error), error);
  const Json answer = json_of(result);
  if (arguments.json) {
    print_json({{"schema", "quire.call/1"}, {"op", arguments.name}, {"signature", to_string(info.signature)}, {"result", answer}});
  } else if (!answer.is_null()) {
    std::printf("%s\n", answer.dump().c_str());
  }
}

}  // namespace

void add_call(CLI::App* app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app->add_subcommand("call", "Calls an extension op: quire call NAME ARGS; without a name lists them");
  command->add_option("name", arguments->name, "of the op");
  command->add_option("args", arguments->values, "one per parameter: numbers, texts, addresses; write negative ones after --");
  command->add_option("--driver", arguments->driver, "instead of QUIRE_DRIVER");
  command->add_option("--connector", arguments->connector, "an op of this connector instead of the driver's");
  command->add_flag("--list", arguments->list, "the ops, with their signatures");
  command->add_flag("--native", arguments->native, "insist on the native form (through libffi)");
  command->add_flag("--json", arguments->json, "as JSON");
  command->callback([arguments] { call(*arguments); });
}

}  // namespace quire::tools
