/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The picture: one panel for latency, one for bandwidth, each with the curves that belong to it, over message size.
 * Both axes are logarithmic. Curves differ by marker and by dashes, so that the picture is as good in black and white;
 * colours are of different lightness and do not rely on telling red from green.
 *
 * Callers: plot.c.
 */
#include "plot.h"

#include <math.h>
#include <string.h>

/* The page, in units of SVG. */
enum { WIDTH = 940, MARGIN = 28, LEFT = 92, RIGHT = 660, LEGEND = 690, HEAD = 52, AREA = 300, PANEL = 424, FOOT = 8 };
enum { LEGEND_STEP = 23, LEGEND_MOST = 13, LABEL_MOST = 31 };

struct panel {
    const char *title;
    const char *unit;
    bool latency;
    unsigned curves;
    bool same_test; /* the runs alone tell the curves apart */
    double top;
    double x_first, x_last; /* binary logarithms of sizes */
    double y_first, y_last; /* decimal logarithms */
};

static const char *const colours[] = {"#0b3c6f", "#c8500a", "#15806a", "#8a2f6e", "#4b9cd3", "#b08900", "#444444"};
static const char *const dashes[] = {"", "9 4", "2 4", "11 4 2 4", "5 3"};
enum { COLOURS = 7, DASHES = 5, MARKERS = 6 };

/* ---- scales ---- */

/* Nothing has a place of its own on a logarithmic axis: half a byte. */
static double x_of_size(uint64_t size)
{
    return size == 0 ? -1 : log2((double)size);
}

static double place_x(const struct panel *panel, double x)
{
    return LEFT + (RIGHT - LEFT) * (x - panel->x_first) / (panel->x_last - panel->x_first);
}

static double place_y(const struct panel *panel, double y)
{
    return panel->top + HEAD + AREA - AREA * (y - panel->y_first) / (panel->y_last - panel->y_first);
}

static double value_of(const struct panel *panel, const struct cw_plot_point *point)
{
    return panel->latency ? point->usec : point->mib_per_s;
}

/* The next of 1, 2, 5, 10 ... down or up. */
static double round_value(double value, bool up)
{
    static const double steps[] = {1, 2, 5, 10};
    double decade = pow(10, floor(log10(value)));

    if (up) {
        for (int i = 0; i < 4; i++) {
            if (steps[i] * decade >= value * 0.9999) {
                return steps[i] * decade;
            }
        }
        return 10 * decade;
    }
    for (int i = 3; i > 0; i--) {
        if (steps[i] * decade <= value * 1.0001) {
            return steps[i] * decade;
        }
    }
    return decade;
}

/* Whether a curve is in the panel and has something to show there. */
static bool belongs(const struct panel *panel, const struct cw_plot_curve *curve)
{
    if (curve->latency != panel->latency) {
        return false;
    }
    for (unsigned i = 0; i < curve->count; i++) {
        if (value_of(panel, &curve->points[i]) > 0) {
            return true;
        }
    }
    return false;
}

static void set_scales(struct panel *panel, const struct cw_plot *plot)
{
    double x_first = INFINITY, x_last = -INFINITY, y_first = INFINITY, y_last = 0;
    const char *test = NULL;

    panel->curves = 0;
    panel->same_test = true;
    for (unsigned i = 0; i < plot->count; i++) {
        const struct cw_plot_curve *curve = &plot->curves[i];
        if (!belongs(panel, curve)) {
            continue;
        }
        panel->curves++;
        panel->same_test = panel->same_test && (test == NULL || strcmp(test, curve->test) == 0);
        test = curve->test;
        for (unsigned k = 0; k < curve->count; k++) {
            double value = value_of(panel, &curve->points[k]);
            x_first = fmin(x_first, x_of_size(curve->points[k].size));
            x_last = fmax(x_last, x_of_size(curve->points[k].size));
            y_first = value > 0 ? fmin(y_first, value) : y_first;
            y_last = fmax(y_last, value);
        }
    }
    if (panel->curves == 0) {
        return;
    }
    panel->x_first = floor(x_first) - (x_first == x_last);
    panel->x_last = ceil(x_last) + (x_first == x_last);
    panel->y_first = log10(round_value(y_first * 0.95, false));
    panel->y_last = log10(round_value(y_last * 1.05, true));
}

/* ---- texts ---- */

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        default:
            /* Anything else than plain letters may be no letter at all. */
            fputc((unsigned char)*text >= ' ' && (unsigned char)*text < 127 ? *text : '?', file);
        }
    }
}

