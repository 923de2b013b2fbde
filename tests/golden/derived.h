// Replays of traces without states beside two naive models: `Upstream` must say what was recorded, `Naive` what quire must do. Where the
// numbered differences have not shown yet, both are the same and quire equals upstream; behind that, quire equals what they make of it.
#pragma once

#include "tests/golden/naive.h"
#include "tests/golden/replay.h"

namespace quire::golden {

class DerivedReplay : public ReplayedCache, public TraceReplay {
 public:
  explicit DerivedReplay(const json& head);

  std::string apply(const json& op) override;
  bool compared() const override { return compared_; }
  const std::optional<Stop>& stopped() const override { return stop_; }
  const std::optional<Stop>& passed_over() const override { return passed_over_; }
  bool apart() const override { return apart_; }

 private:
  NaiveShape shape_of() const;
  void cache_op(const std::string& name, const json& op);
  void name_prefixes(const std::string& name);
  void lookup(const std::string& name, const json& res);
  void allocate(const std::string& name, const json& op);
  void bring(const std::string& name, const NaiveWant& want);
  bool bring_once(const std::string& name, NaiveWant want);
  void compare_allocation(const NaiveRequest& theirs, const json& res) const;
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
  std::map<std::string, std::pair<SequenceId, NaiveRequest>> popped_ours_;
  std::map<int64_t, std::string> digests_;  // by prefix
  std::map<std::string, int64_t> by_digest_;
  std::map<int64_t, std::set<int64_t>> alike_;       // of one digest
  std::map<std::pair<int, uint64_t>, int32_t> ids_;  // block and its life -> id
  std::map<int32_t, std::pair<int, uint64_t>> lives_;
  bool apart_ = false;
  std::optional<Stop> passed_over_;
  bool reports_ = false, in_pieces_ = false;
};

}  // namespace quire::golden
