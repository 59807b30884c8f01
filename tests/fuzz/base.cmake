# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME settings_fuzz SOURCES settings_fuzz.cpp LIBS via_base)
