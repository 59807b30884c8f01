// SPDX-License-Identifier: BSD-3-Clause
// A VI for Python. Descriptors come from pools of its own; what is posted is kept with its memory
// until it is done. All of this belongs to whoever holds the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <via/via.hpp>

#include "memory.hpp"
#include "wait.hpp"

namespace via::python {

class PythonVi;

/// What became of an operation.
struct PythonCompletion {
    std::string operation;
    bool receive = false;
    std::uint32_t status = 0;
    std::size_t length = 0;
    std::optional<std::uint32_t> immediate;
    std::weak_ptr<PythonVi> vi;
    SegmentList segments;

    [[nodiscard]] bool ok() const noexcept { return (status & VIP_STATUS_ERROR_MASK) == 0; }
    /// The bytes that were moved, copied.
    [[nodiscard]] pybind11::bytes data() const;
};

/// Takes what belongs to it from the operations under way.
[[nodiscard]] PythonCompletion to_python(via::Completion completion);

class PythonVi : public std::enable_shared_from_this<PythonVi> {
  public:
    [[nodiscard]] static std::shared_ptr<PythonVi> create(const via::Nic& nic,
                                                          const via::ViOptions& options);
    PythonVi(const PythonVi&) = delete;
    PythonVi& operator=(const PythonVi&) = delete;
    ~PythonVi();

    /// Disconnects; operations under way are forgotten.
    void close();
    /// Raises if it was closed.
    [[nodiscard]] via::Vi& vi();
    [[nodiscard]] bool closed() const noexcept { return !vi_; }

    void send(const pybind11::handle& data, std::optional<std::uint32_t> immediate, bool fence);
    void post_receive(const pybind11::handle& data);
    void rdma_write(const via::RemoteSegment& to, const pybind11::handle& data,
                    std::optional<std::uint32_t> immediate, bool fence);
    void rdma_read(const via::RemoteSegment& from, const pybind11::handle& data, bool fence);

    [[nodiscard]] std::optional<PythonCompletion> poll_send();
    [[nodiscard]] std::optional<PythonCompletion> poll_receive();
    [[nodiscard]] PythonCompletion wait_send(const Seconds& timeout);
    [[nodiscard]] PythonCompletion wait_receive(const Seconds& timeout);

    /// An address of this NIC.
    [[nodiscard]] via::Address address(const std::string& discriminator) const;

    int users = 0;  ///< calls that hold no lock of the interpreter

  private:
    PythonVi(std::vector<std::uint8_t> host, via::BufferPool pool, via::Vi vi);

    [[nodiscard]] via::Buffer take_descriptor();
    template <class Post>
    void post(const pybind11::handle& data, Post post);

    std::vector<std::uint8_t> host_;
    std::vector<via::BufferPool> pools_;
    std::optional<via::Vi> vi_;
};

void define_vi(pybind11::module_& module);

}  // namespace via::python
