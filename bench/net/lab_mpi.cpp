// SPDX-License-Identifier: BSD-3-Clause
#include "net/lab_mpi.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <utility>

namespace via::bench {

namespace {

using base::Result;

/// It is called as ssh would be: with a host and the words of a shell command.
Result<void> write_entrance(const std::string& path, const std::string& via,
                            const std::string& lab) {
    std::ofstream file(path);
    file << fmt::format(
        "#!/bin/sh\nhost=$1\nshift\nexec '{}' lab run --name {} \"$host\" -- sh -c \"$*\"\n", via,
        lab);
    file.close();
    if (!file || ::chmod(path.c_str(), 0755) != 0) {
        return base::system_error(errno, "write the script " + path);
    }
    return {};
}

}  // namespace

Mpi mpi_between_hosts(const Mpi& open_mpi, const lab::Lab* lab, const std::string& folder,
                      const std::string& via) {
    const std::string entrance = folder + "/enter-host";
    return open_mpi.over(
        "Open MPI over TCP",
        {"--host", "a:1,b:1", "--mca", "plm_rsh_agent", entrance, "--mca", "btl", "tcp,self",
         "--mca", "btl_tcp_if_include", "link0", "--mca", "oob_tcp_if_include", "link0"},
        [lab, entrance, via](const Command& command,
                             base::Deadline deadline) -> Result<std::string> {
            if (auto ready = write_entrance(entrance, via, lab->options().name); !ready) {
                return std::move(ready).error();
            }
            auto there = lab->inside("a", command);
            if (!there) return std::move(there).error();
            return run(there.value(), deadline);
        });
}

}  // namespace via::bench
