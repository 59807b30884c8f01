# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME message_packet_fuzz SOURCES message_packet_fuzz.cpp LIBS via_mvich)
via_fuzz(NAME conversation_fuzz SOURCES conversation_fuzz.cpp LIBS via_mvich)
# Makes the seeds of message_packet_fuzz anew.
add_executable(make_message_packet_corpus EXCLUDE_FROM_ALL make_message_packet_corpus.cpp)
target_link_libraries(make_message_packet_corpus PRIVATE via_mvich via_compile)
target_include_directories(make_message_packet_corpus PRIVATE ${PROJECT_SOURCE_DIR}/tests)
