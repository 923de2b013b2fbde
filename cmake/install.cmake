# What is installed: library, modules, headers, a relocatable pkg-config file, a CMake package with quire_add_driver, the conformance
# kit with a driver to copy and its guide; man pages and packages.
include(CMakePackageConfigHelpers)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
# Folders are 755 whatever the umask of whoever installs; files are 644 or 755 by install() itself.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
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
if(TARGET quire_static)
  # -lNAME of every library that the core links: archives too, so that what a program links is found where it is built.
  set(QUIRE_STATIC_NEEDS "")
  get_target_property(quire_needs quire_core LINK_LIBRARIES)
  foreach(library ${quire_needs})
    if(library MATCHES "/lib([^/]+)\\.(so|a)$")
      string(APPEND QUIRE_STATIC_NEEDS "-l${CMAKE_MATCH_1} ")
    endif()
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/quire-static.pc.in ${CMAKE_BINARY_DIR}/cmake/quire-static.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/quire-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT static)
endif()
install(FILES ${CMAKE_BINARY_DIR}/cmake/quireConfig.cmake ${CMAKE_BINARY_DIR}/cmake/quireConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/quireDriver.cmake ${PROJECT_SOURCE_DIR}/cmake/module_driver.map
  ${PROJECT_SOURCE_DIR}/cmake/module_connector.map DESTINATION ${quire_cmake_dir} COMPONENT dev)
install(EXPORT quireTargets NAMESPACE quire:: DESTINATION ${quire_cmake_dir} COMPONENT dev)
# Libraries of their own: libquire_<name>, with targets of their own.
set(quire_zmq_says "events of quire's KV cache over ZeroMQ")
set(quire_exporter_says "metrics of quire's KV cache over HTTP")
foreach(name zmq exporter)
  if(NOT TARGET quire_${name})
    continue()
  endif()
  string(SUBSTRING ${name} 0 1 initial)
  string(TOUPPER ${initial} initial)
  string(SUBSTRING ${name} 1 -1 rest)
  install(EXPORT quire${initial}${rest}Targets NAMESPACE quire:: DESTINATION ${quire_cmake_dir} COMPONENT ${name}_dev)
  set(QUIRE_LIBRARY ${name})
  set(QUIRE_LIBRARY_SAYS "${quire_${name}_says}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/quire-library.pc.in ${CMAKE_BINARY_DIR}/cmake/quire-${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/quire-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${name}_dev)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/drivers/common/note.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/quire/sdk COMPONENT dev)
file(GLOB quire_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/quire.1 ${PROJECT_SOURCE_DIR}/docs/man/quire-*.1
  ${PROJECT_SOURCE_DIR}/docs/man/quire_engine.1)
if(TARGET quire_generate)
  list(APPEND quire_pages ${PROJECT_SOURCE_DIR}/docs/man/quire_generate.1)
endif()
install(FILES ${quire_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/docs/completion/quire.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME quire COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/docs/completion/_quire DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/docs/completion/quire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT tools)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/quire COMPONENT tools)
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/quire_conformance.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT driver_dev)
install(FILES ${PROJECT_SOURCE_DIR}/docs/write-a-driver.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT driver_dev)

# Guides and samples lie as in the source tree, so that their links hold.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  ${PROJECT_SOURCE_DIR}/SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev
  PATTERN man EXCLUDE PATTERN site EXCLUDE PATTERN completion EXCLUDE PATTERN schemas EXCLUDE PATTERN Doxyfile EXCLUDE PATTERN "*.sh" EXCLUDE
  PATTERN write-a-driver.md EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev
  PATTERN go EXCLUDE PATTERN rust EXCLUDE PATTERN python EXCLUDE PATTERN "*.cmake" EXCLUDE PATTERN parts_test.c EXCLUDE PATTERN compare.sh EXCLUDE)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/samples/expected/compare.sh DESTINATION ${CMAKE_INSTALL_DOCDIR}/samples/expected COMPONENT dev)
# Links to headers, schemas and what is in the source tree alone.
file(RELATIVE_PATH quire_to_headers /p/${CMAKE_INSTALL_DOCDIR} /p/${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH quire_to_schemas /p/${CMAKE_INSTALL_DOCDIR} /p/${CMAKE_INSTALL_DATADIR}/quire/schemas)
foreach(component dev driver_dev)
  install(CODE "set(QUIRE_DOCUMENTS \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
  set(QUIRE_TO_HEADERS ${quire_to_headers})
  set(QUIRE_TO_SCHEMAS ${quire_to_schemas})" COMPONENT ${component})
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/installed_links.cmake COMPONENT ${component})
endforeach()

include(${PROJECT_SOURCE_DIR}/cmake/packages.cmake)
