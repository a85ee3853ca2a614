/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the performance tool.
 *
 * Callers: session.c, run.c, group.c.
 * Widths and names of columns are what scripts read (PRF-20 to PRF-24): they never change.
 */
#define _GNU_SOURCE
#include "report.h"

#include "progress.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inner widths of the nine columns. */
static const int widths[] = {14, 14, 10, 9, 9, 10, 10, 11, 11};
#define COLUMNS   ((int)(sizeof(widths) / sizeof(widths[0])))
#define BOX_WIDTH 106

/* A rule of dashes with a cross at each column, or at each group of columns; `name` is written into its start. */
static void print_rule(const char *name, bool grouped)
{
    static const int group_ends[] = {1, 1, 0, 0, 1, 0, 1, 0, 1};
    char line[BOX_WIDTH + 4];
    int at = 0;

    line[at++] = '+';
    for (int column = 0; column < COLUMNS; column++) {
        memset(line + at, '-', (size_t)widths[column]);
        at += widths[column];
        line[at++] = !grouped || group_ends[column] ? '+' : '-';
    }
    line[at] = '\0';
    if (name != NULL) {
        size_t length = strnlen(name, BOX_WIDTH - 2);
        memcpy(line + 1, name, length);
    }
    printf("%s\n", line);
}

static void print_box_rule(void)
{
    char dashes[BOX_WIDTH + 1];

    memset(dashes, '-', BOX_WIDTH);
    dashes[BOX_WIDTH] = '\0';
    printf("+%s+\n", dashes);
}

static void print_box_line(const char *key, const char *value)
{
    printf("| %-14s%-*s|\n", key, BOX_WIDTH - 15, value);
}

void cw_report_box(const struct cw_perf_test *test, const struct cw_perf_params *params, bool loopback)
{
    char number[48];

    print_box_rule();
    print_box_line("API:", "protocol layer");
    print_box_line("Test:", test->description);
    print_box_line("Data layout:", "(automatic)");
    print_box_line("Send memory:", cw_memory_name(params->send_memory));
    print_box_line("Recv memory:", cw_memory_name(params->recv_memory));
    snprintf(number, sizeof(number), "%llu", (unsigned long long)params->size);
    print_box_line("Message size:", number);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)(params->window ? params->window : test->window));
    print_box_line("Window size:", number);
    if ((test->features & UCP_FEATURE_AM) != 0) {
        snprintf(number, sizeof(number), "AM header size: %llu", (unsigned long long)params->am_header);
        printf("| %-*s|\n", BOX_WIDTH - 1, number);
    }
    if (!loopback) {
        print_box_rule();
    }
    fflush(stdout);
}

static void print_csv_header(const struct cw_report *report)
{
    for (unsigned i = 0; i < report->levels; i++) {
        printf("%s,", report->heads[i]);
    }
    printf("iterations,%.1f_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr,"
           "transport,device,host,options\n",
           report->options->rank);
    fflush(stdout);
}

void cw_report_header(const struct cw_report *report, const struct cw_perf_test *test)
{
    const struct cw_perf_options *options = report->options;
    char rank[16];

    if (options->json) {
        return;
    }
    if (options->csv) {
        print_csv_header(report);
        return;
    }
    snprintf(rank, sizeof(rank), "%.1f%%ile", options->rank);
    print_rule(NULL, true);
    printf("|%14s|%14s|%-30s|   bandwidth (MB/s)  |  message rate (msg/s) |\n", "", "",
           test != NULL && test->latency ? "        latency (usec)" : "       overhead (usec)");
    print_rule(NULL, false);
    printf("|%9s%5s| # iterations |%9s | average | overall |  average |  overall |  average  |  overall  |\n",
           options->final_only ? "Test" : "Stage", "", rank);
    print_rule(NULL, false);
    fflush(stdout);
}

void cw_report_test_name(const struct cw_report *report)
{
    char all[BOX_WIDTH] = "";

    for (unsigned i = 0; i < report->levels; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", i == 0 ? "" : "/", report->names[i]);
    }
    print_rule(all, false);
    fflush(stdout);
}

