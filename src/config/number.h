/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of settings as text, for config/value.c. Pure, independent of the locale, without errno. The readers accept
 * the whole text or nothing: 1 and *value_p written, or 0. Special values: see config/value.h.
 */
#ifndef CW_CONFIG_NUMBER_H
#define CW_CONFIG_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "base/string.h"

int cw_number_read_uint(const char *text, unsigned *value_p);
int cw_number_read_ulunits(const char *text, uint64_t *value_p);
int cw_number_read_memunits(const char *text, size_t *value_p);
/* Nanoseconds, rounded to 10 as far as the canonical text goes; a nonzero value never becomes 0. */
int cw_number_read_time(const char *text, int allow_auto, uint64_t *value_p);
/* Bytes per second. 0 is rejected: the value is a divisor. */
int cw_number_read_bandwidth(const char *text, double *value_p);
int cw_number_read_float(const char *text, int allow_auto, double *value_p);

void cw_number_print_uint(unsigned value, struct cw_text *text);
void cw_number_print_ulunits(uint64_t value, struct cw_text *text);
void cw_number_print_memunits(size_t value, struct cw_text *text);
void cw_number_print_time(uint64_t value, struct cw_text *text);
void cw_number_print_bandwidth(double value, struct cw_text *text);
void cw_number_print_float(double value, int allow_auto, struct cw_text *text);

#endif
