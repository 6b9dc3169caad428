#include "reports/table/fit_table.h"
#include "core/json_write.h"
#include "core/table.h"
#include "core/units.h"
#include "validation/score.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The predictions of a row, in the order of the columns.
enum column { COLUMN_PRIOR, COLUMN_FITTED, COLUMN_LEFT_OUT, COLUMN_COUNT = 2 + FIT_LEAVE_COUNT };
static const char *const COLUMN_NAMES[COLUMN_COUNT] = {"priors",     "in sample",  "family out",
                                                       "source out", "device out", "software out"};

static double predicted_s(const struct fit_prediction *prediction, int column)
{
    assert(column >= 0 && column < COLUMN_COUNT);
    if (column == COLUMN_PRIOR) return prediction->prior_s;
    if (column == COLUMN_FITTED) return prediction->step_s;
    return prediction->left_out_s[column - COLUMN_LEFT_OUT];
}

// What was not asked for has no column.
static bool has_column(const struct fit_result *result, int column)
{
    return result->prediction_count > 0 && predicted_s(&result->predictions[0], column) > 0;
}

struct group {
    const char *name;
    const char *family;  // NULL: all
    unsigned kinds;      // bit per enum row_kind
    bool fitted;
};

static bool is_in(const struct group *group, const struct fit_prediction *prediction)
{
    if (prediction->fitted != group->fitted) return false;
    if (group->family && strcmp(group->family, prediction->row->family) != 0) return false;
    return group->kinds >> prediction->row->kind & 1;
}

static struct score score_group(struct arena *arena, const struct fit_result *result,
                                const struct group *group, int column)
{
    struct estimate *estimates = ARENA_NEW(arena, struct estimate, result->prediction_count);
    int count = 0;
    for (int i = 0; i < result->prediction_count; i++) {
        const struct fit_prediction *prediction = &result->predictions[i];
        if (!is_in(group, prediction)) continue;
        estimates[count++] = (struct estimate){.measured = prediction->row->step_s,
                                               .predicted = predicted_s(prediction, column)};
    }
    assert(count <= result->prediction_count);
    return score_of(estimates, count);
}

char *fit_rows_text(struct arena *arena, const struct fit_result *result)
{
    assert(result->row_count >= result->family_count);
    return arena_print(arena, "%d rows of %d %s", result->row_count, result->family_count,
                       result->family_count == 1 ? "family" : "families");
}

// Equal moves stand in the order of the constants.
static int compare_moved(const void *a, const void *b)
{
    const struct fit_constant *const *left = a, *const *right = b;
    double difference = fabs((*right)->moved) - fabs((*left)->moved);
    if (difference != 0) return difference > 0 ? 1 : -1;
    return *left < *right ? -1 : 1;
}

char *fit_constants_text(struct arena *arena, const struct fit_result *result)
{
    const struct fit_constant **sorted =
        ARENA_NEW(arena, const struct fit_constant *, result->constant_count);
    for (int i = 0; i < result->constant_count; i++) {
        sorted[i] = &result->constants[i];
    }
    qsort(sorted, (size_t)result->constant_count, sizeof(struct fit_constant *), compare_moved);
    struct table table = table_new(arena, "llrrrrl");
    table_row(&table,
              (const char *[]){"of", "constant", "prior", "fitted", "spreads", "rows", "prior is"});
    for (int i = 0; i < result->constant_count; i++) {
        const struct fit_constant *constant = sorted[i];
        const char *kind = provenance_kind_name(constant->prior_kind);
        table_row(&table,
                  (const char *[]){constant->owner_name, constant->key,
                                   arena_print(arena, "%.4g", constant->prior),
                                   arena_print(arena, "%.4g", constant->value),
                                   arena_print(arena, "%+.1f", constant->moved),
                                   arena_print(arena, "%d", constant->row_count),
                                   constant->at_bound ? arena_print(arena, "%s, at its bound", kind)
                                                      : kind});
    }
    return table_text(&table);
}

static const char *families_text(struct arena *arena, const struct fit_result *result)
{
    struct table table = table_new(arena, "lrrrrrrr");
    const char *cells[COLUMN_COUNT + 3] = {"MAPE of the fitted rows", "rows"};
    for (int i = 0; i < COLUMN_COUNT; i++) {
        cells[i + 2] = has_column(result, i) ? COLUMN_NAMES[i] : "";
    }
    cells[COLUMN_COUNT + 2] = "its bias";
    table_row(&table, cells);
    int last = has_column(result, COLUMN_LEFT_OUT) ? COLUMN_LEFT_OUT : COLUMN_FITTED;
    for (int i = 0; i < result->prediction_count; i++) {
        const struct fit_prediction *prediction = &result->predictions[i];
        struct group group = {.family = prediction->row->family, .kinds = ~0u, .fitted = true};
        bool is_first = prediction->fitted;
        for (int k = 0; k < i && is_first; k++) {
            is_first = !is_in(&group, &result->predictions[k]);
        }
        if (!is_first) continue;
        cells[0] = prediction->row->family;
        for (int column = 0; column < COLUMN_COUNT; column++) {
            cells[column + 2] = "";
            if (!has_column(result, column)) continue;
            struct score score = score_group(arena, result, &group, column);
            cells[1] = arena_print(arena, "%d", score.row_count);
            cells[column + 2] = units_percent(arena, score.mape);
            if (column == last) cells[COLUMN_COUNT + 2] = units_signed_percent(arena, score.bias);
        }
        table_row(&table, cells);
    }
    return table_text(&table);
}

