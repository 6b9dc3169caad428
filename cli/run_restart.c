#include "cli/run_restart.h"

#include "cli/options.h"
#include "cli/plan_question.h"
#include "core/console.h"
#include "core/file.h"
#include "core/version.h"
#include "executor/checkpoint/store.h"
#include "planner/fewer.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// A rank that stands still for ten predicted steps, and no less than this, is stuck; the job ends
// within half a minute of it.
static const double STUCK_LEAST_S = 10, STUCK_MOST_S = 20;

double run_restart_stuck_s(const struct run_job *job)
{
    double steps_s = 10 * job->evaluation.prediction.step_s;
    if (steps_s < STUCK_LEAST_S) return STUCK_LEAST_S;
    return steps_s < STUCK_MOST_S ? steps_s : STUCK_MOST_S;
}

// The plan as a file, in the arena.
static const char *plan_text(struct arena *arena, const struct fewer_answer *answer,
                             const struct bands *bands, struct err *err)
{
    const struct search_request *request = &answer->request;
    const struct evaluation_request evaluated = {
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .bands = bands,
        .workload = request->workload,
        .parallel = answer->result.best[0].parallel,
        .selected_count = answer->result.considered_count,
    };
    struct arena scratch = {0};
    struct evaluation evaluation;
    bool done = evaluate(arena, &scratch, &evaluated, &evaluation, err);
    arena_free(&scratch);
    if (!done) return NULL;
    const struct plan_document document = {
        .request = &evaluated,
        .evaluation = &evaluation,
        .search = &answer->result,
        .device_bytes = cluster_device_bytes(request->cluster),
        .version = MESHWRIGHT_VERSION,
    };
    return plan_document_text(arena, &document);
}

// Plans for at most so many ranks what the file plans for more. The new file lies in the folder of
// the checkpoints, so that whoever goes on by hand has it too. NULL and a set `err` where nothing
// fits.
static char *plan_fewer(struct arena *arena, const char *path, const char *folder, int ranks,
                        struct err *err)
{
    struct evaluation_request was;
    struct fewer_answer answer;
    if (!plan_question(arena, path, NULL, &was, err)) return NULL;
    const struct search_request request = {
        .model = was.model,
        .cluster = was.cluster,
        .stack = was.stack,
        .fabrics = was.fabrics,
        .workload = was.workload,
        .top = 1,
    };
    if (!fewer_search(arena, &request, &was.parallel, ranks, &answer, err)) return NULL;
    int count = answer.request.cluster->rank_count;
    const char *text = plan_text(arena, &answer, was.bands, err);
    char *written = arena_print(arena, "%s/plan-for-%d.json", folder, count);
    if (!text) return NULL;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        err_set(err, ERR_SYSTEM, "making %s: %s", folder, strerror(errno));
        return NULL;
    }
    if (!file_write(written, text, strlen(text), err)) return NULL;
    console_printf(stderr,
                   "meshwright run: planned anew for %d of %d ranks: %s in place of %s; kept: %s; "
                   "the plan is %s\n",
                   count, was.cluster->rank_count,
                   parallel_text(arena, &answer.result.best[0].parallel),
                   parallel_text(arena, &was.parallel), fewer_kept_text(answer.kept), written);
    return written;
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
    char *plan = plan_fewer(arena, arguments->plan, arguments->checkpoint.folder, left, err);
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

// Where a rank has died twice with no checkpoint between, what it ran on is gone.
struct death {
    int rank;
    int64_t step;
};

static bool is_gone(struct death *before, const struct launch_request *request, int rank,
                    const char *folder)
{
    const struct death now = {rank, last_step(folder)};
    bool is_again = rank >= 0 && before->rank == now.rank && before->step == now.step;
    *before = now;
    return is_again && request->rank_count > 1 && !request->rendezvous;
}

// The job goes on without one of its ranks; where no plan fits it goes on as it was, which is said.
static bool drop_rank(struct arena *arena, struct run_arguments *arguments,
                      struct launch_request *request, char **whole, struct err *err)
{
    struct run_job job;
    struct err refused = {0};
    char *plan = plan_fewer(arena, arguments->plan, arguments->checkpoint.folder,
                            request->rank_count - 1, &refused);
    if (!plan) {
        console_printf(stderr, "meshwright run: not planned anew: %s\n", refused.text);
        return true;
    }
    put_plan(plan, arguments, request->argc, whole);
    if (!run_job_load(arena, arguments, &job, err)) return false;
    request->rank_count = job.rank_count;
    // To a rank alone mpirun says nothing that it is known by.
    request->spawns = request->spawns || job.rank_count == 1;
    request->stuck_s = run_restart_stuck_s(&job);
    return true;
}

int run_restart(struct arena *arena, const struct run_arguments *given,
                struct launch_request *request, char **whole, struct err *err)
{
    static char resume[] = "--resume=auto";
    struct run_arguments arguments = *given;
    const struct checkpoint_arguments *checkpoint = &arguments.checkpoint;
    struct death before = {.rank = -1};
    bool is_signalled = false;
    int failed_rank = -1;
    request->is_signalled = &is_signalled;
    request->failed_rank = &failed_rank;
    for (int left = checkpoint->restarts;; left--) {
        int status = 0;
        if (launch_job(request, &status, err)) return status;
        bool may = left > 0 && err->kind == ERR_SYSTEM && !is_signalled;
        if (!may) return exit_status(err);
        console_printf(stderr,
                       "meshwright run: %s: starts again from the last checkpoint in %s, restart "
                       "%d of %d\n",
                       err->text, checkpoint->folder, checkpoint->restarts - left + 1,
                       checkpoint->restarts);
        *err = (struct err){0};
        // Before the first checkpoint there is none to go on from.
        if (!checkpoint->resume && left == checkpoint->restarts) whole[request->argc++] = resume;
        bool drops = is_gone(&before, request, failed_rank, checkpoint->folder);
        if (drops && !drop_rank(arena, &arguments, request, whole, err)) return exit_status(err);
        if (drops) before.rank = -1;
    }
}
