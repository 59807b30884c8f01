// SPDX-License-Identifier: BSD-3-Clause
#include "system/checked_stream.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "system/observe.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t window = 64;      ///< receives that are posted
constexpr std::uint32_t under_way = 16;   ///< sends at most
constexpr std::uint32_t tell_every = 16;  ///< messages that are taken
constexpr std::uint32_t spread = 65536;   ///< where in the pattern a message begins
constexpr std::uint32_t control_slots = 64;
/// On an unreliable connection the window's last messages may be lost, and nobody would tell.
constexpr base::Nanoseconds give_up_after = 200'000'000;
/// And the last of all may come late.
constexpr base::Nanoseconds nothing_more_after = 200'000'000;

void must(const char* what, VIP_RETURN code) {
    if (code != VIP_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + VipxReturnName(code) + ", " +
                                 VipxErrorText());
}

/// The same for a descriptor that has come back.
void must(const char* what, VIP_RETURN code, const VIP_DESCRIPTOR* done) {
    if (code == VIP_DESCRIPTOR_ERROR && done != nullptr) {
        char status[16];
        std::snprintf(status, sizeof status, "%#x", static_cast<unsigned>(done->CS.Status));
        throw std::runtime_error(std::string(what) + ": status " + status);
    }
    must(what, code);
}

/// From the receiver: how far it is. From the sender: how many there were, at the end.
struct Notice {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
};

/// What both ends are made of.
class StreamEnd {
  public:
    StreamEnd(const StreamTask& task, std::uint32_t slots)
        : task_(task),
          tag_(make_tag(nic_)),
          arena_(nic_, {.bytes = pattern_bytes() + slots * std::size_t{task.message_bytes + 512} +
                                 control_slots * 1024U + (1U << 16),
                        .tag = tag_}),
          data_(nic_, {.level = task.level, .tag = tag_}),
          control_(nic_, {.tag = tag_}),
          pattern_(arena_.take(pattern_bytes())) {
        Random random(4711);
        for (std::size_t i = 0; i + 8 <= pattern_bytes(); i += 8) {
            const std::uint64_t word = random.next();
            std::memcpy(pattern_ + i, &word, 8);
        }
        for (std::uint32_t i = 0; i < control_slots; ++i) {
            notices_in_.push_back(arena_.message(arena_.take(sizeof(Notice)), sizeof(Notice)));
            must("VipPostRecv", VipPostRecv(control_, notices_in_.back(), arena_.handle()));
        }
        for (std::uint32_t i = 0; i < control_slots; ++i)
            notices_out_.push_back(arena_.message(arena_.take(sizeof(Notice)), sizeof(Notice)));
    }

    /// The test waits no longer than it would for anything else, so it hears of a long stream.
    void still_there(Link& link, base::Nanoseconds now) {
        if (now < next_word_) return;
        next_word_ = now + 1'000'000'000;
        link.put<std::uint8_t>(0);
    }
    void serve(Link& link) {
        Address local(nic_, unique_discriminator());
        link.put(local);
        for (Vi* vi : {&control_, &data_}) {
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            must("VipConnectWait", VipConnectWait(nic_, local.get(), patience_ms, remote.get(),
                                                  &attributes, &connection));
            must("VipConnectAccept", VipConnectAccept(connection, *vi));
        }
    }
    void ask(Link& link) {
        auto remote = link.get<Address>();
        for (Vi* vi : {&control_, &data_}) {
            Address local(nic_, unique_discriminator());
            must("VipConnectRequest", request_until_matched(*vi, local, remote));
        }
    }
    /// The newest that has come, if any has.
    [[nodiscard]] bool notice(Notice& newest) {
        bool any = false;
        VIP_DESCRIPTOR* done = nullptr;
        for (;;) {
            const VIP_RETURN code = VipRecvDone(control_, &done);
            if (code == VIP_NOT_DONE) return any;
            must("VipRecvDone of the notices", code, done);
            const auto* data =
                reinterpret_cast<const void*>(segments_of(done)[0].Local.Data.AddressBits);
            std::memcpy(&newest, data, sizeof newest);
            const Segment part = arena_.segment(data, sizeof(Notice));
            fill(done, {&part, 1});
            must("VipPostRecv", VipPostRecv(control_, done, arena_.handle()));
            any = true;
        }
    }
    void tell(const Notice& notice) {
        if (notices_out_.empty()) take_back_notice(control_.await_send().descriptor);
        VIP_DESCRIPTOR* next = notices_out_.back();
        notices_out_.pop_back();
        auto* data = reinterpret_cast<void*>(segments_of(next)[0].Local.Data.AddressBits);
        std::memcpy(data, &notice, sizeof notice);
        const Segment part = arena_.segment(data, sizeof notice);
        fill(next, {&part, 1});
        must("VipPostSend of a notice", VipPostSend(control_, next, arena_.handle()));
    }
    void take_back_notices() {
        VIP_DESCRIPTOR* done = nullptr;
        while (VipSendDone(control_, &done) == VIP_SUCCESS)
            take_back_notice(done);
    }
    [[nodiscard]] bool all_notices_are_back() {
        take_back_notices();
        return notices_out_.size() == control_slots;
    }

