// SPDX-License-Identifier: BSD-3-Clause
// Listening endpoints: they hear connection requests and nothing else.
#pragma once

#include <memory>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "mvich/device.hpp"
#include "ofi/completion_sink.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class EventQueue;
class Fabric;
struct ConnectionRequest;

class PassiveEndpoint final : public fid_pep,
                              public mvich::ControlListener,
                              private mvich::Listener {
  public:
    static int open(fid_fabric* fabric, fi_info* info, fid_pep** endpoint, void* context);

    /// For an endpoint that takes its place: the name, which is free from now on.
    [[nodiscard]] mvich::HostPort give_up_name();

    void word(const mvich::HostPort& from, std::span<const std::byte> bytes) override;
    void lost(const mvich::HostPort& peer, mvich::Status status) override;

  private:
    struct FreeInfo {
        void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
    };
    using Info = std::unique_ptr<fi_info, FreeInfo>;

    PassiveEndpoint(Fabric& fabric, Info info, void* context);
    ~PassiveEndpoint() override;

    void done(const mvich::Completion&) override {}
    /// Reserves the name.
    [[nodiscard]] int take_name();
    [[nodiscard]] Info info_for(ConnectionRequest& request) const;

    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);
    static int set_name(struct fid* fid, void* address, std::size_t bytes);
    static int get_name(struct fid* fid, void* address, std::size_t* bytes);
    static int listen(fid_pep* endpoint);
    static int reject(fid_pep* endpoint, struct fid* handle, const void* data, std::size_t bytes);
    static int get_option(struct fid* fid, int level, int option, void* value, std::size_t* bytes);

    static fi_ops object_operations;
    static fi_ops_ep operations;
    static fi_ops_cm connection_operations;

    Fabric& fabric_;
    Reference fabric_reference_;
    Info info_;
    mvich::HostPort name_;
    Bound<EventQueue> events_;
    std::shared_ptr<mvich::Device> device_;
    std::unique_ptr<mvich::Endpoint> wire_;
    bool listens_ = false;
};

}  // namespace via::ofi
