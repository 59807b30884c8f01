// SPDX-License-Identifier: BSD-3-Clause
// The program viad and how it is found and started: options, signals, races, idleness, limits.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "ka/agent_socket.hpp"
#include "ka/client.hpp"
#include "ka/harness.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;
using base::UniqueFd;

std::string viad_path() {
    return std::getenv("VIA_AGENT_PROGRAM");
}
std::string probe_path() {
    return VIA_ATTACH_PROBE;
}

/// A program with its output in a pipe.
class Program {
  public:
    Program(std::vector<std::string> words, std::map<std::string, std::string> environment = {},
            const std::function<void()>& before_exec = {}) {
        int out[2];
        int in[2];
        EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
        output_ = UniqueFd(out[0]);
        input_ = UniqueFd(in[1]);
        const UniqueFd out_end(out[1]);
        const UniqueFd in_end(in[0]);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(in_end.get(), 0);
            dup2(out_end.get(), 1);
            dup2(out_end.get(), 2);
            alarm(100);
            for (const auto& [name, value] : environment) {
                if (value.empty())
                    unsetenv(name.c_str());
                else
                    setenv(name.c_str(), value.c_str(), 1);
            }
            if (before_exec) before_exec();
            std::vector<char*> arguments;
            for (std::string& word : words)
                arguments.push_back(word.data());
            arguments.push_back(nullptr);
            execv(arguments[0], arguments.data());
            _exit(126);
        }
    }
    Program(Program&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)),
          output_(std::move(other.output_)),
          input_(std::move(other.input_)) {}
    Program& operator=(Program&&) = delete;
    ~Program() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int number) const { ::kill(pid_, number); }
    void end_input() { input_.reset(); }
    /// One line, or what there is at the end.
    [[nodiscard]] std::string line() {
        std::string text;
        char byte;
        pollfd watched{output_.get(), POLLIN, 0};
        while (poll(&watched, 1, 30000) == 1 && read(output_.get(), &byte, 1) == 1 && byte != '\n')
            text += byte;
        return text;
    }
    [[nodiscard]] std::string rest() {
        std::string text;
        for (std::string next = line(); !next.empty(); next = line())
            text += next + "\n";
        return text;
    }
    [[nodiscard]] int wait() {
        int status = 0;
        const pid_t pid = std::exchange(pid_, -1);
        if (waitpid(pid, &status, 0) != pid) return -1000;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

  private:
    pid_t pid_ = -1;
    UniqueFd output_;
    UniqueFd input_;
};

/// In the foreground, serving when this returns.
Program serve(const std::vector<std::string>& further = {},
              const std::map<std::string, std::string>& environment = {},
              const std::function<void()>& before_exec = {}) {
    std::vector<std::string> words{viad_path(), "--foreground"};
    words.insert(words.end(), further.begin(), further.end());
    Program viad(words, environment, before_exec);
    const std::string said = viad.line();
    EXPECT_NE(said.find("serves"), std::string::npos) << said;
    return viad;
}

std::map<std::string, std::string> no_starting() {
    return {{"VIA_AGENT_START", "0"}};
}

class ViadTest : public AgentTest {};

TEST_F(ViadTest, SaysItsVersionAndHelps) {
    Program version({viad_path(), "--version"});
    EXPECT_EQ(version.line().rfind("viad ", 0), 0U);
    EXPECT_EQ(version.wait(), 0);
    Program help({viad_path(), "--help"});
    EXPECT_NE(help.rest().find("--on-demand"), std::string::npos);
    EXPECT_EQ(help.wait(), 0);
}

TEST_F(ViadTest, BadOptionsAreRefused) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--nonsense"}, {"--socket"}, {"--foreground", "--on-demand"}}) {
        std::vector<std::string> all{viad_path()};
        all.insert(all.end(), words.begin(), words.end());
        Program viad(all);
        EXPECT_NE(viad.line().find("viad: "), std::string::npos);
        EXPECT_EQ(viad.wait(), 2);
    }
    Program path({viad_path(), "--socket", "/nonexistent/folder/socket"});
    EXPECT_NE(path.line().find("cannot"), std::string::npos);
    EXPECT_EQ(path.wait(), 1);
}

