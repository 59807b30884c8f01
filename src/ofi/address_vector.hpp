// SPDX-License-Identifier: BSD-3-Clause
// Address vectors: address books whose numbers are libfabric's fi_addr_t, in maps as in tables. For
// peers with several receive contexts a number has more: the context in its highest bits, where the
// book has it in its lowest (rotated()).
#pragma once

#include <bit>
#include <map>
#include <memory>
#include <mutex>

#include <rdma/fi_domain.h>

#include "mvich/address_book.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class Domain;
class EventQueue;
class NamedAddresses;

/// The book's number for libfabric's.
[[nodiscard]] inline fi_addr_t rotated(fi_addr_t number, unsigned context_bits) noexcept {
    return std::rotl(number, static_cast<int>(context_bits));
}

class AddressVector final : public fid_av {
  public:
    static int open(fid_domain* domain, fi_av_attr* attributes, fid_av** vector, void* context);

    /// Outlives the vector: programs close it before or after the endpoints that use it.
    [[nodiscard]] const std::shared_ptr<mvich::AddressBook>& book() const noexcept { return book_; }
    /// Null: it has no name, or is not another process's.
    [[nodiscard]] const std::shared_ptr<NamedAddresses>& source() const noexcept { return source_; }

  private:
    AddressVector(Domain& domain, const fi_av_attr& attributes, void* context);
    ~AddressVector();

    /// Tells what became of an insertion, in the way that the vector's kind wants.
    class Report;

    /// The peer's number. In a map an address has one, however often it is inserted: a message's
    /// source must be what receives were told, whichever insertion they know. Nothing: there is no
    /// room.
    [[nodiscard]] std::optional<mvich::Peer> take(const mvich::HostPort& name);
    /// As book_->insert(), for all who share it.
    [[nodiscard]] std::optional<mvich::Peer> write_down(const mvich::HostPort& name);
    [[nodiscard]] int take_name(const char* name, bool reads_only);
    [[nodiscard]] bool give_back(mvich::Peer peer);
    /// Null: there is none.
    [[nodiscard]] EventQueue* events() const noexcept;

    static int insert(fid_av* vector, const void* addresses, std::size_t count, fi_addr_t* numbers,
                      std::uint64_t flags, void* context);
    static int insert_service(fid_av* vector, const char* node, const char* service,
                              fi_addr_t* number, std::uint64_t flags, void* context);
    static int insert_symmetric(fid_av* vector, const char* node, std::size_t nodes,
                                const char* service, std::size_t services, fi_addr_t* numbers,
                                std::uint64_t flags, void* context);
    static int remove(fid_av* vector, fi_addr_t* numbers, std::size_t count, std::uint64_t flags);
    static int look_up(fid_av* vector, fi_addr_t number, void* address, std::size_t* bytes);
    static const char* text(fid_av* vector, const void* address, char* buffer, std::size_t* bytes);
    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);

    static fi_ops_av operations;
    static fi_ops object_operations;

    Domain& domain_;
    Reference domain_reference_;
    const bool is_map_;
    const bool in_background_;  ///< FI_EVENT: the program hears of insertions by its event queue
    EventQueue* events_ = nullptr;
    std::shared_ptr<mvich::AddressBook> book_;
    std::shared_ptr<NamedAddresses> shared_;  ///< that we made
    std::shared_ptr<NamedAddresses> source_;  ///< that another made
    std::mutex mutex_;
    std::map<mvich::Peer, std::uint32_t> again_;  ///< insertions beyond the first
};

}  // namespace via::ofi
