// A module file before it is loaded: who owns it, which machine it is for, and the note in which it says what it is. No code of it runs.
#pragma once

#include <quire/driver.h>

#include <string>

#include "core/base/status.h"

namespace quire {

// Whose files are trusted. The directory beside the library itself is trusted as far as the library's own file is: who could replace a
// module there could replace the library.
struct TrustRule {
  bool everything = false;  // QUIRE_RUNTIME_TRUST_PATHS
  bool beside_library = false;
  uint32_t library_owner = 0;
  uint32_t library_mode = 0;      // write bits of the library's directory
  std::string library_directory;  // nothing above it is examined for modules beside the library
};

// Resolves links and checks the file, its directory and every directory above against the rule: who can write there can replace the module.
// Above the module's own directory a sticky one (/tmp) will do, since there only the owner of an entry can replace it. Errors: NOT_FOUND,
// PERMISSION_DENIED, INCOMPATIBLE_ABI (not a regular file).
Result<std::string> resolve_module_path(const std::string& path, const TrustRule& rule);

// Reads the "QUIRE" note. Errors: NOT_FOUND (file), INCOMPATIBLE_ABI (no ELF of this machine, no note, malformed).
Result<quire_note> read_module_note(const std::string& path);

}  // namespace quire
