# SPDX-License-Identifier: BSD-3-Clause
if(TARGET via_tool_parts)
    find_package(fmt REQUIRED)
    find_package(nlohmann_json REQUIRED)
    via_fuzz(NAME counters_page_fuzz SOURCES counters_page_fuzz.cpp LIBS via_tool_parts)
    via_fuzz(NAME control_message_fuzz SOURCES control_message_fuzz.cpp LIBS via_tool_parts)
    via_fuzz(NAME bench_report_fuzz
             SOURCES bench_report_fuzz.cpp ${PROJECT_SOURCE_DIR}/tests/tools/xml_check.cpp
             LIBS via_tool_parts)
    via_fuzz(NAME size_list_fuzz SOURCES size_list_fuzz.cpp LIBS via_tool_parts)
endif()
