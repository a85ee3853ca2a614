/* SPDX-License-Identifier: BSD-3-Clause */
/* The macros in C. */
#include "macros.h"

int main(void)
{
    return check_every_macro() == 0 ? 0 : 1;
}
