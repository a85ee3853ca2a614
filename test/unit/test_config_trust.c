/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which files may steer a process, what is said about the others, and what no file can switch off; and that a program
 * with more rights than its user reads neither environment nor files of that user.
 */
#include "test_config_child.h"

#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/un.h>

#include "base/log.h"
#include "config/file.h"
#include "config/global.h"
#include "os/env.h"

static uid_t user_now; /* the effective user, if that is not the true one */
static bool has_user_now;
static bool is_secure;

uid_t __wrap_geteuid(void);
uid_t __real_geteuid(void);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);

uid_t __wrap_geteuid(void)
{
    return has_user_now ? user_now : __real_geteuid();
}

unsigned long __wrap_getauxval(unsigned long type)
{
    return (type == AT_SECURE) ? is_secure : __real_getauxval(type);
}

/* Only root can give files away. */
static void child_write_as(uid_t owner, const char *path, const char *text)
{
    child_write_file(path, text);
    if (__real_geteuid() == 0) {
        child_check(lchown(path, owner, (gid_t)-1) == 0);
    }
}

/* The process has files of its own, and those of another user. */
#define MINE     1001u
#define OTHER_USER 1002u

static void begin(void)
{
    user_now = (__real_geteuid() == 0) ? MINE : __real_geteuid();
    has_user_now = true;
}

static void become_other_user(void) /* where files cannot be given away, the process becomes another one */
{
    if (__real_geteuid() != 0) {
        user_now = OTHER_USER;
    }
}

static size_t read_seg_size(const char *filename)
{
    struct cw_config *config;
    size_t size;

    child_check(cw_config_read(NULL, filename, &config) == UCS_OK);
    size = config->posix_seg_size;
    cw_config_free(config);
    return size;
}

#define DEFAULT_SIZE 8256u

