// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/net_nic_agent.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/undo.hpp"
#include "ka/host_address.hpp"
#include "na/net/net_poll_group.hpp"

namespace via::na::net {
namespace {

/// What the two ends tell each other through the kernel agents, before the list of interfaces.
struct Parameters {
    static constexpr std::uint32_t current = 0x3454454E;  // "NET4": changes with the packets
    std::uint32_t format = current;
    std::uint32_t token = 0;
    std::uint32_t window_bytes = 0;
    std::uint32_t sealed = 0;
    std::uint32_t offer_length = 0;  ///< of the list that follows
    std::uint32_t raw = 0;           ///< 1: short packets may come below IP
    std::uint32_t reserved[2] = {};
};
static_assert(sizeof(Parameters) == 32);

constexpr std::size_t offer_bytes = ka::device_parameter_bytes - sizeof(Parameters);
/// Longer packets would leave too few of them to a train.
constexpr std::uint32_t longest_packet = 16384;
constexpr std::uint32_t widest_window = 1U << 20U;

Parameters decode_parameters(const ka::DeviceParameters& bytes) noexcept {
    Parameters parameters;
    std::memcpy(&parameters, bytes.data(), sizeof parameters);
    return parameters;
}

std::uint32_t random_token() noexcept {
    std::uint32_t token = 0;
    while (token == 0)
        if (getrandom(&token, sizeof token, 0) != sizeof token) token = 0;
    return token;
}

std::uint32_t header_bytes(Family family) noexcept {
    return family == Family::Ipv4 ? 28 : 48;
}

std::string described(const OfferedInterface& entry) {
    return to_text(entry.family, entry.address) + "/" + std::to_string(entry.prefix);
}

/// What can be seen from another host.
std::string described(const InterfaceOffer& offer) {
    std::string text;
    for (const OfferedInterface& entry : offer.entries)
        if (!entry.loopback) text += (text.empty() ? "" : ", ") + described(entry);
    return text.empty() ? "none" : text;
}

/// What a raw frame has before the packet, the longest packet that a port of either kind takes,
/// and what a packet ring holds.
constexpr std::uint32_t raw_overhead = 6;
constexpr std::uint32_t longest_raw_packet = 3800;
constexpr std::uint32_t raw_window = 32768;

/// Whether this process may send below IP.
base::Result<void> raw_possible() {
    const base::UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (socket.valid()) return {};
    return base::Result<void>(
        base::Code::NotSupported,
        base::system_error(errno,
                           "VIA_NET_RAW asks for a raw path, but this process may not open "
                           "a packet socket (it needs CAP_NET_RAW)")
            .sentence);
}

/// An end of a connected socket, as in "10.0.0.2:40000"; empty: it has no such end.
std::string end_of(int descriptor, int (*which)(int, sockaddr*, socklen_t*)) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (which(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
    ka::AgentAddress address;
    if (storage.ss_family == AF_INET) {
        const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
        address.family = 4;
        address.port = ntohs(in.sin_port);
        std::memcpy(address.ip.data(), &in.sin_addr, 4);
    } else if (storage.ss_family == AF_INET6) {
        const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
        address.family = 6;
        address.port = ntohs(in.sin6_port);
        std::memcpy(address.ip.data(), &in.sin6_addr, 16);
    } else {
        return {};
    }
    return ka::readable(ka::undressed(address));
}

/// A connection that was lost: which ways were tried and what each of them did, for whoever has to
/// find what is between the hosts.
void log_loss(Conversation& conversation, base::Nanoseconds lost_after) {
    bool any_refused = false;
    bool any_came = false;
    std::string ways;
    for (std::size_t i = 0; i < conversation.links().size(); ++i) {
        const LinkEnd& end = conversation.links()[i];
        const links::Link& link = conversation.transport().link(i);
        ways += "; " + end.description;
        if (const std::string here = end_of(end.port->descriptor(), getsockname); !here.empty())
            ways += " (" + here + " to " + end_of(end.port->descriptor(), getpeername) + ")";
        if (link.believed_refused())
            ways += ": the other host refuses packets to that port";
        else if (link.counters().received_packets == 0)
            ways += ": no packet has ever come";
        else
            ways += ": " + std::to_string(link.counters().received_packets) + " packets had come";
        any_refused = any_refused || link.believed_refused();
        any_came = any_came || link.counters().received_packets != 0;
    }
    std::string sentence = "a connection is lost: ";
    sentence += any_refused ? "the peer's process has gone"
                            : "the peer has not answered for " +
                                  std::to_string(lost_after / 1'000'000) + " ms";
    if (!any_came)
        sentence +=
            any_refused
                ? ", or a firewall rejects its UDP ports (VIA_NET_PORTS sets them)"
                : ", and never has: does a firewall drop UDP between these ports (VIA_NET_PORTS "
                  "sets them), or does the path carry less than an MTU of 1280 bytes?";
    // That a program ends is nothing to worry about.
    base::log(any_refused && any_came ? base::LogLevel::Info : base::LogLevel::Warning,
              sentence + ways);
}

/// Stands for a link whose port could not be connected, so that the others keep their numbers.
class NoPort final : public Port {
  public:
    SendOutcome send(std::span<const iovec>, std::uint32_t) override {
        return SendOutcome::LinkDown;
    }
    bool receive(PacketTaker&) override { return false; }
    [[nodiscard]] int descriptor() const noexcept override { return -1; }
    [[nodiscard]] std::uint32_t max_packet_bytes() const noexcept override { return 1200; }
    [[nodiscard]] std::uint32_t max_train_bytes() const noexcept override { return 1201; }
};

/// The one by which other hosts are reached; 0: there are several, or none.
std::uint32_t only_interface(const InterfaceChoice& choice) {
    std::uint32_t only = 0;
    for (const InterfaceRow& row : choice.rows) {
        if (!row.used || row.interface.loopback) continue;
        if (only != 0) return 0;
        only = row.interface.index;
    }
    return only;
}

/// The address by which others know this host: its first interface's, or loopback.
NicAddress own_address(std::uint16_t port) {
    ka::AgentAddress address;
    address.family = 4;
    address.port = port;
    address.ip = {127, 0, 0, 1};
    if (auto choice = host_interfaces())
        for (const LocalInterface& local : interfaces_to_offer(choice.value())) {
            if (local.entry.loopback) continue;
            address.family = local.entry.family == Family::Ipv4 ? 4 : 6;
            address.ip = local.entry.address;
            break;
        }
    ka::NetAddress net;
    ka::set_host(net, address);
    return NicAddress(std::span<const std::uint8_t>(net.host.data(), net.host_bytes));
}

}  // namespace

NetSettings NetSettings::read() {
    const base::Settings& all = base::Settings::get();
    NetSettings settings;
    settings.policy = links::policy_named(all.text("VIA_NET_POLICY")).value_or(settings.policy);
    settings.sealed = all.flag("VIA_NET_SECURE");
    const std::string& raw = all.text("VIA_NET_RAW");
    if (raw == "auto") settings.raw = RawKind::Auto;
    if (raw == "ring") settings.raw = RawKind::Ring;
    if (raw == "xdp") settings.raw = RawKind::Xdp;
    settings.lost_after = static_cast<base::Nanoseconds>(all.number("VIA_NET_LOST_MS")) * 1'000'000;
    settings.cork = static_cast<base::Nanoseconds>(all.number("VIA_NET_CORK_US")) * 1'000;
    if (auto range = parse_port_range(all.text("VIA_NET_PORTS")))
        settings.ports = range.value();
    else
        base::log(base::LogLevel::Error, range.error().sentence);
    return settings;
}

base::Result<links::PolicyKind> parse_policy(std::string_view name) {
    if (const auto kind = links::policy_named(name)) return *kind;
    return base::Result<links::PolicyKind>(
        base::Code::InvalidArgument, "there is no link policy '" + std::string(name.substr(0, 32)) +
                                         "'; there are static, oneway, dynamic and adaptive");
}

NetNicAgent::NetNicAgent(ka::AgentClient& agent, base::EventLoop& service)
    : agent_(agent),
      service_(service),
      settings_(NetSettings::read()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      policy_(settings_.policy) {
    attributes_.name = "net0";
    attributes_.hardware_version = 1;
    attributes_.provider_version = 1;
    attributes_.address =
        own_address(static_cast<std::uint16_t>(base::Settings::get().number("VIA_NET_PORT")));
    attributes_.max_transfer_bytes = 1U << 30U;
    attributes_.native_mtu = longest_packet;
    attributes_.max_vis = 16384;
    attributes_.max_segments = 252;
    attributes_.reliability_levels = unreliable | reliable_delivery | reliable_reception;
    attributes_.rdma_read_levels = reliable_delivery | reliable_reception;
    if (epoll_.valid()) {
        [[maybe_unused]] auto watched = service_.watch(epoll_.get(), [this] { woken(); });
    }
    if (timer_.valid()) {
        [[maybe_unused]] auto watched = service_.watch(timer_.get(), [this] { timer_rang(); });
    }
    watch_interfaces();
}

NetNicAgent::~NetNicAgent() {
    if (epoll_.valid()) service_.unwatch(epoll_.get());
    if (timer_.valid()) service_.unwatch(timer_.get());
    if (interface_watch_) service_.unwatch(interface_watch_->descriptor());
}

base::Result<void> NetNicAgent::may_open() {
    if (!epoll_.valid() || !timer_.valid())
        return base::Result<void>(base::Code::OutOfResources,
                                  "net0 could not open an epoll and a timer descriptor: this "
                                  "process has too many files open (ulimit -n)");
    return {};
}

std::optional<NicAddress> NetNicAgent::find_host(std::string_view name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (getaddrinfo(std::string(name).c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    const auto choice = host_interfaces();
    std::optional<ka::AgentAddress> best;
    for (const addrinfo* i = found; i != nullptr; i = i->ai_next) {
        ka::AgentAddress address;
        address.port = static_cast<std::uint16_t>(base::Settings::get().number("VIA_NET_PORT"));
        if (i->ai_family == AF_INET) {
            address.family = 4;
            std::memcpy(address.ip.data(),
                        &reinterpret_cast<const sockaddr_in*>(i->ai_addr)->sin_addr, 4);
        } else if (i->ai_family == AF_INET6) {
            const auto* six = reinterpret_cast<const sockaddr_in6*>(i->ai_addr);
            address.family = 6;
            std::memcpy(address.ip.data(), &six->sin6_addr, 16);
            if (address.needs_scope())
                address.scope = six->sin6_scope_id != 0 ? six->sin6_scope_id
                                : choice                ? only_interface(choice.value())
                                                        : 0;
        } else {
            continue;
        }
        // This very host: the name service knows its address.
        if (address.is_loopback()) return std::nullopt;
        if (choice)
            for (const InterfaceRow& row : choice.value().rows)
                for (const InterfaceAddress& own : row.interface.addresses)
                    if ((own.family == Family::Ipv4) == (address.family == 4) &&
                        own.address == address.ip)
                        return std::nullopt;
        if (!best || (best->family == 6 && address.family == 4)) best = address;
    }
    if (!best) return std::nullopt;
    ka::NetAddress net;
    ka::set_host(net, *best);
    return NicAddress(std::span<const std::uint8_t>(net.host.data(), net.host_bytes));
}

std::unique_ptr<PollGroup> NetNicAgent::create_poll_group() {
    return std::make_unique<NetPollGroup>();
}

base::Result<std::unique_ptr<Endpoint>> NetNicAgent::create_endpoint(QueuePair& queues,
                                                                     EndpointOwner& owner,
                                                                     const EndpointGroups& groups) {
    const std::lock_guard guard(policy_mutex_);
    auto endpoint = registry_.add([&](std::uint32_t index) {
        return std::make_unique<NetEndpoint>(*this, queues, owner, groups, index);
    });
    endpoint->want_policy(policy_);
    return std::unique_ptr<Endpoint>(std::move(endpoint));
}

base::Result<void> NetNicAgent::set_link_policy(std::string_view policy, std::uint32_t slot) {
    const auto kind = parse_policy(policy);
    if (!kind) return kind.error();
    bool found = slot == 0;
    {
        const std::lock_guard guard(policy_mutex_);
        if (slot == 0) policy_ = kind.value();
        const base::ViCounters* const only =
            slot < base::CountersPage::vi_slots ? &base::Counters::get().page().vis[slot] : nullptr;
        registry_.visit_all([&](NetEndpoint& endpoint) {
            if (slot != 0 && endpoint.queues().counters != only) return;
            endpoint.want_policy(kind.value());
            found = true;
        });
    }
    if (!found)
        return base::Result<void>(base::Code::NotFound,
                                  "there is no VI " + std::to_string(slot) + " on net0");
    // Connections that nobody polls follow, too.
    service_.start_ticking();
    return {};
}

// ---- the service thread -------------------------------------------------------------------------

void NetNicAgent::watch(int descriptor, std::uint32_t index) noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = index;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void NetNicAgent::unwatch(int descriptor) noexcept {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void NetNicAgent::wake_at(base::Nanoseconds moment) noexcept {
    const std::lock_guard guard(timer_mutex_);
    if (moment >= timer_set_) return;
    timer_set_ = moment;
    itimerspec when{};
    when.it_value.tv_sec = moment / 1'000'000'000;
    when.it_value.tv_nsec = std::max<long>(moment % 1'000'000'000, 1);
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

/// Without it links that have gone are noticed by silence.
void NetNicAgent::watch_interfaces() {
    auto opened = InterfaceWatch::open();
    if (!opened) return base::log(base::LogLevel::Info, opened.error().sentence);
    interface_watch_.emplace(std::move(opened).value());
    [[maybe_unused]] auto watched =
        service_.watch(interface_watch_->descriptor(), [this] { interfaces_changed(); });
}

void NetNicAgent::interfaces_changed() {
    if (!interface_watch_->changed()) return;
    const auto interfaces = read_interfaces();
    if (!interfaces) return;
    {
        const std::lock_guard guard(running_mutex_);
        running_.clear();
        for (const Interface& one : interfaces.value())
            if (one.up && one.running) running_.push_back(one.index);
    }
    registry_.visit_all([](NetEndpoint& endpoint) {
        endpoint.want_look_at_interfaces();
        if (endpoint.live()) endpoint.owner().progress();
    });
}

std::vector<std::uint32_t> NetNicAgent::running_interfaces() {
    const std::lock_guard guard(running_mutex_);
    return running_;
}

/// Packets have come for connections that nobody polls.
void NetNicAgent::woken() {
    std::array<epoll_event, 64> events;
    const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    for (int i = 0; i < ready; ++i) {
        const std::uint32_t index = events[static_cast<std::size_t>(i)].data.u32;
        registry_.visit_at(index, [&](NetEndpoint& endpoint) {
            const std::uint64_t polls = endpoint.polls();
            endpoint.owner().progress();
            if (endpoint.live()) wake_at(endpoint.deadline());
            // Nobody may look yet: it is being connected. It is armed again by the next tick.
            if (endpoint.polls() == polls) {
                endpoint.want_attention(Wakes::Nobody);
                service_.start_ticking();
            }
        });
    }
}

void NetNicAgent::timer_rang() {
    std::uint64_t times;
    [[maybe_unused]] const ssize_t taken = ::read(timer_.get(), &times, sizeof times);
    {
        const std::lock_guard guard(timer_mutex_);
        timer_set_ = links::never;
    }
    const base::Nanoseconds now = base::monotonic_now();
    base::Nanoseconds next = links::never;
    registry_.visit_all([&](NetEndpoint& endpoint) {
        // Who polls sees to it himself, and is not to be disturbed.
        if (!endpoint.live() || !endpoint.asleep()) return;
        if (endpoint.deadline() <= now) endpoint.owner().progress();
        // Something that is due at once, and is not done at once, waits for the next round.
        if (endpoint.live()) next = std::min(next, std::max(endpoint.deadline(), now + 200'000));
    });
    if (next != links::never) wake_at(next);
}

bool NetNicAgent::service() {
    bool unfinished = finish_goodbyes();
    registry_.visit_all([&](NetEndpoint& endpoint) {
        if (endpoint.live() && endpoint.owner().progress(true)) unfinished = true;
    });
    return unfinished;
}

void NetNicAgent::say_goodbye(std::unique_ptr<Conversation> conversation,
                              std::uint64_t connection) {
    agent_.disconnected(connection);
    if (conversation->transport().lost()) log_loss(*conversation, settings_.lost_after);
    {
        const std::lock_guard guard(goodbyes_mutex_);
        goodbyes_.push_back(std::move(conversation));
    }
    service_.start_ticking();
}

bool NetNicAgent::finish_goodbyes() {
    const std::lock_guard guard(goodbyes_mutex_);
    for (auto i = goodbyes_.begin(); i != goodbyes_.end();) {
        (*i)->poll(false);
        i = (*i)->said_goodbye() ? goodbyes_.erase(i) : std::next(i);
    }
    return !goodbyes_.empty();
}

// ---- connections --------------------------------------------------------------------------------

base::Result<ka::ConnectOffer> NetNicAgent::make_offer(NetEndpoint& endpoint,
                                                       const ConnectTerms& terms) const {
    auto choice = host_interfaces();
    if (!choice) return std::move(choice).error();
    NetEndpoint::Prepared prepared;
    prepared.offer.host = host_identity();
    prepared.token = random_token();
    std::string reasons;
    std::uint32_t window = widest_window;
    for (LocalInterface& local : interfaces_to_offer(choice.value())) {
        auto port = UdpPort::open(local, settings_.ports);
        if (!port) {
            reasons += "; " + port.error().sentence;
            continue;
        }
        // What the kernel counts against the buffer is more than the bytes sent.
        window = std::min(window, port.value()->receive_buffer_bytes() / 8 * 5);
        local.entry.port = port.value()->port();
        prepared.offer.entries.push_back(local.entry);
        prepared.ports.push_back(std::move(port).value());
        prepared.interfaces.push_back(local);
    }
    if (prepared.ports.empty()) {
        for (const InterfaceRow& row : choice.value().rows)
            if (!row.used) reasons += "; " + row.interface.name + ": " + row.reason;
        return base::Result<ka::ConnectOffer>(
            base::Code::NotReachable,
            "this host has no interface that can carry connections" + reasons);
    }
    if (settings_.raw) {
        auto possible = raw_possible();
        if (!possible && *settings_.raw != RawKind::Auto) return std::move(possible).error();
        prepared.raw = possible.ok();
    }
    Parameters parameters;
    parameters.token = prepared.token;
    parameters.raw = prepared.raw ? 1 : 0;
    parameters.window_bytes = window;
    parameters.sealed = settings_.sealed ? 1 : 0;
    ka::ConnectOffer offer;
    offer.fabric = ka::fabric_net;
    offer.vi = terms.vi;
    offer.local = terms.local;
    offer.remote = terms.remote;
    offer.attributes = endpoint.queues().local;
    parameters.offer_length = static_cast<std::uint32_t>(
        encode(prepared.offer, std::as_writable_bytes(std::span(offer.parameters))
                                   .subspan(sizeof parameters, offer_bytes)));
    std::memcpy(offer.parameters.data(), &parameters, sizeof parameters);
    endpoint.prepared = std::move(prepared);
    return offer;
}

/// A link below IP beside each one between two Ethernet interfaces of one subnet. Both ends have
/// the same ones, though a port of one may fail.
void NetNicAgent::add_raw_links(const NetEndpoint::Prepared& prepared, const InterfaceOffer& theirs,
                                const std::vector<LinkPair>& pairs, std::uint32_t remote_token,
                                std::vector<LinkEnd>& links) const {
    for (const LinkPair& pair : pairs) {
        const OfferedInterface& here = prepared.offer.entries[pair.a];
        const OfferedInterface& there = theirs.entries[pair.b];
        if (pair.routed || here.mac == MacBytes{} || there.mac == MacBytes{}) continue;
        LinkEnd end;
        const LocalInterface& interface = prepared.interfaces[pair.a];
        end.interface = interface.index;
        end.description = interface.name + " raw - " + to_text(there.family, there.address);
        auto port = make_raw_port(*settings_.raw, interface, prepared.token,
                                  RawAddress{there.mac, remote_token});
        if (port) {
            end.port = std::move(port).value();
        } else {
            base::log(base::LogLevel::Warning, port.error().sentence);
            end.port = std::make_unique<NoPort>();
        }
        // Whatever the kinds of the two ports are, both take packets of this length.
        end.packet_bytes =
            std::min({static_cast<std::uint32_t>(std::min(here.mtu, there.mtu)) - raw_overhead,
                      longest_raw_packet});
        end.window_bytes = raw_window;
        end.short_only = true;
        links.push_back(std::move(end));
    }
}

base::Result<void> NetNicAgent::go_live(NetEndpoint& endpoint, ka::Established&& established) {
    const std::uint64_t connection = established.connection;
    base::Undo abandoned([&] { agent_.disconnected(connection); });
    NetEndpoint::Prepared prepared = std::move(endpoint.prepared);
    endpoint.prepared = {};
    const Parameters remote = decode_parameters(established.remote_parameters);
    if (remote.format != Parameters::current)
        return base::Result<void>(base::Code::NotSupported,
                                  "the peer's Viaduct speaks another format of packets; use the "
                                  "same version on both hosts");
    if (remote.offer_length > offer_bytes)
        return base::Result<void>(base::Code::ProtocolViolation,
                                  "the peer's offer of interfaces is longer than one can be");
    auto theirs = decode_offer(std::as_bytes(std::span(established.remote_parameters))
                                   .subspan(sizeof remote, remote.offer_length));
    if (!theirs) return std::move(theirs).error();
    const std::vector<LinkPair> pairs = pair_interfaces(prepared.offer, theirs.value());
    if (pairs.empty())
        return base::Result<void>(base::Code::NotReachable,
                                  "the two hosts have no link in common: here " +
                                      described(prepared.offer) + "; there " +
                                      described(theirs.value()));
    const bool same_host = prepared.offer.host == theirs.value().host;
    std::vector<LinkEnd> links;
    std::string problems;
    bool any = false;
    for (const LinkPair& pair : pairs) {
        const OfferedInterface& here = prepared.offer.entries[pair.a];
        const OfferedInterface& there = theirs.value().entries[pair.b];
        LinkEnd end;
        end.interface = prepared.interfaces[pair.a].index;
        end.description = prepared.interfaces[pair.a].name + " " +
                          to_text(here.family, here.address) + " - " +
                          to_text(there.family, there.address);
        std::unique_ptr<UdpPort> port = std::move(prepared.ports[pair.a]);
        if (auto connected = port->connect(there, same_host); !connected) {
            problems += "; " + connected.error().sentence;
            end.port = std::make_unique<NoPort>();
        } else {
            any = true;
            end.port = std::move(port);
        }
        const std::uint32_t mtu = std::min<std::uint32_t>(here.mtu, there.mtu);
        end.packet_bytes = std::min(
            {end.port->max_packet_bytes(), mtu - header_bytes(here.family), longest_packet});
        end.window_bytes = std::min(std::max(remote.window_bytes, 65536U), widest_window);
        links.push_back(std::move(end));
    }
    if (!any)
        return base::Result<void>(base::Code::NotReachable,
                                  "no link to the peer could be opened" + problems);
    if (prepared.raw && remote.raw != 0 && !same_host)
        add_raw_links(prepared, theirs.value(), pairs, remote.token, links);
    links::TransportTerms terms;
    terms.local_token = prepared.token;
    terms.remote_token = remote.token;
    terms.key = established.session_key;
    terms.requester = established.requester;
    terms.sealed = settings_.sealed || remote.sealed != 0;
    terms.connection = connection;
    terms.policy = endpoint.wanted_policy();
    terms.one_link = !endpoint.queues().reliable();
    terms.lost_after = settings_.lost_after;
    endpoint.queues().remote = established.remote_attributes;
    endpoint.go_live(
        std::make_unique<Conversation>(endpoint.queues(), agent_.rmmt(), terms, std::move(links),
                                       settings_.cork, base::monotonic_now()),
        connection);
    abandoned.keep();
    return {};
}

base::Result<ka::IncomingRequest> NetNicAgent::connect_wait(const ka::NetAddress& local,
                                                            base::Deadline deadline,
                                                            const void* owner) {
    return agent_.connect_wait(local, deadline, owner, ka::fabric_net);
}

void NetNicAgent::cancel_waits(const void* owner) {
    agent_.cancel_waits(owner);
}

base::Result<void> NetNicAgent::connect_accept(const ka::IncomingRequest& request,
                                               Endpoint& endpoint, const ConnectTerms& terms,
                                               base::Deadline deadline) {
    auto& own = static_cast<NetEndpoint&>(endpoint);
    auto offer = make_offer(own, terms);
    if (!offer) return std::move(offer).error();
    auto established = agent_.connect_accept(request.request, offer.value(), deadline);
    if (!established) return std::move(established).error();
    return go_live(own, std::move(established).value());
}

base::Result<void> NetNicAgent::connect_reject(std::uint64_t request) {
    return agent_.connect_reject(request);
}

base::Result<void> NetNicAgent::connect_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                base::Deadline deadline) {
    auto& own = static_cast<NetEndpoint&>(endpoint);
    auto offer = make_offer(own, terms);
    if (!offer) return std::move(offer).error();
    auto established = agent_.connect_request(offer.value(), deadline);
    if (!established) return std::move(established).error();
    return go_live(own, std::move(established).value());
}

base::Result<std::uint64_t> NetNicAgent::peer_request(Endpoint& endpoint, const ConnectTerms& terms,
                                                      base::Deadline deadline) {
    auto offer = make_offer(static_cast<NetEndpoint&>(endpoint), terms);
    if (!offer) return std::move(offer).error();
    return agent_.peer_request(offer.value(), deadline);
}

std::optional<base::Result<void>> NetNicAgent::peer_poll(Endpoint& endpoint,
                                                         std::uint64_t request) {
    auto established = agent_.peer_poll(request);
    if (!established) return std::nullopt;
    if (!*established) return base::Result<void>(std::move(*established).error());
    return go_live(static_cast<NetEndpoint&>(endpoint), std::move(*established).value());
}

base::Result<void> NetNicAgent::peer_wait(Endpoint& endpoint, std::uint64_t request) {
    auto established = agent_.peer_wait(request);
    if (!established) return std::move(established).error();
    return go_live(static_cast<NetEndpoint&>(endpoint), std::move(established).value());
}

void NetNicAgent::peer_cancel(std::uint64_t request) {
    agent_.peer_cancel(request);
}

}  // namespace via::na::net
