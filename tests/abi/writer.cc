// writer INCLUDE_DIR OUTPUT: writes the C program that prints every size, offset and value of the public headers.
// writer --witness INCLUDE_DIR OUTPUT: writes a library that uses every struct and function of them.
#include <cstdio>
#include <fstream>
#include <string>

#include "headers.h"

namespace {

// A library that has every function of the headers and takes every struct, so that tools for binaries see all of the ABI.
int write_witness(const quire::abi::Headers& headers, const char* output) {
  std::ofstream out(output, std::ios::trunc);
  out << "#include <quire/connector.h>\n#include <quire/driver.h>\n#include <quire/metrics.h>\n#include <quire/quire.h>\n#include "
         "<quire/session.h>\n#include "
         "<quire/tier.h>\n";
  for (const std::string& prototype : headers.prototypes) out << "QUIRE_API " << prototype << " { __builtin_trap(); }\n";
  for (const quire::abi::Struct& record : headers.structs) {
    out << "void witness_" << record.name << "(" << record.name << " *one);\nvoid witness_" << record.name << "(" << record.name
        << " *one) { (void)one; }\n";
  }
  return out.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--witness") return write_witness(quire::abi::read_headers(argv[2]), argv[3]);
  if (argc != 3) return 2;
  const quire::abi::Headers headers = quire::abi::read_headers(argv[1]);
  for (const std::string& text : headers.unread) std::fprintf(stderr, "not understood: %s\n", text.c_str());
  if (!headers.unread.empty() || headers.structs.empty()) return 1;
  std::ofstream out(argv[2], std::ios::trunc);
  out << "/* Written from the public headers; see tests/abi. */\n"
         "#include <quire/connector.h>\n#include <quire/driver.h>\n#include <quire/metrics.h>\n#include <quire/quire.h>\n#include "
         "<quire/session.h>\n#include "
         "<quire/tier.h>\n"
         "#include <stddef.h>\n#include <stdio.h>\n\n"
         "int main(void) {\n";
  for (const quire::abi::Struct& record : headers.structs) {
    out << "  printf(\"struct " << record.name << " %u\\n\", (unsigned)sizeof(" << record.name << "));\n";
    for (const std::string& field : record.fields) {
      out << "  printf(\"  %u %u " << field << "\\n\", (unsigned)offsetof(" << record.name << ", " << field << "), (unsigned)sizeof((("
          << record.name << " *)0)->" << field << "));\n";
    }
  }
  for (const std::string& name : headers.enumerators) out << "  printf(\"enum " << name << " %ld\\n\", (long)" << name << ");\n";
  for (const std::string& name : headers.macros) out << "  printf(\"macro " << name << " %ld\\n\", (long)" << name << ");\n";
  for (const std::string& text : headers.prototypes) out << "  puts(\"function " << text << "\");\n";
  out << "  return 0;\n}\n";
  return out.good() ? 0 : 1;
}
