#include "tests/kernels/conformance/oracle.h"

#include "tests/kernels/conformance/coded_oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace quire::oracle {
namespace {

// A small float format: sign, exponent, mantissa bits; `finite_only` has no infinity and one NaN (e4m3fn).
struct Format {
  int exponent;
  int mantissa;
  bool finite_only;
  bool saturates;
};

bool format_of(quire_dtype t, Format* f) {
  if (t.code == QUIRE_DTYPE_FLOAT && t.bits == 16)
    *f = {5, 10, false, false};
  else if (t.code == QUIRE_DTYPE_FLOAT && t.bits == 32)
    *f = {8, 23, false, false};
  else if (t.code == QUIRE_DTYPE_BFLOAT && t.bits == 16)
    *f = {8, 7, false, false};
  else if (t.code == QUIRE_DTYPE_FLOAT8_E4M3FN && t.bits == 8)
    *f = {4, 3, true, true};
  else if (t.code == QUIRE_DTYPE_FLOAT8_E5M2 && t.bits == 8)
    *f = {5, 2, false, true};
  else
    return false;
  return true;
}

double decode_bits(const Format& f, uint32_t bits) {
  const uint32_t mantissa = bits & ((1u << f.mantissa) - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa) & ((1 << f.exponent) - 1);
  const double sign = (bits >> (f.exponent + f.mantissa) & 1) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (f.exponent - 1)) - 1;
  if (exponent == (1 << f.exponent) - 1) {
    if (!f.finite_only) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
    if (mantissa == (1u << f.mantissa) - 1) return std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - f.mantissa);
  return sign * std::ldexp(mantissa + (1u << f.mantissa), exponent - bias - f.mantissa);
}

// The value of every code, decoded once.
const std::vector<double>& values_of(const Format& f, int bits) {
  static std::vector<double> tables[9][17];
  std::vector<double>& table = tables[f.exponent][bits];
  if (table.empty()) {
    for (uint32_t code = 0; code < (1u << bits); ++code) table.push_back(decode_bits(f, code));
  }
  return table;
}

uint32_t encode_bits(const Format& f, double value) {
  const uint32_t top = (1u << (f.exponent + f.mantissa)) - 1;  // all ones
  const uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
  const uint32_t largest = f.finite_only ? top - 1 : infinity - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (f.exponent + f.mantissa) : 0;
  if (std::isnan(value)) return sign | top;
  const double magnitude = std::fabs(value);
  const double* const values = values_of(f, 1 + f.exponent + f.mantissa).data();
  // The last code whose value is at or below the magnitude.
  const auto low = static_cast<uint32_t>(std::upper_bound(values, values + largest + 1, magnitude) - values) - 1;
  const double below = values[low];
  if (below == magnitude) return sign | low;
  const double step = low == largest ? below - values[low - 1] : values[low + 1] - below;
  const double rest = magnitude - below;
  const bool up = rest > step / 2 || (rest == step / 2 && (low & 1) != 0);
  if (!up) return sign | low;
  if (low < largest) return sign | (low + 1);
  return sign | (f.saturates ? largest : infinity);
}

// The stored keys and values of one row and KV head, decoded once: [kv_len][head_dim].
struct Stored {
  std::vector<double> key, value;
};

std::vector<double> decode_side(const quire_attention& op, uint32_t row, uint32_t side, int64_t kv_head, int64_t dim) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(op.batch->kv_len[row] * dim));
  for (int64_t key = 0; key < op.batch->kv_len[row]; ++key) {
    const int64_t id = op.batch->table[row * op.batch->table_pitch + static_cast<uint64_t>(key / op.kv.block_tokens)];
    const int64_t token = key % op.kv.block_tokens;
    for (int64_t d = 0; d < dim; ++d) {
      out.push_back(op.kv.codec == QUIRE_CODEC_STRIDED ? decode(op.kv.dtype, kv_address(op.kv, side, id, token, kv_head, d))
                                                       : coded_element(op.kv, side, id, token, kv_head, d));
    }
  }
  return out;
}

double logit_of(const quire_attention& op, const std::vector<double>& query, const double* key) {
  const double scale = op.scale != 0 ? op.scale : 1.0 / std::sqrt(static_cast<double>(op.kv.side[0].head_dim));
  double dot = 0;
  for (size_t d = 0; d < query.size(); ++d) dot += query[d] * key[d];
  dot *= scale * (op.scale_k != 0 ? op.scale_k : 1.0);
  return op.softcap != 0 ? op.softcap * std::tanh(dot / op.softcap) : dot;
}

