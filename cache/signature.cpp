#include "cache/signature.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sodium.h>

namespace kiln::cache {
namespace {

constexpr std::string_view kSecretPrefix = "kiln-ed25519-secret:";
constexpr std::string_view kPublicPrefix = "kiln-ed25519-public:";
constexpr std::uint64_t kMaxKeyFileBytes = 4096;
constexpr int kBase64 = sodium_base64_VARIANT_ORIGINAL;

static_assert(std::tuple_size_v<Blake2b> == crypto_generichash_BYTES);
static_assert(std::tuple_size_v<PublicKey> == crypto_sign_PUBLICKEYBYTES);
static_assert(std::tuple_size_v<Signature> == crypto_sign_BYTES);

// Picks the fastest code for this processor; without it everything works, only slower. May be
// called any number of times from any thread.
void prepare() {
  [[maybe_unused]] const int ready = sodium_init();
}

const unsigned char* data(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

template <std::size_t N>
std::string to_base64(const std::array<std::uint8_t, N>& bytes) {
  std::string text(sodium_base64_ENCODED_LEN(N, kBase64), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), kBase64);
  text.pop_back();  // The terminating zero.
  return text;
}

// Reads one line "<prefix><base64>" into exactly N bytes.
template <std::size_t N>
bool parse_line(std::string_view text, std::string_view prefix,
                std::array<std::uint8_t, N>& bytes) {
  if (!text.starts_with(prefix)) {
    return false;
  }
  text.remove_prefix(prefix.size());
  if (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  std::size_t length = 0;
  const char* end = nullptr;
  return sodium_base642bin(bytes.data(), N, text.data(), text.size(), nullptr, &length, &end,
                           kBase64) == 0 &&
         length == N && end == text.data() + text.size();
}

Result<std::string> read_key_file(FileSystem& file_system, const std::string& path) {
  const auto unreadable = [&](int error) {
    return fail(ErrorCode::kIo,
                fmt::format("the key file {} cannot be read: {}", path, errno_text(error)));
  };
  const auto canonical = file_system.canonical(path);
  if (!canonical) {
    return unreadable(canonical.error());
  }
  auto content = read_file(file_system, *canonical, kMaxKeyFileBytes);
  return content ? Result<std::string>(std::move(content->bytes)) : unreadable(content.error());
}

tl::unexpected<Failure> in_file(const std::string& path, const Failure& failure) {
  return fail(failure.code, fmt::format("the key file {}: {}", path, failure.message));
}

Result<PublicKey> read_public_key(FileSystem& file_system, const std::string& path) {
  const auto text = read_key_file(file_system, path);
  if (!text) {
    return tl::unexpected(text.error());
  }
  const auto key = parse_public_key(*text);
  return key ? key : Result<PublicKey>(in_file(path, key.error()));
}

}  // namespace

Blake2b blake2b(std::string_view bytes) {
  prepare();
  Blake2b hash;
  crypto_generichash(hash.data(), hash.size(), data(bytes), bytes.size(), nullptr, 0);
  return hash;
}

std::string format_public_key(const PublicKey& key) {
  return std::string(kPublicPrefix) + to_base64(key);
}

Result<PublicKey> parse_public_key(std::string_view text) {
  PublicKey key = {};
  if (!parse_line(text, kPublicPrefix, key)) {
    const bool secret = text.starts_with(kSecretPrefix);
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("it {}; expected one line {}<base64>",
                            secret ? "holds a secret key" : "holds no public key", kPublicPrefix));
  }
  return key;
}

SigningKey SigningKey::generate() {
  prepare();
  SigningKey key;
  PublicKey unused = {};
  crypto_sign_keypair(unused.data(), key.secret_.data());
  return key;
}

Result<SigningKey> SigningKey::parse(std::string_view text) {
  prepare();
  SigningKey key;
  if (!parse_line(text, kSecretPrefix, key.secret_)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("it holds no secret key; expected one line {}<base64>", kSecretPrefix));
  }
  // The second half repeats the public key; one that does not belong to the first would give
  // signatures that nobody accepts.
  std::array<std::uint8_t, crypto_sign_SEEDBYTES> seed = {};
  std::copy_n(key.secret_.begin(), seed.size(), seed.begin());
  PublicKey unused = {};
  std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES> whole = {};
  crypto_sign_seed_keypair(unused.data(), whole.data(), seed.data());
  const bool sound = sodium_memcmp(whole.data(), key.secret_.data(), whole.size()) == 0;
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(whole.data(), whole.size());
  if (!sound) {
    return fail(ErrorCode::kInvalidArgument, "its secret key is damaged");
  }
  return key;
}

SigningKey::SigningKey(SigningKey&& other) noexcept : secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

SigningKey::~SigningKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

PublicKey SigningKey::public_key() const {
  PublicKey key = {};
  crypto_sign_ed25519_sk_to_pk(key.data(), secret_.data());
  return key;
}

Signature SigningKey::sign(std::string_view message) const {
  prepare();
  Signature signature = {};
  crypto_sign_detached(signature.data(), nullptr, data(message), message.size(), secret_.data());
  return signature;
}

std::string SigningKey::format() const {
  return std::string(kSecretPrefix) + to_base64(secret_);
}

bool is_signed_by(const PublicKey& key, const Signature& signature, std::string_view message) {
  prepare();
  return crypto_sign_verify_detached(signature.data(), data(message), message.size(), key.data()) ==
         0;
}

namespace {

// Whoever can write a key file decides which packs are believed.
Result<PublicKey> read_trusted_key(FileSystem& file_system, const std::string& path,
                                   const TrustPolicy& policy) {
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (!path.starts_with('/')) {
    return refuse(fmt::format("the key file '{}' is not named by an absolute path", path));
  }
  const auto canonical = file_system.canonical(path);
  if (!canonical) {
    return refuse(
        fmt::format("the key file {} cannot be read: {}", path, errno_text(canonical.error())));
  }
  const Verdict verdict = judge_path(file_system, *canonical, TrustRole::kPack, policy);
  if (verdict.kind == Verdict::Kind::kRefused) {
    return refuse(fmt::format("the key file {} is not trusted: {}", path, verdict.reason));
  }
  return read_public_key(file_system, *canonical);
}

}  // namespace

TrustedKeys read_trusted_keys(FileSystem& file_system, const std::vector<std::string>& paths,
                              const TrustPolicy& policy) {
  TrustedKeys trusted;
  trusted.required = !paths.empty();
  for (const std::string& path : paths) {
    const auto key = read_trusted_key(file_system, path, policy);
    if (key) {
      trusted.keys.push_back(*key);
    } else if (trusted.problem.empty()) {
      trusted.problem = key.error().message;
    }
  }
  return trusted;
}

Result<SigningKey> read_signing_key(FileSystem& file_system, const std::string& path) {
  auto text = read_key_file(file_system, path);
  if (!text) {
    return tl::unexpected(std::move(text.error()));
  }
  auto key = SigningKey::parse(*text);
  sodium_memzero(text->data(), text->size());
  return key ? std::move(key) : Result<SigningKey>(in_file(path, key.error()));
}

}  // namespace kiln::cache
