// SPDX-License-Identifier: BSD-3-Clause
// A VI's end before and after it is known where the other end is: it has an endpoint on each of the
// two devices and hands the connection to one of them.
#pragma once

#include <memory>
#include <string_view>

#include "na/nic_agent.hpp"

namespace via::na::any {

class AutoEndpoint final : public Endpoint {
  public:
    AutoEndpoint(std::unique_ptr<Endpoint> local, std::unique_ptr<Endpoint> remote);

    /// Whose connection it will be.
    void choose(bool local) noexcept { chosen_ = local ? local_.get() : remote_.get(); }
    [[nodiscard]] bool chose_local() const noexcept { return chosen_ == local_.get(); }

    [[nodiscard]] Endpoint& carrier() noexcept override { return *chosen_; }
    [[nodiscard]] std::string_view chosen_device() const noexcept override {
        return chose_local() ? "auto: shm0" : "auto: net0";
    }
    void disconnect() override;
    [[nodiscard]] base::Result<void> set_link_policy(std::string_view policy) override {
        return remote_->set_link_policy(policy);
    }

    // The user agent calls the carrier itself; these are for callers that do not know it.
    void ring_send() override { chosen_->ring_send(); }
    void ring_receive() override { chosen_->ring_receive(); }
    bool poll() override { return chosen_->poll(); }
    void arm(Wakes wakes) override { chosen_->arm(wakes); }
    [[nodiscard]] bool unfinished() const override { return chosen_->unfinished(); }
    void nudge() override { chosen_->nudge(); }
    [[nodiscard]] std::int32_t peer_pid() const override { return chosen_->peer_pid(); }
    [[nodiscard]] bool send_gathered(std::span<const iovec> pieces, std::uint32_t bytes) override {
        return chosen_->send_gathered(pieces, bytes);
    }
    [[nodiscard]] bool send_headed(const HeadedMessage& message) override {
        return chosen_->send_headed(message);
    }
    [[nodiscard]] std::uint32_t longest_gathered() const override {
        return chosen_->longest_gathered();
    }
    [[nodiscard]] bool reaches_peer_memory() const override {
        return chosen_->reaches_peer_memory();
    }
    [[nodiscard]] bool shows_frames() const override { return chosen_->shows_frames(); }
    [[nodiscard]] bool has_news() override { return chosen_->has_news(); }

  private:
    std::unique_ptr<Endpoint> local_;
    std::unique_ptr<Endpoint> remote_;
    Endpoint* chosen_;
};

/// The poll groups of both devices.
class AutoPollGroup final : public PollGroup {
  public:
    AutoPollGroup(std::unique_ptr<PollGroup> local, std::unique_ptr<PollGroup> remote);
    bool poll() override;
    void arm(Wakes wakes) override;
    [[nodiscard]] bool shares_core() const noexcept override { return local_->shares_core(); }

    [[nodiscard]] PollGroup& local() noexcept { return *local_; }
    [[nodiscard]] PollGroup& remote() noexcept { return *remote_; }

  private:
    std::unique_ptr<PollGroup> local_;
    std::unique_ptr<PollGroup> remote_;
};

}  // namespace via::na::any
