/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a context: one member per setting of config.def, read from files and environment, changed by
 * ucp_config_modify, copied by ucp_init, and read as config->member. Settings of the process (log level and the like)
 * are not here: see config/global.h.
 *
 * An object is not locked: its owner serialises changes. Different objects are independent.
 */
#ifndef CW_CONFIG_H
#define CW_CONFIG_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/value.h"
#include "ucs/config/types.h"
#include "ucs/type/status.h"

/* Values of settings with words, in the order of the words in config/value.c. */
enum cw_rndv_scheme {
    CW_RNDV_AUTO,
    CW_RNDV_GET_ZCOPY,
    CW_RNDV_PUT_ZCOPY,
    CW_RNDV_GET_PPLN,
    CW_RNDV_PUT_PPLN,
    CW_RNDV_AM,
    CW_RNDV_RKEY_PTR
};
enum cw_atomic_mode { CW_ATOMIC_CPU, CW_ATOMIC_DEVICE, CW_ATOMIC_GUESS };

/* Where the value of a setting comes from; a later source overrides an earlier one. */
enum cw_config_source { CW_SOURCE_DEFAULT, CW_SOURCE_FILE, CW_SOURCE_ENVIRONMENT, CW_SOURCE_MODIFY };

#define CW_SETTING(member, ctype, name, type, words, text, group, flags, description) CW_SETTING_##member,
#define CW_NAME(name, text, group, flags) CW_SETTING_##name,
enum cw_setting_id {
#include "config/config.def"
    CW_SETTING_COUNT
};

/* Their indices in the list of saved texts. */
#define CW_NAME(name, text, group, flags) CW_NAME_##name,
enum cw_name_id {
#include "config/config.def"
    CW_NAME_COUNT
};

/* A pair passed to ucp_config_modify that is no option of the context. */
struct cw_config_pair {
    char *name;
    char *value;
    struct cw_config_pair *next;
};

#define CW_SETTING(member, ctype, name, type, words, text, group, flags, description) ctype member;
struct cw_config {
#include "config/config.def"
    char *retained[CW_NAME_COUNT];           /* texts of names without effect */
    unsigned char sources[CW_SETTING_COUNT]; /* enum cw_config_source, by enum cw_setting_id */
    char *prefix;                            /* as passed to ucp_config_read; "" for none */
    char *filename;                          /* likewise */
    struct cw_config_pair *pairs;            /* in the order in which they were passed */
};

/* The object behind ucp_config_t of programs. Only src/api converts between the two. */
struct ucp_config {
    struct cw_config settings;
};

/*
 * Reads all settings: defaults, ucx.conf files (once per process), `filename` if it exists, environment. NULL or ""
 * means no prefix, no file. May read files, otherwise does not block. UCS_ERR_INVALID_PARAM: a malformed value, with
 * one ERROR line each; UCS_ERR_NO_MEMORY. The caller ends *config_p with cw_config_free.
 */
ucs_status_t cw_config_read(const char *env_prefix, const char *filename, struct cw_config **config_p);

/* An independent copy, to be ended with cw_config_free. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_config_clone(const struct cw_config *config, struct cw_config **clone_p);

/* NULL is allowed. */
void cw_config_free(struct cw_config *config);

/*
 * Sets what ucp_config_modify sets: an option of the context, a transport's (full name, or without the prefix of the
 * transport and then of every transport that has such a key), or one of the process; a name with * or ? selects all
 * that match. Names without effect accept any text, to be printed. UCS_ERR_INVALID_PARAM: malformed value of a known
 * setting, or NULL; a name that no release knew, or of the process and read once. All old values stay.
 */
ucs_status_t cw_config_modify(struct cw_config *config, const char *name, const char *value);

/* Checks that concern several settings: UCS_ERR_INVALID_PARAM with an ERROR line, or UCS_OK. For ucp_init. */
ucs_status_t cw_config_validate(const struct cw_config *config);

/* Prints the options of the context and the recorded pairs. `title` may be NULL. */
void cw_config_print(const struct cw_config *config, FILE *stream, const char *title, ucs_config_print_flags_t flags);

/* Prints a set of groups (bits 1 << enum cw_config_group), CW_GROUP_GLOBAL among them; the pairs go with
 * CW_GROUP_CONTEXT. */
enum cw_config_group {
    CW_GROUP_CONTEXT,
    CW_GROUP_TCP,
    CW_GROUP_POSIX,
    CW_GROUP_SYSV,
    CW_GROUP_CMA,
    CW_GROUP_SELF,
    CW_GROUP_IB,
    CW_GROUP_RC,
    CW_GROUP_GLOBAL,
    CW_GROUP_COUNT
};
#define CW_GROUPS_ALL ((1u << CW_GROUP_COUNT) - 1)
void cw_config_print_groups(const struct cw_config *config, FILE *stream, const char *title,
                            ucs_config_print_flags_t flags, unsigned groups);
/* Its parts: the two lines at the beginning with DOC; and the rest, restricted to names (with UCX_) that contain
 * `filter`, which may be NULL. */
void cw_config_print_intro(FILE *stream);
void cw_config_print_part(const struct cw_config *config, FILE *stream, const char *title,
                          ucs_config_print_flags_t flags, unsigned groups, const char *filter);

/*
 * For worker creation. Lists the variables of environment and files that nothing reads, once per process and prefix,
 * with a guess at what was meant, unless WARN_UNUSED_ENV_VARS=n.
 */
void cw_config_warn_unused(const struct cw_config *config);

/* Whether UCX_TUNING leaves this rule enabled; the rules come from measurements of one kind of machine
 * (docs/reference/tuning.md). */
enum cw_tuning { CW_TUNING_NT_COPY, CW_TUNING_COUNT };
int cw_tuning_follows(const struct cw_allow_list *tuning, enum cw_tuning rule);
/* A name in it that is no rule, or NULL. */
const char *cw_tuning_unknown(const struct cw_allow_list *tuning);

/* Whether a list contains exactly this name. */
int cw_name_list_has(const struct cw_name_list *list, const char *name);

/* An entry of a list of devices: "eth0"; "mlx5_0", for each of its ports "mlx5_0:1"; "eth[0-3]" for eth0 to eth3. */
bool cw_device_entry_names(const char *entry, const char *name);
/* Whether such a list allows the device: it names it, or "all"; or begins with ^ and does not name it. */
bool cw_device_list_allows(const struct cw_name_list *list, const char *name);
/* Whether it allows devices that it does not name. */
bool cw_device_list_is_open(const struct cw_name_list *list);

#endif
