#include "cli/anchor.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/plan_annotate.h"
#include "cli/plan_from.h"
#include "cli/plan_options.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/progress.h"
#include "core/units.h"
#include "exchange/nearest.h"
#include "planner/batch.h"
#include "planner/explain.h"
#include "planner/outgrown.h"
#include "reports/table/ablation_table.h"
#include "reports/table/anchor_text.h"
#include "reports/table/explain_table.h"
#include "reports/table/idle_text.h"
#include "reports/table/input_text.h"
#include "reports/table/per_operator_text.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"
#include "reports/table/release_text.h"
#include "reports/table/space_text.h"
#include "reports/table/uneven_text.h"
#include "reports/table/why_table.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct output {
    const char *path;
    const char *why;  // KEY=VALUE, and what they are
    enum choice why_choice;
    int64_t why_value;
    bool ablation, explain, json;
    bool space;             // print what would be searched, and search nothing
    const char *idle;       // lines about idle GPUs, under the table; NULL: not asked
    const char *operators;  // lines about layouts of operators, under the table; NULL: not asked
    const char *readers;    // of token files; NULL: not asked
    const char *target_name;
    const struct exchange_target *target;  // that will run the plan; NULL: any
    struct plan_from from;
    struct anchor_arguments anchor_files;
    struct anchor anchor;  // used_count 0: none
    struct uneven_answer uneven;
    double samples, epochs;  // of a dataset; 0: not said
};

static void show_progress(void *context, double done_ratio, double best_s, double plans_per_s)
{
    char left[PROGRESS_LEFT_BYTES];
    char best[32] = "nothing fits yet";
    if (isfinite(best_s)) snprintf(best, sizeof best, "best %.4g s", best_s);
    progress_show(context, "search %3.0f %%  %s  %.0fk plans/s%s", 100 * done_ratio, best,
                  plans_per_s / 1000, progress_left(context, done_ratio, left));
}

// A layout whose degrees and micro-batch are pinned is a question about that plan: it is written
// even when it does not fit.
static bool is_pinned(const struct pins *pins)
{
    const struct int_range *ranges[] = {&pins->degree[AXIS_TP], &pins->degree[AXIS_PP],
                                        &pins->degree[AXIS_DP]};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (!ranges[i]->set || ranges[i]->low != ranges[i]->high) return false;
    }
    return true;
}

static bool answer_ablation(struct arena *arena, const struct evaluation_request *request,
                            struct err *err)
{
    struct arena scratch = {0};
    struct ablation ablation;
    bool done = ablate(arena, &scratch, request, &ablation, err);
    arena_free(&scratch);
    if (done) console_print(stdout, ablation_text(arena, &ablation));
    return done;
}

static bool print_explain(struct arena *arena, const struct search_request *search_request,
                          const struct search_result *result,
                          const struct evaluation_request *request,
                          const struct evaluation *evaluation, struct err *err)
{
    struct arena scratch = {0};
    struct explain explain = {
        .breakdown = breakdown_make(arena, &scratch, request, evaluation),
        .sensitivity = sensitivity_make(arena, &scratch, request, evaluation),
    };
    bool done = rivals_find(arena, &scratch, search_request, result, &explain.rivals, err);
    arena_free(&scratch);
    if (done) console_print(stdout, explain_text(arena, &explain));
    return done;
}

static const char *said_text(struct arena *arena, const char *path)
{
    const char *said = output_said(arena, path), *word = plain_shell(arena, path);
    if (!*said) return "";
    return arena_print(arena, "%s.\nNext: meshwright simulate %s\n      meshwright report %s\n",
                       said, word, word);
}

