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

#include <quire/hold.h>
#include <quire/step.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * With QUIRE_ENTRY_MATCH, blocks of the load that are cached are shared instead; see
 * quire_load_get_have. A load has at most max_load_tokens tokens; num_tokens is cut to them.
 * Leave the last token of a prompt to a step. Until the load ends, the sequence cannot be reserved
 * (its entry is FAILED_PRECONDITION), finished, preempted, truncated or forked.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT (symbols missing), OUT_OF_RANGE (offsets outside symbols), NOT_FOUND
 * (stale id), RESOURCE_EXHAUSTED (max_loads are in progress), FAILED_PRECONDITION (a load or a step
 * of the sequence is in flight). */
QUIRE_API quire_code quire_load_begin(quire_cache *cache, const quire_reserve_entry *entry,
                                      const quire_symbol *symbols, uint64_t num_symbols,
                                      quire_reserve_result *result, quire_step *step,
                                      quire_error *err);

/* Says what of a load need not be transferred. A hit ends where all groups can resume. Some groups
 * may have more tokens cached, for example all attention where only a state is missing.
 * have_tokens[capacity]: for each group the position before which all that the load needs is here.
 * The blocks there are shared, and their tokens have no slots: do not write to them. Groups of
 * states and of cross attention: the load's first token. Two-call array: *count receives the number
 * of groups.
 * Thread: serialized on the load's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (no such load), OUT_OF_RANGE (capacity). */
QUIRE_API quire_code quire_load_get_have(quire_step load, uint64_t *have_tokens, uint64_t capacity,
                                         uint64_t *count, quire_error *err);

/* Ends a load. failures[n]: borrowed; the tokens that did not arrive; n = 0 if all arrived.
 * *committed: the last boundary that every group can resume from. The sequence has the tokens up to
 * it, and their complete blocks are published now.
 * - Groups that need everything resume before their first missing token.
 * - States can resume only at the beginning or at the end of the load, and so can windows that were
 *   transferred without the tokens before them.
 * If only a part of the load is committed, the symbols from *committed on are forgotten: see
 * `known` of quire_sequence_get_info.
 *
 * late: NULL = the load's blocks are not written after this call. Otherwise a transfer that was
 * given up may still write what `failures` names. *late then holds these blocks and states (see
 * hold.h); end it when it is proved that nothing is written any more. The sequence does not wait
 * for this.
 * *late is 0 if nothing has to be held.
 * Thread: serialized on the load's cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group, tokens), NOT_FOUND (no such load),
 * RESOURCE_EXHAUSTED (65,536 holds exist); nothing changes on error. */
QUIRE_API quire_code quire_load_end(quire_step load, const quire_load_failure *failures, uint64_t n,
                                    uint64_t *committed, quire_hold_id *late, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_LOAD_H_ */
