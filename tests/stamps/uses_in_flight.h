// Who uses what while steps are in flight. Kernels of several steps may run at once, and a
// connector writes whenever it likes. So what a row writes, no row of another family may touch,
// whether its sequence still lives or not, until the step is done. Forks of one sequence are a
// family: their rows are in order.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "tests/stamps/taken_step.h"

namespace quire::stamps {

class UsesInFlight {
 public:
  explicit UsesInFlight(const Plan* plan);

  // A step or load was taken. Throws Mismatch if it writes what others use.
  void begin(const TakenStep& step);
  // It was committed or aborted, or the load has ended.
  void end(const TakenStep& step);

 private:
  struct Use {
    uint64_t page = 0;
    int32_t id = 0;  // -1 = the whole page
    uint32_t group = 0;
    uint64_t family = 0;
    bool writes = false;
  };
  int32_t id_of(uint32_t group, int64_t lowered) const;
  std::vector<Use> uses_of(const TakenStep& step) const;
  void add_tokens(const TakenStep& step, uint32_t group, size_t row, std::vector<Use>* uses) const;
  void add_states(const TakenStep& step, uint32_t group, size_t row, std::vector<Use>* uses) const;
  void add(uint32_t group, int64_t lowered, uint64_t family, bool writes, std::vector<Use>* uses) const;

  const Plan& plan_;
  std::vector<uint32_t> shards_;  // by group: one that has layers of it
  // By group: ids of that shard's lowered ids.
  std::vector<std::unordered_map<int64_t, int32_t>> ids_;
  std::map<uint64_t, std::vector<Use>> pages_;
  std::map<uint64_t, std::vector<Use>> steps_;  // by id
};

}  // namespace quire::stamps
