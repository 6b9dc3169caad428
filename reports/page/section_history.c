#include "core/units.h"
#include "reports/page/history.h"
#include "reports/page/section.h"

#include <assert.h>
#include <string.h>

enum { SHOWN_MAX = 12 };  // calls in the table, the newest

const char *history_date_text(struct arena *arena, const char *date)
{
    if (strlen(date) != strlen("20261123T172400Z")) return date;
    return arena_print(arena, "%.4s-%.2s-%.2s %.2s:%.2s", date, date + 4, date + 6, date + 9,
                       date + 11);
}

static void put_point(struct page_table *table, const struct history_point *point,
                      const struct history_point *before)
{
    assert(point);
    struct arena *arena = table->page->arena;
    double change = before ? point->median_s / before->median_s - 1 : 0;
    const char *cells[] = {
        history_date_text(arena, point->date), arena_print(arena, "%d", point->run_count),
        units_seconds(arena, point->median_s), units_seconds(arena, point->low_s),
        units_seconds(arena, point->high_s),   before ? page_signed_percent(arena, change) : "-"};
    const double sorts[] = {0,     point->run_count, point->median_s, point->low_s, point->high_s,
                            change};
    page_table_row(table, false, cells, sorts);
}

void history_put(struct markup *page, const struct report_history *history)
{
    static const char *const HEADS[] = {"date, UTC", "runs", "step", "least", "most", "change"};
    struct arena *arena = page->arena;
    if (!history) return;
    markup_put(page, "<h3>Over time</h3>\n");
    const char *others =
        history->other_count > 0
            ? arena_print(arena, " %s saved runs of other plans or machines are left out.",
                          units_count(arena, history->other_count))
            : "";
    page_paragraph(page, arena_print(arena,
                                     "What bench kept in %s of this plan on %s: each call is the "
                                     "median of its runs.%s",
                                     history->folder, history->machine, others));
    struct page_table table = page_table_open(page, "lnnnnn", true, HEADS);
    int first = history->count > SHOWN_MAX ? history->count - SHOWN_MAX : 0;
    for (int i = first; i < history->count; i++)
        put_point(&table, &history->points[i], i > 0 ? &history->points[i - 1] : NULL);
    page_table_close(&table);
}

void history_write(struct json_writer *writer, const struct report_history *history)
{
    if (!history) return;
    json_open(writer, "history", '[');
    for (int i = 0; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "date", point->date);
        json_put_i64(writer, "runs", point->run_count);
        json_put_f64(writer, "step_s", point->median_s);
        json_put_f64(writer, "step_s_least", point->low_s);
        json_put_f64(writer, "step_s_most", point->high_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}
