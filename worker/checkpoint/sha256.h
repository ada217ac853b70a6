// SHA-256 of bytes as they pass, by OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace coat {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void Update(const void* data, size_t bytes);
  std::string Finish();  // lower-case hex; the object starts anew

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string Sha256Hex(std::string_view bytes);

}  // namespace coat
