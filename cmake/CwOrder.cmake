# SPDX-License-Identifier: BSD-3-Clause
# cw_order_functions(<library> <objects> <file> <last>...): what nearly every process touches lies together in a shared
# library. The functions that the file names come first in the code, in its order. Of the constants short texts and
# tables come first, as long texts are messages that few processes print. Tables and variables of the objects <last>
# come last; they are large and rarely used. The linker's own script is taken and changed; where that cannot be done
# everything stays where it is.

include(CheckCSourceCompiles)

# Sections of the functions. What is behind a point in a name is the compiler's, as in name.part.0; what it thinks is
# cold lies elsewhere, and is named like that in the file: unlikely.name.
function(cw_order_patterns file result)
    file(STRINGS ${file} lines REGEX "^[^#]")
    set(patterns)
    foreach(line IN LISTS lines)
        separate_arguments(names UNIX_COMMAND "${line}")
        foreach(name IN LISTS names)
            string(APPEND patterns "    *(.text.${name} .text.${name}.*)\n")
        endforeach()
    endforeach()
    set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

function(cw_order_functions library objects file)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${library}.order.ld)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_directory_property(options LINK_OPTIONS)
    string(REPLACE "LINKER:" "-Wl," options "${options}")
    separate_arguments(flags UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
    execute_process(COMMAND ${CMAKE_C_COMPILER} -shared ${flags} ${options} -Wl,--verbose -o ${script}.so
        OUTPUT_VARIABLE text ERROR_QUIET)
    if(CW_SANITIZE OR CW_COVERAGE OR NOT text MATCHES "\n======+\n(.*)\n======+\n")
        return()
    endif()
    set(text "${CMAKE_MATCH_1}")
    cw_order_patterns(${file} patterns)
    # The start-up code of the compiler runs whenever the library is loaded, so it lies before them.
    string(PREPEND patterns "    *crtbegin*.o(.text)\n")
    string(REPLACE "*(.text.unlikely " "\n${patterns}    *(.text.unlikely " text "${text}")
    list(TRANSFORM ARGN PREPEND "*/")
    list(TRANSFORM ARGN APPEND ".c.*")
    list(JOIN ARGN " " last)
    string(REPLACE "*(.rodata .rodata."
        "*(.rodata.str1.1 .rodata.cst*) *(EXCLUDE_FILE(${last}) .rodata) *(.rodata .rodata." text "${text}")
    string(REPLACE "*(.bss .bss." "*(EXCLUDE_FILE(${last}) .bss) *(.bss .bss." text "${text}")
    file(CONFIGURE OUTPUT ${script} CONTENT "@text@\n" @ONLY)

    set(CMAKE_REQUIRED_LINK_OPTIONS -shared LINKER:-T,${script})
    set(CMAKE_REQUIRED_FLAGS -fPIC)
    check_c_source_compiles("int answer(void); int answer(void) { return 42; } int main(void) { return 0; }"
        CW_CAN_ORDER_FUNCTIONS)
    if(CW_CAN_ORDER_FUNCTIONS)
        target_compile_options(${objects} PRIVATE -ffunction-sections)
        target_link_options(${library} PRIVATE LINKER:-T,${script})
        set_property(TARGET ${library} APPEND PROPERTY LINK_DEPENDS ${script})
    endif()
endfunction()