// A line of what reading a step's data takes, where it is asked for; a warning where ranks wait.
static const char *input_said(struct arena *arena, const struct output *output,
                              const struct evaluation *evaluation)
{
    struct arena scratch = {0};
    if (!input_has_ids(evaluation->program)) return "";
    const struct input_request request = {
        .program = evaluation->program,
        .readers = output->readers ? readers_parse(output->readers) : READERS_RANK,
        .step_s = evaluation->prediction.step_s,
    };
    const struct input_price price = input_price(&scratch, &request);
    arena_free(&scratch);
    const char *warning = input_warning(arena, &price);
    if (warning) console_printf(stderr, "warning: %s\n", warning);
    return output->readers ? input_text(arena, &price) : "";
}

static bool write_plan(struct arena *arena, const struct search_request *request,
                       const struct search_result *result, const struct candidate *candidate,
                       const struct output *output, struct err *err)
{
    struct evaluation_request evaluation_request;
    struct evaluation evaluation;
    const struct bands *bands = bands_load(arena, err);
    if (bands && output->anchor.is_met) bands = bands_anchored(arena, bands);
    if (!bands || !plan_found_evaluate(arena, request, result, &candidate->parallel, bands,
                                       &evaluation_request, &evaluation, err))
        return false;
    // All texts before the file: where memory runs out, none is left behind.
    bool has_table = !output->json && result->best_count > 0;
    char *text = plan_found_document(arena, result, &evaluation_request, &evaluation);
    const char *table = has_table ? plan_table_text(arena, request, result, &evaluation) : text;
    const char *noted = output_noted(arena, output->path);
    const char *said = said_text(arena, output->path);
    const char *input = input_said(arena, output, &evaluation);
    const char *uneven = uneven_text(arena, request, result, &output->uneven, &evaluation);
    if (!file_write(output->path, text, strlen(text), err)) return false;
    if (output->json) {
        console_print(stderr, noted);
        fputs(text, stdout);
    } else if (has_table) {
        if (output->from.path) console_print(stdout, plan_from_head(arena, &output->from));
        console_print(stdout, table);
        console_print(stdout, uneven);
        if (output->from.path)
            console_print(stdout, plan_from_foot(arena, &output->from, request, result));
        if (output->idle) console_print(stdout, output->idle);
        if (output->operators) console_print(stdout, output->operators);
        console_print(stdout, release_text(arena, &evaluation_request, &evaluation));
        if (output->anchor.used_count > 0)
            console_printf(stdout, "\n%s", anchor_text(arena, &output->anchor));
        console_print(stdout, input);
        console_print(stdout, said);
    }
    if (output->ablation && !answer_ablation(arena, &evaluation_request, err)) return false;
    return !output->explain ||
           print_explain(arena, request, result, &evaluation_request, &evaluation, err);
}

static void print_why(struct arena *arena, const struct search_request *request,
                      const struct search_result *result, const struct output *output)
{
    struct explanation explanation =
        explain_why(arena, request, result, output->why_choice, output->why_value);
    console_printf(stdout, "\n%s",
                   explanation_text(arena, output->why, &explanation, request->stack));
}

static int answer_nothing(struct arena *arena, const struct search_request *request,
                          const struct search_result *result, const struct output *output,
                          struct err *err)
{
    const char *text = plan_nothing_text(arena, request, result);
    if (is_pinned(&request->pins) &&
        !write_plan(arena, request, result, &result->closest, output, err)) {
        return exit_status(err);
    }
    console_printf(stderr, "meshwright plan: %s\n", text);
    if (output->why) print_why(arena, request, result, output);
    return 1;
}

// The best so far, named as such. What asks for more searches is left out.
static int answer_stopped(struct arena *arena, const struct search_request *request,
                          const struct search_result *result, const struct output *output,
                          struct err *err)
{
    const char *priced = units_count(arena, result->priced_count);
    if (result->best_count == 0) {
        console_printf(
            stderr,
            "meshwright plan: stopped by SIGINT before a plan was found that fits (%s of %s "
            "priced)\n",
            priced, units_count(arena, result->considered_count));
        return INTERRUPT_STATUS;
    }
    struct output best = *output;
    best.why = NULL;
    best.ablation = best.explain = false;
    console_printf(stderr, "note: stopped by SIGINT: the best of the %s plans priced so far%s\n",
                   priced,
                   output->why || output->ablation || output->explain
                       ? "; --why, --ablation and --explain are of a finished search"
                       : "");
    if (!write_plan(arena, request, result, &result->best[0], &best, err)) return exit_status(err);
    return INTERRUPT_STATUS;
}

