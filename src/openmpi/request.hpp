// SPDX-License-Identifier: BSD-3-Clause
// What Open MPI holds while a message is under way, and the lighter thing for a caller that stays
// until its message has come.
#pragma once

#include <atomic>
#include <cstdint>

#include "mvich/order.hpp"
#include "openmpi/layout.hpp"
#include "openmpi/matching.hpp"
#include "openmpi/open_mpi.hpp"

namespace via::openmpi {

/// What the flags of a cookie say its context is.
enum class Context : std::uint64_t { Request, Awaited };

inline constexpr std::int32_t request_posted = 1;  ///< it will be told of
inline constexpr std::int32_t request_freed = 2;   ///< nobody at Open MPI has it any more

/// A receive whose caller waits for it. It lies on the caller's stack.
struct Awaited {
    mvich::Completion completion;
    std::atomic<bool> is_done{false};  ///< set last, by whatever thread is told
};

/// Open MPI makes, counts and recycles these by its own object system, so it is a plain struct that
/// begins with Open MPI's.
struct Request {
    ompi_request_t super;
    enum class Kind : std::uint8_t { Send, Receive } kind;
    mca_pml_base_send_mode_t mode;  ///< of sends
    // What is to be moved, and to or from whom: kept for persistent requests, and for packed ones.
    Layout layout;
    mvich::Peer peer;
    std::uint64_t word;
    std::uint64_t ignore;
    void* packed;          ///< a copy that is not one piece at the user's; null: none
    bool packed_is_users;  ///< it lies in the buffer that the user attached (MPI_Bsend)
    bool holds_datatype;
    volatile std::int32_t state;  ///< request_posted, request_freed: given back when only freed
};

OBJ_CLASS_DECLARATION(Request);

/// MPI's word for what became of an order.
[[nodiscard]] int error_of(mvich::Status status) noexcept;
void fill(ompi_status_public_t& status, const mvich::Completion& completion) noexcept;

class RequestPool {
  public:
    RequestPool();
    ~RequestPool();
    RequestPool(const RequestPool&) = delete;
    RequestPool& operator=(const RequestPool&) = delete;

    /// Null: no memory.
    [[nodiscard]] Request* take(Request::Kind kind, ompi_communicator_t& comm, bool persistent);
    void give_back(Request& request) noexcept;

  private:
    opal_free_list_t list_;
};

/// Keeps the datatype until the request is given back.
void hold_datatype(Request& request) noexcept;
/// Persistent, and about to be posted.
void reactivate(Request& request) noexcept;
/// What Listener::done does without touching anybody else: status, and unpacking.
void settle(Request& request, const mvich::Completion& completion) noexcept;
/// Tells Open MPI, which may then call us.
void finish(RequestPool& pool, Request& request) noexcept;

}  // namespace via::openmpi
