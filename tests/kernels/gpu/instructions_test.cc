// What the CUDA driver's kernels were compiled to, read from the fat binaries without tools that a toolkit may lack: attention by matrix
// instructions multiplies by HMMA from ldmatrix, its copies to shared memory are asynchronous, and for later devices there is PTX. Method:
// the low 12 bits of an instruction of 16 bytes are its operation (sm_80 to sm_90).
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kHmma = 0x23c;
constexpr uint32_t kLoadMatrix = 0x83b;          // LDSM
constexpr uint32_t kCopyAsync = 0xfae;           // LDGSTS
constexpr uint32_t kGroupFromShared = 0x9f0;     // HGMMA, A by a descriptor
constexpr uint32_t kGroupFromRegisters = 0xdf0;  // HGMMA, A in registers
constexpr uint32_t kBox = 0x5b4;                 // UTMALDG
constexpr uint16_t kCuda = 190;                  // e_machine

using Counts = std::map<uint32_t, uint32_t>;  // by operation

template <typename T>
T at(const std::string& bytes, size_t place) {
  T value{};
  if (place <= bytes.size() && bytes.size() - place >= sizeof value) memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

// Compute capabilities that this build has code for.
std::set<uint32_t> targets() {
  std::istringstream text(QUIRE_TARGETS);
  std::set<uint32_t> found;
  for (uint32_t target = 0; text >> target;) found.insert(target);
  return found;
}

std::string bytes_of(const std::string& unit) {
  std::ifstream file(std::string(QUIRE_FATBINS) + "/" + unit + ".fatbin", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Kernels by "name of the image": every ELF file inside, one per architecture.
std::multimap<std::string, Counts> kernels_of(const std::string& unit) {
  const std::string bytes = bytes_of(unit);
  std::multimap<std::string, Counts> found;
  for (size_t begin = bytes.find(ELFMAG); begin != std::string::npos; begin = bytes.find(ELFMAG, begin + 1)) {
    const auto header = at<Elf64_Ehdr>(bytes, begin);
    if (header.e_machine != kCuda) continue;
    const auto section = [&](size_t i) { return at<Elf64_Shdr>(bytes, begin + header.e_shoff + i * header.e_shentsize); };
    const Elf64_Shdr names = section(header.e_shstrndx);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr s = section(i);
      const std::string name = bytes.c_str() + begin + names.sh_offset + s.sh_name;
      const std::string prefix = ".text.quire_kernel_";
      if (name.compare(0, prefix.size(), prefix) != 0) continue;
      Counts counts;
      for (size_t k = 0; k + 16 <= s.sh_size; k += 16) ++counts[at<uint64_t>(bytes, begin + s.sh_offset + k) & 0xfff];
      found.emplace(name.substr(prefix.size()), counts);
    }
  }
  return found;
}

TEST(Instructions, AttentionByMatricesMultipliesThem) {
  const std::multimap<std::string, Counts> kernels = kernels_of("attend_mma");
  EXPECT_EQ(kernels.size(), 12 * targets().size());
  for (const auto& [name, counts] : kernels) {
    const auto number = [&counts = counts](uint32_t operation) { return counts.count(operation) == 0 ? 0 : counts.at(operation); };
    // A product of 16 x 16 is two HMMA. Sharing waves have 1 product of K and 4 groups of keys times a quarter of V's tiles; others 4
    // products of K and 4 groups times all tiles. K is walked in a loop.
    const uint32_t tiles = name.find("_256") != std::string::npos ? 16 : name.find("_128") != std::string::npos ? 8 : 4;
    const bool mixed = name.compare(0, 4, "tile") == 0;
    EXPECT_GE(number(kHmma), 2 * (1 + tiles) + (mixed ? 2 * (4 + 4 * tiles) : 0)) << name;
    EXPECT_GE(number(kLoadMatrix), 2 + 4 + tiles + (mixed ? 5 + 4 * tiles : 0)) << name;
    EXPECT_GE(number(kCopyAsync), 3u) << name << ": Q, K and V";
  }
}

// On sm_90a: products of Q and K from shared memory, of weights and V from registers; boxes by the copy engine. Elsewhere the kernels trap.
TEST(Instructions, ProductsOfWarpgroupsAreThat) {
  const std::multimap<std::string, Counts> kernels = kernels_of("attend_flow");
  EXPECT_EQ(kernels.size(), 8 * targets().size());
  uint32_t real = 0;
  for (const auto& [name, counts] : kernels) {
    const auto number = [&counts = counts](uint32_t operation) { return counts.count(operation) == 0 ? 0 : counts.at(operation); };
    EXPECT_EQ(number(kHmma), 0u) << name;
    if (number(kGroupFromShared) == 0) {
      EXPECT_EQ(number(kGroupFromRegisters) + number(kBox), 0u) << name;
      continue;
    }
    ++real;
    const bool widest = name.find("_256") != std::string::npos;
    const uint32_t wide_k = widest ? 4 : name.find("_192") != std::string::npos ? 3 : name.find("_128") != std::string::npos ? 2 : 1;
    const uint32_t ways = widest ? 1 : 2;  // the first keys, and those of the loop
    EXPECT_EQ(number(kGroupFromShared), ways * 4 * wide_k) << name << ": a product is 16 deep";
    EXPECT_EQ(number(kGroupFromRegisters), ways * 4) << name << ": 64 keys";
    EXPECT_GE(number(kBox), 2u) << name << ": K and V";
    EXPECT_GE(number(kCopyAsync), 1u) << name << ": Q";
  }
  EXPECT_EQ(real, targets().count(90) * 8);
}

TEST(Instructions, DotProductsDoNot) {
  const std::multimap<std::string, Counts> kernels = kernels_of("attend");
  EXPECT_EQ(kernels.size(), 2 * targets().size()) << "attend and combine";
  for (const auto& [name, counts] : kernels) EXPECT_EQ(counts.count(kHmma), 0u) << name;
}

// A fat binary is a header and entries, each with a header of its own: kind (1 is PTX, 2 code), bytes of the header, bytes of what follows,
// and at 28 the compute capability.
std::multimap<uint16_t, uint32_t> entries_of(const std::string& bytes) {
  constexpr uint32_t kMagic = 0xba55ed50;
  EXPECT_EQ(at<uint32_t>(bytes, 0), kMagic);
  std::multimap<uint16_t, uint32_t> found;
  size_t place = at<uint16_t>(bytes, 6);
  const size_t end = std::min(bytes.size(), place + at<uint64_t>(bytes, 8));
  while (place + 64 <= end) {
    found.emplace(at<uint16_t>(bytes, place), at<uint32_t>(bytes, place + 28));
    const uint64_t on = at<uint32_t>(bytes, place + 4) + at<uint64_t>(bytes, place + 8);
    if (on < 64) break;
    place += on;
  }
  EXPECT_EQ(place, end) << "entries do not fill the fat binary";
  return found;
}

TEST(Images, EveryUnitHasCodeForItsTargetsAndPtxForLaterDevices) {
  std::istringstream units(QUIRE_UNITS);
  uint32_t tried = 0;
  for (std::string unit; units >> unit; ++tried) {
    std::set<uint32_t> ptx;
    std::set<uint32_t> code;
    for (const auto& [kind, capability] : entries_of(bytes_of(unit))) {
      ASSERT_TRUE(kind == 1 || kind == 2) << unit << ": kind " << kind;
      (kind == 1 ? ptx : code).insert(capability);
    }
    EXPECT_EQ(code, targets()) << unit;
    // Where wgmma is not, a trap: the driver takes other kernels, but a module must load.
    EXPECT_EQ(ptx, std::set<uint32_t>{unit == "attend_flow" ? 80 : *targets().rbegin()}) << unit;
  }
  EXPECT_EQ(tried, 7u);
}

}  // namespace
