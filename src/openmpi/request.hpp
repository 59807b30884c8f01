// SPDX-License-Identifier: BSD-3-Clause
// What Open MPI holds while a message is under way, and the lighter thing for a caller that stays
// until its message has come.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

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
[[nodiscard]] inline int error_of(mvich::Status status) noexcept {
    switch (status) {
        case mvich::Status::Ok:
        case mvich::Status::Cancelled:
            return MPI_SUCCESS;
        case mvich::Status::Truncated:
            return MPI_ERR_TRUNCATE;
        default:
            return MPI_ERR_OTHER;
    }
}

inline void fill(ompi_status_public_t& status, const mvich::Completion& completion) noexcept {
    status.MPI_SOURCE = static_cast<int>(completion.data);
    status.MPI_TAG = tag_of(completion.tag);
    status._ucount = completion.length;
    status._cancelled = completion.status == mvich::Status::Cancelled;
}

class RequestPool {
  public:
    RequestPool();
    ~RequestPool();
    RequestPool(const RequestPool&) = delete;
    RequestPool& operator=(const RequestPool&) = delete;

    /// Null: no memory.
    [[nodiscard]] inline Request* take(Request::Kind kind, ompi_communicator_t& comm,
                                       bool persistent);
    inline void give_back(Request& request) noexcept;

  private:
    opal_free_list_t list_;
};

/// Keeps the datatype until the request is given back.
void hold_datatype(Request& request) noexcept;
/// Persistent, and about to be posted.
void reactivate(Request& request) noexcept;
/// Ends the packed copy that it has.
void settle_packed(Request& request, std::size_t received) noexcept;

inline Request* RequestPool::take(Request::Kind kind, ompi_communicator_t& comm, bool persistent) {
    auto* const request = reinterpret_cast<Request*>(opal_free_list_get(&list_));
    if (request == nullptr) return nullptr;
    OMPI_REQUEST_INIT(&request->super, persistent);
    if (!persistent) request->super.req_state = OMPI_REQUEST_ACTIVE;
    request->super.req_status.MPI_ERROR = MPI_SUCCESS;
    request->super.req_status._cancelled = 0;
    request->super.req_mpi_object.comm = &comm;
    if (!OMPI_COMM_IS_INTRINSIC(&comm)) OBJ_RETAIN(&comm);
    request->kind = kind;
    request->state = persistent ? 0 : request_posted;
    return request;
}

inline void RequestPool::give_back(Request& request) noexcept {
    OMPI_REQUEST_FINI(&request.super);
    ompi_communicator_t* comm = request.super.req_mpi_object.comm;
    if (!OMPI_COMM_IS_INTRINSIC(comm)) OBJ_RELEASE(comm);
    if (request.holds_datatype) [[unlikely]] {
        OBJ_RELEASE(request.layout.datatype);
        request.holds_datatype = false;
    }
    opal_free_list_return(&list_, &request.super.super);
}

/// What Listener::done does without touching anybody else: status, and unpacking.
inline void settle(Request& request, const mvich::Completion& completion) noexcept {
    ompi_status_public_t& status = request.super.req_status;
    status.MPI_ERROR = error_of(completion.status);
    if (request.kind == Request::Kind::Receive)
        fill(status, completion);
    else
        status._cancelled = completion.status == mvich::Status::Cancelled;
    if (request.packed != nullptr) [[unlikely]]
        settle_packed(request, completion.length);
}

/// Tells Open MPI, which may then call us.
inline void finish(RequestPool& pool, Request& request) noexcept {
    bool completes = true;
    if (const auto callback = request.super.req_complete_cb; callback != nullptr) [[unlikely]] {
        request.super.req_complete_cb = nullptr;  // it may set another, and may free the request
        completes = callback(&request.super) == OMPI_SUCCESS;
    }
    const std::int32_t before = OPAL_THREAD_FETCH_AND32(&request.state, ~request_posted);
    if ((before & request_freed) != 0) [[unlikely]]
        pool.give_back(request);
    else if (completes)
        ompi_request_complete(&request.super, true);  // from here on it may be anybody's
}

}  // namespace via::openmpi
