// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_launch.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace via::tool {
namespace {

MpiLaunch usual() {
    MpiLaunch launch;
    launch.launcher = "/usr/bin/mpirun";
    launch.component_path = "/usr/lib/openmpi:/opt/via/lib/openmpi";
    launch.provider_folder = "/opt/via/lib";
    launch.agent_program = "/opt/via/bin/viad";
    launch.ranks = 2;
    launch.cores = 2;
    launch.program = {"./program", "argument"};
    return launch;
}

bool holds(const MpiCommand& command, std::vector<std::string> words) {
    const auto& all = command.arguments;
    return std::search(all.begin(), all.end(), words.begin(), words.end()) != all.end();
}

TEST(MpiLaunch, ChoosesTheComponentForMessagesAndTheProviderForWindows) {
    const MpiCommand command = mpi_command(usual());
    EXPECT_TRUE(holds(command, {"--mca", "mca_base_component_path",
                                "/usr/lib/openmpi:/opt/via/lib/openmpi", "--mca", "pml", "via"}));
    EXPECT_TRUE(holds(command, {"--mca", "osc", "rdma,sm"}));
    EXPECT_TRUE(holds(command, {"--mca", "btl", "self,ofi"}));
    EXPECT_TRUE(holds(command, {"-x", "FI_PROVIDER_PATH"}));
    EXPECT_TRUE(holds(command, {"-x", "VIA_AGENT_PROGRAM"}));
    EXPECT_NE(mpi_launch_summary(usual()).find("pml/via"), std::string::npos);
}

TEST(MpiLaunch, WithoutAProviderTheComponentHasTheWindowsToo) {
    MpiLaunch launch = usual();
    launch.provider_folder.clear();
    const MpiCommand command = mpi_command(launch);
    EXPECT_TRUE(holds(command, {"--mca", "pml", "via"}));
    EXPECT_TRUE(holds(command, {"--mca", "osc", "pt2pt,sm"}));
    EXPECT_FALSE(holds(command, {"-x", "FI_PROVIDER_PATH"}));
    EXPECT_NE(mpi_launch_summary(launch).find("windows too"), std::string::npos);
}

TEST(MpiLaunch, ByLibfabricTheProviderHasMessagesAndWindows) {
    MpiLaunch launch = usual();
    launch.transport = MpiTransport::Fabric;
    launch.no_component = "there is no component";
    EXPECT_NE(mpi_launch_summary(launch).find("since there is no component"), std::string::npos);
    const MpiCommand command = mpi_command(launch);
    EXPECT_FALSE(holds(command, {"mca_base_component_path"}));
    EXPECT_EQ(command.arguments.front(), "/usr/bin/mpirun");
    EXPECT_TRUE(holds(command, {"--mca", "pml", "cm"}));
    EXPECT_TRUE(holds(command, {"--mca", "mtl", "ofi"}));
    EXPECT_TRUE(holds(command, {"--mca", "mtl_ofi_provider_include", "via"}));
    EXPECT_TRUE(holds(command, {"--mca", "osc", "rdma,sm"}));
    EXPECT_TRUE(holds(command, {"--mca", "btl", "self,ofi"}));
    EXPECT_TRUE(holds(command, {"-x", "FI_PROVIDER_PATH"}));
    const std::vector<std::pair<std::string, std::string>> expected{
        {"FI_PROVIDER", "via"},
        {"FI_PROVIDER_PATH", "/opt/via/lib"},
        {"VIA_AGENT_PROGRAM", "/opt/via/bin/viad"}};
    EXPECT_EQ(command.environment, expected);
    EXPECT_EQ(std::vector<std::string>(command.arguments.end() - 2, command.arguments.end()),
              (std::vector<std::string>{"./program", "argument"}));
    EXPECT_FALSE(holds(command, {"--oversubscribe"}));
    EXPECT_FALSE(holds(command, {"--allow-run-as-root"}));
}

TEST(MpiLaunch, MoreRanksThanCoresShareThem) {
    MpiLaunch launch = usual();
    launch.ranks = 3;
    EXPECT_TRUE(holds(mpi_command(launch), {"-n", "3", "--oversubscribe"}));
    launch.hosts = "one:2,two:2";
    EXPECT_FALSE(holds(mpi_command(launch), {"--oversubscribe"}));
    EXPECT_TRUE(holds(mpi_command(launch), {"--host", "one:2,two:2"}));
}

TEST(MpiLaunch, RootMayRunItAndSettingsAreHandedOnOnce) {
    MpiLaunch launch = usual();
    launch.root = true;
    launch.passed_on = {"FI_PROVIDER", "VIA_MPI_CREDITS"};
    launch.more_settings = {"coll=^hcoll", "mpi_show_handle_leaks"};
    const MpiCommand command = mpi_command(launch);
    EXPECT_TRUE(holds(command, {"--allow-run-as-root"}));
    EXPECT_TRUE(holds(command, {"-x", "VIA_MPI_CREDITS"}));
    EXPECT_EQ(std::count(command.arguments.begin(), command.arguments.end(), "FI_PROVIDER"), 1);
    EXPECT_TRUE(holds(command, {"--mca", "coll", "^hcoll"}));
    EXPECT_TRUE(holds(command, {"--mca", "mpi_show_handle_leaks", "1"}));
}

TEST(MpiLaunch, WhatTheUserSetsIsNotSetByUs) {
    MpiLaunch launch = usual();
    launch.more_settings = {"osc=pt2pt,sm"};
    const MpiCommand command = mpi_command(launch);
    EXPECT_TRUE(holds(command, {"--mca", "osc", "pt2pt,sm"}));
    EXPECT_EQ(std::count(command.arguments.begin(), command.arguments.end(), "osc"), 1);
    EXPECT_TRUE(holds(command, {"--mca", "btl", "self,ofi"}));
}

TEST(MpiLaunch, HostsOfALabGetTheirShareOfTheRanks) {
    MpiLaunch launch = usual();
    launch.ranks = 5;
    launch.lab = MpiLaunch::Lab{"lab", "/opt/via/bin/via", 3, 1, true};
    const MpiCommand command = mpi_command(launch);
    EXPECT_TRUE(holds(command, {"--host", "a:2,b:2,c:2"}));
    EXPECT_TRUE(holds(command, {"--bind-to", "none"}));
    EXPECT_TRUE(
        holds(command, {"--mca", "plm_rsh_agent", "/opt/via/bin/via lab shell --name lab"}));
    EXPECT_TRUE(holds(command, {"-x", "VIA_NET_INTERFACES"}));
    EXPECT_TRUE(holds(command, {"--mca", "mpi_yield_when_idle", "1"}));
    launch.transport = MpiTransport::Tcp;
    launch.lab->links = 2;
    EXPECT_TRUE(holds(mpi_command(launch), {"--mca", "btl_tcp_if_include", "link0,link1"}));
    EXPECT_TRUE(mpi_command(launch).environment.empty());
}

TEST(MpiLaunch, TheLineCanBeTyped) {
    MpiCommand command;
    command.environment = {{"NAME", "a b"}};
    command.arguments = {"/usr/bin/mpirun", "--mca", "coll", "^hcoll", "it's", ""};
    EXPECT_EQ(shell_text(command), "NAME='a b' /usr/bin/mpirun --mca coll ^hcoll 'it'\\''s' ''");
}

TEST(MpiLaunch, SettingsAreThoseOfViaductAndLibfabric) {
    EXPECT_EQ(
        settings_in({"PATH=/bin", "VIA_LOG=info", "FI_LOG_LEVEL=warn", "VIADUCT=1", "VIA_A=b=c"}),
        (std::vector<std::string>{"FI_LOG_LEVEL", "VIA_A", "VIA_LOG"}));
}

}  // namespace
}  // namespace via::tool
