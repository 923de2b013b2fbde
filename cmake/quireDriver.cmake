# Modules outside of quire's tree: the flags that a module needs, written once.
set(quire_cmake_here ${CMAKE_CURRENT_LIST_DIR})

if(NOT TARGET quire::driver_sdk)
  add_library(quire::driver_sdk INTERFACE IMPORTED)
  target_include_directories(quire::driver_sdk INTERFACE ${quire_INCLUDE_DIR})
  target_link_options(quire::driver_sdk INTERFACE -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-z,defs -Wl,-Bsymbolic)
endif()

function(quire_add_module kind name)
  if(NOT name MATCHES "^[a-z0-9_-]+$")
    message(FATAL_ERROR "quire: '${name}' is no name of a module ([a-z0-9_-], 1 to 31)")
  endif()
  set(target quire_${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE quire::driver_sdk)
  target_link_options(${target} PRIVATE -Wl,--version-script=${quire_cmake_here}/module_${kind}.map)
  set_target_properties(${target} PROPERTIES PREFIX lib C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
endfunction()

# quire_add_driver(NAME sources...): target quire_driver_<NAME>, file libquire_driver_<NAME>.so.
function(quire_add_driver name)
  quire_add_module(driver ${name} ${ARGN})
endfunction()

# quire_add_connector(NAME sources...): the same for connectors.
function(quire_add_connector name)
  quire_add_module(connector ${name} ${ARGN})
endfunction()
