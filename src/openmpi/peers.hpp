// SPDX-License-Identifier: BSD-3-Clause
// Open MPI's processes as peers of the message layer. Every process publishes its endpoint's name
// (PMIx, the "modex"); who first speaks to it looks the name up. The peer's number is then kept in
// Open MPI's own record of the process.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "base/result.hpp"
#include "mvich/address_book.hpp"
#include "openmpi/open_mpi.hpp"

namespace via::openmpi {

class Peers {
  public:
    /// All processes will know this one by this name.
    [[nodiscard]] static base::Result<void> publish(const mvich::HostPort& name);

    [[nodiscard]] const std::shared_ptr<mvich::AddressBook>& book() const noexcept { return book_; }
    /// mvich::unknown_peer: nothing can be found out about it; why was said.
    [[nodiscard]] mvich::Peer find(ompi_communicator_t& comm, int rank) {
        ompi_proc_t* const process = ompi_comm_peer_lookup(&comm, rank);
        const void* const kept = process->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML];
        if (kept != nullptr) [[likely]]
            return static_cast<mvich::Peer>(reinterpret_cast<std::uintptr_t>(kept) - 1);
        return look_up(*process);
    }
    /// The same for a receive, which may be from anybody.
    [[nodiscard]] mvich::Peer find_source(ompi_communicator_t& comm, int rank) {
        return rank == MPI_ANY_SOURCE ? mvich::any_peer : find(comm, rank);
    }
    void forget(ompi_proc_t& process);

  private:
    [[nodiscard]] mvich::Peer look_up(ompi_proc_t& process);

    std::shared_ptr<mvich::AddressBook> book_ = std::make_shared<mvich::AddressBook>();
    std::mutex mutex_;
};

}  // namespace via::openmpi
