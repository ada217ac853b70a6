// The keyboard while a live view owns the screen.
#pragma once

#include <termios.h>

#include <optional>

#include "client/render/terminal.h"

namespace coat {

// While it lives, typed keys are not echoed and Ctrl-Z does not stop the program, which would
// leave the second screen standing; Ctrl-C works as ever. Does nothing unless stdin is the
// terminal of a program in the foreground.
class QuietKeyboard {
 public:
  explicit QuietKeyboard(Terminal::Kind in_kind);
  ~QuietKeyboard();
  QuietKeyboard(const QuietKeyboard&) = delete;
  QuietKeyboard& operator=(const QuietKeyboard&) = delete;

 private:
  std::optional<termios> before_;
};

}  // namespace coat
