#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/progress.h"
#include "reports/table/fit_table.h"
#include "validation/fit_files.h"
#include "validation/fit_residuals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The end of the year 9999.
static const int64_t EPOCH_MOST_S = 253402300799;

struct arguments {
    const char *rows;
    const char *tiers;
    const char *leave_out;
    const char *date;
    const char *folder;
    bool coarse, json, force;
};

struct shown {
    struct progress progress;
    const char *what;
};

static void show_progress(void *context, const char *what, int done, int count)
{
    char left[PROGRESS_LEFT_BYTES];
    struct shown *shown = context;
    // Each part of the fit has an estimate of its own.
    if (shown->what != what) shown->progress.start_s = clock_s();
    shown->what = what;
    progress_show(&shown->progress, "%s: %d of %d%s", what, done, count,
                  progress_left(&shown->progress, (double)done / count, left));
}

// A day, or that of SOURCE_DATE_EPOCH: files do not hold what a clock said.
static const char *date_of(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    const char *epoch = getenv("SOURCE_DATE_EPOCH"), *date = arguments->date;
    int64_t epoch_s = 0;
    if (!date && epoch) {
        bool is_time = units_parse_i64(epoch, "SOURCE_DATE_EPOCH", 0, EPOCH_MOST_S, &epoch_s, err);
        time_t at = (time_t)epoch_s;
        struct tm day;
        if (!is_time || !gmtime_r(&at, &day)) return NULL;
        return arena_print(arena, "%04d-%02d-%02d", day.tm_year + 1900, day.tm_mon + 1,
                           day.tm_mday);
    }
    if (!date) {
        err_set(err, ERR_USAGE, "-o: the files name the day of the fit: give --date YYYY-MM-DD");
        return NULL;
    }
    struct tm day = {0};
    const char *end = strptime(date, "%Y-%m-%d", &day);
    const int month = day.tm_mon;
    // The 31st of February is made one of March.
    bool is_form = end && !*end && strlen(date) == 10 && strspn(date, "-0123456789") == 10;
    bool is_day = is_form && timegm(&day) != -1 && day.tm_mon == month;
    if (is_day) return date;
    err_set(err, ERR_USAGE, "--date: expected YYYY-MM-DD, found \"%s\"", date);
    return NULL;
}

// The words of --leave-out as bits.
static bool leave_out_of(const char *words, unsigned *bits, struct err *err)
{
    *bits = 0;
    if (strcmp(words, "none") == 0) return true;
    for (const char *word = words; *word;) {
        size_t length = strcspn(word, ",");
        int what = 0;
        while (what < FIT_LEAVE_COUNT) {
            const char *name = fit_leave_out_name((enum fit_leave_out)what);
            if (strlen(name) == length && strncmp(name, word, length) == 0) break;
            what++;
        }
        if (what == FIT_LEAVE_COUNT) {
            return err_set(err, ERR_USAGE, "--leave-out: none goes with no other word");
        }
        *bits |= 1u << what;
        word += length + (word[length] == ',');
    }
    return true;
}

// Writes them, and says how many were new and how many were there before.
static bool put_files(struct arena *arena, const char *folder, const struct file_text *files,
                      int count, const char **said, struct err *err)
{
    int replaced = 0;
    for (int i = 0; i < count; i++)
        replaced += file_exists(files[i].path);
    const char *below = plain_copy(arena, folder);
    if (replaced == 0)
        *said = arena_print(arena, "Wrote %d files below %s.\n", count, below);
    else if (replaced == count)
        *said = arena_print(arena, "Replaced %d files below %s.\n", count, below);
    else
        *said = arena_print(arena, "Wrote %d files below %s; replaced %d others.\n",
                            count - replaced, below, replaced);
    return file_write_all(files, count, err);
}

static bool write_files(struct arena *arena, const struct arguments *arguments,
                        const struct fit_result *result, const struct residuals *residuals,
                        const struct band *left_out, const char *date, const char **said,
                        struct err *err)
{
    const char *source =
        arena_print(arena, "fit of %s to %s (%s, tier %s)", date, fit_rows_text(arena, result),
                    arguments->rows, arguments->tiers);
    int count = 0;
    const struct file_text *fitted =
        fit_files_text(arena, result, arguments->folder, source, &count, err);
    if (!fitted) return false;
    if (!left_out) return put_files(arena, arguments->folder, fitted, count, said, err);
    struct json_writer writer = {.arena = arena};
    // Memory is not fitted: `validate --bands-out` measures it.
    const struct bands *shipped = bands_load(arena, err);
    if (!shipped) return false;
    struct bands bands = *bands_make(arena, residuals, source);
    bands.memory = shipped->memory;
    bands.memory_count = shipped->memory_count;
    bands_write(&writer, &bands);
    struct file_text *files = ARENA_NEW(arena, struct file_text, count + 2);
    memcpy(files, fitted, (size_t)count * sizeof *files);
    files[count++] = (struct file_text){
        arena_print(arena, "%s/cost_models/bands.json", arguments->folder), writer.text};
    files[count++] = (struct file_text){
        arena_print(arena, "%s/tests/validation/left_out.json", arguments->folder),
        fit_left_out_text(arena, result, left_out, source)};
    return put_files(arena, arguments->folder, files, count, said, err);
}

