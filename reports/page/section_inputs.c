#include "core/plain.h"
#include "core/units.h"
#include "reports/machine/launch.h"
#include "reports/page/constant_words.h"
#include "reports/page/section.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <string.h>

// What went in, where every constant comes from, and how to make it again.

static void put_row(const struct page_table *table, const char *name, const char *text)
{
    const char *cells[] = {name, text};
    page_table_row(table, false, cells, NULL);
}

static const char *network_text(struct arena *arena, const struct cluster *cluster)
{
    const struct network *network = &cluster->network;
    if (cluster->node_count == 1) return "none: one node";
    bool is_full = network->oversubscription_ratio <= 1;
    const char *text = is_full ? arena_print(arena, "%s%s", network->kind,
                                             network->tier_count == 0 ? ", full bisection" : "")
                               : arena_print(arena, "%s, oversubscribed %.3g times", network->kind,
                                             network->oversubscription_ratio);
    for (int i = 0; i < network->tier_count; i++) {
        const struct network_tier *tier = &network->tiers[i];
        text = arena_print(arena, "%s, %s of %d nodes oversubscribed %.3g times", text,
                           tier->dragonfly ? "dragonfly groups" : "blocks", tier->nodes,
                           tier->oversubscription_ratio);
    }
    return text;
}

static void put_inputs(struct markup *page, const struct report *report)
{
    static const char *const HEADS[] = {"input", "value"};
    struct arena *arena = page->arena;
    const struct evaluation_request *request = report->request;
    const struct workload *workload = &request->workload;
    const struct graph *graph = report->evaluation->graph;
    const struct device *device = cluster_slowest_device(request->cluster, workload->precision);
    struct page_table table = page_table_open(page, "lo", false, HEADS);
    put_row(&table, "model",
            arena_print(arena, "%s, %d layers", model_text(arena, request->model->name, graph),
                        graph->layer_count));
    put_row(&table, "cluster",
            arena_print(arena, "%s: %s", request->cluster->name,
                        cluster_text(arena, request->cluster)));
    put_row(&table, "device",
            arena_print(arena, "%s: %s at peak (%s), %s at %s", device->name,
                        units_flop_per_s(arena, device->peak_flop_per_s[workload->precision]),
                        precision_name(workload->precision),
                        units_bytes(arena, (double)device->memory_bytes),
                        units_bytes_per_s(arena, device->memory_bandwidth_bytes_per_s)));
    put_row(&table, "network", network_text(arena, request->cluster));
    put_row(&table, "workload",
            arena_print(arena, "%s tokens a sequence, %s sequences a step, %s, %s",
                        units_count(arena, (double)workload->seq_len),
                        units_count(arena, (double)workload->global_batch),
                        precision_name(workload->precision), optimizer_name(workload->optimizer)));
    const struct price *price = &request->cluster->price;
    put_row(&table, "price",
            price->per_gpu_hour > 0
                ? arena_print(arena, "%.4g %s a %s-hour", price->per_gpu_hour, price->currency,
                              cluster_device_noun(request->cluster))
                : "not given");
    if (workload->tokens > 0)
        put_row(&table, "tokens of the run", units_count(arena, workload->tokens));
    put_row(&table, "stack", request->stack->name);
    const char *launch = launch_text(arena, request->stack, &request->parallel, &request->workload);
    if (*launch) put_row(&table, request->stack->flags_of, launch);
    put_row(&table, "made by", arena_print(arena, "meshwright %s", report->version));
    page_table_close(&table);
}

// " --tokens 1T": as people type it, where the letter says the same number.
static const char *tokens_option(struct arena *arena, double tokens)
{
    assert(tokens > 0);
    static const struct {
        double scale;
        const char *letter;
    } SCALES[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1, ""}};
    char number[UNITS_NUMBER_BYTES];
    size_t i = 0;
    while (SCALES[i].scale > 1 &&
           (tokens < SCALES[i].scale || strlen(units_number(number, tokens / SCALES[i].scale)) > 6))
        i++;
    return arena_print(arena, " --tokens %s%s", units_number(number, tokens / SCALES[i].scale),
                       SCALES[i].letter);
}

