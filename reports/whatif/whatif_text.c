#include "reports/whatif/whatif_text.h"

#include "core/plain.h"
#include "core/units.h"
#include "planner/batch.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { REASON_MAX = 4 };

struct whatif_unit whatif_unit(const struct whatif *whatif)
{
    static const double HOUR_S = 3600, DAY_S = 86400;
    double most_s = 0;
    for (int i = 0; i < whatif->fit_count; i++) {
        most_s = fmax(most_s, whatif->rows[whatif->order[i]].time_s);
    }
    if (most_s >= 10 * DAY_S) return (struct whatif_unit){"days", DAY_S};
    if (most_s >= 10 * HOUR_S) return (struct whatif_unit){"hours", HOUR_S};
    return (struct whatif_unit){"seconds", 1};
}

static const char *cost_text(struct arena *arena, const struct whatif *whatif,
                             const struct whatif_row *row)
{
    assert(row->fits && row->cost >= 0);
    return arena_print(arena, "%s %s", units_count(arena, row->cost),
                       whatif->is_priced ? whatif->currency : "GPU-hours");
}

// What is swept is not among it.
const char *whatif_fixed_text(struct arena *arena, const struct whatif *whatif)
{
    const struct sweep *sweep = whatif->sweep;
    const struct sweep_point *first = whatif->row_count > 0 ? whatif->rows[0].point : NULL;
    const char *text = "";
    for (int axis = SWEEP_SEQ_LEN; first && axis <= SWEEP_PRECISION; axis++) {
        bool follows = axis == SWEEP_GLOBAL_BATCH &&
                       (sweep->sequences_per_gpu > 0 ||
                        (sweep->batch_tokens > 0 && sweep->axes[SWEEP_SEQ_LEN].count > 1));
        if (sweep->axes[axis].count > 1 || follows) continue;
        const char *value = sweep_value_text(arena, (enum sweep_axis)axis, first->at[axis]);
        const char *head = axis == SWEEP_PRECISION ? "" : sweep_head((enum sweep_axis)axis);
        text = arena_print(arena, "%s, %s%s%s", text, head, *head ? " " : "", value);
    }
    return text;
}

const char *whatif_head_text(struct arena *arena, const struct whatif *whatif)
{
    assert(whatif->searched_count <= whatif->row_count);
    const char *shared = "";
    if (whatif->searched_count < whatif->row_count) {
        shared =
            arena_print(arena, ", %s of them searched", units_count(arena, whatif->searched_count));
    }
    const char *what =
        whatif->goal == WHATIF_MOST_TOKENS
            ? ""
            : arena_print(arena, ", time and %s of %s tokens",
                          whatif->is_priced ? "money" : "GPU-hours",
                          units_count(arena, whatif->question.tokens > 0 ? whatif->question.tokens
                                                                         : WHATIF_UNIT_TOKENS));
    return arena_print(
        arena, "%s%s%s: %s scenario%s%s", model_config_text(arena, whatif->request->model),
        whatif_fixed_text(arena, whatif), what, units_count(arena, whatif->row_count),
        whatif->row_count == 1 ? "" : "s", shared);
}

// The first few rows of a status, each with its reason.
static const char *reasons_text(struct arena *arena, const struct whatif *whatif,
                                enum scenario_status status, const char *what)
{
    assert(whatif->between_count <= whatif->row_count);
    const char *text = "";
    int count = 0, given_count = whatif->row_count - whatif->between_count;
    for (int i = 0; i < given_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (row->outcome->status != status) continue;
        if (count++ >= REASON_MAX) continue;
        text = arena_print(arena, "%s     %s: %s\n", text, row->point->scenario.label,
                           row->outcome->reason);
    }
    if (count == 0) return "";
    if (count > REASON_MAX) {
        text = arena_print(arena, "%s     ... and %d more\n", text, count - REASON_MAX);
    }
    return arena_print(arena, "   %d of %d %s\n%s", count, given_count, what, text);
}

