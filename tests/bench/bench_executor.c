#include "cost_models/stack.h"
#include "executor/run.h"
#include "memory/plan_script.h"
#include "models/import.h"
#include "tests/bench/plain_gpt2.h"
#include "tests/support/rivals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// A training step of GPT-2 124M through the engine, planned as `meshwright run` plans: fp32, one
// rank, one core, no dropout, AdamW. Beside it in the same process and turn by turn, because
// machines are shared: sgemm alone, PyTorch, and plain loops. Times are of the processor (wall time
// in brackets), from one report of a step to the next, so that all the engine does is in them;
// ratios are taken turn by turn and the median is printed.
//
// bench_executor [turns]

enum { BATCH = 4, TURNS = 3, TURNS_MAX = 64 };
static const double PLAIN_ENOUGH_S = 20;  // plain loops are not run again after so long

// What stands between the engine and its back end: how long the back end works.
struct watched {
    const struct backend *backend;
    struct device *device;
    double began_s, worked_s;
};

static struct watched *begin(struct device *device)
{
    struct watched *watched = (struct watched *)(void *)device;
    watched->began_s = clock_of(CLOCK_THREAD_CPUTIME_ID);
    return watched;
}

static const char *end(struct watched *watched, const char *fault)
{
    watched->worked_s += clock_of(CLOCK_THREAD_CPUTIME_ID) - watched->began_s;
    return fault;
}

static const char *watched_allocate(struct device *device, int64_t bytes, void **memory)
{
    struct watched *w = begin(device);
    return end(w, w->backend->allocate(w->device, bytes, memory));
}

static void watched_release(struct device *device, void *memory)
{
    struct watched *w = begin(device);
    w->backend->release(w->device, memory);
}

static const char *watched_copy(struct device *device, enum stream stream, enum copy_kind kind,
                                void *to, const void *from, int64_t bytes)
{
    struct watched *w = begin(device);
    return end(w, w->backend->copy(w->device, stream, kind, to, from, bytes));
}

static const char *watched_fill(struct device *device, enum stream stream, void *memory, int byte,
                                int64_t bytes)
{
    struct watched *w = begin(device);
    return end(w, w->backend->fill(w->device, stream, memory, byte, bytes));
}

static const char *watched_run(struct device *device, enum stream stream,
                               const struct kernel_call *call)
{
    struct watched *w = begin(device);
    return end(w, w->backend->run(w->device, stream, call));
}

static const char *watched_run_joined(struct device *device, enum stream stream,
                                      const struct kernel_call *calls, int count)
{
    struct watched *w = begin(device);
    return end(w, w->backend->run_joined(w->device, stream, calls, count));
}

static const char *watched_update(struct device *device, enum stream stream,
                                  const struct update_call *call)
{
    struct watched *w = begin(device);
    return end(w, w->backend->update(w->device, stream, call));
}

static const char *watched_sum_squares(struct device *device, enum stream stream, const void *reals,
                                       int64_t count, double *sum)
{
    struct watched *w = begin(device);
    return end(w, w->backend->sum_squares(w->device, stream, reals, count, sum));
}

static const char *watched_synchronize(struct device *device, enum stream stream)
{
    struct watched *w = begin(device);
    return end(w, w->backend->synchronize(w->device, stream));
}

// A table that watches; what one rank alone does not call is not in it.
static struct backend watching(const struct backend *inner)
{
    struct backend backend = {
        .version = inner->version,
        .name = inner->name,
        .real_bytes = inner->real_bytes,
        .compute_bytes = inner->compute_bytes,
        .is_host = inner->is_host,
        .probe = inner->probe,
        .can_run = inner->can_run,
        .allocate = watched_allocate,
        .release = watched_release,
        .copy = watched_copy,
        .fill = watched_fill,
        .joins = inner->joins,
        .run = watched_run,
        .run_joined = watched_run_joined,
        .update = watched_update,
        .sum_squares = watched_sum_squares,
        .synchronize = watched_synchronize,
    };
    return backend;
}

