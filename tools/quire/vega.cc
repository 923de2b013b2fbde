#include "quire/vega.h"

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

QUIRE_FILE(quire_vega, QUIRE_VEGA "/vega-5.21.0.min.js");
QUIRE_FILE(quire_vega_lite, QUIRE_VEGA "/vega-lite-4.17.0.min.js");
QUIRE_FILE(quire_vega_embed, QUIRE_VEGA "/vega-embed-6.20.0.min.js");

namespace quire::tools {

std::string_view vega_script() { return {quire_vega, quire_vega_end}; }
std::string_view vega_lite_script() { return {quire_vega_lite, quire_vega_lite_end}; }
std::string_view vega_embed_script() { return {quire_vega_embed, quire_vega_embed_end}; }

}  // namespace quire::tools
