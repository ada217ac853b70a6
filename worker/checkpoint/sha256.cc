#include "worker/checkpoint/sha256.h"

#include <openssl/evp.h>

#include "configs/base/error.h"

namespace coat {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
  void Start() {
    Check(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1,
          "OpenSSL offers no SHA-256");
  }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) { impl_->Start(); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(const void* data, size_t bytes) {
  if (bytes == 0) return;
  Check(EVP_DigestUpdate(impl_->context, data, bytes) == 1, "SHA-256 update failed");
}

std::string Sha256::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  Check(EVP_DigestFinal_ex(impl_->context, digest, &length) == 1, "SHA-256 final failed");
  impl_->Start();
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex.push_back(kHex[digest[i] >> 4]);
    hex.push_back(kHex[digest[i] & 15]);
  }
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes.data(), bytes.size());
  return hash.Finish();
}

}  // namespace coat
