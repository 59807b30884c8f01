// SPDX-License-Identifier: BSD-3-Clause
#include "message_report.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

/// A snapshot in which every number is another.
MessageSnapshot some_messages() {
    MessageSnapshot messages;
    messages.sent[0][1] = 11;
    messages.sent[2][6] = 12;
    messages.received = 13;
    messages.unexpected = 14;
    messages.unexpected_now = 15;
    messages.noops_sent = 16;
    messages.noops_received = 17;
    messages.credit_stalls = 18;
    messages.starvations = 19;
    messages.fallbacks = 20;
    messages.copies = 21;
    messages.copied_bytes = 22;
    messages.remote_operations = 23;
    messages.devices = 2;
    messages.vbufs_in_use = 24;
    messages.vbuf_regions = 25;
    messages.registered_bytes = 26;
    messages.registration_hits = 27;
    messages.registration_misses = 28;
    messages.registration_refused = 29;
    messages.registration_evicted = 30;
    messages.connections_in_host = 31;
    messages.connections_between_hosts = 32;
    messages.least_credits = 33;
    return messages;
}

TEST(MessageReport, IsSilentAboutAProcessWithoutMessages) {
    EXPECT_EQ(describe_messages({}, {}), "");
    EXPECT_TRUE(messages_json({}, {}).is_null());
    MessageSnapshot gone = some_messages();
    gone.devices = 0;
    EXPECT_EQ(describe_messages(gone, {}), "");
}

TEST(MessageReport, ShowsEveryNumber) {
    const std::string text = describe_messages(some_messages(), {});
    for (int number = 11; number <= 33; ++number)
        EXPECT_NE(text.find(std::to_string(number)), std::string::npos) << number << "\n" << text;
    EXPECT_NE(text.find("23 sent"), std::string::npos) << text;
    EXPECT_EQ(text.find("rput"), std::string::npos) << "nothing went by it";
    EXPECT_EQ(text.find("/s"), std::string::npos) << "no rates after one look";
    EXPECT_NE(text.find("of 2 devices"), std::string::npos) << text;
}

TEST(MessageReport, ShowsRatesOfTheTimeBetweenTwoLooks) {
    const MessageSnapshot before = some_messages();
    MessageSnapshot after = before;
    after.sent[2][6] += 400;
    after.received += 600;
    const MessageRates rates = rates_between(before, after, 2'000'000'000);
    EXPECT_DOUBLE_EQ(rates.sent[2][6], 200);
    EXPECT_DOUBLE_EQ(rates.sent[0][1], 0);
    EXPECT_DOUBLE_EQ(rates.all_sent(), 200);
    EXPECT_DOUBLE_EQ(rates.received, 300);
    const std::string text = describe_messages(after, rates);
    EXPECT_NE(text.find("423 sent, 200/s"), std::string::npos) << text;
    EXPECT_NE(text.find("613 received, 300/s"), std::string::npos) << text;
    EXPECT_NE(text.find("rget/s"), std::string::npos) << text;
    const nlohmann::json json = messages_json(after, rates);
    EXPECT_DOUBLE_EQ(json["rates"]["sent_by_protocol_and_size_per_s"]["rget"]["-2m"].get<double>(),
                     200);
    EXPECT_EQ(rates_between(before, after, 0).seconds, 0);
}

TEST(MessageReport, JsonHasEveryNumber) {
    const nlohmann::json json = messages_json(some_messages(), {});
    EXPECT_EQ(json["sent_by_protocol_and_size"]["eager"]["1-64"], 11);
    EXPECT_EQ(json["sent_by_protocol_and_size"]["rget"]["-2m"], 12);
    EXPECT_EQ(json["sent_by_protocol_and_size"]["rput"]["more"], 0);
    EXPECT_EQ(json["sent"], 23);
    EXPECT_EQ(json["unexpected"], 14);
    EXPECT_EQ(json["unexpected_now"], 15);
    EXPECT_EQ(json["connections"]["in_host"], 31);
    EXPECT_EQ(json["connections"]["between_hosts"], 32);
    EXPECT_EQ(json["registration_cache"]["refused"], 29);
    EXPECT_EQ(json["least_credits"], 33);
    EXPECT_FALSE(json.contains("rates"));
    MessageSnapshot alone = some_messages();
    alone.connections_in_host = alone.connections_between_hosts = 0;
    EXPECT_TRUE(messages_json(alone, {})["least_credits"].is_null());
}

TEST(MessageReport, ReadsThePageOfAProcess) {
    base::Counters& counters = base::Counters::get();
    ASSERT_GE(counters.file(), 0);
    base::MessageCounters& page = counters.page().messages;
    page.devices.set(1);
    page.count_sent(1, 100'000);
    page.least_credits.set(7);
    page.connections_in_host.set(3);
    page.registration_evicted.set(9);
    const base::UniqueFd file(dup(counters.file()));
    const auto snapshot = read_counters(file);
    ASSERT_TRUE(snapshot) << snapshot.error().sentence;
    const MessageSnapshot& messages = snapshot.value().messages;
    EXPECT_TRUE(messages.present());
    EXPECT_EQ(messages.sent[1][5], 1U);
    EXPECT_EQ(messages.all_sent(), 1U);
    EXPECT_EQ(messages.least_credits, 7U);
    EXPECT_EQ(messages.connections_in_host, 3U);
    EXPECT_EQ(messages.registration_evicted, 9U);
    page.devices.set(0);
}

}  // namespace
}  // namespace via::tool
