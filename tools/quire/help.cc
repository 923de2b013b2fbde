#include "quire/help.h"

#include <map>

#include "quire/text.h"

namespace quire::tools {
namespace {

constexpr size_t kTextColumn = 26;

// A name, and its text beside it, or below it where the name is long.
std::string entry(const std::string& name, const std::string& text) {
  const std::string left = "  " + name;
  const std::string space =
      left.size() + 2 <= kTextColumn ? std::string(kTextColumn - left.size(), ' ') : "\n" + std::string(kTextColumn, ' ');
  // Wrapped as a paragraph that begins at the column: the first line gets its spaces back.
  const std::string body = wrapped(std::string(kTextColumn, '.') + text, kTextColumn);
  return left + space + body.substr(kTextColumn);
}

// What stands behind an option; numbers are N.
std::string value_name(const CLI::Option* option) {
  static const std::map<std::string, std::string> names = {
      {"as", "ARCHITECTURE"}, {"compat", "upstream"},        {"connector", "NAME"},  {"driver", "NAME"},        {"fit", "WHAT"},
      {"format", "FORMAT"},   {"kv-dtype", "TYPE"},          {"layout", "ORDER"},    {"memory", "SIZE"},        {"model", "CONFIG"},
      {"policy", "POLICY"},   {"prefer-layout", "ORDER,.."}, {"state-mode", "MODE"}, {"stage-layers", "N,.."},  {"svg", "FILE"},
      {"with", "OPTIONS"},    {"speculative", "[DRAFT]"},    {"report", "FILE"},     {"think-time", "SECONDS"}, {"step-time", "MS"},
      {"token-time", "US"}};
  const auto known = names.find(option->get_single_name());
  if (known != names.end()) return known->second;
  return option->get_type_name().starts_with("UINT") ? "N" : "TEXT";
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = option->get_name(is_positional, true);
  for (size_t comma = name.find(','); comma != std::string::npos; comma = name.find(',', comma + 2)) name.insert(comma + 1, " ");
  const bool takes = option->get_expected_max() != 0 && !is_positional;
  std::string text = option->get_description();
  if (!option->get_default_str().empty()) text += "; default " + option->get_default_str();
  return entry(name + (takes ? " " + value_name(option) : ""), text);
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const { return entry(command->get_name(), command->get_description()); }

std::string HelpFormatter::make_description(const CLI::App* app) const { return wrapped(app->get_description(), 0); }

}  // namespace quire::tools
