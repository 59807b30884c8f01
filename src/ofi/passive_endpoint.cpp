// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/passive_endpoint.hpp"

#include <cstdlib>

#include "ofi/address.hpp"
#include "ofi/connection_manager.hpp"
#include "ofi/connection_word.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/fabric.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

PassiveEndpoint& listener_of(struct fid* fid) noexcept {
    return static_cast<PassiveEndpoint&>(*reinterpret_cast<fid_pep*>(fid));
}

/// A request that the program closes instead of answering.
int forget_request(struct fid*) {
    return 0;
}

fi_ops request_operations = {
    .size = sizeof(fi_ops),
    .close = forget_request,
    .bind = not_supported,
    .control = not_supported,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace

PassiveEndpoint::PassiveEndpoint(Fabric& fabric, Info info, void* context)
    : fid_pep{}, fabric_(fabric), fabric_reference_(&fabric.references()), info_(std::move(info)) {
    if (const auto name = read_address(info_->addr_format, info_->src_addr, info_->src_addrlen))
        name_ = *name;
    fid.fclass = FI_CLASS_PEP;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
    cm = &connection_operations;
}

PassiveEndpoint::~PassiveEndpoint() {
    wire_.reset();
    if (events_) {
        events_->forget(&fid);
        if (device_) events_->unwatch(device_);
    }
}

int PassiveEndpoint::open(fid_fabric* fabric, fi_info* info, fid_pep** endpoint, void* context) {
    return guarded([&] {
        if (info == nullptr || info->ep_attr == nullptr || info->ep_attr->type != FI_EP_MSG)
            return -FI_EINVAL;
        Info copy(fi_dupinfo(info));
        if (!copy) return -FI_ENOMEM;
        *endpoint = new PassiveEndpoint(static_cast<Fabric&>(*fabric), std::move(copy), context);
        return 0;
    });
}

int PassiveEndpoint::take_name() {
    if (wire_) return 0;
    auto device = fabric_.listening_device();
    if (!device) {
        VIA_OFI_WARN(FI_LOG_EP_CTRL, "fi_listen: %s\n", device.error().sentence.c_str());
        return -error_number(device.error().code);
    }
    device_ = std::move(device).value();
    mvich::Device::EndpointOptions options;
    options.name = name_;
    options.book = std::make_shared<mvich::AddressBook>();
    options.listener = this;
    auto made = device_->create_endpoint(options);
    if (!made) {
        VIA_OFI_WARN(FI_LOG_EP_CTRL, "fi_listen: %s\n", made.error().sentence.c_str());
        return made.error().code == base::Code::OutOfResources ? -FI_EADDRINUSE
                                                               : -error_number(made.error().code);
    }
    wire_ = std::move(made).value();
    name_ = wire_->name();
    return 0;
}

mvich::HostPort PassiveEndpoint::give_up_name() {
    wire_.reset();
    listens_ = false;
    return name_;
}

PassiveEndpoint::Info PassiveEndpoint::info_for(ConnectionRequest& request) const {
    Info info(fi_dupinfo(info_.get()));
    if (!info) throw std::bad_alloc();
    for (void** address : {&info->src_addr, &info->dest_addr}) {
        std::free(*address);
        *address = nullptr;
    }
    if (!copy_address(info->addr_format, name_, info->src_addr, info->src_addrlen) ||
        !copy_address(info->addr_format, request.client, info->dest_addr, info->dest_addrlen))
        throw std::bad_alloc();
    info->handle = &request;
    return info;
}

void PassiveEndpoint::word(const mvich::HostPort& from, std::span<const std::byte> bytes) {
    const auto word = ConnectionWord::decode(bytes);
    if (!word || word->kind != ConnectionWord::Kind::Request) return;
    const int error = guarded([&] {
        auto request = std::make_unique<ConnectionRequest>();
        request->fclass = FI_CLASS_CONNREQ;
        request->context = nullptr;
        request->ops = &request_operations;
        request->client = from;
        request->listener = name_;
        request->token = word->token;
        Info info = info_for(*request);
        fabric_.add(std::move(request));
        events_->add_connection(FI_CONNREQ, &fid, info.release(), word->data.data(),
                                word->data.size());
        return 0;
    });
    if (error != 0) VIA_OFI_WARN(FI_LOG_EP_CTRL, "no memory for a connection request\n");
}

/// Who asked and is gone has nothing to hear; its request fails when it is accepted.
void PassiveEndpoint::lost(const mvich::HostPort&, mvich::Status) {}

int PassiveEndpoint::listen(fid_pep* endpoint) {
    return guarded([&] {
        auto& self = static_cast<PassiveEndpoint&>(*endpoint);
        if (!self.events_) return -FI_ENOEQ;
        if (self.listens_) return -FI_EOPBADSTATE;
        if (const int error = self.take_name()) return error;
        self.events_->watch(self.device_);
        self.wire_->listen_for_words(&self);
        self.listens_ = true;
        return 0;
    });
}

int PassiveEndpoint::reject(fid_pep* endpoint, struct fid* handle, const void* data,
                            std::size_t bytes) {
    return guarded([&] {
        auto& self = static_cast<PassiveEndpoint&>(*endpoint);
        if (bytes > max_connection_data || !self.wire_) return -FI_EINVAL;
        const auto request = self.fabric_.take_request(handle);
        if (request == nullptr) return -FI_EINVAL;
        const ConnectionWord word{ConnectionWord::Kind::Reject,
                                  request->token,
                                  {static_cast<const std::byte*>(data), bytes}};
        const auto said = self.wire_->say(request->client, word.encode());
        return said ? 0 : -error_number(said.error().code);
    });
}

int PassiveEndpoint::close(struct fid* fid) {
    delete &listener_of(fid);
    return 0;
}

int PassiveEndpoint::bind(struct fid* fid, struct fid* what, std::uint64_t) {
    PassiveEndpoint& self = listener_of(fid);
    if (what->fclass != FI_CLASS_EQ || self.events_) return -FI_EINVAL;
    self.events_.set(&static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(what)));
    return 0;
}

