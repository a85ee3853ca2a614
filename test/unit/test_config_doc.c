/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * docs/CONFIG.md comes from the table of settings: the test compares it with what the table gives,
 * `unit_config_doc --write <file>` writes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "config/global.h"
#include "config/table.h"

static const char intro[] =
    "# Configuration\n"
    "\n"
    "<!-- Written by unit_config_doc --write from src/config/config.def; a test holds the two together. -->\n"
    "\n"
    "## Where values come from\n"
    "\n"
    "A setting NAME is the variable `UCX_NAME`. A later source beats an earlier one:\n"
    "\n"
    "1. the default;\n"
    "2. files named `ucx.conf`, read once per process, a later one beating an earlier one:\n"
    "   `<sysconfdir>/ucx/ucx.conf`, `<prefix>/etc/ucx.conf` and `<prefix>/etc/ucx/ucx.conf` beside the\n"
    "   library's `lib` directory, `$HOME/ucx.conf`, `$UCX_CONFIG_DIR/ucx.conf`, `./ucx.conf`;\n"
    "3. the file named in `ucp_config_read`, if it exists;\n"
    "4. the environment;\n"
    "5. `ucp_config_modify`.\n"
    "\n"
    "A file counts only if it belongs to this user, to root or, in the first three places, to whoever owns the\n"
    "library, and if nobody else may write it (no `w` for group and others); a symbolic link must be such a user's,\n"
    "too. Another file is ignored with a warning, and so is one that cannot be read; a missing one is passed over\n"
    "in silence, but `UCX_CONFIG_DIR` must be a directory. No file switches protection off: a line that empties\n"
    "a setting `AUTH_*`, or sets `AUTH_TLS=off`, says nothing where any other place sets it, whatever the order\n"
    "above; only the environment and `ucp_config_modify` can. A program with more rights than the user who\n"
    "starts it (set-user-id, set-group-id, file capabilities) reads no `ucx.conf` but those of the first three\n"
    "places and no environment, writes no file for log or events, and uses neither InfiniBand nor libfabric,\n"
    "whose libraries obey the environment.\n"
    "\n"
    "A program that calls `ucp_config_read(\"P\", ...)` reads `UCX_NAME`, then `UCX_P_NAME`, then `P_UCX_NAME`,\n"
    "each on top of the one before, from all sources; so `P_UCX_NAME` in a file beats `UCX_NAME` in the\n"
    "environment. Where `UCX_P_NAME` is the name of another setting it means only that. Settings of\n"
    "the process have the prefix `UCX_` alone.\n"
    "\n"
    "Files hold lines `NAME = value` or `NAME: value` with the name of the variable; `#` and `;` begin a\n"
    "comment at the start of a line and behind a blank; section headers in brackets are passed over.\n"
    "Behind a line `CPU vendor=`, `CPU model=` or `Product name=` that is not so here, as `ucx_info -s` prints it\n"
    "(* and ? stand for any letters, the case does not count), the rest of a section is passed over.\n"
    "\n"
    "A malformed value of a setting that has an effect is an error of `ucp_config_read` or `ucp_config_modify` with\n"
    "a line in the log that says what was expected, and which line of which file it stands in; a malformed\n"
    "setting of the process is reported and its default taken.\n"
    "Variables that nothing knows are listed in a warning at the first worker, with a guess at what was meant;\n"
    "`UCX_WARN_UNUSED_ENV_VARS=n` silences it. Values are read at the first call that needs them,\n"
    "never when the library is loaded.\n"
    "\n"
    "`ucp_config_modify` takes names without `UCX_`; settings of transports with or without the prefix of the\n"
    "transport, and without it for every transport that has such a key (`TCP_TX_SEG_SIZE`, `TX_SEG_SIZE`).\n"
    "A name that no release of UCX knew, and one of the process that is read once, is refused. `*` and `?`\n"
    "stand for any text and any letter in its names and in those of files: the setting is made wherever the name\n"
    "fits and a file has no line with the whole name. Of files, no more than 256 such names are read.\n"
    "\n"
    "## How values are written\n"
    "\n"
    "| kind | text | printed |\n"
    "| --- | --- | --- |\n"
    "| boolean | y, yes, on, 1 or n, no, off, 0 | `y` `n` |\n"
    "| ternary | boolean, try, maybe | `y` `n` `try` |\n"
    "| on/off/auto | boolean, on, off, auto | `on` `off` `auto` |\n"
    "| integer | decimal, 0x hexadecimal, leading 0 octal; where stated inf, auto | decimal |\n"
    "| memory size | integer with b, k, m, g, t or kb ... in any case, powers of 1024; inf, auto; -1 is inf | "
    "`64K` |\n"
    "| time | decimal number with m, s, ms, us, ns, seconds if none; inf, where stated auto; resolution 10 ns | "
    "`20000000.00us` |\n"
    "| bandwidth | decimal number with K, M, G, T (powers of 1024) and B (bytes) or b (bits) per second; auto | "
    "`2200.00MBps` |\n"
    "| number | decimal number, three decimals; inf, where stated auto | `0.500` |\n"
    "| word, words | any case | as in the list |\n"
    "| list | commas; blanks belong to the names; no `=` | the same |\n"
    "| allow-list | list, with a leading `^` for all but these; `all` alone | the same |\n"
    "| range | `a-b` or one number | the same |\n"
    "\n"
    "A text that stands in a printed configuration must not contain `=` or control characters: programs split\n"
    "the printed lines at `=`.\n"
    "\n"
    "## Settings\n"
    "\n"
    "The tables hold those that the library acts on. The names below each table are those without effect here, with\n"
    "what UCX prints for them: any text is accepted, kept and printed.\n";