// The request's cluster becomes the one that is planned for; `idle` says what of it stands still.
static bool search_idle(struct arena *arena, struct search_request *request,
                        struct search_result *result, const char **idle, struct err *err)
{
    struct idle_answer answer = {0};
    if (!idle_search(arena, request, &answer, result, err)) return false;
    if (result->best_count > 0) *idle = idle_answer_text(arena, request, &answer, result);
    request->cluster = answer.cluster;
    return true;
}

// A smaller number of GPUs that is faster, or has a plan where all have none, goes with a word.
static void hint_idle(struct arena *arena, const struct search_request *request,
                      const struct search_result *result)
{
    if (result->status == SEARCH_STOPPED) return;
    double best_s = result->best_count > 0 ? result->best[0].closed_form_s : INFINITY;
    struct idle_hint hint = idle_hint(request, best_s);
    if (hint.gpus == 0) return;
    console_printf(stderr, "note: %s\n", idle_hint_text(arena, request, &hint, best_s));
}

// What a drive that a step both reads and writes does at once is not guessed.
static void note_drives(const struct search_request *request, const struct offload *offload)
{
    const struct cluster *cluster = request->cluster;
    bool is_known = offload->optimizer != TIER_NVME;
    for (int i = 0; i < cluster->node_group_count && !is_known; i++)
        is_known = cluster->nodes[i].host.nvme_duplex_ratio > 0;
    if (is_known) return;
    console_printf(
        stderr, "note: %s gives no nvme_duplex_ratio: drives read and write in turn, as priced\n",
        cluster->name);
}

static bool search(struct arena *arena, const struct plan_arguments *arguments,
                   struct search_request *request, struct output *output,
                   struct search_result *result, struct err *err)
{
    const struct exchange_target *target = output->target;
    bool may_idle = false;
    if (!plan_may_idle(arguments, &may_idle, err)) return false;
    struct progress progress = progress_start();
    request->progress = show_progress;
    request->progress_context = &progress;
    request->stop = interrupt_catch();
    bool says_memory = arguments->device_memory_bytes > 0;
    struct outgrown outgrown = {0};
    bool done = may_idle ? search_idle(arena, request, result, &output->idle, err)
                : target ? nearest_search(arena, target, request, result, err)
                         : outgrown_search(arena, request, says_memory, result, &output->uneven,
                                           &outgrown, err);
    if (done && output->from.path) done = plan_from_search(arena, &output->from, request, err);
    progress_end(&progress);
    if (outgrown.said) console_printf(stderr, "note: %s\n", outgrown.said);
    if (done && result->best_count > 0) note_drives(request, &result->best[0].parallel.offload);
    bool is_answered = done || err->kind == ERR_USAGE;
    if (is_answered && !may_idle) hint_idle(arena, request, result);
    interrupt_release();
    request->stop = NULL;
    return done;
}

static int answer_space(struct arena *arena, const struct search_request *request, struct err *err)
{
    struct space_list *list = ARENA_NEW(arena, struct space_list, 1);
    if (!space_list(arena, request, list, err)) return exit_status(err);
    console_print(stdout, space_text(arena, request, list));
    return 0;
}

// What is asked of another program: its file, its name.
static bool read_program(struct arena *arena, struct plan_arguments *arguments,
                         struct output *output, struct err *err)
{
    if (output->from.path && !plan_from_read(arena, &output->from, arguments, err)) return false;
    if (!output->target_name) return true;
    output->target = target_find(output->target_name, err);
    if (output->target && !arguments->stack) arguments->stack = output->target->stack;
    return output->target != NULL;
}

