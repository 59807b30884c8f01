// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/address_vector.hpp"

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "ofi/address.hpp"
#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/info.hpp"
#include "ofi/named_addresses.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

AddressVector& vector_of(fid_av* vector) noexcept {
    return static_cast<AddressVector&>(*vector);
}

/// "node12" and 3 become "node15"; a name without a number at its end stays as it is.
std::string counted_on(const std::string& name, std::size_t steps) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits >= name.size()) return name;
    std::string number = std::to_string(std::stoull(name.substr(digits)) + steps);
    if (number.size() < name.size() - digits)
        number.insert(0, name.size() - digits - number.size(), '0');
    return name.substr(0, digits) + number;
}

}  // namespace

class AddressVector::Report {
  public:
    Report(AddressVector& vector, fi_addr_t* numbers, std::uint64_t flags, void* context)
        : vector_(vector), numbers_(numbers), context_(context) {
        // With FI_SYNC_ERR the context is an array for the error of each address.
        if (flags & FI_SYNC_ERR) errors_ = static_cast<int*>(context);
    }

    void add(std::size_t at, const std::optional<mvich::HostPort>& name) {
        const auto peer = name ? vector_.take(*name) : std::nullopt;
        if (peer) {
            if (numbers_ != nullptr) numbers_[at] = *peer >> vector_.book_->context_bits();
            if (errors_ != nullptr) errors_[at] = 0;
            ++inserted_;
            return;
        }
        const int error = name ? FI_ENOMEM : FI_EINVAL;
        if (numbers_ != nullptr) numbers_[at] = FI_ADDR_NOTAVAIL;
        if (errors_ != nullptr) errors_[at] = error;
        if (vector_.in_background_ && vector_.events() != nullptr)
            vector_.events()->add_error(&vector_.fid, context_, at, error, nullptr, 0);
    }
    [[nodiscard]] int finish() const {
        if (!vector_.in_background_) return inserted_;
        if (vector_.events() == nullptr) return -FI_ENOEQ;
        const fi_eq_entry entry{&vector_.fid, context_, static_cast<std::uint64_t>(inserted_)};
        vector_.events()->add(FI_AV_COMPLETE, &entry, sizeof entry);
        return 0;
    }

  private:
    AddressVector& vector_;
    fi_addr_t* numbers_;
    void* context_;
    int* errors_ = nullptr;
    int inserted_ = 0;
};

AddressVector::AddressVector(Domain& domain, const fi_av_attr& attributes, void* context)
    : fid_av{},
      domain_(domain),
      domain_reference_(&domain.references()),
      is_map_(attributes.type == FI_AV_MAP),
      in_background_((attributes.flags & FI_EVENT) != 0),
      book_(std::make_shared<mvich::AddressBook>(static_cast<unsigned>(attributes.rx_ctx_bits))) {
    fid.fclass = FI_CLASS_AV;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
}

AddressVector::~AddressVector() {
    if (shared_) shared_->withdraw();
    if (events_ != nullptr) events_->references().remove();
}

EventQueue* AddressVector::events() const noexcept {
    return events_ != nullptr ? events_ : domain_.event_queue();
}

int AddressVector::take_name(const char* name, bool reads_only) {
    return reads_only ? NamedAddresses::open(name, book_, source_)
                      : NamedAddresses::create(name, shared_);
}

std::optional<mvich::Peer> AddressVector::write_down(const mvich::HostPort& name) {
    const mvich::Peer peer = book_->insert(name);
    if (shared_ && !shared_->set(peer >> book_->context_bits(), name)) {
        book_->remove(peer);
        return std::nullopt;
    }
    return peer;
}

std::optional<mvich::Peer> AddressVector::take(const mvich::HostPort& name) {
    const std::lock_guard guard(mutex_);
    if (!is_map_) return write_down(name);
    if (const auto known = book_->find(name)) {
        ++again_[*known];
        return *known;
    }
    return write_down(name);
}

bool AddressVector::give_back(mvich::Peer peer) {
    const std::lock_guard guard(mutex_);
    if (const auto found = again_.find(peer); found != again_.end()) {
        if (--found->second == 0) again_.erase(found);
        return true;
    }
    if (!book_->remove(peer)) return false;
    if (shared_) shared_->clear(peer >> book_->context_bits());
    return true;
}

int AddressVector::open(fid_domain* domain, fi_av_attr* attributes, fid_av** vector,
                        void* context) {
    return guarded([&] {
        fi_av_attr wanted{};
        if (attributes != nullptr) wanted = *attributes;
        if (wanted.type > FI_AV_TABLE) return -FI_EINVAL;
        const bool reads_only = (wanted.flags & FI_READ) != 0;
        if (wanted.flags & ~(FI_EVENT | FI_SYMMETRIC | FI_READ)) return -FI_ENOSYS;
        if (reads_only && wanted.name == nullptr) return -FI_EINVAL;
        if (wanted.rx_ctx_bits < 0 || wanted.rx_ctx_bits > max_context_bits) return -FI_EINVAL;
        std::unique_ptr<AddressVector, void (*)(AddressVector*)> made(
            new AddressVector(static_cast<Domain&>(*domain), wanted, context),
            [](AddressVector* one) { delete one; });
        if (wanted.name != nullptr) {
            if (const int error = made->take_name(wanted.name, reads_only)) return error;
            attributes->map_addr = NamedAddresses::numbers();
        }
        *vector = made.release();
        if (attributes != nullptr && attributes->type == FI_AV_UNSPEC)
            attributes->type = FI_AV_TABLE;
        return 0;
    });
}

