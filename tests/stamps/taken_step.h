// A step as an engine has it once it has reserved: the arrays that kernels read, of every group and
// shard, the lists of copies and zeroes, and what each row means. It is taken when the step is made
// and carried out later, whatever happens in between.
#pragma once

#include <quire/step.h>

#include <array>
#include <vector>

#include "tests/stamps/histories.h"
#include "tests/stamps/kinds.h"

namespace quire::stamps {

// One row: tokens [position, end) of a history.
struct TakenRow {
  quire_sequence_id id = 0;
  uint64_t life = 0;    // of the sequence: another one after it was emptied
  uint64_t family = 0;  // of forks
  uint64_t position = 0;
  uint64_t end = 0;
  bool matched = false;
  uint64_t prompt = 0;  // of a match
  uint64_t known_before = 0;
  bool gave = false;     // symbols came with the entry
  uint64_t encoder = 0;  // tokens of its encoder, and their hash
  uint64_t encoder_hash = 0;
  std::vector<uint64_t> hashes;  // [0 .. end + 1]: one more symbol, for drafts
  std::vector<quire_symbol> symbols;
};

// Arrays of one shard. The batches point into the memory.
struct ShardArrays {
  std::vector<quire_batch> batches;  // by group
  std::vector<std::array<uint64_t, 2>> memory;
  uint64_t bytes = 0;
};

struct TakenStep {
  quire_step step{};
  std::vector<TakenRow> rows;
  std::vector<ShardArrays> shards;
  std::vector<quire_copy> copies;
  std::vector<quire_zero> zeroes;
  bool prepared = false;
  bool ran = false;
};

// Asks quire for everything that the step needs.
void take_arrays(const Plan& plan, TakenStep* taken);
// The batches must say what quire_step_fill says of a group drawn at random.
void compare_fills(const Plan& plan, const TakenStep& taken, Dice& dice);
// The arrays and lists of two takings of one step are equal.
void compare_takings(const TakenStep& one, const TakenStep& other);

}  // namespace quire::stamps
