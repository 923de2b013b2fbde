# A driver outside of quire's tree, against the installed package:
#   cmake -B build && cmake --build build
# cmake finds quire in the usual prefixes; for others, set CMAKE_PREFIX_PATH.
cmake_minimum_required(VERSION 3.25)
project(null_driver LANGUAGES C)

find_package(quire 0.2 REQUIRED)
file(GLOB sources CONFIGURE_DEPENDS *.c)
quire_add_driver(null ${sources})  # libquire_driver_null.so with one exported symbol
target_link_libraries(quire_driver_null PRIVATE m)  # what the sources need
