#include "core/units.h"
#include "reports/page/chart.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// In the page the plot is as wide as it may be: places across are percent, places down are pixels,
// so that text keeps its size on a phone. Lines and thousands of boxes are paths inside a picture
// that is stretched.

enum { STRETCH = 10000, BAR_TOP = 20, TICKS_X = 6, TICKS_Y = 6, PHONE_TICKS = 4 };

struct drawing {
    struct markup *page;
    const struct chart *chart;
    double height;
};

static double across(const struct drawing *drawing, double x)
{
    return 100 * chart_place(&drawing->chart->x, x);
}

static double down(const struct drawing *drawing, double y)
{
    double place = chart_place(&drawing->chart->y, y);
    bool is_rows = drawing->chart->y.scale == CHART_ROWS;
    return drawing->height * (is_rows ? place : 1 - place);
}

// Rows with their names above have their boxes below those.
static void span_of(const struct drawing *drawing, const struct chart_mark *mark, double *top,
                    double *bottom)
{
    double a = down(drawing, mark->y0), b = down(drawing, mark->y1);
    *top = a < b ? a : b;
    *bottom = a < b ? b : a;
    if (drawing->chart->y.names_above) *top += BAR_TOP - 2;
}

static const char *tick_text(struct arena *arena, const struct chart_axis *axis, double value)
{
    char text[UNITS_NUMBER_BYTES];
    if (axis->format) return axis->format(arena, value);
    if (value >= 1000 && value == floor(value)) return units_count(arena, value);
    // 0.30000000000000004 of a step of 0.1
    snprintf(text, sizeof text, "%.6g", value);
    return arena_copy(arena, text);
}

static void put_grid(const struct drawing *drawing)
{
    struct markup *page = drawing->page;
    const struct chart *chart = drawing->chart;
    double ticks[CHART_TICKS_MAX];
    int count = chart_ticks(&chart->x, TICKS_X, ticks);
    for (int i = 0; i < count; i++) {
        double x = across(drawing, ticks[i]);
        markup_print(page, "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%g\"/>",
                     x, x, drawing->height);
        // Where they are many, a phone leaves every other one out.
        bool is_odd = i % 2 && count > PHONE_TICKS;
        const char *anchor = x > 97 ? "end" : x < 3 ? "start" : "middle";
        markup_print(page, "<text class=\"tick%s\" x=\"%.2f%%\" y=\"%g\" text-anchor=\"%s\">",
                     is_odd ? " odd" : "", x, drawing->height + 18, anchor);
        markup_text(page, tick_text(page->arena, &chart->x, ticks[i]));
        markup_put(page, "</text>");
    }
    count = chart_ticks(&chart->y, TICKS_Y, ticks);
    for (int i = 0; i < count; i++) {
        double y = down(drawing, ticks[i]);
        markup_print(page, "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>",
                     y, y);
        markup_print(page, "<text class=\"tick\" x=\"-8\" y=\"%.1f\" text-anchor=\"end\">", y + 4);
        markup_text(page, tick_text(page->arena, &chart->y, ticks[i]));
        markup_put(page, "</text>");
    }
}

// Names of rows; where rows are many, as many of them as there is room for.
static void put_rows(const struct drawing *drawing)
{
    const struct chart_axis *axis = &drawing->chart->y;
    if (axis->scale != CHART_ROWS) return;
    struct markup *page = drawing->page;
    int count = (int)(axis->high - axis->low + 0.5);
    assert(count > 0);
    double each = drawing->height / count;
    // Thirteen pixels are a line of text.
    int skip = each >= 13 ? 1 : (int)(13 / each) + 1;
    for (int i = 0; i < count; i += skip) {
        double top = each * i;
        if (axis->names_above) {
            markup_print(page, "<text class=\"row%s\" x=\"0\" y=\"%.1f\">",
                         axis->values_optional ? " long" : "", top + BAR_TOP - 6);
        } else {
            markup_print(page, "<text class=\"tick\" x=\"-8\" y=\"%.1f\" text-anchor=\"end\">",
                         top + each / 2 + 4);
        }
        markup_text(page, axis->names[i]);
        markup_put(page, "</text>");
        if (!axis->values || !axis->values[i]) continue;
        markup_print(page,
                     "<text class=\"row value%s\" x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">",
                     axis->values_optional ? " wide" : "",
                     top + (axis->names_above ? BAR_TOP - 6 : each / 2 + 4));
        markup_text(page, axis->values[i]);
        markup_put(page, "</text>");
    }
}

static void put_title(struct markup *page, const char *title, const char *close)
{
    if (!title) {
        markup_put(page, "/>");
        return;
    }
    markup_put(page, "><title>");
    markup_text(page, title);
    markup_print(page, "</title></%s>", close);
}

