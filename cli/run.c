#include "cli/commands.h"
#include "cli/local.h"
#include "cli/options.h"
#include "cli/run_job.h"
#include "cli/run_restart.h"
#include "cli/tables.h"
#include "core/console.h"
#include "core/hash.h"
#include "core/units.h"
#include "executor/calibrate/calibrate.h"
#include "executor/rendezvous.h"
#include "plan/unexecuted.h"
#include "planner/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS_MAX = 1000000000 };

static const struct run_arguments DEFAULTS = {
    .backend = "auto",
    .replay_rank = -1,
    .steps = 10,
    .seed = 1,
    .transport = "auto",
    .node_rank = -1,
};

// Nodes wait so long for each other: they may start far apart.
static const double RENDEZVOUS_S = 120;

// What all nodes must have been given alike, besides the plan.
static uint64_t options_key(struct arena *arena, const struct run_arguments *arguments)
{
    const char *text = arena_print(arena, "%s %s %s %d %lld %d %d %d", arguments->backend,
                                   arguments->transport, training_key(arena, &arguments->training),
                                   arguments->steps, (long long)arguments->seed, arguments->poison,
                                   arguments->dump != NULL, arguments->logits != NULL);
    return hash_bytes(HASH_START, text, strlen(text));
}

// Jobs of Slurm have names of their own.
static const char *job_name(struct arena *arena, const struct run_arguments *arguments)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (arguments->job) return arguments->job;
    if (!job || !*job) return "meshwright";
    return arena_print(arena, "slurm-%s.%s", job, step ? step : "0");
}

