// SPDX-License-Identifier: BSD-3-Clause
// Every figure of the papers has an answer, and those that must be met are.
#include "sim/experiment/figures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "sim/experiment/ablations.hpp"
#include "sim/experiment/sensitivity.hpp"

namespace via::sim {
namespace {

constexpr Laboratory::Effort little{200, 16U << 20, 5};

/// Asked once for all tests of this file.
const std::vector<AnsweredFigure>& answers() {
    static const std::vector<AnsweredFigure> all = [] {
        Laboratory laboratory(little);
        auto answered = answer_figures(laboratory);
        if (!answered) throw std::runtime_error(answered.error().sentence);
        return std::move(answered).value();
    }();
    return all;
}

const AnsweredFigure& answer(std::string_view beginning) {
    for (const AnsweredFigure& each : answers())
        if (each.figure->what.starts_with(beginning)) return each;
    throw std::runtime_error("no figure begins with " + std::string(beginning));
}

Figure figure(FigureKind kind, double low, double high, double tolerance) {
    Figure made;
    made.kind = kind;
    made.low = low;
    made.high = high;
    made.tolerance = tolerance;
    return made;
}

TEST(Figure, ErrorIsMeasuredFromTheNearerEnd) {
    const Figure printed = figure(FigureKind::Printed, 200, 200, 2);
    EXPECT_NEAR(printed.error_percent(203), 1.5, 1e-9);
    EXPECT_NEAR(printed.error_percent(190), -5, 1e-9);
    EXPECT_TRUE(printed.is_met(203.9));
    EXPECT_FALSE(printed.is_met(204.1));
    EXPECT_FALSE(printed.is_met(195.9));
    const Figure least = figure(FigureKind::AtLeast, 240, Figure::no_end, 0);
    EXPECT_TRUE(least.is_met(1e9));
    EXPECT_FALSE(least.is_met(239.9));
    const Figure between = figure(FigureKind::Between, 1500, 2500, 0);
    EXPECT_EQ(between.error_percent(2000), 0);
    EXPECT_NEAR(between.error_percent(1350), -10, 1e-9);
    EXPECT_NEAR(between.error_percent(2750), 10, 1e-9);
    EXPECT_FALSE(between.is_met(2501));
}

TEST(Figure, NothingAndNoNumber) {
    const Figure nothing = figure(FigureKind::Printed, 0, 0, 0);
    EXPECT_TRUE(nothing.is_met(0));
    EXPECT_NEAR(nothing.error_percent(0.1), 10, 1e-9);
    EXPECT_FALSE(nothing.is_met(0.1));
    EXPECT_FALSE(nothing.is_met(std::numeric_limits<double>::quiet_NaN()));
    EXPECT_FALSE(figure(FigureKind::AtLeast, 1, Figure::no_end, 0).is_met(Figure::no_end));
}

TEST(Figures, AllHaveAnAnswerAndSayWhereItIsFrom) {
    std::set<std::string> names;
    std::set<FigureRole> roles;
    for (const AnsweredFigure& each : answers()) {
        EXPECT_TRUE(std::isfinite(each.model)) << each.figure->what;
        EXPECT_FALSE(each.figure->basis.empty()) << each.figure->what;
        EXPECT_FALSE(each.files.empty()) << each.figure->what;
        EXPECT_TRUE(names.insert(std::string(each.figure->paper) + each.figure->what).second)
            << each.figure->what;
        EXPECT_LE(each.figure->low, each.figure->high) << each.figure->what;
        roles.insert(each.figure->role);
    }
    EXPECT_EQ(roles.size(), 2U);
    EXPECT_EQ(answers().size(), paper_figures().size());
    for (const char* paper : {"A", "C", "D", "GM"})
        EXPECT_TRUE(std::any_of(answers().begin(), answers().end(), [&](const auto& each) {
            return each.figure->paper == paper;
        })) << paper;
    for (const UnmodelledFigure& each : unmodelled_figures())
        EXPECT_FALSE(each.reason.empty()) << each.what;
}

TEST(Figures, TheMustsAreMet) {
    for (const AnsweredFigure& each : answers()) {
        if (each.figure->paper != "C" || each.figure->kind == FigureKind::Unprinted) continue;
        EXPECT_TRUE(each.is_met()) << each.figure->what << ": " << each.model;
    }
    for (const char* must : {"LANai 4: peak bandwidth of MyVIA",
                             "LANai 4: size where MyVIA overtakes BVIA",
                             "LANai 4: one-way time, MyVIA / BVIA, least",
                             "LANai 4: one-way time, MyVIA / BVIA, most",
                             "LANai 4: peak bandwidth, BVIA / MyVIA",
                             "LANai 9: bandwidth of MyVIA at 4 KB",
                             "LANai 9: least one-way time of MyVIA",
                             "LANai 9: bandwidth of GM at 32 KB",
                             "LANai 9: bandwidth of BVIA at 32 KB",
                             "LANai 9: bandwidth of MyVIA at 32 KB",
                             "LANai 9: bandwidth, MyVIA / BVIA, most",
                             "LANai 9: bandwidth, MyVIA / BVIA, least",
                             "LANai 4: bandwidth that BVIA loses",
                             "LANai 9: bandwidth that BVIA loses",
                             "LANai 4: bandwidth that MyVIA loses",
                             "LANai 9: bandwidth that MyVIA loses",
                             "one link, point to point",
                             "bus, host to NIC",
                             "bus, NIC to host",
                             "two flows the same way, flow 1",
                             "two flows the same way, flow 2",
                             "two flows opposite ways: share",
                             "two flows opposite ways: rate",
                             "two links / one link, dynamic policy"})
        EXPECT_TRUE(answer(must).is_met()) << must << ": " << answer(must).model;
}

TEST(Figures, KnowWhichFilesTheyComeFrom) {
    EXPECT_EQ(answer("LANai 4: peak bandwidth of MyVIA").files,
              (std::set<std::string>{"p3-733.machine", "lanai4.nic", "myvia-lanai4.firmware"}));
    EXPECT_EQ(answer("RHiNET-1 at 4096 bytes: total").files,
              (std::set<std::string>{"p2-300.machine", "rhinet1.nic"}));
}

/// A file that says "fitted" and a report that says "predicted" would not both be true.
TEST(Figures, EveryFittedParameterIsNamedByAFittedFigure) {
    const Laboratory laboratory(little);
    for (const auto& [file, parameters] : laboratory.parameters())
        for (const KnownParameter& parameter : parameters) {
            if (parameter.origin != Origin::Fitted) continue;
            EXPECT_TRUE(std::any_of(answers().begin(), answers().end(),
                                    [&](const auto& each) {
                                        return each.figure->role == FigureRole::Fitted &&
                                               each.files.contains(file) &&
                                               each.figure->basis.find(parameter.name) !=
                                                   std::string_view::npos;
                                    }))
                << file << " " << parameter.name;
        }
}

TEST(Laboratory, AnotherParameterGivesAnotherAnswer) {
    Laboratory laboratory(little);
    const Figure& peak = *answer("LANai 4: peak bandwidth of MyVIA").figure;
    EXPECT_TRUE(peak.is_met(peak.question(laboratory)));
    laboratory.scale("p3-733.machine", "fetch_overhead", 1.2);
    EXPECT_FALSE(peak.is_met(peak.question(laboratory)));
    laboratory.scale("p3-733.machine", "fetch_overhead", 1 / 1.2);
    EXPECT_TRUE(peak.is_met(peak.question(laboratory)));
}

TEST(Laboratory, WhatItDoesNotHaveIsRefused) {
    Laboratory laboratory(little);
    EXPECT_FALSE(laboratory.failure());
    EXPECT_THROW((void)laboratory.machine("p9-9000"), std::invalid_argument);
    EXPECT_THROW((void)laboratory.send_rate("Kernel", 4), std::invalid_argument);
}

TEST(Ablations, FailAsStated) {
    Laboratory laboratory(little);
    const auto results = run_ablations(laboratory);
    ASSERT_TRUE(results) << results.error().sentence;
    EXPECT_GE(results.value().size(), 8U);
    for (const AblationResult& each : results.value()) {
        EXPECT_TRUE(each.fails_as_stated())
            << each.ablation->name << ": " << each.with << " with, " << each.without << " without";
        // What changes nothing is no ablation.
        AblationResult unchanged = each;
        unchanged.without = each.with;
        EXPECT_FALSE(unchanged.fails_as_stated()) << each.ablation->name;
    }
}

/// The bus between one NIC and its host: its engine moves one thing at a time anyway.
TEST(Ablations, MastersWithoutContentionMatterToSeveralNicsOnly) {
    Laboratory laboratory(little);
    ViaSystem gm = laboratory.system({"xeon-700", "lanai9", "gm"});
    const double shared = laboratory.flows(gm, Flows::Opposite, 65536)[0];
    gm.machine.masters_share_bus = false;
    EXPECT_NEAR(laboratory.flows(gm, Flows::Opposite, 65536)[0] / shared, 1, 0.02);
}

}  // namespace
}  // namespace via::sim
