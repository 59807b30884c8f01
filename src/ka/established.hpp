// SPDX-License-Identifier: BSD-3-Clause
// Connections that exist: which process may ask for what of which other process. Pure books. After
// a change of agent a connection is known by its secret: it counts when both ends have shown it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "ka/connections.hpp"
#include "ka/protocol.hpp"

namespace via::ka {

class EstablishedConnections {
  public:
    struct End {
        ProcessNumber process = 0;
        std::uint64_t connection = 0;  ///< this end's number for it
        std::uint32_t vi = 0;
        ProtectionTag tag = null_tag;
        std::uint32_t flags = 0;
    };

    /// The numbers must be new to their processes.
    void add(const Secret& secret, const End& one, const End& other);
    /// With the other end on another host: nobody here can take it up.
    void add_remote(const Secret& secret, const End& end);
    /// One end as an earlier agent knew it. `record` says who is expected at the other end.
    [[nodiscard]] base::Result<void> restore(ProcessNumber process, const ConnectionRecord& record);
    /// A process of this user and instance has shown all that it had. Ends that expected it and
    /// were not shown by it have lost their peer: they are returned, once.
    [[nodiscard]] std::vector<End> restored(ProcessNumber process, std::uint32_t uid,
                                            std::uint64_t instance);

    [[nodiscard]] const End* find(ProcessNumber process, std::uint64_t connection) const;
    /// The other end, if it is here.
    [[nodiscard]] const End* other(ProcessNumber process, std::uint64_t connection) const;
    /// Takes the end away and returns the other one, if it is here.
    std::optional<End> leave(ProcessNumber process, std::uint64_t connection);
    /// If it comes back as the same instance without a connection, the other end is told.
    void process_gone(ProcessNumber process, std::uint32_t uid, std::uint64_t instance);

    [[nodiscard]] std::size_t count(ProcessNumber process) const;
    [[nodiscard]] std::vector<std::uint64_t> connections(ProcessNumber process) const;
    [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }

  private:
    using Identity = std::pair<std::uint32_t, std::uint64_t>;  // uid, instance
    struct Record {
        std::array<std::optional<End>, 2> ends;
        std::optional<Identity> expected;  // with one end here: who may come (back)
        bool remote = false;               // the other end is on another host
    };
    struct Place {
        Secret secret{};
        std::size_t side = 0;
    };
    [[nodiscard]] const Place* place(ProcessNumber process, std::uint64_t connection) const;

    std::map<Secret, Record> records_;
    std::map<ProcessNumber, std::map<std::uint64_t, Place>> places_;
    std::set<std::pair<Identity, Secret>> expectations_;
    std::map<Identity, ProcessNumber> present_;  // processes that have shown all
};

}  // namespace via::ka
