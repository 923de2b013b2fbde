// Replays of traces beside two naive models: `Upstream` must say what was recorded, `Naive` what quire must do. Where the
// numbered differences have not shown yet, both are the same and quire equals upstream; behind that, quire equals what they make of it.
#pragma once

#include "tests/golden/naive_cache.h"
#include "tests/golden/replay_trace.h"

namespace quire::golden {

class DerivedReplay : public ReplayedCache {
 public:
  explicit DerivedReplay(const json& head);

  // Empty: equal, or not compared (then stopped() says why).
  std::string apply(const json& op);
  bool compared() const { return compared_; }
  const std::optional<Stop>& stopped() const { return stop_; }
  // Whether a difference has shown: upstream's answer and quire's are compared with two models from here on, not with each other.
  bool apart() const { return apart_; }
  // The numbered differences by which the last operation was done in two ways.
  const std::set<int>& met() const { return ours_.met; }
  // The model of quire says something wrong the next time that it is asked for this; spoiled(): it did.
  enum class Spoil { kFree, kCached, kHit, kBlock };
  void spoil(Spoil what) { spoil_ = what; }
  bool spoiled() const { return !spoil_; }

 private:
  int64_t spoilt_by(Spoil what);
  NaiveShape shape_of() const;
  static NaiveShape ours_of(NaiveShape shape);
  void cache_op(const std::string& name, const json& op);
  void name_prefixes(const std::string& name);
  void lookup(const std::string& name, const json& op);
  void cut_hit(const std::string& name, const json& op);
  void worker_op(const std::string& name, const json& op);
  bool keeps_state(const std::string& name, uint64_t end) const;
  std::map<size_t, int> taken_inside(const NaiveRequest& r, uint64_t hit, StepId step) const;
  std::vector<int32_t> row_of(StepId step, quire_fill_kind kind, uint32_t group, size_t capacity) const;
  void compare_states(const OurStates& states, StepId step, uint32_t group);
  void allocate(const std::string& name, const json& op);
  void bring(const std::string& name, const NaiveWant& want);
  bool reserve_ours(NaiveRequest* ours, const quire_reserve_result& result, StepId step, NaiveWant* want, uint64_t* hit);
  bool bring_once(const std::string& name, NaiveWant want);
  void compare_table(const NaiveRequest& r, StepId step, const quire_reserve_result& result);
  void match_ids(int naive, int32_t is);
  void release(const std::string& name);
  void pop(const std::string& name, const std::string& handle, const json& res);
  void let_go(const std::string& handle, bool reverse);
  void evict(const json& op);
  void compare_common(const std::string& name, const json& res) const;
  void compare_ids(const std::string& name, const json& op) const;
  void compare_state(const json& op);
  void compare_check(const json& res) const;
  void compare_events(const json& expected);
  std::string name_of(NaivePool::Key key) const;

  NaiveShape naive_;
  PrefixNames names_;
  Upstream upstream_;
  Naive ours_;
  std::map<std::string, NaiveRequest> theirs_of_, ours_of_;
  std::map<std::string, NaiveHit> hits_;
  std::map<std::string, std::vector<int>> popped_ids_;
  std::map<std::string, uint64_t> recorded_;
  std::map<std::string, std::pair<SequenceId, NaiveRequest>> popped_ours_;
  std::map<int64_t, std::string> digests_;  // by prefix
  std::map<std::string, int64_t> by_digest_;
  std::map<int64_t, std::set<int64_t>> alike_;       // of one digest
  std::map<std::pair<int, uint64_t>, int32_t> ids_;  // block and its life -> id
  std::map<int32_t, std::pair<int, uint64_t>> lives_;
  bool apart_ = false;
  std::optional<Spoil> spoil_;
  bool reports_ = false, in_pieces_ = false;
};

}  // namespace quire::golden
