// SPDX-License-Identifier: BSD-3-Clause
#include "system/loaded_side.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

namespace via::test {
namespace {

constexpr std::size_t descriptor_bytes = 128;

[[noreturn]] void fail(const char* what, VIP_RETURN code) {
    throw std::runtime_error(std::string(what) + ": " + VipxReturnName(code) + ", " +
                             VipxErrorText());
}

void must(const char* what, VIP_RETURN code) {
    if (code != VIP_SUCCESS) fail(what, code);
}

std::uint32_t pattern_seed(const Plan& plan, unsigned index) {
    return static_cast<std::uint32_t>(plan.seed * 2 + index);
}

}  // namespace

LoadedSide::LoadedSide(const Plan& plan, unsigned index)
    : plan_(plan),
      index_(index),
      random_(plan.seed * 4 + index),
      own_bytes_(plan.most_bytes[index]),
      other_bytes_(plan.most_bytes[1 - index]) {
    tag_ = make_tag(nic_);
    const auto whole = [](std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; };
    const std::size_t descriptors = whole((window + sends) * descriptor_bytes);
    bytes_ = descriptors + whole(own_bytes_) + 2 * window * whole(other_bytes_) +
             whole(other_bytes_) + sends * whole(other_bytes_) + 4096;
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag_;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    if (plan.kmem[index]) {
        VIP_PVOID address = nullptr;
        must("VipxAllocMem", VipxAllocMem(nic_, bytes_, &attributes, &address, &handle_));
        base_ = static_cast<std::byte*>(address);
    } else {
        base_ = static_cast<std::byte*>(::operator new (bytes_, std::align_val_t{4096}));
        must("VipRegisterMem", VipRegisterMem(nic_, base_, bytes_, &attributes, &handle_));
    }
    std::byte* next = base_ + descriptors;
    const auto take = [&](std::size_t bytes) { return std::exchange(next, next + bytes); };
    source_ = take(whole(own_bytes_));
    receive_ = take(window * whole(other_bytes_));
    slots_ = take(window * whole(other_bytes_));
    scratch_ = take(whole(other_bytes_));
    read_to_ = take(sends * whole(other_bytes_));
    fill_pattern(source_, own_bytes_, pattern_seed(plan, index));
    others_.resize(other_bytes_);
    fill_pattern(others_.data(), other_bytes_, pattern_seed(plan, 1 - index));

    ViOptions options{.level = plan.level, .tag = tag_};
    if (index == 0 && plan.queues) {
        must("VipCreateCQ", VipCreateCQ(nic_, window + sends + 8, &cq_));
        options.send_cq = cq_;
        options.recv_cq = cq_;
    }
    vi_.emplace(nic_, options);
    for (std::uint32_t slot = 0; slot < sends; ++slot)
        free_slots_.push_back(slot);
}

LoadedSide::~LoadedSide() {
    if (vi_) {
        // Only when a test has failed.
        vi_->forget();
        vi_.reset();
        nic_.close();
    }
    if (!plan_.kmem[index_]) ::operator delete (base_, std::align_val_t{4096});
}

SideAddresses LoadedSide::addresses() const {
    const auto number = [](const std::byte* address) {
        return reinterpret_cast<std::uint64_t>(address);
    };
    return {number(source_), number(slots_), number(scratch_), handle_};
}

VIP_DESCRIPTOR* LoadedSide::descriptor(std::uint32_t index) const {
    return reinterpret_cast<VIP_DESCRIPTOR*>(base_ + index * descriptor_bytes);
}

LoadedSide::Message LoadedSide::message(unsigned from, std::uint32_t number) const {
    Random random(plan_.seed * 1'000'003 + from * 500'009 + number);
    const std::uint32_t most = plan_.most_bytes[from];
    Message result;
    result.kind = static_cast<unsigned>(random.below(3));
    // Half of them small, because most messages are; but also the largest of all.
    const std::uint64_t limit = random.below(2) == 0 ? std::min(most, 64U) : most;
    result.bytes = static_cast<std::uint32_t>(random.below(limit + 1));
    result.offset = static_cast<std::uint32_t>(random.below(most - result.bytes + 1));
    result.immediate = static_cast<std::uint32_t>(random.next());
    return result;
}

void LoadedSide::post_receive(std::uint32_t slot) {
    VIP_DESCRIPTOR* receive = descriptor(slot);
    const std::size_t stride = (other_bytes_ + 4095) / 4096 * std::size_t{4096};
    const Segment part{receive_ + slot * stride, handle_, other_bytes_};
    fill(receive, {&part, 1});
    receiving_.push_back(slot);
    must("VipPostRecv", VipPostRecv(*vi_, receive, handle_));
}

void LoadedSide::post_receives() {
    for (std::uint32_t slot = 0; slot < window; ++slot)
        post_receive(slot);
}

void LoadedSide::post_message() {
    const Message next = message(index_, sent_);
    const std::uint32_t slot = free_slots_.back();
    VIP_DESCRIPTOR* send = descriptor(window + slot);
    const Segment part{source_ + next.offset, handle_, next.bytes};
    if (next.kind == 2) {
        const std::uint64_t stride = (own_bytes_ + 4095) / 4096 * std::uint64_t{4096};
        const Remote remote{reinterpret_cast<void*>(other_.slots + sent_ % window * stride),
                            other_.handle};
        fill_rdma(send, remote, {&part, 1}, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE);
    } else {
        fill(send, {&part, 1}, next.kind == 1 ? VIP_CONTROL_IMMEDIATE : 0);
    }
    send->CS.ImmediateData = next.immediate;
    free_slots_.pop_back();
    sending_.push_back({send, slot, false, next});
    ++sent_;
    must("VipPostSend", VipPostSend(*vi_, send, handle_));
}

void LoadedSide::post_rdma() {
    const bool read = nic_.reads_at(plan_.level) && random_.below(2) == 0;
    const std::uint32_t most = read ? other_bytes_ : own_bytes_;
    Message next;
    next.bytes = static_cast<std::uint32_t>(random_.below(most + 1));
    next.offset = static_cast<std::uint32_t>(random_.below(most - next.bytes + 1));
    const std::uint32_t slot = free_slots_.back();
    VIP_DESCRIPTOR* send = descriptor(window + slot);
    if (read) {
        const std::size_t stride = (other_bytes_ + 4095) / 4096 * std::size_t{4096};
        const Segment part{read_to_ + slot * stride, handle_, next.bytes};
        fill_rdma(send, {reinterpret_cast<void*>(other_.source + next.offset), other_.handle},
                  {&part, 1}, VIP_CONTROL_OP_RDMAREAD);
    } else {
        const Segment part{source_ + next.offset, handle_, next.bytes};
        fill_rdma(send, {reinterpret_cast<void*>(other_.scratch), other_.handle}, {&part, 1},
                  VIP_CONTROL_OP_RDMAWRITE);
    }
    free_slots_.pop_back();
    sending_.push_back({send, slot, read, next});
    must("VipPostSend", VipPostSend(*vi_, send, handle_));
}

void LoadedSide::post_something() {
    if (free_slots_.empty()) return;
    // A message may be sent while the other is sure to have a receive for it: whoever has received
    // n of mine has posted as many again, and it sends its own by the same rule.
    const bool more = plan_.messages == 0 || sent_ < plan_.messages;
    if (more && sent_ < received_ + window / 2 && random_.below(4) != 0)
        post_message();
    else if (more)
        post_rdma();
}

void LoadedSide::judge_error(const VIP_DESCRIPTOR* done, const char* what) {
    broken_ = true;
    EXPECT_TRUE(end_expected_.load())
        << what << " failed with status " << std::hex << done->CS.Status
        << " although both ends live, seed " << std::dec << plan_.seed;
    EXPECT_NE(done->CS.Status & VIP_STATUS_ERROR_MASK, 0U);
}

void LoadedSide::sent(VIP_RETURN code, VIP_DESCRIPTOR* done) {
    ASSERT_FALSE(sending_.empty()) << "a send completes that was not posted";
    const Sending expected = sending_.front();
    ASSERT_EQ(done, expected.descriptor) << "sends complete out of order, or twice";
    sending_.pop_front();
    free_slots_.push_back(expected.slot);
    completed_.fetch_add(1);
    EXPECT_NE(done->CS.Status & VIP_STATUS_DONE, 0U);
    if (code != VIP_SUCCESS) return judge_error(done, "a send");
    if (!expected.read || expected.message.bytes == 0) return;
    const std::size_t stride = (other_bytes_ + 4095) / 4096 * std::size_t{4096};
    EXPECT_EQ(std::memcmp(read_to_ + expected.slot * stride,
                          others_.data() + expected.message.offset, expected.message.bytes),
              0)
        << "an RDMA read of " << expected.message.bytes << " bytes, seed " << plan_.seed;
}

bool LoadedSide::is_message(std::uint32_t number, std::uint32_t slot,
                            const VIP_DESCRIPTOR& done) const {
    const Message expected = message(1 - index_, number);
    const std::size_t stride = (other_bytes_ + 4095) / 4096 * std::size_t{4096};
    const std::byte* data =
        expected.kind == 2 ? slots_ + number % window * stride : receive_ + slot * stride;
    const bool immediate = (done.CS.Status & VIP_STATUS_IMMEDIATE) != 0;
    return done.CS.Length == expected.bytes && immediate == (expected.kind != 0) &&
           (!immediate || done.CS.ImmediateData == expected.immediate) &&
           (expected.bytes == 0 ||
            std::memcmp(data, others_.data() + expected.offset, expected.bytes) == 0);
}

void LoadedSide::received(VIP_RETURN code, VIP_DESCRIPTOR* done) {
    ASSERT_FALSE(receiving_.empty()) << "a receive completes that was not posted";
    const std::uint32_t slot = receiving_.front();
    ASSERT_EQ(done, descriptor(slot)) << "receives complete out of order, or twice";
    receiving_.pop_front();
    completed_.fetch_add(1);
    EXPECT_NE(done->CS.Status & VIP_STATUS_DONE, 0U);
    if (code != VIP_SUCCESS) return judge_error(done, "a receive");
    // An unreliable connection may lose what a dying process has not handed over yet.
    const bool losses = plan_.level == unreliable && end_expected_.load();
    const std::uint32_t last = losses ? received_ + window : received_;
    while (received_ < last && !is_message(received_, slot, *done))
        ++received_;
    EXPECT_TRUE(is_message(received_, slot, *done))
        << done->CS.Length << " bytes with status " << std::hex << done->CS.Status << std::dec
        << " are not message " << received_ << " of " << message(1 - index_, received_).bytes
        << " bytes, seed " << plan_.seed;
    // A window's worth stays posted; in an endless round also after the end.
    post_receive(slot);
    ++received_;
}

bool LoadedSide::take_one() {
    VIP_DESCRIPTOR* done = nullptr;
    if (cq_ != nullptr) {
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN found = VipCQDone(cq_, &which, &is_receive);
        if (found == VIP_NOT_DONE) return false;
        must("VipCQDone", found);
        EXPECT_EQ(which, static_cast<VIP_VI_HANDLE>(*vi_));
        if (is_receive != VIP_FALSE) {
            const VIP_RETURN code = VipRecvDone(*vi_, &done);
            received(code, done);
        } else {
            const VIP_RETURN code = VipSendDone(*vi_, &done);
            sent(code, done);
        }
        return true;
    }
    bool any = false;
    if (const VIP_RETURN code = VipSendDone(*vi_, &done); code != VIP_NOT_DONE && done != nullptr) {
        sent(code, done);
        any = true;
    }
    done = nullptr;
    if (const VIP_RETURN code = VipRecvDone(*vi_, &done); code != VIP_NOT_DONE && done != nullptr) {
        received(code, done);
        any = true;
    }
    return any;
}

void LoadedSide::step() {
    static_cast<void>(take_one());
    if (!broken_) post_something();
}

void LoadedSide::wait_once() {
    if (cq_ != nullptr) {
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN found = VipCQWait(cq_, patience_ms, &which, &is_receive);
        must("VipCQWait", found);
        VIP_DESCRIPTOR* done = nullptr;
        if (is_receive != VIP_FALSE) {
            const VIP_RETURN code = VipRecvDone(*vi_, &done);
            return received(code, done);
        }
        const VIP_RETURN code = VipSendDone(*vi_, &done);
        return sent(code, done);
    }
    VIP_DESCRIPTOR* done = nullptr;
    const VIP_RETURN code = VipRecvWait(*vi_, patience_ms, &done);
    if (done == nullptr) fail("VipRecvWait", code);
    received(code, done);
}

void LoadedSide::collect_all() {
    // A descriptor that comes back twice finds an empty queue, or not itself at the head.
    EXPECT_TRUE(eventually([&] { return !take_one() && outstanding() == 0; }))
        << outstanding() << " descriptors have not come back, seed " << plan_.seed;
    EXPECT_TRUE(vi_->send_queue_empty());
    EXPECT_TRUE(vi_->recv_queue_empty());
}

void LoadedSide::take_down() {
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(*vi_));
    EXPECT_EQ(vi_->state(), VIP_STATE_IDLE);
    end_expected_.store(true);
    collect_all();
    vi_->destroy();
    vi_.reset();
    if (cq_ != nullptr) {
        EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq_));
        cq_ = nullptr;
    }
    if (plan_.kmem[index_]) {
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, base_, handle_));
    } else {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, base_, handle_));
    }
    EXPECT_VIP(VIP_SUCCESS, VipDestroyPtag(nic_, tag_));
    nic_.close();
}