bool sees(const quire_attention& op, uint32_t row, int64_t query, int64_t position, int64_t key) {
  if ((op.flags & QUIRE_ATTENTION_CAUSAL) != 0 && key > position) return false;
  if (op.window != 0 && position - key >= static_cast<int64_t>(op.window) && key >= static_cast<int64_t>(op.sink_tokens)) return false;
  if (op.chunk != 0 && key / op.chunk != position / op.chunk) return false;
  if (op.mask_bits != nullptr) {
    const int64_t bit = op.mask_indptr[row] + query * op.batch->kv_len[row] + key;
    if ((op.mask_bits[bit / 8] & (1 << (bit % 8))) == 0) return false;
  }
  return true;
}

void attend(const quire_attention& op, uint32_t row, int64_t query, uint32_t head, const Stored& stored, Attention* result) {
  const auto dim_v = op.out.shape[2];
  const int64_t heads = op.query.shape[1];
  const int64_t token = op.batch->query_indptr[row] + query;
  const int64_t position = op.batch->kv_len[row] - (op.batch->query_indptr[row + 1] - op.batch->query_indptr[row]) + query;
  const double minus = -std::numeric_limits<double>::infinity();
  std::vector<double> logits(static_cast<size_t>(op.batch->kv_len[row]), minus);
  double top = minus;
  std::vector<double> q(op.kv.side[0].head_dim);
  for (size_t d = 0; d < q.size(); ++d) q[d] = element(op.query, token, head, static_cast<int64_t>(d));
  for (int64_t key = 0; key < op.batch->kv_len[row]; ++key) {
    if (!sees(op, row, query, position, key)) continue;
    double logit = logit_of(op, q, &stored.key[static_cast<size_t>(key) * q.size()]);
    if (op.alibi_slopes != nullptr) logit += op.alibi_slopes[head] * static_cast<double>(key - position);
    logits[static_cast<size_t>(key)] = logit;
    top = std::max(top, logit);
  }
  if (top == minus) return;
  if (op.sink_logits != nullptr) top = std::max<double>(top, op.sink_logits[head]);
  double total = op.sink_logits != nullptr ? std::exp(op.sink_logits[head] - top) : 0.0;
  double* out = &result->out[static_cast<size_t>((token * heads + head) * dim_v)];
  const double scale_v = op.kv.num_sides == 1 ? (op.scale_k != 0 ? op.scale_k : 1.0) : (op.scale_v != 0 ? op.scale_v : 1.0);
  for (int64_t key = 0; key < op.batch->kv_len[row]; ++key) {
    const double weight = std::exp(logits[static_cast<size_t>(key)] - top);
    if (logits[static_cast<size_t>(key)] == minus) continue;
    total += weight;
    for (int64_t d = 0; d < dim_v; ++d) out[d] += weight * scale_v * stored.value[static_cast<size_t>(key * dim_v + d)];
  }
  for (int64_t d = 0; d < dim_v; ++d) out[d] /= total;
  result->lse[static_cast<size_t>(token * heads + head)] = top + std::log(total);
}

}  // namespace

int64_t bytes_of(quire_dtype dtype) { return dtype.bits / 8; }

double decode(quire_dtype dtype, const void* address) {
  uint32_t bits = 0;
  if (dtype.bits == 32)
    memcpy(&bits, address, 4);
  else if (dtype.bits == 16)
    memcpy(&bits, address, 2);
  else
    memcpy(&bits, address, 1);
  if (dtype.code == QUIRE_DTYPE_INT) return static_cast<int8_t>(bits);
  if (dtype.bits == 32) {
    float f = 0;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
  Format f{};
  if (!format_of(dtype, &f)) return std::nan("");
  return values_of(f, dtype.bits)[bits];
}

void encode(quire_dtype dtype, void* address, double value) {
  uint32_t bits = 0;
  Format f{};
  if (dtype.code == QUIRE_DTYPE_INT) {
    bits = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(std::fmin(std::fmax(value, -127.0), 127.0))));
  } else if (format_of(dtype, &f)) {
    if (f.mantissa == 23) {
      const float narrow = static_cast<float>(value);
      memcpy(&bits, &narrow, sizeof bits);
    } else {
      bits = encode_bits(f, value);
    }
  }
  memcpy(address, &bits, static_cast<size_t>(bytes_of(dtype)));
}

double element(const quire_tensor& tensor, int64_t i, int64_t j, int64_t k) {
  const char* p = static_cast<const char*>(tensor.data);
  const int64_t index[3] = {i, j, k};
  for (int32_t d = 0; d < std::min(tensor.ndim, 3); ++d) p += index[d] * tensor.stride[d];
  return decode(tensor.dtype, p);
}

