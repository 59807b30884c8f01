// SPDX-License-Identifier: BSD-3-Clause
// The same through the C++ interface, with memory that peers could map.
#include <cstring>
#include <iostream>
#include <via/via.hpp>

int main() {
    auto nic = via::Nic::open("shm0");
    if (!nic) {
        std::cerr << nic.error().sentence << '\n';
        return 1;
    }
    auto memory = nic->allocate(8192);
    if (!memory) {
        std::cerr << memory.error().sentence << '\n';
        return 1;
    }
    std::memset(memory->data(), 1, memory->size());
    std::cout << "C++: " << memory->size() << " bytes of kmem on " << nic->attributes().Name
              << '\n';
    return 0;
}
