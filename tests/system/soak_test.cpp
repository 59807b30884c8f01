// SPDX-License-Identifier: BSD-3-Clause
// The soak: two processes exchange seeded messages and RDMA on several VIs, both ways at once, and
// look at every byte, those around the targets too.
//
// A round is a plan that both processes draw from the same random numbers: who sends what from
// which pieces, where it has to arrive. All memory is a pattern of its place before the round;
// after it, it is what the plan says or still that pattern.
//
//   SOAK_SEED    another plan; --gtest_random_seed does the same. A failure names it.
//   SOAK_ROUNDS  how many rounds (default below). Each takes some 20 ms: 200000 soak an hour.
//
// VIA_SHM_PATH and the like choose the way data takes; CMakeLists.txt registers one test for each.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "na/seeded.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t default_rounds = 160;
constexpr std::uint32_t rounds_of_a_session = 20;
constexpr std::uint32_t area_bytes = 3U << 20;
constexpr std::uint32_t longest_message = 2U << 20;
constexpr std::uint32_t descriptor_area_bytes = 768U << 10;
constexpr std::size_t most_outstanding = 64;

// ---- Bytes ------------------------------------------------------------------------------------

std::uint64_t pattern_word(std::uint64_t stream, std::uint64_t n) {
    std::uint64_t mixed = (n + 1) * 0x9E3779B97F4A7C15ULL + stream;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL;
    return mixed ^ (mixed >> 32);
}

/// How many bytes of the stream's word at `place` are wanted there.
std::size_t piece_at(std::uint64_t place, std::size_t left) {
    const std::size_t whole = 8 - place % 8;  // no std::min: this is called for every word
    return whole < left ? whole : left;
}

/// Bytes [first, first + bytes) of a stream.
void write_stream(std::byte* to, std::size_t bytes, std::uint64_t stream, std::uint64_t first) {
    std::uint64_t word = 0;
    for (std::size_t at = 0, piece = 0; at < bytes; at += piece) {
        const std::uint64_t place = first + at;
        piece = piece_at(place, bytes - at);
        word = pattern_word(stream, place / 8) >> (8 * (place % 8));
        if (piece == 8)
            std::memcpy(to + at, &word, 8);
        else
            std::memcpy(to + at, &word, piece);
    }
}

/// How many bytes are right before the first that is not.
std::size_t right_bytes(const std::byte* from, std::size_t bytes, std::uint64_t stream,
                        std::uint64_t first) {
    std::uint64_t seen = 0;
    for (std::size_t at = 0, piece = 0; at < bytes; at += piece) {
        const std::uint64_t place = first + at;
        piece = piece_at(place, bytes - at);
        seen = 0;
        if (piece == 8)
            std::memcpy(&seen, from + at, 8);
        else
            std::memcpy(&seen, from + at, piece);
        const std::uint64_t mask = piece == 8 ? ~0ULL : (1ULL << (8 * piece)) - 1;
        const std::uint64_t word = pattern_word(stream, place / 8) >> (8 * (place % 8));
        const std::uint64_t wrong = (seen ^ word) & mask;
        if (wrong != 0) return at + static_cast<std::size_t>(std::countr_zero(wrong)) / 8;
    }
    return bytes;
}

// ---- The plan of one direction of one VI -------------------------------------------------------

/// What an area of memory is for. The first two belong to the initiator, the others to the target.
enum AreaName : std::uint32_t { Out, Landing, In, Window, Source, area_count };
constexpr const char* area_names[] = {"outgoing", "landing", "receiving", "window", "source"};

struct Piece {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
};
/// Bytes that have to be at one place of an area.
struct Extent {
    Piece piece;
    std::uint64_t stream = 0;
    std::uint64_t first = 0;
};

enum class Kind { Send, Write, Read };
constexpr const char* kind_names[] = {"send", "RDMA write", "RDMA read"};

