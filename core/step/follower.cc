#include "core/step/follower.h"

#include <algorithm>

#include "core/step/batch_writer.h"
#include "core/step/cache_impl.h"
#include "core/step/step_bytes.h"

namespace quire {
namespace {

Status cut_or_changed(const char* what) { return fail(QUIRE_DATA_LOSS, "bytes: %s make no sense", what); }

Status writes_null_page(const char* what) { return fail(QUIRE_DATA_LOSS, "bytes: %s names the null page, which nothing may write", what); }

Status too_many(const char* limit, uint64_t count, uint64_t most) {
  return fail(QUIRE_RESOURCE_EXHAUSTED, "%s: the step has %llu, the follower has room for %llu", limit,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(most));
}

uint64_t id_limit(const Config& config, uint32_t group) { return config.num_pages * config.groups[group].parts_per_page; }

// Ids below this one are parts of the null page, which nothing may write.
int32_t first_id(const GroupPlan& group) { return static_cast<int32_t>(group.parts_per_page); }

// Whether one of the ids is a part of the null page and is not `none`.
bool any_of_null_page(const GroupPlan& group, std::span<const int32_t> ids, int32_t none) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id < first_id(group) && id != none; });
}

}  // namespace

Result<std::unique_ptr<Follower>> Follower::create(std::shared_ptr<const Config> config, const quire_cache_options& options) {
  if ((options.flags & ~kCacheFlags) != 0) return invalid("flags: unknown bits in 0x%x", options.flags);
  auto limits = read_limits(options);
  if (!limits.ok()) return limits.take_status();
  std::unique_ptr<Follower> follower(new Follower(std::move(config)));
  QUIRE_RETURN_IF_ERROR(follower->make_room(*limits));
  return follower;
}

// As much as a step of the leader can have.
Status Follower::make_room(const Limits& limits) {
  const uint64_t entries = limits.max_entries;
  const uint64_t on_the_way = limits.at_blocks ? limits.max_tokens / config_->hit_alignment_tokens : 0;  // where hits can end
  const uint64_t writes = entries * (limits.branches + 2) + on_the_way;
  const uint64_t most_tokens = std::max<uint64_t>(limits.max_tokens, std::min(limits.max_load_tokens, config_->max_model_len));
  uint64_t ids = 0, ends = 0, columns = 0, parts = 0, most_parts = 1;
  for (const GroupPlan& g : config_->groups) {
    const uint64_t each = g.is_state() ? 2 * entries + writes : entries * g.table_blocks(config_->max_model_len);
    const auto mine = checked_mul(each, g.ids_per_block);
    if (!mine || *mine > uint64_t{1} << 40) {
      return fail(QUIRE_OUT_OF_RANGE, "block tables: %u entries x %u columns of %llu tokens are too many", limits.max_entries,
                  g.ids_per_block, static_cast<unsigned long long>(config_->max_model_len));
    }
    ids += *mine;
    ends += g.is_state() ? writes : 0;
    columns += g.ids_per_block;
    parts += uint64_t{g.ids_per_block} * (most_tokens / g.block_tokens + 4 * entries + limits.branches + 4 + writes);
    if (g.live.fixed) parts += g.ids_per_block * entries * g.table_blocks(0);
    if (g.live.fixed) most_encoder_ = most_encoder_ == 0 ? g.encoder_tokens : std::min(most_encoder_, g.encoder_tokens);
    most_parts = std::max<uint64_t>(most_parts, g.parts_per_page);
  }
  max_ids_ = ids;
  max_rows_ = limits.max_entries;
  max_tokens_ = limits.max_tokens;
  max_tokens_of_one_ = most_tokens;
  max_writes_ = writes;
  digest_ = plan_digest(*config_);
  images_.resize(limits.depth + 1);
  for (StepImage& image : images_) image.lists_of_writes = limits.branches > 0 || limits.at_blocks;
  for (StepImage& image : images_) {
    image.plan = config_.get();
    image.rows.reserve(entries);
    image.groups.resize(entries * config_->groups.size());
    image.all_ids.reset(new int32_t[ids]);
    image.ends.reserve(ends);
    image.copies.reserve(entries * columns);
    image.zeroes.reserve(std::min(config_->num_pages * most_parts, parts));
  }
  return {};
}

