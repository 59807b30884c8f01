// SPDX-License-Identifier: BSD-3-Clause
#include "system/lab_hosts.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "lab/host_space.hpp"
#include "lab/system_programs.hpp"
#include "system/observe.hpp"

namespace via::test {
namespace {

/// NET_TEST_LOG shows what the processes on the hosts have to say.
const char* log_level() {
    const char* given = std::getenv("NET_TEST_LOG");
    return given != nullptr ? given : "error";
}

}  // namespace

LabHost::LabHost(const lab::Lab& lab, std::string name)
    : name_(std::move(name)), space_(lab.space(name_).value()) {
    thread_ = std::thread([this, &lab] {
        const base::Result<void> entered = lab.enter(name_);
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return task_ != nullptr || ends_; });
            if (task_ == nullptr) return;
            try {
                if (!entered) throw std::runtime_error(entered.error().sentence);
                (*task_)();
            } catch (...) {
                failure_ = std::current_exception();
            }
            task_ = nullptr;
            changed_.notify_all();
        }
    });
}

LabHost::~LabHost() {
    {
        const std::lock_guard guard(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LabHost::run(const std::function<void()>& what) {
    std::unique_lock lock(mutex_);
    task_ = &what;
    changed_.notify_all();
    changed_.wait(lock, [&] { return task_ == nullptr; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

std::unique_ptr<PeerProcess> LabHost::start(const char* role,
                                            const PeerProcess::Environment& environment,
                                            int stderr_fd) {
    PeerProcess::Environment whole{{"VIA_TEST_DEVICE", "net0"},
                                   {"VIA_LOG", log_level()},
                                   // The agent's books are looked at when nobody is attached.
                                   {"VIA_AGENT_IDLE_SECONDS", "100"}};
    for (const auto& [name, value] : environment)
        whole[name] = value;
    std::unique_ptr<PeerProcess> peer;
    run([&] { peer = std::make_unique<PeerProcess>(role, whole, stderr_fd); });
    return peer;
}

ka::AgentStatus LabHost::agent() {
    ka::AgentStatus status;
    run([&] { status = agent_status(); });
    return status;
}

bool LabHost::agent_holds_nothing() {
    for (const ka::ProcessStatus& process : agent().processes)
        if (process.vis != 0 || process.connections != 0 || process.waiting != 0 ||
            process.regions != 0 || process.registered_bytes != 0 || process.kmem_bytes != 0)
            return false;
    return true;
}

std::vector<pid_t> LabHost::processes() const {
    std::vector<pid_t> found;
    // The test itself is there too, with one of its threads.
    for (const lab::ProcessInSpace& process : lab::processes_in(space_))
        if (process.pid != getpid()) found.push_back(process.pid);
    return found;
}

void LabHost::signal_all(int signal) const {
    for (const pid_t pid : processes())
        ::kill(pid, signal);
}

void LabHost::answer_every_refusal() {
    run([] { std::ofstream("/proc/sys/net/ipv4/icmp_ratelimit") << 0; });
}

void LabHost::filter_input(const std::string& rule) {
    EXPECT_DONE(lab::run_nft(space_,
                             "table inet viatest {\nchain input {\ntype filter hook input "
                             "priority 0\n" +
                                 rule + "\n}\n}\n"));
}

void LabHost::stop_filtering() {
    EXPECT_DONE(lab::run_nft(space_, "delete table inet viatest\n"));
}

void LabHosts::SetUp() {
    if (const auto possible = lab::Lab::possible(); !possible)
        GTEST_SKIP() << possible.error().sentence;
}

void LabHosts::make(lab::LabOptions options) {
    options.name.clear();  // one that nobody else has
    auto made = lab::Lab::up(options);
    if (!made) throw std::runtime_error(made.error().sentence);
    lab_.emplace(std::move(made).value());
    a = std::make_unique<LabHost>(*lab_, "a");
    b = std::make_unique<LabHost>(*lab_, "b");
}

void LabHosts::TearDown() {
    a.reset();
    b.reset();
}

void introduce(PeerProcess& server, PeerProcess& client) {
    pass<SideAddresses>(server, client);
    pass<SideAddresses>(client, server);
    pass<Address>(server, client);
}

std::string agent_port() {
    return std::getenv("VIA_NET_PORT");
}

Words::Words() : descriptor_(memfd_create("words", MFD_CLOEXEC)) {}

Words::~Words() {
    ::close(descriptor_);
}

std::string Words::text() const {
    std::string text;
    std::array<char, 4096> part;
    for (;;) {
        const ssize_t count =
            pread(descriptor_, part.data(), part.size(), static_cast<off_t>(text.size()));
        if (count <= 0) return text;
        text.append(part.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace via::test
