// Who answers what an engine asks of a step in flight: the cache that made it, or a follower that
// took it over as bytes.
#pragma once

#include <quire/step.h>

#include <span>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/plan/cache_config.h"

namespace quire {

// Receives the batch of each group, in order.
using PutBatch = void (*)(void* user, uint32_t group, const quire_batch& batch);

class StepReader {
 public:
  StepReader() = default;
  virtual ~StepReader() = default;
  StepReader(const StepReader&) = delete;
  StepReader& operator=(const StepReader&) = delete;

  virtual const Config& config() const = 0;
  virtual Status step_info(StepId step, quire_step_info* info) = 0;
  // All of fills, or none; written has as many elements.
  virtual Status step_fill(StepId step, std::span<const quire_fill> fills, uint64_t* written) = 0;
  Status step_fill(StepId step, const quire_fill& fill, uint64_t* written) { return step_fill(step, std::span(&fill, 1), written); }
  // options.memory is aligned. put gets the batch of each group, or nobody's where *bytes, what is
  // needed, is not there.
  virtual Status step_batch(StepId step, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) = 0;
  // Valid until the step is committed or aborted, at a follower until the next import.
  virtual Result<std::span<const quire_copy>> step_copies(StepId step) = 0;
  virtual Result<std::span<const quire_zero>> step_zeroes(StepId step) = 0;
};

}  // namespace quire