struct Step {
    Kind kind = Kind::Send;
    bool immediate = false;
    bool fenced = false;
    std::uint32_t immediate_data = 0;
    std::uint32_t bytes = 0;
    std::uint64_t stream = 0;
    AreaName local_area = Out;
    std::vector<Piece> local;
    std::uint32_t remote = 0;  ///< offset in the target's window or source
    bool consumes = false;     ///< a receive
    std::vector<Piece> receive;

    [[nodiscard]] std::vector<Extent> extents(const std::vector<Piece>& pieces) const {
        std::vector<Extent> result;
        std::uint32_t put = 0;
        for (const Piece& piece : pieces) {
            const std::uint32_t here = std::min(piece.bytes, bytes - put);
            if (here != 0) result.push_back({{piece.offset, here}, stream, put});
            put += here;
        }
        return result;
    }
    [[nodiscard]] Extent remote_extent() const { return {{remote, bytes}, stream, 0}; }
};

std::uint32_t choose_bytes(Random& random) {
    static constexpr std::uint32_t small_edges[] = {
        0,    1,    2,    3,     4,     7,     8,     9,     15,    16,   17,   22,
        23,   24,   37,   38,    39,    52,    53,    54,    55,    56,   57,   63,
        64,   65,   127,  128,   129,   255,   256,   257,   1000,  4095, 4096, 4097,
        8191, 8192, 8193, 16383, 16384, 16385, 32768, 65535, 65536, 65537};
    static constexpr std::uint32_t large_edges[] = {
        131071, 131072, 131073, 262144, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, longest_message};
    const std::uint32_t way = random.below(16);
    if (way < 8) return small_edges[random.below(std::size(small_edges))];
    if (way == 8) return large_edges[random.below(std::size(large_edges))];
    if (way == 9) return random.below(longest_message + 1) >> random.below(8);
    return random.below((2U << random.below(17)));
}

class Planner {
  public:
    Planner(std::uint64_t seed, bool reads, std::uint32_t most_segments)
        : random_(seed), stream_(seed << 16), reads_(reads), most_segments_(most_segments) {
        for (std::uint32_t& used : used_)
            used = random_.below(200);
    }

    std::vector<Step> draw() {
        const std::uint32_t wanted = random_.one_in(4) ? random_.below(4) : random_.below(48);
        while (steps_.size() < wanted && add_one()) {
        }
        // The last message tells that everything before it has been done.
        Step last = begin(Kind::Send, random_.below(100));
        last.fenced = true;
        finish(std::move(last));
        return std::move(steps_);
    }

  private:
    /// Some room is kept for the last message.
    [[nodiscard]] bool fits(std::uint32_t bytes) const {
        return *std::max_element(used_.begin(), used_.end()) + bytes + (64U << 10) < area_bytes;
    }

    bool add_one() {
        const auto kind = static_cast<Kind>(random_.below(reads_ ? 5 : 4) / 2);
        std::uint32_t bytes = choose_bytes(random_);
        // A larger receive, the gaps between up to 252 pieces.
        if (!fits(2 * bytes)) bytes = random_.below(100);
        if (!fits(2 * bytes)) return false;
        Step step = begin(kind, bytes);
        if (kind != Kind::Read) {
            step.immediate = random_.one_in(3);
            step.fenced = random_.one_in(8);
            finish(std::move(step));
            return true;
        }
        step.local_area = Landing;
        Step relayed = step;
        finish(std::move(step));
        if (!random_.one_in(3)) return true;
        // What was read goes back at once; the fence makes that right.
        relayed.kind = random_.one_in(2) ? Kind::Send : Kind::Write;
        relayed.fenced = true;
        relayed.immediate = random_.one_in(2);
        relayed.local = steps_.back().local;
        finish(std::move(relayed));
        return true;
    }

    [[nodiscard]] Step begin(Kind kind, std::uint32_t bytes) {
        Step step;
        step.kind = kind;
        step.bytes = bytes;
        step.stream = ++stream_;
        step.immediate_data = static_cast<std::uint32_t>(random_.next());
        return step;
    }

