# Guards of optimised builds: a broken stack, an overrun of a buffer of known size and a jump to
# where no function begins end the process. What they cost: docs/performance.md.
option(QUIRE_HARDENING "guard stacks, buffers and jumps of optimised builds" ON)

include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

set(quire_shipped "$<AND:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>,$<COMPILE_LANGUAGE:C,CXX>>")
if(QUIRE_HARDENING AND NOT QUIRE_SANITIZE)
  add_compile_options("$<${quire_shipped}:-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  check_cxx_compiler_flag(-fcf-protection=full QUIRE_HAS_CF_PROTECTION)  # x86
  if(QUIRE_HAS_CF_PROTECTION)
    add_compile_options("$<${quire_shipped}:-fcf-protection=full>")
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()

# Messages name sources as the tree does, so that builds in other folders are equal byte for byte.
file(RELATIVE_PATH quire_up ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
add_compile_options("$<${quire_shipped}:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=;-ffile-prefix-map=${quire_up}=>")
# Installing replaces the search path of a program in its place, so the file keeps the length that
# the path had: no folder of the build may be in it.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