const char *whatif_rejected_text(struct arena *arena, const struct whatif *whatif)
{
    return arena_print(arena, "%s%s%s",
                       reasons_text(arena, whatif, SCENARIO_NOTHING_FITS, "do not fit:"),
                       reasons_text(arena, whatif, SCENARIO_IMPOSSIBLE, "are impossible:"),
                       reasons_text(arena, whatif, SCENARIO_STOPPED, "were not searched:"));
}

static const char *limits_text(struct arena *arena, const struct whatif *whatif)
{
    const struct whatif_question *question = &whatif->question;
    const char *text = "";
    if (question->deadline_s > 0) {
        text = arena_print(arena, "within %s", units_duration(arena, question->deadline_s));
    }
    if (question->budget > 0) {
        text = arena_print(arena, "%s%sfor %s %s", text, *text ? " and " : "",
                           units_count(arena, question->budget), whatif->currency);
    }
    if (question->credits > 0) {
        text = arena_print(arena, "%s (after %s of credits)", text,
                           units_count(arena, question->credits));
    }
    return text;
}

// Layouts may be long: they stand on a line of their own.
static const char *layout_line(struct arena *arena, const struct whatif *whatif,
                               const struct whatif_row *row)
{
    return arena_print(arena, "      %s\n",
                       parallel_text(arena, &row->outcome->best.parallel, whatif->request->stack));
}

static const struct whatif_row *extreme(const struct whatif *whatif, bool by_cost)
{
    const struct whatif_row *best = NULL;
    for (int i = 0; i < whatif->fit_count; i++) {
        const struct whatif_row *row = &whatif->rows[whatif->order[i]];
        double value = by_cost ? row->cost : row->time_s;
        if (row->is_past) continue;
        if (!best || value < (by_cost ? best->cost : best->time_s)) best = row;
    }
    return best;
}

// How sure: the time at the slow end of the band.
static const char *band_text_of(struct arena *arena, const struct whatif *whatif,
                                const struct whatif_row *row)
{
    if (row->high_s <= 0) return "";
    const char *verdict = "";
    if (whatif->question.deadline_s > 0 && whatif->question.tokens > 0) {
        verdict = row->high_s <= whatif->question.deadline_s ? ", in time either way"
                                                             : ", which may be too late";
    }
    return arena_print(arena, "      Nine runs in ten should take %s to %s%s\n",
                       units_duration(arena, row->low_s), units_duration(arena, row->high_s),
                       verdict);
}

static const char *compare_text(struct arena *arena, const struct whatif *whatif)
{
    const struct whatif_row *fast = extreme(whatif, false), *cheap = extreme(whatif, true);
    const char *first =
        arena_print(arena, "Fastest: %s: %s, %s\n%s%s", fast->point->scenario.label,
                    units_duration(arena, fast->time_s), cost_text(arena, whatif, fast),
                    layout_line(arena, whatif, fast), band_text_of(arena, whatif, fast));
    assert(cheap && cheap->cost <= fast->cost && fast->time_s <= cheap->time_s);
    if (fast == cheap) return first;
    return arena_print(arena,
                       "%sCheapest: %s: %s, %s (%.2f times as long for %.2f times the cost)\n%s",
                       first, cheap->point->scenario.label, units_duration(arena, cheap->time_s),
                       cost_text(arena, whatif, cheap), cheap->time_s / fast->time_s,
                       cheap->cost / fast->cost, layout_line(arena, whatif, cheap));
}

static const char *missed_text(struct arena *arena, const struct whatif *whatif)
{
    assert(whatif->fit_count > 0 && whatif->made_count == 0);
    const struct whatif_row *near = &whatif->rows[whatif->order[0]];
    return arena_print(arena, "No: none of them can train on %s tokens %s\nNearest: %s: %s, %s\n%s",
                       units_count(arena, whatif->question.tokens), limits_text(arena, whatif),
                       near->point->scenario.label, units_duration(arena, near->time_s),
                       cost_text(arena, whatif, near), layout_line(arena, whatif, near));
}