// The leader's plan, in short and by its digest.
Status Follower::check_plan(ByteReader* from, uint64_t digest) const {
  const auto differs = [](const char* what, uint64_t there, uint64_t here) {
    return invalid("config: %s %llu at the leader, %llu here", what, static_cast<unsigned long long>(there),
                   static_cast<unsigned long long>(here));
  };
  const uint64_t pages = from->number(), length = from->number(), groups = from->number();
  if (!from->good()) return cut_or_changed("the plan's numbers");
  if (pages != config_->num_pages) return differs("num_pages is", pages, config_->num_pages);
  if (length != config_->max_model_len) return differs("max_model_len is", length, config_->max_model_len);
  if (groups != config_->groups.size()) return differs("the number of groups is", groups, config_->groups.size());
  for (size_t g = 0; g < config_->groups.size(); ++g) {
    for (size_t fact = 0; fact < std::size(kGroupFacts); ++fact) {
      const uint64_t there = from->number(), here = group_fact(config_->groups[g], fact);
      if (!from->good()) return cut_or_changed("the plan's groups");
      if (there == here) continue;
      return invalid("config: %s of group %zu is %llu at the leader, %llu here", kGroupFacts[fact], g,
                     static_cast<unsigned long long>(there), static_cast<unsigned long long>(here));
    }
  }
  if (digest != digest_) return invalid("config: groups and pages are the leader's, but layers lie elsewhere in them");
  return {};
}

Status Follower::read_rows(ByteReader* from, StepImage* image) const {
  image->id = from->number();
  const uint64_t rows = from->number(), copies = from->number(), zeroes = from->number();
  if (!from->good() || image->id == 0 || rows == 0) return cut_or_changed("the step's numbers");
  if (rows > max_rows_) return too_many("max_entries_per_step", rows, max_rows_);
  if (copies > image->copies.capacity()) return too_many("copies", copies, image->copies.capacity());
  if (zeroes > image->zeroes.capacity()) return too_many("zeroes", zeroes, image->zeroes.capacity());
  image->rows.resize(rows);
  image->copies.resize(copies);
  image->zeroes.resize(zeroes);
  image->ends.clear();
  uint64_t sum = 0;
  for (StepImage::Row& row : image->rows) {
    row.position = from->number();
    const uint64_t tokens = from->number();
    const uint64_t length = config_->max_model_len;
    if (!from->good() || row.position > length || tokens == 0 || tokens > length - row.position) return cut_or_changed("a row's tokens");
    sum += tokens;
    const uint64_t most = rows == 1 ? max_tokens_of_one_ : max_tokens_;
    if (sum > most) return too_many(most > max_tokens_ ? "max_load_tokens" : "max_tokens_per_step", sum, most);
    row.num_tokens = static_cast<uint32_t>(tokens);
    const uint64_t encoder = most_encoder_ > 0 ? from->number() : 0;
    if (!from->good() || encoder > most_encoder_) return cut_or_changed("a row's encoder tokens");
    row.encoder = static_cast<uint32_t>(encoder);
  }
  image->sum_tokens = static_cast<uint32_t>(sum);
  return {};
}

