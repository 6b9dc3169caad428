#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_job.h"
#include "core/hash.h"
#include "executor/rendezvous.h"

#include <stdio.h>
#include <string.h>

// A rank that stands still for ten predicted steps, and no less than this, is stuck; the job ends
// within half a minute of it.
static const double STUCK_LEAST_S = 10, STUCK_MOST_S = 20;

// Nodes wait so long for each other: they may start far apart.
static const double RENDEZVOUS_S = 120;
enum { RENDEZVOUS_HOST_BYTES = 256 };

static double stuck_s(const struct run_job *job)
{
    double steps_s = 10 * job->evaluation.prediction.step_s;
    if (steps_s < STUCK_LEAST_S) return STUCK_LEAST_S;
    return steps_s < STUCK_MOST_S ? steps_s : STUCK_MOST_S;
}

// What all nodes must have been given alike, besides the plan.
static uint64_t options_key(struct arena *arena, const struct run_arguments *arguments)
{
    const char *text =
        arena_print(arena, "%s %s %s %d %lld %.17g %.17g %.17g %d %d", arguments->backend,
                    arguments->data, arguments->transport, arguments->steps,
                    (long long)arguments->seed, arguments->learning_rate, arguments->weight_decay,
                    arguments->clip_norm, arguments->poison, arguments->dump != NULL);
    return hash_bytes(HASH_START, text, strlen(text));
}

static bool read_rendezvous(struct arena *arena, const struct run_job *job,
                            const struct run_arguments *arguments,
                            struct rendezvous_request *request, struct err *err)
{
    char *host = arena_alloc(arena, RENDEZVOUS_HOST_BYTES, 1);
    struct err found = {0};
    *request = (struct rendezvous_request){
        .host = host,
        .node = arguments->node_rank,
        .node_count = arguments->node_count,
        .rank_count = job->rank_count,
        .plan_key = hash_bytes(HASH_START, job->text, strlen(job->text)),
        .options_key = options_key(arena, arguments),
        .timeout_s = RENDEZVOUS_S,
    };
    if (!socket_split(arguments->rendezvous, host, RENDEZVOUS_HOST_BYTES, &request->port, &found))
        return err_set(err, ERR_USAGE, "--rendezvous: %s", found.text);
    if (job->rank_count < request->node_count)
        return err_set(err, ERR_USAGE, "--node-count %d: the plan has %d ranks",
                       request->node_count, job->rank_count);
    return true;
}

// Before the plan is read: what the options say of each other.
static bool check_options(const struct run_arguments *arguments, struct err *err)
{
    bool says_node = arguments->node_rank >= 0 || arguments->node_count > 0;
    bool is_mpi = strcmp(arguments->transport, "mpi") == 0;
    if (!arguments->rendezvous && says_node)
        return err_set(err, ERR_USAGE, "--node-rank and --node-count need --rendezvous HOST:PORT");
    if (arguments->rendezvous && (arguments->node_rank < 0 || arguments->node_count < 2))
        return err_set(err, ERR_USAGE,
                       "--rendezvous needs --node-rank K and --node-count N, of two nodes or more");
    if (arguments->rendezvous && arguments->node_rank >= arguments->node_count)
        return err_set(err, ERR_USAGE, "--node-rank: must be between 0 and %d, found %d",
                       arguments->node_count - 1, arguments->node_rank);
    if (arguments->replay_rank >= 0 &&
        (arguments->spawn || arguments->rendezvous || arguments->dump))
        return err_set(err, ERR_USAGE,
                       "--replay-rank goes with none of --spawn, --rendezvous and --dump");
    if (is_mpi && (arguments->spawn || arguments->rendezvous))
        return err_set(err, ERR_USAGE, "--transport mpi: ranks without mpirun have no MPI");
    return true;
}

