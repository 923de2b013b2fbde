/* common/note.h: what every module states about itself before any of its code runs, and the sanitizer bits of its build. C11 and C++.
 *
 * One source of a module writes, at file scope,   QUIRE_DRIVER_NOTE("cpu");   or   QUIRE_CONNECTOR_NOTE("file");
 * The note survives strip and --gc-sections; the host reads it from the file and never loads a file without it.
 */
#ifndef QUIRE_DRIVERS_COMMON_NOTE_H_
#define QUIRE_DRIVERS_COMMON_NOTE_H_

#include <quire/connector.h>
#include <quire/driver.h>

/* An ELF note: header, owner padded to four bytes, content. */
typedef struct quire_note_record {
  uint32_t owner_bytes;
  uint32_t content_bytes;
  uint32_t note_type;
  char owner[8];
  quire_note content;
} quire_note_record;

/* A sanitizer must not put red zones around the record: the section is read as a dense array of notes. */
#if defined(__clang__)
#define QUIRE_NOTE_ATTRIBUTES __attribute__((section(".note.quire"), used, aligned(4), no_sanitize("address")))
#else
#define QUIRE_NOTE_ATTRIBUTES __attribute__((section(".note.quire"), used, aligned(4)))
#endif

#define QUIRE_NOTE(kind, abi, name)                                           \
  static const quire_note_record quire_note_record_ QUIRE_NOTE_ATTRIBUTES = { \
      6, (uint32_t)sizeof(quire_note), QUIRE_NOTE_TYPE, "QUIRE", {kind, abi, abi, 0, name}}

#define QUIRE_DRIVER_NOTE(name) QUIRE_NOTE(QUIRE_MODULE_DRIVER, QUIRE_DRIVER_ABI_VERSION, name)
#define QUIRE_CONNECTOR_NOTE(name) QUIRE_NOTE(QUIRE_MODULE_CONNECTOR, QUIRE_CONNECTOR_ABI_VERSION, name)

/* quire_manifest.sanitizers of this translation unit. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_SANITIZERS_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define QUIRE_SANITIZERS_THREAD 2
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(QUIRE_SANITIZERS_ADDRESS)
#define QUIRE_SANITIZERS_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(QUIRE_SANITIZERS_THREAD)
#define QUIRE_SANITIZERS_THREAD 2
#endif
#if !defined(QUIRE_SANITIZERS_ADDRESS)
#define QUIRE_SANITIZERS_ADDRESS 0
#endif
#if !defined(QUIRE_SANITIZERS_THREAD)
#define QUIRE_SANITIZERS_THREAD 0
#endif
#define QUIRE_MODULE_SANITIZERS (QUIRE_SANITIZERS_ADDRESS | QUIRE_SANITIZERS_THREAD)

#endif /* QUIRE_DRIVERS_COMMON_NOTE_H_ */
