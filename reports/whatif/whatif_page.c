#include "reports/whatif/whatif_page.h"

#include "core/units.h"
#include "reports/page/page_parts.h"
#include "reports/page/section.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/whatif_chart.h"
#include "reports/whatif/whatif_text.h"

#include <assert.h>
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
    markup_prose(page, title);
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

// What is asked first stands first: what it takes, and whether that is in time and money.
enum { CELLS_MAX = 12 };

struct cells {
    const char *heads[CELLS_MAX], *texts[CELLS_MAX];
    char aligns[CELLS_MAX + 1];
    double sorts[CELLS_MAX];
    int count;
};

static void add_cell(struct cells *cells, const char *head, char align, const char *text,
                     double sort)
{
    assert(cells->count < CELLS_MAX);
    cells->heads[cells->count] = head;
    cells->texts[cells->count] = text;
    cells->sorts[cells->count] = sort;
    cells->aligns[cells->count++] = align;
}

static struct cells cells_of(struct arena *arena, const struct whatif *whatif, int rank)
{
    assert(rank >= 0 && rank < whatif->fit_count);
    const struct whatif_row *row = &whatif->rows[whatif->order[rank]];
    const struct prediction *prediction = &row->outcome->prediction;
    const struct whatif_question *question = &whatif->question;
    bool has_limit = question->deadline_s > 0 || question->budget > 0;
    struct cells cells = {0};
    add_cell(&cells, "#", 'n', arena_print(arena, "%d", rank + 1), rank);
    add_cell(&cells, "scenario", 'l', row->point->scenario.label, 0);
    add_cell(&cells, "time", 'n', units_duration(arena, row->time_s), row->time_s);
    add_cell(&cells, whatif->is_priced ? whatif->currency : "GPU-hours", 'n',
             units_count(arena, row->cost), row->cost);
    if (has_limit)
        add_cell(&cells,
                 question->deadline_s > 0 ? question->budget > 0 ? "makes it" : "in time"
                                          : "affordable",
                 'l', row->makes_it ? "yes" : "no", 0);
    if (whatif->goal == WHATIF_MOST_TOKENS)
        add_cell(&cells, "tokens", 'n', units_count(arena, row->tokens), row->tokens);
    add_cell(&cells, "layout", 'c',
             parallel_text(arena, &row->outcome->best.parallel, whatif->request->stack), 0);
    add_cell(&cells, "step", 'n', units_seconds(arena, prediction->step_s), prediction->step_s);
    const char *rate = model_config_rate_text(arena, whatif->request->model);
    add_cell(&cells, arena_print(arena, "%s each", rate), 'n',
             units_count(arena, prediction->tokens_per_s_per_gpu),
             prediction->tokens_per_s_per_gpu);
    add_cell(&cells, "MFU", 'n', units_ratio(arena, prediction->mfu_ratio), prediction->mfu_ratio);
    add_cell(&cells, "memory", 'n', units_bytes(arena, (double)prediction->reserved_bytes),
             (double)prediction->reserved_bytes);
    add_cell(&cells, "goodput", 'n', units_ratio(arena, row->goodput_ratio), row->goodput_ratio);
    return cells;
}

static void put_rows(struct markup *page, const struct whatif *whatif)
{
    int shown = whatif->fit_count < ROWS_MAX ? whatif->fit_count : ROWS_MAX;
    if (shown == 0) return;
    struct arena *arena = page->arena;
    struct cells cells = cells_of(arena, whatif, 0);
    open_section(page, "scenarios", "Scenarios");
    struct page_table table =
        page_table_open(page, arena_copy(arena, cells.aligns), true, cells.heads);
    for (int i = 0; i < shown; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        cells = cells_of(arena, whatif, i);
        page_table_row(&table, i == 0 && row->makes_it, cells.texts, cells.sorts);
    }
    page_table_close(&table);
    if (shown < whatif->fit_count) {
        page_paragraph(page, arena_print(page->arena, "The first %d of %d; whatif.csv has all.",
                                         shown, whatif->fit_count));
    }
    markup_put(page, "</section>\n");
}

static void put_input(const struct page_table *table, const char *name, const char *text)
{
    const char *cells[] = {name, text};
    page_table_row(table, false, cells, NULL);
}

