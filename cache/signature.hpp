#pragma once

/// \file
/// Signatures of packs: ed25519 over an index that holds a BLAKE2b-256 of everything else. A key
/// file is text of one line, "kiln-ed25519-secret:<base64>" or "kiln-ed25519-public:<base64>".

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "cache/file_system.hpp"
#include "cache/trust.hpp"

namespace kiln::cache {

using Blake2b = std::array<std::uint8_t, 32>;
using PublicKey = std::array<std::uint8_t, 32>;
using Signature = std::array<std::uint8_t, 64>;

Blake2b blake2b(std::string_view bytes);

/// One line without its end, as a public key file holds it.
std::string format_public_key(const PublicKey& key);
Result<PublicKey> parse_public_key(std::string_view text);

/// A key that can sign. Wiped from memory at the end of its life.
class SigningKey {
 public:
  /// A new one, from the operating system's randomness.
  static SigningKey generate();
  static Result<SigningKey> parse(std::string_view text);
  SigningKey(SigningKey&& other) noexcept;
  SigningKey& operator=(SigningKey&&) = delete;
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;
  ~SigningKey();

  PublicKey public_key() const;
  Signature sign(std::string_view message) const;
  /// One line without its end, as a secret key file holds it.
  std::string format() const;

 private:
  SigningKey() = default;
  std::array<std::uint8_t, 64> secret_ = {};
};

bool is_signed_by(const PublicKey& key, const Signature& signature, std::string_view message);

/// Whose signature makes a pack acceptable.
struct TrustedKeys {
  /// Packs must be signed by one of the keys; false: signatures are not looked at.
  bool required = false;
  std::vector<PublicKey> keys;
  /// Why keys that were asked for cannot be had; then no pack is acceptable. Else empty.
  std::string problem;
};

/// Reads public key files, the paths absolute. None asks for no signatures.
TrustedKeys read_trusted_keys(FileSystem& file_system, const std::vector<std::string>& paths,
                              const TrustPolicy& policy);

Result<SigningKey> read_signing_key(FileSystem& file_system, const std::string& path);

}  // namespace kiln::cache
