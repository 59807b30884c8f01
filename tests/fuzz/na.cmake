# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME shm_reader_fuzz SOURCES shm_reader_fuzz.cpp LIBS via_na)
via_fuzz(NAME shm_endpoint_fuzz
         SOURCES shm_endpoint_fuzz.cpp ${PROJECT_SOURCE_DIR}/tests/na/shm/test_host.cpp
         LIBS via_na)
via_fuzz(NAME interface_offer_fuzz SOURCES interface_offer_fuzz.cpp LIBS via_na)
