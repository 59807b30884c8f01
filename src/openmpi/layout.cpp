// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/layout.hpp"

#include <sys/uio.h>

#include <cstdint>

namespace via::openmpi {
namespace {

/// A convertor for one use.
class Convertor {
  public:
    Convertor() { OBJ_CONSTRUCT(&convertor_, opal_convertor_t); }
    ~Convertor() {
        opal_convertor_cleanup(&convertor_);
        OBJ_DESTRUCT(&convertor_);
    }
    Convertor(const Convertor&) = delete;
    Convertor& operator=(const Convertor&) = delete;
    [[nodiscard]] opal_convertor_t* get() noexcept { return &convertor_; }

  private:
    opal_convertor_t convertor_;
};

}  // namespace

void Layout::pack(void* to) const noexcept {
    Convertor convertor;
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super, count,
                                             buffer, 0, convertor.get());
    iovec piece{to, bytes()};
    std::uint32_t pieces = 1;
    std::size_t most = bytes();
    opal_convertor_pack(convertor.get(), &piece, &pieces, &most);
}

void Layout::unpack(const void* from, std::size_t packed) const noexcept {
    if (packed == 0) return;
    Convertor convertor;
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &datatype->super, count,
                                             buffer, 0, convertor.get());
    iovec piece{const_cast<void*>(from), packed};
    std::uint32_t pieces = 1;
    std::size_t most = packed;
    opal_convertor_unpack(convertor.get(), &piece, &pieces, &most);
}

}  // namespace via::openmpi
