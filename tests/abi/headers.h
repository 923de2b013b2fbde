// Reads the public headers as text: enough C to know every struct, field, enumerator, macro and function by name.
#pragma once

#include <string>
#include <vector>

namespace quire::abi {

struct Struct {
  std::string name;
  std::vector<std::string> fields;  // in order
};

struct Function {
  std::string name;
  std::string header;                   // without .h
  std::vector<std::string> parameters;  // their names
};

struct Headers {
  std::vector<Struct> structs;
  std::vector<std::string> enumerators;
  std::vector<std::string> macros;      // with a number as value
  std::vector<std::string> functions;   // names marked QUIRE_API
  std::vector<std::string> prototypes;  // the same, as normalised text
  std::vector<Function> declared;       // the same, with their parameters
  std::vector<std::string> unread;      // declarations that were not understood
};

// All *.h below include_dir/quire, by name.
Headers read_headers(const std::string& include_dir);

}  // namespace quire::abi
