#include "reports/table/placement_table.h"

#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

static const char *const PLACES[] = {"device", "host"};

const struct placed_result *placement_report_best(const struct placement_report *report)
{
    const struct placed_result *best = NULL;
    for (int i = 0; i < 2; i++) {
        const struct placed_result *at = &report->places[i].solution.policies[PLACEMENT_PLANNED];
        if (report->places[i].fits && (!best || at->step_s < best->step_s)) best = at;
    }
    return best;
}

// Both ways: what comes to the device and what leaves it.
static double moved_bytes(const struct placed_result *placement)
{
    return (double)(placement->up_bytes + placement->down_bytes);
}

// A sum over moments and one of what they take differ in their last bits.
static double exposed_s(const struct placed_result *placement)
{
    double waited_s = placement->step_s - placement->compute_s;
    return waited_s > 1e-12 * placement->step_s ? waited_s : 0;
}

static double gap_ratio(const struct placement_solution *solution)
{
    double moved = moved_bytes(&solution->policies[PLACEMENT_PLANNED]);
    return solution->bound_bytes > 0 ? moved / solution->bound_bytes - 1 : moved > 0 ? INFINITY : 0;
}

static void add_rows(struct arena *arena, struct table *table,
                     const struct placement_report *report, int place)
{
    assert(place == PLACEMENT_DEVICE_UPDATES || place == PLACEMENT_HOST_UPDATES);
    for (int p = 0; p < PLACEMENT_POLICY_COUNT && report->places[place].fits; p++) {
        const struct placed_result *at = &report->places[place].solution.policies[p];
        const char *cells[] = {
            placement_policy_name((enum placement_policy)p),
            PLACES[place],
            units_bytes(arena, (double)at->up_bytes),
            units_bytes(arena, (double)at->down_bytes),
            units_bytes(arena, (double)at->nvme_bytes),
            units_bytes(arena, (double)at->peak_bytes),
            arena_print(arena, "%.4g", at->step_s),
            arena_print(arena, "%.4g", exposed_s(at)),
            arena_print(arena, "%.4g", at->link_s),
            p == PLACEMENT_PLANNED ? arena_print(arena, "%d", at->ahead) : "-",
        };
        table_row(table, cells);
    }
}

static const char *proof_text(struct arena *arena, const struct placement_report *report, int place)
{
    if (!report->places[place].fits) {
        return arena_print(
            arena, "Updates on the %s: some moment alone needs %s, %s more than there is\n",
            PLACES[place], units_bytes(arena, (double)report->places[place].least_bytes),
            units_bytes(arena, (double)(report->places[place].least_bytes - report->device_bytes)));
    }
    const struct placement_solution *solution = &report->places[place].solution;
    double planned = moved_bytes(&solution->policies[PLACEMENT_PLANNED]);
    double least_recent = moved_bytes(&solution->policies[PLACEMENT_LRU]);
    double gap = gap_ratio(solution);
    assert(gap > -1e-6 && "no placement moves less than the bound");
    const char *gap_words =
        gap == INFINITY ? "no bound is known"
        : gap < 5e-5    ? "no placement moves less"
                        : arena_print(arena, "%.1f %% over the bound%s", 100 * gap,
                                   solution->is_optimal ? ", the least of whole chunks" : "");
    const char *ratio = "";
    if (least_recent > 0)
        ratio = arena_print(arena, ", %.0f %% of least recently used (nothing less than %.0f %%)",
                            100 * planned / least_recent,
                            floor(100 * solution->bound_bytes / least_recent + 1e-6));
    return arena_print(arena, "Updates on the %s: planned moves %s%s; %s\n", PLACES[place],
                       units_bytes(arena, planned), ratio, gap_words);
}