static const char *const titles[CW_GROUP_COUNT] = {[CW_GROUP_CONTEXT] = "Context",
                                                   [CW_GROUP_TCP] = "TCP",
                                                   [CW_GROUP_POSIX] = "Shared memory",
                                                   [CW_GROUP_SYSV] = "Shared memory under its System V name",
                                                   [CW_GROUP_CMA] = "Copying between processes",
                                                   [CW_GROUP_SELF] = "Loopback",
                                                   [CW_GROUP_IB] = "InfiniBand and RoCE",
                                                   [CW_GROUP_RC] = "Connections over InfiniBand and RoCE",
                                                   [CW_GROUP_GLOBAL] = "Process"};

/* A bar would end the cell. */
static void add_cell(struct cw_text *doc, const char *text)
{
    for (; *text != '\0'; ++text) {
        if (*text == '<') {
            cw_text_add(doc, "&lt;");
        } else {
            cw_text_add(doc, (*text == '|') ? "\\" : "");
            cw_text_add_bytes(doc, text, 1);
        }
    }
}

static void add_setting(struct cw_text *doc, const struct cw_setting *setting)
{
    struct cw_text text = {0};
    union cw_value value;

    cw_text_addf(doc, "| `UCX_%s` | ", setting->name);
    assert_int_equal(cw_value_parse(&setting->spec, setting->spec.default_text, &value), UCS_OK);
    cw_value_print(&setting->spec, &value, &text);
    cw_value_release(&setting->spec, &value);
    if (text.length > 0) {
        cw_text_addf(doc, "`%s`", cw_text_get(&text));
    }
    cw_text_add(doc, " | ");
    cw_text_clear(&text);
    cw_value_syntax(&setting->spec, &text);
    add_cell(doc, cw_text_get(&text));
    cw_text_add(doc, " | ");
    add_cell(doc, setting->description);
    cw_text_addf(doc, "%s |\n",
                 ((setting->flags & CW_SETTING_READ_ONLY) != 0) ? " Not changed by ucp_config_modify." : "");
    cw_text_free(&text);
}

