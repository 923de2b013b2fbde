/* quire/pin.h: pinned prefixes. A pin holds all that is needed to resume after a prefix: its
 * blocks, the last window and the state. Pinned content is not evicted. Examples are system
 * prompts, few-shot examples, or the conversation of a user who will answer soon.
 *
 * - A soft pin is given up if an admission or a new identity would be refused otherwise. Pins of
 *   the lowest priority go first, and the oldest among equal ones.
 * - A hard pin stays until it is unpinned or expires. It reduces the capacity of the plan by its
 *   memory. Limit hard pins with quire_cache_options.max_pins and pin_quota_tokens.
 *
 * What a pin held is ordinary cached content after the pin ends. */
#ifndef QUIRE_PIN_H_
#define QUIRE_PIN_H_

#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pin id. Each cache counts its pins up from 1. 0 is never a valid id. */
typedef uint64_t quire_pin_id;

/* Value of quire_pin_options.priority for pins that are never given up. */
#define QUIRE_PIN_HARD 255u

/* Duration and priority of a pin. Descriptor. */
typedef struct quire_pin_options {
  uint32_t struct_size;
  uint32_t priority;               /* 0 (given up first) to 254, or QUIRE_PIN_HARD */
  uint64_t duration_ns;            /* measured by the runtime's clock; 0 = until it is unpinned */
} quire_pin_options;

/* The content of a pin. Info. */
typedef struct quire_pin_info {
  uint32_t struct_size;
  uint32_t priority;
  uint64_t tokens;                 /* of the prefix */
  uint64_t num_parts;              /* in all groups, including parts that others hold, too */
  int64_t deadline_ns;             /* on the runtime's clock; INT64_MAX = none */
} quire_pin_info;

/* Pins the longest prefix of symbols[num_symbols] that is cached under the identity and after which
 * a sequence can resume. It may be all of the symbols. If hits can end inside blocks of several
 * sizes, a pin ends where the blocks of all groups that need everything end.
 * - identity: borrowed; NULL = no salt, no adapter, epoch 0. Its flags are 0.
 * - options: borrowed; NULL = priority 0, no deadline.
 * - *tokens: length of the prefix.
 * - *out: the pin.
 * Sequences hit, share and extend pinned prefixes like any other. quire_cache_reset ends all pins.
 * quire_cache_forget_blocks removes blocks from pins. The call allocates host memory for what the
 * pin holds.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (nothing of it is cached), FAILED_PRECONDITION (the cache has
 * no prefix reuse), RESOURCE_EXHAUSTED (max_pins, pin_quota_tokens); nothing changes on error. */
QUIRE_API quire_code quire_pin(quire_cache *cache, const quire_identity *identity,
                               const quire_symbol *symbols, uint64_t num_symbols,
                               const quire_pin_options *options, uint64_t *tokens,
                               quire_pin_id *out, quire_error *err);
/* Ends a pin.
 * Thread: serialized on cache. Blocking: no.
 * Errors: NOT_FOUND (never existed, was given up, or expired). */
QUIRE_API quire_code quire_unpin(quire_cache *cache, quire_pin_id pin, quire_error *err);
/* Reads the facts of a pin.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (as
 * quire_unpin). */
QUIRE_API quire_code quire_pin_get_info(quire_cache *cache, quire_pin_id pin, quire_pin_info *info,
                                        quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_PIN_H_ */
