# Links of the installed documents, run by the installation with QUIRE_DOCUMENTS (their folder), QUIRE_TO_HEADERS and QUIRE_TO_SCHEMAS
# (ways from there). A link to a header or a schema leads to where it is installed; one to what is in the source tree alone becomes its text.
set(languages "(python|rust|go)")
set(only_in_the_tree
  "(CONTRIBUTING\\.md|LICENSE|abi/README\\.md|tests/|drivers/|plugins/|bindings/${languages}|(samples/)?${languages}/)")
file(GLOB_RECURSE pages "${QUIRE_DOCUMENTS}/*.md")
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  string(REGEX REPLACE "(\\]\\((\\.\\./)*)(abi/include|plugins/[a-z]+/include|bindings/cpp)/" "\\1${QUIRE_TO_HEADERS}/" changed "${text}")
  string(REGEX REPLACE "(\\]\\((\\.\\./)*)docs/schemas" "\\1${QUIRE_TO_SCHEMAS}" changed "${changed}")
  string(REPLACE "](schemas/" "](../${QUIRE_TO_SCHEMAS}/" changed "${changed}")
  string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)*${only_in_the_tree}[^)]*\\)" "\\1" changed "${changed}")
  string(REGEX REPLACE "\\[([^]]*)\\]\\((\\.\\./)*(samples/)?(python|rust|go)\\)" "\\1" changed "${changed}")
  if(NOT changed STREQUAL text)
    file(WRITE "${page}" "${changed}")
  endif()
endforeach()
