// SPDX-License-Identifier: BSD-3-Clause
#include "pingpong.hpp"

#include <sched.h>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "pattern.hpp"

namespace via::tool {
namespace {

/// Round trips between two signs of life of a side that does not look at the clock.
constexpr std::uint64_t sign_of_life = 256;

// Each transport has start(i), which sets message i on its way, and finish(i), which waits for the
// other side's message i. Housekeeping is done in start, after the message has left: the time until
// the answer would be waited away otherwise.

/// Sends and receives; also RDMA writes that carry immediate data and so complete a receive.
template <WaitMode mode>
class MessageTransport {
  public:
    explicit MessageTransport(Endpoint& endpoint) : link_(endpoint.link()) {}

    bool start(std::uint64_t number) {
        if (link_.sends_under_way == link_.send_slots && !wait_sends<mode>(link_, 0)) return false;
        (void)number;
        if (!post_send(link_, &link_.sends[next_])) return false;
        if (++next_ == link_.send_slots) next_ = 0;
        return tidy() && reap_sends(link_);
    }
    bool finish(std::uint64_t) {
        received_ = wait_receive<mode>(link_);
        return received_ != nullptr;
    }
    bool end() { return tidy() && wait_sends<mode>(link_, 0); }

  private:
    /// Gives the last receive back to the queue, which holds several, so none is missed.
    bool tidy() {
        if (received_ == nullptr) return true;
        VIP_DESCRIPTOR* descriptor = received_;
        received_ = nullptr;
        return post_receive(link_, descriptor);
    }
    Link& link_;
    VIP_DESCRIPTOR* received_ = nullptr;
    std::uint32_t next_ = 0;  ///< send slot
};

/// RDMA writes of which the target learns only by looking at its memory.
class MemoryTransport {
  public:
    explicit MemoryTransport(Endpoint& endpoint)
        : link_(endpoint.link()),
          send_flag_(endpoint.send_buffer(0) + endpoint.terms().bytes - 1),
          receive_flag_(endpoint.receive_buffer(0) + endpoint.terms().bytes - 1) {}

    bool start(std::uint64_t number) {
        if (link_.sends_under_way == link_.send_slots &&
            !wait_sends<WaitMode::PollDirect>(link_, 0))
            return false;
        *send_flag_ = mark(number);
        if (!post_send(link_, &link_.sends[number % link_.send_slots])) return false;
        return reap_sends(link_);
    }
    bool finish(std::uint64_t number) {
        // Writes arrive ascending, so the last byte stands for all.
        const auto wanted = static_cast<unsigned char>(mark(number));
        const auto* flag = reinterpret_cast<const unsigned char*>(receive_flag_);
        for (std::uint32_t turns = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != wanted; ++turns) {
            if (turns % looks_before_care == 0 && !take_care()) return false;
        }
        return true;
    }
    bool end() { return wait_sends<WaitMode::PollDirect>(link_, 0); }

  private:
    static constexpr std::uint32_t looks_before_care = 2048;
    static std::byte mark(std::uint64_t number) { return static_cast<std::byte>(number % 255 + 1); }
    /// Memory alone neither tells that the other side is gone nor lets it run on a shared core.
    bool take_care() {
        VIP_VI_STATE state = VIP_STATE_CONNECTED;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_BOOLEAN empty = VIP_TRUE;
        const VIP_RETURN code = VipQueryVi(link_.vi, &state, &attributes, &empty, &empty);
        if (code != VIP_SUCCESS || state != VIP_STATE_CONNECTED) {
            link_.fail("waiting for the other side's RDMA write",
                       code != VIP_SUCCESS ? code : VIP_INVALID_STATE, nullptr);
            return false;
        }
        sched_yield();
        return reap_sends(link_);
    }
    Link& link_;
    std::byte* send_flag_;
    std::byte* receive_flag_;
};

/// RDMA reads: the other side does nothing at all.
template <WaitMode mode>
class ReadTransport {
  public:
    explicit ReadTransport(Endpoint& endpoint) : link_(endpoint.link()) {}
    bool start(std::uint64_t number) {
        return post_send(link_, &link_.sends[number % link_.send_slots]);
    }
    bool finish(std::uint64_t) {
        if (wait_completion<mode, true>(link_) == nullptr) return false;
        --link_.sends_under_way;
        return true;
    }
    bool end() { return true; }

