/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Printing a configuration. Programs split the lines of UCS_CONFIG_PRINT_CONFIG at '=' into a table, so nothing may be
 * printed that breaks this.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/global.h"

#define COMMENT_COLUMNS 78

struct printer {
    FILE *stream;
    unsigned flags;
    const char *filter;  /* part of a name; NULL: all */
    struct cw_text text; /* of the current value */
};

static bool is_wanted(const struct printer *printer, const char *name)
{
    char full[128];

    (void)snprintf(full, sizeof(full), "UCX_%s", name);
    return printer->filter == NULL || strstr(full, printer->filter) != NULL;
}

/* The words of a text as lines "# ...". */
static void print_comment(FILE *stream, const char *text)
{
    size_t column = 0;

    (void)fputs("#", stream);
    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (column > 0 && 2 + column + length >= COMMENT_COLUMNS) {
            (void)fputs("\n#", stream);
            column = 0;
        }
        (void)fprintf(stream, " %.*s", (int)length, text);
        column += length + 1;
        text += length;
        text += (*text == ' ');
    }
    (void)fputs("\n", stream);
}

/* Whether `NAME=text` is one line with one '='. */
static bool fits_line(const char *text)
{
    return strpbrk(text, "=\n\r") == NULL;
}

static void print_block(const struct printer *printer, const char *description, const struct cw_setting *setting)
{
    struct cw_text syntax = {0};

    cw_value_syntax(&setting->spec, &syntax);
    (void)fputs("#\n", printer->stream);
    print_comment(printer->stream, description);
    (void)fprintf(printer->stream, "#\n# syntax:    %s\n#\n", cw_text_get(&syntax));
    cw_text_free(&syntax);
}

/* An assignment under `name`, which is the setting's or an alias; the value is in printer->text. */
static void print_assignment(const struct printer *printer, const struct cw_setting *setting, const char *name,
                             const char *description, int is_set)
{
    if (printer->text.failed || !is_wanted(printer, name)) {
        return; /* the line is omitted rather than printed with a wrong value */
    }
    if ((printer->flags & UCS_CONFIG_PRINT_DOC) != 0) {
        print_block(printer, description, setting);
    }
    (void)fprintf(printer->stream, "%sUCX_%s=%s\n",
                  ((printer->flags & UCS_CONFIG_PRINT_COMMENT_DEFAULT) != 0 && !is_set) ? "# " : "", name,
                  cw_text_get(&printer->text));
    if ((printer->flags & UCS_CONFIG_PRINT_DOC) != 0) {
        (void)fputs("\n", printer->stream);
    }
}

static void print_aliases(const struct printer *printer, const struct cw_setting *setting, int is_set)
{
    const struct cw_setting_alias *alias;
    char description[128];

    for (alias = cw_setting_aliases; alias->name != NULL; ++alias) {
        if (strcmp(alias->target, setting->name) == 0) {
            (void)snprintf(description, sizeof(description), "Alias of UCX_%s.", setting->name);
            print_assignment(printer, setting, alias->name, description, is_set);
        }
    }
}

static void print_setting(struct printer *printer, const struct cw_config *config, const struct cw_setting *setting)
{
    int is_set;

    cw_text_clear(&printer->text);
    if (setting->group == CW_GROUP_GLOBAL) {
        cw_config_global_print(setting, &printer->text, &is_set);
    } else {
        cw_value_print(&setting->spec, (const char *)config + setting->offset, &printer->text);
        is_set = config->sources[setting - cw_settings] != CW_SOURCE_DEFAULT;
    }
    if (setting->spec.type == CW_VALUE_ANY && !fits_line(cw_text_get(&printer->text))) {
        cw_text_clear(&printer->text);
        cw_text_add(&printer->text, setting->spec.default_text);
    }
    print_assignment(printer, setting, setting->name,
                     (setting->description != NULL) ? setting->description : "Accepted without effect.", is_set);
    if ((printer->flags & UCS_CONFIG_PRINT_HIDDEN) != 0) {
        print_aliases(printer, setting, is_set);
    }
}

static void print_retired(const struct printer *printer, unsigned groups)
{
    const struct cw_setting_retired *retired;

    for (retired = cw_setting_retired_names; retired->name != NULL; ++retired) {
        if ((groups & (1u << retired->group)) != 0 && is_wanted(printer, retired->name)) {
            (void)fprintf(printer->stream, "%sUCX_%s (deprecated)\n",
                          ((printer->flags & UCS_CONFIG_PRINT_DOC) != 0) ? "# " : "", retired->name);
        }
    }
}

/* A pair is any text; one that does not fit a line is omitted. */
static void print_pairs(const struct printer *printer, const struct cw_config *config)
{
    const struct cw_config_pair *pair;

    for (pair = config->pairs; pair != NULL; pair = pair->next) {
        if (fits_line(pair->name) && fits_line(pair->value) && is_wanted(printer, pair->name)) {
            (void)fprintf(printer->stream, "%s=%s\n", pair->name, pair->value);
        }
    }
}

void cw_config_print_intro(FILE *stream)
{
    (void)fputs("# Configuration in the format of ucx.conf.\n"
                "# Uncomment a line to set the value in it.\n",
                stream);
}

void cw_config_print_part(const struct cw_config *config, FILE *stream, const char *title,
                          ucs_config_print_flags_t flags, unsigned groups, const char *filter)
{
    struct printer printer = {.stream = stream, .flags = (unsigned)flags, .filter = filter};
    size_t i;

    if ((printer.flags & UCS_CONFIG_PRINT_HEADER) != 0) {
        (void)fprintf(stream, "\n#\n# %s\n#\n\n", (title == NULL) ? "" : title);
    }
    if ((printer.flags & (UCS_CONFIG_PRINT_CONFIG | UCS_CONFIG_PRINT_DOC)) != 0) {
        for (i = 0; i < CW_GLOBAL_COUNT && (groups & (1u << CW_GROUP_GLOBAL)) != 0; ++i) {
            print_setting(&printer, config, &cw_global_settings[i]);
        }
        for (i = 0; i < CW_SETTING_COUNT; ++i) {
            if ((groups & (1u << cw_settings[i].group)) != 0) {
                print_setting(&printer, config, &cw_settings[i]);
            }
        }
        if ((printer.flags & UCS_CONFIG_PRINT_HIDDEN) != 0) {
            print_retired(&printer, groups);
        }
        if ((groups & (1u << CW_GROUP_CONTEXT)) != 0) {
            print_pairs(&printer, config);
        }
        cw_text_free(&printer.text);
    }
    if ((printer.flags & UCS_CONFIG_PRINT_HEADER) != 0) {
        (void)fputs("\n", stream);
    }
}

void cw_config_print_groups(const struct cw_config *config, FILE *stream, const char *title,
                            ucs_config_print_flags_t flags, unsigned groups)
{
    if (((unsigned)flags & UCS_CONFIG_PRINT_DOC) != 0) {
        cw_config_print_intro(stream);
    }
    cw_config_print_part(config, stream, title, flags, groups, NULL);
}

void cw_config_print(const struct cw_config *config, FILE *stream, const char *title, ucs_config_print_flags_t flags)
{
    /* Comments alone show no setting. */
    cw_config_print_groups(config, stream, title, flags,
                           ((unsigned)flags & UCS_CONFIG_PRINT_CONFIG) ? 1u << CW_GROUP_CONTEXT : 0);
}
