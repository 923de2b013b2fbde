// Records that a peer wrote: from the header to the runs that would be copied, as a fetch goes. Whatever is accepted lies inside the
// record's bytes and inside the blocks that the reader has for it.
//
// An input says which valid record to begin with and what to change in it. Checksums are mostly right again afterwards, so that what lies
// is not found by them.
#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/base/checked.h"
#include "core/model/dtype.h"
#include "core/model/model_layers.h"
#include "core/plan/cache_config.h"
#include "core/records/checksum.h"
#include "core/records/record_header.h"
#include "core/records/record_runs.h"
#include "tests/fakes/made_record.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {
namespace {

constexpr uint64_t kUnit = 64, kMostTokens = 256;
constexpr int32_t kPages = 48;
constexpr uint64_t kMostPayload = uint64_t{1} << 18;

// Where counts, offsets and products go wrong.
constexpr std::array<uint64_t, 26> kValues{0,
                                           1,
                                           2,
                                           3,
                                           8,
                                           15,
                                           16,
                                           17,
                                           31,
                                           64,
                                           96,
                                           4095,
                                           4096,
                                           1u << 16,
                                           1u << 20,
                                           (1u << 26) + 1,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           uint64_t{1} << 32,
                                           uint64_t{1} << 40,
                                           (uint64_t{1} << 63) - 1,
                                           uint64_t{1} << 63,
                                           UINT64_MAX - 4095,
                                           UINT64_MAX - 1,
                                           UINT64_MAX};

// A group on a shard, with blocks for one unit, and which bytes of the regions these are.
struct Place {
  uint32_t shard = 0;
  RecordFamily family;
  RecordShape shape;
  std::vector<int32_t> ids;  // [column][block]
  std::vector<std::vector<bool>> own;
};

struct Reader {
  std::shared_ptr<const Config> config;
  std::vector<Place> places;
};

quire_layer layer_of(quire_layer_kind kind, uint32_t heads, uint32_t width) {
  quire_layer layer{};
  layer.struct_size = sizeof layer;
  layer.kind = kind;
  layer.num_kv_heads = heads;
  layer.head_dim_k = layer.head_dim_v = width;
  layer.dtype = kBFloat16;
  return layer;
}

// latent: with a layer of latent rows, which not every order can serve.
Model some_model(bool latent) {
  std::vector<quire_layer> layers(6, layer_of(QUIRE_LAYER_FULL, 4, 8));
  layers[1] = layers[4] = layer_of(QUIRE_LAYER_SLIDING_WINDOW, 4, 8);
  layers[1].window = layers[4].window = 40;
  quire_layer& state = layers[2] = layer_of(QUIRE_LAYER_STATE, 0, 0);
  state.num_state_tensors = 2;
  state.state[0] = {kBFloat16, 2, {4, 32, 0, 0}};
  state.state_shard[0] = 2;
  state.state[1] = {kFloat32, 3, {4, 4, 4, 0}};
  state.state_shard[1] = 1;
  if (latent) {
    layers[5] = layer_of(QUIRE_LAYER_MLA, 1, 24);
    layers[5].head_dim_v = 0;
  }
  for (uint32_t i = 0; i < layers.size(); ++i) layers[i].layer = i;
  auto model = Model::create(layers, kMostTokens);
  require(model.ok(), "there is a model");
  return *model;
}

// Bytes of the shard that runs touch, each within its region.
template <typename Visit>
void each_piece(const PayloadRun& run, Visit&& visit) {
  for (uint64_t i = 0; i < run.count; ++i) {
    visit(run.offset + i * static_cast<uint64_t>(run.stride), run.payload_offset + i * static_cast<uint64_t>(run.payload_stride));
  }
}

Place place_of(const Config& config, uint32_t shard, uint32_t group) {
  const GroupPlan& plan = config.groups[group];
  const RecordFamily family = families_of(config)[group];  // policy auto: one of each group
  require(family.groups.size() == 1 && family.groups[0] == group, "families are groups");
  Place place{shard, family, RecordShape::of(config, shard, family), {}, {}};
  if (place.shape.members.empty()) return place;
  const uint32_t blocks = plan.is_state() ? 1 : static_cast<uint32_t>(kUnit / plan.block_tokens);
  for (uint32_t i = 0; i < blocks * plan.ids_per_block; ++i) place.ids.push_back(static_cast<int32_t>((1 + 2 * i) * plan.parts_per_page));
  auto runs = RecordRuns::make(config, shard, family, place.shape);
  require(runs.ok() && runs->is_whole(), "a plan's own records are whole");
  std::vector<PayloadRun> list;
  if (plan.is_state()) {
    runs->state(place.ids, &list);
  } else {
    runs->tokens(0, kUnit, place.ids, 0, 0, &list);
  }
  for (const quire_region_info& region : config.shards[shard].regions) place.own.emplace_back(region.bytes, false);
  for (const PayloadRun& run : list) {
    each_piece(run, [&](uint64_t at, uint64_t) { std::fill_n(place.own[run.region].begin() + static_cast<int64_t>(at), run.bytes, true); });
  }
  return place;
}

Reader reader_of(const Model& model, uint32_t ranks, uint32_t block, const char* layout) {
  quire_plan_options options{};
  options.struct_size = sizeof options;
  options.policy = {"auto", 4};
  options.layout = {layout, std::strlen(layout)};
  const uint64_t memory = uint64_t{1} << 30;
  options.memory_bytes = &memory;
  options.num_memory_bytes = 1;
  options.num_pages = kPages;
  options.max_model_len = 64;
  options.tensor_parallel = ranks;
  options.block_tokens = block;
  auto made = plan(model, options);
  if (!made.ok()) std::fprintf(stderr, "%s\n", made.status().message().c_str());
  require(made.ok(), "there is a plan");
  Reader reader{*made, {}};
  for (uint32_t s = 0; s < reader.config->shards.size(); ++s) {
    for (uint32_t g = 0; g < reader.config->groups.size(); ++g) {
      Place place = place_of(*reader.config, s, g);
      if (!place.shape.members.empty()) reader.places.push_back(std::move(place));
    }
  }
  return reader;
}

// How far inputs came: a target that refuses everything at once finds nothing.
struct Tally {
  uint64_t records = 0, headers = 0, whole = 0, shapes = 0, foreign = 0, runs = 0;