// The price of each cluster once, in the order of the scenarios.
static void put_prices(const struct page_table *table, const struct whatif *whatif)
{
    struct arena *arena = table->page->arena;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct sweep_point *point = whatif->rows[i].point;
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new = is_new && strcmp(whatif->rows[k].point->name, point->name) != 0;
        if (!is_new) continue;
        const struct price *price = &point->scenario.cluster->price;
        const char *device = point->scenario.cluster->nodes[0].device->name;
        put_input(table, point->name,
                  price->per_gpu_hour > 0 ? arena_print(arena, "%s, %.4g %s a GPU-hour", device,
                                                        price->per_gpu_hour, price->currency)
                                          : arena_print(arena, "%s, no price", device));
    }
}

// What went in, and the command that makes the page again.
static void put_inputs(struct markup *page, const struct whatif *whatif,
                       const struct whatif_words *words)
{
    static const char *const HEADS[] = {"input", "value"};
    struct arena *arena = page->arena;
    const struct whatif_question *question = &whatif->question;
    open_section(page, "inputs", "Inputs");
    struct page_table table = page_table_open(page, "lo", false, HEADS);
    put_input(&table, "model", model_config_text(arena, whatif->request->model));
    put_prices(&table, whatif);
    if (question->tokens > 0)
        put_input(&table, "tokens of the run", units_count(arena, question->tokens));
    if (question->deadline_s > 0)
        put_input(&table, "deadline", units_duration(arena, question->deadline_s));
    if (question->budget > 0)
        put_input(&table, "budget",
                  arena_print(arena, "%s %s", units_count(arena, question->budget),
                              whatif->is_priced ? whatif->currency : ""));
    if (question->credits > 0) put_input(&table, "credits", units_count(arena, question->credits));
    put_input(&table, "stack", whatif->request->stack->name);
    page_table_close(&table);
    page_paragraph(page, "This command makes the page again:");
    markup_put(page, "<pre class=\"command\" tabindex=\"0\">");
    page_options(page, words->command ? words->command : "");
    markup_put(page, "</pre>\n</section>\n");
}

static void put_chart(struct markup *page, const char *id, const char *title,
                      const struct chart *chart)
{
    open_section(page, id, title);
    chart_put(page, chart);
    markup_put(page, "</section>\n");
}

static const char *const GOAL_TITLES[] = {
    "what it takes, scenario by scenario", "the cheapest way to be done in time",
    "the fastest for the money", "how many tokens it can train on"};

static void put_next(struct markup *page, const char *next)
{
    static const char NEXT[] = "Next: ";
    if (strncmp(next, NEXT, strlen(NEXT)) != 0) return;
    page_paragraph(page, "What comes next:");
    markup_put(page, "<pre class=\"command\" tabindex=\"0\">");
    page_options(page, next + strlen(NEXT));
    markup_put(page, "</pre>\n");
}

char *whatif_page(struct arena *arena, const struct whatif *whatif, const struct scaling *scaling,
                  const struct whatif_words *words, const char *version)
{
    assert((size_t)whatif->goal < sizeof GOAL_TITLES / sizeof *GOAL_TITLES);
    struct markup page = {.arena = arena};
    struct chart pareto = {.arena = arena}, curve = {.arena = arena};
    put_head(&page, arena_print(arena, "%s: %s", model_config_text(arena, whatif->request->model),
                                GOAL_TITLES[whatif->goal]));
    open_section(&page, "verdict", "Verdict");
    put_lines(&page, whatif_answer_text(arena, whatif));
    put_lines(&page, whatif_past_text(arena, whatif));
    put_lines(&page, whatif_devices_text(arena, whatif));
    put_lines(&page, whatif_head_text(arena, whatif));
    put_next(&page, whatif_next_text(arena, whatif, words));
    markup_put(&page, "</section>\n");
    if (whatif_pareto_chart(whatif, &pareto)) put_chart(&page, "pareto", "Time and cost", &pareto);
    if (scaling && whatif_scaling_chart(scaling, &curve)) {
        put_chart(&page, "scaling", "Scaling", &curve);
    }
    put_rows(&page, whatif);
    put_inputs(&page, whatif, words);
    const char *rejected = whatif_rejected_text(arena, whatif);
    if (*rejected) {
        open_section(&page, "rejected", "Rejected");
        put_lines(&page, rejected);
        markup_put(&page, "</section>\n");
    }
    markup_print(&page,
                 "<footer>meshwright %s. This page is complete: it loads nothing and sends nothing."
                 "</footer>\n</main>\n<script>//<![CDATA[\n",
                 version);
    markup_put(&page, page_script());
    markup_put(&page, "//]]></script>\n</body></html>\n");
    return page.text;
}