char* kv_address(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim) {
  const quire_paged_side& s = kv.side[side];
  __int128 offset = static_cast<__int128>(id) * s.unit;
  offset += static_cast<__int128>(token) * s.stride_token;
  offset += static_cast<__int128>(head) * s.stride_head;
  offset += static_cast<__int128>(dim) * s.stride_dim;
  return static_cast<char*>(s.base) + static_cast<int64_t>(offset);
}

char* state_address(const quire_paged_state& state, int64_t id, int64_t i, int64_t j, int64_t k) {
  const int64_t index[3] = {i, j, k};
  __int128 offset = static_cast<__int128>(id) * state.unit;
  for (uint32_t d = 0; d < std::min(state.ndim, 3u); ++d) offset += static_cast<__int128>(index[d]) * state.stride[d];
  return static_cast<char*>(state.base) + static_cast<int64_t>(offset);
}

Attention attention(const quire_attention& op) {
  const int64_t rows = op.query.shape[0] * op.query.shape[1];
  Attention result{std::vector<double>(static_cast<size_t>(rows * op.out.shape[2]), 0.0),
                   std::vector<double>(static_cast<size_t>(rows), -std::numeric_limits<double>::infinity())};
  for (uint32_t row = 0; row < op.batch->num_rows; ++row) {
    const int64_t group = op.query.shape[1] / op.kv.num_heads;
    for (int64_t kv_head = 0; kv_head < op.kv.num_heads; ++kv_head) {
      const Stored stored{decode_side(op, row, 0, kv_head, op.kv.side[0].head_dim),
                          decode_side(op, row, op.kv.num_sides == 1 ? 0 : 1, kv_head, op.out.shape[2])};
      for (int64_t query = 0; query < op.batch->query_indptr[row + 1] - op.batch->query_indptr[row]; ++query) {
        for (int64_t g = 0; g < group; ++g) attend(op, row, query, static_cast<uint32_t>(kv_head * group + g), stored, &result);
      }
    }
  }
  return result;
}

void append(const quire_kv_append& op) {
  for (uint64_t token = 0; token < op.batch->num_slots; ++token) {
    if (op.batch->slots[token] < 0) continue;
    const int64_t id = op.batch->slots[token] / op.kv.block_tokens;
    const int64_t t = op.batch->slots[token] % op.kv.block_tokens;
    for (uint32_t side = 0; side < op.kv.num_sides; ++side) {
      const quire_tensor& source = side == 0 ? op.key : op.value;
      const double scale = side == 0 ? op.scale_k : op.scale_v;
      for (uint32_t head = 0; head < op.kv.num_heads; ++head) {
        std::vector<double> x(op.kv.side[side].head_dim);
        for (size_t d = 0; d < x.size(); ++d) x[d] = element(source, static_cast<int64_t>(token), head, static_cast<int64_t>(d));
        const uint32_t half = op.rope_cos != nullptr && side == 0 ? op.rope_dim / 2 : 0;
        for (uint32_t i = 0; i < half; ++i) {
          const double angle_cos = op.rope_cos[op.batch->positions[token] * static_cast<int64_t>(half) + i];
          const double angle_sin = op.rope_sin[op.batch->positions[token] * static_cast<int64_t>(half) + i];
          double& a = op.rope_interleaved != 0 ? x[size_t{2} * i] : x[i];
          double& b = op.rope_interleaved != 0 ? x[size_t{2} * i + 1] : x[size_t{i} + half];
          const double turned = a * angle_cos - b * angle_sin;
          b = b * angle_cos + a * angle_sin;
          a = turned;
        }
        if (scale != 0) {
          for (double& v : x) v /= scale;
        }
        if (op.kv.codec != QUIRE_CODEC_STRIDED) {
          append_coded(op.kv, side, id, t, head, x);
          continue;
        }
        for (size_t d = 0; d < x.size(); ++d) {
          encode(op.kv.dtype, kv_address(op.kv, side, id, t, head, static_cast<int64_t>(d)), x[d]);
        }
      }
    }
  }
}