  ~Tally() {
    std::printf(
        "%llu records: %llu headers read, %llu whole; %llu shapes could be read, %llu of them of other blocks or orders; %llu runs\n",
        static_cast<unsigned long long>(records), static_cast<unsigned long long>(headers), static_cast<unsigned long long>(whole),
        static_cast<unsigned long long>(shapes), static_cast<unsigned long long>(foreign), static_cast<unsigned long long>(runs));
  }
};

Tally& tally() {
  static Tally one;
  return one;
}

const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = [] {
    std::vector<Reader> made;
    made.push_back(reader_of(some_model(true), 1, 16, ""));
    made.push_back(reader_of(some_model(false), 2, 32, "BPJKTHD"));
    made.push_back(reader_of(some_model(false), 1, 64, "BJPKTHD"));
    return made;
  }();
  return all;
}

// Changing --------------------------------------------------------------------------------------------------------------------------

uint64_t value(Input* in, uint64_t before) {
  switch (in->below(4)) {
    case 0:
      return before + in->take<int8_t>();
    case 1:
      return in->take<uint64_t>();
    default:
      return kValues[in->below(kValues.size())];
  }
}

uint32_t word(Input* in, uint32_t before) { return static_cast<uint32_t>(value(in, before)); }

void change_slice(Input* in, CacheSlice* slice) {
  uint32_t* const words[] = {&slice->first_head, &slice->num_heads, &slice->rows, &slice->context_rank, &slice->context_ranks};
  const uint32_t which = in->below(8);
  if (which < 5) {
    *words[which] = word(in, *words[which]);
  } else if (slice->tensors.empty()) {
    slice->tensors.resize(in->below(4));
  } else {
    StateSlice& tensor = slice->tensors[in->below(static_cast<uint32_t>(slice->tensors.size()))];
    const uint32_t k = in->below(4);
    if (which == 5) tensor.shape[k] = value(in, tensor.shape[k]);
    if (which == 6) (in->below(2) == 0 ? tensor.parts : tensor.repeats)[k] = word(in, tensor.parts[k]);
    if (which == 7) (in->below(2) == 0 ? tensor.num_ranks : tensor.rank) = word(in, tensor.rank);
  }
}

void change_shape(Input* in, RecordShape* shape) {
  constexpr std::array<const char*, 10> kOrders{"BPJKTHD", "BPJKHTD", "BJPKTHD", "BPJTHKD", "BLJKTHD",
                                                "BKTHD",   "B",       "PB",      "BHJKTD",  "BDTH"};
  switch (in->below(7)) {
    case 0:
      shape->order = kOrders[in->below(kOrders.size())];
      break;
    case 1:
      shape->is_state = !shape->is_state;
      break;
    case 2:
      shape->kernel_blocks = word(in, shape->kernel_blocks);
      break;
    case 3: {
      RecordMember& member = shape->members[in->below(static_cast<uint32_t>(shape->members.size()))];
      uint32_t* const words[] = {&member.layer, &member.sub, &member.slice};
      uint32_t* const at = words[in->below(3)];
      *at = word(in, *at);
      break;
    }
    case 4:
      if (in->below(2) == 0 && shape->members.size() > 1) {
        shape->members.pop_back();
      } else {
        shape->members.push_back({in->below(8), 0, in->below(2)});
      }
      break;
    case 5:
      shape->slices.push_back(shape->slices[0]);
      break;
    default:
      change_slice(in, &shape->slices[in->below(static_cast<uint32_t>(shape->slices.size()))]);
      break;
  }
}

