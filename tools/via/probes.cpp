// SPDX-License-Identifier: BSD-3-Clause
#include "probes.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/futex.hpp"
#include "base/huge_pages.hpp"
#include "base/memory_file.hpp"
#include "base/settings.hpp"
#include "heap.hpp"
#include "supervisor.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

constexpr base::Nanoseconds probe_limit = 3'000'000'000;

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return printable(line);
}

/// The value of "key:   value" in a file such as /proc/self/status.
std::string value_of(const std::string& path, const std::string& key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.compare(0, key.size(), key) != 0) continue;
        const std::size_t start = line.find_first_not_of(" \t:", key.size());
        return start == std::string::npos ? std::string() : printable(line.substr(start));
    }
    return {};
}

std::string error_text(int number) {
    return fmt::format("{} (errno {})", strerror(number), number);
}

/// Memory that processes forked later share.
template <class T>
class SharedObject {
  public:
    SharedObject() {
        void* address =
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (address != MAP_FAILED) object_ = new (address) T;
    }
    ~SharedObject() {
        if (object_ != nullptr) munmap(object_, sizeof(T));
    }
    SharedObject(const SharedObject&) = delete;
    SharedObject& operator=(const SharedObject&) = delete;
    [[nodiscard]] bool valid() const { return object_ != nullptr; }
    T* operator->() const { return object_; }

  private:
    T* object_ = nullptr;
};

bool wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t wanted) {
    const base::Deadline deadline = base::Deadline::after(probe_limit / 2);
    while (word.load() != wanted) {
        if (deadline.expired()) return false;
        const timespec pause{0, 200'000};
        nanosleep(&pause, nullptr);
    }
    return true;
}

base::Result<void> run_probe(const std::vector<Side>& sides) {
    SupervisorOptions options;
    options.quiet_limit = probe_limit;
    options.show_progress = false;
    return run_sides(sides, options);
}

/// Why the kernel may have refused one process another's memory.
std::string refusal_reason(int error) {
    if (error == ENOSYS) return "this kernel was built without it";
    std::string reason;
    const auto add = [&](const std::string& part) {
        reason += (reason.empty() ? "" : "; ") + part;
    };
    const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
    if (!scope.empty() && scope != "0")
        add(fmt::format("kernel.yama.ptrace_scope is {} (0 would allow it)", scope));
    if (const std::string filter = value_of("/proc/self/status", "Seccomp"); filter == "2")
        add("a seccomp filter is active, as in containers (allow process_vm_readv and "
            "process_vm_writev there)");
    if (reason.empty())
        add("no rights over the other process (a container or a user namespace without "
            "CAP_SYS_PTRACE)");
    return reason;
}

struct CmaTrial {
    std::atomic<std::uint32_t> ready{0};
    std::atomic<std::int32_t> target{0};
    std::atomic<std::uint32_t> done{0};
    std::atomic<std::int32_t> read_error{-1};  ///< -1: not tried
    std::atomic<std::int32_t> write_error{-1};
    std::atomic<bool> right_bytes{false};
};

constexpr std::size_t cma_bytes = 10000;  // more than a page
// Private memory: each forked process has its own, at the same address.
std::array<unsigned char, cma_bytes> cma_buffer;

base::Result<void> offer_memory(CmaTrial& trial) {
    cma_buffer.fill(0x5A);
    // With Yama's scope 1 a process must say that others may come.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    trial.target.store(getpid());
    trial.ready.store(1);
    if (!wait_for(trial.done, 1)) return {base::Code::Timeout, "the other process did not come"};
    if (trial.write_error.load() == 0)
        trial.right_bytes.store(trial.right_bytes.load() && cma_buffer.front() == 0xA5 &&
                                cma_buffer.back() == 0xA5);
    return {};
}

base::Result<void> reach_into(CmaTrial& trial) {
    if (!wait_for(trial.ready, 1)) return {base::Code::Timeout, "the other process did not start"};
    cma_buffer.fill(0);
    iovec local{cma_buffer.data(), cma_bytes};
    iovec remote{cma_buffer.data(), cma_bytes};
    const pid_t target = trial.target.load();
    ssize_t count = process_vm_readv(target, &local, 1, &remote, 1, 0);
    trial.read_error.store(count == static_cast<ssize_t>(cma_bytes) ? 0 : count < 0 ? errno : EIO);
    trial.right_bytes.store(cma_buffer.front() == 0x5A && cma_buffer.back() == 0x5A);
    cma_buffer.fill(0xA5);
    count = process_vm_writev(target, &local, 1, &remote, 1, 0);
    trial.write_error.store(count == static_cast<ssize_t>(cma_bytes) ? 0 : count < 0 ? errno : EIO);
    trial.done.store(1);
    return {};
}

}  // namespace