namespace {

// Entries of state_write that hold the state behind the first `count` of the row's tokens.
template <typename Op>
std::vector<size_t> entries_behind(const Op& op, uint32_t row, int64_t count) {
  const int64_t tokens = op.batch->query_indptr[row + 1] - op.batch->query_indptr[row];
  std::vector<size_t> found;
  if (op.batch->state_write_indptr == nullptr) {
    if (count == tokens) found.push_back(row);
    return found;
  }
  for (int32_t i = op.batch->state_write_indptr[row]; i < op.batch->state_write_indptr[row + 1]; ++i) {
    if (op.batch->state_write_ends[i] == op.batch->kv_len[row] - tokens + count) found.push_back(static_cast<size_t>(i));
  }
  return found;
}

template <typename Op>
size_t all_entries(const Op& op) {
  return op.batch->state_write_indptr == nullptr ? op.batch->num_rows
                                                 : static_cast<size_t>(op.batch->state_write_indptr[op.batch->num_rows]);
}

}  // namespace

GatedDelta gated_delta(const quire_gated_delta& op) {
  const bool v_major = (op.flags & QUIRE_GATED_DELTA_V_MAJOR) != 0;
  const auto heads = static_cast<int64_t>(op.state.shape[0]);
  const auto dim_k = static_cast<int64_t>(op.state.shape[v_major ? 2 : 1]);
  const auto dim_v = static_cast<int64_t>(op.state.shape[v_major ? 1 : 2]);
  const int64_t group = heads / op.query.shape[1];
  const double scale = op.scale != 0 ? op.scale : 1.0 / std::sqrt(static_cast<double>(dim_k));
  GatedDelta result{std::vector<double>(static_cast<size_t>(op.value.shape[0] * heads * dim_v)),
                    std::vector<double>(all_entries(op) * static_cast<size_t>(heads * dim_k * dim_v))};
  auto unit = [&](const quire_tensor& t, int64_t token, int64_t head) {
    std::vector<double> x(static_cast<size_t>(dim_k));
    double squares = 0;
    for (int64_t i = 0; i < dim_k; ++i) {
      x[static_cast<size_t>(i)] = element(t, token, head, i);
      squares += x[static_cast<size_t>(i)] * x[static_cast<size_t>(i)];
    }
    if ((op.flags & QUIRE_GATED_DELTA_L2NORM) != 0) {
      for (double& v : x) v /= std::sqrt(squares + 1e-6);
    }
    return x;
  };
  for (uint32_t row = 0; row < op.batch->num_rows; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<double> s(static_cast<size_t>(dim_k * dim_v));
      auto keep = [&](int64_t count) {
        for (size_t entry : entries_behind(op, row, count)) {
          std::copy(s.begin(), s.end(), result.state.begin() + (static_cast<int64_t>(entry) * heads + head) * dim_k * dim_v);
        }
      };
      for (int64_t i = 0; i < dim_k; ++i) {
        for (int64_t j = 0; j < dim_v && op.batch->state_read[row] >= 0; ++j) {
          s[static_cast<size_t>(i * dim_v + j)] =
              decode(op.state.dtype, state_address(op.state, op.batch->state_read[row], head, v_major ? j : i, v_major ? i : j));
        }
      }
      keep(0);
      for (int64_t token = op.batch->query_indptr[row]; token < op.batch->query_indptr[row + 1]; ++token) {
        const std::vector<double> q = unit(op.query, token, head / group);
        const std::vector<double> k = unit(op.key, token, head / group);
        const double beta = element(op.beta, token, head, 0);
        for (int64_t i = 0; i < dim_k; ++i) {
          const double decay = std::exp(element(op.gate, token, head, i));
          for (int64_t j = 0; j < dim_v; ++j) s[static_cast<size_t>(i * dim_v + j)] *= decay;
        }
        for (int64_t j = 0; j < dim_v; ++j) {
          double recalled = 0;
          for (int64_t i = 0; i < dim_k; ++i) recalled += s[static_cast<size_t>(i * dim_v + j)] * k[static_cast<size_t>(i)];
          const double delta = beta * (element(op.value, token, head, j) - recalled);
          double out = 0;
          for (int64_t i = 0; i < dim_k; ++i) {
            s[static_cast<size_t>(i * dim_v + j)] += k[static_cast<size_t>(i)] * delta;
            out += s[static_cast<size_t>(i * dim_v + j)] * q[static_cast<size_t>(i)];
          }
          result.out[static_cast<size_t>((token * heads + head) * dim_v + j)] = scale * out;
        }
        keep(token + 1 - op.batch->query_indptr[row]);
      }
    }
  }
  return result;
}

