/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal: plain escape codes, and its settings as they were when the program ends.
 */
#define _GNU_SOURCE
#include "top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ended;
static volatile sig_atomic_t resized;
static struct termios before;
static bool has_settings;
static bool is_taken;

static void on_end(int signal_number)
{
    (void)signal_number;
    ended = 1;
}

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

void cw_screen_begin(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    const struct sigaction end = {.sa_handler = on_end};
    const struct sigaction resizing = {.sa_handler = on_resize};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        sigaction(ends[i], &end, NULL);
    }
    if (!isatty(STDOUT_FILENO)) {
        return;
    }
    sigaction(SIGWINCH, &resizing, NULL);
    if (isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios keys = before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        has_settings = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
    }
    is_taken = true;
    printf("\033[?1049h\033[?25l"); /* the other screen, without a cursor */
}

void cw_screen_end(void)
{
    if (is_taken) {
        printf("\033[?25h\033[?1049l");
        fflush(stdout);
        is_taken = false;
    }
    if (has_settings) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        has_settings = false;
    }
}

void cw_screen_size(unsigned *width, unsigned *height)
{
    struct winsize size;

    *width = 0;
    *height = 0;
    if (is_taken && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        *width = size.ws_col;
        *height = size.ws_row;
    }
}

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool cw_screen_wait(unsigned milliseconds, char *key)
{
    const long long until = now_ms() + milliseconds;
    struct pollfd keys = {.fd = has_settings ? STDIN_FILENO : -1, .events = POLLIN};
    long long left;

    *key = '\0';
    while (!ended && !resized && *key == '\0' && (left = until - now_ms()) > 0) {
        if (poll(&keys, 1, (int)left) > 0) {
            if (read(STDIN_FILENO, key, 1) <= 0) {
                keys.fd = -1; /* nobody types there any more */
            } else if (*key == 'q' || *key == 'Q') {
                return true;
            }
        }
    }
    resized = 0;
    return ended;
}
