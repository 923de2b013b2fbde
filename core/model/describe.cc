// A model as a table: one row per kind of cache, and the layers that have it.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "core/model/check_codec.h"
#include "core/model/dtype.h"
#include "core/model/model_layers.h"

namespace quire {
namespace {

constexpr size_t kMostListed = 60;    // characters of a list of layers
constexpr size_t kMostColumns = 100;  // of a line
constexpr size_t kLeastListed = 20;   // columns that a list of layers gets on the line of its row; below that it has a line of its own

std::string counted(uint64_t number, const char* noun) { return std::to_string(number) + " " + noun + (number == 1 ? "" : "s"); }

const char* name_of(const quire_layer& layer) {
  switch (layer.kind) {
    case QUIRE_LAYER_NONE:
      return "nothing";
    case QUIRE_LAYER_FULL:
      return "full attention";
    case QUIRE_LAYER_SLIDING_WINDOW:
      return "sliding window";
    case QUIRE_LAYER_CHUNKED:
      return "chunked";
    case QUIRE_LAYER_MLA:
      return layer.window != 0 ? "latent window" : "latent";
    case QUIRE_LAYER_CROSS:
      return "cross attention";
    case QUIRE_LAYER_ENCODER_ONLY:
      return "encoder only";
    case QUIRE_LAYER_INDEXER:
      return layer.window != 0 ? "side window" : "indexer";
    default:
      break;
  }
  constexpr const char* kStates[] = {"state", "mamba 1", "mamba 2", "gated delta net", "delta attention", "lightning", "short convolution"};
  return kStates[layer.state_kind];
}

std::string dtype_name(quire_dtype dtype) {
  switch (dtype.code) {
    case QUIRE_DTYPE_BFLOAT:
      return "bf16";
    case QUIRE_DTYPE_FLOAT8_E4M3FN:
      return "fp8_e4m3";
    case QUIRE_DTYPE_FLOAT8_E5M2:
      return "fp8_e5m2";
    case QUIRE_DTYPE_FLOAT:
      return "fp" + std::to_string(dtype.bits);
    case QUIRE_DTYPE_FLOAT4_E2M1FN:
      return "fp4_e2m1";
    default:
      return (dtype.code == QUIRE_DTYPE_INT ? "int" : "uint") + std::to_string(dtype.bits);
  }
}

// An encoding in words: what a row has behind its elements, or how a block is cut.
std::string codec_name(const quire_layer& layer) {
  constexpr const char* kBlocks[] = {"", "records", "block split", "tiled", "shuffled", "columns of K", "AMX tiles"};
  const quire_codec_params& params = layer.codec_params;
  std::string out = kBlocks[layer.codec];
  if (layer.codec != QUIRE_CODEC_RECORD && layer.codec != QUIRE_CODEC_BLOCK_SPLIT) return out;
  const uint64_t cells = cell_bytes(layer, 0) + cell_bytes(layer, 1);
  out += " of " + std::to_string(cells) + " B";
  if (params.data_dtype.bits != 0 && !same_dtype(params.data_dtype, layer.dtype)) out += " in " + dtype_name(params.data_dtype);
  if (params.scale_bytes[0] != 0) out += ", scales";
  if (params.tail_bytes[0] != 0) out += ", " + dtype_name(params.tail_dtype) + " tail";
  return out;
}

std::string shape_of(const quire_layer& layer) {
  std::string out;
  if (layer.kind == QUIRE_LAYER_NONE || layer.kind == QUIRE_LAYER_ENCODER_ONLY) return "-";
  for (uint32_t i = 0; i < layer.num_state_tensors; ++i) {
    const quire_state_tensor& tensor = layer.state[i];
    out += out.empty() ? "" : " + ";
    for (uint32_t k = 0; k < tensor.ndim; ++k) out += (k != 0 ? "x" : "") + std::to_string(tensor.shape[k]);
    out += " " + dtype_name(tensor.dtype);
  }
  if (layer.num_state_tensors != 0) return out;
  out = std::to_string(layer.num_kv_heads) + " x " + std::to_string(layer.head_dim_k);
  if (layer.head_dim_v != 0 && layer.head_dim_v != layer.head_dim_k) out += "/" + std::to_string(layer.head_dim_v);
  out += " " + dtype_name(layer.dtype);
  if (layer.compress_ratio > 1) out += ", 1 of " + std::to_string(layer.compress_ratio);
  if (layer.codec != QUIRE_CODEC_STRIDED) out += ", " + codec_name(layer);
  return out;
}

std::string keeps(const quire_layer& layer) {
  if (layer.shares_with != 0) return "of another layer";
  if (layer.kind == QUIRE_LAYER_STATE) return "one state";
  if (layer.kind == QUIRE_LAYER_CROSS) return std::to_string(layer.encoder_tokens) + " of the encoder";
  if (layer.kind == QUIRE_LAYER_NONE || layer.kind == QUIRE_LAYER_ENCODER_ONLY) return "nothing";
  if (layer.window == 0) return "all tokens";
  return (layer.sink_tokens != 0 ? std::to_string(layer.sink_tokens) + " + " : "") + counted(layer.window, "token");
}

// Bytes of a state, or of a row of one token.
std::string bytes_of(const LayerCache& cache) {
  const quire_layer& layer = cache.desc;
  if (!cache.has_memory()) return "0";
  if (!cache.is_state()) return std::to_string(layer.num_kv_heads * (cell_bytes(layer, 0) + cell_bytes(layer, 1)));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < layer.num_state_tensors; ++i) {
    uint64_t bytes = element_bytes(layer.state[i].dtype);
    for (uint32_t k = 0; k < layer.state[i].ndim; ++k) bytes *= layer.state[i].shape[k];
    sum += bytes;
  }
  return std::to_string(sum);
}

std::string list_of(std::vector<uint32_t> layers) {
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  const bool several = layers.size() > 2 && layers[1] - layers[0] > 1;
  bool even = several;
  for (size_t i = 2; i < layers.size() && even; ++i) even = layers[i] - layers[i - 1] == layers[1] - layers[0];
  if (even) return std::to_string(layers[0]) + ", " + std::to_string(layers[1]) + " .. " + std::to_string(layers.back());
  std::string out;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i;
    while (end + 1 < layers.size() && layers[end + 1] == layers[end] + 1) ++end;
    std::string run = std::to_string(layers[i]);
    if (end != i) run += "-" + std::to_string(layers[end]);
    if (out.size() + run.size() > kMostListed) return out + ", .. " + std::to_string(layers.back());
    out += (out.empty() ? "" : ", ") + run;
    i = end + 1;
  }
  return out;
}