/* The `index`th of a group; NULL behind its last. */
static const struct cw_setting *nth(enum cw_config_group group, size_t index)
{
    const struct cw_setting *settings = (group == CW_GROUP_GLOBAL) ? cw_global_settings : cw_settings;
    const size_t count = (group == CW_GROUP_GLOBAL) ? CW_GLOBAL_COUNT : CW_SETTING_COUNT;
    size_t i;

    for (i = 0; i < count; ++i) {
        if (settings[i].group == group && index-- == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

#define LINE_COLUMNS 90u

/* Names and their defaults as a sentence in lines of LINE_COLUMNS or a little more. */
static void add_names_without_effect(struct cw_text *doc, enum cw_config_group group)
{
    const struct cw_setting *setting;
    const char *before = "\nWithout effect: ";
    size_t line = doc->length;
    size_t i;

    for (i = 0; (setting = nth(group, i)) != NULL; ++i) {
        if (setting->description == NULL) {
            cw_text_addf(doc, "%s`UCX_%s=%s`", before, setting->name, setting->spec.default_text);
            before = (doc->length - line < LINE_COLUMNS) ? ", " : ",\n";
            line = (before[1] == '\n') ? doc->length + 1 : line;
        }
    }
    cw_text_add(doc, (before[0] == ',') ? ".\n" : "");
}

static void add_group(struct cw_text *doc, enum cw_config_group group)
{
    const struct cw_setting *setting;
    unsigned num_settings = 0;
    size_t i;

    cw_text_addf(doc, "\n### %s\n", titles[group]);
    for (i = 0; (setting = nth(group, i)) != NULL; ++i) {
        if (setting->description != NULL) {
            cw_text_add(doc, (num_settings++ > 0) ? "" : "\n| variable | default | syntax | meaning |\n"
                                                         "| --- | --- | --- | --- |\n");
            add_setting(doc, setting);
        }
    }
    add_names_without_effect(doc, group);
}

static void add_names(struct cw_text *doc)
{
    const struct cw_setting_retired *retired;
    const struct cw_setting_alias *alias;
    const struct cw_setting_known *known;

    cw_text_add(doc, "\n## Other names\n\n| variable | stands for |\n| --- | --- |\n");
    for (alias = cw_setting_aliases; alias->name != NULL; ++alias) {
        cw_text_addf(doc, "| `UCX_%s` | `UCX_%s` |\n", alias->name, alias->target);
    }
    cw_text_add(doc, "| `UCX_MM_*` | `UCX_POSIX_*` and `UCX_SYSV_*`, each with its own name counting more |\n"
                     "\n## Deprecated names\n\nThey have no effect and are warned about once.\n\n");
    for (retired = cw_setting_retired_names; retired->name != NULL; ++retired) {
        cw_text_addf(doc, "- `UCX_%s`\n", retired->name);
    }
    cw_text_add(doc, "\n## Names that mean nothing here\n\nUCX knows them; they are taken quietly.\n\n"
                     "| variable | reason |\n| --- | --- |\n");
    for (known = cw_setting_known_names; known->name != NULL; ++known) {
        cw_text_addf(doc, "| `UCX_%s` | %s |\n", known->name, known->reason);
    }
    cw_text_add(doc, "\n`ucp_config_modify` also takes these keys of absent transports quietly:\n");
    for (known = cw_setting_known_keys; known->name != NULL; ++known) {
        cw_text_addf(doc, "%s%s", ((known - cw_setting_known_keys) % 6 == 0) ? "\n" : " ", known->name);
    }
    cw_text_add(doc, "\n");
}

static void make_doc(struct cw_text *doc)
{
    static const enum cw_config_group order[] = {CW_GROUP_CONTEXT, CW_GROUP_TCP, CW_GROUP_POSIX,
                                                 CW_GROUP_SYSV,    CW_GROUP_CMA, CW_GROUP_SELF,
                                                 CW_GROUP_IB,      CW_GROUP_RC,  CW_GROUP_GLOBAL};
    size_t i;

    cw_text_add(doc, intro);
    for (i = 0; i < sizeof(order) / sizeof(order[0]); ++i) {
        add_group(doc, order[i]);
    }
    add_names(doc);
    assert_false(doc->failed);
}

static char *read_committed(void)
{
    char *text = NULL;
    size_t length;
    FILE *stream;
    FILE *file = fopen(CW_SOURCE_DIR "/docs/CONFIG.md", "r");
    int byte;

    if (file == NULL) {
        return NULL;
    }
    stream = open_memstream(&text, &length);
    assert_non_null(stream);
    while ((byte = fgetc(file)) != EOF) {
        (void)fputc(byte, stream);
    }
    (void)fclose(file);
    (void)fclose(stream);
    return text;
}

TEST(test_documentation_is_up_to_date)
{
    struct cw_text doc = {0};
    char *committed = read_committed();
    int is_same;

    if (committed == NULL) {
        skip(); /* the test runs away from its source */
        return;
    }
    make_doc(&doc);
    is_same = strcmp(committed, cw_text_get(&doc)) == 0;
    free(committed);
    cw_text_free(&doc);
    if (!is_same) {
        fail_msg("docs/CONFIG.md differs from src/config/config.def; run unit_config_doc --write docs/CONFIG.md");
    }
}

TEST(test_descriptions_are_sentences)
{
    size_t i;

    for (i = 0; i < CW_SETTING_COUNT + CW_GLOBAL_COUNT; ++i) {
        const struct cw_setting *setting =
            (i < CW_SETTING_COUNT) ? &cw_settings[i] : &cw_global_settings[i - CW_SETTING_COUNT];

        assert_true(setting->description == NULL || setting->description[strlen(setting->description) - 1] == '.' ||
                    setting->description[strlen(setting->description) - 1] == ')');
    }
}

int main(int argc, char **argv)
{
    struct cw_text doc = {0};
    FILE *file;
    int failed;

    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        make_doc(&doc);
        file = fopen(argv[2], "w");
        failed = file == NULL || fputs(cw_text_get(&doc), file) < 0 || fclose(file) != 0;
        cw_text_free(&doc);
        return failed;
    }
    return cw_tests_run(NULL, NULL);
}