TEST_F(ViadTest, EndsCleanlyOnSignals) {
    for (const int number : {SIGTERM, SIGINT}) {
        Program viad = serve();
        TestProcess process;
        EXPECT_TRUE(process.valid());
        viad.signal(SIGHUP);  // a closed terminal is no reason to end
        EXPECT_TRUE(process->create_vi().ok());
        viad.signal(number);
        EXPECT_EQ(viad.wait(), 0);
    }
}

TEST_F(ViadTest, OnlyOneCanHaveTheSocket) {
    Program viad = serve();
    Program second({viad_path(), "--foreground"});
    EXPECT_NE(second.line().find("cannot start"), std::string::npos);
    EXPECT_EQ(second.wait(), 1);
    Program quiet({viad_path(), "--on-demand"});
    EXPECT_EQ(quiet.line(), "");
    EXPECT_EQ(quiet.wait(), 0);
    EXPECT_EQ(agent_pid(), viad.pid());
    viad.signal(SIGTERM);
    EXPECT_EQ(viad.wait(), 0);
}

TEST_F(ViadTest, LeaksNothing) {
    // Under the address sanitizer a leak makes viad end with an error.
    Program viad = serve({}, {{"ASAN_OPTIONS", own_socket.asan_options + ":detect_leaks=1"}});
    {
        TestProcess one;
        TestProcess other;
        int value = 0;
        ASSERT_TRUE(one->register_memory(&value, 4, 1, 0).ok());
        ASSERT_TRUE(one->allocate_kmem(4096, 1).ok());
        auto first = one->peer_request(offer(one->create_vi().value(), "a", "b"), soon());
        auto second = other->peer_request(offer(other->create_vi().value(), "b", "a"), soon());
        ASSERT_TRUE(one->peer_wait(first.value()).ok());
        ASSERT_TRUE(other->peer_wait(second.value()).ok());
        (void)one->peer_request(offer(one->create_vi().value(), "c", "d"), soon());
        ASSERT_TRUE(one->status().ok());
    }
    TestProcess last;
    ASSERT_TRUE(last->create_vi().ok());
    viad.signal(SIGTERM);
    EXPECT_EQ(viad.wait(), 0);
}

TEST_F(ViadTest, AStoppedServiceIsGone) {
    Program viad = serve();
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    EXPECT_FALSE(watcher->status().value().on_demand);
    EXPECT_TRUE(watcher->stop_agent().ok());
    EXPECT_EQ(viad.wait(), 0);
    EXPECT_EQ(watcher->status().error().code, Code::NotFound);
}