void change_header(Input* in, RecordHeader* header) {
  uint64_t* const numbers[] = {&header->first_token,        &header->end_token,        &header->block_bytes,
                               &header->stretches[0].first, &header->stretches[0].end, &header->stretches[1].first,
                               &header->stretches[1].end};
  const uint32_t which = in->below(8);
  if (which == 7) {
    header->block_tokens = word(in, header->block_tokens);
  } else {
    *numbers[which] = value(in, *numbers[which]);
  }
}

RecordHeader valid_header(Input* in, const Reader& writer) {
  const Place& place = writer.places[in->below(static_cast<uint32_t>(writer.places.size()))];
  auto views = RecordViews::make(*writer.config, place.shape);
  require(views.ok(), "a plan has views of its own records");
  RecordHeader header;
  header.shape = place.shape;
  header.first_token = kUnit * in->below(kMostTokens / kUnit);
  header.end_token = header.first_token + kUnit;
  header.block_tokens = views->block_tokens;
  header.block_bytes = views->block_bytes;
  header.stretches[0] = {0, 1};
  if (!place.shape.is_state) header.stretches[0] = {header.first_token / views->block_tokens, header.end_token / views->block_tokens};
  return header;
}

void sign(std::vector<uint8_t>* record) {
  uint32_t size = 0;
  if (record->size() < quire::kHeaderGrain) return;
  std::memcpy(&size, record->data() + test::MadeRecord::kSizeAt, sizeof size);
  if (size <= record->size()) test::MadeRecord::sign(record);
}

void patch(Input* in, std::vector<uint8_t>* record, size_t most) {
  const size_t bytes = in->below(2) == 0 ? 4 : 8;
  if (most < bytes) return;
  const size_t at = in->take<uint16_t>() % (most - bytes + 1) / 4 * 4;
  uint64_t number = 0;
  std::memcpy(&number, record->data() + at, bytes);
  number = value(in, number);
  std::memcpy(record->data() + at, &number, bytes);
}

std::vector<uint8_t> record_of(Input* in, const Reader& reader) {
  if (in->below(8) == 0) {  // the input itself
    std::vector<uint8_t> raw(in->data(), in->data() + in->size());
    sign(&raw);
    return raw;
  }
  RecordHeader header = valid_header(in, readers()[in->below(static_cast<uint32_t>(readers().size()))]);
  for (uint32_t n = in->below(4); n > 0; --n) change_shape(in, &header.shape);
  std::vector<uint8_t> shape;
  header.shape.encode(&shape);
  if (RecordShape::decode(shape).ok() && in->below(4) != 0) {  // as if another plan had such blocks
    if (auto views = RecordViews::make(*reader.config, header.shape); views.ok()) {
      header.block_bytes = views->block_bytes;
      header.block_tokens = views->block_tokens;
      if (views->block_tokens != 0) {
        header.stretches[0] = {header.first_token / views->block_tokens, ceil_div(header.end_token, views->block_tokens)};
      }
    }
  }
  for (uint32_t n = in->below(8); n > 5; --n) change_header(in, &header);
  const uint64_t blocks = header.num_blocks(), block_bytes = std::min(header.block_bytes, kMostPayload);
  header.checksums.resize(std::min<uint64_t>(blocks, 512));
  std::vector<uint8_t> payload(std::min(header.checksums.size() * block_bytes, kMostPayload), 0x5a);
  for (size_t b = 0; b < header.checksums.size() && (b + 1) * block_bytes <= payload.size(); ++b) {
    header.checksums[b] = checksum(payload.data() + b * block_bytes, block_bytes);
  }
  std::vector<uint8_t> record(header_bytes(header.shape, header.checksums.size()));
  write_header(header, record);
  const size_t size = record.size();
  record.insert(record.end(), payload.begin(), payload.end());
  for (uint32_t n = in->below(8); n > 4; --n) patch(in, &record, std::min<size_t>(size, in->below(2) == 0 ? 512 : size));
  if (in->below(8) != 0) sign(&record);
  if (in->below(16) == 0) record.resize(in->take<uint16_t>());
  return record;
}

// Reading ---------------------------------------------------------------------------------------------------------------------------

