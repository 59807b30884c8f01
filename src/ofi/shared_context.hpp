// SPDX-License-Identifier: BSD-3-Clause
// Contexts that several endpoints share: one queue of receives for all of them; for transmits there
// is nothing to share but the name.
#pragma once

#include <atomic>
#include <cstdint>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "mvich/device.hpp"
#include "ofi/completion_sink.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class Domain;

class SharedReceiveContext final : public fid_ep, public mvich::Listener {
  public:
    static int open(fid_domain* domain, fi_rx_attr* attributes, fid_ep** receiver, void* context);

    [[nodiscard]] References& references() noexcept { return references_; }
    [[nodiscard]] const mvich::SharedReceiveQueue& queue() const noexcept { return queue_; }
    /// The queue and counter of an endpoint that receives from here. All have the same.
    void serve(CompletionQueue* queue, Counter* counter, unsigned context_bits) noexcept;

    void done(const mvich::Completion& told) override;

  private:
    SharedReceiveContext(Domain& domain, const fi_rx_attr* attributes, void* context);
    ~SharedReceiveContext() override;

    void tell(mvich::Completion completion, Counter* counter);
    /// An order for any of the endpoints, as a program gave it.
    [[nodiscard]] mvich::ReceiveOrder completed(mvich::ReceiveOrder order,
                                                std::uint64_t flags) const noexcept;
    [[nodiscard]] ssize_t post(const mvich::ReceiveOrder& order, std::uint64_t flags) noexcept;

    static ssize_t receive(fid_ep* receiver, void* buffer, std::size_t bytes, void* description,
                           fi_addr_t from, void* context);
    static ssize_t receive_vector(fid_ep* receiver, const iovec* pieces, void** descriptions,
                                  std::size_t count, fi_addr_t from, void* context);
    static ssize_t receive_message(fid_ep* receiver, const fi_msg* message, std::uint64_t flags);
    static ssize_t receive_tagged(fid_ep* receiver, void* buffer, std::size_t bytes,
                                  void* description, fi_addr_t from, std::uint64_t tag,
                                  std::uint64_t ignore, void* context);
    static ssize_t receive_tagged_vector(fid_ep* receiver, const iovec* pieces, void** descriptions,
                                         std::size_t count, fi_addr_t from, std::uint64_t tag,
                                         std::uint64_t ignore, void* context);
    static ssize_t receive_tagged_message(fid_ep* receiver, const fi_msg_tagged* message,
                                          std::uint64_t flags);
    static ssize_t cancel(struct fid* fid, void* context);
    static int set_option(struct fid* fid, int level, int option, const void* value,
                          std::size_t bytes);
    static int get_option(struct fid* fid, int level, int option, void* value, std::size_t* bytes);
    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);

    static fi_ops object_operations;
    static fi_ops_ep operations;
    static fi_ops_msg message_operations;
    static fi_ops_tagged tagged_operations;

    Domain& domain_;
    Reference domain_reference_;
    References references_;
    std::uint64_t flags_ = 0;
    bool directed_ = false;
    std::atomic<unsigned> context_bits_{0};  ///< of the endpoints' numbers for peers
    std::size_t least_free_ = 64;
    mvich::SharedReceiveQueue queue_;
    Bound<CompletionQueue> completions_;
    Bound<Counter> counter_;
    std::atomic<bool> closing_{false};
};

class SharedTransmitContext final : public fid_stx {
  public:
    static int open(fid_domain* domain, fi_tx_attr* attributes, fid_stx** transmitter,
                    void* context);
    [[nodiscard]] References& references() noexcept { return references_; }

  private:
    SharedTransmitContext(Domain& domain, void* context);
    static int close(struct fid* fid);

    static fi_ops object_operations;
    static fi_ops_ep operations;

    Reference domain_reference_;
    References references_;
};

}  // namespace via::ofi
