// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/addressed_ops.hpp"

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "ofi/atomic_ops.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/message_ops.hpp"
#include "ofi/rma_ops.hpp"
#include "ofi/tagged_ops.hpp"

namespace via::ofi {
namespace {

enum class Role : std::uint8_t { Destination, Source };

/// A function of a table whose argument `At` is an address, or has one in it.
template <auto& Table, auto Member, std::size_t At, Role role>
struct Addressed;

template <auto& Table, class Operations, class Result, class... Arguments,
          Result (*Operations::*Member)(Arguments...), std::size_t At, Role role>
struct Addressed<Table, Member, At, role> {
    static Result call(Arguments... given) {
        std::tuple<Arguments...> arguments(given...);
        const EndpointHandle& handle = handle_of(std::get<0>(arguments));
        const auto meant = [&](fi_addr_t number) {
            return role == Role::Source ? handle.source_number(number)
                                        : handle.destination_number(number);
        };
        auto& argument = std::get<At>(arguments);
        if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(argument)>>) {
            auto message = *argument;
            message.addr = meant(message.addr);
            argument = &message;
            return std::apply(Table.*Member, arguments);
        } else {
            argument = meant(argument);
            return std::apply(Table.*Member, arguments);
        }
    }
};

template <auto& Table, auto Member, std::size_t At>
constexpr auto to = &Addressed<Table, Member, At, Role::Destination>::call;
template <auto& Table, auto Member, std::size_t At>
constexpr auto from = &Addressed<Table, Member, At, Role::Source>::call;

}  // namespace

fi_ops_msg addressed_messages = {
    .size = sizeof(fi_ops_msg),
    .recv = from<message_operations, &fi_ops_msg::recv, 4>,
    .recvv = from<message_operations, &fi_ops_msg::recvv, 4>,
    .recvmsg = from<message_operations, &fi_ops_msg::recvmsg, 1>,
    .send = to<message_operations, &fi_ops_msg::send, 4>,
    .sendv = to<message_operations, &fi_ops_msg::sendv, 4>,
    .sendmsg = to<message_operations, &fi_ops_msg::sendmsg, 1>,
    .inject = to<message_operations, &fi_ops_msg::inject, 3>,
    .senddata = to<message_operations, &fi_ops_msg::senddata, 5>,
    .injectdata = to<message_operations, &fi_ops_msg::injectdata, 4>,
};

fi_ops_tagged addressed_tagged = {
    .size = sizeof(fi_ops_tagged),
    .recv = from<tagged_operations, &fi_ops_tagged::recv, 4>,
    .recvv = from<tagged_operations, &fi_ops_tagged::recvv, 4>,
    .recvmsg = from<tagged_operations, &fi_ops_tagged::recvmsg, 1>,
    .send = to<tagged_operations, &fi_ops_tagged::send, 4>,
    .sendv = to<tagged_operations, &fi_ops_tagged::sendv, 4>,
    .sendmsg = to<tagged_operations, &fi_ops_tagged::sendmsg, 1>,
    .inject = to<tagged_operations, &fi_ops_tagged::inject, 3>,
    .senddata = to<tagged_operations, &fi_ops_tagged::senddata, 5>,
    .injectdata = to<tagged_operations, &fi_ops_tagged::injectdata, 4>,
};

fi_ops_rma addressed_rma = {
    .size = sizeof(fi_ops_rma),
    .read = to<rma_operations, &fi_ops_rma::read, 4>,
    .readv = to<rma_operations, &fi_ops_rma::readv, 4>,
    .readmsg = to<rma_operations, &fi_ops_rma::readmsg, 1>,
    .write = to<rma_operations, &fi_ops_rma::write, 4>,
    .writev = to<rma_operations, &fi_ops_rma::writev, 4>,
    .writemsg = to<rma_operations, &fi_ops_rma::writemsg, 1>,
    .inject = to<rma_operations, &fi_ops_rma::inject, 3>,
    .writedata = to<rma_operations, &fi_ops_rma::writedata, 5>,
    .injectdata = to<rma_operations, &fi_ops_rma::injectdata, 4>,
};

fi_ops_atomic addressed_atomics = {
    .size = sizeof(fi_ops_atomic),
    .write = to<atomic_operations, &fi_ops_atomic::write, 4>,
    .writev = to<atomic_operations, &fi_ops_atomic::writev, 4>,
    .writemsg = to<atomic_operations, &fi_ops_atomic::writemsg, 1>,
    .inject = to<atomic_operations, &fi_ops_atomic::inject, 3>,
    .readwrite = to<atomic_operations, &fi_ops_atomic::readwrite, 6>,
    .readwritev = to<atomic_operations, &fi_ops_atomic::readwritev, 7>,
    .readwritemsg = to<atomic_operations, &fi_ops_atomic::readwritemsg, 1>,
    .compwrite = to<atomic_operations, &fi_ops_atomic::compwrite, 8>,
    .compwritev = to<atomic_operations, &fi_ops_atomic::compwritev, 10>,
    .compwritemsg = to<atomic_operations, &fi_ops_atomic::compwritemsg, 1>,
    .writevalid = is_valid_atomic<mvich::AtomicUse::Plain>,
    .readwritevalid = is_valid_atomic<mvich::AtomicUse::Fetch>,
    .compwritevalid = is_valid_atomic<mvich::AtomicUse::Compare>,
};

}  // namespace via::ofi