static void body_own(void)
{
    begin();
    child_write_as(MINE, "ucx.conf", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(read_seg_size(NULL) == 1024);
}

static void body_of_root(void)
{
    begin();
    user_now = OTHER_USER;
    child_write_as(0, "ucx.conf", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(read_seg_size(NULL) == ((__real_geteuid() == 0) ? 1024 : DEFAULT_SIZE));
}

static void body_strange(void)
{
    begin();
    child_write_as(OTHER_USER, "ucx.conf", "UCX_POSIX_SEG_SIZE=1k\nUCX_LOG_LEVEL=fatal\n");
    become_other_user();
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

TEST(test_a_file_of_another_user_is_ignored_with_one_warning)
{
    child_run(body_own);
    assert_string_equal(child_output, "");
    child_run(body_of_root);
    child_run(body_strange);
    assert_int_equal(child_count("WARN  configuration file './ucx.conf' is ignored: it belongs to user "), 1);
    assert_int_equal(child_count("ucx.conf"), 1);
}

/* The file that the program names, and those of the other places, are held to the same. */
static void body_strange_elsewhere(void)
{
    begin();
    child_check(mkdir("named", 0755) == 0 && mkdir("home", 0755) == 0);
    child_write_as(OTHER_USER, "mine.conf", "UCX_POSIX_SEG_SIZE=1k\n");
    child_write_as(OTHER_USER, "named/ucx.conf", "UCX_POSIX_SEG_SIZE=2k\n");
    child_write_as(OTHER_USER, "home/ucx.conf", "UCX_POSIX_SEG_SIZE=3k\n");
    child_check(setenv("UCX_CONFIG_DIR", "named", 1) == 0 && setenv("HOME", "home", 1) == 0);
    become_other_user();
    child_check(read_seg_size("mine.conf") == DEFAULT_SIZE);
}

TEST(test_every_place_is_held_to_it)
{
    child_run(body_strange_elsewhere);
    assert_int_equal(child_count("'mine.conf' is ignored: it belongs to user "), 1);
    assert_int_equal(child_count("'named/ucx.conf' is ignored: it belongs to user "), 1);
    assert_int_equal(child_count("'home/ucx.conf' is ignored: it belongs to user "), 1);
}

static mode_t mode_now;

static void body_mode(void)
{
    begin();
    child_write_as(MINE, "ucx.conf", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(chmod("ucx.conf", mode_now) == 0);
    child_check(read_seg_size(NULL) == (((mode_now & 022) == 0) ? 1024 : DEFAULT_SIZE));
}

TEST(test_a_file_that_others_may_write_is_ignored)
{
    static const mode_t modes[] = {0664, 0646, 0622, 0602, 0644, 0600, 0444};
    size_t i;

    for (i = 0; i < sizeof(modes) / sizeof(modes[0]); ++i) {
        mode_now = modes[i];
        child_run(body_mode);
        assert_int_equal(child_count("other users can write it; fix with chmod go-w"),
                         (mode_now & 022) != 0);
    }
}

/* The text of the file is the user's own; where it lies, and that it is read, is another user's choice. */
static void body_link_of_other_user(void)
{
    begin();
    child_write_as(MINE, "kept.txt", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(symlink("kept.txt", "ucx.conf") == 0);
    if (__real_geteuid() == 0) {
        child_check(lchown("ucx.conf", OTHER_USER, (gid_t)-1) == 0);
        child_check(read_seg_size(NULL) == DEFAULT_SIZE);
    } else {
        cw_warn("user %u made it a symbolic link", OTHER_USER);
    }
}

static void body_links(void)
{
    begin();
    child_check(mkdir("far", 0755) == 0 && mkdir("far/off", 0755) == 0);
    child_write_as(MINE, "far/off/kept.txt", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(symlink("off/kept.txt", "far/link") == 0 && symlink("far/link", "ucx.conf") == 0);
    child_check(lchown("far/link", user_now, (gid_t)-1) == 0 && lchown("ucx.conf", user_now, (gid_t)-1) == 0);
    child_check(read_seg_size(NULL) == 1024);
}

static void body_link_to_itself(void)
{
    begin();
    child_check(unsetenv("HOME") == 0);
    child_check(symlink("ucx.conf", "ucx.conf") == 0 && lchown("ucx.conf", user_now, (gid_t)-1) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

static void body_link_to_other_user(void)
{
    begin();
    child_write_as(OTHER_USER, "kept.txt", "UCX_POSIX_SEG_SIZE=1k\n");
    child_check(symlink("kept.txt", "ucx.conf") == 0 && lchown("ucx.conf", user_now, (gid_t)-1) == 0);
    become_other_user();
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

static void body_link_to_nothing(void)
{
    begin();
    child_check(symlink("nothing", "ucx.conf") == 0 && lchown("ucx.conf", user_now, (gid_t)-1) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

TEST(test_symbolic_links)
{
    child_run(body_link_of_other_user);
    assert_int_equal(child_count("user 1002 made it a symbolic link"), 1);
    child_run(body_links);
    assert_string_equal(child_output, "");
    child_run(body_link_to_itself);
    assert_int_equal(child_count("it cannot be read: Too many levels of symbolic links"), 1);
    child_run(body_link_to_other_user);
    assert_true(child_count("is ignored: ") == 1);
    child_run(body_link_to_nothing);
    assert_string_equal(child_output, "");
}

static void body_directory(void)
{
    child_check(mkdir("ucx.conf", 0755) == 0);
    child_check(read_seg_size(".") == DEFAULT_SIZE);
}

static void body_fifo(void)
{
    child_check(mkfifo("ucx.conf", 0600) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

TEST(test_what_is_no_file)
{
    child_run(body_directory);
    assert_int_equal(child_count("WARN  configuration file './ucx.conf' is ignored: it is not a regular file"), 1);
    assert_int_equal(child_count("WARN  configuration file '.' is ignored: it is not a regular file"), 1);
    child_run(body_fifo);
    assert_int_equal(child_count("WARN  configuration file './ucx.conf' is ignored: it is not a regular file"), 1);
}

/* A socket cannot be opened at all; root could open whatever is closed by its mode. */
static void body_unreadable(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "ucx.conf"};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    child_check(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

static void body_missing_directory(void)
{
    child_check(setenv("UCX_CONFIG_DIR", "/nonexistent/place", 1) == 0 && unsetenv("HOME") == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

static void body_no_directory(void)
{
    child_write_file("plain", "");
    child_check(setenv("UCX_CONFIG_DIR", "plain", 1) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
}

static void body_missing_files(void)
{
    child_check(mkdir("empty", 0755) == 0 && setenv("UCX_CONFIG_DIR", "empty", 1) == 0);
    child_check(setenv("HOME", "/nonexistent", 1) == 0);
    child_check(read_seg_size("missing.conf") == DEFAULT_SIZE);
}

/* As for a program that root starts as another user from a directory of root. Nobody knows what is in there. */
static void body_closed_directory(void)
{
    child_check(mkdir("closed", 0) == 0 && setenv("HOME", "closed", 1) == 0);
    child_check(getuid() != 0 || setresuid(MINE, MINE, MINE) == 0);
    child_check(read_seg_size("closed/ucx.conf") == DEFAULT_SIZE);
}

TEST(test_what_was_meant_to_be_read_and_cannot_be)
{
    child_run(body_unreadable);
    assert_int_equal(child_count("WARN  configuration file './ucx.conf' is ignored: it cannot be read: "), 1);
    child_run(body_missing_directory);
    assert_int_equal(child_count("WARN  no configuration file is read from UCX_CONFIG_DIR, the directory "
                                 "'/nonexistent/place': No such file or directory\n"), 1);
    assert_int_equal(child_count("UCX_CONFIG_DIR"), 1);
    child_run(body_no_directory);
    assert_int_equal(child_count("the directory 'plain': Not a directory\n"), 1);
    child_run(body_missing_files);
    assert_string_equal(child_output, "");
    child_run(body_closed_directory);
    assert_string_equal(child_output, "");
}

static const char *printed(const struct cw_config *config, enum cw_setting_id id)
{
    static struct cw_text text;

    cw_text_clear(&text);
    cw_value_print(&cw_settings[id].spec, (const char *)config + cw_settings[id].offset, &text);
    return cw_text_get(&text);
}

static bool is_retained(const char *prefix, const char *filename, enum cw_setting_id id, const char *expected)
{
    struct cw_config *config;
    bool equal;

    child_check(cw_config_read(prefix, filename, &config) == UCS_OK);
    equal = strcmp(printed(config, id), expected) == 0;
    cw_config_free(config);
    return equal;
}

/* A weaker place sets it: the line of a stronger one that would take it away says nothing. */
static void body_emptied(void)
{
    child_check(mkdir("home", 0755) == 0 && setenv("HOME", "home", 1) == 0);
    child_write_file("home/ucx.conf", "UCX_AUTH_KEY_FILE=/k\nUCX_AUTH_TLS=psk\nUCX_AUTH_CA_*=/ca\n");
    child_write_file("ucx.conf", "UCX_AUTH_KEY_FILE=\nUCX_AUTH_TLS=OFF\nUCX_AUTH_*=\nUCX_AUTH_CA_FILE=\n");
    child_write_file("own.conf", "UCX_AUTH_TLS=off\nMPI_UCX_AUTH_KEY_FILE=\n*_AUTH_CA_FILE=\n");
    child_check(is_retained("MPI", "own.conf", CW_SETTING_auth_key_file, "/k"));
    child_check(is_retained("MPI", "own.conf", CW_SETTING_auth_tls, "psk"));
    child_check(is_retained("MPI", "own.conf", CW_SETTING_auth_ca_file, "/ca"));
}

/* A file's name with a prefix beats the plain name of the environment, but not in this. */
static void body_emptied_environment(void)
{
    child_check(setenv("UCX_AUTH_KEY_FILE", "/k", 1) == 0);
    child_write_file("ucx.conf", "MPI_UCX_AUTH_KEY_FILE=\nUCX_MPI_AUTH_KEY_FILE=\n");
    child_check(is_retained("MPI", NULL, CW_SETTING_auth_key_file, "/k"));
    child_check(is_retained(NULL, NULL, CW_SETTING_auth_key_file, "/k"));
}

/* What a file may: set it, and set another one. What the environment and the program may: all. */
static void body_changed(void)
{
    struct cw_config *config;

    child_check(mkdir("home", 0755) == 0 && setenv("HOME", "home", 1) == 0);
    child_write_file("home/ucx.conf", "UCX_AUTH_KEY_FILE=/k\nUCX_AUTH_TLS=psk\n");
    child_write_file("ucx.conf", "UCX_AUTH_KEY_FILE=/l\n");
    child_check(is_retained(NULL, NULL, CW_SETTING_auth_key_file, "/l"));
    child_check(setenv("UCX_AUTH_TLS", "off", 1) == 0 && setenv("UCX_AUTH_KEY_FILE", "", 1) == 0);
    child_check(is_retained(NULL, NULL, CW_SETTING_auth_tls, "off"));
    child_check(is_retained(NULL, NULL, CW_SETTING_auth_key_file, ""));
    child_check(unsetenv("UCX_AUTH_KEY_FILE") == 0);
    child_check(cw_config_read(NULL, NULL, &config) == UCS_OK);
    child_check(cw_config_modify(config, "AUTH_KEY_FILE", "") == UCS_OK);
    child_check(strcmp(printed(config, CW_SETTING_auth_key_file), "") == 0);
    cw_config_free(config);
}

/* As `ucx_info -cf` prints it, where nothing else sets it: that takes nothing away. */
static void body_printed_defaults(void)
{
    child_write_file("ucx.conf", "UCX_AUTH_KEY_FILE=\nUCX_AUTH_TLS=off\n");
    child_check(is_retained("MPI", NULL, CW_SETTING_auth_tls, "off"));
}

TEST(test_no_file_switches_protection_off)
{
    child_run(body_emptied);
    assert_int_equal(child_count(" is ignored: a configuration file cannot disable protection that another source "
                                 "enables; use the environment\n"), 1);
    child_run(body_emptied_environment);
    assert_int_equal(child_count("WARN  UCX_MPI_AUTH_KEY_FILE= in './ucx.conf' at line 2 is ignored: "), 1);
    assert_int_equal(child_count("WARN"), 1);
    child_run(body_changed);
    assert_string_equal(child_output, "");
    child_run(body_printed_defaults);
    assert_string_equal(child_output, "");
}

/* As started by another user, with his environment, home and directory, and files that are the program's own. */
static void body_secure(void)
{
    FILE *sink;

    is_secure = true;
    child_check(mkdir("named", 0755) == 0);
    child_write_file("ucx.conf", "UCX_POSIX_SEG_SIZE=1k\nUCX_LOG_FILE=of_file.log\n");
    child_write_file("named/ucx.conf", "UCX_POSIX_SEG_SIZE=2k\n");
    child_check(setenv("UCX_CONFIG_DIR", "named", 1) == 0 && setenv("UCX_POSIX_SEG_SIZE", "3k", 1) == 0);
    child_check(setenv("UCX_LOG_LEVEL", "trace", 1) == 0 && setenv("UCX_LOG_FILE", "of_caller.log", 1) == 0);
    child_check(read_seg_size(NULL) == DEFAULT_SIZE);
    child_check(cw_log_get_level() == CW_LOG_WARN);
    cw_error("to standard output");
    sink = fopen("of_caller.log", "r");
    child_check(sink == NULL && cw_env_get("HOME") == NULL && cw_env_all() == NULL);
    child_check(cw_file_create("events") < 0 && access("events", F_OK) != 0);
    cw_log_set_file("of_program.log", UINT64_MAX, 0);
    cw_error("to standard output as well");
    child_check(access("of_program.log", F_OK) != 0);
}

TEST(test_a_program_with_more_rights_than_its_user)
{
    child_run(body_secure);
    assert_int_equal(child_count("ERROR to standard output\n"), 1);
    assert_int_equal(child_count("ERROR to standard output as well\n"), 1);
}

/* The program names a file of the user who started it. */
static void body_secure_named(void)
{
    is_secure = true;
    child_write_file("own.conf", "UCX_POSIX_SEG_SIZE=1k\n");
    if (__real_geteuid() == 0) {
        child_check(chown("own.conf", OTHER_USER, (gid_t)-1) == 0);
    }
    child_check(read_seg_size("own.conf") == DEFAULT_SIZE);
}

TEST(test_its_group_alone_may_be_another)
{
    child_run(body_secure_named);
    assert_int_equal(child_count("'own.conf' is ignored: it belongs to user "), 1);
}
