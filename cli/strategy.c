#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/progress.h"
#include "core/table.h"
#include "planner/strategy/solve.h"

#include <stdio.h>
#include <string.h>

struct asked {
    const char *file, *output;
    double time_limit_s;
    int64_t seed;
    int workers;
    bool as_json, verbose;
};

static const char *answer_text(struct arena *arena, const struct strategy_problem *problem,
                               const struct strategy_answer *answer)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "name", problem->name);
    json_put_i64(&writer, "cost", answer->value.cost);
    json_put_i64(&writer, "bound", answer->bound);
    json_put_f64(&writer, "gap_ratio", strategy_gap(answer));
    json_put_i64(&writer, "peak_usage", answer->value.peak);
    if (problem->has_limit) json_put_i64(&writer, "usage_limit", problem->usage_limit);
    json_put_bool(&writer, "proven", answer->bound == answer->value.cost);
    json_put_ints(&writer, "choice", answer->choice, problem->node_count);
    json_close(&writer, '}');
    return writer.text;
}

// Digits in threes: costs of a contest are compared to the last one.
static const char *whole(struct arena *arena, int64_t value)
{
    const char *text = arena_print(arena, "%lld", (long long)(value < 0 ? -value : value));
    size_t length = strlen(text);
    const char *grouped = value < 0 ? "-" : "";
    for (size_t i = 0; i < length; i++)
        grouped = arena_print(arena, "%s%s%c", grouped, i > 0 && (length - i) % 3 == 0 ? "," : "",
                              text[i]);
    return grouped;
}

static void put_fact(struct table *table, const char *name, const char *text)
{
    table_row(table, (const char *[]){name, text});
}

static void print_answer(struct arena *arena, const struct strategy_problem *problem,
                         const struct strategy_answer *answer)
{
    struct table table = table_new(arena, "ll");
    int64_t strategies = problem->costs.starts[problem->node_count];
    put_fact(&table, "nodes",
             arena_print(arena, "%s, %s edges, %s strategies", whole(arena, problem->node_count),
                         whole(arena, problem->edge_count), whole(arena, strategies)));
    put_fact(&table, "cost", whole(arena, answer->value.cost));
    bool proven = answer->bound == answer->value.cost;
    put_fact(&table, "bound",
             arena_print(arena, "%s, %s", whole(arena, answer->bound),
                         proven ? "proven optimal"
                                : arena_print(arena, "gap %.3f %%", 100 * strategy_gap(answer))));
    put_fact(&table, "peak",
             problem->has_limit
                 ? arena_print(arena, "%s of %s (%.1f %%)", whole(arena, answer->value.peak),
                               whole(arena, problem->usage_limit),
                               100.0 * (double)answer->value.peak /
                                   (problem->usage_limit > 0 ? (double)problem->usage_limit : 1.0))
                 : arena_print(arena, "%s, no limit", whole(arena, answer->value.peak)));
    console_print(stdout, table_text(&table));
}

static void show_line(void *context, const char *line)
{
    progress_show(context, "%s", line);
}

static void print_line(void *context, const char *line)
{
    (void)context;
    console_printf(stderr, "%s\n", line);
}

static int give(struct arena *arena, const struct asked *asked,
                const struct strategy_problem *problem, const struct strategy_answer *answer,
                struct err *err)
{
    if (!answer->choice) {
        console_printf(stderr, "meshwright strategy: %s: %s\n", plain_copy(arena, asked->file),
                       answer->is_impossible
                           ? "no choice is allowed and fits the limit, proven"
                           : "no choice that fits was found; a longer --time-limit may find one");
        return 1;
    }
    const char *text = answer_text(arena, problem, answer);
    const char *said = asked->output ? output_said(arena, asked->output) : "";
    if (asked->output && !file_write(asked->output, text, strlen(text), err)) {
        return exit_status(err);
    }
    if (answer->is_cut) {
        console_printf(stderr, "meshwright strategy: warning: the clock ended this run: a faster "
                               "machine may find another choice\n");
    }
    if (asked->as_json) return fputs(text, stdout), 0;
    print_answer(arena, problem, answer);
    if (*said) console_printf(stdout, "%s: the choice of every node\n", said);
    return 0;
}

int strategy_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct asked asked = {.time_limit_s = 60, .seed = 1, .workers = 1};
    const struct option options[] = {
        {"FILE", OPTION_TEXT, &asked.file, "problem, JSON as of the IOPDDL contest, or .json.gz",
         NULL, 0, 0},
        {"--time-limit", OPTION_F64, &asked.time_limit_s,
         "seconds of one core, as a budget of work: equal limits, equal answers (default 60)",
         "SECONDS", 0.01, 86400},
        {"--seed", OPTION_I64, &asked.seed, "of what is drawn (default 1)", NULL, 0, 1e9},
        {"--workers", OPTION_INT, &asked.workers,
         "cores that search, each for the limit, and share the best choice that any has found "
         "(default 1)",
         "N", 1, 64},
        {"-o", OPTION_OUTPUT, &asked.output, "write the choice as JSON", "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &asked.as_json, "the same on standard output", NULL, 0, 0},
        {"--verbose", OPTION_FLAG, &asked.verbose, "how the search goes, on stderr", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_take_stdout(&asked.output, err)) return exit_status(err);
    struct strategy_problem problem;
    if (!strategy_problem_load(arena, asked.file, &problem, err)) return exit_status(err);
    struct progress progress = progress_start();
    struct strategy_options how = {.time_limit_s = asked.time_limit_s,
                                   .seed = (uint64_t)asked.seed,
                                   .workers = asked.workers,
                                   .log = asked.verbose ? print_line : show_line,
                                   .log_context = &progress};
    struct strategy_answer answer = strategy_solve(arena, &problem, &how);
    progress_end(&progress);
    return give(arena, &asked, &problem, &answer, err);
}
