#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/progress.h"
#include "reports/page/accuracy_plot.h"
#include "reports/page/gnuplot.h"
#include "reports/table/accuracy_table.h"
#include "reports/table/anchor_text.h"
#include "reports/table/band_text.h"
#include "validation/band_remake.h"
#include "validation/band_unfitted.h"

#include <stdio.h>
#include <string.h>

// A headline figure that is worse by no more than this is not worth stopping for.
static const double HEADLINE_MARGIN = 0.003;

struct arguments {
    const char *rows;
    const char *tiers;
    struct row_filter filter;
    bool coarse, blind, anchor, rates, json;
    int list, large;
    const char *left_out, *plot, *headline, *headline_out, *bands_out;
};

static void show_progress(void *context, int done, int count)
{
    char left[PROGRESS_LEFT_BYTES];
    progress_show(context, "row %d of %d%s", done, count,
                  progress_left(context, (double)done / count, left));
}

static bool answer_rows(struct arena *arena, const struct arguments *arguments,
                        struct trials *trials, struct err *err)
{
    struct rows rows;
    struct row_filter filter = arguments->filter;
    filter.gpus_least = arguments->large;
    if (filter.stack) {
        const struct stack *stack = stack_load(arena, filter.stack, err);
        if (!stack) return false;
        filter.stack = stack->name;  // it may have been an alias
    }
    if (!rows_read(arena, arguments->rows, &rows, err)) return false;
    if (arguments->blind) rows_as_they_came(&rows);
    rows_keep(&rows, &filter);
    if (rows.count == 0) {
        return err_set(err, ERR_USAGE,
                       "%s: no row is left by --family, --device, --stack and --large",
                       arguments->rows);
    }
    enum question_detail detail = arguments->coarse ? QUESTION_COARSE : QUESTION_STATED;
    trials_ask(arena, &rows, detail, trials);
    struct progress progress = progress_start();
    bool done = trials_answer(arena, trials, show_progress, &progress, err);
    progress_end(&progress);
    return done;
}

static bool write_plot(struct arena *arena, const struct accuracy *accuracy, const char *path,
                       struct err *err)
{
    size_t bytes;
    const char *picture = gnuplot_image(arena, accuracy_plot_script(arena, accuracy), &bytes, err);
    if (!picture) return false;
    const char *said = output_said(arena, path);
    if (!file_write(path, picture, bytes, err)) return false;
    if (*said) console_printf(stderr, "note: %s\n", said);
    return true;
}

static int check_headline(struct arena *arena, const struct headline *headline, const char *path,
                          FILE *stream, struct err *err)
{
    struct headline_change changes[HEADLINE_MAX];
    const char *shown = plain_copy(arena, path);
    int count = headline_worse(arena, path, headline, HEADLINE_MARGIN, changes, err);
    if (count < 0) return exit_status(err);
    for (int i = 0; i < count; i++) {
        fprintf(stream, "Worse than %s: %s is %.2f %%, was %.2f %%\n", shown, changes[i].words,
                100 * changes[i].is, 100 * changes[i].was);
    }
    if (count == 0) {
        fprintf(stream,
                "No headline figure is worse than in %s by more than %.1f points, and no family by "
                "more than %.1f.\n",
                shown, 100 * HEADLINE_MARGIN, 300 * HEADLINE_MARGIN);
    }
    return count > 0;
}

// Of blind rows the shipped bands with what these say of software that no constant has seen; else
// all others anew.
static const struct bands *bands_of(struct arena *arena, const struct arguments *arguments,
                                    const struct trials *trials, const struct left_out *left_out,
                                    struct err *err)
{
    const struct bands *shipped = bands_load(arena, err);
    if (!shipped) return NULL;
    struct bands *out = ARENA_NEW(arena, struct bands, 1);
    if (arguments->blind) {
        *out = *shipped;
        const char *source = arena_print(arena, "validation of tier %s", arguments->tiers);
        out->unfitted = band_unfitted_make(arena, trials, arguments->tiers, source);
        struct memory_band memory = band_unfitted_memory(arena, trials, arguments->tiers, source);
        bands_put_memory_of_any(arena, out, &memory);
        return out;
    }
    if (!left_out) {
        err_set(err, ERR_USAGE, "--bands-out: --left-out has what bands rest on, or --blind rows");
        return NULL;
    }
    const struct bands *made = bands_remake(arena, trials, arguments->tiers, left_out, err);
    if (!made) return NULL;
    *out = *made;
    out->unfitted = shipped->unfitted;
    bool is_own;
    const struct memory_band *of_any = bands_memory(shipped, MEMORY_OF_ANY, &is_own);
    if (is_own) bands_put_memory_of_any(arena, out, of_any);
    return out;
}

// What bands are made of, and their file.
static bool answer_bands(struct arena *arena, const struct arguments *arguments,
                         const struct trials *trials, const struct left_out *left_out,
                         struct err *err)
{
    if (!arguments->bands_out) return true;
    const struct bands *bands = bands_of(arena, arguments, trials, left_out, err);
    if (!bands) return false;
    struct json_writer writer = {.arena = arena};
    bands_write(&writer, bands);
    const char *noted = output_noted(arena, arguments->bands_out);
    if (!file_write(arguments->bands_out, writer.text, strlen(writer.text), err)) return false;
    console_print(stderr, noted);
    if (!arguments->blind)
        console_print(arguments->json ? stderr : stdout, bands_text(arena, bands));
    return true;
}

