/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events and requests for people, and for Perfetto.
 */
#include "trace.h"

#include "wire/packet.h"

#include <inttypes.h>

#define NAME(names, id) ((id) < sizeof(names) / sizeof((names)[0]) && (names)[id] != NULL ? (names)[id] : "?")

static const char *const packets[] = {
    [CW_PACKET_CLOSE] = "CLOSE", [CW_PACKET_END] = "END", [CW_PACKET_TAG_EAGER] = "TAG_EAGER",
    [CW_PACKET_TAG_SYNC] = "TAG_SYNC", [CW_PACKET_TAG_FIRST] = "TAG_FIRST", [CW_PACKET_NEXT] = "NEXT",
    [CW_PACKET_TAG_ACK] = "TAG_ACK", [CW_PACKET_TAG_RTS] = "TAG_RTS", [CW_PACKET_RNDV_READY] = "RNDV_READY",
    [CW_PACKET_RNDV_DATA] = "RNDV_DATA", [CW_PACKET_RNDV_DONE] = "RNDV_DONE", [CW_PACKET_RNDV_COPIED] = "RNDV_COPIED",
    [CW_PACKET_TAG_CANCEL] = "TAG_CANCEL", [CW_PACKET_CREDIT] = "CREDIT", [CW_PACKET_AM_EAGER] = "AM_EAGER",
    [CW_PACKET_AM_FIRST] = "AM_FIRST", [CW_PACKET_AM_RTS] = "AM_RTS", [CW_PACKET_STREAM_DATA] = "STREAM_DATA",
    [CW_PACKET_STREAM_CREDIT] = "STREAM_CREDIT", [CW_PACKET_PUT] = "PUT", [CW_PACKET_PUT_RTS] = "PUT_RTS",
    [CW_PACKET_GET] = "GET", [CW_PACKET_GET_REFUSED] = "GET_REFUSED", [CW_PACKET_AMO] = "AMO",
    [CW_PACKET_AMO_REPLY] = "AMO_REPLY", [CW_PACKET_FLUSH] = "FLUSH", [CW_PACKET_FLUSHED] = "FLUSHED",
    [CW_PACKET_STAY] = "STAY",
    [CW_PACKET_GET_DATA] = "GET_DATA", [CW_PACKET_LANE] = "LANE", [CW_PACKET_PUT_LIST] = "PUT_LIST",
    [CW_PACKET_RNDV_NAME] = "RNDV_NAME",
    [CW_PACKET_MOVE] = "MOVE", [CW_PACKET_RNDV_CHUNK] = "RNDV_CHUNK", [CW_PACKET_RNDV_TAKEN] = "RNDV_TAKEN",
};
static const char *const operations[] = {
    [CW_COUNT_TAG_SENT] = "tag send", [CW_COUNT_TAG_RECEIVED] = "tag receive", [CW_COUNT_AM_SENT] = "am send",
    [CW_COUNT_STREAM_SENT] = "stream send", [CW_COUNT_PUT_SENT] = "put", [CW_COUNT_GET_RECEIVED] = "get",
    [CW_COUNT_GET_SENT] = "get for peer", [CW_COUNT_AMO_SENT] = "atomic",
};
static const char *const paths[] = {
    [CW_TRACE_COPIED] = "one packet, copied", [CW_TRACE_WITHOUT_COPY] = "one packet, without a copy",
    [CW_TRACE_PIECES] = "in pieces", [CW_TRACE_ANNOUNCED] = "rendezvous", [CW_TRACE_MAPPED] = "mapped memory",
    [CW_TRACE_SYSTEM] = "copied between the processes", [CW_TRACE_ASKED] = "requested from the target",
    [CW_TRACE_PARTS] = "in parts", [CW_TRACE_DEVICE] = "by the device",
};
static const char *const states[] = {"idle", "dialling", "waiting for the peer's dial", "open", "failed"};

static void print_peer(const struct cw_trace_event *event)
{
    if (event->peer != 0) {
        printf(" peer %016" PRIx64 "/%u", event->peer, event->endpoint);
    }
}

static void print_what(const struct cw_trace_event *event)
{
    switch (event->kind) {
    case CW_TRACE_BEGIN:
        printf("begin %s, %" PRIu64 " bytes", NAME(operations, event->id), event->length);
        if (event->id == CW_COUNT_TAG_SENT || event->id == CW_COUNT_TAG_RECEIVED) {
            printf(", tag %" PRIx64, event->tag);
        }
        break;
    case CW_TRACE_END:
        printf("end, status %d", event->status);
        break;
    case CW_TRACE_PATH:
        printf("path: %s", NAME(paths, event->id));
        break;
    case CW_TRACE_OUT:
        printf("%s %s, %" PRIu64 " bytes", event->status >= 0 ? "out" : "not out", NAME(packets, event->id),
               event->length);
        break;
    case CW_TRACE_IN:
        printf("in %s, %" PRIu64 " bytes", NAME(packets, event->id), event->length);
        break;
    case CW_TRACE_ANSWER:
        printf("answered by %s", NAME(packets, event->id));
        break;
    case CW_TRACE_STATE:
        printf("endpoint is %s", NAME(states, event->id));
        break;
    case CW_TRACE_FAILED:
        printf("endpoint failed, status %d", event->status);
        break;
    case CW_TRACE_SLEEP:
        printf("%s", event->status == 0 ? "may sleep" : "may not sleep");
        break;
    case CW_TRACE_WAKE:
        printf("awake");
        break;
    default:
        printf("?");
    }
}