static int launch(struct arena *arena, const struct run_job *job,
                  const struct run_arguments *arguments, int argc, char **argv, struct err *err)
{
    // As main was called: the binary stands before the name of the command.
    char **whole = ARENA_NEW(arena, char *, argc + 2), binary[] = "meshwright";
    whole[0] = binary;
    memcpy(whole + 1, argv, (size_t)argc * sizeof *argv);
    struct rendezvous_request nodes;
    if (arguments->rendezvous && !read_rendezvous(arena, job, arguments, &nodes, err))
        return exit_status(err);
    const struct launch_request request = {
        .rank_count = job->rank_count,
        .argv = whole,
        .argc = argc + 1,
        .stuck_s = stuck_s(job),
        .spawns = arguments->spawn || arguments->rendezvous || !launch_finds_mpirun(),
        .rendezvous = arguments->rendezvous ? &nodes : NULL,
    };
    if (request.spawns && !arguments->spawn && !arguments->rendezvous)
        fprintf(stderr, "meshwright run: no mpirun here: the ranks are started on this host\n");
    int status = 0;
    if (!launch_job(&request, &status, err)) return exit_status(err);
    return status;
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

static int run_placed(struct arena *arena, const struct run_arguments *arguments,
                      const struct launch_place *place, struct pulse_page *page, int argc,
                      char **argv, struct err *err)
{
    struct run_job job;
    if (!run_job_load(arena, arguments->plan, &job, err)) return exit_status(err);
    if (!run_check_data(job.evaluation.graph, run_job_data(arguments), err))
        return exit_status(err);
    if (arguments->rendezvous && job.rank_count == 1) {
        err_set(err, ERR_USAGE, "--rendezvous: the plan has one rank");
        return exit_status(err);
    }
    if (arguments->replay_rank >= 0) return replay(arena, arguments, &job, place, err);
    if (!place->is_launched && job.rank_count > 1)
        return launch(arena, &job, arguments, argc, argv, err);
    if (place->rank_count != job.rank_count) {
        err_set(err, ERR_USAGE, "the plan has %d ranks, the launcher started %d", job.rank_count,
                place->rank_count);
        return exit_status(err);
    }
    return run_rank(arena, arguments, &job, place, page, err);
}

static int run(struct arena *arena, const struct run_arguments *arguments, int argc, char **argv,
               struct err *err)
{
    struct launch_place place = launch_place_find();
    struct pulse_page *page = NULL;
    int status = 0;
    // One process a node, by whatever launcher: this one starts the ranks of its node.
    if (arguments->rendezvous && !place.is_spawned) place = (struct launch_place){.rank_count = 1};
    if (place.is_launched && !launch_enter(&place, &page, &status, err))
        return err->kind ? exit_status(err) : status;
    status = run_placed(arena, arguments, &place, page, argc, argv, err);
    if (err->kind && page) {
        pulse_fail(page, place.rank, err->text);
        *err = (struct err){0};  // the launcher says it, once
    }
    pulse_page_close(page);
    return status;
}

static const struct run_arguments DEFAULTS = {
    .output = "run.json",
    .backend = "auto",
    .data = "synthetic",
    .replay_rank = -1,
    .steps = 10,
    .seed = 1,
    .learning_rate = 3e-4,
    .weight_decay = 0.1,
    .clip_norm = 1,
    .transport = "auto",
    .node_rank = -1,
};

int run_command(int argc, char **argv, struct err *err)
{
    struct run_arguments arguments = DEFAULTS;
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &arguments.plan, "plan.json as `meshwright plan` writes it", NULL, 0,
         0},
        {"--backend", OPTION_CHOICE, &arguments.backend, "what the ranks compute with",
         "auto|cpu|cpu-fp64|cpu-half|cuda", 0, 0},
        {"--steps", OPTION_INT, &arguments.steps, "steps to train", NULL, 1, 1e9},
        {"--seed", OPTION_I64, &arguments.seed, "of weights, data and dropout", NULL, 0, 1e15},
        {"--data", OPTION_CHOICE, &arguments.data, "tokens by a rule, or bytes of a small text",
         "synthetic|text", 0, 0},
        {"-o", OPTION_TEXT, &arguments.output, "what was measured", "FILE", 0, 0},
        {"--trace", OPTION_TEXT, &arguments.trace,
         "write predicted above measured for Perfetto or chrome://tracing", "FILE", 0, 0},
        {"--json", OPTION_FLAG, &arguments.json, "print what -o holds instead of the table", NULL,
         0, 0},
        {"Training", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--learning-rate", OPTION_F64, &arguments.learning_rate, "constant", NULL, 0, 1e3},
        {"--weight-decay", OPTION_F64, &arguments.weight_decay, "of matrices and tables", NULL, 0,
         1e3},
        {"--clip", OPTION_F64, &arguments.clip_norm, "global gradient norm to clip at, 0 = none",
         NULL, 0, 1e9},
        {"Running", OPTION_GROUP, NULL, "", NULL, 0, 0},
        {"--spawn", OPTION_FLAG, &arguments.spawn, "start the ranks on this host without mpirun",
         NULL, 0, 0},
        {"--transport", OPTION_CHOICE, &arguments.transport,
         "what ranks exchange over: nccl between GPUs, else the hosts' memory",
         "auto|host|mpi|nccl", 0, 0},
        {"--rendezvous", OPTION_TEXT, &arguments.rendezvous,
         "on each of several nodes: where node 0 listens; each starts its share of the ranks",
         "HOST:PORT", 0, 0},
        {"--node-rank", OPTION_INT, &arguments.node_rank, "which node this is, from 0", NULL, 0,
         NODE_COUNT_MAX - 1},
        {"--node-count", OPTION_INT, &arguments.node_count, "nodes that meet", NULL, 2,
         NODE_COUNT_MAX},
        {"--replay-rank", OPTION_INT, &arguments.replay_rank,
         "only this rank, alone: what it exchanges takes the predicted time", "R", 0, 1e6},
        {"--poison", OPTION_FLAG, &arguments.poison,
         "fill memory that holds nothing with NaN, guard the arena", NULL, 0, 0},
        {"--dump", OPTION_TEXT, &arguments.dump,
         "write weights and gradients at the end, a file a rank", "FILE", 0, 0},
        {0},
    };
    if (command_wants_help(argc, argv)) return options_print(stdout, "run", options), 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!check_options(&arguments, err)) return exit_status(err);
    struct arena arena = {0};
    int status = run(&arena, &arguments, argc, argv, err);
    arena_free(&arena);
    return status;
}
