// SPDX-License-Identifier: BSD-3-Clause
// A forked child and memory that it shares with its parent. It ends with the test.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>

namespace via::test {

/// One T, zeroed, that parent and children see alike.
template <class T>
class Shared {
  public:
    Shared() {
        void* memory =
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) std::abort();
        object_ = new (memory) T{};
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { munmap(object_, sizeof(T)); }
    [[nodiscard]] T* operator->() const noexcept { return object_; }

  private:
    T* object_;
};

class ChildProcess {
  public:
    /// Runs `body` in a child; its result is the exit code.
    explicit ChildProcess(const std::function<int()>& body) : pid_(fork()) {
        if (pid_ == 0) _exit(body());
    }
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        [[maybe_unused]] const int code = wait();
    }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The child's exit code, or -1 if it was killed.
    int wait() {
        int status = 0;
        const pid_t ended = waitpid(pid_, &status, 0);
        pid_ = -1;
        return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    pid_t pid_;
};

}  // namespace via::test
