// SPDX-License-Identifier: BSD-3-Clause
// Names of hosts: a file of name and address pairs (VIA_HOSTS_FILE, as M-VIA had), then the
// system's resolver for names that lead to this host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "na/nic_agent.hpp"

namespace via::ua {

using HostAddress = na::NicAddress;

struct HostEntry {
    std::string name;
    HostAddress address;
};

/// Lines "name aa:bb:cc:dd:ee:ff"; '#' begins a comment. Bad lines are reported and left out.
[[nodiscard]] std::vector<HostEntry> parse_hosts(std::string_view text,
                                                 std::vector<std::string>& problems);

class NameService {
  public:
    explicit NameService(const HostAddress& own) : own_(own) {}
    /// The index-th address of the name.
    [[nodiscard]] base::Result<HostAddress> address_of(const std::string& name,
                                                       std::uint64_t index) const;
    [[nodiscard]] base::Result<std::string> name_of(const HostAddress& address) const;

  private:
    [[nodiscard]] std::vector<HostEntry> read_file() const;
    HostAddress own_;
};

}  // namespace via::ua
