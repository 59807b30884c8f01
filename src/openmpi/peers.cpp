// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/peers.hpp"

#include <cstdlib>
#include <optional>

#include "base/log.hpp"
#include "openmpi/card.hpp"

extern "C" mca_pml_base_component_2_0_0_t mca_pml_via_component;  // component.c

namespace via::openmpi {

base::Result<void> Peers::publish(const mvich::HostPort& name) {
    Card card = card_of(name);
    int outcome = OPAL_SUCCESS;
    OPAL_MODEX_SEND(outcome, OPAL_PMIX_GLOBAL, &mca_pml_via_component.pmlm_version, card.data(),
                    card.size());
    if (outcome != OPAL_SUCCESS)
        return base::Result<void>(base::Code::OutOfResources,
                                  "Open MPI's PMIx does not take this process's address");
    return {};
}

mvich::Peer Peers::look_up(ompi_proc_t& process) {
    const std::lock_guard guard(mutex_);
    void*& kept = process.proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML];
    if (kept == nullptr) {
        std::uint8_t* card = nullptr;
        std::size_t bytes = 0;
        int outcome = OPAL_SUCCESS;
        OPAL_MODEX_RECV(outcome, &mca_pml_via_component.pmlm_version, &process.super.proc_name,
                        reinterpret_cast<void**>(&card), &bytes);
        const auto name = outcome == OPAL_SUCCESS ? name_on({card, bytes}) : std::nullopt;
        std::free(card);
        if (!name) {
            base::log(base::LogLevel::Error,
                      "pml/via: a process of the job has published no address; all of its ranks "
                      "must run with --mca pml via and the same Viaduct");
            return mvich::unknown_peer;
        }
        kept = reinterpret_cast<void*>(std::uintptr_t{book_->insert(*name)} + 1);
    }
    return static_cast<mvich::Peer>(reinterpret_cast<std::uintptr_t>(kept) - 1);
}

void Peers::forget(ompi_proc_t& process) {
    const std::lock_guard guard(mutex_);
    void*& kept = process.proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML];
    if (kept == nullptr) return;
    book_->remove(static_cast<mvich::Peer>(reinterpret_cast<std::uintptr_t>(kept) - 1));
    kept = nullptr;
}

}  // namespace via::openmpi
