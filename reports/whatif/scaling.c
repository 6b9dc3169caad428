#include "reports/whatif/scaling.h"

#include "core/file.h"
#include "core/units.h"
#include "reports/whatif/scenario_share.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char HEADER[] = "gpus,tokens_per_s_per_gpu";
static const size_t FILE_BYTES_MAX = 1 << 20;

double scaling_measured_at(const struct scaling_points *points, int64_t gpus)
{
    for (int i = 0; i < points->count; i++) {
        if (points->items[i].gpus == gpus) return points->items[i].tokens_per_s_per_gpu;
    }
    return 0;
}

// "8,4078"; errors are told by their place in the file.
static bool read_line(char *line, const char *place, struct scaling_point *point, struct err *err)
{
    struct err fault = {0};
    char *comma = strchr(line, ',');
    if (!comma || strchr(comma + 1, ',')) {
        return err_set(err, ERR_INPUT, "%s: expected %s, found \"%s\"", place, HEADER, line);
    }
    *comma = '\0';
    double value = 0;
    if (!units_parse_i64(line, "gpus", 1, CLUSTER_GPUS_MAX, &point->gpus, &fault) ||
        !units_parse_f64(comma + 1, "tokens_per_s_per_gpu", &value, &fault)) {
        return err_set(err, ERR_INPUT, "%s: %.900s", place, fault.text);
    }
    if (!(value > 0) || !isfinite(value)) {
        return err_set(err, ERR_INPUT, "%s: tokens_per_s_per_gpu: must be more than 0, found %s",
                       place, comma + 1);
    }
    point->tokens_per_s_per_gpu = value;
    return true;
}

bool scaling_load(struct arena *arena, const char *path, struct scaling_points *points,
                  struct err *err)
{
    size_t bytes = 0;
    char *text = file_read(arena, path, FILE_BYTES_MAX, &bytes, err);
    if (!text) return false;
    *points = (struct scaling_points){ARENA_NEW(arena, struct scaling_point, bytes / 2 + 1), 0};
    int number = 0;
    for (char *line = text; *line; number++) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        line[length] = '\0';
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
        const char *place = arena_print(arena, "%s:%d", path, number + 1);
        if (number == 0 && strcmp(line, HEADER) != 0) {
            return err_set(err, ERR_INPUT, "%s: expected %s, found \"%.200s\"", place, HEADER,
                           line);
        }
        if (number > 0) {
            struct scaling_point point = {0};
            if (!read_line(line, place, &point, err)) return false;
            if (scaling_measured_at(points, point.gpus) > 0) {
                return err_set(err, ERR_INPUT, "%s: %lld GPUs stand there twice", place,
                               (long long)point.gpus);
            }
            points->items[points->count++] = point;
        }
        line = next;
    }
    if (points->count > 0) return true;
    return err_set(err, ERR_INPUT, "%s: holds no measured point", path);
}

bool scaling_parse(struct arena *arena, const char *text, const struct scaling_points *measured,
                   struct scaling_point *point, struct err *err)
{
    const char *equals = strchr(text, '=');
    const char *gpus = equals ? arena_print(arena, "%.*s", (int)(equals - text), text) : text;
    if (!units_parse_i64(gpus, "--calibrate", 1, CLUSTER_GPUS_MAX, &point->gpus, err)) return false;
    if (!equals) {
        point->tokens_per_s_per_gpu = scaling_measured_at(measured, point->gpus);
        if (point->tokens_per_s_per_gpu > 0) return true;
        return err_set(err, ERR_USAGE,
                       "--calibrate %s: --measured has no such point; GPUS=VALUE gives one", text);
    }
    double value = 0;
    if (!units_parse_f64(equals + 1, "--calibrate", &value, err)) return false;
    if (!(value > 0)) {
        return err_set(err, ERR_USAGE,
                       "--calibrate: tokens a second and GPU must be more than 0, found %s",
                       equals + 1);
    }
    point->tokens_per_s_per_gpu = value;
    return true;
}

double scaling_calibrate(const struct sweep_points *points, const struct scaling_point *measured,
                         struct scenario_outcome *outcomes, struct err *err)
{
    assert(measured->tokens_per_s_per_gpu > 0);
    double ratio = 0;
    for (int i = 0; i < points->count && ratio == 0; i++) {
        if (points->items[i].at[SWEEP_GPUS] != (double)measured->gpus) continue;
        if (outcomes[i].status != SCENARIO_FITS) continue;
        ratio = measured->tokens_per_s_per_gpu / outcomes[i].prediction.tokens_per_s_per_gpu;
    }
    if (ratio == 0) {
        err_set(err, ERR_USAGE, "--calibrate: no plan of %lld GPUs is among the scenarios",
                (long long)measured->gpus);
        return 0;
    }
    for (int i = 0; i < points->count; i++) {
        scenario_rescale(&points->items[i].scenario, ratio, &outcomes[i]);
    }
    return ratio;
}

struct scaling_error scaling_error(const struct scaling *scaling)
{
    struct scaling_error error = {0};
    for (int i = 0; i < scaling->whatif->row_count; i++) {
        const struct whatif_row *row = &scaling->whatif->rows[i];
        int64_t gpus = row->point->scenario.cluster->rank_count;
        double measured = scaling_measured_at(&scaling->measured, gpus);
        if (!row->fits || measured == 0 || gpus == scaling->calibrated.gpus) continue;
        double ratio = fabs(row->outcome->prediction.tokens_per_s_per_gpu / measured - 1);
        error.count++;
        error.mean_ratio += ratio;
        if (ratio < error.worst_ratio) continue;
        error.worst_ratio = ratio;
        error.worst_gpus = gpus;
    }
    assert(error.count >= 0 && error.worst_ratio >= 0);
    if (error.count > 0) error.mean_ratio /= error.count;
    return error;
}

double scaling_first(const struct whatif *whatif)
{
    const struct whatif_row *first = NULL;
    for (int i = 0; i < whatif->row_count; i++) {
        const struct whatif_row *row = &whatif->rows[i];
        if (!row->fits) continue;
        if (first && row->point->at[SWEEP_GPUS] >= first->point->at[SWEEP_GPUS]) continue;
        first = row;
    }
    return first ? first->outcome->prediction.tokens_per_s_per_gpu : 0;
}
