// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

using namespace via::base;

namespace {

class Log : public testing::Test {
  protected:
    ~Log() override { set_log_level(before_); }

    static std::string line_at(LogLevel threshold, LogLevel level, std::string_view sentence) {
        set_log_level(threshold);
        testing::internal::CaptureStderr();
        log(level, sentence);
        return testing::internal::GetCapturedStderr();
    }

  private:
    LogLevel before_ = log_level();
};

TEST_F(Log, NamesProcessAndLevel) {
    EXPECT_EQ(line_at(LogLevel::Warning, LogLevel::Error, "it broke"),
              "viaduct[" + std::to_string(getpid()) + "] error: it broke\n");
}

TEST_F(Log, WritesNothingBelowTheThreshold) {
    EXPECT_EQ(line_at(LogLevel::Warning, LogLevel::Info, "chatter"), "");
    EXPECT_NE(line_at(LogLevel::Info, LogLevel::Info, "chatter"), "");
    EXPECT_NE(line_at(LogLevel::Debug, LogLevel::Debug, "chatter"), "");
}

TEST_F(Log, SilentMeansSilent) {
    EXPECT_EQ(line_at(LogLevel::Silent, LogLevel::Error, "it broke"), "");
    EXPECT_EQ(line_at(LogLevel::Debug, LogLevel::Silent, "never shown"), "");
}

}  // namespace
