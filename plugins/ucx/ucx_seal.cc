#include "plugins/ucx/ucx_seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <new>

namespace quire::ucx {
namespace {

Mac hmac(std::span<const uint8_t> key, std::span<const uint8_t> bytes) {
  Mac out = {};
  unsigned int length = 0;
  static constexpr uint8_t kNoKey = 0;  // HMAC takes NULL for the key of before
  const uint8_t* const from = key.empty() ? &kNoKey : key.data();
  if (HMAC(EVP_sha256(), from, static_cast<int>(key.size()), bytes.data(), bytes.size(), out.data(), &length) == nullptr)
    throw std::bad_alloc();
  return out;
}

std::span<const uint8_t> bytes_of(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

std::string_view text_of(std::span<const uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

bool fill_random(std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool equal_macs(const Mac& a, const Mac& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Handshake::Handshake(std::string_view secret, const Nonce& reader, const Nonce& owner, uint32_t lease_ms) : secret_(secret) {
  const std::array<uint8_t, 6> numbers = {static_cast<uint8_t>(kVersion),       static_cast<uint8_t>(kVersion >> 8),
                                          static_cast<uint8_t>(lease_ms),       static_cast<uint8_t>(lease_ms >> 8),
                                          static_cast<uint8_t>(lease_ms >> 16), static_cast<uint8_t>(lease_ms >> 24)};
  about_ = "quire ucx";
  about_ += text_of(numbers);
  about_ += text_of(reader);
  about_ += text_of(owner);
}

Mac Handshake::mac(std::string_view purpose) const { return hmac(bytes_of(secret_), bytes_of(about_ + std::string(purpose))); }

Mac Handshake::proof_of_owner() const { return mac("proof of the owner"); }
Mac Handshake::proof_of_reader() const { return mac("proof of the reader"); }
Mac Handshake::key_to_owner() const { return mac("key to the owner"); }
Mac Handshake::key_to_reader() const { return mac("key to the reader"); }

bool Replay::accept(uint64_t counter) {
  if (counter == 0) return false;
  if (counter > highest_) {
    const uint64_t step = counter - highest_;
    seen_ = step < 64 ? seen_ << step : 0;
    seen_ |= 1;
    highest_ = counter;
    return true;
  }
  const uint64_t age = highest_ - counter;
  if (age >= 64 || (seen_ >> age & 1) != 0) return false;
  seen_ |= uint64_t{1} << age;
  return true;
}

Bytes Session::seal(Message* message) {
  message->counter = ++counter_;
  Bytes bytes = encode(*message);
  const Mac mac = hmac(own_key_, bytes);
  bytes.insert(bytes.end(), mac.begin(), mac.end());
  return bytes;
}

std::optional<Message> Session::open(std::span<const uint8_t> bytes) {
  if (bytes.size() <= kMacBytes || bytes.size() > kMostMessage) return std::nullopt;
  const auto body = bytes.first(bytes.size() - kMacBytes);
  Mac mac;
  std::copy(bytes.end() - kMacBytes, bytes.end(), mac.begin());
  if (!equal_macs(mac, hmac(key_of_peer_, body))) return std::nullopt;
  auto message = decode(body);
  if (!message || !is_sealed(message->kind) || !replay_.accept(message->counter)) return std::nullopt;
  return message;
}

}  // namespace quire::ucx