void connect_as_server(Link& link, LoadedSide& side, const std::string& discriminator) {
    Address local(side.nic(), discriminator);
    link.put(side.addresses());
    side.know(link.get<SideAddresses>());
    link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    VIP_RETURN code = VipConnectWait(side.nic(), local.get(), patience_ms, remote.get(),
                                     &attributes, &connection);
    if (code == VIP_SUCCESS) code = VipConnectAccept(connection, side.vi());
    if (code != VIP_SUCCESS) throw std::runtime_error(VipxErrorText());
}

void connect_as_client(Link& link, LoadedSide& side, const std::string& discriminator) {
    link.put(side.addresses());
    side.know(link.get<SideAddresses>());
    auto remote = link.get<Address>();
    Address local(side.nic(), discriminator);
    if (request_until_matched(side.vi(), local, remote) != VIP_SUCCESS)
        throw std::runtime_error(VipxErrorText());
}

/// The end that is killed, or (with a number of messages in the plan) the one that is not.
PEER(bear_load) {
    const auto plan = link.get<Plan>();
    LoadedSide side(plan, 1);
    side.post_receives();
    connect_as_client(link, side);
    if (plan.other_may_lose) side.expect_end();
    const auto deadline = Clock::now() + 3 * patience;
    while (!side.broken() && !(plan.messages != 0 && side.finished())) {
        side.step();
        if (Clock::now() > deadline) throw std::runtime_error("nobody has killed this process");
    }
    side.expect_end();
    if (!side.broken()) link.meet();
    side.take_down();
}

}  // namespace via::test
