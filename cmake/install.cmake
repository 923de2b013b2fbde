# What is installed: library, modules, headers, a relocatable pkg-config file, a CMake package with quire_add_driver, the conformance
# kit with a driver to copy and its guide, Debian packages.
include(CMakePackageConfigHelpers)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(quire_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quire)
set(QUIRE_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/quire/0)

# Paths from the folder of the pkg-config file to the prefix, so that the tree may be moved.
file(RELATIVE_PATH QUIRE_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" QUIRE_PC_TO_PREFIX "${QUIRE_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/quire.pc.in ${CMAKE_BINARY_DIR}/cmake/quire.pc @ONLY)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/quireConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/quireConfig.cmake
  INSTALL_DESTINATION ${quire_cmake_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR QUIRE_PLUGIN_DIR)
# While the major version is 0 a minor version promises nothing to the next.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/quireConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(FILES ${CMAKE_BINARY_DIR}/cmake/quire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/cmake/quireConfig.cmake ${CMAKE_BINARY_DIR}/cmake/quireConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/quireDriver.cmake ${PROJECT_SOURCE_DIR}/cmake/module_driver.map
  ${PROJECT_SOURCE_DIR}/cmake/module_connector.map DESTINATION ${quire_cmake_dir} COMPONENT dev)
install(EXPORT quireTargets NAMESPACE quire:: DESTINATION ${quire_cmake_dir} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/drivers/common/note.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire/sdk COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/docs/write-a-driver.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT driver_dev)

# Debian packages: library, dev, dev of drivers, tools, and one per module. Driver packages need a library of their ABI,
# never of one exact version.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "quire developers <quire@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "KV cache of hybrid language models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENTS_GROUPING IGNORE)
find_program(QUIRE_SHLIBDEPS dpkg-shlibdeps)
if(QUIRE_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
endif()
get_property(quire_modules GLOBAL PROPERTY QUIRE_MODULE_TARGETS)
set(CPACK_COMPONENTS_ALL library dev driver_dev tools)
function(quire_deb component package depends text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${text}" PARENT_SCOPE)
endfunction()
quire_deb(library libquire0 "" "The library that engines link.")
quire_deb(dev libquire-dev "libquire0 (= ${PROJECT_VERSION})" "Headers, pkg-config file and CMake package.")
quire_deb(driver_dev libquire-driver-dev "libquire-dev (= ${PROJECT_VERSION})"
  "A driver to copy, and the conformance kit, if it was built.")
quire_deb(tools quire-tools "libquire0 (>= ${PROJECT_VERSION})" "The quire command line.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_PROVIDES "quire-driver-abi-0.2, quire-connector-abi-0.2")
foreach(module ${quire_modules})
  string(REPLACE "quire_" "" component ${module})
  string(REPLACE "_" "-" package quire-${component})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(REGEX MATCH "^[a-z]+" kind ${component})
  quire_deb(${component} ${package} "quire-${kind}-abi-0.2" "A ${kind} module of quire: ${component}.")
endforeach()
include(CPack)
