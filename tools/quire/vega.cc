#include "quire/vega.h"

#include <zlib.h>

#include <array>
#include <stdexcept>

// The assembler copies the files: a literal of half a megabyte would take the compiler a minute. What is declared has no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define QUIRE_FILE(name, file)                                          \
  __asm__(                                                              \
      ".pushsection .rodata\n"                                          \
      ".globl " #name                                                   \
      "\n"                                                              \
      ".hidden " #name "\n" #name ":\n.incbin \"" file                  \
      "\"\n"                                                            \
      ".globl " #name                                                   \
      "_end\n"                                                          \
      ".hidden " #name "_end\n" #name "_end:\n.byte 0\n.popsection\n"); \
  extern "C" const char name[], name##_end[]
// NOLINTEND(bugprone-macro-parentheses)

QUIRE_FILE(quire_vega, QUIRE_VEGA "/vega-5.21.0.min.js.gz");
QUIRE_FILE(quire_vega_lite, QUIRE_VEGA "/vega-lite-4.17.0.min.js.gz");
QUIRE_FILE(quire_vega_embed, QUIRE_VEGA "/vega-embed-6.20.0.min.js.gz");

namespace quire::tools {
namespace {

std::string inflated(const char* begin, const char* end) {
  constexpr int kGzip = 16;
  z_stream stream{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): zlib only reads it
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(begin));
  stream.avail_in = static_cast<uInt>(end - begin);
  std::array<char, 65536> piece;
  std::string out;
  int code = inflateInit2(&stream, kGzip + MAX_WBITS);
  while (code == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    code = inflate(&stream, Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::logic_error("a script of the report cannot be read");
  return out;
}

}  // namespace

std::string vega_script() { return inflated(quire_vega, quire_vega_end); }
std::string vega_lite_script() { return inflated(quire_vega_lite, quire_vega_lite_end); }
std::string vega_embed_script() { return inflated(quire_vega_embed, quire_vega_embed_end); }

}  // namespace quire::tools