void cw_print_event(const struct cw_events *events, size_t index)
{
    const struct cw_trace_event *event = &events->events[index];

    printf("%10" PRIu64 " %14.3f us  ", event->number, (double)event->time_ns * 1e-3);
    print_what(event);
    print_peer(event);
    printf("\n");
}

static double duration_us(const struct cw_events *events, const struct cw_life *life)
{
    return (double)(events->events[life->end].time_ns - events->events[life->begin].time_ns) * 1e-3;
}

void cw_print_lives(const struct cw_events *events, const struct cw_life *lives, size_t count)
{
    printf("%10s %-12s %12s %16s %-21s %12s %s\n", "REQUEST", "OPERATION", "BYTES", "TAG", "PEER/ENDPOINT", "TIME-US",
           "STATUS");
    for (size_t i = 0; i < count; i++) {
        const struct cw_trace_event *begin = &events->events[lives[i].begin];
        printf("%10" PRIu64 " %-12s %12" PRIu64 " %16" PRIx64 " %016" PRIx64 "/%-4u ", begin->number,
               NAME(operations, begin->id), begin->length, begin->tag, begin->peer, begin->endpoint);
        if (lives[i].end == events->count) {
            printf("%12s %s\n", "-", "open");
        } else {
            printf("%12.3f %d\n", duration_us(events, &lives[i]), events->events[lives[i].end].status);
        }
    }
}

void cw_print_life(const struct cw_events *events, const struct cw_life *life)
{
    const struct cw_trace_event *begin = &events->events[life->begin];

    for (size_t i = life->begin; i < events->count && i <= life->end; i++) {
        const struct cw_trace_event *event = &events->events[i];
        bool of_endpoint = begin->peer != 0 && event->peer == begin->peer && event->endpoint == begin->endpoint;
        if (event->request == begin->request || (event->request == 0 && of_endpoint)) {
            printf("%12.3f us  ", (double)(event->time_ns - begin->time_ns) * 1e-3);
            print_what(event);
            print_peer(event);
            printf("\n");
        }
    }
    if (life->end == events->count) {
        printf("%12s     still open\n", "");
    }
}

/* ---- Perfetto ---- */

static void chrome_head(FILE *file, const struct cw_watch_worker *worker, const struct cw_trace_event *event,
                        const char *phase)
{
    fprintf(file, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f", phase, worker->pid, worker->fd,
            (double)event->time_ns * 1e-3);
}

static void chrome_packet(FILE *file, const struct cw_watch_worker *worker, const struct cw_trace_event *event)
{
    chrome_head(file, worker, event, "i");
    fprintf(file, ",\"s\":\"t\",\"cat\":\"packet\",\"name\":\"%s %s\",\"args\":{\"bytes\":%" PRIu64 ",\"peer\":\"%016"
            PRIx64 "\",\"endpoint\":%u,\"status\":%d}}", event->kind == CW_TRACE_OUT ? "out" : "in",
            NAME(packets, event->id), event->length, event->peer, event->endpoint, event->status);
}

static const char *state_name(const struct cw_trace_event *event)
{
    switch (event->kind) {
    case CW_TRACE_STATE:
        return NAME(states, event->id);
    case CW_TRACE_FAILED:
        return "failed";
    case CW_TRACE_WAKE:
        return "awake";
    default:
        return event->status == 0 ? "may sleep" : "may not sleep";
    }
}

static void chrome_state(FILE *file, const struct cw_watch_worker *worker, const struct cw_trace_event *event)
{
    chrome_head(file, worker, event, "i");
    fprintf(file, ",\"s\":\"t\",\"cat\":\"worker\",\"name\":\"%s\",\"args\":{\"peer\":\"%016" PRIx64
            "\",\"endpoint\":%u}}", state_name(event), event->peer, event->endpoint);
}

static void chrome_life(FILE *file, const struct cw_watch_worker *worker, const struct cw_events *events,
                        const struct cw_life *life)
{
    const struct cw_trace_event *begin = &events->events[life->begin];

    chrome_head(file, worker, begin, "b");
    fprintf(file, ",\"cat\":\"request\",\"id\":%" PRIu64 ",\"name\":\"%s\",\"args\":{\"bytes\":%" PRIu64
            ",\"tag\":\"%" PRIx64 "\",\"peer\":\"%016" PRIx64 "\",\"endpoint\":%u}}", begin->number,
            NAME(operations, begin->id), begin->length, begin->tag, begin->peer, begin->endpoint);
    if (life->end < events->count) {
        chrome_head(file, worker, &events->events[life->end], "e");
        fprintf(file, ",\"cat\":\"request\",\"id\":%" PRIu64 ",\"name\":\"%s\",\"args\":{\"status\":%d}}",
                begin->number, NAME(operations, begin->id), events->events[life->end].status);
    }
}

static void print_quoted(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        fprintf(file, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
    }
}

void cw_print_chrome(FILE *file, const struct cw_watch_worker *worker, const struct cw_events *events,
                     const struct cw_life *lives, size_t count, bool first)
{
    fprintf(file, "%s{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"worker ",
            first ? "" : ",\n", worker->pid, worker->fd);
    print_quoted(file, worker->name);
    fprintf(file, "\"}}");
    for (size_t i = 0; i < count; i++) {
        chrome_life(file, worker, events, &lives[i]);
    }
    for (size_t i = 0; i < events->count; i++) {
        const struct cw_trace_event *event = &events->events[i];
        if (event->kind == CW_TRACE_OUT || event->kind == CW_TRACE_IN) {
            chrome_packet(file, worker, event);
        } else if (event->kind >= CW_TRACE_STATE) {
            chrome_state(file, worker, event);
        }
    }
}