    void finish(Step&& step) {
        const std::uint32_t most = most_segments_ - (step.kind == Kind::Send ? 0 : 1);
        if (step.local.empty()) step.local = cut(step.local_area, step.bytes, most);
        if (step.kind == Kind::Write) step.remote = take(Window, step.bytes);
        if (step.kind == Kind::Read) step.remote = take(Source, step.bytes);
        step.consumes = step.kind == Kind::Send || (step.kind == Kind::Write && step.immediate);
        if (step.consumes) {
            std::uint32_t room = step.kind == Kind::Send ? step.bytes : random_.below(64);
            if (random_.one_in(3)) room += random_.below(random_.one_in(4) ? 5000 : 10);
            step.receive = cut(In, room, most_segments_);
        }
        steps_.push_back(std::move(step));
    }

    std::uint32_t take(AreaName area, std::uint32_t bytes) {
        std::uint32_t offset = used_[area] + random_.between(1, 40);
        if (random_.one_in(3)) offset = (offset + 63) / 64 * 64;
        if (bytes > 4096 && random_.one_in(4)) offset = (offset + 4095) / 4096 * 4096;
        used_[area] = offset + bytes;
        return offset;
    }

    /// So many bytes in pieces, some of them empty, that lie in any order.
    std::vector<Piece> cut(AreaName area, std::uint32_t bytes, std::uint32_t most) {
        std::uint32_t count = random_.below(33);
        if (random_.one_in(3)) count = 1;
        if (random_.one_in(12)) count = random_.between(33, most);
        if (random_.one_in(40)) count = most;
        if (count == 0 && bytes != 0) count = 1;
        std::vector<Piece> pieces(count);
        if (count == 0) return pieces;
        std::vector<std::uint32_t> cuts{0, bytes};
        while (cuts.size() < count + 1)
            cuts.push_back(random_.below(bytes + 1));
        std::sort(cuts.begin(), cuts.end());
        std::vector<std::uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0U);
        for (std::uint32_t i = count - 1; i > 0; --i)
            std::swap(order[i], order[random_.below(i + 1)]);
        for (const std::uint32_t i : order) {
            pieces[i].bytes = cuts[i + 1] - cuts[i];
            pieces[i].offset = take(area, pieces[i].bytes);
        }
        return pieces;
    }

    Random random_;
    std::uint64_t stream_;
    bool reads_;
    std::uint32_t most_segments_;
    std::array<std::uint32_t, area_count> used_{};
    std::vector<Step> steps_;
};

// ---- One process ------------------------------------------------------------------------------

struct Soak {
    std::uint64_t seed = 1;
    std::uint32_t rounds = 0;
};

[[noreturn]] void stop(const std::string& what) {
    throw std::runtime_error(what);
}

void expect(VIP_RETURN wanted, VIP_RETURN got, const std::string& what) {
    if (wanted != got) stop(what + " returned " + VipxReturnName(got) + ": " + VipxErrorText());
}

