// SPDX-License-Identifier: BSD-3-Clause
// A sink that keeps what it is shown.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <vector>

#include "na/nic_agent.hpp"

namespace via::test {

class NotingSink : public na::FrameSink {
  public:
    struct Message {
        std::vector<std::byte> bytes;
        bool has_immediate = false;
        std::uint32_t immediate = 0;  ///< or the note of one with a head
        std::vector<std::uint64_t> head;
    };

    bool frame(const na::FrameView& view) override {
        ++shown;
        if (refusals != 0) {
            --refusals;
            return false;
        }
        messages.push_back({{view.data, view.data + view.length},
                            view.has_immediate,
                            view.has_immediate || view.head != nullptr ? view.immediate : 0,
                            {view.head, view.head + view.head_bytes / sizeof *view.head}});
        return true;
    }
    bool serve() override {
        ++served;
        return on_serve && on_serve();
    }
    void broken() noexcept override { ++breaks; }

    // Under the VI's lock.
    std::vector<Message> messages;
    int shown = 0;
    int refusals = 0;  ///< so many frames are refused
    // Any thread.
    std::function<bool()> on_serve;
    std::atomic<int> served{0};
    std::atomic<int> breaks{0};
};

}  // namespace via::test
