#include "cli/bench_history.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
    SHOWN_MAX = 12,  // sets in the table
    FIRST = 6,       // where the date of "bench-20261123T172400Z-01.json" is
    DATE_LENGTH = 16,
    NAME_LENGTH = 30,
};

const char *bench_path(struct arena *arena, const char *folder, const char *date, int number)
{
    return arena_print(arena, "%s/bench-%s-%02d.json", folder, date, number);
}

const char *bench_date(struct arena *arena, const char *folder)
{
    char *text = ARENA_NEW(arena, char, DATE_LENGTH + 1);
    for (time_t now = time(NULL);; now++) {
        struct tm parts;
        gmtime_r(&now, &parts);
        strftime(text, DATE_LENGTH + 1, "%Y%m%dT%H%M%SZ", &parts);
        if (!file_exists(bench_path(arena, folder, text, 1))) return text;
    }
}

static bool is_ours(const char *name)
{
    return strlen(name) == NAME_LENGTH && strncmp(name, "bench-", FIRST) == 0 &&
           strcmp(name + NAME_LENGTH - 5, ".json") == 0;
}

// The names of the history, by date.
static const char **names_of(struct arena *arena, const char *folder, int *count, struct err *err)
{
    const char **names;
    int error = file_list(arena, folder, is_ours, &names, count);
    if (error) err_set(err, ERR_SYSTEM, "cannot read %s: %s", folder, strerror(error));
    return names;
}

static const char *choice_of(const struct side_file *file, const char *key)
{
    for (int i = 0; i < file->choice_count; i++)
        if (strcmp(file->choices[i].key, key) == 0) return file->choices[i].value;
    return "";
}

// Plan and machine, as both files say them.
static bool is_alike(const struct side_file *a, const struct side_file *b)
{
    if (a->choice_count != b->choice_count) return false;
    for (int i = 0; i < a->choice_count; i++)
        if (strcmp(a->choices[i].value, choice_of(b, a->choices[i].key)) != 0) return false;
    return true;
}

static void put_set(struct arena *arena, struct table *table, const struct bench_set *set,
                    double *before_s)
{
    double median_s = samples_median(arena, set->medians);
    table_row(table,
              (const char *const[]){
                  set->date, arena_print(arena, "%d", set->count), units_seconds(arena, median_s),
                  set->count > 1 ? units_seconds(arena, samples_spread(arena, set->medians)) : "-",
                  *before_s > 0 ? units_signed_percent(arena, median_s / *before_s - 1) : ""});
    *before_s = median_s;
}

// The runs of one date; count 0 where they are of another plan or machine.
static bool read_set(struct arena *arena, const char *folder, const char *const *names, int count,
                     const struct side_file *now, struct bench_set *set, struct err *err)
{
    double *values = ARENA_NEW(arena, double, count);
    *set = (struct bench_set){.date = arena_print(arena, "%.*s", DATE_LENGTH, names[0] + FIRST)};
    for (int i = 0; i < count && i < BENCH_RUNS_MAX; i++) {
        struct side_file file;
        const char *path = arena_print(arena, "%s/%s", folder, names[i]);
        if (!side_read(arena, path, 0, &file, err)) return false;
        if (file.kind != SIDE_RUN || !is_alike(&file, now)) continue;
        values[set->count] = samples_median(arena, (struct samples){file.step_s, file.step_count});
        set->paths[set->count++] = path;
    }
    set->medians = (struct samples){values, set->count};
    return true;
}

// The sets that are like `now`, by date; and how many runs are not. NULL and errors as above.
static struct bench_set *bench_sets(struct arena *arena, const char *folder,
                                    const struct side_file *now, int *count, int *other_count,
                                    struct err *err)
{
    int name_count = 0, first = 0;
    const char **names = names_of(arena, folder, &name_count, err);
    if (err->kind) return NULL;
    struct bench_set *sets = ARENA_NEW(arena, struct bench_set, name_count + 1);
    *count = *other_count = 0;
    for (int next; first < name_count; first = next) {
        next = first;
        while (next < name_count && strncmp(names[next], names[first], FIRST + DATE_LENGTH) == 0)
            next++;
        struct bench_set *set = &sets[*count];
        if (!read_set(arena, folder, names + first, next - first, now, set, err)) return NULL;
        *other_count += next - first - set->count;
        *count += set->count > 0;
    }
    return sets;
}

const char *bench_history(struct arena *arena, const char *folder, const struct side_file *now,
                          struct bench_set *last, struct err *err)
{
    static const char *const HEADER[] = {"date", "runs", "step", "spread", "change"};
    int set_count = 0, other_count = 0;
    const struct bench_set *sets = bench_sets(arena, folder, now, &set_count, &other_count, err);
    if (!sets) return NULL;
    struct table table = table_new(arena, "lrrrr");
    double before_s = 0;
    table_row(&table, HEADER);
    for (int i = set_count > SHOWN_MAX ? set_count - SHOWN_MAX : 0; i < set_count; i++)
        put_set(arena, &table, &sets[i], &before_s);
    *last = set_count > 1 ? sets[set_count - 2] : (struct bench_set){0};
    const char *others =
        other_count == 0
            ? ""
            : arena_print(arena, "%d saved runs of other plans or machines are not compared.\n",
                          other_count);
    return arena_print(arena, "%s%s", table_text(&table), others);
}

// The newest run of a plan.
static bool find_newest(struct arena *arena, const char *folder, const char *plan_hash,
                        struct side_file *newest, struct err *err)
{
    int count = 0;
    const char **names = names_of(arena, folder, &count, err);
    for (int i = count - 1; i >= 0 && !err->kind; i--) {
        const char *path = arena_print(arena, "%s/%s", folder, names[i]);
        if (!side_read(arena, path, 0, newest, err)) return false;
        if (newest->kind == SIDE_RUN && strcmp(choice_of(newest, "plan"), plan_hash) == 0)
            return true;
    }
    return err_set(err, ERR_INPUT, "%s: none of its %d runs is of this plan",
                   plain_copy(arena, folder), count);
}

static struct history_point point_of(struct arena *arena, const struct bench_set *set)
{
    struct history_point point = {.date = set->date,
                                  .run_count = set->count,
                                  .median_s = samples_median(arena, set->medians),
                                  .low_s = set->medians.values[0],
                                  .high_s = set->medians.values[0]};
    for (int i = 1; i < set->count; i++) {
        point.low_s = fmin(point.low_s, set->medians.values[i]);
        point.high_s = fmax(point.high_s, set->medians.values[i]);
    }
    return point;
}

const struct report_history *bench_report(struct arena *arena, const char *folder,
                                          const char *plan_hash, struct err *err)
{
    struct side_file newest = {0};
    struct report_history *history = ARENA_NEW(arena, struct report_history, 1);
    if (!find_newest(arena, folder, plan_hash, &newest, err)) return NULL;
    const struct bench_set *sets =
        bench_sets(arena, folder, &newest, &history->count, &history->other_count, err);
    if (!sets) return NULL;
    history->folder = plain_copy(arena, folder);
    history->machine = plain_copy(arena, choice_of(&newest, "device"));
    history->points = ARENA_NEW(arena, struct history_point, history->count);
    for (int i = 0; i < history->count; i++)
        history->points[i] = point_of(arena, &sets[i]);
    return history;
}