static void group_rows(struct table *table, const struct fit_result *result,
                       const struct group *group)
{
    struct arena *arena = table->arena;
    for (int column = 0; column < COLUMN_COUNT; column++) {
        struct score score = score_group(arena, result, group, column);
        if (!has_column(result, column) || score.row_count == 0) continue;
        table_row(table,
                  (const char *[]){
                      column == 0 ? group->name : "", COLUMN_NAMES[column],
                      arena_print(arena, "%d", score.row_count), units_percent(arena, score.mape),
                      units_percent(arena, score.median), units_signed_percent(arena, score.bias),
                      units_percent(arena, score.p90), units_percent(arena, score.worst)});
    }
}

char *fit_errors_text(struct arena *arena, const struct fit_result *result)
{
    static const struct group GROUPS[] = {
        {"dense, 16 bits", NULL, 1u << ROW_KIND_DENSE, true},
        {"dense, fp8 and fp4", NULL, 1u << ROW_KIND_DENSE_LOW_PRECISION, true},
        {"all dense", NULL, 1u << ROW_KIND_DENSE | 1u << ROW_KIND_DENSE_LOW_PRECISION, true},
        {"mixtures of experts", NULL, 1u << ROW_KIND_MIXTURE, true},
        {"dense, not fitted", NULL, 1u << ROW_KIND_DENSE | 1u << ROW_KIND_DENSE_LOW_PRECISION,
         false},
        {"mixtures, not fitted", NULL, 1u << ROW_KIND_MIXTURE, false},
    };
    struct table table = table_new(arena, "llrrrrrr");
    table_row(&table, (const char *[]){"", "", "rows", "MAPE", "median", "bias", "p90", "worst"});
    for (size_t i = 0; i < sizeof GROUPS / sizeof *GROUPS; i++) {
        group_rows(&table, result, &GROUPS[i]);
    }
    return arena_print(arena, "%s\n%s", families_text(arena, result), table_text(&table));
}

char *fit_coverage_text(struct arena *arena, const struct residuals *residuals,
                        const struct band *left_out)
{
    struct table table = table_new(arena, "lrrrr");
    table_row(&table, (const char *[]){"90 % bands of left-out families", "rows", "inside",
                                       "mean of families", "high / low"});
    for (int i = 0; i <= ROW_KIND_COUNT; i++) {
        bool is_all = i == ROW_KIND_COUNT;
        const char *kind = is_all ? NULL : row_kind_name((enum row_kind)i);
        struct band_coverage coverage = bands_coverage(residuals, left_out, kind);
        if (coverage.row_count == 0) continue;
        table_row(&table, (const char *[]){is_all ? "all" : kind,
                                           arena_print(arena, "%d", coverage.row_count),
                                           units_percent(arena, coverage.covered_ratio),
                                           units_percent(arena, coverage.covered_family_ratio),
                                           arena_print(arena, "%.2f", coverage.width_ratio)});
    }
    return table_text(&table);
}

static void put_constant(struct json_writer *writer, const struct fit_constant *constant)
{
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "owner", constant_owner_name(constant->owner));
    json_put_text(writer, "name", constant->owner_name);
    json_put_text(writer, "key", constant->key);
    json_put_text(writer, "prior_kind", provenance_kind_name(constant->prior_kind));
    json_put_f64(writer, "prior", constant->prior);
    json_put_f64(writer, "spread", constant->spread);
    json_put_f64(writer, "value", constant->value);
    json_put_f64(writer, "moved", constant->moved);
    json_put_i64(writer, "row_count", constant->row_count);
    json_put_bool(writer, "at_bound", constant->at_bound);
    json_close(writer, '}');
}

static void put_prediction(struct json_writer *writer, const struct fit_prediction *prediction)
{
    const struct row *row = prediction->row;
    json_open_flat(writer, NULL, '{');
    json_put_text(writer, "id", row->id);
    json_put_text(writer, "family", row->family);
    json_put_text(writer, "tier", (char[]){row->tier, '\0'});
    json_put_text(writer, "kind", row_kind_name(row->kind));
    json_put_text(writer, "device", row->device);
    json_put_text(writer, "stack", row->stack);
    json_put_bool(writer, "fitted", prediction->fitted);
    json_put_f64(writer, "measured_s", row->step_s);
    json_put_f64(writer, "prior_s", prediction->prior_s);
    json_put_f64(writer, "step_s", prediction->step_s);
    for (int what = 0; what < FIT_LEAVE_COUNT; what++) {
        if (prediction->left_out_s[what] == 0) continue;
        const char *name = fit_leave_out_name((enum fit_leave_out)what);
        json_put_f64(writer, arena_print(writer->arena, "%s_out_s", name),
                     prediction->left_out_s[what]);
    }
    json_close(writer, '}');
}

char *fit_json_text(struct arena *arena, const struct fit_result *result)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "row_count", result->row_count);
    json_put_i64(&writer, "family_count", result->family_count);
    json_put_i64(&writer, "choice_count", result->choice_count);
    json_put_bool(&writer, "converged", result->converged);
    json_open(&writer, "constants", '[');
    for (int i = 0; i < result->constant_count; i++) {
        put_constant(&writer, &result->constants[i]);
    }
    json_close(&writer, ']');
    json_open(&writer, "predictions", '[');
    for (int i = 0; i < result->prediction_count; i++) {
        put_prediction(&writer, &result->predictions[i]);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}
