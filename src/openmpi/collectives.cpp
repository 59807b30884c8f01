// SPDX-License-Identifier: BSD-3-Clause
// Short reductions and barriers of ranks that are all on one host: they meet in shared memory
// instead of sending messages (meeting.hpp). Everything else goes to the component that would have
// had it.
#include "openmpi/collectives.h"

#include <sys/sysinfo.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "openmpi/meeting.hpp"
#include "openmpi/open_mpi.hpp"
#include "openmpi/series.hpp"

namespace via::openmpi {

/// Before a communicator meets: many have only a few such calls in all their time.
constexpr std::uint32_t calls_before_meeting = 16;
/// Others must get on, too, when those that meet never wait for each other.
constexpr std::uint32_t calls_between_progress = 64;
/// Above those that come with Open MPI (up to 40).
constexpr int own_priority = 60;

/// What a communicator has of us. Open MPI makes and counts these by its own object system, so it
/// is a plain struct that begins with Open MPI's.
struct Collectives {
    mca_coll_base_module_t super;
    // Who would have had the calls.
    mca_coll_base_module_allreduce_fn_t other_allreduce;
    mca_coll_base_module_t* other_allreduce_module;
    mca_coll_base_module_barrier_fn_t other_barrier;
    mca_coll_base_module_t* other_barrier_module;
    mca_coll_base_module_bcast_fn_t other_bcast;
    mca_coll_base_module_t* other_bcast_module;

    std::uint32_t calls;
    bool meets_never;  ///< or not while it is being decided
    Meeting* meeting;  ///< null: not yet
};

OBJ_CLASS_DECLARATION(Collectives);

namespace {

void construct(Collectives* self) {
    std::memset(&self->other_allreduce, 0, sizeof *self - offsetof(Collectives, other_allreduce));
    self->super.coll_module_enable = via_coll_enable;
    self->super.coll_allreduce = via_coll_allreduce;
    self->super.coll_barrier = via_coll_barrier;
}

void destruct(Collectives* self) {
    delete self->meeting;
    for (mca_coll_base_module_t* other :
         {self->other_allreduce_module, self->other_barrier_module, self->other_bcast_module})
        if (other != nullptr) OBJ_RELEASE(other);
}

Collectives& of(mca_coll_base_module_t* module) noexcept {
    return *reinterpret_cast<Collectives*>(module);
}

void say(ompi_communicator_t& comm, const std::string& what) {
    base::log(base::LogLevel::Debug, "coll/via: the " + std::to_string(ompi_comm_size(&comm)) +
                                         " ranks of " + comm.c_name + " " + what);
}

/// What a rank brings to the agreement whether all meet.
struct Attempt {
    Meeting::Made made;
    std::string trouble;  ///< why there is no meeting

    /// Rank 0 makes the memory, the others come to it. Whatever happens, what all do together goes
    /// on.
    void come(std::uint32_t rank, std::uint32_t ranks) noexcept {
        try {
            const auto patience = base::Settings::get().text("VIA_PROGRESS") == "spin"
                                      ? Meeting::Patience::Spins
                                      : Meeting::Patience::Yields;
            if (rank != 0 && made.invitation.token == 0) {
                trouble = "the first of them has no memory for it";
            } else if (rank == 0) {
                auto first = Meeting::make(rank, ranks, patience);
                if (first)
                    made = std::move(first).value();
                else
                    trouble = first.error().sentence;
            } else {
                auto other = Meeting::join(made.invitation, rank, ranks, patience);
                if (other)
                    made.meeting = std::move(other).value();
                else
                    trouble = other.error().sentence;
            }
        } catch (const std::bad_alloc&) {
            made.meeting.reset();
        }
    }
};

/// All ranks of the communicator come here in the same call. They meet if all can.
void begin_meeting(Collectives& self, ompi_communicator_t& comm) {
    self.meets_never = true;
    const auto rank = static_cast<std::uint32_t>(ompi_comm_rank(&comm));
    const auto ranks = static_cast<std::uint32_t>(ompi_comm_size(&comm));
    Attempt attempt;
    Invitation& invitation = attempt.made.invitation;
    if (rank == 0) attempt.come(rank, ranks);
    if (self.other_bcast(&invitation, sizeof invitation, MPI_BYTE, 0, &comm,
                         self.other_bcast_module) != OMPI_SUCCESS)
        return;
    if (rank != 0) attempt.come(rank, ranks);
    int good = attempt.made.meeting != nullptr ? 1 : 0;
    int all_good = 0;
    if (self.other_allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, &comm,
                             self.other_allreduce_module) != OMPI_SUCCESS)
        return;
    if (all_good != 0) {
        self.meeting = attempt.made.meeting.release();
        self.meets_never = false;
        if (rank == 0) say(comm, "meet in shared memory");
    } else if (!attempt.trouble.empty()) {
        say(comm, "do not meet in shared memory: " + attempt.trouble);
    }
}

/// Does this call meet? It is the same for all ranks: they make the same calls.
inline bool meets(Collectives& self, ompi_communicator_t& comm) {
    if (self.meeting == nullptr) [[unlikely]] {
        if (self.meets_never || ++self.calls < calls_before_meeting) return false;
        try {
            begin_meeting(self, comm);
        } catch (const std::bad_alloc&) {  // of what it would have said
        }
        return self.meeting != nullptr;
    }
    return true;
}

int meet(Collectives& self, const void* bytes, std::size_t count) noexcept {
    Meeting& meeting = *self.meeting;
    if (++self.calls % calls_between_progress == 0) [[unlikely]]
        opal_progress();
    meeting.arrive(bytes, count);
    if (meeting.wait(opal_progress)) [[likely]]
        return OMPI_SUCCESS;
    base::log(base::LogLevel::Error,
              "coll/via: another rank has not come to a collective call, and its process is over");
    return MPI_ERR_OTHER;
}

/// In the order of the ranks, as MPI would like it, so that all of them and all runs get the same.
inline int fold(const Meeting& meeting, const mca_coll_base_comm_coll_t& calls, void* to,
                std::size_t bytes, int count, ompi_datatype_t* datatype,
                ompi_op_t* operation) noexcept {
    std::uint32_t rank = meeting.ranks() - 1;
    std::memcpy(to, meeting.brought_by(rank), bytes);
    int outcome = OMPI_SUCCESS;
    while (rank-- > 0 && outcome == OMPI_SUCCESS)
        outcome = calls.coll_reduce_local(meeting.brought_by(rank), to, count, datatype, operation,
                                          calls.coll_reduce_local_module);
    return outcome;
}

/// What a user has defined may write where it should only read.
inline bool is_known(MPI_Op operation) noexcept {
    for (MPI_Op each : {MPI_SUM, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_BAND, MPI_BOR, MPI_PROD,
                        MPI_LXOR, MPI_BXOR})
        if (operation == each) return true;
    return false;
}

inline bool is_plain(const ompi_datatype_t& datatype) noexcept {
    return ompi_datatype_is_predefined(&datatype) &&
           static_cast<std::size_t>(datatype.super.ub - datatype.super.lb) == datatype.super.size;
}

}  // namespace