struct Row {
  std::string name;
  std::string shape;
  std::string keeps;
  std::string bytes;
  std::vector<uint32_t> layers;

  bool same(const Row& other) const { return name == other.name && shape == other.shape && keeps == other.keeps && bytes == other.bytes; }
};

// The rows below their headings; each column is as wide as its widest text.
class Table {
 public:
  void add(const std::string& count, const Row& row, const std::string& layers) {
    lines_.push_back({{count, row.name, row.shape, row.keeps, row.bytes}, layers});
    for (size_t i = 0; i < kCells; ++i) widths_[i] = std::max(widths_[i], lines_.back().cells[i].size());
  }

  std::string text() {
    size_t others = 0;
    for (size_t i = 0; i < kCells; ++i) others += (i == 0 ? 0 : 2) + (i == kShape ? 0 : widths_[i]);
    const size_t room = std::max(kLeastShape, kMostColumns - std::min(kMostColumns, others));
    widths_[kShape] = std::min(widths_[kShape], room);
    std::string out;
    for (Line& line : lines_) {
      const std::string rest = cut(room, &line.cells[kShape]);
      std::string row;
      for (size_t i = 0; i < kCells; ++i) {
        const std::string& cell = line.cells[i];
        const std::string space(widths_[i] - std::min(widths_[i], cell.size()), ' ');
        const bool right = i == 0 || i + 1 == kCells;  // numbers
        row += (i == 0 ? "" : "  ") + (right ? space + cell : cell + space);
      }
      out += rest.empty() ? with_list(row, line.layers) : row + "\n" + below(rest, room) + with_list("", line.layers);
    }
    return out;
  }

