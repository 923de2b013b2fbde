// rows_writer INCLUDE_DIR ROWS_DIR OUTPUT: checks that every exported function has its row in ROWS_DIR/<header>.cc, and writes the names of
// all parameters for the rows. A function without a row, or a row without a function, fails the build and says what to do.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "headers.h"

namespace {

using quire::abi::Function;

// "cache" of "cache_rows"; another name stays as it is.
std::string header_of(const std::string& stem) {
  constexpr std::string_view kEnd = "_rows";
  return stem.ends_with(kEnd) ? stem.substr(0, stem.size() - kEnd.size()) : stem;
}

// Names of ROW(...) in each row file.
std::map<std::string, std::set<std::string>> read_rows(const std::string& folder) {
  static const std::regex row(R"(\nROW\((\w+)\))");
  std::map<std::string, std::set<std::string>> rows;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator i(text.begin(), text.end(), row), end; i != end; ++i) rows[header_of(entry.path().stem())].insert((*i)[1]);
  }
  return rows;
}

int check(const std::vector<Function>& functions, const std::map<std::string, std::set<std::string>>& rows) {
  int missing = 0;
  std::set<std::string> known;
  for (const Function& function : functions) {
    known.insert(function.name);
    const auto file = rows.find(function.header);
    if (file != rows.end() && file->second.count(function.name) != 0) continue;
    ++missing;
    std::string parameters;
    for (const std::string& name : function.parameters) parameters += (parameters.empty() ? "" : ", ") + name;
    std::fprintf(
        stderr,
        "%s (quire/%s.h) has no row in the bad-argument table: add to tests/unit/c_api/rows/%s_rows.cc  ROW(%s) { ... call(%s); }  with "
        "valid arguments; the wrong ones are made from its prototype (tests/unit/c_api/rows/rows.h)\n",
        function.name.c_str(), function.header.c_str(), function.header.c_str(), function.name.c_str(), parameters.c_str());
  }
  for (const auto& [file, names] : rows) {
    for (const std::string& name : names) {
      if (known.count(name) != 0) continue;
      ++missing;
      std::fprintf(stderr, "tests/unit/c_api/rows/%s_rows.cc has a row for %s, which no header declares: remove it\n", file.c_str(),
                   name.c_str());
    }
  }
  return missing;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::vector<Function> functions = quire::abi::read_headers(argv[1]).declared;
  // Implemented by modules, not by the library.
  std::erase_if(functions, [](const Function& f) { return f.name == "quire_driver_query" || f.name == "quire_connector_query"; });
  if (functions.empty() || check(functions, read_rows(argv[2])) != 0) return 1;
  std::ofstream out(argv[3], std::ios::trunc);
  out << "// Written from the public headers; see tests/abi.\n#include \"rows.h\"\n\nnamespace quire::test {\n\n"
         "const std::vector<std::string>& parameters_of(const std::string& function) {\n"
         "  static const std::map<std::string, std::vector<std::string>> all = {\n";
  for (const Function& function : functions) {
    out << "      {\"" << function.name << "\", {";
    for (const std::string& name : function.parameters) out << '"' << name << "\", ";
    out << "}},\n";
  }
  out << "  };\n  static const std::vector<std::string> none;\n  const auto found = all.find(function);\n"
         "  return found == all.end() ? none : found->second;\n}\n\n}  // namespace quire::test\n";
  return out.good() ? 0 : 1;
}
