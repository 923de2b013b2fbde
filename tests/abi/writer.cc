// writer INCLUDE_DIR OUTPUT: writes the C program that prints every size, offset and value of the public headers.
#include <cstdio>
#include <fstream>

#include "headers.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const quire::abi::Headers headers = quire::abi::read_headers(argv[1]);
  for (const std::string& text : headers.unread) std::fprintf(stderr, "not understood: %s\n", text.c_str());
  if (!headers.unread.empty() || headers.structs.empty()) return 1;
  std::ofstream out(argv[2], std::ios::trunc);
  out << "/* Written from the public headers; see tests/abi. */\n"
         "#include <quire/connector.h>\n#include <quire/driver.h>\n#include <quire/quire.h>\n#include <stddef.h>\n#include <stdio.h>\n\n"
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