// The other answer: larger runs by what the smallest of their series corrects.
static int answer_anchored(struct arena *arena, const struct arguments *arguments,
                           const struct trials *trials, struct err *err)
{
    struct anchor_sweep sweep;
    if (!anchor_sweep_make(arena, trials, arguments->tiers, arguments->rows, &sweep, err))
        return exit_status(err);
    if (sweep.row_count == 0) {
        err_set(err, ERR_USAGE, "%s: no model was run on several numbers of GPUs", arguments->rows);
        return exit_status(err);
    }
    console_print(stdout, anchor_sweep_text(arena, &sweep));
    return 0;
}

static void print(struct arena *arena, const struct arguments *arguments,
                  const struct accuracy *accuracy, const struct left_out *left_out)
{
    if (arguments->json) {
        fputs(accuracy_json_text(arena, accuracy, left_out), stdout);
    } else if (arguments->large) {
        console_print(stdout, accuracy_large_text(arena, accuracy->trials));
    } else if (arguments->rates) {
        console_print(stdout, accuracy_rates_text(arena, accuracy->trials));
    } else {
        console_print(stdout, accuracy_table_text(arena, accuracy));
        if (arguments->list == 0) return;
        console_printf(stdout, "\n%s", accuracy_worst_text(arena, accuracy, arguments->list));
    }
}

static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    struct trials trials;
    struct left_out left_out;
    bool has_left_out = arguments->left_out != NULL;
    if (!rows_check_tiers(arguments->tiers, err)) return exit_status(err);
    if (has_left_out && !left_out_read(arena, arguments->left_out, &left_out, err)) {
        return exit_status(err);
    }
    if (!answer_rows(arena, arguments, &trials, err)) return exit_status(err);
    if (arguments->anchor) return answer_anchored(arena, arguments, &trials, err);
    struct accuracy *accuracy =
        accuracy_of(arena, &trials, arguments->tiers, has_left_out ? &left_out : NULL);
    accuracy->is_blind = arguments->blind;
    if (arguments->plot && !write_plot(arena, accuracy, arguments->plot, err)) {
        return exit_status(err);
    }
    struct headline headline = headline_of(accuracy);
    if (arguments->headline_out) {
        const char *text = headline_text(arena, &headline);
        const char *noted = output_noted(arena, arguments->headline_out);
        if (!file_write(arguments->headline_out, text, strlen(text), err)) return exit_status(err);
        console_print(stderr, noted);
    }
    print(arena, arguments, accuracy, has_left_out ? &left_out : NULL);
    if (!answer_bands(arena, arguments, &trials, has_left_out ? &left_out : NULL, err)) {
        return exit_status(err);
    }
    if (!arguments->headline) return 0;
    FILE *stream = arguments->json ? stderr : stdout;
    return check_headline(arena, &headline, arguments->headline, stream, err);
}

int validate_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments a = {.tiers = "A"};
    const struct option options[] = {
        {"ROWS", OPTION_TEXT, &a.rows, "published runs, one JSON object a line", NULL, 0, 0},
        {"--tiers", OPTION_TEXT, &a.tiers,
         "tiers that are reported in full (default A); the others get a line each", "AB", 0, 0},
        {"--family", OPTION_TEXT, &a.filter.family, "only families whose names begin so", "PREFIX",
         0, 0},
        {"--device", OPTION_TEXT, &a.filter.device, "only runs on this device", "NAME", 0, 0},
        {"--stack", OPTION_TEXT, &a.filter.stack, "only runs of this software", "NAME", 0, 0},
        {"--coarse", OPTION_FLAG, &a.coarse,
         "leave overlap, classes of recompute, shard groups and stages to the stack and the search",
         NULL, 0, 0},
        {"--blind", OPTION_FLAG, &a.blind,
         "rows that nothing was fitted to: each on the stack that stood for its software when it "
         "came, scored by software as well",
         NULL, 0, 0},
        {"--anchor", OPTION_FLAG, &a.anchor,
         "instead: runs on more GPUs, by constants that the smallest runs of their series correct",
         NULL, 0, 0},
        {"--left-out", OPTION_TEXT, &a.left_out,
         "score beside it what was predicted without each row's family", "FILE", 0, 0},
        {"Output", OPTION_GROUP, NULL, "the table on stdout", NULL, 0, 0},
        {"--list", OPTION_INT, &a.list, "and the N rows predicted worst", "N", 0, 0},
        {"--rates", OPTION_FLAG, &a.rates, "instead: FLOP/s of the rows that publish them", NULL, 0,
         0},
        {"--large", OPTION_INT, &a.large,
         "instead: runs on N GPUs and more, a line each, measured and predicted", "N", 1, 1e6},
        {"--json", OPTION_FLAG, &a.json, "instead: everything, with a record a row", NULL, 0, 0},
        {"--plot", OPTION_OUTPUT, &a.plot, "draw predicted over measured (needs gnuplot)",
         "FILE.svg", 0, 0},
        {"--headline", OPTION_TEXT, &a.headline,
         "answer no (exit 1) when a figure is 0.3 points worse than in this file, or a family 0.9",
         "FILE", 0, 0},
        {"--headline-out", OPTION_OUTPUT, &a.headline_out, "write the figures to this file", "FILE",
         0, 0},
        {"--bands-out", OPTION_OUTPUT, &a.bands_out,
         "write bands of steps, memory and selection from --left-out to this file, or that of "
         "software without a fit from --blind",
         "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&a.plot, err) || !output_take_stdout(&a.headline_out, err) ||
        !output_take_stdout(&a.bands_out, err)) {
        return exit_status(err);
    }

    return run(arena, &a, err);
}
