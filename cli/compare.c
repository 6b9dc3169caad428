#include "exchange/compare.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/plan_question.h"
#include "cli/threshold.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "exchange/compare_plan.h"

#include <stdio.h>
#include <string.h>

static const double DEFAULT_THRESHOLD = 0.03;

struct arguments {
    const char *base, *now, *threshold, *judge, *row, *source;
    struct text_list more_base, more_now;
    int trace_steps;
    bool json;
};

static bool read_side(struct arena *arena, const char *first, const struct text_list *more,
                      int trace_steps, struct compare_side *side, struct err *err)
{
    const char *paths[COMPARE_FILES_MAX] = {first};
    if (more->count >= COMPARE_FILES_MAX)
        return err_set(err, ERR_USAGE, "a side has at most %d runs", COMPARE_FILES_MAX);
    for (int i = 0; i < more->count; i++)
        paths[i + 1] = more->items[i];
    return compare_side_read(arena, paths, more->count + 1, trace_steps, side, err);
}

static int compare_sides(struct arena *arena, const struct arguments *arguments, double threshold,
                         struct err *err)
{
    struct compare_request request = {
        .threshold_ratio = threshold < 0 ? DEFAULT_THRESHOLD : threshold,
        .judges_step = strstr(arguments->judge, "step") != NULL,
        .judges_memory = strstr(arguments->judge, "memory") != NULL,
    };
    struct compare_side *sides = ARENA_NEW(arena, struct compare_side, 2);
    struct compare compare;
    if (arguments->row) {
        err_set(err, ERR_USAGE, "--row: goes with a plan and what was measured of it");
        return exit_status(err);
    }
    int steps = arguments->trace_steps;
    if (!read_side(arena, arguments->base, &arguments->more_base, steps, &sides[0], err) ||
        !read_side(arena, arguments->now, &arguments->more_now, steps, &sides[1], err) ||
        !compare_make(arena, &request, &sides[0], &sides[1], &compare, err))
        return exit_status(err);
    if (arguments->json)
        fputs(compare_json_text(arena, &compare), stdout);
    else
        console_print(stdout, compare_text(arena, &compare));
    return compare.verdict == VERDICT_REGRESSION;
}

// The line for a file of published runs; its name is that of the file that was measured.
static bool write_row(struct arena *arena, const struct arguments *arguments,
                      const struct plan_compare *compare, struct err *err)
{
    const char *slash = strrchr(arguments->now, '/');
    const char *id = plain_copy(arena, slash ? slash + 1 : arguments->now);
    const char *source = arguments->source ? plain_copy(arena, arguments->source) : id;
    const char *text = plan_compare_row(arena, compare, id, source, err);
    return text && file_write(arguments->row, text, strlen(text), err);
}

static int compare_plan(struct arena *arena, const struct arguments *arguments, double threshold,
                        struct err *err)
{
    struct evaluation_request request = {0};
    struct evaluation evaluation = {0};
    struct measurement measured;
    struct plan_compare compare;
    if (arguments->more_base.count || arguments->more_now.count) {
        err_set(err, ERR_USAGE, "--base and --new: one plan is compared with one measurement");
        return exit_status(err);
    }
    if (!plan_question(arena, arguments->base, NULL, &request, err) ||
        !measurement_read(arena, arguments->now, arguments->trace_steps, &request, &measured, err))
        return exit_status(err);
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, &request, &evaluation, err);
    if (done) {
        plan_compare_make(arena, &scratch, &request, &evaluation, &measured, threshold, &compare);
    }
    arena_free(&scratch);
    if (!done) return plan_question_status(arguments->base, err);
    const char *said = "";
    if (arguments->row)
        said = arguments->json ? output_noted(arena, arguments->row)
                               : output_said(arena, arguments->row);
    if (arguments->row && !write_row(arena, arguments, &compare, err)) return exit_status(err);
    if (arguments->json) {
        fputs(plan_compare_json_text(arena, &compare), stdout);
        console_print(stderr, said);
    } else {
        console_print(stdout, plan_compare_text(arena, &compare));
        if (*said) console_printf(stdout, "%s\n", said);
    }
    return compare.verdict == VERDICT_REGRESSION;
}

// Two of a kind, or a plan and what was measured of it.
static int run(struct arena *arena, const struct arguments *arguments, struct err *err)
{
    double threshold = -1;
    enum side_kind base, now;
    if ((arguments->threshold && !threshold_read(arguments->threshold, &threshold, err)) ||
        !side_kind_of(arena, arguments->base, &base, err) ||
        !side_kind_of(arena, arguments->now, &now, err))
        return exit_status(err);
    if (base == SIDE_PLAN && now != SIDE_PLAN)
        return compare_plan(arena, arguments, threshold, err);
    return compare_sides(arena, arguments, threshold, err);
}

int compare_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments a = {.judge = "step"};
    const struct option options[] = {
        {"BASE", OPTION_TEXT, &a.base,
         "a plan, a run.json, or a trace (.json, .json.gz, .sqlite of Nsight Systems)", NULL, 0, 0},
        {"NEW", OPTION_TEXT, &a.now,
         "what is compared with it, of the same kind; or what was measured of a plan: the log of "
         "another trainer, a profile of PyTorch or Nsight Systems, a run.json",
         NULL, 0, 0},
        {"--threshold", OPTION_TEXT, &a.threshold,
         "changes up to this are none (default 3%; of a plan and a measurement the band of the "
         "prediction); a regression beyond it answers no (exit 1)",
         "SHARE", 0, 0},
        {"--trace-steps", OPTION_INT, &a.trace_steps,
         "steps that a trace holds (default: its steps, as named ranges)", "N", 1, 1e6},
        {"Of two of a kind", OPTION_GROUP, NULL, "runs, traces or plans", NULL, 0, 0},
        {"--judge", OPTION_WORDS, &a.judge, "what is judged (default step)", "step|memory", 0, 0},
        {"--base", OPTION_TEXTS, &a.more_base,
         "another run of BASE, may be repeated: then the noise between runs counts", "FILE", 0, 0},
        {"--new", OPTION_TEXTS, &a.more_now, "another run of NEW, may be repeated", "FILE", 0, 0},
        {"Of a plan and a measurement", OPTION_GROUP, NULL, "a row that `fit` reads", NULL, 0, 0},
        {"--row", OPTION_OUTPUT, &a.row, "write the measurement as a line of published runs",
         "FILE", 0, 0},
        {"--source", OPTION_TEXT, &a.source, "what the row names as its source (default: NEW)",
         "TEXT", 0, 0},
        OPTION_FORCE_ROW,
        {"Output", OPTION_GROUP, NULL, "tables on stdout", NULL, 0, 0},
        {"--json", OPTION_FLAG, &a.json, "instead: verdict and figures for programs", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&a.row, err)) return exit_status(err);
    return run(arena, &a, err);
}
