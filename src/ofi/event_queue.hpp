// SPDX-License-Identifier: BSD-3-Clause
// Event queues: what happens to connections, and to address vectors that are filled in the
// background.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include "mvich/device.hpp"
#include "ofi/references.hpp"
#include "ofi/waitable.hpp"

namespace via::ofi {

class Fabric;

class EventQueue final : public fid_eq, public Waitable {
  public:
    static int open(fid_fabric* fabric, fi_eq_attr* attributes, fid_eq** queue, void* context);

    /// As it is read: an entry of libfabric's kinds, with connection data behind it. Called with or
    /// without the lock of a device.
    void add(std::uint32_t event, const void* entry, std::size_t bytes) noexcept;
    /// FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN. The info becomes the reader's.
    void add_connection(std::uint32_t event, struct fid* whose, fi_info* info, const void* data,
                        std::size_t bytes) noexcept;
    void add_error(struct fid* whose, void* context, std::uint64_t data, int error,
                   const void* error_data, std::size_t bytes) noexcept;
    /// Events of an endpoint that is closed are nobody's any more.
    void forget(const struct fid* whose) noexcept;

    /// Reading the queue makes progress for this device.
    void watch(const std::shared_ptr<mvich::Device>& device);
    void unwatch(const std::shared_ptr<mvich::Device>& device) noexcept;

    [[nodiscard]] bool ready() override;
    void prepare_to_sleep() override;
    void progress() override;

  private:
    struct Event {
        std::uint32_t event = 0;
        bool is_error = false;
        std::vector<std::uint8_t> bytes;
        fi_eq_err_entry error{};
        std::vector<std::uint8_t> error_data;
    };

    EventQueue(Fabric& fabric, void* context);
    void put(Event event);
    [[nodiscard]] ssize_t take(std::uint32_t* event, void* to, std::size_t bytes,
                               std::uint64_t flags);
    [[nodiscard]] std::vector<std::shared_ptr<mvich::Device>> devices();

    static ssize_t read(fid_eq* queue, std::uint32_t* event, void* to, std::size_t bytes,
                        std::uint64_t flags);
    static ssize_t read_error(fid_eq* queue, fi_eq_err_entry* to, std::uint64_t flags);
    static ssize_t write(fid_eq* queue, std::uint32_t event, const void* from, std::size_t bytes,
                         std::uint64_t flags);
    static ssize_t sleeping_read(fid_eq* queue, std::uint32_t* event, void* to, std::size_t bytes,
                                 int timeout, std::uint64_t flags);
    static const char* error_text(fid_eq* queue, int provider_error, const void* data, char* buffer,
                                  std::size_t bytes);
    static int close(struct fid* fid);
    static int control(struct fid* fid, int command, void* argument);

    static fi_ops_eq operations;
    static fi_ops object_operations;

    Reference fabric_;
    bool writable_ = false;
    std::mutex mutex_;
    std::condition_variable came_;
    std::deque<Event> events_;
    std::vector<std::uint8_t> last_error_data_;  ///< what the program was shown of it
    struct Watched {
        std::shared_ptr<mvich::Device> device;
        unsigned times;
    };
    std::mutex devices_mutex_;
    std::vector<Watched> devices_;
};

}  // namespace via::ofi