/// Registered memory whose every byte is known.
class Area {
  public:
    Area(Nic& nic, VIP_PROTECTION_HANDLE tag, std::uint32_t bytes, bool kmem, std::uint32_t shift,
         std::uint64_t canary)
        : nic_(nic), bytes_(bytes), kmem_(kmem), canary_(canary) {
        VIP_MEM_ATTRIBUTES attributes{};
        attributes.Ptag = tag;
        attributes.EnableRdmaWrite = VIP_TRUE;
        attributes.EnableRdmaRead = VIP_TRUE;
        if (kmem) {
            VIP_PVOID address = nullptr;
            expect(VIP_SUCCESS, VipxAllocMem(nic, bytes, &attributes, &address, &handle_),
                   "VipxAllocMem");
            base_ = static_cast<std::byte*>(address);
        } else {
            heap_ = std::make_unique<std::byte[]>(bytes + 64 + shift);
            const auto start = reinterpret_cast<std::uintptr_t>(heap_.get());
            base_ = heap_.get() + ((start + 63) / 64 * 64 - start) + shift;
            expect(VIP_SUCCESS, VipRegisterMem(nic, base_, bytes, &attributes, &handle_),
                   "VipRegisterMem");
        }
        write_stream(base_, bytes_, canary_, 0);
    }
    Area(const Area&) = delete;
    Area& operator=(const Area&) = delete;
    ~Area() {
        if (kmem_) {
            EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, base_, handle_));
        } else {
            EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, base_, handle_));
        }
    }

    [[nodiscard]] std::byte* at(std::uint32_t offset) const { return base_ + offset; }
    [[nodiscard]] VIP_MEM_HANDLE handle() const { return handle_; }

    void put(const Extent& extent) const {
        write_stream(at(extent.piece.offset), extent.piece.bytes, extent.stream, extent.first);
    }
    void check(const Extent& extent, const std::string& what) const {
        const auto [offset, bytes] = extent.piece;
        const std::size_t right = right_bytes(at(offset), bytes, extent.stream, extent.first);
        if (right == bytes) return;
        std::ostringstream text;
        text << what << ": byte " << extent.first + right << " of the message (byte " << right
             << " of a piece of " << bytes << " at offset " << offset << ") is wrong";
        const std::size_t canary =
            right_bytes(at(offset) + right, bytes - right, canary_, offset + right);
        if (canary >= 8 || right + canary == bytes) text << "; nothing has been written there";
        stop(text.str());
    }
    /// Everything is as it was but for the extents; behind them only a page is looked at unless the
    /// whole area is asked for.
    void check_all(std::vector<Extent> extents, bool whole, const std::string& what) const {
        std::sort(extents.begin(), extents.end(), [](const Extent& left, const Extent& right) {
            return left.piece.offset < right.piece.offset;
        });
        std::uint32_t next = 0;
        const auto check_gap = [&](std::uint32_t end) {
            const std::size_t right = right_bytes(at(next), end - next, canary_, next);
            if (right != end - next)
                stop(what + ": the byte at offset " + std::to_string(next + right) +
                     ", which belongs to nobody, was written");
        };
        for (const Extent& extent : extents) {
            check_gap(extent.piece.offset);
            check(extent, what);
            next = extent.piece.offset + extent.piece.bytes;
        }
        check_gap(whole ? bytes_ : std::min(bytes_, next + 4096));
    }
    void restore(const std::vector<Extent>& extents) const {
        for (const Extent& extent : extents)
            write_stream(at(extent.piece.offset), extent.piece.bytes, canary_, extent.piece.offset);
    }

  private:
    Nic& nic_;
    std::uint32_t bytes_;
    bool kmem_;
    std::uint64_t canary_;
    std::unique_ptr<std::byte[]> heap_;
    std::byte* base_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
};

/// Where the peer may write and read.
struct Exposed {
    Remote window;
    Remote source;
};

/// One VI of one process: what it initiates, what comes in.
class Lane {
  public:
    Lane(Nic& nic, const ViOptions& options, std::uint32_t number, Random& random)
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

    [[nodiscard]] Vi& vi() { return *vi_; }
    [[nodiscard]] VIP_CQ_HANDLE send_cq() const { return send_cq_; }
    [[nodiscard]] VIP_CQ_HANDLE recv_cq() const { return recv_cq_; }
    [[nodiscard]] Exposed exposed() const {
        return {{areas_[Window]->at(0), areas_[Window]->handle()},
                {areas_[Source]->at(0), areas_[Source]->handle()}};
    }
    void know_peer(const Exposed& exposed) { peer_ = exposed; }

