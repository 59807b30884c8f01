// SPDX-License-Identifier: BSD-3-Clause
// Open MPI's messages on the message layer, without libfabric between them: one endpoint a
// process, and the requests of Open MPI that are under way on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "mvich/device.hpp"
#include "openmpi/peers.hpp"
#include "openmpi/request.hpp"

namespace via::openmpi {

class Module final : public mvich::Listener {
  public:
    [[nodiscard]] static base::Result<void> start();
    static void end();
    /// Between start() and end().
    [[nodiscard]] static Module& get() noexcept { return *the_one; }
    ~Module() override;
    /// Open MPI has chosen us.
    void enable();

    [[nodiscard]] mvich::Endpoint& endpoint() noexcept { return *endpoint_; }
    [[nodiscard]] Peers& peers() noexcept { return peers_; }
    [[nodiscard]] RequestPool& requests() noexcept { return requests_; }
    /// Messages up to here are sent or copied before a send returns.
    [[nodiscard]] std::size_t inject_bytes() const noexcept { return inject_bytes_; }

    bool progress() {
        const bool moved = device_->progress();
        if (has_deferred_.load(std::memory_order_relaxed)) [[unlikely]]
            run_deferred();
        return moved;
    }
    /// For a process with one thread in MPI. Open MPI's other parts get their turn now and then.
    template <class Done>
    void wait_until(Done&& done) {
        constexpr unsigned rounds_between_others = 32;
        for (unsigned round = 1; !done(); ++round) {
            if (round % rounds_between_others != 0) [[likely]]
                progress();
            else
                opal_progress();
        }
    }
    void wait_for(Request& request) {
        if (opal_using_threads())
            ompi_request_wait_completion(&request.super);
        else
            wait_until([&] { return REQUEST_COMPLETE(&request.super); });
    }
    /// Tells Open MPI of requests that could not be told of at once.
    void run_deferred();

    void done(const mvich::Completion& completion) override;

  private:
    Module() = default;
    void defer(Request& request);
    void say_lost();

    static Module* the_one;

    std::shared_ptr<mvich::Device> device_;
    Peers peers_;
    RequestPool requests_;
    std::size_t inject_bytes_ = 0;
    bool enabled_ = false;
    bool said_lost_ = false;  ///< under the device's lock
    std::atomic<bool> has_deferred_{false};
    std::mutex deferred_mutex_;
    std::vector<Request*> deferred_;
    std::unique_ptr<mvich::Endpoint> endpoint_;
};

}  // namespace via::openmpi