static const char *size_text(char text[32], uint64_t size)
{
    static const char *const units[] = {"", " Ki", " Mi", " Gi", " Ti"};
    unsigned unit = 0;

    for (; size >= 1024 && size % 1024 == 0 && unit < 4; unit++) {
        size /= 1024;
    }
    snprintf(text, 32, "%llu%s", (unsigned long long)size, units[unit]);
    return text;
}

static const char *value_text(char text[32], double value)
{
    unsigned long long whole = (unsigned long long)(value + 0.5);

    if (whole >= 1000000) {
        snprintf(text, 32, "%llu,%03llu,%03llu", whole / 1000000, whole / 1000 % 1000, whole % 1000);
    } else if (whole >= 1000) {
        snprintf(text, 32, "%llu,%03llu", whole / 1000, whole % 1000);
    } else {
        snprintf(text, 32, "%.3g", value);
    }
    return text;
}

static void label_of(char *text, size_t room, const struct panel *panel, const struct cw_plot_curve *curve)
{
    if (curve->run[0] == '\0') {
        snprintf(text, room, "%s", curve->test);
    } else if (panel->same_test) {
        snprintf(text, room, "%s", curve->run);
    } else {
        snprintf(text, room, "%s: %s", curve->run, curve->test);
    }
    if (strlen(text) > LABEL_MOST) {
        memcpy(text + LABEL_MOST - 3, "...", 4);
    }
}

/* ---- parts of a panel ---- */

static void draw_x_axis(FILE *file, const struct panel *panel)
{
    double bottom = panel->top + HEAD + AREA;
    int span = (int)(panel->x_last - panel->x_first), step = span <= 12 ? 1 : span <= 24 ? 2 : 4;
    char text[32];

    for (int x = (int)panel->x_first; x <= (int)panel->x_last; x++) {
        double at = place_x(panel, x);
        fprintf(file, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                x % step == 0 ? "grid" : "fine", at, panel->top + HEAD, at, bottom);
        if (x < 0 || x % step == 0) {
            fprintf(file, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", at,
                    bottom + 19, size_text(text, x < 0 ? 0 : UINT64_C(1) << x));
        }
    }
    fprintf(file, "<text class=\"unit\" x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">message size (bytes)</text>\n",
            (LEFT + RIGHT) / 2, bottom + 42);
}

static void draw_y_axis(FILE *file, const struct panel *panel)
{
    bool close = panel->y_last - panel->y_first <= 2.5;
    char text[32];

    for (int decade = (int)floor(panel->y_first + 1e-9); decade <= (int)panel->y_last; decade++) {
        for (int digit = 1; digit < 10; digit++) {
            double y = decade + log10(digit);
            if (y < panel->y_first - 1e-9 || y > panel->y_last + 1e-9) {
                continue;
            }
            bool labelled = digit == 1 || (close && (digit == 2 || digit == 5));
            double at = place_y(panel, y);
            fprintf(file, "<line class=\"%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
                    labelled ? "grid" : "fine", LEFT, at, RIGHT, at);
            if (labelled) {
                fprintf(file, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 9,
                        at + 4, value_text(text, pow(10, y)));
            }
        }
    }
}

/* Filled and hollow shapes in turn. */
static void draw_marker(FILE *file, unsigned style, double x, double y)
{
    switch (style % MARKERS) {
    case 0:
        fprintf(file, "<circle class=\"full\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", x, y);
        break;
    case 1:
        fprintf(file, "<rect class=\"hollow\" x=\"%.1f\" y=\"%.1f\" width=\"7.6\" height=\"7.6\"", x - 3.8, y - 3.8);
        break;
    case 2:
        fprintf(file, "<path class=\"full\" d=\"M%.1f %.1fl5 8.6h-10z\"", x, y - 5.4);
        break;
    case 3:
        fprintf(file, "<path class=\"hollow\" d=\"M%.1f %.1fl5.2 5.2l-5.2 5.2l-5.2 -5.2z\"", x, y - 5.2);
        break;
    case 4:
        fprintf(file, "<path class=\"stroke\" d=\"M%.1f %.1fl7.6 7.6m0 -7.6l-7.6 7.6\"", x - 3.8, y - 3.8);
        break;
    default:
        fprintf(file, "<path class=\"hollow\" d=\"M%.1f %.1fl5 -8.6h-10z\"", x, y + 5.4);
    }
}