  private:
    Link& link_;
};

/// The numbers of the patterns differ between the sides, so an echo of one's own message shows.
std::uint64_t pattern_number(std::uint64_t number, Role from) {
    return number * 2 + (from == Role::Server ? 1 : 0);
}

/// With --check: what goes out is written and what came in is compared.
class Checker {
  public:
    Checker(Endpoint& endpoint, const SessionTerms& session, Role role)
        : endpoint_(endpoint), role_(role), reads_(session.operation == Operation::RdmaRead) {
        bytes_ = endpoint.terms().bytes;
        // The last byte belongs to the transport that waits for it.
        if (polls_memory(session)) --bytes_;
    }
    void before_start(std::uint64_t number) {
        if (reads_)
            fill_pattern(endpoint_.receive_buffer(0), bytes_, number + 1);  // to be overwritten
        else
            fill_pattern(endpoint_.send_buffer(0), bytes_, pattern_number(number, role_));
    }
    bool after_finish(std::uint64_t number) {
        const Role from = role_ == Role::Client ? Role::Server : Role::Client;
        const auto wrong = find_wrong_byte(endpoint_.receive_buffer(0), bytes_,
                                           reads_ ? 0 : pattern_number(number, from));
        if (wrong) endpoint_.link().fail_contents(number, *wrong);
        return !wrong;
    }

  private:
    Endpoint& endpoint_;
    Role role_;
    bool reads_;
    std::size_t bytes_;
};

template <Contents contents, class Transport>
bool client_loop(Endpoint& endpoint, const SessionTerms& session, const PingpongRun& run,
                 std::span<std::uint64_t> samples, std::atomic<std::uint64_t>& progress) {
    Transport transport(endpoint);
    Checker checker(endpoint, session, Role::Client);
    std::uint64_t number = run.first;
    const std::uint64_t end = run.first + run.count;
    std::size_t sample = 0;
    base::Nanoseconds before = program_now();
    while (number < end) {
        const std::uint64_t batch_end = std::min<std::uint64_t>(end, number + run.batch);
        for (; number < batch_end; ++number) {
            if constexpr (contents == Contents::Checked) checker.before_start(number);
            if constexpr (contents == Contents::Fresh)
                write_anew(endpoint.send_buffer(0), endpoint.terms().bytes, number);
            if (!transport.start(number) || !transport.finish(number)) [[unlikely]]
                return false;
            if constexpr (contents == Contents::Checked)
                if (!checker.after_finish(number)) return false;
        }
        const base::Nanoseconds now = program_now();
        if (sample < samples.size()) samples[sample++] = static_cast<std::uint64_t>(now - before);
        before = now;
        progress.store(number - run.first, std::memory_order_relaxed);
    }
    return transport.end();
}

template <Contents contents, class Transport>
bool server_loop(Endpoint& endpoint, const SessionTerms& session, const PingpongRun& run,
                 std::atomic<std::uint64_t>& progress) {
    Transport transport(endpoint);
    Checker checker(endpoint, session, Role::Server);
    const std::uint64_t end = run.first + run.count;
    for (std::uint64_t number = run.first; number < end; ++number) {
        if (!transport.finish(number)) [[unlikely]]
            return false;
        if constexpr (contents == Contents::Checked) {
            if (!checker.after_finish(number)) return false;
            checker.before_start(number);
        }
        if constexpr (contents == Contents::Fresh)
            write_anew(endpoint.send_buffer(0), endpoint.terms().bytes, number);
        if (!transport.start(number)) [[unlikely]]
            return false;
        if (number % sign_of_life == 0) progress.fetch_add(1, std::memory_order_relaxed);
    }
    return transport.end();
}

}  // namespace

bool run_pingpong_client(Endpoint& endpoint, const SessionTerms& session, const PingpongRun& run,
                         std::span<std::uint64_t> samples, std::atomic<std::uint64_t>& progress) {
    const auto loop = [&]<class Transport>() {
        return with_contents(session, [&]<Contents contents>() {
            return client_loop<contents, Transport>(endpoint, session, run, samples, progress);
        });
    };
    if (polls_memory(session)) return loop.template operator()<MemoryTransport>();
    return with_mode(wait_mode(session), [&]<WaitMode mode>() {
        return session.operation == Operation::RdmaRead
                   ? loop.template operator()<ReadTransport<mode>>()
                   : loop.template operator()<MessageTransport<mode>>();
    });
}

bool run_pingpong_server(Endpoint& endpoint, const SessionTerms& session, const PingpongRun& run,
                         std::atomic<std::uint64_t>& progress) {
    if (session.operation == Operation::RdmaRead) {
        if (session.check) fill_pattern(endpoint.send_buffer(0), endpoint.terms().bytes, 0);
        return true;
    }
    const auto loop = [&]<class Transport>() {
        return with_contents(session, [&]<Contents contents>() {
            return server_loop<contents, Transport>(endpoint, session, run, progress);
        });
    };
    if (polls_memory(session)) return loop.template operator()<MemoryTransport>();
    return with_mode(wait_mode(session), [&]<WaitMode mode>() {
        return loop.template operator()<MessageTransport<mode>>();
    });
}

}  // namespace via::tool