// A dataset and its epochs are so many tokens.
static bool take_dataset(const struct plan_arguments *arguments, const struct output *output,
                         struct workload *workload, struct err *err)
{
    if (output->samples <= 0 && output->epochs <= 0) return true;
    if (output->samples <= 0 || output->epochs <= 0)
        return err_set(err, ERR_USAGE, "--samples and --epochs go together");
    if (arguments->tokens > 0)
        return err_set(err, ERR_USAGE, "--tokens and --samples say the same: give one of them");
    workload->tokens = output->samples * output->epochs * (double)workload->seq_len;
    return true;
}

static bool lay_out(struct arena *arena, const struct search_request *request, int wanted,
                    struct search_result *result, struct output *output, struct err *err)
{
    struct per_operator_found found;
    if (!per_operator_improve(arena, request, result, wanted, &found, err)) return false;
    output->operators = per_operator_text(arena, &found);
    return true;
}

static bool take_anchor(struct arena *arena, struct output *output, struct search_request *request,
                        struct err *err)
{
    if (output->anchor_files.files.count > 0)
        return anchor_take(arena, &output->anchor_files, request, &output->anchor, err);
    if (!output->anchor_files.plan) return true;
    return err_set(err, ERR_USAGE, "--anchor-plan: --anchor FILE says what was measured of it");
}

static int run(struct arena *arena, struct plan_arguments *arguments, struct output *output,
               struct err *err)
{
    struct search_request request = {0};
    if (!read_program(arena, arguments, output, err)) return exit_status(err);
    if (!plan_request(arena, arguments, &request, err) ||
        !take_anchor(arena, output, &request, err))
        return exit_status(err);
    if (!take_dataset(arguments, output, &request.workload, err)) return exit_status(err);
    const char *why = NULL;
    if (output->target &&
        !target_runs_on(arena, output->target, request.stack, request.cluster, &why)) {
        console_printf(stderr, "meshwright plan: %s\n", why);
        return 1;
    }
    const char *warning = batch_warning(arena, &request.workload);
    if (warning) console_printf(stderr, "warning: %s\n", warning);
    if (output->space) return answer_space(arena, &request, err);

    struct search_result result = {0};
    int wanted = request.top > 0 ? request.top : 1;
    if (arguments->per_operator && wanted < PER_OPERATOR_PLANS) request.top = PER_OPERATOR_PLANS;
    if (!search(arena, arguments, &request, output, &result, err)) return exit_status(err);
    if (result.status == SEARCH_NOTHING_FITS) {
        return answer_nothing(arena, &request, &result, output, err);
    }
    request.top = wanted;
    if (result.status == SEARCH_STOPPED)
        return answer_stopped(arena, &request, &result, output, err);
    if (arguments->per_operator && !lay_out(arena, &request, wanted, &result, output, err))
        return exit_status(err);
    if (!write_plan(arena, &request, &result, &result.best[0], output, err)) {
        return exit_status(err);
    }
    if (output->why) print_why(arena, &request, &result, output);
    if (output->samples > 0 && !output->json)
        console_printf(stdout, "\nBatches for %s, each seen %s:\n%s",
                       units_counted(arena, output->samples, "sequence"),
                       units_counted(arena, output->epochs, "time"),
                       batch_table(arena, &request.workload, output->samples, output->epochs));
    return 0;
}

static bool check_json(const struct output *output, struct err *err)
{
    if (output->json && output->why)
        return err_set(err, ERR_USAGE, "--why: --json prints the plan alone");
    if (output->json && output->space)
        return err_set(err, ERR_USAGE, "--space: a table alone, no plan that --json would print");
    if (!output->json || (!output->ablation && !output->explain)) return true;
    const char *option = output->ablation ? "--ablation" : "--explain";
    return err_set(err, ERR_USAGE,
                   "%s: --json prints the plan alone; `simulate PLAN %s --json` has it", option,
                   option);
}

