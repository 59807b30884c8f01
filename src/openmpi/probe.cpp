// SPDX-License-Identifier: BSD-3-Clause
// Messages that are looked at before they are received. One that is set aside (MPI_Mprobe) waits
// for the request that was made for it.
#include "openmpi/calls.h"
#include "openmpi/receive.hpp"

namespace via::openmpi {
namespace {

bool find_pattern(Module& module, ompi_communicator_t& comm, int from, int tag,
                  mvich::ReceiveOrder& order) {
    const mvich::Peer peer = module.peers().find_source(comm, from);
    if (peer == mvich::unknown_peer) return false;
    const Pattern pattern(peer, comm, tag);
    order.from = pattern.from;
    order.tag = pattern.word;
    order.ignore = pattern.ignore;
    return true;
}

/// What is there, or comes with one look at the device.
std::optional<mvich::Envelope> look(Module& module, const mvich::ReceiveOrder& order,
                                    mvich::Peek how) {
    if (auto found = module.endpoint().peek(order, how)) return found;
    opal_progress();
    return module.endpoint().peek(order, how);
}

void fill(ompi_status_public_t* status, const mvich::Envelope& envelope) {
    if (status == MPI_STATUS_IGNORE) return;
    status->MPI_SOURCE = static_cast<int>(envelope.data);
    status->MPI_TAG = tag_of(envelope.tag);
    status->MPI_ERROR = MPI_SUCCESS;
    status->_ucount = envelope.length;
    status->_cancelled = 0;
}

/// Takes the message out of everybody's sight. Null: another thread was faster, or no memory.
ompi_message_t* set_aside(Module& module, mvich::ReceiveOrder order, ompi_communicator_t& comm,
                          mvich::Envelope& envelope) {
    Request* const request = module.requests().take(Request::Kind::Receive, comm, false);
    if (request == nullptr) return nullptr;
    ompi_message_t* const message = ompi_message_alloc();
    order.cookie.context = request;
    const auto found =
        message == nullptr ? std::nullopt : module.endpoint().peek(order, mvich::Peek::Claim);
    if (!found) {
        if (message != nullptr) ompi_message_return(message);
        module.requests().give_back(*request);
        return nullptr;
    }
    envelope = *found;
    message->comm = &comm;
    message->req_ptr = request;
    message->peer = static_cast<int>(found->data);
    message->count = found->length;
    return message;
}

Request& request_of(ompi_message_t** message, const Layout& layout) {
    Request& request = *static_cast<Request*>((*message)->req_ptr);
    request.layout = layout;
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    return request;
}

}  // namespace
}  // namespace via::openmpi

using namespace via::openmpi;
using via::mvich::Peek;

int via_pml_iprobe(int from, int tag, ompi_communicator_t* comm, int* matched,
                   ompi_status_public_t* status) {
    Module& module = Module::get();
    via::mvich::ReceiveOrder order;
    if (!find_pattern(module, *comm, from, tag, order)) return OMPI_ERR_UNREACH;
    const auto found = look(module, order, Peek::Look);
    *matched = found ? 1 : 0;
    if (found) fill(status, *found);
    return OMPI_SUCCESS;
}

int via_pml_probe(int from, int tag, ompi_communicator_t* comm, ompi_status_public_t* status) {
    for (;;) {
        int matched = 0;
        const int outcome = via_pml_iprobe(from, tag, comm, &matched, status);
        if (outcome != OMPI_SUCCESS || matched != 0) return outcome;
    }
}

int via_pml_improbe(int from, int tag, ompi_communicator_t* comm, int* matched,
                    ompi_message_t** message, ompi_status_public_t* status) {
    Module& module = Module::get();
    *matched = 0;
    *message = MPI_MESSAGE_NULL;
    via::mvich::ReceiveOrder order;
    if (!find_pattern(module, *comm, from, tag, order)) return OMPI_ERR_UNREACH;
    if (!look(module, order, Peek::Look)) return OMPI_SUCCESS;
    via::mvich::Envelope envelope;
    ompi_message_t* const found = set_aside(module, order, *comm, envelope);
    if (found == nullptr) return OMPI_SUCCESS;
    *matched = 1;
    *message = found;
    fill(status, envelope);
    return OMPI_SUCCESS;
}

int via_pml_mprobe(int from, int tag, ompi_communicator_t* comm, ompi_message_t** message,
                   ompi_status_public_t* status) {
    for (;;) {
        int matched = 0;
        const int outcome = via_pml_improbe(from, tag, comm, &matched, message, status);
        if (outcome != OMPI_SUCCESS || matched != 0) return outcome;
    }
}

int via_pml_imrecv(void* buffer, size_t count, ompi_datatype_t* datatype, ompi_message_t** message,
                   ompi_request_t** handle) {
    Module& module = Module::get();
    Request& request = request_of(message, {buffer, count, datatype});
    *handle = &request.super;
    const int posted = post_receive(module, request, true);
    if (posted != OMPI_SUCCESS) {
        module.requests().give_back(request);
        *handle = MPI_REQUEST_NULL;
    }
    return posted;
}

int via_pml_mrecv(void* buffer, size_t count, ompi_datatype_t* datatype, ompi_message_t** message,
                  ompi_status_public_t* status) {
    Module& module = Module::get();
    Request& request = request_of(message, {buffer, count, datatype});
    if (const int posted = post_receive(module, request, true); posted != OMPI_SUCCESS) {
        module.requests().give_back(request);
        return posted;
    }
    return wait_and_free(module, request, status);
}
