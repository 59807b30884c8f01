// SPDX-License-Identifier: BSD-3-Clause
// Event queues, by themselves.
#include <poll.h>

#include <thread>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

class EventQueue : public testing::Test {
  protected:
    EventQueue() : info(get_info({})) {
        fid_fabric* opened_fabric = nullptr;
        check(fi_fabric(info->fabric_attr, &opened_fabric, nullptr), "fi_fabric");
        fabric.reset(opened_fabric);
        open(FI_WRITE, FI_WAIT_FD);
    }
    void open(std::uint64_t flags, fi_wait_obj wait) {
        fi_eq_attr attributes{};
        attributes.size = 8;
        attributes.flags = flags;
        attributes.wait_obj = wait;
        fid_eq* opened = nullptr;
        check(fi_eq_open(fabric.get(), &attributes, &opened, nullptr), "fi_eq_open");
        eq.reset(opened);
    }
    void write(std::uint64_t data) {
        const fi_eq_entry written{&eq->fid, this, data};
        ASSERT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &written, sizeof written, 0),
                  static_cast<ssize_t>(sizeof written));
    }
    ssize_t read(std::uint64_t flags = 0) {
        return fi_eq_read(eq.get(), &event, &entry, sizeof entry, flags);
    }

    Info info;
    Open<fid_fabric> fabric;
    Open<fid_eq> eq;
    std::uint32_t event = 99;
    fi_eq_entry entry{};
};

}  // namespace

TEST_F(EventQueue, WhatIsWrittenIsReadInOrder) {
    EXPECT_EQ(read(), -FI_EAGAIN);
    for (std::uint64_t i = 0; i < 20; ++i)
        write(i);
    EXPECT_EQ(read(FI_PEEK), static_cast<ssize_t>(sizeof entry));
    for (std::uint64_t i = 0; i < 20; ++i) {
        ASSERT_EQ(read(), static_cast<ssize_t>(sizeof entry));
        EXPECT_EQ(event, static_cast<std::uint32_t>(FI_NOTIFY));
        EXPECT_EQ(entry.data, i);
        EXPECT_EQ(entry.context, this);
    }
    EXPECT_EQ(read(), -FI_EAGAIN);
}

TEST_F(EventQueue, AReaderWithTooLittleRoomIsToldSo) {
    write(1);
    EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, 8, 0), -FI_ETOOSMALL);
    EXPECT_EQ(read(), static_cast<ssize_t>(sizeof entry));
}

TEST_F(EventQueue, AQueueThatIsNotForWritingIsNotWritten) {
    open(0, FI_WAIT_UNSPEC);
    EXPECT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0), -FI_EINVAL);
}

TEST_F(EventQueue, ABlockedReadWakesForAnEvent) {
    std::thread writer([&] { write(5); });
    EXPECT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 20'000, 0),
              static_cast<ssize_t>(sizeof entry));
    writer.join();
    EXPECT_EQ(entry.data, 5U);
    EXPECT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof entry, 10, 0), -FI_EAGAIN);
}

TEST_F(EventQueue, ItsFileDescriptorTellsOfAnEvent) {
    int fd = -1;
    check(fi_control(&eq->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
    fid* waits = &eq->fid;
    ASSERT_EQ(fi_trywait(fabric.get(), &waits, 1), 0);
    pollfd one{fd, POLLIN, 0};
    EXPECT_EQ(::poll(&one, 1, 0), 0);
    write(1);
    EXPECT_EQ(::poll(&one, 1, 20'000), 1);
    EXPECT_EQ(fi_trywait(fabric.get(), &waits, 1), -FI_EAGAIN);
    EXPECT_EQ(read(), static_cast<ssize_t>(sizeof entry));
}

TEST_F(EventQueue, ErrorsHaveASentence) {
    char text[100];
    EXPECT_STREQ(fi_eq_strerror(eq.get(), FI_ECONNREFUSED, nullptr, text, sizeof text), text);
    EXPECT_NE(std::string(text).find("reject"), std::string::npos);
}
