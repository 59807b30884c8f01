// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/module.hpp"

#include <utility>

#include "base/log.hpp"
#include "openmpi/calls.h"
#include "openmpi/series.hpp"

namespace via::openmpi {

Module* Module::the_one = nullptr;

base::Result<void> Module::start() {
    if (auto right = right_open_mpi(); !right) return right;
    std::unique_ptr<Module> module(new Module);
    auto device = mvich::Device::open();
    if (!device) return std::move(device).error();
    module->device_ = std::move(device).value();
    module->inject_bytes_ = mvich::Device::limits().inject_bytes;
    mvich::Device::EndpointOptions options;
    options.book = module->peers_.book();
    options.listener = module.get();
    auto endpoint = module->device_->create_endpoint(options);
    if (!endpoint) return std::move(endpoint).error();
    module->endpoint_ = std::move(endpoint).value();
    if (auto published = Peers::publish(module->endpoint_->name()); !published)
        return std::move(published).error();
    the_one = module.release();
    return {};
}

void Module::end() {
    delete the_one;
    the_one = nullptr;
}

void Module::enable() {
    mca_pml_base_bsend_init(true);
    opal_progress_register(via_pml_progress);
    enabled_ = true;
}

Module::~Module() {
    if (enabled_) opal_progress_unregister(via_pml_progress);
    endpoint_.reset();  // what is in the user's buffer is sent before that is over
    if (enabled_) mca_pml_base_bsend_fini();
}

void Module::done(const mvich::Completion& completion) {
    void* const context = completion.cookie.context;
    if (completion.cookie.flags == static_cast<std::uint64_t>(Context::Awaited)) {
        Awaited& awaited = *static_cast<Awaited*>(context);
        if (completion.status == mvich::Status::PeerLost) [[unlikely]]
            say_lost();
        awaited.completion = completion;
        awaited.is_done.store(true, std::memory_order_release);
        return;
    }
    Request& request = *static_cast<Request*>(context);
    if (completion.status == mvich::Status::PeerLost) [[unlikely]]
        say_lost();
    settle(request, completion);
    // With one thread in MPI, Open MPI does not expect another to tell it anything. And whoever
    // wants to be called back will call us, which the device's lock forbids; so may the end of what
    // a request held.
    if (device_->is_told_by_own_thread() || request.super.req_complete_cb != nullptr ||
        request.state != request_posted) [[unlikely]]
        defer(request);
    else
        finish(requests_, request);
}

/// What MPI says of it is only "known error not in list".
void Module::say_lost() {
    if (std::exchange(said_lost_, true)) return;
    base::log(base::LogLevel::Error,
              "pml/via: the connection to another rank is lost: its process has ended, or its host "
              "can not be reached any more");
}

void Module::defer(Request& request) {
    const std::lock_guard guard(deferred_mutex_);
    deferred_.push_back(&request);
    has_deferred_.store(true, std::memory_order_relaxed);
}

void Module::run_deferred() {
    if (!has_deferred_.load(std::memory_order_relaxed)) return;
    std::vector<Request*> requests;
    {
        const std::lock_guard guard(deferred_mutex_);
        requests.swap(deferred_);
        has_deferred_.store(false, std::memory_order_relaxed);
    }
    for (Request* request : requests)
        finish(requests_, *request);
}

}  // namespace via::openmpi

using via::openmpi::Module;

bool via_pml_start() {
    const auto started = Module::start();
    if (started) return true;
    via::base::log(via::base::LogLevel::Error, "pml/via: " + started.error().sentence);
    return false;
}

int via_pml_end() {
    Module::end();
    return OMPI_SUCCESS;
}

int via_pml_enable(bool enable) {
    if (!enable) return OMPI_SUCCESS;
    Module::get().enable();
    return OMPI_SUCCESS;
}

/// Always "something happened": a process without events gives its core away, and when that is wise
/// the device knows better.
int via_pml_progress() {
    Module::get().progress();
    return 1;
}

int via_pml_add_procs(ompi_proc_t** procs, size_t count) {
    return mca_pml_base_pml_check_selected("via", procs, count);
}

int via_pml_del_procs(ompi_proc_t** procs, size_t count) {
    for (size_t i = 0; i < count; ++i)
        Module::get().peers().forget(*procs[i]);
    return OMPI_SUCCESS;
}

int via_pml_add_comm(ompi_communicator_t*) {
    return OMPI_SUCCESS;
}

int via_pml_del_comm(ompi_communicator_t*) {
    return OMPI_SUCCESS;
}

int via_pml_dump(ompi_communicator_t*, int) {
    return OMPI_SUCCESS;  // `via stat` shows more
}
