// The opaque types of the headers.
#pragma once

#include <quire/connector.h>
#include <quire/quire.h>
#include <quire/tier.h>

#include "core/c_api/exclusive.h"
#include "core/c_api/guard.h"
#include "core/connector/connector_host.h"
#include "core/memory/buffer.h"
#include "core/memory/shard_memory.h"
#include "core/model/model_layers.h"
#include "core/modules/module_search.h"
#include "core/plan/cache_config.h"
#include "core/step/follower.h"
#include "core/step/kv_cache.h"
#include "core/tier/tier_set.h"

struct quire_runtime : quire::c_api::Handle<quire::Runtime, 0x6d697472u> {
  using Handle::Handle;
};
struct quire_extension : quire::c_api::Handle<const quire::Op, 0x706f7078u> {
  using Handle::Handle;
};
struct quire_model : quire::c_api::Handle<const quire::Model, 0x6c646f6du> {
  using Handle::Handle;
};
struct quire_config : quire::c_api::Handle<const quire::Config, 0x67666e63u> {
  std::vector<std::string> event_kinds;  // by group, what events call it
  quire_config(std::shared_ptr<const quire::Config> config, std::vector<std::string> kinds)
      : Handle(std::move(config)), event_kinds(std::move(kinds)) {}
};
// The cache itself knows no runtime; the handle keeps the one it was created with.
struct quire_cache : quire::c_api::Handle<quire::Cache, 0x68636163u> {
  std::shared_ptr<quire::Runtime> runtime;
  std::vector<std::string> event_kinds;  // of its plan
  quire::c_api::Exclusive units;         // its tiers take them
  quire_cache(std::shared_ptr<quire::Cache> cache, std::shared_ptr<quire::Runtime> r) : Handle(std::move(cache)), runtime(std::move(r)) {}
};
struct quire_follower : quire::c_api::Handle<quire::Follower, 0x776c6c66u> {
  using Handle::Handle;
};
struct quire_device : quire::c_api::Handle<quire::Device, 0x69766564u> {
  using Handle::Handle;
};
struct quire_stream : quire::c_api::Handle<quire::Stream, 0x6d727473u> {
  using Handle::Handle;
};
struct quire_memory : quire::c_api::Handle<quire::Memory, 0x796d656du> {
  using Handle::Handle;
};
struct quire_buffer : quire::c_api::Handle<quire::Buffer, 0x66667562u> {
  using Handle::Handle;
};
struct quire_connector : quire::c_api::Handle<quire::Connector, 0x6e6e6f63u> {
  quire::c_api::Exclusive tickets;  // tiers submit and poll alone
  using Handle::Handle;
};
struct quire_tiers : quire::c_api::Handle<quire::TierSet, 0x72656974u> {
  std::vector<quire::c_api::Exclusive::Owner> owned;
  quire_tiers(std::shared_ptr<quire::TierSet> tiers, std::vector<quire::c_api::Exclusive::Owner> o)
      : Handle(std::move(tiers)), owned(std::move(o)) {}
  ~quire_tiers() { object.reset(); }  // first: nothing of it moves on after that
};

namespace quire::c_api {

inline constexpr uint64_t kMaxWeightsBytes = 4096;  // of the name of weights

// *own is the caller's, or stays the default identity.
Status read_identity(const quire_identity* identity, quire_identity* own);

// *own is all zero before; NULL stands for the defaults.
Status read_cache_options(const quire_cache_options* options, quire_cache_options* own);

// What made a step: one of the two, and the other is NULL.
struct StepOwner {
  quire_cache* cache = nullptr;
  quire_follower* follower = nullptr;
};
Status find_owner(const quire_step& step, StepOwner* owner);
// All zero where there is none.
template <typename H>
quire_step step_of(const H* owner, quire::StepId id) {
  if (id.value == 0) return {nullptr, 0};
  return {owner, id.value};
}

// Runs a body on the cache behind the handle: one at a time.
template <typename Body>
quire_code with_cache(quire_cache* cache, quire_error* err, Body&& body) {
  return guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(check_handle(cache, "cache"));
    const Alone entered(cache);
    QUIRE_RETURN_IF_ERROR(entered.check("cache"));
    return body(*cache->object);
  });
}

// Runs a body on what answers for a step: one at a time.
template <typename Body>
Status read_step(const quire_step& step, Body&& body) {
  StepOwner owner;
  QUIRE_RETURN_IF_ERROR(find_owner(step, &owner));
  const Alone cache(owner.cache);
  QUIRE_RETURN_IF_ERROR(cache.check("step.owner"));
  const Alone follower(owner.follower);
  QUIRE_RETURN_IF_ERROR(follower.check("step.owner"));
  quire::StepReader* reader = nullptr;
  if (owner.cache != nullptr) {
    reader = owner.cache->object.get();
  } else {
    reader = owner.follower->object.get();
  }
  return body(*reader, quire::StepId(step.id));
}
template <typename Body>
quire_code with_step(const quire_step& step, quire_error* err, Body&& body) {
  return guard(err, [&]() -> Status { return read_step(step, body); });
}

// The same for what only the cache that made the step can do.
template <typename Body>
quire_code with_cache_step(const quire_step& step, quire_error* err, Body&& body) {
  return guard(err, [&]() -> Status {
    StepOwner owner;
    QUIRE_RETURN_IF_ERROR(find_owner(step, &owner));
    if (owner.cache == nullptr) {
      return fail(QUIRE_FAILED_PRECONDITION, "step %llu is a follower's: only its leader can end or export it",
                  static_cast<unsigned long long>(step.id));
    }
    const Alone entered(owner.cache);
    QUIRE_RETURN_IF_ERROR(entered.check("step.owner"));
    return body(*owner.cache->object, quire::StepId(step.id));
  });
}

}  // namespace quire::c_api