int PassiveEndpoint::control(struct fid*, int command, void*) {
    // Requests wait in the event queue, however many there are.
    return command == FI_BACKLOG ? 0 : -FI_ENOSYS;
}

int PassiveEndpoint::set_name(struct fid* fid, void* address, std::size_t bytes) {
    return guarded([&] {
        PassiveEndpoint& self = listener_of(fid);
        const auto name = read_address(self.info_->addr_format, address, bytes);
        if (!name) return -FI_EINVAL;
        if (self.listens_) return -FI_EOPBADSTATE;
        self.wire_.reset();
        self.name_ = *name;
        return 0;
    });
}

int PassiveEndpoint::get_name(struct fid* fid, void* address, std::size_t* bytes) {
    return guarded([&] {
        PassiveEndpoint& self = listener_of(fid);
        if (self.name_.port == 0)
            if (const int error = self.take_name()) return error;
        return write_address(self.info_->addr_format, self.name_, address, bytes);
    });
}

int PassiveEndpoint::get_option(struct fid*, int level, int option, void* value,
                                std::size_t* bytes) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
    if (*bytes < sizeof(std::size_t)) return -FI_ETOOSMALL;
    *static_cast<std::size_t*>(value) = max_connection_data;
    *bytes = sizeof(std::size_t);
    return 0;
}

fi_ops PassiveEndpoint::object_operations = {
    .size = sizeof(fi_ops),
    .close = PassiveEndpoint::close,
    .bind = PassiveEndpoint::bind,
    .control = PassiveEndpoint::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_ep PassiveEndpoint::operations = {
    .size = sizeof(fi_ops_ep),
    .cancel = not_supported,
    .getopt = PassiveEndpoint::get_option,
    .setopt = not_supported,
    .tx_ctx = not_supported,
    .rx_ctx = not_supported,
    .rx_size_left = not_supported,
    .tx_size_left = not_supported,
};

fi_ops_cm PassiveEndpoint::connection_operations = {
    .size = sizeof(fi_ops_cm),
    .setname = PassiveEndpoint::set_name,
    .getname = PassiveEndpoint::get_name,
    .getpeer = not_supported,
    .connect = not_supported,
    .listen = PassiveEndpoint::listen,
    .accept = not_supported,
    .reject = PassiveEndpoint::reject,
    .shutdown = not_supported,
    .join = not_supported,
};

}  // namespace via::ofi