// What is measured each turn.
struct turn {
    struct taken own, torch, plain;  // 0: not run
    double worked_s, sgemm_s;        // in the back end; the flop of the step at sgemm's rate
};

struct executor_bench {
    struct arena *arena;
    const struct backend *backend, *table;  // table: watching
    struct watched *watched;
    struct sgemm *sgemm;
    const struct model_config *config;
    struct graph *graph;
    struct script *script;
    int seq, turn_count;
    struct rival *torch;  // NULL: absent
    struct plain_gpt2 *plain;
    int *tokens;
    double flop, plain_s;
    struct turn turns[TURNS_MAX];
    struct taken mark;
    double worked_mark_s;
    double loss[2], plain_loss;  // of the first and last step
    int64_t memory_bytes;
};

static struct taken now(void)
{
    return (struct taken){clock_of(CLOCK_MONOTONIC), clock_of(CLOCK_THREAD_CPUTIME_ID)};
}

static struct taken since(struct taken mark)
{
    struct taken at = now();
    return (struct taken){at.wall_s - mark.wall_s, at.cpu_s - mark.cpu_s};
}

static void run_plain(struct executor_bench *bench, struct turn *turn)
{
    int count = BATCH * bench->seq;
    if (bench->plain_s >= PLAIN_ENOUGH_S || !bench->plain) return;
    struct taken mark = now();
    bench->plain_loss = plain_gpt2_step(bench->plain, bench->tokens, bench->tokens + count, 1e-4F);
    turn->plain = since(mark);
    bench->plain_s += turn->plain.cpu_s;
}

// After each step of the engine its rivals have their turn. The first step touches memory.
static void report(void *context, const struct run_result *result)
{
    struct executor_bench *bench = context;
    struct taken own = since(bench->mark);
    double worked_s = bench->watched->worked_s - bench->worked_mark_s;
    int turn = result->step_count - 2;
    bench->loss[turn >= 0] = result->loss[result->step_count - 1];
    if (turn < 0 && bench->torch) rival_step(bench->torch, &own);
    if (turn >= 0) {
        struct turn *at = &bench->turns[turn];
        double before_s = sgemm_seconds_per_flop(bench->sgemm);
        *at = (struct turn){.own = own, .worked_s = worked_s};
        at->sgemm_s = bench->flop * fmin(before_s, sgemm_seconds_per_flop(bench->sgemm));
        if (bench->torch && !rival_step(bench->torch, &at->torch)) bench->torch = NULL;
        run_plain(bench, at);
    }
    bench->worked_mark_s = bench->watched->worked_s;
    bench->mark = now();
}

