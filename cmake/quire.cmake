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
endif()

add_library(quire_flags INTERFACE)
target_compile_options(quire_flags INTERFACE -Wall -Wextra -Wshadow -Wvla
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
if(QUIRE_WERROR)
  target_compile_options(quire_flags INTERFACE -Werror)
endif()
if(QUIRE_SANITIZE)
  add_compile_options(-fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${QUIRE_SANITIZE})
endif()

# quire_room(NAME sources...): adds the sources of one room to the core.
function(quire_room name)
  foreach(source ${ARGN})
    target_sources(quire_core PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
endfunction()

# quire_module(KIND NAME sources...): libquire_<kind>_<name>.so in the module folder. Modules see abi/include only and never link libquire.
function(quire_module kind name)
  set(target quire_${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE quire_abi quire_flags)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${QUIRE_MODULE_DIR} PREFIX lib)
  target_link_options(${target} PRIVATE -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-Bsymbolic
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/module_${kind}.map)
  if(NOT QUIRE_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/quire/0)
endfunction()

# quire_test(NAME LABEL sources... [LIBS libs...]): a GoogleTest binary over the core, one ctest per binary, labelled.
function(quire_test name label)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE quire_core quire_flags GTest::gtest GTest::gtest_main ${arg_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "QUIRE_SHARED=${PROJECT_SOURCE_DIR}/../shared")
endfunction()
