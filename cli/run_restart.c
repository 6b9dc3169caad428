#include "cli/run_restart.h"

#include "cli/options.h"
#include "cli/plan_question.h"
#include "cli/run_replan.h"
#include "core/console.h"
#include "core/units.h"
#include "executor/checkpoint/store.h"
#include "executor/launcher/restart.h"

#include <stdio.h>
#include <string.h>

// A rank that stands still for ten predicted steps, and no less than this, is stuck; the job ends
// within half a minute of it.
static const double STUCK_LEAST_S = 10, STUCK_MOST_S = 20;

double run_restart_stuck_s(const struct run_job *job)
{
    double steps_s = 10 * job->evaluation.prediction.step_s;
    if (steps_s < STUCK_LEAST_S) return STUCK_LEAST_S;
    return steps_s < STUCK_MOST_S ? steps_s : STUCK_MOST_S;
}

static void put_plan(char *plan, struct run_arguments *arguments, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (argv[i] == arguments->plan) argv[i] = plan;
    }
    arguments->plan = plan;
}

bool run_restart_fit(struct arena *arena, struct run_arguments *arguments,
                     const struct launch_place *place, int argc, char **argv, struct err *err)
{
    int left = arguments->checkpoint.ranks_left;
    struct evaluation_request was;
    if (left == 0 || place->is_spawned) return true;
    if (place->is_launched || arguments->rendezvous)
        return err_set(err, ERR_USAGE,
                       "--ranks-left: these ranks are started by another launcher, so plan for "
                       "them: meshwright plan");
    if (!plan_question(arena, arguments->plan, NULL, &was, err)) return false;
    int count = was.cluster->rank_count;
    if (left > count)
        return err_set(err, ERR_USAGE, "--ranks-left %d: the plan has %d ranks", left, count);
    if (left == count) return true;
    char *plan = run_plan_fewer(arena, arguments->plan, arguments->checkpoint.folder, left, err);
    if (!plan) return false;
    put_plan(plan, arguments, argc, argv);
    return true;
}

// The step of the last checkpoint; 0: there is none.
static int64_t last_step(const char *folder)
{
    struct arena arena = {0};
    struct err ignored = {0};
    const struct checkpoint_store store = {&DISK_REAL, folder};
    int64_t *steps, last = 0;
    int count = 0;
    if (checkpoint_store_steps(&store, &arena, &steps, &count, &ignored) && count > 0)
        last = steps[0];
    arena_free(&arena);
    return last;
}

// What changes from one start of the ranks to the next.
struct restart {
    struct arena *arena;
    struct run_arguments arguments;
    struct launch_request *request;
    char **whole;
    int *left_out;  // places, ascending
    struct restart_rule rule;
    struct run_replan replan;
    bool is_signalled, is_moved;
    int failed_rank;
    struct launch_times times;  // of the last start
    double ended_s;             // of the one before; 0: there was none, or it never ran a step
    double restarts_s;          // from those ends to the first steps behind, all together
    int restart_count;          // that came so far
};

// No rank works any more where this one did.
static void leave_place(struct restart *restart, int rank)
{
    struct launch_request *request = restart->request;
    int at = request->left_out_count++;
    int home = launch_home(restart->left_out, at, rank);
    for (; at > 0 && restart->left_out[at - 1] > home; at--)
        restart->left_out[at] = restart->left_out[at - 1];
    restart->left_out[at] = home;
}

// The job goes on by another plan. `gone`: the rank that it is without; -1: none.
static bool change_plan(struct restart *restart, char *plan, int gone, struct err *err)
{
    struct run_job job;
    struct launch_request *request = restart->request;
    put_plan(plan, &restart->arguments, request->argc, restart->whole);
    if (!run_job_load(restart->arena, &restart->arguments, &job, err)) return false;
    if (gone >= 0) leave_place(restart, gone);
    request->rank_count = job.rank_count;
    // To a rank alone mpirun says nothing that it is known by.
    request->spawns = request->spawns || job.rank_count == 1;
    request->stuck_s = run_restart_stuck_s(&job);
    restart->rule.died_rank = -1;
    return true;
}

// The job goes on without one of its ranks; where no plan fits it goes on as it was, which is said.
static bool drop_rank(struct restart *restart, struct err *err)
{
    struct err refused = {0};
    char *plan = run_plan_fewer(restart->arena, restart->arguments.plan,
                                restart->arguments.checkpoint.folder,
                                restart->request->rank_count - 1, &refused);
    if (plan) return change_plan(restart, plan, restart->failed_rank, err);
    console_printf(stderr, "meshwright run: not planned anew: %s\n", refused.text);
    return true;
}