// Sizes that were listed are all that was asked; those of a range stand for what lies between, and
// offers, which have no word of the command line, say all that there is.
static const char *of_these(const struct whatif *whatif)
{
    bool is_all = whatif->is_refined || whatif->row_count < 2 || !whatif->sweep->words;
    return is_all ? "" : "of these ";
}

const char *whatif_between_text(struct arena *arena, const struct whatif *whatif)
{
    if (!whatif->is_refined) return "";
    if (whatif->between_count == 0 && whatif->untried_count == 0)
        return "   No size between these can be better\n";
    const char *left = whatif->untried_count == 0
                           ? "no other size between them can be better"
                           : arena_print(arena, "%s more may be better and were not tried",
                                         units_count(arena, whatif->untried_count));
    int none_count = 0;
    for (int i = whatif->row_count - whatif->between_count; i < whatif->row_count; i++) {
        none_count += !whatif->rows[i].fits;
    }
    const char *none =
        none_count == 0 ? ""
                        : arena_print(arena, " (%d have no plan that can be better)", none_count);
    return arena_print(arena, "   %d of them lie between the sizes given%s; %s\n",
                       whatif->between_count, none, left);
}

const char *whatif_past_text(struct arena *arena, const struct whatif *whatif)
{
    const struct workload *largest = NULL;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct workload *workload = &whatif->rows[i].point->scenario.workload;
        if (!whatif->rows[i].is_past) continue;
        if (!largest || workload->global_batch > largest->global_batch) largest = workload;
    }
    if (!largest) return "";
    return arena_print(arena,
                       "   %d of %d are not the answer unless --global-batch asks for it: %s\n",
                       whatif->past_count, whatif->row_count, batch_warning(arena, largest));
}

const char *whatif_answer_text(struct arena *arena, const struct whatif *whatif)
{
    const struct whatif_row *best = whatif_best(whatif);
    if (whatif->fit_count == 0) return "Nothing fits.\n";
    if (whatif->past_count == whatif->fit_count) return "No: the batch of all is too large.\n";
    if (whatif->goal == WHATIF_COMPARE) return compare_text(arena, whatif);
    if (!best) return missed_text(arena, whatif);
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        return arena_print(arena, "Most tokens %s%s: %s by %s: %s, %s\n%s", of_these(whatif),
                           limits_text(arena, whatif), units_count(arena, best->tokens),
                           best->point->scenario.label, units_duration(arena, best->time_s),
                           cost_text(arena, whatif, best), layout_line(arena, whatif, best));
    }
    return arena_print(arena, "%s %s%s: %s: %s, %s, goodput %s\n%s%s",
                       whatif->goal == WHATIF_CHEAPEST ? "Cheapest" : "Fastest", of_these(whatif),
                       limits_text(arena, whatif), best->point->scenario.label,
                       units_duration(arena, best->time_s), cost_text(arena, whatif, best),
                       units_ratio(arena, best->goodput_ratio), layout_line(arena, whatif, best),
                       band_text_of(arena, whatif, best));
}

// " --nodes 4 --gpus 30": how `plan` cuts the cluster to the row's.
static const char *size_text(struct arena *arena, const struct cluster *named,
                             const struct cluster *used)
{
    const char *nodes = "";
    int64_t gpu_count = named->rank_count;
    if (named->node_group_count == 1 && used->node_count != named->node_count) {
        nodes = arena_print(arena, " --nodes %d", used->node_count);
        gpu_count = (int64_t)used->node_count * named->nodes[0].gpus;
    }
    if (used->rank_count == gpu_count) return nodes;
    return arena_print(arena, "%s --gpus %d", nodes, used->rank_count);
}

char *whatif_cluster_text(struct arena *arena, const struct whatif *whatif)
{
    const struct whatif_row *best = whatif_best(whatif);
    const struct sweep *sweep = whatif->sweep;
    if (!best || (sweep->words && sweep->words[best->point->cluster])) return NULL;
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, best->point->scenario.cluster);
    return arena_print(arena, "%s\n", writer.text);
}

