#include "client/commands/quiet_keyboard.h"

#include <unistd.h>

namespace coat {

QuietKeyboard::QuietKeyboard(Terminal::Kind in_kind) {
  termios now = {};
  // Setting a terminal from the background would stop the program.
  if (in_kind != Terminal::Kind::kScreen || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
      tcgetattr(STDIN_FILENO, &now) != 0) {
    return;
  }
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  now.c_cc[VSUSP] = _POSIX_VDISABLE;
  tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

QuietKeyboard::~QuietKeyboard() {
  // What was typed meanwhile was not meant for the shell.
  if (before_.has_value()) tcsetattr(STDIN_FILENO, TCSAFLUSH, &*before_);
}

}  // namespace coat