Finding probe_cma() {
    Finding finding{"cma", false, {}};
    SharedObject<CmaTrial> trial;
    if (!trial.valid()) {
        finding.detail = "no memory to try it";
        return finding;
    }
    const auto outcome =
        run_probe({{"target", {}, [&](SideReporter&) { return offer_memory(*trial.operator->()); }},
                   {"reader", {}, [&](SideReporter&) { return reach_into(*trial.operator->()); }}});
    const int read_error = trial->read_error.load();
    const int write_error = trial->write_error.load();
    if (!outcome && (read_error < 0 || write_error < 0)) {
        finding.detail = outcome.error().sentence;
    } else if (read_error > 0) {
        finding.detail = fmt::format("process_vm_readv: {}; {}", error_text(read_error),
                                     refusal_reason(read_error));
    } else if (write_error > 0) {
        finding.detail = fmt::format("process_vm_writev: {}; {}", error_text(write_error),
                                     refusal_reason(write_error));
    } else if (!trial->right_bytes.load()) {
        finding.detail = "the bytes that came across were wrong";
    } else {
        finding.works = true;
        finding.detail = "process_vm_readv and process_vm_writev between two processes";
    }
    return finding;
}

Finding probe_memory_file() {
    Finding finding{"memfd", false, {}};
    constexpr std::size_t bytes = 65536;
    auto file = base::create_memory_file("via-probe", bytes, base::Backing::Allocated);
    if (!file) {
        finding.detail = file.error().sentence;
        return finding;
    }
    auto mine = base::Mapping::map(file.value(), bytes, base::Access::ReadWrite);
    if (!mine) {
        finding.detail = mine.error().sentence;
        return finding;
    }
    const auto outcome = run_probe({{"writer", {}, [&](SideReporter&) -> base::Result<void> {
                                         auto theirs = base::Mapping::map(file.value(), bytes,
                                                                          base::Access::ReadWrite);
                                         if (!theirs) return std::move(theirs).error();
                                         theirs.value().data()[bytes - 1] = std::byte{0x42};
                                         return {};
                                     }}});
    if (!outcome)
        finding.detail = outcome.error().sentence;
    else if (mine.value().data()[bytes - 1] != std::byte{0x42})
        finding.detail = "what one process wrote into shared memory the other did not see";
    else {
        finding.works = true;
        finding.detail = "sealed shared memory without a name";
    }
    return finding;
}

Finding probe_huge_pages() {
    Finding finding{"huge pages", false, {}};
    const std::size_t block = base::huge_page_bytes();
    if (block == 0) {
        finding.detail = base::Settings::get().text("VIA_HUGE_PAGES") == "never"
                             ? "VIA_HUGE_PAGES=never"
                             : "the kernel has none for everybody, or of an unusable size "
                               "(/sys/kernel/mm/transparent_hugepage/enabled: madvise would do)";
        return finding;
    }
    const HeapMemory memory = HeapMemory::take(block);
    finding.works = memory.data != nullptr && base::use_huge_pages(memory.data.get(), block) != 0;
    finding.detail = finding.works ? "registered memory moves to them: CMA is twice as fast"
                                   : "memory that is in use does not move to them (since Linux "
                                     "6.1, if enough is free); it does when it is used first";
    return finding;
}

Finding probe_reserved_huge_pages() {
    Finding finding{"hugetlb", false, {}};
    const std::string free_pages = value_of("/proc/meminfo", "HugePages_Free");
    const std::string size = value_of("/proc/meminfo", "Hugepagesize");
    const base::UniqueFd file(memfd_create("via-probe", MFD_CLOEXEC | MFD_HUGETLB));
    std::string error;
    if (!file.valid()) {
        error = "memfd_create with MFD_HUGETLB: " + error_text(errno);
    } else {
        std::uint64_t kilobytes = 2048;
        std::istringstream(size) >> kilobytes;
        if (fallocate(file.get(), 0, 0, static_cast<off_t>(kilobytes * 1024)) != 0)
            error = "allocating one: " + error_text(errno);
    }
    finding.works = error.empty();
    finding.detail = fmt::format("{} of {} free", free_pages.empty() ? "0" : free_pages,
                                 size.empty() ? "unknown size" : size);
    if (!error.empty()) finding.detail += "; " + error;
    if (!error.empty() && free_pages == "0")
        finding.detail += "; vm.nr_hugepages would reserve some (they are not needed)";
    return finding;
}

