// SPDX-License-Identifier: BSD-3-Clause
// FI_PEEK, FI_CLAIM and FI_DISCARD, for endpoints and for receives that endpoints share.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "mvich/device.hpp"
#include "ofi/domain.hpp"
#include "ofi/errors.hpp"

namespace via::ofi {

inline constexpr std::uint64_t look_flags = FI_PEEK | FI_CLAIM | FI_DISCARD;

/// A message that was looked at, claimed or thrown away, told as its receive would have been.
[[nodiscard]] inline mvich::Completion told_as_received(const mvich::Envelope& envelope,
                                                        const mvich::Cookie& cookie) noexcept {
    mvich::Completion completion;
    completion.what = mvich::Happened::Received;
    completion.has_data = envelope.has_data;
    completion.source = envelope.source;
    completion.length = envelope.length;
    completion.data = envelope.data;
    completion.tag = envelope.tag;
    completion.cookie = cookie;
    completion.cookie.flags |= FI_COMPLETION;
    return completion;
}

/// `messages` can peek and claim. A peek in vain is told as an error of the queue (FI_ENOMSG),
/// which is the only way that all MPI libraries understand.
template <class Messages, class Tell>
ssize_t look(Domain& domain, Messages& messages, const mvich::ReceiveOrder& order,
             std::uint64_t flags, Tell tell) {
    if (!(flags & FI_PEEK)) {
        if (!(flags & FI_DISCARD)) return refusal(messages.claimed_receive(order));
        const mvich::Posted posted = messages.claimed_discard(order.cookie.context);
        if (posted == mvich::Posted::Done) tell(told_as_received({}, order.cookie));
        return refusal(posted);
    }
    mvich::Peek how = mvich::Peek::Look;
    if (flags & FI_CLAIM) how = mvich::Peek::Claim;
    if (flags & FI_DISCARD) how = mvich::Peek::Discard;
    domain.progress();
    if (const auto envelope = messages.peek(order, how)) {
        tell(told_as_received(*envelope, order.cookie));
        return 0;
    }
    mvich::Completion completion;
    completion.what = mvich::Happened::Received;
    completion.status = mvich::Status::NoMessage;
    completion.tag = order.tag;
    completion.cookie = order.cookie;
    tell(completion);
    return 0;
}

}  // namespace via::ofi
