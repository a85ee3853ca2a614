/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout comparison in C. */
#include "layout.h"

int layout_c_is_checked = 1;
