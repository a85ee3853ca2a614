# SPDX-License-Identifier: BSD-3-Clause
# What `cmake --install` puts where: libraries, headers, pkg-config files, and the CMake package "ucx".