void check_header(const RecordHeader& header, std::span<const uint8_t> record) {
  const uint64_t size = read_header_bytes(record);
  require(size != 0 && size <= record.size(), "a header that is read lies in its bytes");
  require(header.num_blocks() == header.checksums.size() && header.num_blocks() != 0, "every block has a checksum");
  require(header_bytes(header.shape, header.num_blocks()) <= size, "what was read of a header lies in it");
  const auto payload = checked_mul(header.num_blocks(), header.block_bytes);
  require(payload.has_value() && *payload != 0 && checked_add(*payload, size).has_value(), "sizes can be counted");
  require(header.first_token <= header.end_token, "tokens begin before they end");
  for (const RecordMember& member : header.shape.members) require(member.slice < header.shape.slices.size(), "slices are there");
  for (const BlockStretch& stretch : header.stretches) {
    require(stretch.first <= stretch.end, "stretches begin before they end");
    if (stretch.size() == 0) continue;
    require(header.index_of(stretch.first) < header.num_blocks(), "blocks have places");
    require(header.index_of(stretch.end - 1) < header.num_blocks(), "blocks have places");
  }
}

// What a fetch would copy of the record into blocks of its own: see core/tier/fetch_loads.cc.
std::vector<PayloadRun> runs_into(const Reader& reader, const Place& place, const RecordHeader& header, const RecordRuns& runs) {
  std::vector<PayloadRun> list;
  if (header.shape.is_state) {
    if (header.num_blocks() == 1 && header.index_of(0) == 0) runs.state(place.ids, &list);
    return list;
  }
  const uint64_t own = reader.config->groups[place.family.groups[0]].block_tokens, other = header.block_tokens;
  const uint64_t begin = header.end_token - kUnit;
  for (uint64_t at = begin, next = 0; at < header.end_token; at = next) {
    next = std::min({header.end_token, (at / own + 1) * own, (at / other + 1) * other});
    const uint64_t in_payload = header.index_of(at / other);
    if (in_payload == UINT64_MAX) continue;
    runs.tokens(at, next, place.ids, static_cast<uint32_t>(begin / own), at / other - in_payload, &list);
  }
  return list;
}

void check_runs(const Place& place, const std::vector<PayloadRun>& list, std::span<const uint8_t> payload) {
  uint64_t sum = 0;
  for (const PayloadRun& run : list) {
    require(run.bytes != 0 && run.count != 0, "runs are not empty");
    require(run.region < place.own.size() && run.count <= payload.size(), "runs are of a region");
    const std::vector<bool>& own = place.own[run.region];
    each_piece(run, [&](uint64_t at, uint64_t from) {
      require(from <= payload.size() && run.bytes <= payload.size() - from, "runs lie inside the payload");
      require(at <= own.size() && run.bytes <= own.size() - at, "runs lie inside their region");
      const auto first = own.begin() + static_cast<int64_t>(at);
      require(std::find(first, first + static_cast<int64_t>(run.bytes), false) == first + static_cast<int64_t>(run.bytes),
              "runs lie inside the reader's blocks");
      for (uint64_t i = 0; i < run.bytes; ++i) sum += payload[from + i];
    });
  }
  require(sum < UINT64_MAX, "bytes can be read");
}

void read(const Reader& reader, std::span<const uint8_t> record) {
  ++tally().records;
  auto header = read_header(record);
  if (!header.ok()) {
    require(header.status().code() == QUIRE_DATA_LOSS && !header.status().message().empty(), "a refusal has a sentence");
    return;
  }
  check_header(*header, record);
  ++tally().headers;
  const uint64_t begin = header_bytes(header->shape, header->num_blocks());
  if (begin + header->payload_bytes() != record.size()) return;
  const std::span<const uint8_t> payload = record.subspan(begin);
  if (count_damaged(*header, 0, payload) != 0) return;
  if (header->end_token < kUnit || header->end_token > kMostTokens || header->end_token % kUnit != 0) return;  // no unit of the reader
  ++tally().whole;
  for (const Place& place : reader.places) {
    auto runs = RecordRuns::make(*reader.config, place.shard, place.family, header->shape);
    if (!runs.ok()) {
      require(!runs.status().message().empty(), "a refusal has a sentence");
      continue;
    }
    if (runs->block_bytes() != header->block_bytes || runs->block_tokens() != header->block_tokens) continue;
    const std::vector<PayloadRun> list = runs_into(reader, place, *header, *runs);
    check_runs(place, list, payload);
    ++tally().shapes;
    tally().foreign += header->shape != place.shape ? 1 : 0;
    tally().runs += list.size();
  }
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::fuzz;
  Input in(data, size);
  const Reader& reader = readers()[in.below(static_cast<uint32_t>(readers().size()))];
  const std::vector<uint8_t> made = record_of(&in, reader);
  const std::vector<uint8_t> record(made.begin(), made.end());  // of exactly this size
  read(reader, record);
  return 0;
}
