# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME hosts_fuzz SOURCES hosts_fuzz.cpp LIBS via_ua)
