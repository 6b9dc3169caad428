#include "reports/page/report.h"
#include "core/units.h"
#include "reports/page/figure.h"
#include "reports/page/page_parts.h"
#include "reports/page/section.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <string.h>

struct section {
    const char *id, *title;
    bool (*put)(struct markup *page, const struct report_facts *facts);
    bool words_last;  // behind the figures
};

static const struct section SECTIONS[] = {
    {"verdict", "Verdict", section_verdict, false},
    {"what-if", "What if", NULL, false},
    {"why", "Why this plan", section_why, false},
    {"why-not", "Why not another", section_why_not, false},
    {"evidence", "Runs like it that were measured", section_evidence, false},
    {"measured", "Measured beside predicted", section_measured, false},
    {"step", "Where the time goes", section_step, true},
    {"pipeline", "The pipeline", section_pipeline, true},
    {"memory", "Memory", NULL, false},
    {"traffic", "Who talks to whom", NULL, false},
    {"roofline", "Operators", NULL, false},
    {"scaling", "Scaling", section_scaling, true},
    {"sensitivity", "Sensitivity", NULL, false},
    {"pareto", "Trade-offs", NULL, false},
    {"alternatives", "Alternatives", section_alternatives, false},
    {"inputs", "Inputs and their sources", section_inputs, false},
};
enum { SECTION_COUNT = sizeof SECTIONS / sizeof *SECTIONS };

const struct report_facts *report_facts_make(struct arena *arena, struct arena *scratch,
                                             const struct report *report)
{
    assert(report->evaluation && report->request);
    struct report_facts *facts = ARENA_NEW(arena, struct report_facts, 1);
    facts->report = report;
    facts->traffic = traffic_make(arena, scratch, report->request, report->evaluation);
    const struct measured_run *run = report->run;
    if (run && run->traffic_bytes)
        facts->measured_traffic =
            traffic_of_pairs(arena, report->request->cluster, run->rank_count, run->traffic_bytes);
    return facts;
}

// The body of a section, or NULL where it has none. The place for a planner is always there.
static char *section_text(struct arena *arena, const struct report_facts *facts,
                          const struct section *section)
{
    struct markup body = {.arena = arena};
    int count;
    const struct figure *list = figures(&count);
    if (section->put && !section->words_last) section->put(&body, facts);
    for (int i = 0; i < count; i++) {
        struct chart chart = figure_new(arena);
        if (strcmp(list[i].section, section->id) == 0 && list[i].make(facts, &chart))
            chart_put(&body, &chart);
    }
    if (section->put && section->words_last) section->put(&body, facts);
    return body.text;
}

static bool is_planner(const struct section *section)
{
    return strcmp(section->id, "what-if") == 0;
}

static void put_head(struct markup *page, const char *title, const struct report_planner *planner)
{
    markup_put(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                     "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
                     "<link rel=\"icon\" href=\"data:,\"/>\n<title>");
    markup_text(page, title);
    markup_put(page, "</title>\n<style>\n");
    markup_put(page, page_style());
    if (planner) markup_put(page, planner->style);
    markup_put(page, "</style></head>\n<body><main>\n");
}

static void put_header(struct markup *page, const struct report *report, const char *title,
                       char *const *bodies)
{
    struct arena *arena = page->arena;
    const struct evaluation_request *request = report->request;
    markup_put(page, "<header><h1>");
    markup_prose(page, title);
    markup_put(page, "</h1><p>");
    markup_prose(page,
                 arena_print(arena, "%s, %s tokens a sequence, %s sequences a step, %s, stack %s",
                             cluster_text(arena, request->cluster),
                             units_count(arena, (double)request->workload.seq_len),
                             units_count(arena, (double)request->workload.global_batch),
                             precision_name(request->workload.precision), request->stack->name));
    markup_put(page, "</p></header>\n<nav>");
    for (int i = 1; i < SECTION_COUNT; i++) {
        if (!bodies[i] || is_planner(&SECTIONS[i])) continue;
        markup_print(page, "<a href=\"#%s\">%s</a> ", SECTIONS[i].id, SECTIONS[i].title);
    }
    markup_put(page, "</nav>\n");
}

// Line breaks and blanks between members go. What would end the script, or begin a reference where
// the page is read as XML, is written by its number.
static void put_data(struct markup *page, const char *id, const char *data)
{
    size_t length = strlen(data), used = 0;
    char *text = ARENA_NEW(page->arena, char, 6 * length + 1);
    bool is_text = false;
    for (size_t i = 0; i < length; i++) {
        char byte = data[i];
        if (byte == '"') is_text = !is_text;
        if (!is_text && (byte == '\n' || byte == ' ')) continue;
        if (byte == '<' || byte == '&' || byte == '>') {
            const char *number = byte == '<' ? "\\u003c" : byte == '&' ? "\\u0026" : "\\u003e";
            memcpy(text + used, number, 6);
            used += 6;
            continue;
        }
        text[used++] = byte;
        if (byte == '\\') text[used++] = data[++i];
    }
    assert(used <= 6 * length);
    text[used] = '\0';
    markup_print(page, "<script type=\"application/json\" id=\"%s\">", id);
    markup_put(page, text);
    markup_put(page, "</script>\n");
}

