// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/event_queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "ofi/errors.hpp"
#include "ofi/fabric.hpp"
#include "ofi/info.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

EventQueue& queue_of(fid_eq* queue) noexcept {
    return static_cast<EventQueue&>(*queue);
}

}  // namespace

EventQueue::EventQueue(Fabric& fabric, void* context) : fid_eq{}, fabric_(&fabric.references()) {
    fid.fclass = FI_CLASS_EQ;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
}

int EventQueue::open(fid_fabric* fabric, fi_eq_attr* attributes, fid_eq** queue, void* context) {
    return guarded([&] {
        fi_eq_attr wanted{};
        if (attributes != nullptr) wanted = *attributes;
        if (wanted.flags & ~(FI_WRITE | FI_AFFINITY)) return -FI_EINVAL;
        std::unique_ptr<EventQueue> made(new EventQueue(static_cast<Fabric&>(*fabric), context));
        made->writable_ = (wanted.flags & FI_WRITE) != 0;
        if (const int error = made->open_wait(wanted.wait_obj, wanted.wait_set)) return error;
        *queue = made.release();
        return 0;
    });
}

void EventQueue::put(Event event) {
    {
        const std::lock_guard guard(mutex_);
        events_.push_back(std::move(event));
        wait_object().signal_if_wanted();
    }
    came_.notify_all();
}

void EventQueue::add(std::uint32_t event, const void* entry, std::size_t bytes) noexcept {
    const int error = guarded([&] {
        Event made;
        made.event = event;
        const auto* from = static_cast<const std::uint8_t*>(entry);
        made.bytes.assign(from, from + bytes);
        put(std::move(made));
        return 0;
    });
    if (error != 0) VIA_OFI_WARN(FI_LOG_EQ, "no memory for an event: it is lost\n");
}

void EventQueue::add_connection(std::uint32_t event, struct fid* whose, fi_info* info,
                                const void* data, std::size_t bytes) noexcept {
    std::uint8_t entry[sizeof(fi_eq_cm_entry) + max_connection_data];
    const fi_eq_cm_entry head{whose, info};
    std::memcpy(entry, &head, sizeof(fi_eq_cm_entry));
    bytes = std::min(bytes, max_connection_data);
    if (bytes != 0) std::memcpy(entry + sizeof(fi_eq_cm_entry), data, bytes);
    add(event, entry, sizeof(fi_eq_cm_entry) + bytes);
}

void EventQueue::add_error(struct fid* whose, void* context, std::uint64_t data, int error,
                           const void* error_data, std::size_t bytes) noexcept {
    const int failure = guarded([&] {
        Event made;
        made.is_error = true;
        made.error.fid = whose;
        made.error.context = context;
        made.error.data = data;
        made.error.err = error;
        made.error.prov_errno = error;
        const auto* from = static_cast<const std::uint8_t*>(error_data);
        if (bytes != 0) made.error_data.assign(from, from + bytes);
        put(std::move(made));
        return 0;
    });
    if (failure != 0) VIA_OFI_WARN(FI_LOG_EQ, "no memory for an error event: it is lost\n");
}

void EventQueue::forget(const struct fid* whose) noexcept {
    const std::lock_guard guard(mutex_);
    std::erase_if(events_, [&](const Event& event) {
        if (event.is_error) return event.error.fid == whose;
        fi_eq_cm_entry entry;
        if ((event.event != FI_CONNECTED && event.event != FI_SHUTDOWN) ||
            event.bytes.size() < sizeof entry)
            return false;
        std::memcpy(&entry, event.bytes.data(), sizeof entry);
        return entry.fid == whose;
    });
}

void EventQueue::watch(const std::shared_ptr<mvich::Device>& device) {
    const std::lock_guard guard(devices_mutex_);
    for (Watched& watched : devices_)
        if (watched.device == device) {
            ++watched.times;
            return;
        }
    devices_.push_back({device, 1});
}

void EventQueue::unwatch(const std::shared_ptr<mvich::Device>& device) noexcept {
    const std::lock_guard guard(devices_mutex_);
    std::erase_if(devices_, [&](Watched& watched) {
        return watched.device == device && --watched.times == 0;
    });
}

std::vector<std::shared_ptr<mvich::Device>> EventQueue::devices() {
    const std::lock_guard guard(devices_mutex_);
    std::vector<std::shared_ptr<mvich::Device>> all;
    for (const Watched& watched : devices_)
        all.push_back(watched.device);
    return all;
}

void EventQueue::progress() {
    for (const auto& device : devices())
        device->progress();
}

bool EventQueue::ready() {
    const std::lock_guard guard(mutex_);
    return !events_.empty();
}

void EventQueue::prepare_to_sleep() {
    {
        const std::lock_guard guard(mutex_);
        wait_object().prepare();
    }
    for (const auto& device : devices())
        device->arm();
}