static void print(struct arena *arena, const struct arguments *arguments,
                  const struct fit_result *result, const struct residuals *residuals,
                  const struct band *left_out)
{
    if (arguments->json) {
        fputs(fit_json_text(arena, result), stdout);
        return;
    }
    console_printf(stdout, "%d constants fitted to %s, tier %s%s\n\n", result->constant_count,
                   fit_rows_text(arena, result), arguments->tiers,
                   result->converged ? "" : " (not converged)");
    console_printf(stdout, "%s\n%s", fit_constants_text(arena, result),
                   fit_errors_text(arena, result));
    if (left_out) console_printf(stdout, "\n%s", fit_coverage_text(arena, residuals, left_out));
}

enum { CHECKED_MAX = 1024 };

static bool is_json(const char *name)
{
    return strstr(name, ".json") != NULL;
}

static void add_files(struct arena *arena, const char *folder, const char **paths, int *count)
{
    const char **names;
    int found;
    (void)file_list(arena, folder, is_json, &names, &found);
    for (int i = 0; i < found && *count < CHECKED_MAX; i++)
        paths[(*count)++] = arena_print(arena, "%s/%s", folder, names[i]);
}

// Which files a fit writes is known when it is done; so that nothing is done in vain, all that lie
// where it may write have to be ours.
static bool check_folder(struct arena *arena, const char *folder, struct err *err)
{
    static const char *const FOLDERS[] = {"topologies/devices", "cost_models/stacks", "cost_models",
                                          "tests/validation"};
    const char **paths = ARENA_NEW(arena, const char *, CHECKED_MAX);
    int count = 0;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        add_files(arena, arena_print(arena, "%s/%s", folder, FOLDERS[i]), paths, &count);
    return output_check_files(paths, count, err);
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct fit_options options = {
        .tiers = arguments->tiers,
        .detail = arguments->coarse ? QUESTION_COARSE : QUESTION_STATED,
        .progress = show_progress,
    };
    bool is_checked = arguments->folder && !arguments->force;
    if (is_checked && !check_folder(arena, arguments->folder, err)) return exit_status(err);
    if (!rows_check_tiers(options.tiers, err)) return exit_status(err);
    if (!leave_out_of(arguments->leave_out, &options.leave_out, err)) return exit_status(err);
    const char *date = arguments->folder ? date_of(arena, arguments, err) : NULL;
    struct rows rows;
    if (err->kind || !rows_read(arena, arguments->rows, &rows, err)) return exit_status(err);
    struct shown shown = {.progress = progress_start()};
    struct fit_result result;
    options.progress_context = &shown;
    bool done = fit_run(arena, &rows, &options, &result, err);
    progress_end(&shown.progress);
    if (!done) return exit_status(err);

    struct residuals residuals = fit_residuals(arena, &result);
    bool has_bands = residuals.count > 0 && result.family_count > 1;
    const struct band *left_out = has_bands ? bands_left_out(arena, &residuals) : NULL;
    const char *said = "";
    if (arguments->folder &&
        !write_files(arena, arguments, &result, &residuals, left_out, date, &said, err)) {
        return exit_status(err);
    }
    print(arena, arguments, &result, &residuals, left_out);
    console_print(arguments->json ? stderr : stdout, said);
    return 0;
}

int fit_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments a = {.tiers = "A", .leave_out = "family,source,device,software"};
    const struct option options[] = {
        {"ROWS", OPTION_TEXT, &a.rows, "published runs, one JSON object a line", NULL, 0, 0},
        {"--tiers", OPTION_TEXT, &a.tiers, "tiers that are fitted (default A); all are predicted",
         "AB", 0, 0},
        {"--leave-out", OPTION_WORDS, &a.leave_out,
         "what is left out in turn, to predict it unseen (default family,source,device,software)",
         "family|source|device|software|none", 0, 0},
        {"--coarse", OPTION_FLAG, &a.coarse,
         "leave overlap, classes of recompute, shard groups and stages to the stack and the search",
         NULL, 0, 0},
        {"Output", OPTION_GROUP, NULL, "constants and errors on stdout", NULL, 0, 0},
        {"--json", OPTION_FLAG, &a.json, "instead: constants, and a record a row", NULL, 0, 0},
        {"-o", OPTION_TEXT, &a.folder,
         "write devices, stacks, fabrics, bands and left-out predictions below DIR", "DIR", 0, 0},
        {"--force", OPTION_FLAG, &a.force, "replace files that meshwright did not write", NULL, 0,
         0},
        {"--date", OPTION_TEXT, &a.date, "day of the fit, for the files (or SOURCE_DATE_EPOCH)",
         "YYYY-MM-DD", 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_check_folder(a.folder, err)) return exit_status(err);

    return run(arena, &a, err);
}
