// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.hpp"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "text_table.hpp"

namespace via::tool {
namespace {

volatile sig_atomic_t end_asked = 0;
void ask_for_end(int) {
    end_asked = 1;
}

void write_all(std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
}

}  // namespace

bool Screen::possible() {
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

ScreenSize Screen::size() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
        return {size.ws_col, size.ws_row};
    return {};
}

Screen::Screen() {
    struct sigaction action {};
    action.sa_handler = ask_for_end;
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        sigaction(number, &action, nullptr);
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    write_all("\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
    write_all("\x1b[?25h\x1b[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Screen::show(const std::string& text) {
    const ScreenSize size = Screen::size();
    std::string picture = "\x1b[H";
    std::string_view rest = text;
    for (std::size_t row = 0; row < size.rows && !rest.empty(); ++row) {
        const std::size_t end = rest.find('\n');
        if (row > 0) picture += "\r\n";
        picture += clip(rest.substr(0, end), size.columns);
        picture += "\x1b[K";
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    picture += "\x1b[J";
    write_all(picture);
}

char Screen::wait_for_key(base::Deadline deadline) {
    for (;;) {
        if (end_asked != 0) return 'q';
        pollfd wait{STDIN_FILENO, POLLIN, 0};
        const int ready = ::poll(&wait, 1, deadline.poll_milliseconds());
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return 0;
        char key = 0;
        if (::read(STDIN_FILENO, &key, 1) == 1) return key;
        return 'q';  // the terminal is gone
    }
}

}  // namespace via::tool
