/* SPDX-License-Identifier: BSD-3-Clause */
/* The main of programs that have none of their own. */
#include "runner.h"

int main(int argc, char **argv)
{
    return cw_tests_main(argc, argv);
}