  protected:
    [[nodiscard]] std::size_t pattern_bytes() const {
        return std::size_t{task_.message_bytes} + spread;
    }
    /// What the n-th message holds. Sizes differ, the first bytes too.
    [[nodiscard]] const std::byte* contents(std::uint64_t number) const {
        return pattern_ + number * 8191 % spread;
    }
    [[nodiscard]] std::uint32_t size_of(std::uint64_t number) const {
        return number % 7 == 3 ? task_.message_bytes / 3 : task_.message_bytes;
    }
    void take_back_notice(VIP_DESCRIPTOR* done) { notices_out_.push_back(done); }

    StreamTask task_;
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_;
    Arena arena_;
    Vi data_;
    Vi control_;
    std::byte* pattern_;
    base::Nanoseconds next_word_ = 0;
    std::vector<VIP_DESCRIPTOR*> notices_in_;
    std::vector<VIP_DESCRIPTOR*> notices_out_;
};

class Sender : public StreamEnd {
  public:
    explicit Sender(const StreamTask& task) : StreamEnd(task, 1) {
        for (std::uint32_t i = 0; i < under_way; ++i)
            free_.push_back(arena_.descriptor());
    }
    StreamSent run(Link& link) {
        const base::Nanoseconds begun = base::monotonic_now();
        const base::Nanoseconds end = begun + base::Nanoseconds{task_.milliseconds} * 1'000'000;
        StreamSent sent;
        std::uint64_t taken = 0;  // by the receiver, or given up
        base::Nanoseconds moved = begun;
        while (sent.bytes < task_.bytes || base::monotonic_now() < end) {
            reap();
            Notice newest;
            const base::Nanoseconds now = base::monotonic_now();
            still_there(link, now);
            if (notice(newest) && newest.number > taken) {
                taken = newest.number;
                moved = now;
            }
            if (task_.level == unreliable && sent.messages - taken >= window &&
                now - moved > give_up_after) {
                taken = sent.messages;
                moved = now;
            }
            if (now - moved > 1'000'000 * base::Nanoseconds{patience_ms})
                throw std::runtime_error("the stream stands still after " +
                                         std::to_string(sent.messages) + " messages, of which " +
                                         std::to_string(taken) + " are known to be taken and " +
                                         std::to_string(sending_.size()) + " are under way");
            if (free_.empty() || sent.messages - taken >= window) continue;
            sent.bytes += send(sent.messages++);
        }
        while (!sending_.empty())
            take(data_.await_send());
        tell({sent.messages, sent.bytes});
        EXPECT_TRUE(eventually([&] { return all_notices_are_back(); }));
        sent.time = base::monotonic_now() - begun;
        return sent;
    }

  private:
    std::uint32_t send(std::uint64_t number) {
        VIP_DESCRIPTOR* next = free_.back();
        free_.pop_back();
        const Segment part = arena_.segment(contents(number), size_of(number));
        fill(next, {&part, 1}, VIP_CONTROL_IMMEDIATE);
        next->CS.ImmediateData = static_cast<std::uint32_t>(number);
        sending_.push_back(next);
        must("VipPostSend", VipPostSend(data_, next, arena_.handle()));
        return part.bytes;
    }
    void take(const Completion& done) {
        must("VipSendDone", done.code, done.descriptor);
        if (sending_.empty() || done.descriptor != sending_.front())
            throw std::runtime_error("sends complete out of order");
        sending_.pop_front();
        free_.push_back(done.descriptor);
    }
    void reap() {
        while (!sending_.empty()) {
            Completion done;
            done.code = VipSendDone(data_, &done.descriptor);
            if (done.code == VIP_NOT_DONE) return;
            take(done);
        }
    }

