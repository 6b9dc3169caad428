#include "reports/whatif/whatif.h"

#include "core/plain.h"
#include "core/units.h"
#include "reports/page/markup.h"
#include "reports/table/plan_table.h"
#include "reports/whatif/scaling.h"

#include <assert.h>
#include <string.h>

static const char *const GOALS[] = {"compare", "cheapest", "fastest", "most_tokens"};
static const char *const STATUSES[] = {"fits", "nothing_fits", "impossible", "stopped"};

static void write_point(struct json_writer *writer, const struct sweep_point *point)
{
    json_put_text(writer, "cluster", point->name);
    for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
        if (axis == SWEEP_PRECISION) {
            json_put_text(writer, sweep_key(SWEEP_PRECISION),
                          precision_name(point->scenario.workload.precision));
        } else {
            json_put_f64(writer, sweep_key((enum sweep_axis)axis), point->at[axis]);
        }
    }
}

static void write_prediction(struct json_writer *writer, const struct whatif *whatif,
                             const struct scenario_outcome *outcome)
{
    const struct prediction *prediction = &outcome->prediction;
    json_put_text(writer, "layout",
                  parallel_text(writer->arena, &outcome->best.parallel, whatif->request->stack));
    json_put_f64(writer, "step_s", prediction->step_s);
    if (prediction->band) {
        json_put_f64(writer, "step_s_low", prediction->step_s_low);
        json_put_f64(writer, "step_s_high", prediction->step_s_high);
    }
    json_put_f64(writer, "tokens_per_s", prediction->tokens_per_s);
    json_put_f64(writer, "tokens_per_s_per_gpu", prediction->tokens_per_s_per_gpu);
    json_put_f64(writer, "mfu_ratio", prediction->mfu_ratio);
    json_put_i64(writer, "reserved_bytes", prediction->reserved_bytes);
}

static void write_row(struct json_writer *writer, const struct whatif *whatif,
                      const struct whatif_row *row)
{
    assert((size_t)row->outcome->status < sizeof STATUSES / sizeof *STATUSES);
    const struct scenario_outcome *outcome = row->outcome;
    json_open(writer, NULL, '{');
    write_point(writer, row->point);
    json_put_text(writer, "status", STATUSES[outcome->status]);
    if (whatif->request->may_idle) json_put_i64(writer, "idle_gpus", outcome->idle_gpus);
    if (outcome->reason) json_put_text(writer, "reason", outcome->reason);
    if (row->fits) {
        write_prediction(writer, whatif, outcome);
        json_put_f64(writer, "goodput_ratio", row->goodput_ratio);
        json_put_f64(writer, "tokens", row->tokens);
        json_put_f64(writer, "time_s", row->time_s);
        json_put_f64(writer, "gpu_hours", row->gpu_hours);
        if (row->high_s > 0) {
            json_put_f64(writer, "time_s_low", row->low_s);
            json_put_f64(writer, "time_s_high", row->high_s);
        }
        if (whatif->is_priced) json_put_f64(writer, "money", row->money);
        json_put_bool(writer, "on_front", row->is_on_front);
        if (row->is_past) json_put_bool(writer, "batch_is_past", true);
        json_put_bool(writer, "makes_it", row->makes_it);
    }
    json_close(writer, '}');
}

static void write_question(struct json_writer *writer, const struct whatif *whatif)
{
    assert((size_t)whatif->goal < sizeof GOALS / sizeof *GOALS);
    const struct whatif_question *question = &whatif->question;
    json_open(writer, "question", '{');
    json_put_text(writer, "goal", GOALS[whatif->goal]);
    if (question->tokens > 0) json_put_f64(writer, "tokens", question->tokens);
    if (question->deadline_s > 0) json_put_f64(writer, "deadline_s", question->deadline_s);
    if (question->budget > 0) json_put_f64(writer, "budget", question->budget);
    if (question->credits > 0) json_put_f64(writer, "credits", question->credits);
    if (whatif->currency) json_put_text(writer, "currency", whatif->currency);
    json_close(writer, '}');
}

