// SPDX-License-Identifier: BSD-3-Clause
#include "ka/established.hpp"

namespace via::ka {

using base::Code;
using base::Result;

const EstablishedConnections::Place* EstablishedConnections::place(ProcessNumber process,
                                                                   std::uint64_t connection) const {
    const auto places = places_.find(process);
    if (places == places_.end()) return nullptr;
    const auto found = places->second.find(connection);
    return found == places->second.end() ? nullptr : &found->second;
}

void EstablishedConnections::add(const Secret& secret, const End& one, const End& other) {
    Record& record = records_[secret];
    record.ends = {one, other};
    places_[one.process][one.connection] = Place{secret, 0};
    places_[other.process][other.connection] = Place{secret, 1};
}

void EstablishedConnections::add_remote(const Secret& secret, const End& end) {
    Record& record = records_[secret];
    record.ends[0] = end;
    record.remote = true;
    places_[end.process][end.connection] = Place{secret, 0};
}

Result<void> EstablishedConnections::restore(ProcessNumber process, const ConnectionRecord& shown) {
    if (place(process, shown.connection) != nullptr)
        return Result<void>(Code::InvalidArgument, "a connection was restored twice");
    const bool remote = (shown.flags & connection_remote) != 0;
    const End end{process, shown.connection, shown.vi, shown.tag, shown.flags & ~connection_remote};
    auto found = records_.find(shown.secret);
    if (found == records_.end() && remote) {
        add_remote(shown.secret, end);
        return {};
    }
    if (found == records_.end()) {
        found = records_.emplace(shown.secret, Record{}).first;
        found->second.ends[0] = end;
        found->second.expected = Identity{shown.peer_uid, shown.peer_instance};
        expectations_.emplace(*found->second.expected, shown.secret);
        places_[process][shown.connection] = Place{shown.secret, 0};
        return {};
    }
    Record& record = found->second;
    const std::size_t side = record.ends[0] ? 1 : 0;
    if (record.ends[side] || record.remote || remote)
        return Result<void>(Code::PermissionDenied, "the connection has both its ends already");
    record.ends[side] = end;
    places_[process][shown.connection] = Place{shown.secret, side};
    if (record.expected) {
        expectations_.erase({*record.expected, shown.secret});
        record.expected.reset();
    }
    return {};
}

std::vector<EstablishedConnections::End> EstablishedConnections::restored(ProcessNumber process,
                                                                          std::uint32_t uid,
                                                                          std::uint64_t instance) {
    const Identity self{uid, instance};
    present_[self] = process;
    std::vector<End> gone;
    const auto give_up = [&](const Secret& secret) {
        Record& record = records_.at(secret);
        for (const auto& end : record.ends)
            if (end) gone.push_back(*end);
        expectations_.erase({*record.expected, secret});
        record.expected.reset();
    };
    // Who expected this process in vain …
    std::vector<Secret> vain;
    for (auto next = expectations_.lower_bound({self, Secret{}});
         next != expectations_.end() && next->first == self; ++next)
        vain.push_back(next->second);
    // … and whom this process expects in vain.
    if (const auto places = places_.find(process); places != places_.end()) {
        for (const auto& [connection, where] : places->second) {
            const Record& record = records_.at(where.secret);
            if (record.expected && *record.expected != self && present_.contains(*record.expected))
                vain.push_back(where.secret);
        }
    }
    for (const Secret& secret : vain)
        give_up(secret);
    return gone;
}

const EstablishedConnections::End* EstablishedConnections::find(ProcessNumber process,
                                                                std::uint64_t connection) const {
    const Place* where = place(process, connection);
    return where == nullptr ? nullptr : &*records_.at(where->secret).ends[where->side];
}

const EstablishedConnections::End* EstablishedConnections::other(ProcessNumber process,
                                                                 std::uint64_t connection) const {
    const Place* where = place(process, connection);
    if (where == nullptr) return nullptr;
    const auto& end = records_.at(where->secret).ends[1 - where->side];
    return end ? &*end : nullptr;
}

std::optional<EstablishedConnections::End> EstablishedConnections::leave(ProcessNumber process,
                                                                         std::uint64_t connection) {
    const Place* found = place(process, connection);
    if (found == nullptr) return {};
    const Place where = *found;
    places_[process].erase(connection);
    Record& record = records_.at(where.secret);
    record.ends[where.side].reset();
    std::optional<End> left = record.ends[1 - where.side];
    if (!left) {
        if (record.expected) expectations_.erase({*record.expected, where.secret});
        records_.erase(where.secret);
    }
    return left;
}

void EstablishedConnections::process_gone(ProcessNumber process, std::uint32_t uid,
                                          std::uint64_t instance) {
    const Identity self{uid, instance};
    for (const std::uint64_t connection : connections(process)) {
        const Secret secret = place(process, connection)->secret;
        const auto left = leave(process, connection);
        // With both ends in this process, the second one goes as well.
        if (!left || left->process == process) continue;
        records_.at(secret).expected = self;
        expectations_.emplace(self, secret);
    }
    places_.erase(process);
    std::erase_if(present_, [&](const auto& entry) { return entry.second == process; });
}

std::size_t EstablishedConnections::count(ProcessNumber process) const {
    const auto places = places_.find(process);
    return places == places_.end() ? 0 : places->second.size();
}

std::vector<std::uint64_t> EstablishedConnections::connections(ProcessNumber process) const {
    std::vector<std::uint64_t> result;
    if (const auto places = places_.find(process); places != places_.end())
        for (const auto& [connection, where] : places->second)
            result.push_back(connection);
    return result;
}

}  // namespace via::ka
