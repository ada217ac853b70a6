// What a call throws, as values a test can compare.
#pragma once

#include <functional>
#include <string>

#include "configs/base/error.h"

namespace coat {

struct Refusal {
  Code code = Code::kOk;  // kOk: nothing was thrown
  std::string message;
};

inline Refusal RefusalOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace coat
