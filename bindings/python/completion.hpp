// SPDX-License-Identifier: BSD-3-Clause
// Completions and completion queues for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <via/via.hpp>

#include "vi.hpp"

namespace via::python {

class PythonQueue {
  public:
    explicit PythonQueue(via::CompletionQueue queue) : queue_(std::move(queue)) {}

    /// VIs that use it keep it in the library.
    void close();
    [[nodiscard]] via::CompletionQueue& queue();
    [[nodiscard]] std::optional<PythonCompletion> poll();
    [[nodiscard]] PythonCompletion wait(const Seconds& timeout);

  private:
    std::optional<via::CompletionQueue> queue_;
    int users_ = 0;
};

void define_completion(pybind11::module_& module);

}  // namespace via::python