// Lowered for one rank, its memory planned, written out.
static bool plan(struct executor_bench *bench, struct err *err)
{
    struct arena scratch = {0};
    struct cluster *cluster = cluster_load(bench->arena, "dgx-a100-80g", err);
    const struct stack *stack = stack_load(bench->arena, "meshwright-cpu", err);
    if (!cluster || !stack) return false;
    struct workload workload = {.seq_len = bench->seq,
                                .global_batch = BATCH,
                                .precision = PRECISION_FP32,
                                .optimizer = OPTIMIZER_ADAMW};
    struct parallel parallel = {.vpp = 1,
                                .micro_batch = BATCH,
                                .schedule = SCHEDULE_1F1B,
                                .recompute_layers = -1,
                                .attention = ATTENTION_FLASH,
                                .passes = (1 << PASS_COUNT) - 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel_default_order(&parallel);
    cluster->rank_count = 1;
    if (!program_check(bench->graph, cluster, &workload, &parallel, err)) return false;
    struct program *program = program_lower(bench->arena, bench->graph, cluster, &workload,
                                            &parallel, stack_joins(stack));
    const struct memory_options memory = {.method = MEMORY_ROAM, .alignment = 512};
    bool is_planned;
    struct script **scripts =
        plan_scripts_make(bench->arena, &scratch, program, stack, NULL, &memory, &is_planned, err);
    arena_free(&scratch);
    if (scripts) bench->script = scripts[0];
    return scripts != NULL;
}

static bool run(struct executor_bench *bench, struct err *err)
{
    struct run_result result;
    struct watched watched = {.backend = bench->backend};
    const char *fault = bench->backend->open(0, &watched.device);
    if (fault) return err_set(err, ERR_SYSTEM, "%s", fault);
    bench->watched = &watched;
    struct device *device = (struct device *)(void *)&watched;
    const struct communicator_request self = {
        .backend = bench->table, .device = device, .rank_count = 1};
    struct communicator *communicator;
    const struct transport *transport = communicator_self(&self, &communicator, err);
    if (!transport) return false;
    const struct run_options options = {.steps = bench->turn_count + 1,
                                        .seed = 1,
                                        .rate = {.peak = 1e-4},
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .epsilon = 1e-8,
                                        .weight_decay = 0.1};
    struct heartbeat heartbeat = {0};  // somebody watches, as under the launcher
    const struct run_request request = {.backend = bench->table,
                                        .device = device,
                                        .transport = transport,
                                        .communicator = communicator,
                                        .script = bench->script,
                                        .graph = bench->graph,
                                        .options = &options,
                                        .heartbeat = &heartbeat,
                                        .report = report,
                                        .report_context = bench};
    bench->mark = now();
    bool done = run_steps(bench->arena, &request, &result, err);
    bench->memory_bytes = result.peak_bytes;
    transport->close(communicator);
    bench->backend->close(watched.device);
    return done;
}

// The median over the turns in which `of` was run.
static double median(const struct executor_bench *bench, double (*of)(const struct turn *turn),
                     int *count)
{
    double values[TURNS_MAX];
    int known = 0;
    for (int t = 0; t < bench->turn_count; t++) {
        double value = of(&bench->turns[t]);
        if (isnan(value)) continue;
        int at = known++;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    if (count) *count = known;
    return known ? (values[(known - 1) / 2] + values[known / 2]) / 2 : NAN;
}

static double known(double value)
{
    return value > 0 ? value : NAN;
}
static double own_cpu(const struct turn *turn)
{
    return turn->own.cpu_s;
}
static double own_wall(const struct turn *turn)
{
    return turn->own.wall_s;
}
static double torch_cpu(const struct turn *turn)
{
    return known(turn->torch.cpu_s);
}
static double torch_wall(const struct turn *turn)
{
    return known(turn->torch.wall_s);
}
static double plain_cpu(const struct turn *turn)
{
    return known(turn->plain.cpu_s);
}
static double plain_wall(const struct turn *turn)
{
    return known(turn->plain.wall_s);
}
static double torch_ratio(const struct turn *turn)
{
    return torch_cpu(turn) / own_cpu(turn);
}
static double torch_wall_ratio(const struct turn *turn)
{
    return torch_wall(turn) / own_wall(turn);
}
static double plain_ratio(const struct turn *turn)
{
    return plain_cpu(turn) / own_cpu(turn);
}
static double plain_wall_ratio(const struct turn *turn)
{
    return plain_wall(turn) / own_wall(turn);
}
static double roof_share(const struct turn *turn)
{
    return turn->sgemm_s / own_cpu(turn);
}
static double engine_share(const struct turn *turn)
{
    return 1 - turn->worked_s / own_cpu(turn);
}

static void print_rival(const struct executor_bench *bench, const char *name,
                        double (*cpu)(const struct turn *), double (*wall)(const struct turn *),
                        double (*ratio)(const struct turn *),
                        double (*wall_ratio)(const struct turn *))
{
    int count;
    double cpu_s = median(bench, cpu, &count), tokens = BATCH * bench->seq;
    if (count == 0) return;
    printf("  %-12s %7.2f s (%6.2f)  %6.1f tokens/s   meshwright %5.2f times as fast (%.2f), "
           "%d turn%s\n",
           name, cpu_s, median(bench, wall, NULL), tokens / cpu_s, median(bench, ratio, NULL),
           median(bench, wall_ratio, NULL), count, count == 1 ? "" : "s");
}

static void print(const struct executor_bench *bench)
{
    double cpu_s = median(bench, own_cpu, NULL), tokens = BATCH * bench->seq;
    printf("GPT-2 124M, batch %d x %d: %.2f TFLOP a step, %d tasks, %.2f GB\n", BATCH, bench->seq,
           1e-12 * bench->flop, bench->script->task_count, 1e-9 * (double)bench->memory_bytes);
    printf("  %-12s %7.2f s (%6.2f)  %6.1f tokens/s   %.0f %% of the time at sgemm's rate, "
           "%.3f %% of it outside kernels\n",
           "meshwright", cpu_s, median(bench, own_wall, NULL), tokens / cpu_s,
           100 * median(bench, roof_share, NULL), 100 * median(bench, engine_share, NULL));
    print_rival(bench, "PyTorch", torch_cpu, torch_wall, torch_ratio, torch_wall_ratio);
    print_rival(bench, "plain loops", plain_cpu, plain_wall, plain_ratio, plain_wall_ratio);
    printf("  losses of the first and last step: meshwright %.3f, %.3f; plain loops' last %.3f\n",
           bench->loss[0], bench->loss[1], bench->plain_loss);
}

static bool bench_seq(struct executor_bench *bench, struct err *err)
{
    const struct plain_shape shape = {12,   12,    768,       (int)bench->graph->vocab,
                                      1024, BATCH, bench->seq};
    int count = BATCH * bench->seq;
    uint64_t state = 1;
    bench->tokens = ARENA_NEW(bench->arena, int, 2 * count);
    for (int i = 0; i < 2 * count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        bench->tokens[i] = (int)((state >> 33) % (uint64_t)shape.vocab);
    }
    bench->flop = BATCH * graph_model_flop(bench->graph, bench->seq);
    bench->plain_s = 0;
    bench->plain = plain_gpt2_new(&shape);
    bench->torch = rival_start(&shape, sgemm_kernels(bench->sgemm));
    printf("\n%s\n", bench->torch ? rival_name(bench->torch)
                                  : "no python3 with torch: PyTorch is not compared with");
    bool done = plan(bench, err) && run(bench, err);
    if (done) print(bench);
    rival_stop(bench->torch);
    plain_gpt2_free(bench->plain);
    return done;
}

int main(int argc, char **argv)
{
    struct arena arena = {0};
    struct err err = {0};
    struct executor_bench bench = {.arena = &arena, .turn_count = argc > 1 ? atoi(argv[1]) : TURNS};
    struct backend_device_facts facts = {0};
    double load[3] = {0};
    if (bench.turn_count < 1 || bench.turn_count > TURNS_MAX) bench.turn_count = TURNS;
    bench.backend = backend_open("cpu", &err);
    bench.config = model_load(&arena, "gpt2", NULL, NULL, &err);
    if (bench.backend) bench.sgemm = sgemm_open();
    if (bench.sgemm && bench.config) {
        struct backend table = watching(bench.backend);
        bench.table = &table;
        bench.backend->probe(&facts);
        bench.graph = model_graph(&arena, bench.config, &(struct import_options){.flash = true});
        if (getloadavg(load, 3) < 1) load[0] = NAN;
        printf("%s, %s: sgemm %.1f GFLOP/s; load %.1f\n", facts.name, facts.libraries,
               1e-9 / sgemm_seconds_per_flop(bench.sgemm), load[0]);
        bench.seq = 64;
        bool done = bench_seq(&bench, &err);
        bench.seq = 256;
        done = done && bench_seq(&bench, &err);
    } else if (!err.kind) {
        err_set(&err, ERR_SYSTEM, "no libopenblas.so.0");
    }
    sgemm_close(bench.sgemm);
    arena_free(&arena);
    if (err.kind) printf("%s\n", err.text);
    return err.kind ? 1 : 0;
}
