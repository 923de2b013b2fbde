# Flags and the three shapes of target: a room of core, a module, a test.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${QUIRE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUIRE_CCACHE})
  if(QUIRE_UNITY)  # without them it caches nothing that has precompiled headers
    list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
endif()

add_library(quire_flags INTERFACE)
target_compile_options(quire_flags INTERFACE -Wall -Wextra -Wshadow -Wvla
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 warns of memcpy overlaps inside std::string's operator+ (its bug 105651), and under sanitizers of values it merely cannot follow.
  target_compile_options(quire_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  if(QUIRE_SANITIZE)
    target_compile_options(quire_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endif()
if(QUIRE_WERROR)
  target_compile_options(quire_flags INTERFACE -Werror)
endif()
if(QUIRE_SANITIZE)
  add_compile_options(-fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${QUIRE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # What g++ defines itself. DLPack's functions are called through types of ours, which is what a C ABI is for.
    string(REGEX REPLACE ",.*" "" first ${QUIRE_SANITIZE})
    string(TOUPPER ${first} first)
    add_compile_options(-D__SANITIZE_${first}__=1 -fno-sanitize=function)
    # Programs in C link libraries in C++.
    add_link_options($<$<LINK_LANGUAGE:C>:-fsanitize-link-c++-runtime> $<$<LINK_LANGUAGE:C>:-lstdc++>)
  endif()
endif()

# quire_cuda_version(OUT FOLDER): CUDA_VERSION of the folder's cuda.h, 0 where there is none.
function(quire_cuda_version out folder)
  set(version 0)
  if(EXISTS ${folder}/cuda.h)
    file(STRINGS ${folder}/cuda.h line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+" version "${line}")
  endif()
  set(${out} ${version} PARENT_SCOPE)
endfunction()

# quire_unity(TARGET [sources that stand alone...]): where QUIRE_UNITY is on, the target is compiled as one unit, but for sources that have names
# in common with the others; a later call adds such sources. tests/mutants/run.sh compiles such a unit anew.
function(quire_unity target)
  if(QUIRE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# quire_optimised(TARGET): of a test whose own code writes or compares many bytes. Without optimisation it would take most of the time.
function(quire_optimised target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# quire_precompiled(TARGET): where QUIRE_UNITY is on, a test that is not optimised finds the headers that nearly all tests include compiled
# already. (In optimised ones g++ 12 would warn of what it inlined out of them.)
function(quire_precompiled target)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  if(NOT QUIRE_UNITY OR NOT CMAKE_CXX_FLAGS_${type} MATCHES "-O0")
    return()
  endif()
  if(NOT TARGET quire_test_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cc "int main() {}\n")
    add_executable(quire_test_headers ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(quire_test_headers PRIVATE quire_flags GTest::gtest)
    set_target_properties(quire_test_headers PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_precompile_headers(quire_test_headers PRIVATE <gtest/gtest.h> <algorithm> <array> <atomic> <chrono> <cmath> <cstring> <deque>
      <filesystem> <fstream> <functional> <map> <mutex> <optional> <random> <set> <span> <sstream> <string> <thread> <unordered_map> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM quire_test_headers)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)  # ccache wants it
endfunction()

# quire_room(NAME sources... [ALONE sources...]): adds the sources of one room to the core, of which quire_unity makes a unit per room.
function(quire_room name)
  cmake_parse_arguments(arg "" "" "ALONE" ${ARGN})
  set(together ${arg_UNPARSED_ARGUMENTS})
  list(TRANSFORM together PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM arg_ALONE PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(quire_core PRIVATE ${together} ${arg_ALONE})
  set_source_files_properties(${together} TARGET_DIRECTORY quire_core PROPERTIES UNITY_GROUP ${name})
endfunction()

# quire_module(KIND NAME sources...): libquire_<kind>_<name>.so in the module folder. Modules see abi/include, drivers/common (as "common/...") and
# <quire/sdk/note.h> only and never link libquire.
function(quire_module kind name)
  set(target quire_${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE quire_abi quire_flags)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/drivers ${CMAKE_BINARY_DIR}/sdk)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${QUIRE_MODULE_DIR} PREFIX lib)
  target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-Bsymbolic
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/module_${kind}.map)
  if(NOT QUIRE_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/quire/0 COMPONENT ${kind}_${name})
  set_property(GLOBAL APPEND PROPERTY QUIRE_MODULE_TARGETS ${target})
endfunction()

# quire_timeout(NAME SECONDS): how long a test may take; six times as long where it is emulated.
function(quire_timeout name seconds)
  if(CMAKE_CROSSCOMPILING)
    math(EXPR seconds "6 * ${seconds}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${seconds})
endfunction()

# quire_test(NAME LABEL sources... [LIBS libs...]): a GoogleTest binary over the core, one ctest per binary, labelled.
function(quire_test name label)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE quire_core quire_flags GTest::gtest GTest::gtest_main ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  quire_unity(${name})
  quire_precompiled(${name})
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label})
  quire_timeout(${name} ${arg_TIMEOUT})
endfunction()

# quire_client_test(NAME LABEL sources...): a GoogleTest binary over the shared library, as an engine links it, with the null driver at hand.
function(quire_client_test name label)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE quire quire_flags GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE QUIRE_MODULES="${QUIRE_MODULE_DIR}")
  add_dependencies(${name} quire_driver_null quire_driver_cpu quire_connector_null)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  quire_unity(${name})
  quire_precompiled(${name})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label})
  quire_timeout(${name} 300)
endfunction()