int AddressVector::insert(fid_av* vector, const void* addresses, std::size_t count,
                          fi_addr_t* numbers, std::uint64_t flags, void* context) {
    return guarded([&] {
        AddressVector& self = vector_of(vector);
        if (flags & ~(FI_MORE | FI_SYNC_ERR)) return -FI_EBADFLAGS;
        if (addresses == nullptr && count != 0) return -FI_EINVAL;
        if (self.source_) return -FI_EOPNOTSUPP;
        const std::uint32_t format = self.domain_.address_format();
        Report report(self, numbers, flags, context);
        for (std::size_t at = 0; at < count; ++at) {
            if (format == FI_ADDR_STR)
                report.add(at,
                           read_address(format, static_cast<const char* const*>(addresses)[at], 0));
            else
                report.add(at, read_address(format, static_cast<const sockaddr_in*>(addresses) + at,
                                            sizeof(sockaddr_in)));
        }
        return report.finish();
    });
}

int AddressVector::insert_service(fid_av* vector, const char* node, const char* service,
                                  fi_addr_t* number, std::uint64_t flags, void* context) {
    return insert_symmetric(vector, node, 1, service, 1, number, flags, context);
}

int AddressVector::insert_symmetric(fid_av* vector, const char* node, std::size_t nodes,
                                    const char* service, std::size_t services, fi_addr_t* numbers,
                                    std::uint64_t flags, void* context) {
    return guarded([&] {
        if (node == nullptr || service == nullptr) return -FI_EINVAL;
        if (flags & ~(FI_MORE | FI_SYNC_ERR)) return -FI_EBADFLAGS;
        if (vector_of(vector).source_) return -FI_EOPNOTSUPP;
        Report report(vector_of(vector), numbers, flags, context);
        for (std::size_t host = 0; host < nodes; ++host)
            for (std::size_t port = 0; port < services; ++port)
                report.add(host * services + port,
                           resolve(counted_on(node, host).c_str(),
                                   counted_on(service, port).c_str(), false));
        return report.finish();
    });
}

int AddressVector::remove(fid_av* vector, fi_addr_t* numbers, std::size_t count, std::uint64_t) {
    return guarded([&] {
        AddressVector& self = vector_of(vector);
        if (self.source_) return -FI_EOPNOTSUPP;
        int result = 0;
        for (std::size_t at = 0; at < count; ++at)
            if (!self.give_back(
                    static_cast<mvich::Peer>(rotated(numbers[at], self.book_->context_bits()))))
                result = -FI_EINVAL;
        return result;
    });
}

int AddressVector::look_up(fid_av* vector, fi_addr_t number, void* address, std::size_t* bytes) {
    return guarded([&] {
        AddressVector& self = vector_of(vector);
        if (self.source_) self.source_->follow();
        const auto name =
            self.book_->find(static_cast<mvich::Peer>(rotated(number, self.book_->context_bits())));
        if (!name) return -FI_EINVAL;
        const int result = write_address(self.domain_.address_format(), *name, address, bytes);
        return result == -FI_ETOOSMALL ? 0 : result;  // fi_av_lookup tells only the length
    });
}

const char* AddressVector::text(fid_av* vector, const void* address, char* buffer,
                                std::size_t* bytes) {
    try {
        const auto name =
            read_address(vector_of(vector).domain_.address_format(), address, sizeof(sockaddr_in));
        const std::string text = name ? text_of(*name) : "unknown address";
        if (buffer != nullptr) std::snprintf(buffer, *bytes, "%s", text.c_str());
        *bytes = text.size() + 1;
        return buffer;
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

int AddressVector::close(struct fid* fid) {
    delete &static_cast<AddressVector&>(*reinterpret_cast<fid_av*>(fid));
    return 0;
}

int AddressVector::bind(struct fid* fid, struct fid* what, std::uint64_t) {
    auto* self = &static_cast<AddressVector&>(*reinterpret_cast<fid_av*>(fid));
    if (what->fclass != FI_CLASS_EQ || self->events_ != nullptr) return -FI_EINVAL;
    self->events_ = &static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(what));
    self->events_->references().add();
    return 0;
}

fi_ops_av AddressVector::operations = {
    .size = sizeof(fi_ops_av),
    .insert = AddressVector::insert,
    .insertsvc = AddressVector::insert_service,
    .insertsym = AddressVector::insert_symmetric,
    .remove = AddressVector::remove,
    .lookup = AddressVector::look_up,
    .straddr = AddressVector::text,
    .av_set = not_supported,
};

fi_ops AddressVector::object_operations = {
    .size = sizeof(fi_ops),
    .close = AddressVector::close,
    .bind = AddressVector::bind,
    .control = not_supported,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
