#include "cli/run_replan.h"

#include "cli/plan_question.h"
#include "core/console.h"
#include "core/file.h"
#include "core/units.h"
#include "cost_models/goodput.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct search_request search_of(const struct evaluation_request *was)
{
    return (struct search_request){
        .model = was->model,
        .cluster = was->cluster,
        .stack = was->stack,
        .fabrics = was->fabrics,
        .workload = was->workload,
        .top = 1,
    };
}

// Where the plan for so many ranks now lies.
static char *write_plan(struct arena *arena, const char *folder, int ranks, const char *text,
                        struct err *err)
{
    char *path = arena_print(arena, "%s/plan-for-%d.json", folder, ranks);
    if (!text) return NULL;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        err_set(err, ERR_SYSTEM, "making %s: %s", folder, strerror(errno));
        return NULL;
    }
    return file_write(path, text, strlen(text), err) ? path : NULL;
}

char *run_plan_fewer(struct arena *arena, const char *path, const char *folder, int ranks,
                     struct err *err)
{
    struct evaluation_request was;
    struct fewer_answer answer;
    if (!plan_question(arena, path, NULL, &was, err)) return NULL;
    const struct search_request request = search_of(&was);
    if (!fewer_search(arena, &request, &was.parallel, ranks, &answer, err)) return NULL;
    const struct parallel *found = &answer.result.best[0].parallel;
    int count = answer.request.cluster->rank_count;
    const char *text =
        plan_found_text(arena, &answer.request, &answer.result, found, was.bands, err);
    char *written = write_plan(arena, folder, count, text, err);
    if (!written) return NULL;
    console_printf(stderr,
                   "meshwright run: planned anew for %d of %d ranks: %s in place of %s; kept: %s; "
                   "the plan is %s\n",
                   count, was.cluster->rank_count, parallel_text(arena, found, was.stack),
                   parallel_text(arena, &was.parallel, was.stack), fewer_kept_text(answer.kept),
                   written);
    return written;
}

// What the steps left take, by the plan that runs and by the one that was found, and what it takes
// to go over: as long as storing a checkpoint and starting took in this run, else, of what was not
// measured, as predicted.
struct stakes {
    int64_t steps;
    double stay_s, other_s, move_s;
};

// How long a checkpoint takes until it is stored: measured, or what is predicted.
static bool find_storing(const struct evaluation_request *was, double measured_s, double *stored_s,
                         struct err *err)
{
    struct arena arena = {0}, scratch = {0};
    struct evaluation evaluation;
    *stored_s = measured_s;
    if (measured_s > 0) return true;
    bool done = evaluate(&arena, &scratch, was, &evaluation, err);
    if (done) {
        const struct goodput_request request = {
            .cluster = was->cluster,
            .step_s = evaluation.prediction.step_s,
            .checkpoint_bytes =
                goodput_checkpoint_bytes(evaluation.program, evaluation.graph, was->stack),
        };
        *stored_s = goodput_checkpoint_of(&request).write_s;
    }
    arena_free(&arena);
    arena_free(&scratch);
    return done;
}

static bool find_stakes(const struct run_replan *replan, const struct evaluation_request *was,
                        const struct launch_slow *slow, const struct around_answer *answer,
                        struct stakes *stakes, struct err *err)
{
    double stored_s;
    if (!find_storing(was, slow->stored_s, &stored_s, err)) return false;
    stakes->steps = replan->arguments->steps - slow->step;
    // What runs now is measured. By how much the other is faster is the model's word.
    double other_s = slow->step_s * answer->step_s / answer->stay_s;
    stakes->stay_s = slow->step_s * (double)stakes->steps;
    stakes->other_s = other_s * (double)stakes->steps;
    stakes->move_s = slow->start_s + stored_s;
    return true;
}

static bool decide(struct arena *arena, struct run_replan *replan, const struct launch_slow *slow,
                   struct err *err)
{
    struct evaluation_request was;
    struct around_answer answer;
    struct stakes stakes = {0};
    const struct run_arguments *arguments = replan->arguments;
    if (!plan_question(arena, arguments->plan, NULL, &was, err)) return false;
    const struct around_request request = {search_of(&was), was.parallel, slow->rank, slow->ratio};
    if (!around_search(arena, &request, &answer, err)) return false;
    if (!answer.is_found)
        return err_set(err, ERR_USAGE, "no other plan fits on %s", was.cluster->name);
    if (!find_stakes(replan, &was, slow, &answer, &stakes, err)) return false;
    int count = answer.request.cluster->rank_count;
    bool is_worth_it = stakes.stay_s - stakes.other_s > stakes.move_s;
    const char *text = is_worth_it ? plan_found_text(arena, &answer.request, &answer.result,
                                                     &answer.parallel, was.bands, err)
                                   : NULL;
    char *written = write_plan(arena, arguments->checkpoint.folder, count, text, err);
    if (err->kind) return false;
    const char *who = answer.keeps ? arena_print(arena, "rank %d with less to do", slow->rank)
                                   : arena_print(arena, "without rank %d, %d of %d ranks",
                                                 slow->rank, count, was.cluster->rank_count);
    console_printf(
        stderr,
        "meshwright run: %s, %s in place of %s: %lld steps left take %s instead of %s, going over "
        "%s: %s%s\n",
        who, parallel_text(arena, &answer.parallel, was.stack),
        parallel_text(arena, &was.parallel, was.stack), (long long)stakes.steps,
        units_duration(arena, stakes.other_s), units_duration(arena, stakes.stay_s),
        units_duration(arena, stakes.move_s),
        is_worth_it ? "goes over; the plan is " : "stays as it is", is_worth_it ? written : "");
    replan->plan = written;
    replan->left_out = answer.keeps ? -1 : slow->rank;
    return is_worth_it;
}

bool run_replan(void *context, const struct launch_slow *slow)
{
    struct run_replan *replan = context;
    struct err err = {0};
    replan->plan = NULL;
    bool goes = decide(replan->arena, replan, slow, &err);
    if (err.kind)
        console_printf(stderr, "meshwright run: not planned around rank %d: %s\n", slow->rank,
                       err.text);
    return goes;
}
