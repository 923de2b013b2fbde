/* quire/pin.h: prefixes that stay. A pin holds what resuming after a prefix takes (blocks, the last
 * window, the state), so that it is not evicted: system prompts, few-shot examples, the
 * conversation of a user who is about to answer.
 *
 * A soft pin is a wish: where an admission would be refused otherwise, soft pins are given up, those
 * of the lowest priority first, of equal ones the oldest. Hard ones stay until they are unpinned or
 * their time is over, and take their memory out of the capacity of the plan: bound them with
 * quire_cache_options.max_pins and pin_quota_tokens. What a pin held is ordinary cached content
 * afterwards.
 */
#ifndef QUIRE_PIN_H_
#define QUIRE_PIN_H_

#include <quire/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up from 1 in each cache; 0 is never a pin. */
typedef uint64_t quire_pin_id;

/* quire_pin_options.priority of pins that are never given up. */
#define QUIRE_PIN_HARD 255u

/* How long and how firmly. Descriptor. */
typedef struct quire_pin_options {
  uint32_t struct_size;
  uint32_t priority;               /* 0 (given up first) to 254, or QUIRE_PIN_HARD */
  uint64_t duration_ns;            /* by the runtime's clock; 0 = until it is unpinned */
} quire_pin_options;

/* What a pin holds. Info. */
typedef struct quire_pin_info {
  uint32_t struct_size;
  uint32_t priority;
  uint64_t tokens;                 /* of the prefix */
  uint64_t num_parts;              /* all groups; parts that others hold as well included */
  int64_t deadline_ns;             /* by the runtime's clock; INT64_MAX = none */
} quire_pin_info;

/* Holds the longest prefix of symbols[num_symbols] that is cached under the identity and can be
 * resumed behind; it may be all of them. Where hits end inside blocks of several sizes, a pin ends
 * where the blocks of all groups that need everything do. identity: borrowed, NULL = no salt, no
 * adapter, epoch 0; its flags are 0. options: borrowed, NULL = priority 0, no end. *tokens: length
 * of the prefix. *out: the pin. Sequences hit, share and extend pinned prefixes as any other.
 * quire_cache_reset ends all pins; quire_cache_forget_blocks takes blocks out of them. Allocates
 * host memory for what the pin holds.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (nothing of it is
 * cached), FAILED_PRECONDITION (the cache has no prefix reuse), RESOURCE_EXHAUSTED (max_pins,
 * pin_quota_tokens); nothing changes on error. */
QUIRE_API quire_code quire_pin(quire_cache *cache, const quire_identity *identity,
                               const quire_symbol *symbols, uint64_t num_symbols,
                               const quire_pin_options *options, uint64_t *tokens,
                               quire_pin_id *out, quire_error *err);
/* Ends a pin. Thread: serialized on cache. Blocking: no. Errors: NOT_FOUND (never was, given up, or
 * its time is over). */
QUIRE_API quire_code quire_unpin(quire_cache *cache, quire_pin_id pin, quire_error *err);
/* Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT, NOT_FOUND (as quire_unpin).
 */
QUIRE_API quire_code quire_pin_get_info(quire_cache *cache, quire_pin_id pin, quire_pin_info *info,
                                        quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_PIN_H_ */