/* A number with `decimals` digits behind the point, in groups of three when asked for. */
static const char *number_text(char text[48], double value, int decimals, bool grouped)
{
    char plain[40];
    int length = snprintf(plain, sizeof(plain), "%.*f", decimals, value);
    int digits = (int)strspn(plain, "0123456789");
    int at = 0;

    if (!grouped) {
        snprintf(text, 48, "%s", plain);
        return text;
    }
    for (int i = 0; i < length && at < 46; i++) {
        if (i > 0 && i < digits && (digits - i) % 3 == 0) {
            text[at++] = ',';
        }
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return text;
}

/* The server's host; "" where both sides are in this process. */
static const char *host_of(const struct cw_report *report)
{
    return report->options->host != NULL ? report->options->host : "";
}

/* In quotes where it holds what has a meaning there. */
void cw_report_csv_text(const char *text)
{
    bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';

    printf(",%s", quoted ? "\"" : "");
    for (; *text != '\0'; text++) {
        printf("%s%c", *text == '"' ? "\"" : "", *text);
    }
    printf("%s", quoted ? "\"" : "");
}

static void print_csv_row(const struct cw_report *report, const struct cw_meter_row *row, unsigned threads,
                          const struct cw_perf_path *path)
{
    for (unsigned i = 0; i < report->levels; i++) {
        printf("%s,", report->names[i]);
    }
    if (threads > 1) {
        printf("%4llu,%.3f,%.2f,%.0f", (unsigned long long)row->iterations, row->overall_usec, row->overall_mbps,
               row->overall_rate);
    } else {
        printf("%4llu,%.3f,%.3f,%.3f,%.2f,%.2f,%.0f,%.0f", (unsigned long long)row->iterations,
               row->percentile_usec, row->average_usec, row->overall_usec, row->average_mbps, row->overall_mbps,
               row->average_rate, row->overall_rate);
    }
    cw_report_csv_text(path->transports);
    cw_report_csv_text(path->devices);
    cw_report_csv_text(host_of(report));
    cw_report_csv_text(report->options->command);
    printf("\n");
    fflush(stdout);
}

/* PRF-22; PRF-26: of several threads only what they have in common. */
static void print_row(const struct cw_report *report, const char *label, const struct cw_meter_row *row,
                      unsigned threads)
{
    bool grouped = report->options->thousands;
    char texts[5][48];

    number_text(texts[0], (double)row->iterations, 0, grouped);
    number_text(texts[1], row->average_mbps, 2, grouped);
    number_text(texts[2], row->overall_mbps, 2, grouped);
    number_text(texts[3], row->average_rate, 0, grouped);
    number_text(texts[4], row->overall_rate, 0, grouped);
    if (threads > 1) {
        printf("%s%18s %29.3f %22s %23s\n", label, texts[0], row->overall_usec, texts[2], texts[4]);
    } else {
        printf("%s%18s %10.3f %9.3f %9.3f %11s %10s %11s %11s\n", label, texts[0], row->percentile_usec,
               row->average_usec, row->overall_usec, texts[1], texts[2], texts[3], texts[4]);
    }
    fflush(stdout);
}

void cw_report_interval(const struct cw_report *report, const struct cw_meter_row *row,
                        const struct cw_perf_run *run)
{
    char label[32];

    cw_progress_clear();
    if (report->options->csv) {
        print_csv_row(report, row, 1, &run->path);
        return;
    }
    snprintf(label, sizeof(label), "[thread %u]", run->thread);
    print_row(report, label, row, 1);
}

static void print_final_row(const struct cw_report *report, const struct cw_meter_row *row, unsigned threads)
{
    const struct cw_perf_options *options = report->options;
    char label[CW_PERF_TEST_NAME + 256];

    if (options->final_only) {
        snprintf(label, sizeof(label), "%10s", report->levels > 0 ? report->names[report->levels - 1] : "");
    } else {
        snprintf(label, sizeof(label), "%-10s", "Final:");
    }
    print_row(report, label, row, threads);
}

void cw_report_total(const struct cw_report *report, const struct cw_meter_row *row)
{
    print_final_row(report, row, 2);
}

static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            printf("\\%c", *text);
        } else if ((unsigned char)*text < ' ') {
            printf("\\u%04x", (unsigned char)*text);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

void cw_report_json_text(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    print_json_text(text);
}

static void print_json(const struct cw_report *report, const struct cw_perf_result *result)
{
    static const struct {
        const char *name;
        double percent;
    } percentiles[] = {{"min", 0}, {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}};
    const struct cw_perf_params *params = &result->params;
    const struct cw_meter_row *row = &result->row;

    printf("{\"test\": ");
    print_json_text(params->test);
    for (unsigned i = 0; i < report->levels; i++) {
        printf("%s", i == 0 ? ", \"names\": [" : ", ");
        print_json_text(report->names[i]);
    }
    printf("%s, \"library\": ", report->levels > 0 ? "]" : "");
    print_json_text(ucp_get_version_string());
    printf(", \"size\": %llu, \"window\": %llu, \"warmup\": %llu, \"iterations\": %llu, \"threads\": %u",
           (unsigned long long)params->size, (unsigned long long)params->window, (unsigned long long)params->warmup,
           (unsigned long long)row->iterations, params->threads);
    printf(", \"kind\": \"%s\", \"usec\": {\"mean\": %.4f", result->test->latency ? "latency" : "overhead",
           row->overall_usec);
    for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++) {
        printf(", \"%s\": %.4f", percentiles[i].name, cw_meter_percentile(&result->meter, percentiles[i].percent));
    }
    printf("}, \"mib_per_s\": %.2f, \"messages_per_s\": %.0f, \"verified\": %llu", row->overall_mbps,
           row->overall_rate, (unsigned long long)result->verified);
    cw_report_json_text("transport", result->path.transports);
    cw_report_json_text("device", result->path.devices);
    cw_report_json_text("host", host_of(report));
    cw_report_json_text("options", report->options->command);
    printf("}\n");
    fflush(stdout);
}

