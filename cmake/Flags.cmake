# SPDX-License-Identifier: BSD-3-Clause
# Compiler and linker flags of the whole project.

add_compile_options(-Wall -Wextra)
if(CW_WERROR)
    add_compile_options(-Werror)
endif()
if(CW_SANITIZE)
    add_compile_options(-fsanitize=${CW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${CW_SANITIZE})
endif()
if(CW_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()
