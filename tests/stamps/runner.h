// Operations. An engine draws them at random. Steps are taken when they are reserved and carried
// out later, in their order; loads end in any order. Now and then all sequences but one are closed,
// and the last one must run to its end. At the end of a run nothing may be left.
#pragma once

#include <quire/load.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/stamps/ledger.h"

namespace quire::stamps {

class Runner : public Ledger {
 public:
  Runner(size_t kind, uint64_t seed, Mode mode, Tallies* tallies, Heritage* heritage = nullptr);
  // Throws Mismatch; its text ends with the number of the operation.
  void run(uint64_t operations);
  // After it: for a run that reads what is in the store under another tensor-parallel size, if
  // there is to be one.
  std::unique_ptr<Heritage> leave();

 private:
  using Operation = void (Runner::*)();
  struct Weight {
    Operation operation;
    uint32_t weight;
  };
  void operate();

  // runner_steps.cc
  void reserve();
  bool reserve_entries(const std::vector<size_t>& who);
  bool want(Sequence* s, quire_reserve_entry* entry);
  void ask_for_more(quire_reserve_entry* entry, const Sequence& s);
  void refuse(const quire_reserve_entry& entry, const quire_reserve_result& result, const Sequence& s);
  void admit(const quire_reserve_entry& entry, const quire_reserve_result& result, Sequence* s, TakenStep* taken);
  void hit(const quire_reserve_entry& entry, const quire_reserve_result& result, Sequence* s);
  void relieve();
  void carry_out();
  void carry_out_until(size_t steps);
  void take_again(TakenStep* step);
  void commit();
  void commit_row(size_t row, quire_commit_entry* entry);
  void abort();

  // runner_loads.cc
  void begin_load();
  void check_have(const TakenStep& load);
  void end_load();

  // runner_holds.cc: what others keep of the bytes, or write late.
  struct KeptText {
    quire_sequence_id id = 0;
    Owner owner;
    History text;  // a token more than the sequence has computed
    uint64_t tokens = 0;
  };
  void choose_holds();
  void watch();
  void hold_or_let_go();
  std::vector<HeldBlocks> blocks_of(quire_hold_id hold, uint64_t first) const;
  void check_whole(const HeldBytes& held) const;
  void begin_hold();
  void check_unchanged(const HeldBytes& held) const;
  void end(const HeldBytes& held);
  void end_hold(size_t index);
  void leave_late(TakenStep taken, const std::vector<quire_load_failure>& failures, quire_hold_id hold);
  void end_late(size_t index);
  void keep_text(const Sequence& s);
  void name_all(const Sequence& s);
  std::string name_of(const Owner& owner, const History& text, uint64_t end) const;
  KeptText text_of(const quire_unit& unit) const;
  void take_units(uint64_t most);
  void take_unit(const quire_unit& unit);
  void end_unit(size_t index);
  void end_all_holds();
  void watch_no_more();
  void check_holds();

  // runner_tiers.cc
  void choose_tiers(const Legacy& of_others);
  void fetch_or_run();
  void begin_fetch();
  void cancel_fetch();
  void run_tiers();
  void end_fetch(const quire_fetch_result& result);
  void settle_tiers();
  void drop_tiers();

  // runner_calls.cc: calls that are no steps.
  void open();
  void finish();
  bool finish_one(size_t index);
  void preempt();
  bool preempt_one(Sequence* s);
  void fork();
  void truncate();
  void pin();
  void unpin();
  void probe();
  void reset();
  void forget();
  void renew();
  void check();
  void check_pin(const Pin& pin);

  // runner_ends.cc: progress, and nothing left.
  void settle();
  void drain();
  void run_to_its_end();
  void run_alone(Sequence s);
  void go_on_alone();
  void finale();
  void fit_whole();

  std::vector<Weight> weights_;  // of this run: some operations are frequent, others rare
  uint64_t sum_of_weights_ = 0;
  quire_reserve_result refused_{};  // the last refusal
  bool holding_ = false, lets_late_ = false;
  uint64_t unit_tokens_ = 0;  // 0: nobody watches units
  std::vector<HeldBytes> holds_, units_;
  std::vector<LateLoad> lates_;
  std::deque<KeptText> texts_;  // that sequences had
  bool evicting_ = false;
  // The same by the names of all their prefixes.
  std::unordered_map<std::string, std::shared_ptr<const KeptText>> named_;
  std::unique_ptr<TiersOfRun> tiers_;  // NULL in runs without them
  Legacy legacy_;                      // of the tiers that ended
};

}  // namespace quire::stamps