static void put_boxes(const struct drawing *drawing, const struct chart_series *series)
{
    struct markup *page = drawing->page;
    for (int i = 0; i < series->count; i++) {
        const struct chart_mark *mark = &series->marks[i];
        if (!mark->title) continue;
        double top, bottom;
        span_of(drawing, mark, &top, &bottom);
        double left = across(drawing, mark->x0), right = across(drawing, mark->x1);
        if (left > right) {
            double other = left;
            left = right;
            right = other;
        }
        markup_print(page, "<rect class=\"f%d\" x=\"", (int)series->color);
        markup_number(page, left, 2);
        markup_put(page, "%\" y=\"");
        markup_number(page, top, 1);
        markup_put(page, "\" width=\"");
        markup_number(page, right - left < 0.02 ? 0.02 : right - left, 2);
        markup_put(page, "%\" height=\"");
        markup_number(page, bottom - top, 1);
        markup_put(page, "\"");
        if (mark->size > 0 && mark->size < 1) {
            markup_put(page, " opacity=\"");
            markup_number(page, mark->size, 2);
            markup_put(page, "\"");
        }
        put_title(page, mark->title, "rect");
    }
}

// Boxes without titles, all of a series in one path, and lines.
static void put_stretched(const struct drawing *drawing, const struct chart_series *series)
{
    struct markup path = {.arena = drawing->page->arena};
    const double scale = STRETCH / 100.0;
    double before = 0;
    for (int i = 0; i < series->count; i++) {
        const struct chart_mark *mark = &series->marks[i];
        double x = scale * across(drawing, mark->x0);
        if (series->kind == CHART_BOXES) {
            if (mark->title) continue;
            double top, bottom, width = scale * across(drawing, mark->x1) - x;
            span_of(drawing, mark, &top, &bottom);
            markup_print(&path, "M%.0f %.0fh%.0fv%.0fH%.0fz", x, 10 * top, width < 1 ? 1 : width,
                         10 * (bottom - top), x);
        } else {
            double y = round(10 * down(drawing, mark->y0));
            bool is_step = i > 0 && series->kind == CHART_STEPS;
            if (!is_step) {
                markup_print(&path, "%s%.0f %.0f", i ? "L" : "M", x, y);
            } else if (y != before || i == series->count - 1) {
                markup_print(&path, "H%.0fV%.0f", x, y);
            }
            before = y;
        }
    }
    if (!path.text) return;
    bool is_boxes = series->kind == CHART_BOXES;
    markup_print(drawing->page, "<path class=\"%c%d%s\" d=\"%s\"/>", is_boxes ? 'f' : 's',
                 (int)series->color, series->dashed ? " dashed" : "", path.text);
}

static void put_circles(const struct drawing *drawing, const struct chart_series *series)
{
    struct markup *page = drawing->page;
    for (int i = 0; i < series->count; i++) {
        const struct chart_mark *mark = &series->marks[i];
        markup_print(page, "<circle class=\"f%d\" cx=\"%.2f%%\" cy=\"%.1f\" r=\"%.1f\"",
                     (int)series->color, across(drawing, mark->x0), down(drawing, mark->y0),
                     mark->size);
        put_title(page, mark->title, "circle");
    }
}

// Where a label stands, for those after it: the box around it in percent across and pixels down.
struct label {
    double left, right, top;
    bool is_left;             // of its point
    double point_x, point_y;  // in percent and pixels as well
};

// How wide the plot is taken to be: on a screen, on a phone.
static const double WIDTHS_PX[] = {600, 280};
enum { LETTER_PX = 7, LINE_PX = 14, LABEL_X = 8, LABEL_UP = 8, LABEL_DOWN = 17 };
enum { BESIDE_PX = 8, LETTER_UP = 4 };  // the middle of a line of text stands over its foot

static struct label label_at(double x, double y, bool is_left, size_t letters, double width_px)
{
    assert(width_px > 0);
    double gap = 100 * LABEL_X / width_px, width = 100.0 * LETTER_PX * (double)letters / width_px;
    double left = is_left ? x - gap - width : x + gap;
    return (struct label){.left = left, .right = left + width, .top = y, .is_left = is_left};
}

