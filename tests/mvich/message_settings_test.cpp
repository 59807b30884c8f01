// SPDX-License-Identifier: BSD-3-Clause
// Settings that can not be: no device opens, and whoever started the program reads why.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "mvich/place.hpp"
#include "vipl/harness.hpp"

namespace via::mvich {
namespace {

using test::PeerProcess;

PEER(opens_a_device) {
    auto device = Device::open();
    const std::string sentence = device ? "" : device.error().sentence;
    link.put(sentence.size());
    link.write(sentence.data(), sentence.size());
}

struct Wrong {
    const char* name;
    PeerProcess::Environment environment;
    std::vector<std::string> words;  ///< that the sentence has
};

class MessageSettingsRefused : public testing::TestWithParam<Wrong> {};

TEST_P(MessageSettingsRefused, WithNameAndRange) {
    const base::UniqueFd output(memfd_create("stderr", MFD_CLOEXEC));
    PeerProcess process("opens_a_device", GetParam().environment, output.get());
    std::string sentence(process.link.get<std::size_t>(), ' ');
    process.link.read(sentence.data(), sentence.size());
    EXPECT_EQ(process.wait(), 0);
    std::string shown(10'000, ' ');
    const ssize_t bytes = pread(output.get(), shown.data(), shown.size(), 0);
    shown.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    for (const std::string& word : GetParam().words) {
        EXPECT_NE(sentence.find(word), std::string::npos) << word << ": " << sentence;
        EXPECT_NE(shown.find(word), std::string::npos) << word << ": " << shown;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, MessageSettingsRefused,
    testing::Values(
        Wrong{"eager_longer_than_a_vbuf",
              {{"VIA_MPI_EAGER_BYTES", "9000"}},
              {"VIA_MPI_EAGER_BYTES", "9000", "8000", "VIA_MPI_VBUF_BYTES=8192"}},
        Wrong{"unknown_protocol",
              {{"VIA_MPI_PROTOCOL", "foo"}},
              {"VIA_MPI_PROTOCOL", "foo", "eager", "rput"}},
        Wrong{"no_credits", {{"VIA_MPI_CREDITS", "0"}}, {"VIA_MPI_CREDITS", "'0'", "1", "4096"}},
        Wrong{"not_a_number", {{"VIA_MPI_CREDITS", "many"}}, {"VIA_MPI_CREDITS", "many", "4096"}},
        Wrong{"tiny_vbufs", {{"VIA_MPI_VBUF_BYTES", "100"}}, {"VIA_MPI_VBUF_BYTES", "100"}},
        Wrong{"too_few_vbufs",
              {{"VIA_MPI_VBUF_REGIONS", "1"}, {"VIA_MPI_VBUFS_PER_REGION", "4"}},
              {"VIA_MPI_VBUF_REGIONS=1", "VIA_MPI_VBUFS_PER_REGION=4", "at least 23"}},
        Wrong{"unknown_progress", {{"VIA_PROGRESS", "run"}}, {"VIA_PROGRESS", "run", "sleep"}},
        Wrong{"unknown_device", {{"VIA_MPI_DEVICE", "ib7"}}, {"ib7"}}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace via::mvich