    std::vector<VIP_DESCRIPTOR*> free_;
    std::deque<VIP_DESCRIPTOR*> sending_;
};

class Taker : public StreamEnd {
  public:
    explicit Taker(const StreamTask& task) : StreamEnd(task, window) {
        for (std::uint32_t i = 0; i < window; ++i) {
            receives_.push_back(
                arena_.message(arena_.take(task.message_bytes), task.message_bytes));
            must("VipPostRecv", VipPostRecv(data_, receives_.back(), arena_.handle()));
        }
    }
    StreamTaken run(Link& link) {
        StreamTaken taken;
        std::uint64_t expected = 0;  // number of the next message
        Notice end;
        bool ended = false;
        base::Nanoseconds last = base::monotonic_now();
        for (;;) {
            take_back_notices();
            Completion done;
            done.code = VipRecvDone(data_, &done.descriptor);
            const base::Nanoseconds now = base::monotonic_now();
            still_there(link, now);
            if (done.code == VIP_NOT_DONE) {
                ended = ended || notice(end);
                if (ended && expected == end.number) break;
                if (ended && task_.level == unreliable && now - last > nothing_more_after) break;
                if (now - last > 1'000'000 * base::Nanoseconds{patience_ms})
                    throw std::runtime_error("nothing has come for long after message " +
                                             std::to_string(expected));
                continue;
            }
            must("VipRecvDone", done.code, done.descriptor);
            // The first may wait for the other end to be ready.
            if (taken.messages != 0)
                taken.longest_pause = std::max(taken.longest_pause, now - last);
            last = now;
            check(done, expected, taken);
            if (taken.messages % tell_every == 0) tell({expected, 0});
        }
        taken.missing = end.number - taken.messages;
        if (task_.level != unreliable) {
            EXPECT_EQ(taken.messages, end.number);
            EXPECT_EQ(taken.bytes, end.bytes);
        }
        EXPECT_TRUE(eventually([&] { return all_notices_are_back(); }));
        return taken;
    }

  private:
    void check(const Completion& done, std::uint64_t& expected, StreamTaken& taken) {
        if (done.descriptor != receives_[next_receive_ % window])
            throw std::runtime_error("receives complete out of order");
        ++next_receive_;
        if ((done.status() & VIP_STATUS_IMMEDIATE) == 0)
            throw std::runtime_error("a message without its number");
        // Less than 2^32 after the one that is due.
        const auto ahead = static_cast<std::uint32_t>(done.descriptor->CS.ImmediateData -
                                                      static_cast<std::uint32_t>(expected));
        const std::uint64_t number = expected + ahead;
        if (task_.level != unreliable && ahead != 0)
            throw std::runtime_error("message " + std::to_string(number) + " instead of " +
                                     std::to_string(expected));
        if (ahead > 1'000'000) throw std::runtime_error("a message comes twice or out of order");
        const auto* data = reinterpret_cast<const std::byte*>(
            segments_of(done.descriptor)[0].Local.Data.AddressBits);
        if (done.length() != size_of(number) ||
            std::memcmp(data, contents(number), done.length()) != 0)
            throw std::runtime_error("the bytes of message " + std::to_string(number) +
                                     " are not those that were sent");
        expected = number + 1;
        ++taken.messages;
        taken.bytes += done.length();
        const Segment part = arena_.segment(data, task_.message_bytes);
        fill(done.descriptor, {&part, 1});
        must("VipPostRecv", VipPostRecv(data_, done.descriptor, arena_.handle()));
    }

    std::vector<VIP_DESCRIPTOR*> receives_;
    std::uint64_t next_receive_ = 0;
};

}  // namespace

PEER(send_stream) {
    Sender sender(link.get<StreamTask>());
    sender.ask(link);
    link.meet();
    const auto result = sender.run(link);
    link.put<std::uint8_t>(1);
    link.put(result);
    link.meet();
}

PEER(take_stream) {
    Taker taker(link.get<StreamTask>());
    taker.serve(link);
    link.meet();
    const auto result = taker.run(link);
    link.put<std::uint8_t>(1);
    link.put(result);
    link.meet();
}

}  // namespace via::test