    /// Draws both plans, fills what will be sent and read, posts all receives.
    void prepare(std::uint64_t own_seed, std::uint64_t peer_seed) {
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

    [[nodiscard]] bool all_posted() const { return posted_ == outgoing_.size(); }
    [[nodiscard]] bool sends_pending() const { return sent_ != posted_; }
    [[nodiscard]] bool receives_pending() const { return received_ != receives_.size(); }
    [[nodiscard]] bool done() const {
        return all_posted() && !sends_pending() && !receives_pending();
    }
    [[nodiscard]] bool can_post() const {
        return !all_posted() && posted_ - sent_ < most_outstanding;
    }

    void post_next() {
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
                      segments,
                      control | (read ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE));
        }
        descriptor->CS.ImmediateData = step.immediate_data;
        sends_.push_back(descriptor);
        ++posted_;
        expect(VIP_SUCCESS, VipPostSend(*vi_, descriptor, descriptors_.handle()),
               sending(posted_ - 1) + "VipPostSend");
    }

    void take_send(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor) {
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

    void take_receive(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor) {
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

    bool poll_send() {
        if (!sends_pending()) return false;
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendDone(*vi_, &descriptor);
        if (code == VIP_NOT_DONE) return false;
        take_send(code, descriptor);
        return true;
    }
    bool poll_receive() {
        if (!receives_pending()) return false;
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvDone(*vi_, &descriptor);
        if (code == VIP_NOT_DONE) return false;
        take_receive(code, descriptor);
        return true;
    }
    void wait_send() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendWait(*vi_, patience_ms, &descriptor);
        take_send(code, descriptor);
    }
    void wait_receive() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvWait(*vi_, patience_ms, &descriptor);
        take_receive(code, descriptor);
    }

    void check_and_restore(bool whole) {
        for (std::uint32_t name_of_area = 0; name_of_area < area_count; ++name_of_area) {
            areas_[name_of_area]->check_all(extents_[name_of_area], whole,
                                            name() + "the " + area_names[name_of_area] + " area");
            areas_[name_of_area]->restore(extents_[name_of_area]);
        }
        if (vi_->state() != VIP_STATE_CONNECTED) stop(name() + "not connected any more");
    }

    /// What has not happened yet, for a message about a wait that was too long.
    [[nodiscard]] std::string standing() const {
        std::ostringstream text;
        text << name() << posted_ << " of " << outgoing_.size() << " posted, " << sent_
             << " complete, " << received_ << " of " << receives_.size() << " received";
        if (sends_pending()) text << "; next: " << sending(sent_);
        if (receives_pending()) text << "; next: " << receiving(consumers_[received_]);
        return text.str();
    }

  private:
    void keep(AreaName area, std::vector<Extent> extents, bool fill_now) {
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
    [[nodiscard]] std::vector<Segment> segments_in(AreaName area,
                                                   const std::vector<Piece>& pieces) const {
        std::vector<Segment> result;
        for (const Piece& piece : pieces)
            result.push_back({areas_[area]->at(piece.offset), areas_[area]->handle(), piece.bytes});
        return result;
    }
    VIP_DESCRIPTOR* new_descriptor(std::size_t segments) {
        const auto bytes = static_cast<std::uint32_t>(sizeof(VIP_CONTROL_SEGMENT) +
                                                      std::max<std::size_t>(2, segments) *
                                                          sizeof(VIP_DESCRIPTOR_SEGMENT));
        if (descriptor_bytes_ + bytes > descriptor_area_bytes) stop("too many descriptors");
        auto* result = reinterpret_cast<VIP_DESCRIPTOR*>(descriptors_.at(descriptor_bytes_));
        descriptor_bytes_ += (bytes + VIP_DESCRIPTOR_ALIGNMENT - 1) / VIP_DESCRIPTOR_ALIGNMENT *
                             VIP_DESCRIPTOR_ALIGNMENT;
        return result;
    }
    static void check_completion(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor,
                                 const VIP_DESCRIPTOR* wanted, std::uint32_t status,
                                 std::uint32_t bytes, const std::string& what) {
        if (descriptor != wanted)
            stop(what + "another descriptor completed: " + VipxReturnName(code));
        std::ostringstream text;
        text << what << VipxReturnName(code) << ", status 0x" << std::hex << descriptor->CS.Status
             << std::dec << ", length " << descriptor->CS.Length << ", not status 0x" << std::hex
             << (status | VIP_STATUS_DONE) << std::dec << ", length " << bytes;
        if (code != VIP_SUCCESS || descriptor->CS.Status != (status | VIP_STATUS_DONE) ||
            descriptor->CS.Length != bytes)
            stop(text.str());
    }
    [[nodiscard]] std::string name() const {
        return "VI " + std::to_string(number_) + " (" + level_name(level_) + "): ";
    }
    [[nodiscard]] std::string describe(const Step& step, std::size_t number,
                                       const std::vector<Piece>& pieces) const {
        std::ostringstream text;
        text << name() << kind_names[static_cast<std::size_t>(step.kind)] << " " << number << " of "
             << step.bytes << " bytes in " << pieces.size() << " segments"
             << (step.immediate ? ", immediate" : "") << (step.fenced ? ", fenced" : "") << ": ";
        return text.str();
    }
    [[nodiscard]] std::string sending(std::size_t number) const {
        return describe(outgoing_[number], number, outgoing_[number].local);
    }
    [[nodiscard]] std::string receiving(std::size_t number) const {
        return "coming in on " + describe(incoming_[number], number, incoming_[number].receive);
    }

    std::uint32_t number_;
    VIP_CQ_HANDLE send_cq_;
    VIP_CQ_HANDLE recv_cq_;
    VIP_RELIABILITY_LEVEL level_;
    bool reads_;
    std::uint32_t most_segments_;
    Area descriptors_;
    std::array<std::unique_ptr<Area>, area_count> areas_;
    std::optional<Vi> vi_;  // its memory outlives it
    Exposed peer_;

    std::vector<Step> outgoing_;
    std::vector<Step> incoming_;
    std::vector<std::size_t> consumers_;  ///< the incoming steps that take a receive
    std::array<std::vector<Extent>, area_count> extents_;
    std::uint32_t descriptor_bytes_ = 0;
    std::vector<VIP_DESCRIPTOR*> sends_;
    std::vector<VIP_DESCRIPTOR*> receives_;
    std::size_t posted_ = 0;
    std::size_t sent_ = 0;
    std::size_t received_ = 0;
    std::size_t writes_checked_ = 0;
};