// " --nodes 8 --gpus 64": what of the cluster, or how many ranks of this machine.
static const char *size_options(struct arena *arena, const struct cluster *cluster)
{
    assert(cluster->nodes[0].gpus > 0);
    int gpus = cluster_rented_count(cluster), each = cluster->nodes[0].gpus;
    if (strcmp(cluster->name, "local") == 0) return arena_print(arena, " --ranks %d", gpus);
    if (cluster->node_group_count > 1) return arena_print(arena, " --gpus %d", gpus);
    return arena_print(arena, " --nodes %d --gpus %d", (gpus + each - 1) / each, gpus);
}

static void put_commands(struct markup *page, const struct report *report)
{
    struct arena *arena = page->arena;
    const struct evaluation_request *request = report->request;
    const struct workload *workload = &request->workload;
    const struct cluster *cluster = request->cluster;
    const char *idle = cluster->idle_gpus > 0 ? " --idle ok" : "";
    const char *tokens = workload->tokens > 0 ? tokens_option(arena, workload->tokens) : "";
    const char *path = plain_shell(arena, report->plan_path);
    page_paragraph(page, "The first of these commands makes this page again and the second prints "
                         "its numbers. The third searches for a plan once more, with nothing "
                         "pinned:");
    markup_put(page, "<pre class=\"command\" tabindex=\"0\">");
    page_options(page, report->command ? report->command
                                       : arena_print(arena, "meshwright report %s", path));
    markup_put(page, "\n");
    page_options(page, arena_print(arena, "meshwright simulate %s --explain", path));
    markup_put(page, "\n");
    page_options(page, arena_print(arena,
                                   "meshwright plan %s %s%s --seq-len %lld --global-batch %lld "
                                   "--precision %s --optimizer %s --stack %s%s%s",
                                   plain_shell(arena, request->model->name),
                                   plain_shell(arena, cluster->name), size_options(arena, cluster),
                                   (long long)workload->seq_len, (long long)workload->global_batch,
                                   precision_name(workload->precision),
                                   optimizer_name(workload->optimizer),
                                   plain_shell(arena, request->stack->name), idle, tokens));
    markup_put(page, "\n</pre>\n");
}

enum { KINDS = PROVENANCE_KIND_COUNT };

// How many of the constants that the step hangs on are of which class, and each with its source.
static void put_constants(struct markup *page, const struct report *report)
{
    static const char *const HEADS[] = {"assumption", "value", "known from", "elasticity",
                                        "source"};
    // Behind "assumptions: 9".
    static const char *const FROM[KINDS] = {"measured",           "published", "fitted to runs",
                                            "from the datasheet", "estimated", "assumed"};
    struct arena *arena = page->arena;
    const struct sensitivity *sensitivity = &report->explain.sensitivity;
    int counts[KINDS] = {0};
    for (int i = 0; i < sensitivity->count; i++) {
        const struct provenance *provenance = sensitivity->rows[i].constant->provenance;
        assert(!provenance || (int)provenance->kind < KINDS);
        if (provenance) counts[provenance->kind]++;
    }
    markup_print(page, "<p>The predicted step depends on %d assumptions: ", sensitivity->count);
    const char *before = "";
    for (int kind = 0; kind < KINDS; kind++) {
        if (counts[kind] == 0) continue;
        markup_print(page, "%s%d %s", before, counts[kind], FROM[kind]);
        before = ", ";
    }
    markup_print(page,
                 ". A change of any of the other %d changes the step by less than a "
                 "thousandth as much.</p>\n",
                 sensitivity->idle_count);
    markup_put(page, "<details><summary>Every assumption that matters, its value and its "
                     "source</summary>\n");
    struct page_table table = page_table_open(page, "lnlns", true, HEADS);
    for (int i = 0; i < sensitivity->count; i++) {
        const struct sensitivity_row *row = &sensitivity->rows[i];
        const struct provenance *provenance = row->constant->provenance;
        const char *cells[] = {
            constant_words(arena, row->constant),
            constant_value_text(arena, row->constant),
            provenance ? provenance_kind_name(provenance->kind) : "-",
            arena_print(arena, "%+.3f", row->elasticity),
            provenance ? provenance->source : "-",
        };
        const double sorts[] = {0, *row->constant->value, 0, row->elasticity, 0};
        page_table_row(&table, false, cells, sorts);
    }
    page_table_close(&table);
    markup_put(page, "</details>\n");
}

bool section_inputs(struct markup *page, const struct report_facts *facts)
{
    put_inputs(page, facts->report);
    put_constants(page, facts->report);
    put_commands(page, facts->report);
    return true;
}
