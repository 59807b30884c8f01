# SPDX-License-Identifier: BSD-3-Clause
# The public C headers under an old compiler's rules, in both descriptor dialects.
foreach(dialect cs control)
    set(target vipl_c89_${dialect})
    add_library(${target} OBJECT ${CMAKE_CURRENT_LIST_DIR}/c89_layout.c)
    if(dialect STREQUAL "cs")
        target_compile_definitions(${target} PRIVATE VIPL095)
    endif()
    list(APPEND vipl_c89_targets ${target})
endforeach()
add_library(vipl_c89_prototypes OBJECT ${CMAKE_CURRENT_LIST_DIR}/c89_prototypes.c)
list(APPEND vipl_c89_targets vipl_c89_prototypes)

foreach(target ${vipl_c89_targets})
    set_target_properties(${target} PROPERTIES C_STANDARD 90 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    target_compile_options(${target} PRIVATE -std=c89 -pedantic-errors -Wall -Wextra -Werror)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
endforeach()

via_test(NAME vipl_layout_test
         SOURCES ${CMAKE_CURRENT_LIST_DIR}/layout_test.cpp
         LIBS vipl_c89_cs vipl_c89_control)
