#include "checkpoint.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "foreign_json.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr size_t kMaxDimensions = 8;
constexpr uint64_t kLengthBytes = 8;

struct DtypeRow {
  Dtype dtype;
  const char* name;
  int64_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {Dtype::kF32, "F32", 4},   {Dtype::kF16, "F16", 2},        {Dtype::kBf16, "BF16", 2},
    {Dtype::kF64, "F64", 8},   {Dtype::kI64, "I64", 8},        {Dtype::kI32, "I32", 4},
    {Dtype::kI16, "I16", 2},   {Dtype::kI8, "I8", 1},          {Dtype::kU8, "U8", 1},
    {Dtype::kBool, "BOOL", 1}, {Dtype::kF8E4m3, "F8_E4M3", 1}, {Dtype::kF8E5m2, "F8_E5M2", 1},
};

const DtypeRow& row_of(Dtype dtype) {
  return *std::find_if(std::begin(kDtypes), std::end(kDtypes),
                       [&](const DtypeRow& row) { return row.dtype == dtype; });
}

float widen_half(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -small : small;
  }
  const uint32_t wide = exponent == 31 ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

// Reads the entries of one header; every message names the file.
class Header {
 public:
  Header(std::string file, std::span<const std::byte> bytes) : file_(std::move(file)) {
    if (bytes.size() < kLengthBytes)
      fail("has " + std::to_string(bytes.size()) + " bytes, too few for a header");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    if (length > kMaxHeaderBytes) {
      fail("its header would have " + std::to_string(length) + " bytes, at most " +
           std::to_string(kMaxHeaderBytes) + " are read");
    }
    if (length > bytes.size() - kLengthBytes) {
      fail("its header has " + std::to_string(length) + " bytes, the file only " +
           std::to_string(bytes.size()));
    }
    const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
    root_ = parse_object({text, length}, file_ + ": its header", {.depth = 4});
    data_ = bytes.subspan(kLengthBytes + length);
  }

  void read(Safetensors& to) const {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& [name, entry] : root_.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, to);
        continue;
      }
      const auto range = read_range(name, entry);
      to.tensors.emplace(name, read_tensor(name, entry, range));
      if (range.second != range.first) ranges.push_back(range);
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first < ranges[i - 1].second)
        fail("tensors overlap at byte " + std::to_string(ranges[i].first));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(file_ + ": " + what); }

  void read_metadata(const json& entry, Safetensors& to) const {
    if (!entry.is_object()) fail("__metadata__ is no object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("__metadata__: " + key + " is no string");
      to.metadata.emplace(key, value.get<std::string>());
    }
  }

  std::pair<uint64_t, uint64_t> read_range(const std::string& name, const json& entry) const {
    const json* offsets =
        entry.is_object() && entry.contains("data_offsets") ? &entry["data_offsets"] : nullptr;
    if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2 ||
        !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      fail("tensor " + name + ": data_offsets are not two numbers");
    }
    const auto begin = (*offsets)[0].get<uint64_t>();
    const auto end = (*offsets)[1].get<uint64_t>();
    if (begin > end || end > data_.size()) {
      fail("tensor " + name + ": its bytes [" + std::to_string(begin) + ", " + std::to_string(end) +
           ") are outside of the file, which has " + std::to_string(data_.size()) +
           " after its header");
    }
    return {begin, end};
  }

  TensorView read_tensor(const std::string& name, const json& entry,
                         std::pair<uint64_t, uint64_t> range) const {
    TensorView tensor;
    tensor.name = name;
    const std::string dtype = entry.contains("dtype") && entry["dtype"].is_string()
                                  ? entry["dtype"].get<std::string>()
                                  : "";
    const auto* row = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const DtypeRow& r) { return dtype == r.name; });
    if (row == std::end(kDtypes)) fail("tensor " + name + ": dtype '" + dtype + "' is not known");
    tensor.dtype = row->dtype;
    if (!entry.contains("shape") || !entry["shape"].is_array() ||
        entry["shape"].size() > kMaxDimensions) {
      fail("tensor " + name + ": shape is no list of at most " + std::to_string(kMaxDimensions) +
           " numbers");
    }
    uint64_t elements = 1;
    for (const json& extent : entry["shape"]) {
      if (!extent.is_number_unsigned())
        fail("tensor " + name + ": an extent of its shape is no number");
      const auto count = extent.get<uint64_t>();
      if (count > data_.size() || (count != 0 && elements > data_.size() / count)) {
        fail("tensor " + name + ": its shape has more elements than the file has bytes");
      }
      elements *= count;
      tensor.shape.push_back(static_cast<int64_t>(count));
    }
    const uint64_t needed = elements * static_cast<uint64_t>(row->bytes);
    if (needed != range.second - range.first) {
      fail("tensor " + name + ": " + dtype + " " + shape_text(tensor.shape) + " has " +
           std::to_string(needed) + " bytes, its data_offsets " +
           std::to_string(range.second - range.first));
    }
    tensor.data = data_.data() + range.first;
    return tensor;
  }

  std::string file_;
  json root_;
  std::span<const std::byte> data_;
};

