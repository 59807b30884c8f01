// SPDX-License-Identifier: BSD-3-Clause
// A screen that is redrawn, like top's: the other screen of the terminal, keys without Enter.
#pragma once

#include <termios.h>

#include <string>

#include "base/clock.hpp"

namespace via::tool {

struct ScreenSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

class Screen {
  public:
    /// Takes the terminal over; everything is put back when it goes, also when a signal ends us.
    Screen();
    ~Screen();
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    [[nodiscard]] static bool possible();
    [[nodiscard]] static ScreenSize size();
    /// Shows the first lines that fit, cut at the right edge.
    void show(const std::string& text);
    /// A key, 0 when the time is over, 'q' also when a signal asks to end.
    [[nodiscard]] char wait_for_key(base::Deadline deadline);

  private:
    termios before_{};
};

}  // namespace via::tool
