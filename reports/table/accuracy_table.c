#include "reports/table/accuracy_table.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *inside(struct arena *arena, const struct score *score)
{
    return score->banded_count ? units_percent(arena, score->covered_ratio) : "-";
}

// A family without rows left out was not fitted to.
static const char *left_out_mape(struct arena *arena, const struct score *score)
{
    return score->row_count ? units_percent(arena, score->mape) : "-";
}

static void score_row(struct table *table, const char *name, const struct score *score,
                      const char *last)
{
    struct arena *arena = table->arena;
    const char *rows = arena_print(arena, "%d", score->row_count);
    const char *failed =
        score->failure_count ? arena_print(arena, "%d", score->failure_count) : "-";
    if (score->row_count == 0) {
        table_row(table, (const char *[]){name, rows, failed, "-", "-", "-", "-", "-", "-", last});
        return;
    }
    table_row(table, (const char *[]){
                         name, rows, failed, units_percent(arena, score->mape),
                         units_percent(arena, score->median),
                         units_signed_percent(arena, score->bias), units_percent(arena, score->p90),
                         units_percent(arena, score->worst), inside(arena, score), last});
}

static struct table score_table(struct arena *arena, const char *name, const char *last)
{
    struct table table = table_new(arena, "lrrrrrrrrr");
    table_row(&table, (const char *[]){name, "rows", "failed", "MAPE", "median", "bias", "p90",
                                       "worst", "inside", last});
    return table;
}

static const char *families_text(struct arena *arena, const struct accuracy *accuracy)
{
    struct table table = score_table(arena, arena_print(arena, "tier %s", accuracy->tiers),
                                     accuracy->has_left_out ? "left out" : "");
    for (int i = 0; i < accuracy->family_count; i++) {
        const struct accuracy_line *line = &accuracy->families[i];
        score_row(&table, line->name, &line->now,
                  accuracy->has_left_out ? left_out_mape(arena, &line->left_out) : "");
    }
    return table_text(&table);
}

static const char *groups_text(struct arena *arena, const struct accuracy *accuracy)
{
    struct table table = score_table(arena, "", "");
    for (int i = 0; i < ACCURACY_GROUP_COUNT; i++) {
        const struct accuracy_line *line = &accuracy->groups[i];
        if (line->now.row_count + line->now.failure_count == 0) continue;
        score_row(&table, line->name, &line->now, "");
        if (line->left_out.row_count) score_row(&table, "  left out", &line->left_out, "");
    }
    for (int i = 0; i < ACCURACY_TIER_COUNT; i++) {
        const struct accuracy_line *line = &accuracy->tier_lines[i];
        bool shown = strchr(accuracy->tiers, 'A' + i) != NULL;
        if (shown || line->now.row_count + line->now.failure_count == 0) continue;
        score_row(&table, line->name, &line->now, "");
    }
    return table_text(&table);
}

// Of rows that nothing was fitted to: the figure to go by, first, and then by software.
static const char *blind_text(struct arena *arena, const struct accuracy *accuracy)
{
    const struct score *all = &accuracy->groups[ACCURACY_ALL].now;
    if (all->row_count == 0) return "Blind: no row could be scored\n\n";
    struct table table = score_table(arena, "software", "");
    for (int i = 0; i < accuracy->software_count; i++) {
        score_row(&table, accuracy->softwares[i].name, &accuracy->softwares[i].now, "");
    }
    return arena_print(
        arena, "Blind (no constant has seen these rows): MAPE %s, median %s, inside %s\n\n%s\n",
        units_percent(arena, all->mape), units_percent(arena, all->median), inside(arena, all),
        table_text(&table));
}

// "3 rows", "1 sweep"
static const char *counted(struct arena *arena, int count, const char *what)
{
    return arena_print(arena, "%s %s%s", units_count(arena, count), what, count == 1 ? "" : "s");
}

static const char *memory_line(struct arena *arena, const char *name, const struct score *score)
{
    if (score->row_count == 0) return "";
    const char *under = score->least < 0 ? units_signed_percent(arena, score->least) : "none";
    const char *over = score->most > 0 ? units_signed_percent(arena, score->most) : "none";
    return arena_print(arena, "%s: %s, MAPE %s, bias %s, worst under %s, worst over %s\n", name,
                       counted(arena, score->row_count, "row"), units_percent(arena, score->mape),
                       units_signed_percent(arena, score->bias), under, over);
}