char *placement_table_text(struct arena *arena, const struct placement_report *report)
{
    static const char *const HEADS[] = {"policy", "updates", "up",        "down",      "NVMe",
                                        "peak",   "step s",  "exposed s", "busiest s", "ahead"};
    const struct placed_plan *plan = &report->places[PLACEMENT_DEVICE_UPDATES].plan;
    struct table table = table_new(arena, "llrrrrrrrr");
    table_row(&table, HEADS);
    add_rows(arena, &table, report, PLACEMENT_DEVICE_UPDATES);
    add_rows(arena, &table, report, PLACEMENT_HOST_UPDATES);
    const char *kinds = "";
    for (int kind = 0; kind < PLACED_KIND_COUNT; kind++) {
        kinds = arena_print(arena, "%s%s%s %s", kinds, kind ? ", " : "",
                            placed_kind_name((enum placed_kind)kind),
                            units_bytes(arena, (double)plan->kind_bytes[kind]));
    }
    double room = (double)(report->device_bytes - plan->work_bytes);
    const char *cut = plan->micro_batches < report->micro_batch_count
                          ? arena_print(arena, " (the first %d of %d micro-batches of a step)",
                                        plan->micro_batches, report->micro_batch_count)
                          : "";
    const char *alone = report->stage_count > 1 ? ", which waits for no other stage" : "";
    const char *times = room > 0 ? arena_print(arena, ", %.2f times what the device has left",
                                               (double)plan->all_bytes / room)
                                 : "";
    return arena_print(
        arena,
        "Stage %d of %s%s%s: %s in %d chunks%s\n  %s\n  device %s, of it %s for work\n"
        "%s%s%s",
        report->stage, report->name, alone, cut, units_bytes(arena, (double)plan->all_bytes),
        plan->problem.chunk_count, times, kinds, units_bytes(arena, (double)report->device_bytes),
        units_bytes(arena, (double)plan->work_bytes),
        placement_report_best(report) ? table_text(&table) : "",
        proof_text(arena, report, PLACEMENT_DEVICE_UPDATES),
        proof_text(arena, report, PLACEMENT_HOST_UPDATES));
}

static void write_place(struct json_writer *writer, const struct placement_report *report,
                        int place)
{
    const struct placed_plan *plan = &report->places[place].plan;
    const struct placement_solution *solution = &report->places[place].solution;
    json_open(writer, NULL, '{');
    json_put_text(writer, "updates", PLACES[place]);
    json_put_bool(writer, "fits", report->places[place].fits);
    json_put_i64(writer, "least_bytes", report->places[place].least_bytes);
    json_put_i64(writer, "home_host_bytes", plan->home_bytes[TIER_HOST]);
    json_put_i64(writer, "home_nvme_bytes", plan->home_bytes[TIER_NVME]);
    if (report->places[place].fits) {
        json_put_f64(writer, "bound_bytes", solution->bound_bytes);
        json_put_f64(writer, "bound_s", solution->bound_s);
        json_put_bool(writer, "proven_optimal", solution->is_optimal);
    }
    json_open(writer, "policies", '[');
    for (int p = 0; p < PLACEMENT_POLICY_COUNT && report->places[place].fits; p++) {
        const struct placed_result *at = &solution->policies[p];
        json_open(writer, NULL, '{');
        json_put_text(writer, "policy", placement_policy_name((enum placement_policy)p));
        json_put_i64(writer, "up_bytes", at->up_bytes);
        json_put_i64(writer, "down_bytes", at->down_bytes);
        json_put_i64(writer, "nvme_bytes", at->nvme_bytes);
        json_put_i64(writer, "peak_bytes", at->peak_bytes);
        json_put_f64(writer, "step_s", at->step_s);
        json_put_f64(writer, "exposed_s", exposed_s(at));
        json_put_f64(writer, "busiest_s", at->link_s);
        json_put_i64(writer, "ahead", at->ahead);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

void placement_report_write(struct json_writer *writer, const struct placement_report *report)
{
    const struct placed_plan *plan = &report->places[PLACEMENT_DEVICE_UPDATES].plan;
    json_open(writer, NULL, '{');
    json_put_i64(writer, "version", 1);
    json_put_i64(writer, "stage", report->stage);
    json_put_i64(writer, "micro_batches", plan->micro_batches);
    json_put_i64(writer, "device_bytes", report->device_bytes);
    json_put_i64(writer, "work_bytes", plan->work_bytes);
    json_put_i64(writer, "parameters_bytes", plan->kind_bytes[PLACED_PARAMETERS]);
    json_put_i64(writer, "gradients_bytes", plan->kind_bytes[PLACED_GRADIENTS]);
    json_put_i64(writer, "optimizer_bytes", plan->kind_bytes[PLACED_OPTIMIZER]);
    json_put_i64(writer, "activations_bytes", plan->kind_bytes[PLACED_ACTIVATIONS]);
    json_put_i64(writer, "chunk_count", plan->problem.chunk_count);
    json_open(writer, "updates", '[');
    for (int i = 0; i < 2; i++)
        write_place(writer, report, i);
    json_close(writer, ']');
    json_close(writer, '}');
}