Finding probe_futex() {
    Finding finding{"futex", false, {}};
    struct Trial {
        std::atomic<std::uint32_t> word{0};
        std::atomic<std::uint32_t> sleeping{0};
    };
    SharedObject<Trial> trial;
    if (!trial.valid()) {
        finding.detail = "no memory to try it";
        return finding;
    }
    const auto outcome =
        run_probe({{"sleeper",
                    {},
                    [&](SideReporter&) -> base::Result<void> {
                        trial->sleeping.store(1);
                        const base::Deadline deadline = base::Deadline::after(probe_limit / 2);
                        while (trial->word.load() == 0 && !deadline.expired())
                            base::futex_wait(trial->word, 0, deadline, base::FutexScope::Shared);
                        if (trial->word.load() == 0) return {base::Code::Timeout, "nobody woke it"};
                        return {};
                    }},
                   {"waker", {}, [&](SideReporter&) -> base::Result<void> {
                        if (!wait_for(trial->sleeping, 1))
                            return {base::Code::Timeout, "the sleeper did not start"};
                        trial->word.store(1);
                        base::futex_wake_all(trial->word, base::FutexScope::Shared);
                        return {};
                    }}});
    finding.works = outcome.ok();
    finding.detail = outcome ? "one process sleeps on shared memory, another wakes it"
                             : outcome.error().sentence;
    return finding;
}

Finding probe_membarrier() {
    Finding finding{"membarrier", false, {}};
    const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0) {
        finding.detail = error_text(errno);
        return finding;
    }
    const auto has = [&](long bit) { return (commands & bit) != 0; };
    finding.works = has(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    finding.detail = fmt::format("private expedited {}, global expedited {}",
                                 has(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ? "yes" : "no",
                                 has(MEMBARRIER_CMD_GLOBAL_EXPEDITED) ? "yes" : "no");
    return finding;
}

Finding probe_pidfd() {
    Finding finding{"pidfd", false, {}};
    const base::UniqueFd file(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    finding.works = file.valid();
    finding.detail = file.valid() ? "the death of a peer is seen at once" : error_text(errno);
    return finding;
}

std::vector<Limit> resource_limits() {
    std::vector<Limit> limits;
    const auto add = [&](auto resource, const char* name, const char* meaning) {
        rlimit limit{};
        if (getrlimit(resource, &limit) != 0) return;
        const auto number = [](rlim_t value) {
            return value == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max()
                                          : static_cast<std::uint64_t>(value);
        };
        limits.push_back({name, meaning, number(limit.rlim_cur), number(limit.rlim_max)});
    };
    add(RLIMIT_NOFILE, "RLIMIT_NOFILE", "open files; a connection needs a few");
    add(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "bytes of locked memory; only for VIA_PIN_MEMORY=1");
    add(RLIMIT_AS, "RLIMIT_AS", "bytes of address space");
    add(RLIMIT_NPROC, "RLIMIT_NPROC", "processes of this user");
    return limits;
}

Machine describe_machine() {
    Machine machine;
    utsname name{};
    if (uname(&name) == 0) {
        machine.kernel = fmt::format("{} {}", name.sysname, name.release);
        machine.architecture = name.machine;
    }
    machine.processor = value_of("/proc/cpuinfo", "model name");
    const auto positive = [](long value) {
        return value > 0 ? static_cast<std::uint64_t>(value) : 0;
    };
    machine.page_bytes = positive(sysconf(_SC_PAGESIZE));
    machine.cache_line_bytes = positive(sysconf(_SC_LEVEL1_DCACHE_LINESIZE));
    machine.memory_bytes = positive(sysconf(_SC_PHYS_PAGES)) * machine.page_bytes;
    if (access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0)
        machine.surroundings = "container";
    // In the first user namespace all ids map to themselves.
    std::istringstream map(first_line("/proc/self/uid_map"));
    std::uint64_t inside = 0;
    std::uint64_t outside = 0;
    std::uint64_t count = 0;
    if (map >> inside >> outside >> count && (inside != 0 || outside != 0 || count < 0xFFFFFFFF))
        machine.surroundings +=
            machine.surroundings.empty() ? "user namespace" : ", user namespace";
    return machine;
}

}  // namespace via::tool