static void draw_curve(FILE *file, const struct panel *panel, const struct cw_plot_curve *curve, unsigned style)
{
    bool drawing = false;
    char size[32], value[32];

    fprintf(file, "<g color=\"%s\">\n<path class=\"curve\" stroke-dasharray=\"%s\" d=\"", colours[style % COLOURS],
            dashes[style % DASHES]);
    for (unsigned i = 0; i < curve->count; i++) {
        double y = value_of(panel, &curve->points[i]);
        if (y > 0) {
            fprintf(file, "%c%.1f %.1f", drawing ? 'L' : 'M', place_x(panel, x_of_size(curve->points[i].size)),
                    place_y(panel, log10(y)));
            drawing = true;
        }
    }
    fprintf(file, "\"/>\n");
    for (unsigned i = 0; i < curve->count; i++) {
        double y = value_of(panel, &curve->points[i]);
        if (y > 0) {
            draw_marker(file, style, place_x(panel, x_of_size(curve->points[i].size)), place_y(panel, log10(y)));
            fprintf(file, "><title>%s B: %s %s</title></%s>\n", size_text(size, curve->points[i].size),
                    value_text(value, y), panel->latency ? "us" : "MiB/s",
                    style % MARKERS == 0 ? "circle" : style % MARKERS == 1 ? "rect" : "path");
        }
    }
    fprintf(file, "</g>\n");
}

static void draw_legend(FILE *file, const struct panel *panel, const struct cw_plot_curve *curve, unsigned index,
                        unsigned style)
{
    double y = panel->top + HEAD + 10 + LEGEND_STEP * index;
    char label[192];

    if (index >= LEGEND_MOST) {
        if (index == LEGEND_MOST) {
            fprintf(file, "<text class=\"label\" x=\"%d\" y=\"%.1f\">and %u more</text>\n", LEGEND, y + 4,
                    panel->curves - LEGEND_MOST);
        }
        return;
    }
    fprintf(file, "<g color=\"%s\"><path class=\"curve\" stroke-dasharray=\"%s\" d=\"M%d %.1fh40\"/>",
            colours[style % COLOURS], dashes[style % DASHES], LEGEND, y);
    draw_marker(file, style, LEGEND + 20, y);
    label_of(label, sizeof(label), panel, curve);
    fprintf(file, "/></g>\n<text class=\"label\" x=\"%d\" y=\"%.1f\">", LEGEND + 48, y + 4);
    put_text(file, label);
    fprintf(file, "</text>\n");
}

static void draw_panel(FILE *file, const struct panel *panel, const struct cw_plot *plot)
{
    unsigned index = 0;

    fprintf(file, "<text class=\"title\" x=\"%d\" y=\"%.1f\">%s <tspan class=\"unit\">%s</tspan></text>\n", LEFT,
            panel->top + HEAD - 20, panel->title, panel->unit);
    draw_x_axis(file, panel);
    draw_y_axis(file, panel);
    fprintf(file, "<rect class=\"frame\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n", LEFT, panel->top + HEAD,
            RIGHT - LEFT, AREA);
    for (unsigned i = 0; i < plot->count; i++) {
        if (belongs(panel, &plot->curves[i])) {
            draw_curve(file, panel, &plot->curves[i], index);
            draw_legend(file, panel, &plot->curves[i], index, index);
            index++;
        }
    }
}

void cw_plot_draw(const struct cw_plot *plot, FILE *file)
{
    struct panel panels[] = {
        {.title = "Latency", .unit = "one way, median (\u00b5s)", .latency = true},
        {.title = "Bandwidth", .unit = "(MiB/s)", .latency = false},
    };
    double height = FOOT;

    for (int i = 0; i < 2; i++) {
        set_scales(&panels[i], plot);
        panels[i].top = height;
        height += panels[i].curves > 0 ? PANEL : 0;
    }
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\">\n"
            "<title>Latency and bandwidth against message size</title>\n<style>\n"
            "text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: #222; }\n"
            ".title { font-size: 18px; font-weight: bold; }\n"
            ".unit { font-size: 13px; font-weight: normal; fill: #555; }\n"
            ".tick, .label { font-size: 13px; } .grid { stroke: #cfcfcf; } .fine { stroke: #ededed; }\n"
            ".frame { fill: none; stroke: #555; }\n"
            ".curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }\n"
            ".full { fill: currentColor; stroke: #fff; }\n"
            ".hollow { fill: #fff; stroke: currentColor; stroke-width: 1.8; }\n"
            ".stroke { fill: none; stroke: currentColor; stroke-width: 2; }\n"
            "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, height + FOOT, WIDTH, height + FOOT);
    for (int i = 0; i < 2; i++) {
        if (panels[i].curves > 0) {
            draw_panel(file, &panels[i], plot);
        }
    }
    fprintf(file, "</svg>\n");
}