// Clear of what is written already, with room to tell them apart, and of all points but its own.
static bool is_free(const struct drawing *drawing, const struct label *labels, int count,
                    const struct label *label, double width_px)
{
    double gap = 100.0 * BESIDE_PX / width_px;
    for (int i = 0; i < count; i++) {
        bool beside = label->right + gap < labels[i].left || labels[i].right + gap < label->left;
        if (!beside && fabs(label->top - labels[i].top) < LINE_PX) return false;
    }
    for (int s = 0; s < drawing->chart->series_count; s++) {
        const struct chart_series *series = &drawing->chart->series[s];
        for (int i = 0; series->kind == CHART_POINTS && i < series->count; i++) {
            const struct chart_mark *mark = &series->marks[i];
            // Further from another point than from its own, where all is near to each other even
            // more: it is not to be taken for that one's.
            bool is_phone = width_px < WIDTHS_PX[0];
            double x = across(drawing, mark->x0);
            double radius = 100 * (mark->size + (is_phone ? 2 : 1) * LABEL_X) / width_px;
            bool is_own = fabs(label->point_x - x) < 1e-9 &&
                          fabs(label->point_y - down(drawing, mark->y0)) < 1e-9;
            if (is_own) continue;
            double middle_px = label->top - LETTER_UP - down(drawing, mark->y0);
            if (x + radius < label->left || x - radius > label->right) continue;
            if (fabs(middle_px) < LETTER_UP + mark->size + (is_phone ? BESIDE_PX : BESIDE_PX / 2))
                return false;
        }
    }
    return true;
}

enum { SIDES = 4 };

// The places round its point, the nearer side of the plot last.
static struct label label_beside(const struct drawing *drawing, const struct chart_series *series,
                                 const struct chart_mark *mark, int side, double width_px)
{
    assert(side >= 0 && side < SIDES && mark->title);
    double x = across(drawing, mark->x0), y = down(drawing, mark->y0);
    bool is_left = series->labels_left ? x > 6 : x > 60;
    if (side >= SIDES / 2) is_left = !is_left;
    struct label label = label_at(x, y + (side % 2 ? LABEL_DOWN : -LABEL_UP), is_left,
                                  strlen(mark->title), width_px);
    label.point_x = x;
    label.point_y = y;
    return label;
}

// Away from the nearer side of the plot and from a line that goes through the points; above its
// point, below where something is in the way, then on the other side, and nowhere where all that is
// taken. A phone shows those that are clear there.
static void put_labels(const struct drawing *drawing, const struct chart_series *series)
{
    struct markup *page = drawing->page;
    struct label *placed[2];
    int counts[2] = {0};
    for (int i = 0; i < 2; i++)
        placed[i] = ARENA_NEW(page->arena, struct label, series->count);
    for (int i = 0; i < series->count; i++) {
        const struct chart_mark *mark = &series->marks[i];
        assert(counts[0] <= i && counts[1] <= counts[0]);
        bool is_put = false;
        for (int side = 0; side < SIDES && !is_put; side++) {
            struct label wide = label_beside(drawing, series, mark, side, WIDTHS_PX[0]);
            struct label narrow = label_beside(drawing, series, mark, side, WIDTHS_PX[1]);
            bool is_inside = wide.left > 0 && wide.right < 100 &&
                             wide.top < drawing->height + LETTER_UP &&
                             wide.top > LINE_PX - LETTER_UP;
            if (!is_inside || !is_free(drawing, placed[0], counts[0], &wide, WIDTHS_PX[0]))
                continue;
            is_put = true;
            placed[0][counts[0]++] = wide;
            bool is_for_all = narrow.left > 0 && narrow.right < 100 &&
                              is_free(drawing, placed[1], counts[1], &narrow, WIDTHS_PX[1]);
            if (is_for_all) placed[1][counts[1]++] = narrow;
            markup_print(page,
                         "<text class=\"label t%d%s\" x=\"%.2f%%\" y=\"%.1f\" dx=\"%d\" "
                         "text-anchor=\"%s\">",
                         (int)series->color, is_for_all ? "" : " wide", across(drawing, mark->x0),
                         wide.top, wide.is_left ? -LABEL_X : LABEL_X,
                         wide.is_left ? "end" : "start");
            markup_text(page, mark->title);
            markup_put(page, "</text>");
        }
    }
}

static void put_legend(struct markup *page, const struct chart *chart)
{
    int named = 0;
    for (int i = 0; i < chart->series_count; i++)
        named += chart->series[i].name && chart->series[i].count > 0;
    if (!named) return;
    markup_put(page, "<ul class=\"legend\">");
    for (int i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        if (!series->name || series->count == 0) continue;
        bool is_line = series->kind == CHART_LINE || series->kind == CHART_STEPS;
        markup_print(page, "<li><i class=\"b%d%s%s\"></i>", (int)series->color,
                     is_line ? " line" : "", series->dashed ? " dashed" : "");
        markup_text(page, series->name);
        markup_put(page, "</li>");
    }
    markup_put(page, "</ul>");
}