static const char *ranking_line(struct arena *arena, const char *name,
                                const struct ranking_score *ranking)
{
    assert(ranking->right_count <= ranking->pair_count);
    if (ranking->sweep_count == 0) return "";
    double right = ranking->pair_count ? (double)ranking->right_count / ranking->pair_count : 1;
    return arena_print(arena,
                       "%s: %s, %s of %s in the right order (%s); regret of the chosen plan\n"
                       "      %s mean, %s worst\n",
                       name, counted(arena, ranking->sweep_count, "sweep"),
                       units_count(arena, ranking->right_count),
                       counted(arena, ranking->pair_count, "pair"), units_percent(arena, right),
                       units_percent(arena, ranking->regret_mean),
                       units_percent(arena, ranking->regret_worst));
}

// Where the runs are of several stacks, each apart.
static const char *allocated_text(struct arena *arena, const struct accuracy *accuracy)
{
    const char *text = memory_line(arena, "Allocated memory", &accuracy->allocated);
    for (int i = 0; i < accuracy->allocated_stack_count && accuracy->allocated_stack_count > 1;
         i++) {
        const struct accuracy_line *line = &accuracy->allocated_stacks[i];
        text =
            arena_print(arena, "%s%s", text,
                        memory_line(arena, arena_print(arena, "  of %s", line->name), &line->now));
    }
    return text;
}

// Failures that were not of memory, where there are any.
static const char *reasons_text(struct arena *arena, const struct accuracy_fits *fits)
{
    if (fits->short_count == 0 || fits->short_count == fits->failed_count) return "";
    return arena_print(
        arena,
        "  of these %s the software refuses by rules of its own (%s here as well), %s held no more "
        "than a run that ran; of the other %s, which memory may explain, %s are said not to fit\n",
        units_count(arena, fits->refused_count), units_count(arena, fits->refused_unfit_count),
        units_count(arena, fits->outdone_count), units_count(arena, fits->short_count),
        units_percent(arena, (double)fits->short_unfit_count / fits->short_count));
}

// Every published run fitted its devices.
static const char *other_fits_text(struct arena *arena, const struct accuracy_fits *fits)
{
    if (fits->other_count == 0) return "";
    return arena_print(arena,
                       "Fits: of %s of tier A, of families that publish no failures, %s are said "
                       "to fit\n",
                       counted(arena, fits->other_count, "run"),
                       units_percent(arena, (double)fits->other_fit_count / fits->other_count));
}

static const char *fits_text(struct arena *arena, const struct accuracy_fits *fits)
{
    assert(fits->ran_fit_count <= fits->ran_count &&
           fits->failed_unfit_count <= fits->failed_count);
    if (fits->failed_count == 0 || fits->ran_count == 0) return other_fits_text(arena, fits);
    return arena_print(arena,
                       "Fits or not: of %s that ran %s are said to fit, of %s that failed %s are "
                       "said not to\n%s%s",
                       counted(arena, fits->ran_count, "run"),
                       units_percent(arena, (double)fits->ran_fit_count / fits->ran_count),
                       units_count(arena, fits->failed_count),
                       units_percent(arena, (double)fits->failed_unfit_count / fits->failed_count),
                       reasons_text(arena, fits), other_fits_text(arena, fits));
}

static const char *adapters_text(struct arena *arena, const struct accuracy *accuracy)
{
    if (accuracy->adapter_count == 0) return "";
    return arena_print(
        arena,
        "Not asked: %s that train%s adapters beside weights of 4 or 8 bits (QLoRA), which are not "
        "modelled\n",
        counted(arena, accuracy->adapter_count, "row"), accuracy->adapter_count == 1 ? "s" : "");
}

static const char *failures_text(struct arena *arena, const struct accuracy *accuracy)
{
    const char *text = "";
    for (int i = 0; i < accuracy->trials->count; i++) {
        const struct trial *trial = &accuracy->trials->items[i];
        if (trial->answered || trial->row->has_narrow_base || trial->row->gave_nothing) continue;
        text = arena_print(arena, "%sFailed: %s (tier %c): %s\n", text, trial->row->id,
                           trial->row->tier, trial->why_not);
    }
    return text;
}

