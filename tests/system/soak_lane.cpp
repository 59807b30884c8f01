// SPDX-License-Identifier: BSD-3-Clause
// How a VI of the soak keeps to its plan, and what it says when it finds that the other did not.
#include "system/soak_lane.hpp"

#include <algorithm>
#include <sstream>

#include "system/soak_failure.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t descriptor_area_bytes = 768U << 10;
constexpr const char* area_names[] = {"outgoing", "landing", "receiving", "window", "source"};
constexpr const char* kind_names[] = {"send", "RDMA write", "RDMA read"};

}  // namespace

Lane::Lane(Nic& nic, const ViOptions& options, std::uint32_t number, Random& random)
    : number_(number),
      send_cq_(options.send_cq),
      recv_cq_(options.recv_cq),
      level_(options.level),
      reads_(nic.reads_at(options.level)),
      most_segments_(static_cast<std::uint32_t>(nic.attributes().MaxSegmentsPerDesc)),
      descriptors_(nic, options.tag, descriptor_area_bytes, random.one_in(2), 0, 1) {
    for (std::uint32_t name = 0; name < area_count; ++name)
        areas_[name] =
            std::make_unique<Area>(nic, options.tag, area_bytes, random.one_in(2),
                                   random.one_in(2) ? random.below(64) : 0, random.next());
    vi_.emplace(nic, options);
}

Exposed Lane::exposed() const {
    return {{areas_[Window]->at(0), areas_[Window]->handle()},
            {areas_[Source]->at(0), areas_[Source]->handle()}};
}

void Lane::prepare(std::uint64_t own_seed, std::uint64_t peer_seed) {
    outgoing_ = Planner(own_seed, reads_, most_segments_).draw();
    incoming_ = Planner(peer_seed, reads_, most_segments_).draw();
    posted_ = sent_ = received_ = 0;
    descriptor_bytes_ = 0;
    sends_.clear();
    receives_.clear();
    consumers_.clear();
    for (auto& extents : extents_)
        extents.clear();
    for (const Step& step : outgoing_)
        keep(step.local_area, step.extents(step.local), step.local_area == Out);
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
        const Step& step = incoming_[i];
        if (step.kind == Kind::Send) keep(In, step.extents(step.receive), false);
        if (step.kind == Kind::Write) keep(Window, {step.remote_extent()}, false);
        if (step.kind == Kind::Read) keep(Source, {step.remote_extent()}, true);
        if (step.consumes) consumers_.push_back(i);
    }
    writes_checked_ = 0;
    for (const std::size_t i : consumers_) {
        const auto segments = segments_in(In, incoming_[i].receive);
        VIP_DESCRIPTOR* descriptor = new_descriptor(segments.size());
        fill(descriptor, segments);
        receives_.push_back(descriptor);
        expect(VIP_SUCCESS, VipPostRecv(*vi_, descriptor, descriptors_.handle()),
               name() + "VipPostRecv");
    }
}

void Lane::post_next() {
    const Step& step = outgoing_[posted_];
    const auto segments = segments_in(step.local_area, step.local);
    VIP_DESCRIPTOR* descriptor = new_descriptor(segments.size() + 1);
    const unsigned control =
        (step.immediate ? VIP_CONTROL_IMMEDIATE : 0U) | (step.fenced ? VIP_CONTROL_QFENCE : 0U);
    if (step.kind == Kind::Send) {
        fill(descriptor, segments, control);
    } else {
        const bool read = step.kind == Kind::Read;
        const Remote& target = read ? peer_.source : peer_.window;
        fill_rdma(descriptor,
                  {static_cast<const std::byte*>(target.data) + step.remote, target.handle},
                  segments, control | (read ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE));
    }
    descriptor->CS.ImmediateData = step.immediate_data;
    sends_.push_back(descriptor);
    ++posted_;
    expect(VIP_SUCCESS, VipPostSend(*vi_, descriptor, descriptors_.handle()),
           sending(posted_ - 1) + "VipPostSend");
}

void Lane::take_send(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor) {
    if (!sends_pending()) stop(name() + "a send completed that was not posted");
    const std::string what = sending(sent_);
    const Step& step = outgoing_[sent_];
    static constexpr std::uint32_t operations[] = {VIP_STATUS_OP_SEND, VIP_STATUS_OP_RDMA_WRITE,
                                                   VIP_STATUS_OP_RDMA_READ};
    check_completion(code, descriptor, sends_[sent_],
                     operations[static_cast<std::size_t>(step.kind)], step.bytes, what);
    if (step.kind == Kind::Read)
        for (const Extent& extent : step.extents(step.local))
            areas_[Landing]->check(extent, what);
    ++sent_;
}

void Lane::take_receive(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor) {
    if (!receives_pending()) stop(name() + "a receive completed that was not posted");
    const std::size_t number = consumers_[received_];
    const Step& step = incoming_[number];
    const std::string what = receiving(number);
    const bool write = step.kind == Kind::Write;
    check_completion(code, descriptor, receives_[received_],
                     (write ? VIP_STATUS_OP_REMOTE_RDMA_WRITE : VIP_STATUS_OP_RECEIVE) |
                         (step.immediate ? VIP_STATUS_IMMEDIATE : 0U),
                     step.bytes, what);
    if (step.immediate && descriptor->CS.ImmediateData != step.immediate_data)
        stop(what + "the immediate data are wrong");
    if (!write)
        for (const Extent& extent : step.extents(step.receive))
            areas_[In]->check(extent, what);
    // What was written before it is there, too.
    for (; writes_checked_ <= number; ++writes_checked_)
        if (incoming_[writes_checked_].kind == Kind::Write)
            areas_[Window]->check(incoming_[writes_checked_].remote_extent(),
                                  receiving(writes_checked_));
    ++received_;
}

