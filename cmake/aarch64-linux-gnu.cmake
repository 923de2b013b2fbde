# Debian's cross compiler for arm64 with the libraries of its packages (scripts/setup.sh --aarch64); programs of the build and tests run
# under QEMU's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Libraries of the machine that builds lie in a folder of their own, so the root is /; its pkg-config files must not be read.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
find_program(QUIRE_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QUIRE_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QUIRE_QEMU_AARCH64})
endif()
