/* SPDX-License-Identifier: BSD-3-Clause */
/* Who did not ask for us gets nothing: other programs start as if we were not installed. */
#ifndef VIA_OPENMPI_ASKED_FOR_H
#define VIA_OPENMPI_ASKED_FOR_H

#include <stdbool.h>
#include <string.h>

#include <ompi_config.h>

#include <opal/mca/base/mca_base_var.h>

/* `--mca pml via`, or a list that has it. */
static inline bool via_asked_for(void) {
    const char** names = NULL;
    const int variable = mca_base_var_find("ompi", "pml", NULL, NULL);
    if (variable < 0 || mca_base_var_get_value(variable, &names, NULL, NULL) != OPAL_SUCCESS)
        return false;
    return names != NULL && *names != NULL && **names != '^' && strstr(*names, "via") != NULL;
}

#endif