ssize_t EventQueue::take(std::uint32_t* event, void* to, std::size_t bytes, std::uint64_t flags) {
    const std::lock_guard guard(mutex_);
    if (events_.empty()) return -FI_EAGAIN;
    const Event& first = events_.front();
    if (first.is_error) return -FI_EAVAIL;
    // Connection data may be cut short, the entry itself may not.
    const std::size_t least =
        first.event == FI_CONNREQ || first.event == FI_CONNECTED || first.event == FI_SHUTDOWN
            ? std::min(sizeof(fi_eq_cm_entry), first.bytes.size())
            : first.bytes.size();
    if (bytes < least) return -FI_ETOOSMALL;
    *event = first.event;
    const std::size_t copied = std::min(bytes, first.bytes.size());
    if (copied != 0) std::memcpy(to, first.bytes.data(), copied);
    if (!(flags & FI_PEEK)) events_.pop_front();
    return static_cast<ssize_t>(copied);
}

ssize_t EventQueue::read(fid_eq* queue, std::uint32_t* event, void* to, std::size_t bytes,
                         std::uint64_t flags) {
    return guarded([&]() -> ssize_t {
        EventQueue& self = queue_of(queue);
        if (const ssize_t taken = self.take(event, to, bytes, flags); taken != -FI_EAGAIN)
            return taken;
        self.progress();
        return self.take(event, to, bytes, flags);
    });
}

ssize_t EventQueue::sleeping_read(fid_eq* queue, std::uint32_t* event, void* to, std::size_t bytes,
                                  int timeout, std::uint64_t flags) {
    return guarded([&]() -> ssize_t {
        EventQueue& self = queue_of(queue);
        const base::Deadline deadline =
            timeout < 0 ? base::Deadline::never()
                        : base::Deadline::after_milliseconds(static_cast<unsigned>(timeout));
        for (;;) {
            if (const ssize_t taken = self.take(event, to, bytes, flags); taken != -FI_EAGAIN)
                return taken;
            self.prepare_to_sleep();
            std::unique_lock lock(self.mutex_);
            const auto something = [&] { return !self.events_.empty(); };
            if (deadline.is_never()) {
                self.came_.wait(lock, something);
            } else if (!self.came_.wait_for(lock, std::chrono::nanoseconds(deadline.remaining()),
                                            something)) {
                return -FI_EAGAIN;
            }
        }
    });
}

ssize_t EventQueue::read_error(fid_eq* queue, fi_eq_err_entry* to, std::uint64_t flags) {
    EventQueue& self = queue_of(queue);
    const std::lock_guard guard(self.mutex_);
    if (self.events_.empty() || !self.events_.front().is_error) return -FI_EAGAIN;
    Event& first = self.events_.front();
    // A program's buffer takes what fits; one that brings none is shown ours until the next read.
    void* const buffer = to->err_data;
    const std::size_t room = to->err_data_size;
    *to = first.error;
    if (room != 0 && buffer != nullptr) {
        const std::size_t copied = std::min(room, first.error_data.size());
        if (copied != 0) std::memcpy(buffer, first.error_data.data(), copied);
        to->err_data = buffer;
        to->err_data_size = copied;
    } else if (!first.error_data.empty()) {
        self.last_error_data_ = first.error_data;
        to->err_data = self.last_error_data_.data();
        to->err_data_size = self.last_error_data_.size();
    } else {
        to->err_data = buffer;
        to->err_data_size = 0;
    }
    if (!(flags & FI_PEEK)) self.events_.pop_front();
    return sizeof(fi_eq_err_entry);
}

ssize_t EventQueue::write(fid_eq* queue, std::uint32_t event, const void* from, std::size_t bytes,
                          std::uint64_t) {
    EventQueue& self = queue_of(queue);
    if (!self.writable_) return -FI_EINVAL;
    self.add(event, from, bytes);
    return static_cast<ssize_t>(bytes);
}

const char* EventQueue::error_text(fid_eq*, int provider_error, const void*, char* buffer,
                                   std::size_t bytes) {
    const char* text = provider_error == FI_ECONNREFUSED
                           ? "the other end has rejected the connection, or nobody listens there"
                           : fi_strerror(provider_error);
    if (buffer == nullptr || bytes == 0) return text;
    std::snprintf(buffer, bytes, "%s", text);
    return buffer;
}

int EventQueue::close(struct fid* fid) {
    auto* self = &static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(fid));
    if (self->references().any()) return -FI_EBUSY;
    delete self;
    return 0;
}

int EventQueue::control(struct fid* fid, int command, void* argument) {
    const auto* self = &static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(fid));
    return self->wait_object().control(command, argument);
}

fi_ops_eq EventQueue::operations = {
    .size = sizeof(fi_ops_eq),
    .read = EventQueue::read,
    .readerr = EventQueue::read_error,
    .write = EventQueue::write,
    .sread = EventQueue::sleeping_read,
    .strerror = EventQueue::error_text,
};

fi_ops EventQueue::object_operations = {
    .size = sizeof(fi_ops),
    .close = EventQueue::close,
    .bind = not_supported,
    .control = EventQueue::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
