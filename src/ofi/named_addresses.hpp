// SPDX-License-Identifier: BSD-3-Clause
// The addresses of a named vector, which processes of a user on one host share: one makes it and
// writes, the others read. They lie in a shared memory object that is read and written by calls,
// never mapped: a process that wrote garbage into it, or cut it off, does no more harm than that
// nobody is found under a number.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <rdma/fabric.h>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "mvich/address_book.hpp"

namespace via::ofi {

class NamedAddresses {
  public:
    static constexpr std::uint32_t capacity = 65536;

    /// 0, or an error of libfabric. A vector whose maker has died is made anew; that of one which
    /// lives is not: -FI_EADDRINUSE.
    static int create(const std::string& name, std::shared_ptr<NamedAddresses>& made);
    /// `book` becomes a copy. -FI_ENOENT: there is none. -FI_EINVAL: it is not what it should be.
    static int open(const std::string& name, std::shared_ptr<mvich::AddressBook> book,
                    std::shared_ptr<NamedAddresses>& opened);
    /// As withdraw().
    ~NamedAddresses();
    NamedAddresses(const NamedAddresses&) = delete;
    NamedAddresses& operator=(const NamedAddresses&) = delete;

    /// The maker closes it: who has it open keeps what it has.
    void withdraw() noexcept;

    // The maker. `place` is a peer's number without the bits of a context.
    /// False: there is no room.
    [[nodiscard]] bool set(std::uint32_t place, const mvich::HostPort& address) noexcept;
    void clear(std::uint32_t place) noexcept;

    // The others.
    [[nodiscard]] bool reads_only() const noexcept { return book_ != nullptr; }
    /// Looks whether anything has changed.
    void follow();
    /// The same before a number is used, if it is not known or the last look was a while ago.
    void follow_for(std::uint32_t place) noexcept;

    /// What programs find at fi_av_attr::map_addr: the numbers, which are the same for everybody.
    [[nodiscard]] static fi_addr_t* numbers();

  private:
    struct Header;
    struct Entry;
    NamedAddresses() = default;

    [[nodiscard]] bool write_header() noexcept;
    [[nodiscard]] bool write(std::uint32_t place, const Entry& entry) noexcept;
    [[nodiscard]] bool read_header(Header& header) const noexcept;
    void follow_locked();

    std::string object_;
    base::UniqueFd fd_;
    pid_t maker_ = 0;  ///< 0: another, or it is withdrawn
    std::mutex mutex_;
    std::uint64_t changes_ = 0;  ///< made, or seen
    std::uint32_t count_ = 0;    ///< places that were ever used
    std::shared_ptr<mvich::AddressBook> book_;
    std::vector<mvich::HostPort> known_;  ///< port 0: none
    base::Nanoseconds looked_at_ = 0;
};

}  // namespace via::ofi