 private:
  static constexpr size_t kCells = 5;
  static constexpr size_t kShape = 2;  // the cell that may have several lines
  static constexpr size_t kLeastShape = 24;
  struct Line {
    std::string cells[kCells];
    std::string layers;
  };

  // Leaves what fits of a shape, up to a space, and returns the rest.
  static std::string cut(size_t room, std::string* shape) {
    if (shape->size() <= room) return {};
    const size_t space = shape->rfind(' ', room);
    if (space == std::string::npos || space == 0) return {};
    std::string rest = shape->substr(space + 1);
    shape->resize(space);
    return rest;
  }

  // Further lines of a shape, under its column.
  std::string below(std::string rest, size_t room) const {
    const std::string indent(widths_[0] + widths_[1] + 4, ' ');
    std::string out;
    while (!rest.empty()) {
      const std::string next = cut(room, &rest);
      out += indent + rest + "\n";
      rest = next;
    }
    return out;
  }

  // The list behind the row, or below it where no room is left.
  static std::string with_list(std::string row, const std::string& layers) {
    constexpr size_t kIndent = 8;
    const size_t start = row.size() + 2;
    if (row.empty()) row = std::string(kIndent - 2, ' ');
    if (start + layers.size() <= kMostColumns && start > 2) return row + "  " + layers + "\n";
    const bool below = start > 2 && start + kLeastListed > kMostColumns;
    const size_t indent = below || start == 2 ? kIndent : start;
    row += below ? "\n" + std::string(kIndent, ' ') : "  ";
    size_t column = indent;
    for (size_t from = 0; from < layers.size();) {
      const size_t space = std::min(layers.find(' ', from), layers.size());
      if (column != indent && column + space - from > kMostColumns) {
        row.back() = '\n';
        row += std::string(indent, ' ');
        column = indent;
      }
      row += layers.substr(from, space + 1 - from);
      column += space + 1 - from;
      from = space + 1;
    }
    return row + "\n";
  }

  std::vector<Line> lines_;
  size_t widths_[kCells] = {};
};

}  // namespace

std::string describe(const Model& model) {
  std::vector<Row> rows;
  for (const LayerCache& cache : model.caches()) {
    Row row{name_of(cache.desc), shape_of(cache.desc), keeps(cache.desc), bytes_of(cache), {cache.desc.layer}};
    if ((cache.desc.flags & QUIRE_LAYER_DRAFT) != 0) row.name += ", draft";
    const auto it = std::find_if(rows.begin(), rows.end(), [&](const Row& other) { return other.same(row); });
    if (it != rows.end()) {
      it->layers.push_back(cache.desc.layer);
    } else {
      rows.push_back(std::move(row));
    }
  }
  std::string out = (model.architecture().empty() ? "model" : model.architecture()) + ": " + counted(model.num_layers(), "layer") + ", ";
  out += counted(model.caches().size(), "cache") + ", ";
  out += model.max_model_len() != 0 ? "at most " + counted(model.max_model_len(), "token") + "\n" : "length not stated\n";
  Table table;
  table.add("caches", {"kind", "heads x width, or tensors", "keeps", "bytes", {}}, "layers");
  for (const Row& row : rows) table.add(std::to_string(row.layers.size()), row, list_of(row.layers));
  return out + table.text();
}

}  // namespace quire
