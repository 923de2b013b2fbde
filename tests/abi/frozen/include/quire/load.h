/* quire/load.h: tokens that somebody else computed. A connector brings the keys, values and states
 * of a part of a prompt. Until the engine says that they arrived, nobody else finds them.
 *
 * quire_load_begin -> (zeroes and copies of the step, then the transfer) -> quire_load_end. A load
 * is a step of one row, next to the steps in flight: quire_step_fill, quire_step_list_copies and
 * quire_step_list_zeroes take its id, and it ends in any order. Execute the lists in the order of
 * ids, and the transfer after them: a page that an earlier step zeroes may have parts for the load.
 */
#ifndef QUIRE_LOAD_H_
#define QUIRE_LOAD_H_

#include <quire/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads in progress at once. */
#define QUIRE_MAX_LOADS 16

/* Tokens of one group that did not arrive. Frozen, 24 bytes. */
typedef struct quire_load_failure {
  uint32_t group;
  uint32_t reserved0;   /* 0 */
  uint64_t first_token; /* position in the sequence; of a group of cross attention among the
                         * encoder's tokens */
  uint64_t num_tokens;
} quire_load_failure;

/* Admits num_tokens tokens of a sequence that a connector will bring: the ones after its committed
 * tokens or, with QUIRE_ENTRY_MATCH, after the hit. entry, symbols[num_symbols]: borrowed; as in
 * quire_reserve, with num_look_ahead 0 and without QUIRE_ENTRY_NO_STOP. The symbols of all tokens
 * of the load are given here, unless the sequence does not publish. Leave the last token of a
 * prompt to a step. Slots are given for what the sequence keeps at the end of the load. Blocks of a
 * window that end before it are null in the table and need not come; blocks that it retains for
 * draft modules have slots and may be missing at the end, too. A state is the one after the last
 * token. *result: as in quire_reserve; code is RESOURCE_EXHAUSTED where there is no room. *step:
 * the load's id; 0 when it was not admitted. Until the load ends the sequence cannot be reserved
 * (its entry is FAILED_PRECONDITION), finished, preempted, truncated or forked.
 * Thread: serialized on cache. Blocking: no. Errors: INVALID_ARGUMENT (symbols missing),
 * OUT_OF_RANGE (offsets outside symbols), NOT_FOUND (stale id), RESOURCE_EXHAUSTED (QUIRE_MAX_LOADS
 * are in progress), FAILED_PRECONDITION (a load or a step of the sequence is in flight). */
QUIRE_API quire_code quire_load_begin(quire_cache *cache, const quire_reserve_entry *entry,
                                      const quire_symbol *symbols, uint64_t num_symbols,
                                      quire_reserve_result *result, quire_step_id *step,
                                      quire_error *err);

/* Ends a load. failures[n]: borrowed; what did not arrive, n = 0 when all did. The sequence has the
 * tokens up to the last boundary that every group can resume from: *committed. Complete blocks of
 * them are published now. Groups that need everything resume before their first missing token;
 * states, and windows that were brought without what lies before them, have nothing between begin
 * and end. Nothing may be written into the load's blocks afterwards.
 * Thread: serialized on cache. Blocking: no.
 * Errors: INVALID_ARGUMENT, OUT_OF_RANGE (group, tokens), NOT_FOUND (no such load); nothing changes
 * on error. */
QUIRE_API quire_code quire_load_end(quire_cache *cache, quire_step_id step,
                                    const quire_load_failure *failures, uint64_t n,
                                    uint64_t *committed, quire_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QUIRE_LOAD_H_ */