Status Follower::read_tokens(ByteReader* from, uint32_t g, size_t r, StepImage* image, uint64_t* at) const {
  const GroupPlan& plan = config_->groups[g];
  StepImage::RowGroup& rg = image->at(r, g);
  rg = {};
  rg.first = *at;
  rg.blocks = static_cast<uint32_t>(ceil_div(plan.live.fixed ? image->encoder(r) : image->end(r), plan.block_tokens));
  const uint64_t settled = from->number();
  const uint64_t here = from->number();
  if (settled > rg.blocks || here > rg.blocks) return cut_or_changed("a row's blocks");
  rg.settled = static_cast<uint32_t>(settled);
  rg.here = static_cast<uint32_t>(here);
  for (uint32_t c = 0; c < plan.ids_per_block; ++c, *at += rg.blocks) {
    const std::span<int32_t> ids{image->all_ids.get() + *at, rg.blocks};
    from->ids(ids, 0, id_limit(*config_, g));
    if (from->good() && any_of_null_page(plan, ids, 0)) return writes_null_page("a row's table");
  }
  return from->good() ? Status() : cut_or_changed("a row's table");
}

Status Follower::read_states(ByteReader* from, uint32_t g, size_t r, StepImage* image, uint64_t* at) const {
  const GroupPlan& plan = config_->groups[g];
  const uint32_t columns = plan.ids_per_block;
  StepImage::RowGroup& rg = image->at(r, g);
  rg = {};
  rg.first = *at;
  rg.first_end = image->ends.size();
  const uint64_t limit = id_limit(*config_, g);
  const std::span<int32_t> newest{image->all_ids.get() + *at, uint64_t{2} * columns};  // read, then written
  from->ids(newest, -1, limit);
  if (from->good() && any_of_null_page(plan, newest.subspan(columns), -1)) {
    return writes_null_page("a row's states");
  }
  *at += uint64_t{2} * columns;
  const uint64_t writes = from->number();
  if (!from->good() || writes > image->num_tokens(r)) return cut_or_changed("a row's states");
  const uint64_t before = image->ends.size() - image->at(0, g).first_end;
  if (writes > max_writes_ - before) return too_many("num_state_branches: states written", before + writes, max_writes_);
  if (writes > 1 && !image->lists_of_writes) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "num_state_branches: a row writes %llu states, the follower's options allow one per row",
                static_cast<unsigned long long>(writes));
  }
  rg.num_writes = static_cast<uint32_t>(writes);
  for (uint64_t i = 0, last = image->position(r); i < writes; ++i) {
    const uint64_t end = from->number();
    if (end <= last || end > image->end(r)) return cut_or_changed("the ends of a row's states");
    image->ends.push_back(last = end);
  }
  const std::span<int32_t> written{image->all_ids.get() + *at, writes * columns};
  from->ids(written, -1, limit);
  if (from->good() && any_of_null_page(plan, written, -1)) return writes_null_page("a row's states");
  *at += writes * columns;
  return from->good() ? Status() : cut_or_changed("a row's states");
}

Status Follower::read_groups(ByteReader* from, StepImage* image) const {
  uint64_t at = 0;
  for (uint32_t g = 0; g < config_->groups.size(); ++g) {
    for (size_t r = 0; r < image->num_rows(); ++r) {
      QUIRE_RETURN_IF_ERROR(config_->groups[g].is_state() ? read_states(from, g, r, image, &at) : read_tokens(from, g, r, image, &at));
    }
  }
  return {};
}