/// Lanes that one thread looks after, together with all lanes of their completion queues.
class Worker {
  public:
    void add(Lane& lane) {
        lanes_.push_back(&lane);
        for (const VIP_CQ_HANDLE cq : {lane.send_cq(), lane.recv_cq()})
            if (cq != nullptr) queues_.insert(cq);
    }
    void add(const Worker& other) {
        for (Lane* lane : other.lanes_)
            add(*lane);
    }

    void run(std::uint64_t seed, bool blocking) {
        Random random(seed);
        const auto deadline = Clock::now() + patience;
        const bool greedy = random.one_in(2);
        for (unsigned turn = 0;; ++turn) {
            bool moved = false;
            bool all_posted = true;
            bool done = true;
            for (Lane* lane : lanes_) {
                std::uint32_t posts = greedy ? most_outstanding : random.below(4);
                for (; posts != 0 && lane->can_post(); --posts) {
                    lane->post_next();
                    moved = true;
                }
                if (lane->send_cq() == nullptr) moved |= lane->poll_send();
                if (lane->recv_cq() == nullptr) moved |= lane->poll_receive();
                all_posted = all_posted && lane->all_posted();
                done = done && lane->done();
            }
            if (done) return;
            for (const VIP_CQ_HANDLE cq : queues_) {
                VIP_VI_HANDLE vi = nullptr;
                VIP_BOOLEAN receive = VIP_FALSE;
                const VIP_RETURN code = VipCQDone(cq, &vi, &receive);
                if (code == VIP_NOT_DONE) continue;
                expect(VIP_SUCCESS, code, "VipCQDone");
                dispatch(vi, receive != VIP_FALSE);
                moved = true;
            }
            // Whoever waits for a receive must have sent what the other may be waiting for.
            if (!moved && blocking) block(random, all_posted);
            if (turn % 64 == 63) {
                if (Clock::now() > deadline) stop("too slow: " + standing());
                sched_yield();
            }
        }
    }

  private:
    void dispatch(VIP_VI_HANDLE vi, bool receive) {
        for (Lane* lane : lanes_) {
            if (static_cast<VIP_VI_HANDLE>(lane->vi()) != vi) continue;
            if (!(receive ? lane->poll_receive() : lane->poll_send()))
                stop("a completion queue told of a descriptor that is not done: " + standing());
            return;
        }
        stop("a completion queue told of a VI that is not its own");
    }

