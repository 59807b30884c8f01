// SPDX-License-Identifier: BSD-3-Clause
#include "na/sim/nic_vi.hpp"

#include <atomic>
#include <utility>

#include "na/sim/sim_transfer.hpp"

namespace via::na::sim {
namespace {

/// Connections of all worlds, so that a message of an earlier one is never taken for a new one's.
std::uint64_t next_connection() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

}  // namespace

NicVi::NicVi(World& world, std::uint32_t host, ka::RmmtView rmmt, std::uint32_t small_ring,
             std::uint32_t low_water)
    : world_(world),
      host_(host),
      rmmt_(rmmt),
      ring_(std::make_shared<DescriptorRing>(world_.cluster(), world_.cluster().host(host),
                                             small_ring, low_water)) {}

model::ViaNic& NicVi::nic() noexcept {
    return *world_.cluster().host(host_).nics[0];
}

void NicVi::connect(NicVi& one, NicVi& other, const ka::EndpointAttributes& of_one,
                    const ka::EndpointAttributes& of_other) {
    const auto attach = [](NicVi& vi, NicVi& peer, const ka::EndpointAttributes& attributes) {
        vi.connection_ = next_connection();
        vi.peer_ = peer.shared_from_this();
        vi.local_ = attributes;
        vi.matches_ = 0;
        vi.last_good_ = no_end;
        vi.peer_closed_ = false;
        vi.arrivals_ = 0;
        vi.sends_ = 0;
        vi.reads_ = 0;
        vi.news_.clear();
        vi.events_ = 0;
    };
    attach(one, other, of_one);
    attach(other, one, of_other);
}

void NicVi::disconnect() {
    receives_.clear();
    fenced_.clear();
    ring_->clear();
    news_.clear();
    events_ = 0;
    if (connection_ == 0) return;
    connection_ = 0;
    const auto peer = std::exchange(peer_, nullptr);
    if (peer && peer->connection_ != 0 && peer->peer_.get() == this)
        nic().send_control(peer->host_, std::make_shared<CloseWord>(peer));
}

model::Task<> NicVi::post(Chain chain) {
    ++sends_;
    const ChainHead head = chain.head();
    const bool waits = (head.flags & pd_fence) != 0 && reads_ != 0;
    if (head.operation == Operation::RdmaRead) ++reads_;
    if (waits || !fenced_.empty()) {
        fenced_.push_back(std::move(chain));
        co_return;
    }
    co_await post_now(std::move(chain));
}

model::Task<> NicVi::post_now(Chain chain) {
    const auto self = shared_from_this();
    // One that waited behind a fence may find its connection gone.
    if (!peer_) co_return;
    model::Message message;
    message.to = peer_->host_;
    message.transfer = std::make_shared<MessageTransfer>(self, peer_, chain.number);
    co_await ring_->post(std::move(chain.pds), std::move(message));
}

void NicVi::read_ends() {
    --reads_;
    release_fenced();
}

void NicVi::release_fenced() {
    while (!fenced_.empty()) {
        const bool fence = (fenced_.front().head().flags & pd_fence) != 0;
        // Reads that wait here themselves are not what it waits for.
        std::uint32_t waiting = 0;
        for (const Chain& chain : fenced_)
            if (chain.head().operation == Operation::RdmaRead) ++waiting;
        if (fence && reads_ > waiting) return;
        world_.cluster().simulation().spawn(post_now(std::move(fenced_.front())));
        fenced_.pop_front();
    }
}

std::optional<HostNews> NicVi::take_news() {
    if (news_.empty()) return std::nullopt;
    const HostNews news = news_.front();
    news_.pop_front();
    return news;
}

void NicVi::complete(HostNews news) {
    news.order = world_.next_news();
    news_.push_back(news);
    world_.tell(host_);
}

void NicVi::complete_send(std::uint64_t number, std::uint32_t status, std::uint32_t length) {
    --sends_;
    HostNews news;
    news.number = number;
    news.status = status;
    news.length = length;
    complete(news);
}

void NicVi::report(EndpointEvent event) {
    events_ |= static_cast<std::uint32_t>(event);
    world_.tell(host_);
}

void NicVi::arrival_ends() {
    if (arrivals_ != 0) --arrivals_;
    if (arrivals_ == 0 && std::exchange(peer_closed_, false))
        report(EndpointEvent::PeerDisconnected);
}

void NicVi::peer_closes() {
    peer_closed_ = true;
    // What it sent before comes first.
    if (arrivals_ == 0 || last_good_ != no_end) {
        peer_closed_ = false;
        report(EndpointEvent::PeerDisconnected);
    }
}

bool NicVi::allows(const PhysicalDescriptor& pd, std::uint32_t right) const {
    ka::Region region{};
    if (!rmmt_.find(pd.handle, region)) return false;
    return region.permits(pd.address, pd.length, right, local_.tag,
                          (local_.flags & ka::endpoint_any_tag) != 0);
}

}  // namespace via::na::sim