// The page is read as XML as well, where a script is text.
static void put_script(struct markup *page, const char *script)
{
    markup_put(page, "<script>//<![CDATA[\n");
    markup_put(page, script);
    markup_put(page, "//]]></script>\n");
}

static void put_place(struct markup *page, const struct section *section)
{
    markup_print(page, "<section id=\"%s\" hidden=\"hidden\"></section>\n", section->id);
}

static void put_planner(struct markup *page, const struct report_planner *planner)
{
    put_data(page, "planner-tables", planner->tables);
    markup_put(page, "<script type=\"application/wasm\" id=\"planner-module\">");
    markup_put(page, planner->module_base64);
    markup_put(page, "</script>\n<script type=\"application/gzip\" id=\"planner-choices\">");
    markup_put(page, planner->choices_base64);
    markup_put(page, "</script>\n");
    put_script(page, planner->script);
}

char *report_page(struct arena *arena, const struct report_facts *facts)
{
    const struct report *report = facts->report;
    struct markup page = {.arena = arena};
    char *bodies[SECTION_COUNT];
    for (int i = 0; i < SECTION_COUNT; i++)
        bodies[i] = section_text(arena, facts, &SECTIONS[i]);
    int gpus = report->request->cluster->rank_count;
    const char *model = model_text(arena, report->request->model->name, report->evaluation->graph);
    const char *title = arena_print(
        arena, "%s on %s %s%s of %s", model, units_count(arena, gpus),
        cluster_device_noun(report->request->cluster), gpus == 1 ? "" : "s",
        strcmp(report->request->cluster->name, "local") == 0 ? "one machine"
                                                             : report->request->cluster->name);
    put_head(&page, title, report->planner);
    put_header(&page, report, title, bodies);
    for (int i = 0; i < SECTION_COUNT; i++) {
        const struct section *section = &SECTIONS[i];
        if (is_planner(section)) {
            if (report->planner) put_place(&page, section);
        } else if (bodies[i]) {
            markup_print(&page, "<section id=\"%s\"><h2>%s</h2>\n", section->id, section->title);
            markup_put(&page, bodies[i]);
            markup_put(&page, "</section>\n");
        }
    }
    markup_print(&page,
                 "<footer>meshwright %s. This page is complete: it loads nothing and sends "
                 "nothing.</footer>\n</main>\n",
                 report->version);
    put_data(&page, "report-data", report_data(arena, facts));
    put_script(&page, page_script());
    if (report->planner) put_planner(&page, report->planner);
    markup_put(&page, "</body></html>\n");
    return page.text;
}

const char *const *report_plot_names(struct arena *arena, const struct report_facts *facts)
{
    int count, used = 0;
    const struct figure *list = figures(&count);
    const char **names = ARENA_NEW(arena, const char *, 2 * count + 1);
    for (int i = 0; i < count; i++) {
        struct chart chart = figure_new(arena);
        if (!list[i].make(facts, &chart)) continue;
        names[used++] = arena_print(arena, "%s.svg", chart.name);
        names[used++] = arena_print(arena, "%s.png", chart.name);
    }
    assert(used <= 2 * count);
    return names;
}

// In single quotes gnuplot takes every character as it is, but for the quote.
static void put_path(struct markup *script, const char *folder, const char *name, const char *end)
{
    assert(*name);
    markup_put(script, "set output '");
    for (; *folder; folder++)
        markup_print(script, *folder == '\'' ? "''" : "%c", *folder);
    markup_print(script, "/%s.%s'\n", name, end);
}

char *report_plot_script(struct arena *arena, const struct report_facts *facts, const char *folder)
{
    enum { WIDTH = 1000, MARGIN = 170 };
    struct markup script = {.arena = arena};
    int count;
    const struct figure *list = figures(&count);
    for (int i = 0; i < count; i++) {
        struct chart chart = figure_new(arena);
        if (!list[i].make(facts, &chart)) continue;
        const char *plot = chart_script(arena, &chart);
        int height = chart.height + MARGIN;
        markup_print(&script,
                     "set terminal svg size %d,%d background rgb 'white' font 'Helvetica,14'\n",
                     WIDTH, height);
        put_path(&script, folder, chart.name, "svg");
        markup_put(&script, plot);
        markup_print(&script, "set terminal pngcairo size %d,%d font 'Helvetica,11'\n", WIDTH,
                     height);
        put_path(&script, folder, chart.name, "png");
        markup_put(&script, plot);
    }
    markup_put(&script, "set output\nset print '-'\nprint 'done'\n");
    return script.text;
}
