/* quire/load.h: loads. A connector brings the keys, values and states of a part of a prompt that
 * were computed elsewhere. No other sequence finds them until the engine reports their arrival.
 *
 *   quire_load_begin -> (zeroes and copies of the step, then the transfer) -> quire_load_end
 *
 * A load is a step of one row, in addition to the steps in flight. The functions quire_step_*
 * accept it. A load may end at any time, in
 * any order relative to steps and other loads. Execute the lists in the order of ids, and the
 * transfer after them: a page that an earlier step zeroes may have parts for the load. */
#ifndef QUIRE_LOAD_H_
#define QUIRE_LOAD_H_

#include <quire/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Maximum number of loads in progress at the same time. */
#define QUIRE_MAX_LOADS 16

/* Tokens of one group that did not arrive. Frozen, 24 bytes. */
typedef struct quire_load_failure {
  uint32_t group;
  uint32_t reserved0;   /* 0 */
  /* Position in the sequence. Groups of cross attention: position among the encoder's tokens. */
  uint64_t first_token;
  uint64_t num_tokens;
} quire_load_failure;

/* Admits num_tokens tokens of a sequence that a connector will bring. They are the tokens after its
 * committed tokens or, with QUIRE_ENTRY_MATCH, after the hit.
 * - entry, symbols[num_symbols]: borrowed; as in quire_reserve, with num_look_ahead 0 and without
 *   QUIRE_ENTRY_NO_STOP. The symbols of all tokens of the load are given here, unless the sequence
 *   does not publish.
 * - *result: as in quire_reserve. code is RESOURCE_EXHAUSTED if there is no room.
 * - *step: the load; all zero if it was not admitted.
 * Slots exist for the blocks that the sequence keeps at the end of the load. Blocks outside the
 * window at the end of the load are null in the table and get no slot; do not transfer them. Blocks
 * that a window retains for draft modules get slots, but may be missing at the end. The state is
 * the one after the last token.
 * Leave the last token of a prompt to a step. Until the load ends, the sequence cannot be reserved
 * (its entry is FAILED_PRECONDITION), finished, preempted, truncated or forked.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (symbols missing), OUT_OF_RANGE (offsets outside symbols), NOT_FOUND
 * (stale id), RESOURCE_EXHAUSTED (QUIRE_MAX_LOADS are in progress), FAILED_PRECONDITION (a load or
 * a step of the sequence is in flight). */
QUIRE_API quire_code quire_load_begin(quire_cache *cache, const quire_reserve_entry *entry,
                                      const quire_symbol *symbols, uint64_t num_symbols,
                                      quire_reserve_result *result, quire_step *step,
                                      quire_error *err);

/* Ends a load. failures[n]: borrowed; the tokens that did not arrive; n = 0 if all arrived.
 * *committed: the last boundary that every group can resume from. The sequence has the tokens up to
 * it, and their complete blocks are published now.
 * - Groups that need everything resume before their first missing token.
 * - States can resume only at the beginning or at the end of the load, and so can windows that were
 *   transferred without the tokens before them.
 * If only a part of the load is committed, the symbols from *committed on are forgotten: see
 * `known` of quire_sequence_get_info. The load's blocks must not be written after this call.
 * Thread: serialized on the load's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group, tokens), NOT_FOUND (no such load); nothing changes
 * on error. */
QUIRE_API quire_code quire_load_end(quire_step load, const quire_load_failure *failures, uint64_t n,
                                    uint64_t *committed, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_LOAD_H_ */
