// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/named_addresses.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "ofi/provider.hpp"

namespace via::ofi {

struct NamedAddresses::Header {
    std::uint64_t magic = 0;
    std::uint32_t capacity = 0;
    std::uint32_t count = 0;
    std::uint64_t changes = 0;
    std::uint64_t unused[5] = {};
};

struct NamedAddresses::Entry {
    std::array<std::uint8_t, 16> host{};
    std::uint8_t host_bytes = 0;  ///< 0: nobody
    std::uint8_t unused = 0;
    std::uint16_t port = 0;
    std::uint32_t check = 0;  ///< of what stands before: it may be written while it is read
    std::uint64_t unused_too = 0;
};

namespace {

constexpr std::uint64_t object_magic = 0x31766120616976;  // "via av1"
constexpr std::size_t longest_object_name = 250;
constexpr int most_tries = 100;
/// Changes of numbers that are known are seen after this.
constexpr base::Nanoseconds between_looks = 10'000'000;

/// One that no other user has, of characters that a file's name can have.
std::string object_name(const std::string& name) {
    std::string object = "/via-av-" + std::to_string(geteuid()) + "-";
    for (const char letter : name) {
        const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
                           letter == '.';
        if (plain) {
            object += letter;
            continue;
        }
        constexpr char digits[] = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(letter);
        object += {'%', digits[value >> 4], digits[value & 15]};
    }
    return object;
}

/// FNV-1a.
std::uint32_t check_of(const void* data, std::size_t bytes) noexcept {
    const auto* at = static_cast<const std::uint8_t*>(data);
    std::uint32_t sum = 2166136261U;
    for (std::size_t i = 0; i < bytes; ++i)
        sum = (sum ^ at[i]) * 16777619U;
    return sum;
}

bool is_named(const base::UniqueFd& fd, const std::string& object) noexcept {
    const base::UniqueFd named(shm_open(object.c_str(), O_RDONLY, 0));
    struct stat one {};
    struct stat other {};
    return named.get() >= 0 && fstat(fd.get(), &one) == 0 && fstat(named.get(), &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int refused(const std::string& object, const char* why, int error) {
    VIA_OFI_WARN(FI_LOG_AV, "the shared address vector %s: %s\n", object.c_str(), why);
    return -error;
}

int wrong_name(const std::string& name, const std::string& object) {
    if (name.empty()) return refused(object, "its name is empty", FI_EINVAL);
    if (object.size() > longest_object_name)
        return refused(object, "its name is too long", FI_EINVAL);
    return 0;
}

}  // namespace

int NamedAddresses::create(const std::string& name, std::shared_ptr<NamedAddresses>& made) {
    static_assert(sizeof(Header) == 64 && sizeof(Entry) == 32);
    std::shared_ptr<NamedAddresses> self(new NamedAddresses);
    self->object_ = object_name(name);
    const std::string& object = self->object_;
    if (const int error = wrong_name(name, object)) return error;
    // Its maker holds a lock on it. Whoever gets that of an object that still has its name may take
    // the name from it.
    for (int tries = 0; tries < most_tries; ++tries) {
        base::UniqueFd fd(shm_open(object.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
        const bool is_new = fd.get() >= 0;
        if (!is_new && errno != EEXIST) return refused(object, std::strerror(errno), errno);
        if (!is_new) fd = base::UniqueFd(shm_open(object.c_str(), O_RDWR, 0));
        if (fd.get() < 0) {
            if (errno == ENOENT) continue;
            return refused(object, std::strerror(errno), errno);
        }
        if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
            if (is_new) continue;
            return refused(object, "another process has made it and has it open", FI_EADDRINUSE);
        }
        if (!is_named(fd, object)) continue;
        if (!is_new) {
            shm_unlink(object.c_str());
            continue;
        }
        self->fd_ = std::move(fd);
        self->maker_ = getpid();
        if (ftruncate(self->fd_.get(), sizeof(Header) + sizeof(Entry) * capacity) != 0 ||
            !self->write_header())
            return refused(object, std::strerror(errno), errno != 0 ? errno : FI_EIO);
        made = std::move(self);
        return 0;
    }
    return refused(object, "others make and remove it all the time", FI_EADDRINUSE);
}

int NamedAddresses::open(const std::string& name, std::shared_ptr<mvich::AddressBook> book,
                         std::shared_ptr<NamedAddresses>& opened) {
    std::shared_ptr<NamedAddresses> self(new NamedAddresses);
    self->object_ = object_name(name);
    const std::string& object = self->object_;
    if (const int error = wrong_name(name, object)) return error;
    self->fd_ = base::UniqueFd(shm_open(object.c_str(), O_RDONLY, 0));
    // Programs ask for vectors that there may be; that is no reason for a warning.
    if (self->fd_.get() < 0 && errno == ENOENT) return -FI_ENOENT;
    if (self->fd_.get() < 0) return refused(object, std::strerror(errno), errno);
    struct stat status {};
    if (fstat(self->fd_.get(), &status) != 0) return refused(object, std::strerror(errno), errno);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return refused(object, "others than this user may have written it", FI_EACCES);
    Header header;
    if (static_cast<std::size_t>(status.st_size) != sizeof(Header) + sizeof(Entry) * capacity ||
        !self->read_header(header))
        return refused(object, "it is no address vector of this version", FI_EINVAL);
    self->book_ = std::move(book);
    self->follow();
    opened = std::move(self);
    return 0;
}

NamedAddresses::~NamedAddresses() {
    withdraw();
}

void NamedAddresses::withdraw() noexcept {
    const std::lock_guard guard(mutex_);
    // A child that was forked has it open, but it is not the child's.
    if (maker_ == 0 || maker_ != getpid()) return;
    maker_ = 0;
    if (is_named(fd_, object_)) shm_unlink(object_.c_str());
}

bool NamedAddresses::write_header() noexcept {
    Header header;
    header.magic = object_magic;
    header.capacity = capacity;
    header.count = count_;
    header.changes = ++changes_;
    return pwrite(fd_.get(), &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
}

/// The header after the entry: who sees the change finds it.
bool NamedAddresses::write(std::uint32_t place, const Entry& entry) noexcept {
    const std::lock_guard guard(mutex_);
    const auto at = static_cast<off_t>(sizeof(Header) + sizeof entry * place);
    if (pwrite(fd_.get(), &entry, sizeof entry, at) != static_cast<ssize_t>(sizeof entry))
        return false;
    count_ = std::max(count_, place + 1);
    return write_header();
}

bool NamedAddresses::set(std::uint32_t place, const mvich::HostPort& address) noexcept {
    if (place >= capacity) return false;
    Entry entry;
    entry.host = address.host;
    entry.host_bytes = address.host_bytes;
    entry.port = address.port;
    entry.check = check_of(&entry, offsetof(Entry, check));
    return write(place, entry);
}

void NamedAddresses::clear(std::uint32_t place) noexcept {
    if (place >= capacity) return;
    Entry entry;
    entry.check = check_of(&entry, offsetof(Entry, check));
    (void)write(place, entry);
}

bool NamedAddresses::read_header(Header& header) const noexcept {
    return pread(fd_.get(), &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) &&
           header.magic == object_magic && header.capacity == capacity && header.count <= capacity;
}

void NamedAddresses::follow() {
    const std::lock_guard guard(mutex_);
    follow_locked();
}

void NamedAddresses::follow_for(std::uint32_t place) noexcept {
    const std::lock_guard guard(mutex_);
    const bool known = place < known_.size() && known_[place].port != 0;
    if (known && base::monotonic_now() - looked_at_ < between_looks) return;
    try {
        follow_locked();
    } catch (const std::bad_alloc&) {  // what is known stays
    }
}

void NamedAddresses::follow_locked() {
    looked_at_ = base::monotonic_now();
    Header header;
    if (!read_header(header) || header.changes == changes_) return;
    if (known_.size() < header.count) known_.resize(header.count);
    constexpr std::size_t at_once = 256;
    std::array<Entry, at_once> entries;
    bool whole = true;
    for (std::uint32_t place = 0; place < header.count; ++place) {
        const std::size_t at = place % at_once;
        if (at == 0) {
            const std::size_t bytes =
                std::min<std::size_t>(at_once, header.count - place) * sizeof(Entry);
            if (pread(fd_.get(), entries.data(), bytes,
                      static_cast<off_t>(sizeof(Header) + sizeof(Entry) * place)) !=
                static_cast<ssize_t>(bytes))
                return;
        }
        const Entry& entry = entries[at];
        mvich::HostPort& known = known_[place];
        const mvich::Peer peer = place << book_->context_bits();
        if (entry.check != check_of(&entry, offsetof(Entry, check))) {
            whole = false;  // it is being written: later
            continue;
        }
        mvich::HostPort now;
        if ((entry.host_bytes == 4 || entry.host_bytes == 16) && entry.port != 0) {
            now.host_bytes = entry.host_bytes;
            std::copy_n(entry.host.begin(), entry.host_bytes, now.host.begin());
            now.port = entry.port;
        }
        if (now == known) continue;
        if (now.port != 0)
            book_->put(peer, now);
        else
            book_->remove(peer);
        known = now;
    }
    if (whole) changes_ = header.changes;
}

fi_addr_t* NamedAddresses::numbers() {
    static std::vector<fi_addr_t> all = [] {
        std::vector<fi_addr_t> made(capacity);
        std::iota(made.begin(), made.end(), fi_addr_t{0});
        return made;
    }();
    return all.data();
}

}  // namespace via::ofi
