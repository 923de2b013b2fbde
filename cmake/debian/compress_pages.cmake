# Run by cpack before it makes packages: pages of the manual are compressed, as Debian has them.
find_program(QUIRE_GZIP gzip)
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_DIRECTORY}/*.1")
list(FILTER pages INCLUDE REGEX "/man/man1/[^/]*$")
if(pages AND QUIRE_GZIP)
  execute_process(COMMAND ${QUIRE_GZIP} -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
