// The cache of a rank that makes no steps of its own: it takes those of a leader over as bytes and
// answers for them as the leader would. Its memory is allocated at creation. Serialized.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/step/step_reader.h"

namespace quire {

struct Limits;
class ByteReader;

// What a step has, for Filling: see filling.h.
struct StepImage {
  struct Row {
    uint64_t position = 0;
    uint32_t num_tokens = 0;
    uint32_t encoder = 0;
  };
  // Of token tables ids [column][block] stand at `first`; of states those read [column], the last
  // written [column], all written [write][column], and the ends of the latter at `first_end`.
  struct RowGroup {
    uint64_t first = 0;
    uint64_t first_end = 0;
    uint32_t blocks = 0;
    uint32_t settled = 0;
    uint32_t here = 0;
    uint32_t num_writes = 0;
  };

  const Config* plan = nullptr;
  uint64_t id = 0;  // 0: none
  uint64_t arrival = 0;
  uint32_t sum_tokens = 0;
  bool lists_of_writes = false;  // as of the leader's options
  std::vector<Row> rows;
  std::vector<RowGroup> groups;  // [row][group]
  std::unique_ptr<int32_t[]> all_ids;
  std::vector<uint64_t> ends;
  std::vector<quire_copy> copies;
  std::vector<quire_zero> zeroes;

  const Config& config() const { return *plan; }
  size_t num_rows() const { return rows.size(); }
  uint32_t num_tokens() const { return sum_tokens; }
  uint64_t position(size_t r) const { return rows[r].position; }
  uint32_t num_tokens(size_t r) const { return rows[r].num_tokens; }
  uint64_t end(size_t r) const { return rows[r].position + rows[r].num_tokens; }
  uint32_t encoder(size_t r) const { return rows[r].encoder; }
  RowGroup& at(size_t r, uint32_t g) { return groups[r * plan->groups.size() + g]; }
  const RowGroup& at(size_t r, uint32_t g) const { return groups[r * plan->groups.size() + g]; }
  void read_ids(size_t r, uint32_t g, uint32_t c, uint64_t first, std::span<int32_t> ids) const {
    const int32_t* table = all_ids.get() + at(r, g).first + uint64_t{c} * at(r, g).blocks;
    std::copy_n(table + first, ids.size(), ids.begin());
  }
  uint32_t settled(size_t r, uint32_t g) const { return at(r, g).settled; }
  uint32_t here(size_t r, uint32_t g) const { return at(r, g).here; }
  template <typename Put>
  void state_read(size_t r, uint32_t g, const Put& put) const {
    put_states(r, g, 0, put);
  }
  template <typename Put>
  void state_write(size_t r, uint32_t g, const Put& put) const {
    put_states(r, g, 1, put);
  }
  bool writes_lists() const { return lists_of_writes; }
  uint32_t num_writes(size_t r, uint32_t g) const { return at(r, g).num_writes; }
  uint64_t write_end(size_t r, uint32_t g, uint32_t i) const { return ends[at(r, g).first_end + i]; }
  template <typename Put>
  void write(size_t r, uint32_t g, uint32_t i, const Put& put) const {
    put_states(r, g, 2 + i, put);
  }

 private:
  template <typename Put>
  void put_states(size_t r, uint32_t g, uint64_t which, const Put& put) const {
    const uint32_t columns = plan->groups[g].ids_per_block;
    const int32_t* ids = all_ids.get() + at(r, g).first + which * columns;
    for (uint32_t c = 0; c < columns; ++c) put(c, ids[c]);
  }
};

class Follower : public StepReader {
 public:
  // Limits as of the leader's options.
  static Result<std::unique_ptr<Follower>> create(std::shared_ptr<const Config> config, const quire_cache_options& options);

  const Config& config() const override { return *config_; }
  // A step of the leader; one of the same id is replaced, and the one that came first goes where
  // there are step_depth others.
  Status step_import(std::span<const uint8_t> bytes, StepId* step);

  using StepReader::step_fill;
  Status step_info(StepId step, quire_step_info* info) override;
  Status step_fill(StepId step, std::span<const quire_fill> fills, uint64_t* written) override;
  Status step_batch(StepId step, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) override;
  Result<std::span<const quire_copy>> step_copies(StepId step) override;
  Result<std::span<const quire_zero>> step_zeroes(StepId step) override;

 private:
  explicit Follower(std::shared_ptr<const Config> config) : config_(std::move(config)) {}
  Status make_room(const Limits& limits);
  Result<const StepImage*> find(StepId step) const;
  Status check_plan(ByteReader* from, uint64_t digest) const;
  Status read_rows(ByteReader* from, StepImage* image) const;
  Status read_groups(ByteReader* from, StepImage* image) const;
  Status read_tokens(ByteReader* from, uint32_t g, size_t r, StepImage* image, uint64_t* at) const;
  Status read_states(ByteReader* from, uint32_t g, size_t r, StepImage* image, uint64_t* at) const;
  Status read_lists(ByteReader* from, StepImage* image) const;
  void keep(StepImage* image);

  std::shared_ptr<const Config> config_;
  uint64_t digest_ = 0;
  uint64_t max_ids_ = 0;  // of a step
  uint64_t arrivals_ = 0;
  uint32_t max_rows_ = 0;
  uint64_t max_writes_ = 0;  // of states, in a group
  uint64_t max_tokens_ = 0;
  uint64_t max_tokens_of_one_ = 0;  // row, which may be a load
  uint64_t most_encoder_ = 0;
  std::vector<StepImage> images_;  // the first is the one being read
};

}  // namespace quire
