#include "cli/run_checkpoint.h"

#include "core/console.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int terminated;

static void note_signal(int signal)
{
    (void)signal;
    atomic_store(&terminated, 1);
}

// Whether SIGTERM came.
static bool run_checkpoint_is_ended(void)
{
    return atomic_load(&terminated) != 0;
}

static bool is_stop_asked(void *context)
{
    (void)context;
    return run_checkpoint_is_ended();
}

static void say(void *context, const char *line)
{
    (void)context;
    console_printf(stderr, "meshwright run: %s\n", line);
}

// Steps between two by Daly's formula, with what one was measured to cost instead of what was
// predicted as soon as there is such a measurement. The next is not begun before one is stored.
static int interval(void *context, double pause_s, double write_s, double step_s)
{
    const struct run_checkpoints *checkpoints = context;
    const struct goodput *predicted = &checkpoints->predicted;
    double cost_s = pause_s > 0 ? pause_s : predicted->checkpoint_s;
    double stored_s = write_s > 0 ? write_s : predicted->write_s;
    double each_s = step_s > 0 ? step_s : checkpoints->step_s;
    double between_s = goodput_interval_s(cost_s, predicted->mtbf_s);
    if (between_s < stored_s) between_s = stored_s;
    double steps = ceil(between_s / each_s);
    return steps < 1 ? 1 : steps > 1e9 ? (int)1e9 : (int)steps;
}

static enum run_resume resume_of(const struct checkpoint_arguments *given)
{
    if (!given->resume) return RESUME_NONE;
    return given->resume[0] ? RESUME_AUTO : RESUME_MUST;
}

bool run_checkpoints_make(struct arena *arena, const struct checkpoint_arguments *given,
                          const struct run_job *job, const char *plan_hash,
                          struct run_checkpoints *checkpoints, struct err *err)
{
    const struct evaluation *evaluation = &job->evaluation;
    struct cluster *cluster = ARENA_NEW(arena, struct cluster, 1);
    *cluster = *job->request.cluster;
    cluster->failures.async_checkpoints = true;
    double step_s = evaluation->prediction.step_s;
    const struct goodput_request request = {
        .cluster = cluster,
        .step_s = step_s,
        .checkpoint_bytes =
            goodput_checkpoint_bytes(evaluation->program, evaluation->graph, job->request.stack),
        .communicators = communicators_of(evaluation->program),
    };
    *checkpoints = (struct run_checkpoints){
        .options = {.folder = given->folder,
                    .every = given->every,
                    .keep = given->keep,
                    .resume = resume_of(given),
                    .plan_hash = plan_hash,
                    .model = evaluation->graph->name,
                    .family = evaluation->graph->model_type,
                    .optimizer = optimizer_name(job->request.workload.optimizer),
                    .interval = interval,
                    .say = say,
                    .is_stop_asked = is_stop_asked,
                    .context = checkpoints},
        .predicted = goodput_mean_of(&request),
        .step_s = step_s,
    };
    if (!checkpoints->predicted.is_known) checkpoints->predicted = goodput_checkpoint_of(&request);
    if (!given->every && !checkpoints->predicted.is_known)
        return err_set(err, ERR_USAGE,
                       "--checkpoint-every: how often cluster %s fails is not known, so say it",
                       cluster->name);
    const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    return true;
}