static void prepare(struct restart *restart)
{
    struct launch_request *request = restart->request;
    request->is_signalled = &restart->is_signalled;
    request->failed_rank = &restart->failed_rank;
    request->times = &restart->times;
    request->left_out = restart->left_out;
    restart->replan =
        (struct run_replan){.arena = restart->arena, .arguments = &restart->arguments};
    if (!restart->arguments.checkpoint.replan) return;
    request->moves = run_replan;
    request->context = &restart->replan;
    request->is_moved = &restart->is_moved;
}

// From now on ranks go on from the last checkpoint, if there is one.
static void go_on(struct restart *restart)
{
    static char resume[] = "--resume=auto";
    struct launch_request *request = restart->request;
    bool is_said = restart->arguments.checkpoint.resume != NULL;
    if (!is_said) restart->whole[request->argc++] = resume;
    restart->arguments.checkpoint.resume = "auto";
}

// After a job that has ended otherwise than well. True when that is the end.
static bool start_again(struct restart *restart, int *status, struct err *err)
{
    const struct checkpoint_arguments *checkpoint = &restart->arguments.checkpoint;
    const struct restart_end end = {
        .may_help = err->kind == ERR_SYSTEM && !restart->is_signalled,
        .failed_rank = restart->failed_rank,
        .rank_count = restart->request->rank_count,
        .has_begun = restart->times.first_step_s > 0,
        .is_fixed = restart->request->rendezvous != NULL,
        .last_step = checkpoint->folder ? last_step(checkpoint->folder) : 0,
    };
    enum restart_next next = restart_next(&restart->rule, &end);
    if (next == RESTART_NOT) return true;
    console_printf(stderr,
                   "meshwright run: %s: starts again from the last checkpoint in %s, restart %d of "
                   "%d\n",
                   err->text, checkpoint->folder, checkpoint->restarts - restart->rule.left,
                   checkpoint->restarts);
    *err = (struct err){0};
    go_on(restart);
    if (next == RESTART_AGAIN || drop_rank(restart, err)) return false;
    *status = exit_status(err);
    return true;
}

// What a restart takes is known when its first step begins; one that is cut short counts with the
// next.
static void count_restart(struct restart *restart)
{
    const struct launch_times *times = &restart->times;
    if (times->first_step_s == 0) return;
    if (restart->ended_s > 0) {
        restart->restarts_s += times->first_step_s - restart->ended_s;
        restart->restart_count++;
    }
    restart->ended_s = times->ended_s;
}

static void say_restarts(const struct restart *restart)
{
    if (restart->restart_count == 0) return;
    struct arena scratch = {0};
    console_printf(stderr,
                   "meshwright run: %d restart%s: %s%s from the end of the ranks to the next step, "
                   "the checkpoint read\n",
                   restart->restart_count, restart->restart_count == 1 ? "" : "s",
                   units_seconds(&scratch, restart->restarts_s / restart->restart_count),
                   restart->restart_count == 1 ? "" : " in the mean");
    arena_free(&scratch);
}

// One start of the ranks. True when the job is over, with its *status.
static bool start(struct restart *restart, int *status, struct err *err)
{
    bool is_well = launch_job(restart->request, status, err);
    count_restart(restart);
    // Who was to save and could not goes over by the checkpoint before.
    bool moves = restart->is_moved && restart->replan.plan && !restart->is_signalled &&
                 (is_well ? *status == ERR_SYSTEM : err->kind == ERR_SYSTEM);
    if (is_well && !moves) return true;
    *status = is_well ? 0 : exit_status(err);
    if (moves) {
        if (!is_well) console_printf(stderr, "meshwright run: %s\n", err->text);
        *err = (struct err){0};
        go_on(restart);
        bool done = change_plan(restart, restart->replan.plan, restart->replan.left_out, err);
        if (!done) *status = exit_status(err);
        return !done;
    }
    return start_again(restart, status, err);
}

int run_restart(struct arena *arena, const struct run_arguments *given,
                struct launch_request *request, char **whole, struct err *err)
{
    struct restart restart = {.arena = arena,
                              .arguments = *given,
                              .request = request,
                              .whole = whole,
                              .left_out = ARENA_NEW(arena, int, request->rank_count),
                              .rule = {given->checkpoint.restarts, -1, 0, 0},
                              .failed_rank = -1};
    int status = 0;
    prepare(&restart);
    while (!start(&restart, &status, err))
        restart.is_moved = false;
    say_restarts(&restart);
    return status;
}
