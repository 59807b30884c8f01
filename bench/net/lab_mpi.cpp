// SPDX-License-Identifier: BSD-3-Clause
#include "net/lab_mpi.hpp"

#include <fmt/format.h>

#include <utility>

#include "lab/names.hpp"

namespace via::bench {

using base::Result;

std::vector<std::string> tcp_transport(unsigned links) {
    std::string devices = lab::device_name(0);
    for (unsigned link = 1; link < links; ++link)
        devices += "," + lab::device_name(link);
    return {"--mca",
            "pml",
            "ob1",
            "--mca",
            "btl",
            "tcp,self",
            "--mca",
            "btl_tcp_if_include",
            devices,
            "--mca",
            "mpi_yield_when_idle",
            "0"};
}

Mpi mpi_between_hosts(const Mpi& open_mpi, std::string name, const lab::Lab* lab,
                      const std::string& via, std::vector<std::string> transport,
                      std::vector<std::string> environment) {
    const std::string lab_name = lab != nullptr ? lab->options().name : std::string();
    std::vector<std::string> words{"--host",
                                   "a:1,b:1",
                                   "--mca",
                                   "plm_rsh_agent",
                                   fmt::format("{} lab shell --name {}", via, lab_name),
                                   "--mca",
                                   "oob_tcp_if_include",
                                   lab::device_name(0)};
    words.insert(words.end(), transport.begin(), transport.end());
    for (const std::string& entry : environment) {
        words.emplace_back("-x");
        words.push_back(entry.substr(0, entry.find('=')));
    }
    return open_mpi.over(std::move(name), std::move(words),
                         [lab, environment = std::move(environment)](
                             Command command, base::Deadline deadline) -> Result<std::string> {
                             command.environment.insert(command.environment.end(),
                                                        environment.begin(), environment.end());
                             auto there = lab->inside("a", std::move(command));
                             if (!there) return std::move(there).error();
                             return run(there.value(), deadline);
                         });
}

}  // namespace via::bench
