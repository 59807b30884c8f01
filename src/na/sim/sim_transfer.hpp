// SPDX-License-Identifier: BSD-3-Clause
// What the firmware of simulated NICs moves for programs: messages and RDMA writes, RDMA reads with
// their answers, and words between the two firmwares. The model says when; this is what happens.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "na/sim/nic_vi.hpp"
#include "sim/firmware/transfer.hpp"

namespace via::na::sim {

/// A send, an RDMA write, or the request of an RDMA read.
class MessageTransfer final : public model::Transfer,
                              public std::enable_shared_from_this<MessageTransfer> {
  public:
    MessageTransfer(std::shared_ptr<NicVi> from, std::shared_ptr<NicVi> to, std::uint64_t number);

    [[nodiscard]] std::uint64_t begin() override;
    void fetched(std::uint64_t offset, std::uint64_t bytes) override;
    void sent() override;
    [[nodiscard]] bool match() override;
    void stored(std::uint64_t offset, std::uint64_t bytes) override;
    void received() override;

  private:
    [[nodiscard]] bool sender_lives() const { return from_->connection() == from_connection_; }
    [[nodiscard]] bool receiver_lives() const {
        return to_->connection() == to_connection_ && to_->connection() != 0;
    }
    void match_receive();
    void match_write();
    void finish_receive();
    void finish_write();
    void finish_read_request();
    void acknowledge(std::uint32_t status);
    void copy_to_receive(std::uint64_t offset, std::uint64_t bytes);

    std::shared_ptr<NicVi> from_;
    std::shared_ptr<NicVi> to_;
    std::uint64_t from_connection_;
    std::uint64_t to_connection_;
    NicVi::Chain chain_;
    bool broken_ = false;  ///< its sender has gone, or its data
    bool arrived_ = false;
    std::vector<std::byte> buffer_;  ///< in NIC memory, as long as the message

    // At the receiver.
    bool has_receive_ = false;
    NicVi::Chain receive_;
    std::uint32_t status_ = 0;
    bool refused_ = false;     ///< RDMA that the target does not allow
    std::uint64_t match_ = 0;  ///< its number among those that the receiver has matched
};

/// The answer to an RDMA read: data from the target to the initiator.
class ReadAnswer final : public model::Transfer {
  public:
    ReadAnswer(std::shared_ptr<NicVi> target, std::shared_ptr<NicVi> initiator,
               NicVi::Chain request, std::uint64_t target_connection,
               std::uint64_t initiator_connection);

    [[nodiscard]] std::uint64_t begin() override { return request_.head().length; }
    void fetched(std::uint64_t offset, std::uint64_t bytes) override;
    void sent() override {}
    [[nodiscard]] bool match() override;
    void stored(std::uint64_t offset, std::uint64_t bytes) override;
    void received() override;

  private:
    std::shared_ptr<NicVi> target_;
    std::shared_ptr<NicVi> initiator_;
    NicVi::Chain request_;
    std::uint64_t target_connection_;
    std::uint64_t initiator_connection_;
    std::vector<std::byte> buffer_;
    std::uint32_t status_ = 0;
};

/// From firmware to firmware; it is received and that is all.
class Word : public model::Transfer {
  public:
    [[nodiscard]] std::uint64_t begin() final { return 0; }
    void fetched(std::uint64_t, std::uint64_t) final {}
    void sent() final {}
    [[nodiscard]] bool match() final { return true; }
    void stored(std::uint64_t, std::uint64_t) final {}
};

/// How a message ended at the other side, for a sender that has to know.
class OutcomeWord final : public Word {
  public:
    OutcomeWord(std::shared_ptr<NicVi> vi, std::uint64_t connection, std::uint64_t number,
                std::uint32_t status, std::uint32_t length, bool is_read)
        : vi_(std::move(vi)),
          connection_(connection),
          number_(number),
          status_(status),
          length_(length),
          is_read_(is_read) {}
    void received() override;

  private:
    std::shared_ptr<NicVi> vi_;
    std::uint64_t connection_;
    std::uint64_t number_;
    std::uint32_t status_;
    std::uint32_t length_;
    bool is_read_;
};

/// The other end of the connection has gone.
class CloseWord final : public Word {
  public:
    explicit CloseWord(std::shared_ptr<NicVi> vi)
        : vi_(std::move(vi)), connection_(vi_->connection()) {}
    void received() override;

  private:
    std::shared_ptr<NicVi> vi_;
    std::uint64_t connection_;
};

}  // namespace via::na::sim
