// The cache once more, as simple as it can be: one step in flight, one part per page, one column
// per block, prefixes as texts in a map, pages as a list in the order of their last release, kept
// states as a list by what they are worth. It predicts every answer: hits, admission, what is
// evicted and in which order.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quire::model {

struct NaiveGroup {
  bool state = false;  // else: needs everything
  uint32_t block_tokens = 2;
};

struct NaiveLimits {
  uint32_t pages = 2, unit = 2, grid = 2;
  uint64_t budget = UINT64_MAX;  // states that are kept at most
  bool by_cost = true;
};

class Naive {
 public:
  Naive(std::vector<NaiveGroup> groups, const NaiveLimits& limits);

  struct Sequence {
    bool live = false;
    std::string text;                      // of committed tokens
    std::vector<std::vector<int>> tables;  // by group: blocks
    std::vector<int> current, spare;       // by group of states; -1 = none
    std::string in_flight;                 // tokens that the row computes
    std::vector<int> written;              // by group of states
    std::vector<size_t> blocks_before;
    std::vector<std::vector<int>> adopted;           // by group: blocks of others that a load has, until they are in the table
    std::vector<std::pair<uint32_t, int>> replaced;  // group, block: copied by the row in flight
    bool may_share = false;                          // its last block may be another's, too
    bool has_row = false, matched = false, loading = false;
    bool junction = false;  // the row ends where attention alone would have resumed
    bool at_end = false;    // the row ends at the last boundary of its prompt
    uint64_t spared = 0;    // tokens between the state that it resumed from and the one before
    int life = 0, row_life = 0;
    bool emptied = false;  // since it was created: its next match is no other request
    uint64_t published = 0;
    uint64_t prompt = 0;  // tokens of the first one since it was created
    uint64_t full = 0;    // where attention alone would have resumed, if that is behind the hit
    // Blocks that are spared for who resumes at its prompt's end, and where it resumed itself.
    std::vector<int> resume_point, hit_point;
    uint64_t hit = 0;  // tokens, since it is there or was emptied
  };

  uint64_t hit(const std::string& prompt, uint64_t* full) const;
  uint64_t beyond_hit(const std::string& prompt) const;
  // Whether reserve admits the row, and what it does; tokens are the ones that it computes.
  bool fits(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match, bool load = false) const;
  void reserve(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match);
  // The same for a load, which is no step; how many of its tokens arrived, of those that every
  // group can resume behind.
  void load(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match);
  void arrive(int q, uint64_t tokens);
  // The group's blocks of these tokens that are cached, without a gap: a load need not bring them.
  std::vector<int> adopted(uint32_t group, const std::string& prompt, uint64_t position, const std::string& tokens) const;
  // The same for any row: up to where attention alone would have resumed, a step shares them, too.
  std::vector<int> ahead(const Sequence& s, uint32_t group, const std::string& prompt,  //
                         uint64_t position, const std::string& tokens, bool match,      //
                         bool load) const;
  void commit();
  void abort();
  void create(int q);
  void empty(int q);
  void finish(int q);
  void reset();

  Sequence& sequence(int q) { return sequences_[static_cast<size_t>(q)]; }
  uint64_t free() const { return free_; }
  uint64_t evictable() const { return order_.size(); }
  uint64_t evicted() const { return evicted_; }
  uint64_t states_kept() const;
  uint64_t given_up() const { return given_up_; }
  uint64_t spared() const { return spared_; }
  bool step_in_flight() const { return step_; }
  bool nobody_has_tokens() const;
  std::string state() const;  // everything that the future depends on

 private:
  struct Block {
    uint32_t group = 0;
    int refs = 0;
    bool fenced = false;
    std::string name;  // of the prefix that it ends; empty = not published
    int spares = 0;    // resume points that it belongs to
    bool hit = false;  // by a request, since it was taken; in order_: protected
  };
  // A prefix behind which states are kept.
  struct Boundary {
    double rank = 0;
    int stamp = 0;
    std::string before;  // the boundary before it when somebody looked last
    bool cold = false;
    int uses = 0;
    // Of some tokens those that count: an eighth if nobody asked for it or used it; half as many
    // more for each use.
    double worth(double tokens) const { return (cold ? tokens / 8 : tokens) * (2 + uses) / 2; }
  };
  using Boundaries = std::map<std::string, Boundary>;
  std::string boundary_before(const std::string& name) const;
  void value(const std::string& name, bool cold, int uses = 0);
  void use(Sequence* s);
  std::vector<Boundaries::iterator> by_worth();
  void give_up(const std::string& name);
  bool give_up_for_a_page();
  void keep_states(Sequence* s);
  int take(uint32_t group);
  void ref(int block, bool hit = false);
  void admit(int q, const std::string& prompt, uint64_t position, const std::string& tokens, bool match, bool load);
  bool tail_is_shared(const Sequence& s, uint32_t group, uint64_t position) const;
  void let_replaced_go(Sequence* s);
  void put_replaced_back(Sequence* s);
  void release(int block);
  void release_passed(int block);
  void let_go(int block);
  void put_in_order(int block);
  int oldest() const;
  void set_resume_point(Sequence* s, uint64_t row_begin);
  void end_resume_points(Sequence* s);
  void end_point(std::vector<int>* point);
  void spare_hit(Sequence* s, const std::string& text);
  std::vector<int> states_at(const std::string& text) const;
  void spare(std::vector<int>* point, const std::vector<int>& states);
  void publish(int block, const std::string& name);
  void forget(int block, bool evicted);
  void evict_oldest();
  void publish_units(Sequence* s);
  bool give_up_older(const std::string& name, uint32_t group);
  void keep_spare(Sequence* s, uint32_t group, int block);
  uint64_t blocks(const Sequence& s, uint32_t g) const { return s.tables[g].size(); }

  std::vector<NaiveGroup> groups_;
  uint64_t pages_, free_;
  uint32_t unit_, grid_;
  std::map<int, Block> blocks_;
  int next_block_ = 0;
  std::vector<int> order_;   // evictable, oldest first; spared ones go last
  size_t part_ = 0;          // at most one in so many free and evictable ones is protected; 0: none
  std::vector<int> fenced_;  // in order
  std::map<std::pair<std::string, uint32_t>, int> index_;
  std::array<Sequence, 2> sequences_;
  std::vector<int> rows_;  // sequences of the step, in order
  bool step_ = false;
  uint64_t evicted_ = 0;
  uint64_t budget_;
  bool by_cost_;
  Boundaries boundaries_;
  double level_ = 0, clock_ = 0;
  int next_stamp_ = 0;
  uint64_t given_up_ = 0, spared_ = 0;
};

}  // namespace quire::model
