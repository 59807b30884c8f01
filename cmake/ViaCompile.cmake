# SPDX-License-Identifier: BSD-3-Clause
# One place for what every target of ours is compiled with.
add_library(via_compile INTERFACE)
target_compile_options(via_compile INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion
    # Only the release build sees the layers file by file, where names of other files hide none.
    $<$<NOT:$<STREQUAL:${VIA_UNITY},ALL>>:-Wshadow>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
    # g++ 12 sees overlapping copies in "text" + std::string that are none (its bug 105651).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    $<$<CONFIG:Release>:-fno-plt>)
target_include_directories(via_compile INTERFACE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)

if(VIA_SANITIZE)
    # Line tables are enough for stack traces. Only the layers are optimized (src/CMakeLists.txt):
    # the sanitizers' own work on tools and tests takes twice as long to compile otherwise.
    add_compile_options(-fsanitize=${VIA_SANITIZE} -fno-omit-frame-pointer -O0 -g1)
    add_link_options(-fsanitize=${VIA_SANITIZE})
    if(VIA_SANITIZE MATCHES "undefined")
        add_compile_options(-fno-sanitize-recover=undefined)
        # clang's vptr check needs a C++ runtime that a C program with our library does not have.
        add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=vptr>)
    endif()
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        # What g++ defines by itself: the sources ask for these.
        if(VIA_SANITIZE MATCHES "thread")
            add_compile_definitions(__SANITIZE_THREAD__=1)
        endif()
        if(VIA_SANITIZE MATCHES "address")
            add_compile_definitions(__SANITIZE_ADDRESS__=1)
        endif()
    endif()
    add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

if(VIA_FUZZ)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "VIA_FUZZ needs clang: libFuzzer is part of it (preset 'fuzz')")
    endif()
    # Coverage in the libraries too, or the fuzzer is blind beyond its own file.
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# via_alone(source ...): compiled by itself also where VIA_UNITY puts others together.
function(via_alone)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION TRUE)
endfunction()

# via_compile_quickly(target ... [TIMED source ...]): half the optimization takes half the time to compile.
# For what is not timed itself; sources that are have all of it, each by itself.
function(via_compile_quickly)
    cmake_parse_arguments(PARSE_ARGV 0 ARG "" "" "TIMED")
    foreach(target ${ARG_UNPARSED_ARGUMENTS})
        target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endforeach()
    via_alone(${ARG_TIMED})
    set_source_files_properties(${ARG_TIMED} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
endfunction()

# via_library(name SOURCES ... [LINK ...]): one static library per layer.
function(via_library name)
    cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LINK")
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE $<BUILD_INTERFACE:via_compile>)
    target_include_directories(${name} PUBLIC
        ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
endfunction()
