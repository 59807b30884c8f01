// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/receive_queue.hpp"

#include <algorithm>
#include <utility>

#include "base/undo.hpp"

namespace via::mvich {

namespace {

/// Calls move(part of a piece, bytes) along [offset, offset + wanted) of the pieces; the bytes that
/// there were.
template <class Move>
std::size_t walk(std::span<const iovec> pieces, std::uint64_t offset, std::size_t wanted,
                 Move move) noexcept {
    std::size_t done = 0;
    for (const iovec& piece : pieces) {
        if (done == wanted) break;
        if (offset >= piece.iov_len) {
            offset -= piece.iov_len;
            continue;
        }
        const std::size_t bytes = std::min<std::size_t>(piece.iov_len - offset, wanted - done);
        move(static_cast<std::byte*>(piece.iov_base) + offset, done, bytes);
        done += bytes;
        offset = 0;
    }
    return done;
}

}  // namespace

void PieceList::assign_other(std::span<const iovec> pieces) {
    count_ = 0;
    bytes_ = 0;
    if (pieces.size() <= few_.size())
        std::copy(pieces.begin(), pieces.end(), few_.begin());
    else
        many_.assign(pieces.begin(), pieces.end());
    count_ = pieces.size();
    for (const iovec& piece : pieces)
        bytes_ += piece.iov_len;
}

std::size_t PieceList::scatter_over(std::uint64_t offset,
                                    std::span<const std::byte> from) const noexcept {
    return walk(pieces(), offset, from.size(),
                [&](std::byte* piece, std::size_t done, std::size_t bytes) {
                    move(piece, from.data() + done, bytes);
                });
}

std::size_t PieceList::gather_over(std::uint64_t offset, std::span<std::byte> to) const noexcept {
    return walk(pieces(), offset, to.size(),
                [&](const std::byte* piece, std::size_t done, std::size_t bytes) {
                    move(to.data() + done, piece, bytes);
                });
}

std::uint64_t ReceiveQueue::use_of_multi(PostedReceive& receive, std::uint64_t bytes) noexcept {
    ++receive.messages;
    const std::uint64_t offset = receive.used;
    receive.used += std::min(bytes, receive.pieces.bytes() - offset);
    const std::uint64_t left = receive.pieces.bytes() - receive.used;
    if ((left == 0 || left < receive.least_free) && !receive.spent) {
        receive.spent = true;
        take_out(receive);
    }
    return offset;
}

void ReceiveQueue::assign_or_give_back(PostedReceive& receive, const ReceiveOrder& order) {
    base::Undo give_back([&]() noexcept { receives_.give(receive); });
    receive.pieces.assign(order.pieces);
    give_back.keep();
}

PostedReceive* ReceiveQueue::cancel(const void* context) noexcept {
    for (auto& list : posted_)
        for (PostedReceive* receive = list.first; receive != nullptr; receive = receive->next)
            if (receive->cookie.context == context &&
                (!receive->is_multi() || receive->messages == 0)) {
                take_out(*receive);
                return receive;
            }
    return nullptr;
}

void ReceiveQueue::know(std::vector<Twin> twins) noexcept {
    if (twins.empty() && twins_.empty()) return;
    twins_ = std::move(twins);
    for (auto& list : posted_)
        for (PostedReceive* receive = list.first; receive != nullptr; receive = receive->next)
            receive->from = number_of(receive->asked_from);
}

Peer ReceiveQueue::number_of_twin(Peer peer) const noexcept {
    const auto found =
        std::lower_bound(twins_.begin(), twins_.end(), peer,
                         [](const Twin& twin, Peer wanted) { return twin.peer < wanted; });
    return found != twins_.end() && found->peer == peer ? found->lowest : peer;
}

UnexpectedMessage* ReceiveQueue::find_claimed(const void* context) noexcept {
    if (context == nullptr) return nullptr;
    for (auto& list : unexpected_)
        for (UnexpectedMessage* message = list.first; message != nullptr; message = message->next)
            if (message->claimed_by == context) return message;
    return nullptr;
}

UnexpectedMessage& ReceiveQueue::add(const UnexpectedMessage& message) {
    UnexpectedMessage& added = messages_.take();
    added = message;
    unexpected(added.space).append(added);
    ++unexpected_count_;
    return added;
}

void ReceiveQueue::remove(UnexpectedMessage& message) noexcept {
    unexpected(message.space).unlink(message);
    --unexpected_count_;
    messages_.give(message);
}

}  // namespace via::mvich