OBJ_CLASS_INSTANCE(Collectives, mca_coll_base_module_t, construct, destruct);

/// Null: no memory.
static Collectives* make() {
    return OBJ_NEW(Collectives);
}

}  // namespace via::openmpi

using via::openmpi::Collectives;
using via::openmpi::Meeting;

bool via_coll_can_work() {
    // Who sleeps is woken by messages only. What Open MPI is wrong for us, pml/via has said.
    return via::openmpi::right_open_mpi() &&
           via::base::Settings::get().text("VIA_PROGRESS") != "sleep";
}

mca_coll_base_module_t* via_coll_query(ompi_communicator_t* comm, int* priority) {
    const auto ranks = static_cast<std::uint32_t>(ompi_comm_size(comm));
    const bool have_own_cores = ranks <= static_cast<std::uint32_t>(::get_nprocs());
    if (OMPI_COMM_IS_INTER(comm) || ranks < 2 || ranks > Meeting::most_ranks ||
        (have_own_cores && ranks > Meeting::most_with_own_cores) ||
        ompi_group_have_remote_peers(comm->c_local_group))
        return nullptr;
    Collectives* const made = via::openmpi::make();
    if (made == nullptr) return nullptr;
    *priority = via::openmpi::own_priority;
    return &made->super;
}

int via_coll_enable(mca_coll_base_module_t* module, ompi_communicator_t* comm) {
    Collectives& self = via::openmpi::of(module);
    const mca_coll_base_comm_coll_t& there = *comm->c_coll;
    if (there.coll_allreduce == nullptr || there.coll_barrier == nullptr ||
        there.coll_bcast == nullptr || there.coll_reduce_local == nullptr)
        return OMPI_ERR_NOT_FOUND;
    self.other_allreduce = there.coll_allreduce;
    self.other_allreduce_module = there.coll_allreduce_module;
    self.other_barrier = there.coll_barrier;
    self.other_barrier_module = there.coll_barrier_module;
    self.other_bcast = there.coll_bcast;
    self.other_bcast_module = there.coll_bcast_module;
    OBJ_RETAIN(self.other_allreduce_module);
    OBJ_RETAIN(self.other_barrier_module);
    OBJ_RETAIN(self.other_bcast_module);
    return OMPI_SUCCESS;
}

int via_coll_allreduce(const void* from, void* to, int count, ompi_datatype_t* datatype,
                       ompi_op_t* operation, ompi_communicator_t* comm,
                       mca_coll_base_module_t* module) {
    Collectives& self = via::openmpi::of(module);
    const std::size_t bytes = static_cast<std::size_t>(count) * datatype->super.size;
    if (bytes == 0 || bytes > Meeting::most_bytes || !via::openmpi::is_known(operation) ||
        !via::openmpi::is_plain(*datatype) || !via::openmpi::meets(self, *comm))
        return self.other_allreduce(from, to, count, datatype, operation, comm,
                                    self.other_allreduce_module);
    const int met = via::openmpi::meet(self, from == MPI_IN_PLACE ? to : from, bytes);
    if (met != OMPI_SUCCESS) [[unlikely]]
        return met;
    return via::openmpi::fold(*self.meeting, *comm->c_coll, to, bytes, count, datatype, operation);
}

int via_coll_barrier(ompi_communicator_t* comm, mca_coll_base_module_t* module) {
    Collectives& self = via::openmpi::of(module);
    if (!via::openmpi::meets(self, *comm))
        return self.other_barrier(comm, self.other_barrier_module);
    return via::openmpi::meet(self, nullptr, 0);
}
