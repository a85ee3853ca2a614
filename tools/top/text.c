/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters for programs: JSON, and the text form of Prometheus. Texts of workers hold printable ASCII only
 * (watch.h).
 */
#include "top.h"

#include <inttypes.h>

/* Both forms take a backslash before these. */
static void print_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', file);
        }
        fputc(*text, file);
    }
    fputc('"', file);
}

static double age_s(const struct cw_watch_worker *worker)
{
    return worker->read_ns > worker->started_ns ? (double)(worker->read_ns - worker->started_ns) * 1e-9 : 0;
}

static void json_worker(FILE *file, const struct cw_watch_worker *worker)
{
    fprintf(file, "{\"pid\":%u,\"command\":", worker->pid);
    print_string(file, worker->command);
    fprintf(file, ",\"worker\":");
    print_string(file, worker->name);
    fprintf(file, ",\"uid\":\"%016" PRIx64 "\",\"age\":%.3f,\"transports\":[", worker->uid, age_s(worker));
    for (unsigned i = 0; i < worker->num_transports; i++) {
        fprintf(file, "%s{\"name\":", i > 0 ? "," : "");
        print_string(file, worker->transports[i].name);
        fprintf(file, ",\"open\":%" PRIu64 ",\"opened\":%" PRIu64 "}", worker->transports[i].open,
                worker->transports[i].opened);
    }
    fprintf(file, "],\"counters\":{");
    for (unsigned i = 0; i < CW_COUNT_LAST; i++) {
        fprintf(file, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", cw_watch_counters[i].name, worker->values[i]);
    }
    fprintf(file, "}}");
}

void cw_top_json(FILE *file, const struct cw_watch_list *list)
{
    fprintf(file, "{\"workers\":[");
    for (size_t i = 0; i < list->count; i++) {
        fprintf(file, "%s", i > 0 ? "," : "");
        json_worker(file, &list->workers[i]);
    }
    fprintf(file, "]}\n");
}

static void print_labels(FILE *file, const struct cw_watch_worker *worker)
{
    fprintf(file, "{pid=\"%u\",command=", worker->pid);
    print_string(file, worker->command);
    fprintf(file, ",worker=");
    print_string(file, worker->name);
    fprintf(file, ",uid=\"%016" PRIx64 "\"", worker->uid);
}

static void print_head(FILE *file, const char *name, const char *text, bool is_gauge)
{
    const char *suffix = is_gauge ? "" : "_total";

    fprintf(file, "# HELP causeway_%s%s %s\n# TYPE causeway_%s%s %s\n", name, suffix, text, name, suffix,
            is_gauge ? "gauge" : "counter");
}

static void print_transports(FILE *file, const struct cw_watch_list *list, bool open)
{
    print_head(file, open ? "connections" : "connections_opened",
               open ? "connections that are open" : "connections that were opened", open);
    for (size_t i = 0; i < list->count; i++) {
        const struct cw_watch_worker *worker = &list->workers[i];
        for (unsigned j = 0; j < worker->num_transports; j++) {
            fprintf(file, "causeway_connections%s", open ? "" : "_opened_total");
            print_labels(file, worker);
            fprintf(file, ",transport=");
            print_string(file, worker->transports[j].name);
            fprintf(file, "} %" PRIu64 "\n", open ? worker->transports[j].open : worker->transports[j].opened);
        }
    }
}

void cw_top_prometheus(FILE *file, const struct cw_watch_list *list)
{
    for (unsigned i = 0; i < CW_COUNT_LAST; i++) {
        const struct cw_watch_counter *counter = &cw_watch_counters[i];
        print_head(file, counter->name, counter->text, counter->is_gauge);
        for (size_t j = 0; j < list->count; j++) {
            fprintf(file, "causeway_%s%s", counter->name, counter->is_gauge ? "" : "_total");
            print_labels(file, &list->workers[j]);
            fprintf(file, "} %" PRIu64 "\n", list->workers[j].values[i]);
        }
    }
    print_transports(file, list, true);
    print_transports(file, list, false);
}
