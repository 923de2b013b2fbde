# Read by cpack for every generator. Debian packages go below /usr; in an archive bin, lib and share lie in its one folder.
if(CPACK_GENERATOR MATCHES "^(TGZ|TXZ|TZST)$")
  set(CPACK_PACKAGING_INSTALL_PREFIX "/")
endif()