static bool read_rendezvous(struct arena *arena, const struct run_job *job,
                            const struct run_arguments *arguments,
                            struct rendezvous_request *request, struct err *err)
{
    char *folder = arena_alloc(arena, PATH_MAX, 1);
    *request = (struct rendezvous_request){
        .folder = folder,
        .job = job_name(arena, arguments),
        .node = arguments->node_rank,
        .node_count = arguments->node_count,
        .rank_count = job->rank_count,
        .plan_key = hash_bytes(HASH_START, job->text, strlen(job->text)),
        .options_key = options_key(arena, arguments),
        .timeout_s = RENDEZVOUS_S,
    };
    struct stat found;
    bool is_there = realpath(arguments->rendezvous, folder) && stat(folder, &found) == 0;
    if (!is_there)
        return err_set(err, ERR_USAGE, "--rendezvous %.300s: %s", arguments->rendezvous,
                       strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return err_set(err, ERR_USAGE, "--rendezvous %.300s: no folder", arguments->rendezvous);
    if (!rendezvous_job_is_valid(request->job))
        return err_set(err, ERR_USAGE,
                       "--job: found '%.80s', wanted 1 to %d letters, digits and \"._-\"",
                       request->job, JOB_NAME_MAX);
    if (job->rank_count < request->node_count)
        return err_set(err, ERR_USAGE, "--node-count %d: the plan has %d ranks",
                       request->node_count, job->rank_count);
    return true;
}

// What --rendezvous goes with.
static bool check_nodes(const struct run_arguments *arguments, struct err *err)
{
    const char *transport = arguments->transport, *backend = arguments->backend;
    bool is_gpu = strcmp(backend, "auto") == 0 || strcmp(backend, "cuda") == 0;
    bool is_nccl = strcmp(transport, "auto") == 0 || strcmp(transport, "nccl") == 0;
    if (arguments->node_rank < 0 || arguments->node_count < 2)
        return err_set(err, ERR_USAGE,
                       "--rendezvous needs --node-rank K and --node-count N, of two nodes or more, "
                       "or a launcher that starts one process a node");
    if (arguments->node_rank >= arguments->node_count)
        return err_set(err, ERR_USAGE, "--node-rank: must be between 0 and %d, found %d",
                       arguments->node_count - 1, arguments->node_rank);
    if (!is_nccl)
        return err_set(err, ERR_USAGE,
                       "--transport %s: with --rendezvous data goes over NCCL; mpirun and srun "
                       "need no --rendezvous",
                       transport);
    if (!is_gpu)
        return err_set(err, ERR_USAGE,
                       "--backend %s: with --rendezvous data goes over NCCL, between GPUs; start "
                       "CPU ranks of several hosts with mpirun or srun",
                       backend);
    return true;
}

// Before the plan is read: what the options say of each other.
static bool check_options(const struct run_arguments *arguments, struct err *err)
{
    bool says_node = arguments->node_rank >= 0 || arguments->node_count > 0 || arguments->job;
    if (!arguments->rendezvous && says_node)
        return err_set(err, ERR_USAGE, "--node-rank, --node-count and --job need --rendezvous DIR");
    if (arguments->rendezvous && !check_nodes(arguments, err)) return false;
    if (!training_check(&arguments->training, err)) return false;
    if (arguments->epochs > 0 && training_data(&arguments->training) != DATA_CORPUS)
        return err_set(err, ERR_USAGE, "--epochs wants files: --data FILE");
    if (arguments->epochs > 0 && arguments->steps != DEFAULTS.steps)
        return err_set(err, ERR_USAGE, "--epochs: --steps says how many already");
    if (arguments->replay_rank >= 0 &&
        (arguments->spawn || arguments->rendezvous || arguments->dump || arguments->logits))
        return err_set(
            err, ERR_USAGE,
            "--replay-rank goes with none of --spawn, --rendezvous, --dump and --logits");
    if (arguments->replay_rank >= 0 && training_readers(&arguments->training) != READERS_RANK)
        return err_set(err, ERR_USAGE, "--readers: a rank alone reads for itself");
    if (!checkpoint_options_check(&arguments->checkpoint, err)) return false;
    if (arguments->training.roll_back > 0 && !arguments->checkpoint.folder)
        return err_set(err, ERR_USAGE, "--roll-back needs --checkpoint DIR");
    if (arguments->checkpoint.replan && arguments->rendezvous)
        return err_set(err, ERR_USAGE,
                       "--replan: nodes that meet are started again as they were; plan for those "
                       "that are to stay: meshwright plan");
    if (arguments->replay_rank >= 0 && arguments->checkpoint.folder)
        return err_set(err, ERR_USAGE, "--checkpoint: a rank alone has nothing worth keeping");
    if (strcmp(arguments->transport, "mpi") == 0 && arguments->spawn)
        return err_set(err, ERR_USAGE, "--transport mpi: ranks without mpirun have no MPI");
    return true;
}

// Whose software the plan was made for, once a job.
static void note_stack(const struct run_job *job, const struct launch_place *place)
{
    const char *name = job->request.stack->name;
    bool is_own = strcmp(name, GPU_STACK) == 0 || strcmp(name, CPU_STACK) == 0;
    if (is_own || place->is_launched) return;
    console_printf(
        stderr,
        "note: the plan is for stack %s: what is predicted is its speed, what is measured is "
        "that of this program (plan with --stack %s to compare)\n",
        name, GPU_STACK);
}

// What would keep its user waiting is said before it begins: from this many predicted seconds on.
static const double LONG_RUN_S = 60;

static void note_time(struct arena *arena, const struct run_job *job,
                      const struct run_arguments *arguments, const struct launch_place *place)
{
    double step_s = job->evaluation.prediction.step_s, whole_s = step_s * arguments->steps;
    if (place->is_launched || whole_s < LONG_RUN_S) return;
    console_printf(stderr, "note: %d steps of a predicted %s: %s in all\n", arguments->steps,
                   units_seconds(arena, step_s), units_seconds(arena, whole_s));
}

static void say_oversubscribed(const struct run_job *job, const struct run_arguments *arguments)
{
    const char *kind = job->request.cluster->nodes[0].device->kind;
    bool is_host = strcmp(kind, "cpu") == 0 || strncmp(arguments->backend, "cpu", 3) == 0;
    if (is_host && !arguments->rendezvous) run_job_say_turns(job->rank_count, binding_core_count());
}

static int launch(struct arena *arena, const struct run_job *job,
                  const struct run_arguments *arguments, int local_node, int argc, char **argv,
                  struct err *err)
{
    // As main was called: the binary stands before the name of the command.
    char **whole = ARENA_NEW(arena, char *, argc + 3), binary[] = "meshwright";
    whole[0] = binary;
    memcpy(whole + 1, argv, (size_t)argc * sizeof *argv);
    struct rendezvous_request nodes;
    if (arguments->rendezvous && !read_rendezvous(arena, job, arguments, &nodes, err))
        return exit_status(err);
    struct launch_request request = {
        .rank_count = job->rank_count,
        .argv = whole,
        .argc = argc + 1,
        .stuck_s = run_restart_stuck_s(job),
        .spawns = arguments->spawn || arguments->rendezvous || job->rank_count == 1 ||
                  !launch_finds_mpirun(),
        .rendezvous = arguments->rendezvous ? &nodes : NULL,
        .local_node = local_node,
    };
    if (job->rank_count > 1 && request.spawns && !arguments->spawn && !arguments->rendezvous)
        console_printf(stderr,
                       "meshwright run: no mpirun here: the ranks are started on this host\n");
    say_oversubscribed(job, arguments);
    return run_restart(arena, arguments, &request, whole, err);
}

// One rank in this process.
static int replay(struct arena *arena, const struct run_arguments *arguments,
                  const struct run_job *job, const struct launch_place *place, struct err *err)
{
    const struct launch_place alone = {.rank = arguments->replay_rank,
                                       .rank_count = job->rank_count};
    if (place->is_launched) {
        err_set(err, ERR_USAGE, "--replay-rank: one rank alone, without a launcher");
    } else if (arguments->replay_rank >= job->rank_count) {
        err_set(err, ERR_USAGE, "--replay-rank: must be between 0 and %d, found %d",
                job->rank_count - 1, arguments->replay_rank);
    } else {
        return run_rank(arena, arguments, job, &alone, NULL, err);
    }
    return exit_status(err);
}

// The scores are written behind the last step: a folder that is not there is found in front.
static bool check_logits(const char *path, const struct graph *graph, struct err *err)
{
    char folder[PATH_MAX];
    if (!path) return true;
    if (!run_check_logits(graph, err)) return false;
    if ((size_t)snprintf(folder, sizeof folder, "%s", path) >= sizeof folder)
        return err_set(err, ERR_USAGE, "--logits: its name is too long");
    if (access(dirname(folder), W_OK) == 0) return true;
    return err_set(err, ERR_SYSTEM, "--logits %s: %s", path, strerror(errno));
}

// Before the first rank is started; those that were look for themselves.
static bool check_data(struct arena *arena, const struct run_arguments *arguments,
                       const struct run_job *job, const struct launch_place *place, struct err *err)
{
    enum run_data data = training_data(&arguments->training);
    struct corpus corpus;
    if (!run_check_data(job->evaluation.graph, data, err)) return false;
    if (!check_logits(arguments->logits, job->evaluation.graph, err)) return false;
    if (data != DATA_CORPUS || place->is_launched) return true;
    if (!training_open(arena, &arguments->training, job->evaluation.graph, &job->request.workload,
                       arguments->seed, true, &corpus, err))
        return false;
    corpus_close(&corpus);
    return true;
}

// As many steps as make the epochs that were asked for. Every process finds the same.
static bool take_epochs(struct arena *arena, struct run_arguments *arguments,
                        const struct run_job *job, const struct launch_place *place,
                        struct err *err)
{
    const struct workload *workload = &job->request.workload;
    struct corpus corpus;
    if (arguments->epochs <= 0) return true;
    if (!training_open(arena, &arguments->training, job->evaluation.graph, workload,
                       arguments->seed, true, &corpus, err))
        return false;
    int64_t samples = corpus.sample_count[CORPUS_TRAIN];
    corpus_close(&corpus);
    int64_t steps = batch_iterations((double)samples, arguments->epochs, workload->global_batch);
    if (steps > STEPS_MAX)
        return err_set(err, ERR_USAGE, "--epochs: %" PRId64 " steps, %d at most", steps, STEPS_MAX);
    arguments->steps = (int)steps;
    if (place->is_launched) return true;
    console_printf(
        stderr, "meshwright run: %g epochs of %" PRId64 " sequences are %d steps of %" PRId64 "\n",
        arguments->epochs, samples, arguments->steps, (int64_t)workload->global_batch);
    const char *warning = batch_warning(arena, workload);
    if (warning) console_printf(stderr, "meshwright run: %s\n", warning);
    return true;
}

static int run_placed(struct arena *arena, struct run_arguments *arguments,
                      const struct launch_place *place, struct heartbeat_page *page, int argc,
                      char **argv, struct err *err)
{
    struct run_job job;
    if (!run_restart_fit(arena, arguments, place, argc, argv, err)) return exit_status(err);
    if (!run_job_load(arena, arguments, &job, err)) return exit_status(err);
    if (!take_epochs(arena, arguments, &job, place, err)) return exit_status(err);
    if (!check_data(arena, arguments, &job, place, err)) return exit_status(err);
    if (!run_check_nvme(job.evaluation.program, arguments->nvme, err)) return exit_status(err);
    const struct checkpoint_arguments *drill = &arguments->checkpoint;
    for (int i = 0; i < drill->slow_count && !place->is_moved; i++) {
        if (drill->slow_ranks[i].last < job.rank_count) continue;
        err_set(err, ERR_USAGE, "--slow-rank: must be between 0 and %d, found %d",
                job.rank_count - 1, drill->slow_ranks[i].last);
        return exit_status(err);
    }
    if (arguments->checkpoint.replan && place->is_launched && !place->memory_name) {
        err_set(err, ERR_USAGE, "--replan: these ranks are started by another launcher");
        return exit_status(err);
    }
    note_stack(&job, place);
    note_time(arena, &job, arguments, place);
    if (arguments->rendezvous && job.rank_count == 1) {
        err_set(err, ERR_USAGE, "--rendezvous: the plan has one rank");
        return exit_status(err);
    }
    if (arguments->replay_rank >= 0) return replay(arena, arguments, &job, place, err);
    // A rank alone is watched where it is to be started again.
    bool is_watched = job.rank_count > 1 || arguments->checkpoint.restarts > 0;
    if (!place->is_launched && is_watched)
        return launch(arena, &job, arguments, place->local_rank, argc, argv, err);
    if (place->rank_count != job.rank_count) {
        err_set(err, ERR_USAGE, "the plan has %d ranks, the launcher started %d", job.rank_count,
                place->rank_count);
        return exit_status(err);
    }
    return run_rank(arena, arguments, &job, place, page, err);
}

// One process a node, by whatever launcher: this one starts the ranks of its node, and the other
// says which node it is.
static void take_node(struct run_arguments *arguments, struct launch_place *place)
{
    bool says_nothing = arguments->node_rank < 0 && arguments->node_count == 0;
    if (!arguments->rendezvous || place->is_spawned) return;
    if (place->is_launched && says_nothing) {
        arguments->node_rank = place->rank;
        arguments->node_count = place->rank_count;
    }
    int local_node = place->is_launched ? place->local_rank : 0;
    *place = (struct launch_place){.rank_count = 1, .local_rank = local_node};
}

static int run(struct arena *arena, struct run_arguments *arguments,
               const struct launch_place *place, int argc, char **argv, struct err *err)
{
    struct heartbeat_page *page = NULL;
    int status = 0;
    if (place->is_launched && !launch_enter(place, &page, &status, err))
        return err->kind ? exit_status(err) : status;
    status = run_placed(arena, arguments, place, page, argc, argv, err);
    if (err->kind) launch_memory_explain(page ? place->rank : -1, err);
    // The launcher or the guard says it, once; what is left of `err` a rank has not said.
    if (err->kind && page) launch_tell(page, place->rank, LAUNCH_ALONE, err);
    heartbeat_page_close(page);
    return status;
}

static void print_unexecuted(void)
{
    int count;
    const struct unexecuted *rows = unexecuted_rows(&count);
    console_printf(stdout, "\nNot executed:\n");
    for (int i = 0; i < count; i++)
        console_printf(stdout, "  %s, because %s\n", rows[i].what, rows[i].why);
}

static int end_help(int argc, char **argv)
{
    if (options_help_is_text(argc, argv)) print_unexecuted();
    return 0;
}

static int run_parsed(struct arena *arena, struct run_arguments *arguments, int argc, char **argv,
                      struct err *err)
{
    // The ranks' own output is what their launcher passes on: -o - is --json.
    if (arguments->output && strcmp(arguments->output, "-") == 0) {
        arguments->output = NULL;
        arguments->json = true;
    }
    struct launch_place place = launch_place_find();
    take_node(arguments, &place);
    if (!checkpoint_options_slow(&arguments->checkpoint, err)) return exit_status(err);
    // The launcher has seen to it, and knows more than its ranks.
    if (!place.is_spawned && !check_options(arguments, err)) return exit_status(err);
    return run(arena, arguments, &place, argc, argv, err);
}

enum { RUNNING_OPTION_COUNT = 13 };

// Where and how the ranks run.
static void running_options(struct run_arguments *arguments, struct option *options)
{
    const struct option rows[RUNNING_OPTION_COUNT] = {
        {"Running", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--spawn", OPTION_FLAG, &arguments->spawn, "start the ranks here, without mpirun", NULL, 0,
         0},
        {"--transport", OPTION_CHOICE, &arguments->transport,
         "what ranks exchange over: nccl between GPUs, else the host's memory, between hosts MPI",
         "auto|host|mpi|nccl", 0, 0},
        {"--kernels", OPTION_TEXT, &arguments->kernels,
         "kernels.json of calibrate, for the algorithms of GEMMs (default: of `local`)", "FILE", 0,
         0},
        {"--rendezvous", OPTION_TEXT, &arguments->rendezvous,
         "without MPI, on each of several nodes with GPUs: a folder that all share, to meet in; "
         "each starts its share of the ranks, data goes over NCCL",
         "DIR", 0, 0},
        {"--node-rank", OPTION_INT, &arguments->node_rank,
         "which node this is, from 0; unsaid: what a launcher of one process a node says", NULL, 0,
         NODE_COUNT_MAX - 1},
        {"--node-count", OPTION_INT, &arguments->node_count, "nodes that meet", NULL, 2,
         NODE_COUNT_MAX},
        {"--job", OPTION_TEXT, &arguments->job,
         "keeps jobs apart that meet in one folder at a time; unsaid: Slurm's number", "NAME", 0,
         0},
        {"--replay-rank", OPTION_INT, &arguments->replay_rank,
         "only this rank, alone: what it exchanges takes the predicted time", "R", 0, 1e6},
        {"--poison", OPTION_FLAG, &arguments->poison,
         "fill memory that holds nothing with NaN, guard the arena", NULL, 0, 0},
        {"--nvme", OPTION_TEXT, &arguments->nvme,
         "where plans with --offload ...@nvme keep it: a folder of a drive of each host", "DIR", 0,
         0},
        {"--device-memory", OPTION_I64, &arguments->device_memory_bytes,
         "of each CPU rank, enforced: what would take more of it fails (default: as the host has)",
         "BYTES", 1, 1e15},
        {"--dump", OPTION_TEXT, &arguments->dump,
         "write the last weights and gradients, a file a rank", "FILE", 0, 0},
    };
    memcpy(options, rows, sizeof rows);
}

// PLAN could not be read: a rank says so by its launcher, once.
static int end_unread(struct err *err)
{
    const struct launch_place place = launch_place_find();
    struct heartbeat_page *page = NULL;
    struct err none = {0};
    int status = exit_status(err), entered = 0;
    if (place.is_launched && launch_enter(&place, &page, &entered, &none) && page)
        launch_tell(page, place.rank, LAUNCH_ALONE, err);
    heartbeat_page_close(page);
    return status;
}

int run_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    if (tables_plan_is_asked(argc, argv, err)) return tables_run_command(arena, argc, argv, err);
    if (err->kind) return end_unread(err);
    struct run_arguments arguments = DEFAULTS;
    arguments.training = TRAINING_DEFAULTS;
    const struct option head[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "a plan of `meshwright plan`", NULL, 0, 0},
        {"--backend", OPTION_CHOICE, &arguments.backend, "what the ranks compute with",
         "auto|cpu|cpu-fp64|cpu-half|cuda", 0, 0},
        {"--steps", OPTION_INT, &arguments.steps, "steps to train", NULL, 1, STEPS_MAX},
        {"--epochs", OPTION_F64, &arguments.epochs,
         "times to train on all of --data, in place of --steps", NULL, 1e-6, 1e6},
        {"--seed", OPTION_I64, &arguments.seed, "of weights, data and dropout", NULL, 0, 1e15},
        {"-o", OPTION_OUTPUT, &arguments.output, "write all that was measured", "FILE", 0, 0},
        {"--trace", OPTION_OUTPUT, &arguments.trace,
         "write predicted above measured for Perfetto or chrome://tracing", "FILE", 0, 0},
        {"--logits", OPTION_OUTPUT, &arguments.logits,
         "write the scores behind the last step, of its sequences, without dropout, in safetensors",
         "FILE", 0, 0},
        OPTION_FORCE_ROW,
        {"--json", OPTION_FLAG, &arguments.json, "print what -o writes instead of the table", NULL,
         0, 0},
    };
    enum { HEAD_COUNT = sizeof head / sizeof *head };
    struct option options[HEAD_COUNT + TRAINING_OPTION_COUNT + RUNNING_OPTION_COUNT +
                          CHECKPOINT_OPTION_COUNT + 1] = {0};
    memcpy(options, head, sizeof head);
    int count = HEAD_COUNT + training_options(&arguments.training, options + HEAD_COUNT);
    running_options(&arguments, options + count);
    checkpoint_options(&arguments.checkpoint, options + count + RUNNING_OPTION_COUNT);
    if (options_help(argc, argv, options)) return end_help(argc, argv);
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    return run_parsed(arena, &arguments, argc, argv, err);
}