// How dark is how much.
static void put_shades(struct markup *page, const struct chart *chart)
{
    assert(chart->shade_count >= 0 && chart->shade_count <= CHART_SHADES_MAX);
    if (chart->shade_count == 0) return;
    markup_put(page, "<ul class=\"legend shades\">");
    for (int i = 0; i < chart->shade_count; i++) {
        markup_print(page, "<li><i class=\"b%d\" style=\"opacity:%.2f\"></i>",
                     (int)chart->shade_color, chart->shades[i].size);
        markup_prose(page, chart->shades[i].name);
        markup_put(page, "</li>");
    }
    markup_put(page, "</ul>");
}

static int titled_count(const struct chart *chart)
{
    int count = 0;
    for (int i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        for (int k = 0; series->kind != CHART_LABELS && k < series->count; k++)
            count += series->marks[k].title != NULL;
    }
    return count;
}

// What the pointer shows, for who has none: "stage 0, weights: 11.6 GiB" in two columns.
static void put_values(struct markup *page, const struct chart *chart)
{
    enum { VALUES_MAX = 320 };
    int count = titled_count(chart), left = VALUES_MAX;
    if (count == 0) return;
    markup_put(page, "<details class=\"values\"><summary>The values</summary>"
                     "<div class=\"scroll\" tabindex=\"0\"><table><tbody>\n");
    for (int i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        for (int k = 0; series->kind != CHART_LABELS && k < series->count; k++) {
            const char *title = series->marks[k].title, *colon = NULL;
            if (!title || left-- <= 0) continue;
            for (const char *at = title; (at = strstr(at, ": ")); at += 2)
                colon = at;
            int length = colon ? (int)(colon - title) : (int)strlen(title);
            markup_put(page, "<tr><th scope=\"row\">");
            markup_prose(page, arena_print(page->arena, "%.*s", length, title));
            markup_put(page, "</th><td class=\"number\">");
            if (colon) markup_prose(page, colon + 2);
            markup_put(page, "</td></tr>\n");
        }
    }
    markup_put(page, "</tbody></table></div>");
    if (count > VALUES_MAX)
        markup_print(page, "<p>The first %d of %d; the page's data holds all.</p>", VALUES_MAX,
                     count);
    markup_put(page, "</details>");
}

static void put_plot(struct markup *page, const struct chart *chart)
{
    assert(chart->height > 0);
    struct drawing drawing = {page, chart, chart->height};
    bool has_left = chart->y.scale != CHART_ROWS || !chart->y.names_above;
    markup_print(page, "<div class=\"plot%s%s\"", has_left ? " left" : "",
                 chart->x.label ? " below" : "");
    if (chart->width > 0) markup_print(page, " style=\"max-width:%dpx\"", chart->width);
    markup_print(page, "><svg height=\"%d\" role=\"img\"", chart->height);
    markup_attribute(page, "aria-label", chart->title);
    markup_put(page, ">");
    put_grid(&drawing);
    markup_print(page,
                 "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" width=\"100%%\" "
                 "height=\"%d\">",
                 STRETCH, 10 * chart->height, chart->height);
    for (int i = 0; i < chart->series_count; i++) {
        if (chart->series[i].kind <= CHART_STEPS) put_stretched(&drawing, &chart->series[i]);
    }
    markup_put(page, "</svg>");
    // What keeps a label clear of lines hides no point.
    for (int i = 0; i < chart->series_count; i++) {
        if (chart->series[i].kind == CHART_LABELS) put_labels(&drawing, &chart->series[i]);
    }
    for (int i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        if (series->kind == CHART_BOXES) put_boxes(&drawing, series);
        if (series->kind == CHART_POINTS) put_circles(&drawing, series);
    }
    put_rows(&drawing);
    if (chart->x.label) {
        markup_print(page, "<text class=\"axis\" x=\"50%%\" y=\"%d\" text-anchor=\"middle\">",
                     chart->height + 36);
        markup_text(page, chart->x.label);
        markup_put(page, "</text>");
    }
    markup_put(page, "</svg></div>");
}

void chart_put(struct markup *page, const struct chart *chart)
{
    assert(chart->name && chart->title && chart->how);
    markup_put(page, "<figure");
    markup_attribute(page, "id", arena_print(page->arena, "figure-%s", chart->name));
    markup_put(page, "><h3>");
    markup_prose(page, chart->title);
    markup_put(page, "</h3>");
    put_legend(page, chart);
    put_shades(page, chart);
    if (chart->y.label) {
        markup_put(page, "<p class=\"axis\">");
        markup_text(page, chart->y.label);
        markup_put(page, "</p>");
    }
    put_plot(page, chart);
    put_values(page, chart);
    markup_put(page, "<figcaption>");
    markup_prose(page, chart->how);
    markup_put(page, "</figcaption></figure>\n");
}