// The files that model.safetensors.index.json names, in order, and where it says each tensor is.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const json root = parse_object(read_text(path, kMaxIndexBytes), path.string());
  if (!root.contains("weight_map") || !root["weight_map"].is_object())
    throw Error(path.string() + ": it has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : root["weight_map"].items()) {
    if (!file.is_string()) throw Error(path.string() + ": the file of " + tensor + " is no string");
    const auto name = file.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos) {
      std::string text = path.string();
      text.append(": tensor ").append(tensor).append(": '").append(name);
      throw Error(text + "' is no file of this folder");
    }
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

const char* dtype_name(Dtype dtype) { return row_of(dtype).name; }
int64_t dtype_bytes(Dtype dtype) { return row_of(dtype).bytes; }

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

TensorView TensorView::slice(int64_t begin, int64_t count) const {
  if (shape.empty() || begin < 0 || count < 0 || begin > shape[0] - count)
    throw Error(name + ": a slice outside of " + shape_text(shape));
  TensorView part = *this;
  part.shape[0] = count;
  part.data += shape[0] == 0 ? 0 : begin * (elements() / shape[0]) * dtype_bytes(dtype);
  return part;
}

TensorView TensorView::at(int64_t index) const {
  TensorView part = slice(index, 1);
  part.shape.erase(part.shape.begin());
  part.name += "[" + std::to_string(index) + "]";
  return part;
}

TensorView TensorView::reshaped(std::vector<int64_t> other) const {
  TensorView same = *this;
  same.shape = std::move(other);
  if (same.elements() != elements())
    throw Error(name + ": " + shape_text(shape) + " cannot become " + shape_text(same.shape));
  return same;
}

void TensorView::widen(int64_t first, std::span<float> to) const {
  const std::byte* from = data + first * dtype_bytes(dtype);
  if (dtype == Dtype::kF32) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = dtype == Dtype::kBf16 ? std::bit_cast<float>(uint32_t{bits} << 16) : widen_half(bits);
  }
}

std::vector<float> TensorView::floats() const {
  std::vector<float> values(static_cast<size_t>(elements()));
  widen(0, values);
  return values;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw Error(path.string() + ": " + std::strerror(errno));
  struct stat info {};
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file);
    throw Error(path.string() + ": no regular file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* address = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int why = errno;
  ::close(file);
  if (address == MAP_FAILED)
    throw Error(path.string() + ": cannot be mapped: " + std::strerror(why));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Safetensors Safetensors::open(const std::filesystem::path& path) {
  Safetensors result;
  result.file = std::make_shared<MappedFile>(path);
  Header(path.string(), result.file->bytes()).read(result);
  return result;
}

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint result;
  result.folder_ = folder;
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  std::map<std::string, std::string> places;
  std::set<std::string> files;
  if (std::filesystem::exists(index)) {
    places = read_index(index);
    for (const auto& [tensor, file] : places) files.insert(file);
  } else if (std::filesystem::exists(single)) {
    files.insert("model.safetensors");
  } else {
    throw Error(folder.string() + ": neither model.safetensors nor model.safetensors.index.json");
  }
  for (const std::string& file : files) {
    Safetensors opened = Safetensors::open(folder / file);
    for (auto& [name, tensor] : opened.tensors) {
      const auto place = places.find(name);
      if (!places.empty() && (place == places.end() || place->second != file)) continue;
      result.tensors_.emplace(name, std::move(tensor));
    }
    result.files_.push_back(std::move(opened.file));
  }
  for (const auto& [tensor, file] : places) {
    if (!result.has(tensor))
      throw Error((folder / file).string() + ": tensor " + tensor +
                  " is absent, but the index names it");
  }
  return result;
}

const TensorView& Checkpoint::get(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(folder_.string() + ": tensor " + std::string(name) + " is absent");
  read_.emplace(name);
  return found->second;
}

const TensorView& Checkpoint::get(std::string_view name, std::span<const int64_t> shape) const {
  const TensorView& tensor = get(name);
  if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end())) {
    throw Error(folder_.string() + ": tensor " + tensor.name + " has shape " +
                shape_text(tensor.shape) + ", config.json asks for " + shape_text(shape));
  }
  if (tensor.dtype != Dtype::kF32 && tensor.dtype != Dtype::kBf16 && tensor.dtype != Dtype::kF16) {
    throw Error(folder_.string() + ": tensor " + tensor.name + " has dtype " +
                dtype_name(tensor.dtype) + ", this engine reads F32, BF16 and F16");
  }
  return tensor;
}

std::vector<std::string> Checkpoint::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (read_.find(name) == read_.end()) names.push_back(name);
  }
  return names;
}

bool Checkpoint::has_prefix(std::string_view prefix) const {
  const auto first = tensors_.lower_bound(prefix);
  return first != tensors_.end() && first->first.starts_with(prefix);
}

bool Checkpoint::is_bf16() const {
  return std::all_of(tensors_.begin(), tensors_.end(), [](const auto& tensor) {
    return tensor.second.shape.size() < 2 || tensor.second.dtype == Dtype::kBf16;
  });
}

uint64_t Checkpoint::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_)
    sum += static_cast<uint64_t>(tensor.elements() * dtype_bytes(tensor.dtype));
  return sum;
}

}  // namespace lm