TEST_F(ViadTest, OnDemandItEndsWhenIdleAndObserversDoNotCount) {
    auto process = std::make_unique<TestProcess>();
    auto watcher = observer();
    const pid_t pid = watcher->status().value().pid;
    // In use it stays, longer than the idle second.
    const UniqueFd agent(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd watched{agent.get(), POLLIN, 0};
    EXPECT_EQ(poll(&watched, 1, 1300), 0);
    const base::Nanoseconds left = base::monotonic_now();
    process.reset();
    EXPECT_EQ(poll(&watched, 1, 30000), 1);
    EXPECT_GE(base::monotonic_now() - left, 1'000'000'000);
}

TEST_F(ViadTest, AThatStartsAnAgentHasNoChildAndNoSignal) {
    static std::atomic<int> signals{0};
    struct sigaction action {};
    action.sa_handler = [](int) { signals.fetch_add(1); };
    struct sigaction before {};
    sigaction(SIGCHLD, &action, &before);
    {
        TestProcess process;
        EXPECT_TRUE(process.valid());
    }
    EXPECT_EQ(signals.load(), 0);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    sigaction(SIGCHLD, &before, nullptr);
}

TEST_F(ViadTest, TheDaemonInheritsNothing) {
    // An open pipe would be held open by a daemon that inherited it.
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    sigset_t blocked;
    sigset_t old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked, &old);
    TestProcess process;
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    close(ends[1]);
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    const pid_t pid = process->status().value().pid;
    const std::string base = "/proc/" + std::to_string(pid);
    EXPECT_EQ(std::filesystem::read_symlink(base + "/cwd"), "/");
    for (const char* standard : {"0", "1", "2"})
        EXPECT_EQ(std::filesystem::read_symlink(base + "/fd/" + standard), "/dev/null");
    EXPECT_NE(getsid(pid), getsid(0));
    // It can be ended by the signal that its starter had blocked.
    EXPECT_EQ(kill(pid, SIGTERM), 0);
    EXPECT_TRUE(wait_for_end(pid));
}

TEST_F(ViadTest, ManyProcessesAtOnceShareOneAgent) {
    constexpr int count = 64;
    std::vector<Program> programs;
    programs.reserve(count);
    for (int i = 0; i < count; ++i)
        programs.emplace_back(std::vector<std::string>{probe_path(), "hold"});
    std::set<std::string> said;
    for (Program& program : programs)
        said.insert(program.line());
    EXPECT_EQ(said.size(), 1U) << *said.begin();
    EXPECT_EQ(said.begin()->rfind("agent ", 0), 0U) << *said.begin();
    auto watcher = observer();
    ASSERT_NE(watcher, nullptr);
    EXPECT_EQ(watcher->status().value().processes.size(), static_cast<std::size_t>(count));
    for (Program& program : programs)
        program.end_input();
    for (Program& program : programs)
        EXPECT_EQ(program.wait(), 0);
    auto status = watcher->status();
    const Deadline deadline = soon();
    while (status && !status.value().processes.empty() && !deadline.expired())
        status = watcher->status();
    EXPECT_TRUE(status.value().processes.empty());
}

TEST_F(ViadTest, WhereThereIsNoProgramTheErrorNamesThePlaces) {
    Program wrong({probe_path()}, {{"VIA_AGENT_PROGRAM", "/nonexistent/viad"}});
    const std::string first = wrong.line();
    EXPECT_NE(first.find("VIA_AGENT_PROGRAM names /nonexistent/viad"), std::string::npos) << first;
    Program forbidden({probe_path()}, no_starting());
    const std::string second = forbidden.line();
    EXPECT_NE(second.find("VIA_AGENT_START"), std::string::npos) << second;
    // A program that ends at once is not an agent; it is tried until the deadline.
    Program useless({probe_path(), "hurry"}, {{"VIA_AGENT_PROGRAM", "/bin/false"}});
    const std::string third = useless.line();
    EXPECT_NE(third.find("error timeout"), std::string::npos) << third;
    EXPECT_NE(third.find("the agent that was started does not answer"), std::string::npos) << third;
}

TEST_F(ViadTest, TheProgramIsFoundBesideTheProgramAndInThePath) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("viaduct-test-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    std::filesystem::create_symlink(viad_path(), folder / "viad");
    // The probe lies beside viad in the build tree as well, so a copy elsewhere looks in PATH.
    const std::filesystem::path elsewhere = folder / "bin";
    std::filesystem::create_directory(elsewhere);
    std::filesystem::copy_file(probe_path(), elsewhere / "probe");
    std::filesystem::copy_file(probe_path(), folder / "probe");
    {
        Program beside({(folder / "probe").string()},
                       {{"VIA_AGENT_PROGRAM", ""}, {"PATH", "/nonexistent"}});
        const std::string said = beside.line();
        EXPECT_EQ(said.rfind("agent ", 0), 0U) << said;
    }
    stop_agent();
    {
        Program path({(elsewhere / "probe").string()},
                     {{"VIA_AGENT_PROGRAM", ""}, {"PATH", "relative:" + folder.string()}});
        const std::string said = path.line();
        EXPECT_EQ(said.rfind("agent ", 0), 0U) << said;
    }
    std::filesystem::remove_all(folder);
}

TEST_F(ViadTest, APathIsTakenOverFromTheDeadAndLeftClean) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("viaduct-test-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    const std::string path = (folder / "socket").string();
    const std::map<std::string, std::string> environment{{"VIA_AGENT_SOCKET", path}};
    {
        Program viad = serve({"--socket", path});
        Program second({viad_path(), "--foreground", "--socket", path});
        EXPECT_NE(second.line().find("cannot start"), std::string::npos);
        EXPECT_EQ(second.wait(), 1);
        viad.signal(SIGKILL);
        EXPECT_EQ(viad.wait(), -SIGKILL);
        EXPECT_TRUE(std::filesystem::exists(path));  // a killed one leaves it
    }
    Program probe({probe_path(), "hold"}, environment);  // which the next one takes over
    EXPECT_EQ(probe.line().rfind("agent ", 0), 0U);
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, geteuid() == 0 ? 0666U : 0600U);
    probe.end_input();
    EXPECT_EQ(probe.wait(), 0);
    const Deadline deadline = soon();
    while (std::filesystem::exists(path) && !deadline.expired())
        usleep(1000);
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    // What is no socket is not removed.
    const UniqueFd file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    Program careful({viad_path(), "--foreground", "--socket", path});
    EXPECT_NE(careful.line().find("is not a socket"), std::string::npos);
    EXPECT_EQ(careful.wait(), 1);
    EXPECT_TRUE(std::filesystem::exists(path));
    std::filesystem::remove_all(folder);
}

