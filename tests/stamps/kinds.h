// The kinds of models that runs are made of, and their plans. A kind is a list of layers with sizes
// drawn at random. A plan is what quire makes of it, read back through the C ABI alone.
#pragma once

#include <quire/config.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/stamps/dice.h"

namespace quire::stamps {

struct Kind {
  const char* name;
  std::vector<quire_layer> (*layers)(Dice& dice);
};

// All kinds, in the order in which runs take them in turns.
const std::vector<Kind>& kinds();

template <typename T, void (*Release)(T*)>
struct Releaser {
  void operator()(T* object) const { Release(object); }
};
using ConfigHandle = std::unique_ptr<quire_config, Releaser<quire_config, quire_config_release>>;

struct Plan {
  ConfigHandle config;
  std::vector<quire_layer> layers;
  std::vector<quire_layer_place> places;  // of the layers
  std::vector<quire_group_info> groups;
  quire_config_info info{};
  std::string options;       // in words
  uint32_t head_ranks = 1;   // tensor parallel
  uint32_t stages = 1;       // pipeline parallel
  uint32_t token_ranks = 1;  // context parallel
  bool states = false;       // some layer is recurrent
  bool drafts = false;       // some layer writes ahead
  bool coded = false;        // some layer has a codec: every byte of every row is stamped
  uint64_t retained = 0;     // tokens that windows keep before their live range
  uint64_t encoder = 0;      // tokens that every encoder of the plan can have; 0 = no cross attention
  uint64_t in_flight = 0;    // tokens of a sequence between reserve and commit
  // Options of the cache that cost memory, so that pools are made with them in mind.
  uint32_t depth = 1;
  uint32_t branches = 0;
  bool at_blocks = false;
  bool tight = false;  // one sequence as long as possible takes the whole pool
  // Every head and every slice of a state has a stamp of its own, the same on whatever rank it is.
  bool by_head = false;
  quire_plan_options drawn = QUIRE_INIT(quire_plan_options);  // but for the layout
  std::string layout;
};

// The least common multiple of all blocks.
uint64_t grid_of(const Plan& plan);
// A shard that has layers of the group.
uint32_t shard_with(const Plan& plan, uint32_t group);

// Plans a kind with options drawn at random: blocks, pages, policy, shards.
Plan make_plan(const Kind& kind, Dice& dice);
// The same under another tensor-parallel size, with a pool of another size. Without a config: that
// cannot be.
Plan make_plan(const Plan& plan, uint32_t tensor_parallel, Dice& dice);

}  // namespace quire::stamps