Conv1d conv1d(const quire_conv1d& op) {
  const auto width = static_cast<int64_t>(op.state.shape[0]) + 1;
  const auto channels = static_cast<int64_t>(op.state.shape[1]);
  Conv1d result{std::vector<double>(static_cast<size_t>(op.input.shape[0] * channels)),
                std::vector<double>(all_entries(op) * static_cast<size_t>((width - 1) * channels))};
  for (uint32_t row = 0; row < op.batch->num_rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) {
      std::vector<double> x;  // history, then the row's inputs
      auto keep = [&](int64_t count) {
        for (size_t entry : entries_behind(op, row, count)) {
          for (int64_t i = 0; i + 1 < width; ++i) {
            result.state[(entry * static_cast<size_t>(width - 1) + static_cast<size_t>(i)) * static_cast<size_t>(channels) +
                         static_cast<size_t>(c)] = x[x.size() - static_cast<size_t>(width - 1 - i)];
          }
        }
      };
      for (int64_t i = 0; i + 1 < width; ++i) {
        x.push_back(op.batch->state_read[row] < 0 ? 0.0
                                                  : decode(op.state.dtype, state_address(op.state, op.batch->state_read[row], i, c, 0)));
      }
      keep(0);
      for (int64_t token = op.batch->query_indptr[row]; token < op.batch->query_indptr[row + 1]; ++token) {
        x.push_back(element(op.input, token, c, 0));
        double y = op.bias.data != nullptr ? element(op.bias, c, 0, 0) : 0.0;
        for (int64_t w = 0; w < width; ++w) y += element(op.weight, c, w, 0) * x[x.size() - static_cast<size_t>(width - w)];
        if ((op.flags & QUIRE_CONV1D_SILU) != 0) y /= 1.0 + std::exp(-y);
        result.out[static_cast<size_t>(token * channels + c)] = y;
        keep(token + 1 - op.batch->query_indptr[row]);
      }
    }
  }
  return result;
}

SelectiveScan selective_scan(const quire_selective_scan& op) {
  const bool lines = op.state.ndim == 2;
  const auto heads = static_cast<int64_t>(op.state.shape[0]);
  const int64_t dim = lines ? 1 : static_cast<int64_t>(op.state.shape[1]);
  const auto width = static_cast<int64_t>(op.state.shape[lines ? 1 : 2]);
  SelectiveScan result{std::vector<double>(static_cast<size_t>(op.x.shape[0] * heads * dim)),
                       std::vector<double>(all_entries(op) * static_cast<size_t>(heads * dim * width))};
  for (uint32_t row = 0; row < op.batch->num_rows; ++row) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t group = head / (heads / op.b.shape[1]);
      for (int64_t p = 0; p < dim; ++p) {
        std::vector<double> s(static_cast<size_t>(width));
        for (int64_t n = 0; n < width && op.batch->state_read[row] >= 0; ++n) {
          s[static_cast<size_t>(n)] =
              decode(op.state.dtype, state_address(op.state, op.batch->state_read[row], head, lines ? n : p, lines ? 0 : n));
        }
        for (int64_t count = 0;; ++count) {
          for (size_t entry : entries_behind(op, row, count)) {
            std::copy(s.begin(), s.end(), result.state.begin() + ((static_cast<int64_t>(entry) * heads + head) * dim + p) * width);
          }
          const int64_t token = op.batch->query_indptr[row] + count;
          if (token == op.batch->query_indptr[row + 1]) break;
          double d = element(op.dt, token, head, 0) + (op.dt_bias.data != nullptr ? element(op.dt_bias, head, 0, 0) : 0.0);
          if ((op.flags & QUIRE_SELECTIVE_SCAN_SOFTPLUS) != 0) d = d > 0 ? d + std::log1p(std::exp(-d)) : std::log1p(std::exp(d));
          d = std::max<double>(d, op.dt_min);
          if (op.dt_max != 0) d = std::min<double>(d, op.dt_max);
          const double x = element(op.x, token, head, p);
          double out = op.skip.data != nullptr ? x * element(op.skip, head, op.skip.ndim == 2 ? p : 0, 0) : 0.0;
          for (int64_t n = 0; n < width; ++n) {
            double& e = s[static_cast<size_t>(n)];
            e = e * std::exp(d * element(op.a, head, op.a.ndim == 2 ? n : 0, 0)) + d * x * element(op.b, token, group, n);
            out += e * element(op.c, token, group, n);
          }
          if (op.z.data != nullptr) {
            const double z = element(op.z, token, head, p);
            out *= z / (1.0 + std::exp(-z));
          }
          result.out[static_cast<size_t>((token * heads + head) * dim + p)] = out;
        }
      }
    }
  }
  return result;
}

}  // namespace quire::oracle