bool Lane::poll_send() {
    if (!sends_pending()) return false;
    VIP_DESCRIPTOR* descriptor = nullptr;
    const VIP_RETURN code = VipSendDone(*vi_, &descriptor);
    if (code == VIP_NOT_DONE) return false;
    take_send(code, descriptor);
    return true;
}

bool Lane::poll_receive() {
    if (!receives_pending()) return false;
    VIP_DESCRIPTOR* descriptor = nullptr;
    const VIP_RETURN code = VipRecvDone(*vi_, &descriptor);
    if (code == VIP_NOT_DONE) return false;
    take_receive(code, descriptor);
    return true;
}

void Lane::wait_send() {
    VIP_DESCRIPTOR* descriptor = nullptr;
    const VIP_RETURN code = VipSendWait(*vi_, patience_ms, &descriptor);
    take_send(code, descriptor);
}

void Lane::wait_receive() {
    VIP_DESCRIPTOR* descriptor = nullptr;
    const VIP_RETURN code = VipRecvWait(*vi_, patience_ms, &descriptor);
    take_receive(code, descriptor);
}

void Lane::check_and_restore(bool whole) {
    for (std::uint32_t name_of_area = 0; name_of_area < area_count; ++name_of_area) {
        areas_[name_of_area]->check_all(extents_[name_of_area], whole,
                                        name() + "the " + area_names[name_of_area] + " area");
        areas_[name_of_area]->restore(extents_[name_of_area]);
    }
    if (vi_->state() != VIP_STATE_CONNECTED) stop(name() + "not connected any more");
}

std::string Lane::standing() const {
    std::ostringstream text;
    text << name() << posted_ << " of " << outgoing_.size() << " posted, " << sent_ << " complete, "
         << received_ << " of " << receives_.size() << " received";
    if (sends_pending()) text << "; next: " << sending(sent_);
    if (receives_pending()) text << "; next: " << receiving(consumers_[received_]);
    return text.str();
}

void Lane::keep(AreaName area, std::vector<Extent> extents, bool fill_now) {
    for (const Extent& extent : extents) {
        if (extent.piece.bytes == 0) continue;
        if (fill_now) areas_[area]->put(extent);
        // What was read and goes back is in the list once.
        const bool known = area == Landing && !extents_[Landing].empty() &&
                           std::any_of(extents_[Landing].begin(), extents_[Landing].end(),
                                       [&](const Extent& other) {
                                           return other.piece.offset == extent.piece.offset;
                                       });
        if (!known) extents_[area].push_back(extent);
    }
}

std::vector<Segment> Lane::segments_in(AreaName area, const std::vector<Piece>& pieces) const {
    std::vector<Segment> result;
    for (const Piece& piece : pieces)
        result.push_back({areas_[area]->at(piece.offset), areas_[area]->handle(), piece.bytes});
    return result;
}

VIP_DESCRIPTOR* Lane::new_descriptor(std::size_t segments) {
    const auto bytes = static_cast<std::uint32_t>(sizeof(VIP_CONTROL_SEGMENT) +
                                                  std::max<std::size_t>(2, segments) *
                                                      sizeof(VIP_DESCRIPTOR_SEGMENT));
    if (descriptor_bytes_ + bytes > descriptor_area_bytes) stop("too many descriptors");
    auto* result = reinterpret_cast<VIP_DESCRIPTOR*>(descriptors_.at(descriptor_bytes_));
    descriptor_bytes_ += (bytes + VIP_DESCRIPTOR_ALIGNMENT - 1) / VIP_DESCRIPTOR_ALIGNMENT *
                         VIP_DESCRIPTOR_ALIGNMENT;
    return result;
}

void Lane::check_completion(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor,
                            const VIP_DESCRIPTOR* wanted, std::uint32_t status, std::uint32_t bytes,
                            const std::string& what) {
    if (descriptor != wanted) stop(what + "another descriptor completed: " + VipxReturnName(code));
    std::ostringstream text;
    text << what << VipxReturnName(code) << ", status 0x" << std::hex << descriptor->CS.Status
         << std::dec << ", length " << descriptor->CS.Length << ", not status 0x" << std::hex
         << (status | VIP_STATUS_DONE) << std::dec << ", length " << bytes;
    if (code != VIP_SUCCESS || descriptor->CS.Status != (status | VIP_STATUS_DONE) ||
        descriptor->CS.Length != bytes)
        stop(text.str());
}

std::string Lane::name() const {
    return "VI " + std::to_string(number_) + " (" + level_name(level_) + "): ";
}

std::string Lane::describe(const Step& step, std::size_t number,
                           const std::vector<Piece>& pieces) const {
    std::ostringstream text;
    text << name() << kind_names[static_cast<std::size_t>(step.kind)] << " " << number << " of "
         << step.bytes << " bytes in " << pieces.size() << " segments"
         << (step.immediate ? ", immediate" : "") << (step.fenced ? ", fenced" : "") << ": ";
    return text.str();
}

std::string Lane::sending(std::size_t number) const {
    return describe(outgoing_[number], number, outgoing_[number].local);
}

std::string Lane::receiving(std::size_t number) const {
    return "coming in on " + describe(incoming_[number], number, incoming_[number].receive);
}

}  // namespace via::test
