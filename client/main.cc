#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "client/commands/verbs.h"
#include "configs/spec/defaults.h"

namespace {

coat::Terminal Describe(int fd) {
  coat::Terminal terminal;
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0) {
    terminal.charset = coat::Terminal::Charset::kUtf8;
  }
  if (isatty(fd) == 0) return terminal;
  terminal.kind = coat::Terminal::Kind::kScreen;
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  return terminal;
}

coat::ScreenSize OutSize() {
  coat::ScreenSize screen;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return screen;
  if (size.ws_col > 0) screen.columns = size.ws_col;
  if (size.ws_row > 0) screen.rows = size.ws_row;
  return screen;
}

int64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  const char* server = std::getenv("COAT_SERVER");
  coat::Host host;
  host.in = &std::cin;
  host.out = &std::cout;
  host.err = &std::cerr;
  host.out_terminal = Describe(STDOUT_FILENO);
  host.err_terminal = Describe(STDERR_FILENO);
  if (isatty(STDIN_FILENO) != 0) host.in_kind = coat::Terminal::Kind::kScreen;
  host.config_path = coat::ExpandHome("~/.config/coatrack/config.yaml");
  host.server = server == nullptr ? "" : server;
  host.screen_size = OutSize;
  host.now_s = NowSeconds;
  return coat::RunCoat({argv + 1, argv + argc}, host);
}