Status Follower::read_lists(ByteReader* from, StepImage* image) const {
  for (quire_copy& c : image->copies) {
    const uint64_t group = from->number(), column = from->number(), source = from->number(), destination = from->number();
    const uint64_t first = from->number(), count = from->number();
    if (!from->good() || group >= config_->groups.size()) return cut_or_changed("a copy's numbers");
    const GroupPlan& plan = config_->groups[group];
    const uint64_t limit = id_limit(*config_, static_cast<uint32_t>(group)), rows = plan.is_state() ? 1 : plan.block_tokens;
    if (column >= plan.ids_per_block || source >= limit || destination >= limit || first > rows || count > rows - first) {
      return cut_or_changed("a copy's numbers");
    }
    if (destination < plan.parts_per_page) return writes_null_page("a copy");
    c = {static_cast<uint32_t>(group),      static_cast<uint32_t>(column), static_cast<int32_t>(source),
         static_cast<int32_t>(destination), static_cast<uint32_t>(first),  static_cast<uint32_t>(count)};
  }
  for (quire_zero& z : image->zeroes) {
    const uint64_t group = from->number(), column = from->number(), id = from->number();
    const bool page = group == 0;
    if (!from->good() || group > config_->groups.size()) return cut_or_changed("a zero's numbers");
    const uint64_t columns = page ? 1 : config_->groups[group - 1].ids_per_block;
    const uint64_t limit = page ? config_->num_pages : id_limit(*config_, static_cast<uint32_t>(group - 1));
    if (column >= columns || id >= limit) return cut_or_changed("a zero's numbers");
    if (id < (page ? 1 : config_->groups[group - 1].parts_per_page)) return writes_null_page("a zero");
    z = {static_cast<uint32_t>(group - 1), static_cast<uint32_t>(column), static_cast<int32_t>(id), 0};
  }
  return from->at_end() ? Status() : cut_or_changed("what stands behind the step");
}

Status Follower::step_import(std::span<const uint8_t> bytes, StepId* step) {
  QUIRE_RETURN_IF_ERROR(check_seal(bytes));
  ByteReader from(bytes.subspan(kStepHeaderBytes - 8));
  const uint64_t digest = from.fixed(8);
  QUIRE_RETURN_IF_ERROR(check_plan(&from, digest));
  StepImage* image = images_.data();
  QUIRE_RETURN_IF_ERROR(read_rows(&from, image));
  QUIRE_RETURN_IF_ERROR(read_groups(&from, image));
  QUIRE_RETURN_IF_ERROR(read_lists(&from, image));
  *step = StepId(image->id);
  keep(image);
  return {};
}

// In the place of its elder self, in an empty one, or in the oldest's.
void Follower::keep(StepImage* image) {
  StepImage* place = nullptr;
  for (StepImage& other : images_) {
    if (&other == image) continue;
    if (other.id == image->id) {
      place = &other;
      break;
    }
    if (place == nullptr || other.arrival < place->arrival) place = &other;
  }
  image->arrival = ++arrivals_;
  std::swap(*image, *place);
  image->id = 0;
}

Result<const StepImage*> Follower::find(StepId step) const {
  for (size_t i = 1; i < images_.size(); ++i) {
    if (images_[i].id == step.value && step.value != 0) return &images_[i];
  }
  return fail(QUIRE_NOT_FOUND, "step: %llu is none of the last %zu imported", static_cast<unsigned long long>(step.value),
              images_.size() - 1);
}

Status Follower::step_info(StepId id, quire_step_info* info) {
  auto image = find(id);
  if (!image.ok()) return image.take_status();
  const StepImage& step = **image;
  info->num_rows = static_cast<uint32_t>(step.num_rows());
  info->num_tokens = step.num_tokens();
  info->num_copies = step.copies.size();
  info->num_zeroes = step.zeroes.size();
  return {};
}

Status Follower::step_fill(StepId id, std::span<const quire_fill> fills, uint64_t* written) {
  auto image = find(id);
  if (!image.ok()) return image.take_status();
  return fill_step(**image, fills, written);
}

Status Follower::step_batch(StepId id, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) {
  auto image = find(id);
  if (!image.ok()) return image.take_status();
  return write_batch(**image, options, put, user, bytes);
}

Result<std::span<const quire_copy>> Follower::step_copies(StepId id) {
  auto image = find(id);
  if (!image.ok()) return image.take_status();
  return std::span<const quire_copy>((*image)->copies);
}

Result<std::span<const quire_zero>> Follower::step_zeroes(StepId id) {
  auto image = find(id);
  if (!image.ok()) return image.take_status();
  return std::span<const quire_zero>((*image)->zeroes);
}

}  // namespace quire