static void print_percentiles(const struct cw_meter *meter)
{
    printf("# percentiles (usec): p50 %.4f p90 %.4f p99 %.4f p99.9 %.4f min %.4f max %.4f\n",
           cw_meter_percentile(meter, 50), cw_meter_percentile(meter, 90), cw_meter_percentile(meter, 99),
           cw_meter_percentile(meter, 99.9), cw_meter_percentile(meter, 0), cw_meter_percentile(meter, 100));
}

void cw_report_result(const struct cw_report *report, const struct cw_perf_result *result)
{
    const struct cw_perf_options *options = report->options;

    cw_progress_clear();
    if (options->json) {
        print_json(report, result);
        return;
    }
    /* Comma-separated values hold rows alone. */
    if (!options->csv) {
        if (options->percentiles) {
            print_percentiles(&result->meter);
        }
        if (result->params.verify) {
            printf("# verified: %llu messages of %llu bytes on this side\n", (unsigned long long)result->verified,
                   (unsigned long long)result->params.size);
        }
    } else if (options->percentiles) {
        cw_say_note("--percentiles has no place in comma-separated values (-v)");
    }
    if (options->csv) {
        print_csv_row(report, &result->row, result->params.threads, &result->path);
        return;
    }
    print_final_row(report, &result->row, result->params.threads);
}

static void add_name(char *all, size_t size, const char *name)
{
    size_t used = strlen(all);

    snprintf(all + used, size - used, "%s%s", used > 0 ? "+" : "", name != NULL ? name : "?");
}

void cw_report_path(const struct cw_link *link, struct cw_perf_path *path)
{
    ucp_transport_entry_t lanes[16];
    ucp_ep_attr_t attr = {
        .field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
        .transports = {.entries = lanes, .num_entries = 16, .entry_size = sizeof(lanes[0])},
    };

    memset(lanes, 0, sizeof(lanes));
    *path = (struct cw_perf_path){.transports = ""};
    /* Libraries before 1.16 answer without touching what they do not know. */
    if (ucp_ep_query(link->ep, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < attr.transports.num_entries && lanes[i].transport_name != NULL; i++) {
        add_name(path->transports, sizeof(path->transports), lanes[i].transport_name);
        add_name(path->devices, sizeof(path->devices), lanes[i].device_name);
    }
}

void cw_report_extra(const struct cw_report *report, const struct cw_perf_path *path)
{
    if (!report->options->extra || report->options->json || report->options->csv) {
        return;
    }
    printf("# library %s; endpoint over", ucp_get_version_string());
    if (path->transports[0] == '\0') {
        printf(" what this library does not report\n");
    } else {
        printf(" %s/%s\n", path->transports, path->devices);
    }
    fflush(stdout);
}