    void block(Random& random, bool all_posted) {
        const std::size_t first = random.below(static_cast<std::uint32_t>(lanes_.size()));
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            Lane& lane = *lanes_[(first + i) % lanes_.size()];
            const bool receives = lane.receives_pending() && all_posted;
            const bool receive_first = random.one_in(2);
            if (receives && (receive_first || !lane.sends_pending()))
                return wait(lane, lane.recv_cq(), true);
            if (lane.sends_pending()) return wait(lane, lane.send_cq(), false);
        }
    }
    void wait(Lane& lane, VIP_CQ_HANDLE cq, bool receive) {
        if (cq == nullptr) return receive ? lane.wait_receive() : lane.wait_send();
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN code = VipCQWait(cq, patience_ms, &vi, &is_receive);
        if (code != VIP_SUCCESS)
            stop(std::string("VipCQWait: ") + VipxReturnName(code) + ": " + standing());
        dispatch(vi, is_receive != VIP_FALSE);
    }
    [[nodiscard]] std::string standing() const {
        std::string text;
        for (const Lane* lane : lanes_)
            text += "\n  " + lane->standing();
        return text;
    }

    std::vector<Lane*> lanes_;
    std::set<VIP_CQ_HANDLE> queues_;
};

class Queue {
  public:
    Queue(Nic& nic, VIP_ULONG entries) {
        expect(VIP_SUCCESS, VipCreateCQ(nic, entries, &handle_), "VipCreateCQ");
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue() { EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(handle_)); }
    [[nodiscard]] VIP_CQ_HANDLE get() const { return handle_; }

  private:
    VIP_CQ_HANDLE handle_ = nullptr;
};

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0,
                      std::uint64_t c = 0) {
    Random random(seed);
    for (const std::uint64_t part : {a, b, c})
        random = Random(random.next() + part);
    return random.next();
}

