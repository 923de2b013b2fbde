#include "core/modules/module_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace quire {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "quire modules are known for x86-64 and aarch64"
#endif

constexpr uint64_t kMaxNoteBytes = 65536;
constexpr uint16_t kMaxSegments = 256;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool ok() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // Reads exactly bytes or says false.
  bool read_at(void* to, uint64_t bytes, uint64_t offset) const {
    if (offset > static_cast<uint64_t>(INT64_MAX) - bytes) return false;
    auto* cursor = static_cast<unsigned char*>(to);
    while (bytes > 0) {
      const ssize_t n = pread(descriptor_, cursor, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      cursor += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<uint64_t>(n);
    }
    return true;
  }

 private:
  int descriptor_;
};

Status io_failure(const std::string& path, const char* what) {
  const int number = errno;
  const quire_code code = number == ENOENT || number == ENOTDIR ? QUIRE_NOT_FOUND
                          : number == EACCES                    ? QUIRE_PERMISSION_DENIED
                                                                : QUIRE_UNAVAILABLE;
  return fail(code, "%s: %s: %s", path.c_str(), what, std::strerror(number)).with_native(1, number);  // NOLINT(concurrency-mt-unsafe)
}

// One path component that counts: the file or its directory.
Status check_owner_and_mode(const std::string& path, const struct stat& facts, const TrustRule& rule) {
  const uid_t self = geteuid();
  const bool owner_trusted = facts.st_uid == 0 || facts.st_uid == self || (rule.beside_library && facts.st_uid == rule.library_owner);
  if (!owner_trusted) {
    return fail(QUIRE_PERMISSION_DENIED, "%s: owned by user %u, accepted are 0 and %u (QUIRE_RUNTIME_TRUST_PATHS lifts this)", path.c_str(),
                static_cast<unsigned>(facts.st_uid), static_cast<unsigned>(self));
  }
  uint32_t writers = facts.st_mode & (S_IWGRP | S_IWOTH);
  if (rule.beside_library) writers &= ~rule.library_mode;
  if (writers != 0) {
    return fail(QUIRE_PERMISSION_DENIED, "%s: mode %03o lets group or others write (QUIRE_RUNTIME_TRUST_PATHS lifts this)", path.c_str(),
                static_cast<unsigned>(facts.st_mode & 0777));
  }
  return {};
}

std::string parent_of(const std::string& path) { return path.substr(0, std::max<size_t>(path.rfind('/'), 1)); }

Status check_ancestors(std::string directory, const TrustRule& rule) {
  while (directory != "/" && !(rule.beside_library && directory == rule.library_directory)) {
    directory = parent_of(directory);
    struct stat facts {};
    if (stat(directory.c_str(), &facts) != 0) return io_failure(directory, "cannot be examined");
    if ((facts.st_mode & S_ISVTX) != 0) facts.st_mode &= ~(S_IWGRP | S_IWOTH);
    QUIRE_RETURN_IF_ERROR(check_owner_and_mode(directory, facts, rule));
  }
  return {};
}

Status check_header(const std::string& path, const Elf64_Ehdr& header) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: not an ELF file", path.c_str());
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: built for another machine (ELF machine %u, this is %u)", path.c_str(), header.e_machine,
                kMachine);
  }
  if (header.e_type != ET_DYN) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: ELF type %u is not a shared object", path.c_str(), header.e_type);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: malformed ELF program headers (%u of %u bytes)", path.c_str(), header.e_phnum,
                header.e_phentsize);
  }
  return {};
}

// Searches one note segment; true when found.
bool find_note(const std::vector<unsigned char>& bytes, quire_note* note) {
  uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    at += sizeof header;
    const uint64_t name = (uint64_t{header.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t content = (uint64_t{header.n_descsz} + 3) & ~uint64_t{3};
    if (name > bytes.size() - at || content > bytes.size() - at - name) return false;
    if (header.n_namesz == 6 && header.n_type == QUIRE_NOTE_TYPE && header.n_descsz >= sizeof(quire_note) &&
        std::memcmp(bytes.data() + at, "QUIRE", 6) == 0) {
      std::memcpy(note, bytes.data() + at + name, sizeof *note);
      return true;
    }
    at += name + content;
  }
  return false;
}

}  // namespace

Result<std::string> resolve_module_path(const std::string& path, const TrustRule& rule) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return io_failure(path, "cannot be resolved");
  const std::string file = resolved;
  struct stat facts {};
  if (stat(resolved, &facts) != 0) return io_failure(file, "cannot be examined");
  if (!S_ISREG(facts.st_mode)) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: not a regular file", file.c_str());
  if (rule.everything) return file;
  QUIRE_RETURN_IF_ERROR(check_owner_and_mode(file, facts, rule));
  const std::string directory = parent_of(file);
  if (stat(directory.c_str(), &facts) != 0) return io_failure(directory, "cannot be examined");
  QUIRE_RETURN_IF_ERROR(check_owner_and_mode(directory, facts, rule));
  QUIRE_RETURN_IF_ERROR(check_ancestors(directory, rule));
  return file;
}

Result<quire_note> read_module_note(const std::string& path) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return io_failure(path, "cannot be opened");
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode))
    return fail(QUIRE_INCOMPATIBLE_ABI, "%s: not a regular file", path.c_str());
  Elf64_Ehdr header{};
  if (!file.read_at(&header, sizeof header, 0)) return fail(QUIRE_INCOMPATIBLE_ABI, "%s: not an ELF file (too short)", path.c_str());
  QUIRE_RETURN_IF_ERROR(check_header(path, header));
  quire_note note{};
  bool found = false;
  for (uint16_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (header.e_phoff > kMaxNoteBytes * 1024 || !file.read_at(&segment, sizeof segment, header.e_phoff + i * sizeof segment)) {
      return fail(QUIRE_INCOMPATIBLE_ABI, "%s: truncated ELF program headers", path.c_str());
    }
    // What the dynamic loader maps beyond the end of the file is a fault at first touch.
    const auto bytes_there = static_cast<uint64_t>(facts.st_size);
    if (segment.p_type == PT_LOAD && (segment.p_offset > bytes_there || segment.p_filesz > bytes_there - segment.p_offset)) {
      return fail(QUIRE_INCOMPATIBLE_ABI, "%s: truncated: a segment ends behind the file's %llu bytes", path.c_str(),
                  static_cast<unsigned long long>(bytes_there));
    }
    if (found || segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::vector<unsigned char> bytes(segment.p_filesz);
    if (!file.read_at(bytes.data(), bytes.size(), segment.p_offset)) {
      return fail(QUIRE_INCOMPATIBLE_ABI, "%s: truncated ELF notes", path.c_str());
    }
    found = find_note(bytes, &note);
  }
  if (found) return note;
  return fail(QUIRE_INCOMPATIBLE_ABI, "%s: not a quire module (it carries no QUIRE note)", path.c_str());
}

}  // namespace quire
