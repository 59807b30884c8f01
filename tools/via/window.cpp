// SPDX-License-Identifier: BSD-3-Clause
#include "window.hpp"

#include <algorithm>
#include <array>

#include "pattern.hpp"

namespace via::tool {
namespace {

/// Posts, and completions, that are handled in one go: enough to stay in one piece of code for a
/// while, few enough that neither side waits for the other.
constexpr std::uint32_t burst_limit = 16;

std::uint32_t slot_of(const Link& link, const VIP_DESCRIPTOR* descriptor) {
    return static_cast<std::uint32_t>(descriptor - link.receives);
}

/// The client of a stream of sends.
template <WaitMode mode, Contents contents>
bool send_stream(Endpoint& endpoint, std::uint64_t count, std::atomic<std::uint64_t>& progress) {
    Link& link = endpoint.link();
    const std::uint32_t window = endpoint.terms().window;
    const std::uint64_t bytes = endpoint.terms().bytes;
    std::uint64_t posted = 0;
    std::uint64_t confirmed = 0;
    std::uint32_t credits = window;
    std::uint32_t slot = 0;  // posts and completions both go round in order
    while (confirmed < count) {
        const auto burst = static_cast<std::uint32_t>(std::min<std::uint64_t>(
            {credits, link.send_slots - link.sends_under_way, burst_limit, count - posted}));
        for (std::uint32_t i = 0; i < burst; ++i) {
            if constexpr (contents == Contents::Checked)
                fill_pattern(endpoint.send_buffer(endpoint.buffer_of_slot(slot)), bytes,
                             posted + i);
            if constexpr (contents == Contents::Fresh)
                write_anew(endpoint.send_buffer(endpoint.buffer_of_slot(slot)), bytes, posted + i);
            if (!post_send(link, &link.sends[slot])) [[unlikely]]
                return false;
            if (++slot == link.send_slots) slot = 0;
        }
        posted += burst;
        credits -= burst;
        if (!reap_sends(link)) [[unlikely]]
            return false;

        if (burst > 0 && credits > window / 2) continue;
        VIP_DESCRIPTOR* credit = nullptr;
        const bool stuck = burst == 0 && (credits == 0 || posted == count);
        if (blocks(mode) && burst == 0) {
            if (!stuck) {  // all descriptors are under way
                if (!wait_sends<mode>(link, link.send_slots - 1)) [[unlikely]]
                    return false;
                continue;
            }
            credit = wait_receive<mode>(link);
            if (credit == nullptr) [[unlikely]]
                return false;
        } else {
            const VIP_RETURN code = poll_completion<mode>(link, credit);
            if (code == VIP_NOT_DONE) continue;
            if (code != VIP_SUCCESS) [[unlikely]]
                return false;
        }
        const std::uint32_t granted = credit->CS.ImmediateData;
        credits += granted;
        confirmed += granted;
        if (!post_receive(link, credit)) [[unlikely]]
            return false;
        progress.store(confirmed, std::memory_order_relaxed);
    }
    return wait_sends<mode>(link, 0);
}

/// An empty message that says `number`; the ring of small sends is long enough not to wait.
template <WaitMode mode>
bool send_number(Link& link, std::uint32_t& slot, std::uint32_t number) {
    if (link.sends_under_way == link.send_slots && !wait_sends<mode>(link, link.send_slots - 1))
        return false;
    VIP_DESCRIPTOR* descriptor = &link.sends[slot];
    if (++slot == link.send_slots) slot = 0;
    descriptor->CS.ImmediateData = number;
    return post_send(link, descriptor) && reap_sends(link);
}

/// The server of a stream of sends.
template <WaitMode mode, bool check>
bool receive_stream(Endpoint& endpoint, std::uint64_t count, std::atomic<std::uint64_t>& progress) {
    Link& link = endpoint.link();
    const std::uint32_t grant = std::max<std::uint32_t>(1, endpoint.terms().window / 2);
    std::array<VIP_DESCRIPTOR*, burst_limit> ready;
    std::uint64_t received = 0;
    std::uint32_t owed = 0;
    std::uint32_t credit_slot = 0;
    while (received < count) {
        ready[0] = wait_receive<mode>(link);
        if (ready[0] == nullptr) [[unlikely]]
            return false;
        const auto most = static_cast<std::uint32_t>(
            std::min<std::uint64_t>({burst_limit, grant - owed, count - received}));
        std::uint32_t found = 1;
        for (; found < most; ++found) {
            const VIP_RETURN code = poll_completion<mode>(link, ready[found]);
            if (code == VIP_NOT_DONE) break;
            if (code != VIP_SUCCESS) [[unlikely]]
                return false;
        }
        for (std::uint32_t i = 0; i < found; ++i) {
            if constexpr (check) {
                const std::uint32_t buffer = endpoint.buffer_of_slot(slot_of(link, ready[i]));
                const auto wrong = find_wrong_byte(endpoint.receive_buffer(buffer),
                                                   endpoint.terms().bytes, received + i);
                if (wrong) {
                    link.fail_contents(received + i, *wrong);
                    return false;
                }
            }
            if (!post_receive(link, ready[i])) [[unlikely]]
                return false;
        }
        received += found;
        owed += found;
        if (owed < grant && received < count) continue;
        if (!send_number<mode>(link, credit_slot, owed)) [[unlikely]]
            return false;
        owed = 0;
        progress.fetch_add(1, std::memory_order_relaxed);
    }
    return wait_sends<mode>(link, 0);
}

/// The client of a stream of RDMA writes: as many under way as the window allows, then a word.
template <WaitMode mode, bool check>
bool write_stream(Endpoint& endpoint, std::uint64_t count, std::atomic<std::uint64_t>& progress) {
    Link& link = endpoint.link();
    std::uint32_t slot = 0;
    for (std::uint64_t posted = 0; posted < count;) {
        const auto burst = static_cast<std::uint32_t>(std::min<std::uint64_t>(
            {link.send_slots - link.sends_under_way, burst_limit, count - posted}));
        for (std::uint32_t i = 0; i < burst; ++i) {
            if constexpr (check)
                fill_pattern(endpoint.send_buffer(endpoint.buffer_of_slot(slot)),
                             endpoint.terms().bytes, posted + i);
            if (!post_send(link, &link.sends[slot])) [[unlikely]]
                return false;
            if (++slot == link.send_slots) slot = 0;
        }
        posted += burst;
        progress.store(posted, std::memory_order_relaxed);
        if (!reap_sends(link) || (link.sends_under_way == link.send_slots &&
                                  !wait_sends<mode>(link, link.send_slots - 1))) [[unlikely]]
            return false;
    }
    if (!wait_sends<mode>(link, 0) || !post_send(link, link.last_word)) return false;
    VIP_DESCRIPTOR* answer = wait_receive<mode>(link);
    return answer != nullptr && post_receive(link, answer) && wait_sends<mode>(link, 0);
}

/// The server of a stream of RDMA writes sees only the word at the end.
template <WaitMode mode, bool check>
bool confirm_writes(Endpoint& endpoint, std::uint64_t count) {
    Link& link = endpoint.link();
    VIP_DESCRIPTOR* word = wait_receive<mode>(link);
    if (word == nullptr || !post_receive(link, word)) return false;
    if constexpr (check) {
        // The last round of messages still lies there; each was the last at its place.
        const std::uint64_t kept = std::min<std::uint64_t>(count, endpoint.terms().window);
        for (std::uint64_t number = count - kept; number < count; ++number) {
            const auto slot = static_cast<std::uint32_t>(number % endpoint.terms().window);
            const auto wrong =
                find_wrong_byte(endpoint.receive_buffer(endpoint.buffer_of_slot(slot)),
                                endpoint.terms().bytes, number);
            if (!wrong) continue;
            link.fail_contents(number, *wrong);
            return false;
        }
    }
    std::uint32_t slot = 0;
    return send_number<mode>(link, slot, 0) && wait_sends<mode>(link, 0);
}

/// RDMA reads, of which the server knows nothing.
template <WaitMode mode, bool check>
bool read_stream(Endpoint& endpoint, std::uint64_t count, std::atomic<std::uint64_t>& progress) {
    Link& link = endpoint.link();
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    while (done < count) {
        while (posted < count && link.sends_under_way < link.send_slots) {
            const auto slot = static_cast<std::uint32_t>(posted % link.send_slots);
            if constexpr (check)  // something that the read must overwrite
                fill_pattern(endpoint.receive_buffer(endpoint.buffer_of_slot(slot)),
                             endpoint.terms().bytes, posted + most_window);
            if (!post_send(link, &link.sends[slot])) [[unlikely]]
                return false;
            ++posted;
        }
        if (wait_completion<mode, true>(link) == nullptr) [[unlikely]]
            return false;
        --link.sends_under_way;
        if constexpr (check) {
            const std::uint32_t buffer =
                endpoint.buffer_of_slot(static_cast<std::uint32_t>(done % link.send_slots));
            const auto wrong =
                find_wrong_byte(endpoint.receive_buffer(buffer), endpoint.terms().bytes, buffer);
            if (wrong) {
                link.fail_contents(done, *wrong);
                return false;
            }
        }
        ++done;
        progress.store(done, std::memory_order_relaxed);
    }
    return true;
}

}  // namespace

bool run_window_client(Endpoint& endpoint, const SessionTerms& session, std::uint64_t count,
                       std::atomic<std::uint64_t>& progress) {
    return with_mode(wait_mode(session), [&]<WaitMode mode>() {
        switch (session.operation) {
            case Operation::RdmaWrite:
                return session.check ? write_stream<mode, true>(endpoint, count, progress)
                                     : write_stream<mode, false>(endpoint, count, progress);
            case Operation::RdmaRead:
                return session.check ? read_stream<mode, true>(endpoint, count, progress)
                                     : read_stream<mode, false>(endpoint, count, progress);
            case Operation::Send:
                break;
        }
        return with_contents(session, [&]<Contents contents>() {
            return send_stream<mode, contents>(endpoint, count, progress);
        });
    });
}

bool run_window_server(Endpoint& endpoint, const SessionTerms& session, std::uint64_t count,
                       std::atomic<std::uint64_t>& progress) {
    return with_mode(wait_mode(session), [&]<WaitMode mode>() {
        switch (session.operation) {
            case Operation::RdmaWrite:
                return session.check ? confirm_writes<mode, true>(endpoint, count)
                                     : confirm_writes<mode, false>(endpoint, count);
            case Operation::RdmaRead:
                for (std::uint32_t buffer = 0; session.check && buffer < endpoint.terms().buffers;
                     ++buffer)
                    fill_pattern(endpoint.send_buffer(buffer), endpoint.terms().bytes, buffer);
                return true;
            case Operation::Send:
                break;
        }
        return session.check ? receive_stream<mode, true>(endpoint, count, progress)
                             : receive_stream<mode, false>(endpoint, count, progress);
    });
}

}  // namespace via::tool