/// One process with its VIs, from the first connection to the last round.
class Session {
  public:
    Session(const Soak& soak, std::uint32_t number, bool server, Link& link)
        : seed_(seed_of(soak.seed, number)), server_(server), link_(link) {
        // What the ends must agree on, then what is this end's own affair.
        Random agreed(seed_);
        const std::uint32_t vis = agreed.between(3, 6);
        const std::uint32_t first_level = agreed.below(3);
        Random own(seed_of(seed_, server ? 1 : 2));
        const bool one_tag = own.one_in(2);
        VIP_PROTECTION_HANDLE tag = make_tag(nic_);
        for (std::uint32_t i = 0; i < vis; ++i) {
            if (!one_tag && i != 0) tag = make_tag(nic_);
            static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                               reliable_reception};
            ViOptions options{.level = levels[(first_level + i) % 3], .tag = tag};
            attach_queues(options, own);
            lanes_.push_back(std::make_unique<Lane>(nic_, options, i, own));
        }
        for (auto& lane : lanes_)
            connect(*lane);
        make_workers();
    }

    void run(std::uint32_t number, bool last) {
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            const std::uint64_t up = seed_of(seed_, 10 + number, i, 1);
            const std::uint64_t down = seed_of(seed_, 10 + number, i, 2);
            lanes_[i]->prepare(server_ ? up : down, server_ ? down : up);
        }
        link_.meet();
        Random own(seed_of(seed_, 10 + number, 1000, server_ ? 1 : 2));
        const bool threads = own.one_in(2);
        const bool blocking = own.one_in(2);
        if (threads) {
            run_threads(own, blocking);
        } else {
            Worker all;
            for (const Worker& worker : workers_)
                all.add(worker);
            all.run(own.next(), blocking);
        }
        link_.meet();
        for (auto& lane : lanes_)
            lane->check_and_restore(last);
        if (nic_.errors().count() != 0) stop("an asynchronous error was raised");
    }

  private:
    void attach_queues(ViOptions& options, Random& own) {
        // None, its own for receives, its own for both, the common one for receives or both.
        const std::uint32_t way = own.below(5);
        if (way == 0) return;
        if (way >= 3 && !common_) common_.emplace(nic_, own.one_in(2) ? 4 : 1024);
        if (way < 3) queues_.push_back(std::make_unique<Queue>(nic_, own.one_in(2) ? 1 : 256));
        options.recv_cq = way >= 3 ? common_->get() : queues_.back()->get();
        if (way == 2 || way == 4) options.send_cq = options.recv_cq;
    }

    void connect(Lane& lane) {
        if (server_) {
            Address local(nic_, unique_discriminator());
            link_.put(local);
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            expect(VIP_SUCCESS,
                   VipConnectWait(nic_, local.get(), patience_ms, remote.get(), &attributes,
                                  &connection),
                   "VipConnectWait");
            expect(VIP_SUCCESS, VipConnectAccept(connection, lane.vi()), "VipConnectAccept");
        } else {
            auto remote = link_.get<Address>();
            Address local(nic_, unique_discriminator());
            expect(VIP_SUCCESS, request_until_matched(lane.vi(), local, remote),
                   "VipConnectRequest");
        }
        link_.put(lane.exposed());
        lane.know_peer(link_.get<Exposed>());
    }

    void make_workers() {
        std::optional<std::size_t> common;
        for (auto& lane : lanes_) {
            const bool shares = common_ && lane->recv_cq() == common_->get();
            if (!shares || !common) {
                workers_.emplace_back();
                if (shares) common = workers_.size() - 1;
            }
            workers_[shares ? *common : workers_.size() - 1].add(*lane);
        }
    }

    void run_threads(Random& own, bool blocking) {
        std::mutex mutex;
        std::string failure;
        std::vector<std::thread> threads;
        for (Worker& worker : workers_)
            threads.emplace_back([&, seed = own.next()] {
                try {
                    worker.run(seed, blocking);
                } catch (const std::exception& error) {
                    const std::lock_guard lock(mutex);
                    if (failure.empty()) failure = error.what();
                }
            });
        for (auto& thread : threads)
            thread.join();
        if (!failure.empty()) stop(failure);
    }

    std::uint64_t seed_;
    bool server_;
    Link& link_;
    Nic nic_;
    std::optional<Queue> common_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<Worker> workers_;
};

void soak_one_side(const Soak& soak, bool server, Link& link) {
    std::uint32_t round = 0;
    for (std::uint32_t number = 0; round < soak.rounds; ++number) {
        try {
            Session session(soak, number, server, link);
            bool last = false;
            for (std::uint32_t i = 1; !last; ++i, ++round) {
                last = i == rounds_of_a_session || round + 1 == soak.rounds;
                session.run(round, last);
            }
            link.meet();  // nobody disconnects while the other still looks
        } catch (const std::exception& error) {
            stop("seed " + std::to_string(soak.seed) + ", round " + std::to_string(round) + ", " +
                 (server ? "server" : "client") + ": " + error.what());
        }
    }
}

PEER(soak_client) {
    const auto soak = link.get<Soak>();
    soak_one_side(soak, false, link);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr && *given != '\0' ? std::strtoull(given, nullptr, 0) : otherwise;
}

TEST(Soak, EveryByteArrivesAndNoneElsewhere) {
    const auto chosen = static_cast<std::uint64_t>(testing::GTEST_FLAG(random_seed));
    Soak soak;
    soak.seed = number_from("SOAK_SEED", chosen != 0 ? chosen : 1);
    soak.rounds = static_cast<std::uint32_t>(number_from("SOAK_ROUNDS", repeated(default_rounds)));
    std::printf("soak: SOAK_SEED=%llu SOAK_ROUNDS=%u\n", static_cast<unsigned long long>(soak.seed),
                soak.rounds);
    std::fflush(stdout);
    PeerProcess peer("soak_client");
    peer.link.put(soak);
    try {
        soak_one_side(soak, true, peer.link);
    } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        peer.link.close();
    }
    EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace via::test