TEST_F(ViadTest, AnImpostorIsNotTrusted) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
    Signal ready;
    Signal end;
    Child impostor([&] {
        if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return 9;
        auto socket = AgentSocket::bind(socket_name());
        if (!socket) return 1;
        ready.give();
        return end.take() ? 0 : 2;
    });
    ASSERT_TRUE(ready.take());
    auto attached = AgentClient::attach_if_running({}, soon());
    ASSERT_FALSE(attached.ok());
    EXPECT_EQ(attached.error().code, Code::PermissionDenied);
    EXPECT_NE(attached.error().sentence.find("65534"), std::string::npos);
    end.give();
    EXPECT_EQ(impostor.wait(), 0);
}

TEST_F(ViadTest, AUsersAgentServesThatUserOnly) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to be two users";
    const auto become = [](uid_t uid) {
        if (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0) _exit(9);
    };
    Program viad = serve({}, {}, [&] { become(65534); });
    Program own({probe_path()}, {}, [&] { become(65534); });
    EXPECT_EQ(own.line(), "agent " + std::to_string(viad.pid()));
    Program other({probe_path()}, {}, [&] { become(65533); });
    EXPECT_NE(other.line().find("permission denied"), std::string::npos);
    // Also if it did not look whose agent it is.
    Child raw([&] {
        become(65533);
        auto socket = base::connect_message_socket(socket_name());
        if (!socket) return 1;
        pollfd watched{socket.value().get(), POLLIN, 0};
        if (poll(&watched, 1, 30000) != 1) return 2;
        std::array<std::byte, 1000> buffer;
        auto message = base::receive_message(socket.value(), buffer);
        if (!message || message.value().bytes == 0) return 3;
        message = base::receive_message(socket.value(), buffer);
        // The end, or a reset if something of ours was still unread there.
        return !message || message.value().bytes == 0 ? 0 : 4;
    });
    EXPECT_EQ(raw.wait(), 0);
    viad.signal(SIGTERM);
    EXPECT_EQ(viad.wait(), 0);
}