static void write_scaling(struct json_writer *writer, const struct scaling *scaling)
{
    json_open(writer, "scaling", '{');
    if (scaling->calibrated.gpus > 0) {
        json_put_i64(writer, "calibrated_gpus", scaling->calibrated.gpus);
        json_put_f64(writer, "calibration_ratio", scaling->ratio);
    }
    json_open(writer, "measured", '[');
    for (int i = 0; i < scaling->measured.count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_i64(writer, "gpus", scaling->measured.items[i].gpus);
        json_put_f64(writer, "tokens_per_s_per_gpu",
                     scaling->measured.items[i].tokens_per_s_per_gpu);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

char *whatif_json_text(struct arena *arena, const struct whatif *whatif,
                       const struct scaling *scaling)
{
    struct json_writer writer = {.arena = arena};
    const struct whatif_row *best = whatif_best(whatif);
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", whatif->request->model->name);
    json_put_text(&writer, "stack", whatif->request->stack->name);
    write_question(&writer, whatif);
    json_put_i64(&writer, "searched_count", whatif->searched_count);
    if (scaling) write_scaling(&writer, scaling);
    if (whatif->is_refined) {
        json_put_i64(&writer, "between_count", whatif->between_count);
        json_put_i64(&writer, "untried_count", whatif->untried_count);
    }
    if (best) json_put_i64(&writer, "answer", best - whatif->rows);  // index of the scenario
    json_put_ints(&writer, "ranking", whatif->order, whatif->fit_count);
    json_open(&writer, "scenarios", '[');
    for (int i = 0; i < whatif->row_count; i++) {
        write_row(&writer, whatif, &whatif->rows[i]);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return arena_print(arena, "%s\n", writer.text);
}

// Commas stand between what is put on a line.
struct lines {
    struct markup out;
    bool has_cell;
};

static void cell_text(struct lines *lines, const char *text)
{
    if (lines->has_cell) markup_put(&lines->out, ",");
    lines->has_cell = true;
    markup_put(&lines->out, plain_csv(lines->out.arena, text));
}

// Numbers as short as they read back, as in JSON.
static void cell(struct lines *lines, double value)
{
    char number[UNITS_NUMBER_BYTES];
    cell_text(lines, units_number(number, value));
}

static void end_line(struct lines *lines)
{
    markup_put(&lines->out, "\n");
    lines->has_cell = false;
}

static const char *const FIGURES[] = {"layout",      "step_s",         "step_s_low",
                                      "step_s_high", "tokens_per_s",   "tokens_per_s_per_gpu",
                                      "mfu_ratio",   "reserved_bytes", "goodput_ratio",
                                      "tokens",      "time_s",         "gpu_hours",
                                      "money",       "currency",       "on_front",
                                      "makes_it"};
enum { FIGURE_COUNT = sizeof FIGURES / sizeof *FIGURES };

static void put_figures(struct lines *lines, const struct whatif *whatif,
                        const struct whatif_row *row)
{
    assert(row->fits);
    const struct prediction *prediction = &row->outcome->prediction;
    cell_text(lines, parallel_text(lines->out.arena, &row->outcome->best.parallel,
                                   whatif->request->stack));
    const double figures[] = {prediction->step_s,
                              prediction->step_s_low,
                              prediction->step_s_high,
                              prediction->tokens_per_s,
                              prediction->tokens_per_s_per_gpu,
                              prediction->mfu_ratio,
                              (double)prediction->reserved_bytes,
                              row->goodput_ratio,
                              row->tokens,
                              row->time_s,
                              row->gpu_hours};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        cell(lines, figures[i]);
    }
    if (whatif->is_priced) {
        cell(lines, row->money);
        cell_text(lines, whatif->currency);
    } else {
        cell_text(lines, "");
        cell_text(lines, "");
    }
    cell_text(lines, row->is_on_front ? "true" : "false");
    cell_text(lines, row->makes_it ? "true" : "false");
}

char *whatif_csv_text(struct arena *arena, const struct whatif *whatif)
{
    struct lines lines = {.out = {.arena = arena}};
    cell_text(&lines, "cluster");
    for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
        cell_text(&lines, sweep_key((enum sweep_axis)axis));
    }
    if (whatif->request->may_idle) cell_text(&lines, "idle_gpus");
    cell_text(&lines, "status");
    cell_text(&lines, "reason");
    for (int i = 0; i < FIGURE_COUNT; i++) {
        cell_text(&lines, FIGURES[i]);
    }
    end_line(&lines);
    for (int r = 0; r < whatif->row_count; r++) {
        const struct whatif_row *row = &whatif->rows[r];
        cell_text(&lines, row->point->name);
        for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
            if (axis == SWEEP_PRECISION) {
                cell_text(&lines, precision_name(row->point->scenario.workload.precision));
            } else {
                cell(&lines, row->point->at[axis]);
            }
        }
        if (whatif->request->may_idle) cell(&lines, row->outcome->idle_gpus);
        cell_text(&lines, STATUSES[row->outcome->status]);
        cell_text(&lines, row->outcome->reason ? row->outcome->reason : "");
        if (row->fits) {
            put_figures(&lines, whatif, row);
        } else {
            for (int i = 0; i < FIGURE_COUNT; i++) {
                cell_text(&lines, "");
            }
        }
        end_line(&lines);
    }
    return lines.out.text;
}
