/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readers, printers and copies of the types that own memory, for the table in config/value.c; contracts as in
 * config/value.h. Each value is one block of memory.
 */
#ifndef CW_CONFIG_LIST_H
#define CW_CONFIG_LIST_H

#include "config/value.h"

ucs_status_t cw_list_parse(const struct cw_value_spec *spec, const char *text, void *value);
void cw_list_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text);
ucs_status_t cw_list_copy(const struct cw_name_list *list, struct cw_name_list *copy);

ucs_status_t cw_allow_list_parse(const struct cw_value_spec *spec, const char *text, void *value);
void cw_allow_list_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text);
ucs_status_t cw_allow_list_copy(const struct cw_allow_list *list, struct cw_allow_list *copy);

ucs_status_t cw_string_parse(const struct cw_value_spec *spec, const char *text, void *value);
void cw_string_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text);
ucs_status_t cw_string_value_copy(const struct cw_value_spec *spec, char *const *value, char **copy);
void cw_string_value_release(const struct cw_value_spec *spec, char *value);

ucs_status_t cw_memory_sizes_parse(const struct cw_value_spec *spec, const char *text, void *value);
void cw_memory_sizes_print(const struct cw_value_spec *spec, const void *value, struct cw_text *text);
ucs_status_t cw_memory_sizes_copy(const struct cw_memory_sizes *sizes, struct cw_memory_sizes *copy);

#endif