TEST_F(ViadTest, AnAgentWithoutDescriptorsSaysSoAndGoesOn) {
    Program viad = serve({}, {}, [] {
        const rlimit small{48, 48};
        setrlimit(RLIMIT_NOFILE, &small);
    });
    std::vector<std::unique_ptr<TestProcess>> processes;
    auto first = std::make_unique<TestProcess>();
    std::vector<UniqueFd> kept;
    std::vector<std::unique_ptr<AgentClient>> clients;
    std::optional<base::Error> error;
    for (int i = 0; i < 60 && !error; ++i) {
        auto client = AgentClient::attach(first->resources(), soon());
        if (client)
            clients.push_back(std::move(client).value());
        else
            error = client.error();
    }
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, Code::OutOfResources) << error->sentence;
    EXPECT_NE(error->sentence.find("RLIMIT_NOFILE is 48"), std::string::npos) << error->sentence;
    EXPECT_GT(clients.size(), 3U);
    // Those who are in go on, also with requests that fail for want of descriptors.
    EXPECT_TRUE((*first)->create_vi().ok());
    auto kmem = (*first)->allocate_kmem(4096, 1);
    for (ProtectionTag tag = 2; kmem.ok() && tag < 60; ++tag)
        kmem = (*first)->allocate_kmem(4096, tag);
    ASSERT_FALSE(kmem.ok());
    EXPECT_EQ(kmem.error().code, Code::OutOfResources);
    EXPECT_NE(kmem.error().sentence.find("RLIMIT_NOFILE is 48"), std::string::npos)
        << kmem.error().sentence;
    EXPECT_TRUE((*first)->create_vi().ok());
    // When somebody leaves there is room again.
    clients.pop_back();
    clients.pop_back();
    base::Result<std::unique_ptr<AgentClient>> again(Code::System, "");
    const Deadline deadline = soon();
    while (!again && !deadline.expired())
        again = AgentClient::attach(first->resources(), soon());
    EXPECT_TRUE(again.ok()) << again.error().sentence;
    clients.clear();
    viad.signal(SIGTERM);
    EXPECT_EQ(viad.wait(), 0);
}

TEST_F(ViadTest, AProcessWithoutDescriptorsSaysSoAndGoesOn) {
    TestProcess other;
    const std::uint32_t other_vi = other->create_vi().value();
    Signal asked;
    Child child([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto block = process->allocate_kmem(4096, 1);
        if (!block) return 1;
        // No further descriptor from here on.
        const UniqueFd lowest(open("/dev/null", O_RDONLY | O_CLOEXEC));
        rlimit small{};
        getrlimit(RLIMIT_NOFILE, &small);
        small.rlim_cur = static_cast<rlim_t>(lowest.get());
        if (setrlimit(RLIMIT_NOFILE, &small) != 0) return 2;
        const std::string limit = "RLIMIT_NOFILE is " + std::to_string(lowest.get());
        auto kmem = process->allocate_kmem(4096, 2);  // would be a new arena
        if (kmem.ok() || kmem.error().code != Code::OutOfResources) return 3;
        if (kmem.error().sentence.find(limit) == std::string::npos) return 4;
        auto peer = process->peer_request(offer(vi, "b", "a"), soon());
        auto established = process->peer_wait(peer.value());
        if (established.ok() || established.error().code != Code::OutOfResources) return 5;
        if (established.error().sentence.find(limit) == std::string::npos) return 6;
        asked.give();
        // What needs no descriptor works.
        if (!process->allocate_kmem(4096, 1).ok()) return 7;
        if (!process->create_vi().ok()) return 8;
        if (process->rmmt_epoch() != 1) return 9;
        auto status = process->status();
        if (!status || status.value().processes.back().kmem_bytes != 8192) return 10;
        if (status.value().processes.back().connections != 0) return 11;
        return 0;
    });
    auto peer = other->peer_request(offer(other_vi, "a", "b"), soon());
    auto established = other->peer_wait(peer.value());
    ASSERT_TRUE(asked.take()) << "the child ended with " << child.wait();
    // This end learns that nobody is there: at once or a moment later.
    if (established.ok()) {
        const Deadline deadline = soon();
        std::vector<std::uint64_t> lost;
        while ((lost = other->lost_connections()).empty() && !deadline.expired())
            usleep(1000);
        EXPECT_EQ(lost, std::vector<std::uint64_t>{established.value().connection});
    } else {
        EXPECT_EQ(established.error().code, Code::ConnectionLost);
    }
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace via::ka::test
