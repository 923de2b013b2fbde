// checkpoint.h: the tensors of a checkpoint, mapped from its safetensors files and checked.
//
// A file is untrusted input. The header's length, its JSON, every dtype, shape and range of bytes
// are checked when the file is opened; what a family asks for is checked against what is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lm {

enum class Dtype { kF32, kF16, kBf16, kF64, kI64, kI32, kI16, kI8, kU8, kBool, kF8E4m3, kF8E5m2 };

const char* dtype_name(Dtype dtype);  // as safetensors writes it: "BF16"
int64_t dtype_bytes(Dtype dtype);
// "[2, 3]".
std::string shape_text(std::span<const int64_t> shape);

// A tensor as it lies in a file: dense, row-major. The file stays mapped while a checkpoint lives.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;

  int64_t elements() const;
  // One element of the first dimension, and some of them.
  TensorView at(int64_t index) const;
  TensorView slice(int64_t begin, int64_t count) const;
  // The same elements in another shape.
  TensorView reshaped(std::vector<int64_t> other) const;
  // Elements [first, first + to.size()) as fp32. The dtype is F32, BF16 or F16.
  void widen(int64_t first, std::span<float> to) const;
  std::vector<float> floats() const;
};

// A file that is mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// The tensors and the metadata of one safetensors file.
struct Safetensors {
  std::map<std::string, TensorView, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
  std::shared_ptr<MappedFile> file;

  static Safetensors open(const std::filesystem::path& path);
};

// All tensors of a folder: model.safetensors, or the shards of model.safetensors.index.json.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& folder);

  bool has(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // The tensor of this name. Error if it is not there.
  const TensorView& get(std::string_view name) const;
  // The same, of this shape and of a type that weights may have. Both are named if they differ.
  const TensorView& get(std::string_view name, std::span<const int64_t> shape) const;
  // Names that nobody asked for so far.
  std::vector<std::string> unread() const;
  // True if a name begins with this.
  bool has_prefix(std::string_view prefix) const;
  uint64_t bytes() const;
  // True if all matrices are bf16.
  bool is_bf16() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace lm