// Before anything is searched for.
static bool check_why(struct arena *arena, struct output *output, struct err *err)
{
    return !output->why || choice_parse_pair(arena, "--why: ", output->why, &output->why_choice,
                                             &output->why_value, err);
}

int plan_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_are_asked(argc, argv, err)) return tables_plan_command(arena, argc, argv, err);
    if (err->kind) return exit_status(err);
    struct plan_arguments arguments = plan_arguments_default();
    struct output output = {.path = "plan.json"};
    struct option options[PLAN_OPTION_COUNT + 21] = {0};
    int count = plan_options(&arguments, options);
    if (plan_from_is_asked(argc, argv)) plan_from_options(options, &count);
    const struct option rows[] = {
        {"--from", OPTION_TEXT, &output.from.path,
         "in place of MODEL: what another program is started with; what it does, what would be "
         "better",
         "FILE", 0, 0},
        {"--annotate", OPTION_TEXT, &arguments.annotate,
         "layouts of single operators and tensors, `*.mlp.up.weight: ffn/tp`, and pins; the rest "
         "follows",
         "FILE", 0, 0},
        {"--per-operator", OPTION_FLAG, &arguments.per_operator,
         "search a layout for each operator, from those of the best plans on", NULL, 0, 0},
        {"--for", OPTION_CHOICE, &output.target_name,
         "only plans that this program can be told (`meshwright export --to`)", target_names(arena),
         0, 0},
        {"Dataset", OPTION_GROUP, NULL,
         "instead of --tokens, with how many steps each batch makes of it; its files", NULL, 0, 0},
        {"--samples", OPTION_F64, &output.samples, "its sequences", "N", 1, 1e18},
        {"--epochs", OPTION_F64, &output.epochs, "times that each is seen", "N", 1e-6, 1e9},
        {"--readers", OPTION_CHOICE, &output.readers,
         "what its files take a step when every rank reads them, one a host, or rank 0 for all",
         READERS_WORDS, 0, 0},
        {"--anchor", OPTION_TEXTS, &output.anchor_files.files,
         "a run that was measured corrects the constants first: run.json, the log of a trainer, or "
         "lines of runs (`compare --row`); may be repeated",
         "FILE", 0, 0},
        {"--anchor-plan", OPTION_TEXT, &output.anchor_files.plan, "the plan that the log ran",
         "PLAN", 0, 0},
        {"Answers", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--why", OPTION_TEXT, &output.why, "what this choice would have cost", "KEY=VALUE", 0, 0},
        {"--ablation", OPTION_FLAG, &output.ablation, "what each pass gains", NULL, 0, 0},
        {"--explain", OPTION_FLAG, &output.explain,
         "every operator, collective and constant: seconds and influence", NULL, 0, 0},
        {"--space", OPTION_FLAG, &output.space,
         "print the values that would be searched, and what would be left out; search nothing",
         NULL, 0, 0},
        {"Output", OPTION_GROUP, NULL, "the table on stdout, the best plan in a file", NULL, 0, 0},
        {"-o", OPTION_OUTPUT, &output.path, "plan file (default plan.json); - is stdout", "FILE", 0,
         0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &output.json, "print the plan instead of the table", NULL, 0, 0},
    };
    // The table ends with a row of zeros.
    assert((size_t)count + sizeof rows / sizeof *rows < sizeof options / sizeof *options);
    memcpy(options + count, rows, sizeof rows);
    bool is_asked = !options_help(argc, argv, options);
    bool is_read = is_asked && plan_annotate_arguments(arena, options, &argc, &argv, err) &&
                   options_parse(options, argc, argv, err) &&
                   output_take_stdout(&output.path, err) && check_json(&output, err) &&
                   check_why(arena, &output, err);
    return is_read ? run(arena, &arguments, &output, err) : is_asked ? exit_status(err) : 0;
}
