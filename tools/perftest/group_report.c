/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What several processes have measured.
 *
 * Callers: group.c.
 */
#include "group_report.h"

#include <stdio.h>
#include <string.h>

struct numbers {
    unsigned long long iterations;
    double rank, median, mean, p99, most, mbps, rate;
    struct cw_perf_path path;
};

void cw_group_report_pack(const struct cw_perf_result *result, char text[CW_GROUP_RESULT])
{
    const struct cw_meter *meter = &result->meter;

    snprintf(text, CW_GROUP_RESULT, "%llu %.6f %.6f %.6f %.6f %.6f %.4f %.2f %s %s",
             (unsigned long long)result->row.iterations, cw_meter_percentile(meter, meter->rank),
             cw_meter_percentile(meter, 50), result->row.overall_usec, cw_meter_percentile(meter, 99),
             cw_meter_percentile(meter, 100), result->row.overall_mbps, result->row.overall_rate,
             result->path.transports, result->path.devices);
}

static const char *pattern_text(const struct cw_perf_options *options)
{
    static const char *const texts[] = {"in pairs at the same time", "each with each other", "all with the first"};

    return texts[options->pattern];
}

void cw_group_report_begin(struct cw_group_report *group, const struct cw_report *report,
                           const struct cw_perf_params *params, uint32_t size)
{
    const struct cw_perf_options *options = report->options;
    bool header_done = group->header_done;

    *group = (struct cw_group_report){
        .hosts = group->hosts,
        .report = report,
        .params = params,
        .test = cw_test_find(params->test),
        .size = size,
        .header_done = true,
    };
    if (options->json) {
        return;
    }
    if (options->csv) {
        if (!header_done) {
            for (unsigned i = 0; i < report->levels; i++) {
                printf("%s,", report->heads[i]);
            }
            printf("client,server,iterations,%.1f_percentile_lat,avg_lat,99_percentile_lat,bw,mr,"
                   "transport,device,host,options\n", options->rank);
        }
        return;
    }
    char rank[16];
    snprintf(rank, sizeof(rank), "%.1f%%ile", options->rank);
    printf("# %u processes, %s: %s, %llu bytes, %s (usec), bandwidth (MB/s), rate (msg/s)\n", size,
           pattern_text(options), group->test->description, (unsigned long long)params->size,
           group->test->latency ? "latency" : "overhead");
    printf("# client -> server %12s %10s %10s %10s %10s %12s %12s\n", "iterations", rank, "average", "99%ile",
           "maximum", "bandwidth", "rate");
    fflush(stdout);
}

static void print_json(const struct cw_group_report *group, uint32_t client, uint32_t server,
                       const struct numbers *numbers)
{
    /* Names of machines and tests hold nothing that would have to be escaped. */
    printf("{\"test\": \"%s\", \"client\": %u, \"server\": %u, \"hosts\": [\"%s\", \"%s\"]", group->params->test,
           client, server, group->hosts[client], group->hosts[server]);
    printf(", \"processes\": %u, \"size\": %llu, \"iterations\": %llu, \"threads\": %u, \"kind\": \"%s\"", group->size,
           (unsigned long long)group->params->size, numbers->iterations, group->params->threads,
           group->test->latency ? "latency" : "overhead");
    printf(", \"usec\": {\"mean\": %.4f, \"p50\": %.4f, \"p99\": %.4f, \"max\": %.4f}", numbers->mean, numbers->median,
           numbers->p99, numbers->most);
    printf(", \"mib_per_s\": %.2f, \"messages_per_s\": %.0f", numbers->mbps, numbers->rate);
    cw_report_json_text("transport", numbers->path.transports);
    cw_report_json_text("device", numbers->path.devices);
    cw_report_json_text("host", group->hosts[server]);
    cw_report_json_text("options", group->report->options->command);
    printf("}\n");
}

static void print_pair(const struct cw_group_report *group, uint32_t client, uint32_t server,
                       const struct numbers *numbers)
{
    const struct cw_perf_options *options = group->report->options;
    char pair[32];

    if (options->json) {
        print_json(group, client, server, numbers);
        return;
    }
    if (options->csv) {
        for (unsigned i = 0; i < group->report->levels; i++) {
            printf("%s,", group->report->names[i]);
        }
        printf("%u,%u,%llu,%.3f,%.3f,%.3f,%.2f,%.0f", client, server, numbers->iterations, numbers->rank,
               numbers->mean, numbers->p99, numbers->mbps, numbers->rate);
        cw_report_csv_text(numbers->path.transports);
        cw_report_csv_text(numbers->path.devices);
        cw_report_csv_text(group->hosts[server]);
        cw_report_csv_text(options->command);
        printf("\n");
        return;
    }
    if (!options->final_only) {
        snprintf(pair, sizeof(pair), "%6u -> %-6u", client, server);
        printf("%-18s %12llu %10.3f %10.3f %10.3f %10.3f %12.2f %12.0f", pair, numbers->iterations, numbers->rank,
               numbers->mean, numbers->p99, numbers->most, numbers->mbps, numbers->rate);
        if (strcmp(group->hosts[client], group->hosts[server]) != 0) {
            printf("  %s -> %s", group->hosts[client], group->hosts[server]);
        }
        printf("\n");
    }
}

void cw_group_report_pair(struct cw_group_report *group, uint32_t client, uint32_t server, const char *text)
{
    struct numbers numbers = {0};

    /* Another process of this job has written it; what it lacks is zero. */
    sscanf(text, "%llu %lf %lf %lf %lf %lf %lf %lf %63s %127s", &numbers.iterations, &numbers.rank, &numbers.median,
           &numbers.mean, &numbers.p99, &numbers.most, &numbers.mbps, &numbers.rate, numbers.path.transports,
           numbers.path.devices);
    print_pair(group, client, server, &numbers);
    fflush(stdout);
    if (group->pairs == 0 || numbers.mean < group->fastest.usec) {
        group->fastest = (struct cw_group_pair){client, server, numbers.mean};
    }
    if (group->pairs == 0 || numbers.mean > group->slowest.usec) {
        group->slowest = (struct cw_group_pair){client, server, numbers.mean};
    }
    group->pairs++;
    group->iterations = numbers.iterations;
    group->usec += numbers.mean;
    group->mbps += numbers.mbps;
    group->rate += numbers.rate;
}

/* Of a tournament the rounds follow each other: what one pair comes to, not all, is what there is at a time. */
void cw_group_report_end(const struct cw_group_report *group)
{
    const struct cw_perf_options *options = group->report->options;
    bool at_once = options->pattern != CW_PATTERN_ALL;
    double pairs = group->pairs, share = at_once ? 1 : pairs;

    if (options->json || options->csv || group->pairs == 0) {
        return;
    }
    struct cw_meter_row row = {
        .iterations = group->iterations,
        .overall_usec = group->usec / pairs,
        .overall_mbps = group->mbps / share,
        .overall_rate = group->rate / share,
    };
    printf("# %u pairs: fastest %u -> %u (%.3f usec), slowest %u -> %u (%.3f usec); below the mean of their times, "
           "bandwidth and rate are %s\n",
           group->pairs, group->fastest.client, group->fastest.server, group->fastest.usec, group->slowest.client,
           group->slowest.server, group->slowest.usec, at_once ? "sums" : "means");
    cw_report_total(group->report, &row);
}
