#include "reports/whatif/whatif_page.h"

#include "core/units.h"
#include "reports/page/page_parts.h"
#include "reports/page/section.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_chart.h"
#include "reports/whatif/whatif_text.h"

#include <string.h>

// More would make the page slow to open; the files beside it have all.
enum { ROWS_MAX = 300 };

static void put_head(struct markup *page, const char *title)
{
    markup_put(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                     "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                     "<link rel=\"icon\" href=\"data:,\"/>\n<title>");
    markup_text(page, title);
    markup_put(page, "</title>\n<style>\n");
    markup_put(page, page_style());
    markup_put(page, "</style></head>\n<body><main>\n<header><h1>");
    markup_text(page, title);
    markup_put(page, "</h1></header>\n");
}

static void open_section(struct markup *page, const char *id, const char *title)
{
    markup_print(page, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
}

// A paragraph a line; what stands further right belongs to the line above.
static void put_lines(struct markup *page, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        page_paragraph(page, arena_print(page->arena, "%.*s", (int)length, text));
        text += length + (text[length] == '\n');
    }
}

static void put_row(const struct page_table *table, const struct whatif *whatif, int rank)
{
    struct arena *arena = table->page->arena;
    const struct whatif_row *row = &whatif->rows[whatif->order[rank]];
    const struct prediction *prediction = &row->outcome->prediction;
    double tokens_per_s_per_gpu = prediction->tokens_per_s_per_gpu;
    const char *const cells[] = {
        arena_print(arena, "%d", rank + 1),
        row->point->scenario.label,
        parallel_text(arena, &row->outcome->best.parallel),
        units_seconds(arena, prediction->step_s),
        units_count(arena, tokens_per_s_per_gpu),
        units_percent(arena, prediction->mfu_ratio),
        units_bytes(arena, (double)prediction->reserved_bytes),
        units_percent(arena, row->goodput_ratio),
        units_count(arena, row->tokens),
        units_duration(arena, row->time_s),
        units_count(arena, row->cost),
        row->is_on_front ? "yes" : "",
        row->makes_it ? "yes" : "no",
    };
    const double sorts[] = {rank,
                            0,
                            0,
                            prediction->step_s,
                            tokens_per_s_per_gpu,
                            prediction->mfu_ratio,
                            (double)prediction->reserved_bytes,
                            row->goodput_ratio,
                            row->tokens,
                            row->time_s,
                            row->cost,
                            0,
                            0};
    page_table_row(table, rank == 0 && row->makes_it, cells, sorts);
}

static void put_rows(struct markup *page, const struct whatif *whatif)
{
    const char *const heads[] = {"#",
                                 "scenario",
                                 "layout",
                                 "step",
                                 "tokens/s a GPU",
                                 "MFU",
                                 "memory",
                                 "goodput",
                                 "tokens",
                                 "time",
                                 whatif->is_priced ? whatif->currency : "GPU-hours",
                                 "front",
                                 "makes it"};
    int shown = whatif->fit_count < ROWS_MAX ? whatif->fit_count : ROWS_MAX;
    if (shown == 0) return;
    open_section(page, "scenarios", "Scenarios");
    struct page_table table = page_table_open(page, "nccnnnnnnnnll", true, heads);
    for (int i = 0; i < shown; i++) {
        put_row(&table, whatif, i);
    }
    page_table_close(&table);
    if (shown < whatif->fit_count) {
        page_paragraph(page, arena_print(page->arena, "The first %d of %d; whatif.csv has all.",
                                         shown, whatif->fit_count));
    }
    markup_put(page, "</section>\n");
}

static void put_chart(struct markup *page, const char *id, const char *title,
                      const struct chart *chart)
{
    open_section(page, id, title);
    chart_put(page, chart);
    markup_put(page, "</section>\n");
}

static const char *const GOAL_TITLES[] = {"What it takes, scenario by scenario",
                                          "What is cheapest in time",
                                          "What is fastest for the money", "How many tokens"};

char *whatif_page(struct arena *arena, const struct whatif *whatif, const struct scaling *scaling,
                  const struct whatif_words *words, const char *version)
{
    struct markup page = {.arena = arena};
    struct chart pareto = {.arena = arena}, curve = {.arena = arena};
    put_head(&page, arena_print(arena, "%s: %s", model_config_text(arena, whatif->request->model),
                                GOAL_TITLES[whatif->goal]));
    open_section(&page, "verdict", "Verdict");
    put_lines(&page, whatif_answer_text(arena, whatif));
    put_lines(&page, whatif_devices_text(arena, whatif));
    put_lines(&page, whatif_head_text(arena, whatif));
    const char *next = whatif_next_text(arena, whatif, words);
    if (*next) {
        markup_put(&page, "<pre>");
        markup_text(&page, next);
        markup_put(&page, "</pre>\n");
    }
    markup_put(&page, "</section>\n");
    if (whatif_pareto_chart(whatif, &pareto)) put_chart(&page, "pareto", "Time and cost", &pareto);
    if (scaling && whatif_scaling_chart(scaling, &curve)) {
        put_chart(&page, "scaling", "Scaling", &curve);
    }
    put_rows(&page, whatif);
    const char *rejected = whatif_rejected_text(arena, whatif);
    if (*rejected) {
        open_section(&page, "rejected", "Rejected");
        put_lines(&page, rejected);
        markup_put(&page, "</section>\n");
    }
    markup_print(&page,
                 "<footer>Made by meshwright %s; nothing on this page is loaded from elsewhere."
                 "</footer>\n</main>\n<script>//<![CDATA[\n",
                 version);
    markup_put(&page, page_script());
    markup_put(&page, "//]]></script>\n</body></html>\n");
    return page.text;
}