char *accuracy_table_text(struct arena *arena, const struct accuracy *accuracy)
{
    const char *means =
        arena_print(arena, "Mean over families (%d): MAPE %s", accuracy->family_count,
                    units_percent(arena, accuracy->family_mape));
    if (accuracy->has_left_out) {
        means = arena_print(arena, "%s, left out %s", means,
                            units_percent(arena, accuracy->left_out_family_mape));
    }
    const char *first = accuracy->is_blind ? blind_text(arena, accuracy) : "";
    return arena_print(arena, "%s%s\n%s\n%s\n%s%s%s%s%s%s%s", first, families_text(arena, accuracy),
                       groups_text(arena, accuracy), means, allocated_text(arena, accuracy),
                       memory_line(arena, "Reserved memory", &accuracy->reserved),
                       ranking_line(arena, "Ranking", &accuracy->ranking),
                       ranking_line(arena, "Ranking, left out", &accuracy->left_out_ranking),
                       fits_text(arena, &accuracy->fits), adapters_text(arena, accuracy),
                       failures_text(arena, accuracy));
}

static double error_of(const struct trial *trial)
{
    assert(trial->row->step_s > 0);
    return trial->prediction.step_s / trial->row->step_s - 1;
}

static int compare_errors(const void *a, const void *b)
{
    const struct trial *const *left = a, *const *right = b;
    double difference = fabs(error_of(*right)) - fabs(error_of(*left));
    if (difference != 0) return difference > 0 ? 1 : -1;
    return (*left)->row->line - (*right)->row->line;
}

char *accuracy_worst_text(struct arena *arena, const struct accuracy *accuracy, int count)
{
    assert(count >= 0);
    const struct trials *trials = accuracy->trials;
    const struct trial **sorted = ARENA_NEW(arena, const struct trial *, trials->count);
    int used = 0;
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        bool shown = trial->answered && trial->row->step_s > 0;
        if (shown && strchr(accuracy->tiers, trial->row->tier)) sorted[used++] = trial;
    }
    qsort(sorted, (size_t)used, sizeof *sorted, compare_errors);
    struct table table = table_new(arena, "rrrll");
    table_row(&table, (const char *[]){"error", "predicted", "measured", "row", "plan"});
    for (int i = 0; i < used && i < count; i++) {
        const struct trial *trial = sorted[i];
        table_row(&table, (const char *[]){units_signed_percent(arena, error_of(trial)),
                                           units_seconds(arena, trial->prediction.step_s),
                                           units_seconds(arena, trial->row->step_s), trial->row->id,
                                           parallel_text(arena, &trial->parallel, trial->stack)});
    }
    return table_text(&table);
}

static const char *tera(struct arena *arena, double flop_per_s)
{
    return arena_print(arena, "%.0f", flop_per_s / 1e12);
}

char *accuracy_rates_text(struct arena *arena, const struct trials *trials)
{
    struct table table = table_new(arena, "lrrrrr");
    table_row(&table, (const char *[]){"TFLOP/s per GPU", "GPUs", "published", "predicted", "error",
                                       "our count"});
    for (int i = 0; i < trials->count; i++) {
        const struct trial *trial = &trials->items[i];
        const struct row *row = trial->row;
        if (row->flop_per_s_per_gpu <= 0 || row->step_s <= 0) continue;
        const char *gpus = arena_print(arena, "%d", row->facts.gpus);
        const char *published = tera(arena, row->flop_per_s_per_gpu);
        if (!trial->answered) {
            table_row(&table, (const char *[]){row->id, gpus, published, "-", "failed", "-"});
            continue;
        }
        // The same flops in the predicted time.
        double ratio = row->step_s / trial->prediction.step_s;
        table_row(&table,
                  (const char *[]){row->id, gpus, published,
                                   tera(arena, row->flop_per_s_per_gpu * ratio),
                                   units_signed_percent(arena, ratio - 1),
                                   tera(arena, trial->prediction.hardware_flop_per_s_per_gpu)});
    }
    return table_text(&table);
}
