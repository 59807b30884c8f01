# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME shm_reader_fuzz SOURCES shm_reader_fuzz.cpp LIBS via_na)
via_fuzz(NAME shm_endpoint_fuzz
         SOURCES shm_endpoint_fuzz.cpp ${PROJECT_SOURCE_DIR}/tests/na/shm/test_host.cpp
         LIBS via_na)
via_fuzz(NAME interface_offer_fuzz SOURCES interface_offer_fuzz.cpp LIBS via_na)
via_fuzz(NAME packet_fuzz SOURCES packet_fuzz.cpp LIBS via_wire)
via_fuzz(NAME connection_fuzz SOURCES connection_fuzz.cpp LIBS via_na)
# Makes the seeds of both anew.
add_executable(make_packet_corpus EXCLUDE_FROM_ALL make_packet_corpus.cpp
               ${PROJECT_SOURCE_DIR}/tests/na/net/simulated_network.cpp)
target_link_libraries(make_packet_corpus PRIVATE via_na via_compile)
target_include_directories(make_packet_corpus PRIVATE ${PROJECT_SOURCE_DIR}/tests)