// " --price-per-gpu-hour 2.5 --currency EUR" where that is not what the cluster's file says; what
// is written for an offer holds its price.
static const char *price_option(struct arena *arena, const struct whatif_words *words,
                                const struct sweep_point *point)
{
    const struct price *price = &point->scenario.cluster->price;
    const struct price *file = words->prices ? &words->prices[point->cluster] : price;
    if (price->per_gpu_hour <= 0) return "";
    if (price->per_gpu_hour == file->per_gpu_hour && strcmp(price->currency, file->currency) == 0)
        return "";
    char number[UNITS_NUMBER_BYTES];
    bool is_default = strcmp(price->currency, "USD") == 0;
    return arena_print(arena, " --price-per-gpu-hour %s%s%s",
                       units_number(number, price->per_gpu_hour), is_default ? "" : " --currency ",
                       is_default ? "" : price->currency);
}

const char *whatif_next_text(struct arena *arena, const struct whatif *whatif,
                             const struct whatif_words *words)
{
    const struct sweep *sweep = whatif->sweep;
    const struct whatif_row *best = whatif_best(whatif);
    if (!best) return "";
    const struct sweep_point *point = best->point;
    const struct workload *workload = &point->scenario.workload;
    for (int axis = SWEEP_BANDWIDTH_FACTOR; axis < SWEEP_PRICE_FACTOR; axis++) {
        if (point->at[axis] != 1) return "";  // a cluster that no file describes
    }
    const char *cluster = sweep->words ? sweep->words[point->cluster] : NULL;
    const char *run = "";
    if (whatif->goal == WHATIF_MOST_TOKENS) {
        char number[UNITS_NUMBER_BYTES];
        run = arena_print(arena, " --tokens %s", units_number(number, best->tokens));
    }
    if (!cluster && !words->folder) return "Next: the same with -o DIR writes its cluster file\n";
    const char *where =
        cluster ? arena_print(
                      arena, "%s%s", plain_shell(arena, cluster),
                      size_text(arena, sweep->clusters[point->cluster], point->scenario.cluster))
                : plain_shell(arena, arena_print(arena, "%s/cluster.json", words->folder));
    return arena_print(arena,
                       "Next: meshwright plan %s %s --seq-len %lld --global-batch %lld "
                       "--precision %s%s%s%s\n",
                       plain_shell(arena, words->model), where, (long long)workload->seq_len,
                       (long long)workload->global_batch, precision_name(workload->precision),
                       words->options, run, price_option(arena, words, point));
}

static const char *device_of(const struct whatif_row *row)
{
    return row->point->scenario.cluster->nodes[0].device->name;
}

// The row of this device that trains most for its money; NULL: it is the device of a row before
// `first`, or none of it fits.
static const struct whatif_row *least_of(const struct whatif *whatif, int first)
{
    assert(first >= 0 && first < whatif->row_count);
    const char *name = device_of(&whatif->rows[first]);
    const struct whatif_row *least = NULL;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (strcmp(device_of(row), name) != 0) continue;
        if (i < first) return NULL;
        if (row->fits && !row->is_past && (!least || row->per_billion < least->per_billion))
            least = row;
    }
    return least;
}

const char *whatif_devices_text(struct arena *arena, const struct whatif *whatif)
{
    const char *text = "";
    int device_count = 0;
    for (int i = 0; whatif->is_priced && i < whatif->row_count; i++) {
        const struct whatif_row *least = least_of(whatif, i);
        if (!least) continue;
        text = arena_print(arena, "%s%s%s on %s", text, device_count++ ? ", " : "",
                           units_count(arena, least->per_billion), device_of(least));
    }
    if (device_count < 2) return "";
    return arena_print(arena, "Least %s per billion tokens: %s\n", whatif->currency, text);
}
