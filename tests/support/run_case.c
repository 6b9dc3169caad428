#include "tests/support/run_case.h"

#include "cost_models/stack.h"
#include "executor/launcher/shared_memory.h"
#include "models/op_linear_loss.h"
#include "plan/script/check.h"
#include "tests/support/emulated.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALIGNMENT = 64, VOCAB_MULTIPLE = 8 };

struct run_case run_case_new(const char *config, int64_t seq_len, int64_t global_batch)
{
    struct run_case of = {.config = config,
                          .backend = "cpu-fp64",
                          .seq_len = seq_len,
                          .global_batch = global_batch,
                          .optimizer = OPTIMIZER_ADAMW,
                          .steps = 2,
                          .clip_norm = 1,
                          .learning_rate = 1e-3,
                          .poison = true};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        of.parallel.degree[axis] = 1;
    of.parallel.vpp = 1;
    of.parallel.micro_batch = 2;
    of.parallel.schedule = SCHEDULE_1F1B;
    of.parallel.recompute_layers = -1;
    of.parallel.passes = (1 << PASS_COUNT) - 1;
    of.parallel.overlap = OVERLAP_GRAD_REDUCE | OVERLAP_PARAM_GATHER | OVERLAP_PP | OVERLAP_CP;
    of.parallel.attention = ATTENTION_FLASH;
    parallel_default_order(&of.parallel);
    return of;
}

static const char *stages_text(struct arena *arena, const struct parallel *parallel)
{
    const char *text = parallel->stage_layers_count ? "" : "even";
    for (int s = 0; s < parallel->stage_layers_count; s++)
        text = arena_print(arena, "%s%s%d", text, s ? "," : "", parallel->stage_layers[s]);
    return text;
}

static const char *order_text(struct arena *arena, const struct parallel *parallel)
{
    const char *text = "";
    for (int i = 0; i < parallel->order_count; i++)
        text = arena_print(arena, "%s%s%s", text, i ? "," : "", axis_name(parallel->order[i]));
    return text;
}

const char *run_case_text(struct arena *arena, const struct run_case *of)
{
    const struct parallel *p = &of->parallel;
    return arena_print(
        arena,
        "dp %d tp %d cp %d (%s) pp %d ep %d etp %d sp %d vpp %d zero %d accumulates %d %s "
        "recompute %s classes %x layers %d overlap %x passes %x micro-batch %d batch %lld seq %lld "
        "attention %s optimizer %s offload %s zero group %d in flight %d stages %s order %s %s",
        p->degree[AXIS_DP], p->degree[AXIS_TP], p->degree[AXIS_CP], cp_kind_name(p->cp_kind),
        p->degree[AXIS_PP], p->degree[AXIS_EP], p->degree[AXIS_ETP], p->sp, p->vpp, p->zero,
        p->accumulates, schedule_name(p->schedule), recompute_name(p->recompute),
        p->recompute_classes, p->recompute_layers, p->overlap, p->passes, p->micro_batch,
        (long long)of->global_batch, (long long)of->seq_len, attention_name(p->attention),
        optimizer_name(of->optimizer), offload_words(arena, &p->offload), p->zero_group,
        p->in_flight, stages_text(arena, p), order_text(arena, p), precision_name(of->precision));
}

// What every rank needs, made before they part.
struct job {
    const struct run_case *of;
    struct graph *graph;
    struct script **scripts, ***replicas;
    const struct backend *backend;
    const char *folder, *segment;  // where dumps go; memory of the ranks
    int rank_count, messages;
};

struct shared_outcome {
    bool done[RUN_RANK_MAX];
    char error[RUN_RANK_MAX][1024];
    struct run_outcome outcome;
};

static bool make_job(struct arena *arena, struct job *job, struct run_outcome *outcome,
                     struct err *why)
{
    const struct run_case *of = job->of;
    int tp = of->parallel.degree[AXIS_TP];
    struct import_options options = {.flash = of->parallel.attention == ATTENTION_FLASH,
                                     .vocab_multiple = VOCAB_MULTIPLE * tp,
                                     .dropout = of->dropout};
    job->graph = tiny_graph(arena, of->config, &options);
    int chunks = of->parallel.loss_chunks;
    if (chunks > 1 && !match_loss_graph(arena, job->graph, chunks)) return false;
    struct workload workload = {.seq_len = of->seq_len,
                                .global_batch = of->global_batch,
                                .precision = of->precision,
                                .optimizer = of->optimizer,
                                .capacity_factor = of->capacity_factor,
                                .unclipped = of->unclipped};
    if (job->graph->expert_count > 0)
        workload.expert_imbalance = (double)job->graph->expert_count / (double)job->graph->top_k;
    if (of->expert_imbalance > 0) workload.expert_imbalance = of->expert_imbalance;
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g", why);
    outcome->stack = stack_load(arena, "meshwright", why);
    if (!cluster || !outcome->stack) return false;
    cluster->rank_count = job->rank_count = (int)parallel_rank_count(&of->parallel);
    if (!program_check(job->graph, cluster, &workload, &of->parallel, why)) return false;
    // CUDA's kernels run on the host here.
    bool is_cuda = strcmp(of->backend, "cuda") == 0;
    job->backend = is_cuda ? emulated_backend(of->precision) : backend_open(of->backend, why);
    if (!job->backend) return false;
    job->backend = backend_at(job->backend, of->precision);
    struct program *program = program_lower(arena, job->graph, cluster, &workload, &of->parallel,
                                            job->backend->joins & ~of->without_joins);
    outcome->program = program;
    struct arena scratch = {0};
    // Whatever the packer has found by then has to run as well.
    const struct memory_options memory = {.method = of->roam ? MEMORY_ROAM : MEMORY_GREEDY,
                                          .alignment = ALIGNMENT,
                                          .time_limit_s = 0.25};
    bool is_planned;
    job->scripts = plan_scripts_make(arena, &scratch, program, outcome->stack, NULL, &memory,
                                     &is_planned, why);
    if (job->scripts)
        job->replicas = plan_scripts_of_replicas(arena, &scratch, program, outcome->stack,
                                                 job->scripts, &memory, why);
    const struct script *const *scripts = (const struct script *const *)job->scripts;
    bool done = job->scripts && !why->kind &&
                script_check(&scratch, scripts, program->shape.stage_count, why);
    if (done)
        job->messages = script_messages_under_way(&scratch, scripts, program->shape.stage_count);
    arena_free(&scratch);
    if (done && of->broken != BREAK_NOTHING) run_case_break(of, job->scripts[0]);
    if (!done) return false;
    outcome->real_bytes = job->backend->real_bytes;
    outcome->compute_bytes = job->backend->compute_bytes;
    return true;
}

static int64_t message_bytes(const struct job *job)
{
    int64_t most = 0;
    for (int s = 0; s < job->scripts[0]->program->shape.stage_count; s++) {
        for (int t = 0; t < job->scripts[s]->task_count; t++) {
            const struct script_task *task = &job->scripts[s]->tasks[t];
            for (int i = 0; i < task->input_count; i++)
                if (task->inputs[i].bytes > most) most = task->inputs[i].bytes;
        }
    }
    return 2 * most;
}

static bool run_rank(struct arena *arena, const struct job *job, int rank,
                     struct run_result *result, struct err *err)
{
    struct device *device;
    const char *fault = job->backend->open(0, &device);
    if (fault) return err_set(err, ERR_SYSTEM, "%s", fault);
    const struct communicator_request request = {.backend = job->backend,
                                                 .device = device,
                                                 .rank = rank,
                                                 .rank_count = job->rank_count,
                                                 .message_bytes = message_bytes(job),
                                                 .message_count = job->messages + 1,
                                                 .host_name = job->segment};
    struct communicator *communicator;
    const struct transport *transport =
        job->of->over_nccl     ? nccl_emulated(&request, &communicator, err)
        : job->rank_count == 1 ? communicator_self(&request, &communicator, err)
                               : communicator_host(&request, &communicator, err);
    if (!transport) return false;
    const struct run_options options = {
        .logits_path = job->of->logits,
        .steps = job->of->steps,
        .seed = 7,
        .rate = {.peak = job->of->learning_rate},
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .momentum = 0.9,
        .clip_norm = job->of->clip_norm,
        .loss_scale = job->of->loss_scale,
        .operators_apart = job->of->operators_apart,
        .launches_each = job->of->launches_each,
        .poison = job->of->poison,
        .nvme = job->of->nvme,
        .checkpoint = job->of->checkpoint,
        .dump_path = arena_print(arena, "%s/dump", job->folder),
    };
    const struct program *program = job->scripts[0]->program;
    struct script **own =
        job->replicas ? job->replicas[program_replica(program, rank)] : job->scripts;
    const struct script *script = own[mesh_stage_of(&program->mesh, rank)];
    const struct run_request run = {.backend = job->backend,
                                    .device = device,
                                    .transport = transport,
                                    .communicator = communicator,
                                    .rank = rank,
                                    .script = script,
                                    .graph = job->graph,
                                    .options = &options};
    bool done = run_check(arena, job->backend, script, job->graph, rank, err) &&
                run_steps(arena, &run, result, err);
    if (!done) transport->abort(communicator, err->text);
    transport->close(communicator);
    job->backend->close(device);
    return done;
}

static void be_rank(const struct job *job, int rank, struct shared_outcome *shared)
{
    struct arena arena = {0};
    struct run_result result = {0};
    struct err err = {0};
    shared->done[rank] = run_rank(&arena, job, rank, &result, &err);
    snprintf(shared->error[rank], sizeof shared->error[rank], "%.1023s", err.text);
    if (rank == 0 && shared->done[0]) {
        struct run_outcome *outcome = &shared->outcome;
        outcome->step_count = result.step_count;
        memcpy(outcome->loss, result.loss, (size_t)result.step_count * sizeof(double));
        memcpy(outcome->norm, result.gradient_norm, (size_t)result.step_count * sizeof(double));
        memcpy(outcome->loss_scale, result.loss_scale, (size_t)result.step_count * sizeof(double));
        outcome->peak_bytes = result.peak_bytes;
        outcome->host_peak_bytes = result.host_peak_bytes;
        outcome->nvme_bytes = result.nvme_bytes;
        outcome->replay_count = result.replay_count;
        outcome->joined_count = result.joined_count;
        outcome->saved = result.saved;
        assert_in_range(result.kind_count, 0, RUN_KIND_MAX);
        assert_in_range(result.task_count, 0, RUN_TASK_MAX);
        outcome->task_count = result.task_count;
        // A run that resumes behind its last step has no tasks.
        if (result.task_count > 0)
            memcpy(outcome->tasks, result.tasks, (size_t)result.task_count * sizeof *result.tasks);
        outcome->kind_count = result.kind_count;
        if (result.kind_count > 0)
            memcpy(outcome->kinds, result.kinds, (size_t)result.kind_count * sizeof *result.kinds);
    }
    arena_free(&arena);
}

static void fork_ranks(const struct job *job, struct run_outcome *outcome)
{
    struct shared_outcome *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    pid_t children[RUN_RANK_MAX];
    assert_in_range(job->rank_count, 1, RUN_RANK_MAX);
    fflush(NULL);
    for (int rank = 0; rank < job->rank_count; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] > 0) continue;
        be_rank(job, rank, shared);
        _exit(0);
    }
    outcome->done = true;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int status;
        assert_int_equal(waitpid(children[rank], &status, 0), children[rank]);
        bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0 && shared->done[rank];
        if (done || !outcome->done) continue;
        outcome->done = false;
        snprintf(outcome->error, sizeof outcome->error, "rank %d: %.900s (status %x)", rank,
                 shared->error[rank], (unsigned)status);
    }
    const struct run_outcome *told = &shared->outcome;
    outcome->step_count = told->step_count;
    memcpy(outcome->loss, told->loss, sizeof told->loss);
    memcpy(outcome->norm, told->norm, sizeof told->norm);
    memcpy(outcome->loss_scale, told->loss_scale, sizeof told->loss_scale);
    outcome->peak_bytes = told->peak_bytes;
    outcome->host_peak_bytes = told->host_peak_bytes;
    outcome->nvme_bytes = told->nvme_bytes;
    outcome->replay_count = told->replay_count;
    outcome->joined_count = told->joined_count;
    outcome->saved = told->saved;
    outcome->task_count = told->task_count;
    memcpy(outcome->tasks, told->tasks, sizeof told->tasks);
    outcome->kind_count = told->kind_count;
    memcpy(outcome->kinds, told->kinds, sizeof told->kinds);
    munmap(shared, sizeof *shared);
}

// One part of a dump.
struct dump_part {
    int rank;
    int64_t first[TENSOR_RANK_MAX], count[TENSOR_RANK_MAX], whole[TENSOR_RANK_MAX];
    long long from, elements;
};

static struct run_tensor *find_tensor(struct arena *arena, struct run_outcome *outcome,
                                      const char *key, const struct dump_part *part)
{
    for (int i = 0; i < outcome->tensor_count; i++) {
        if (strcmp(outcome->tensors[i].key, key) == 0) return &outcome->tensors[i];
    }
    enum { TENSORS_MAX = 2048 };
    if (!outcome->tensors) outcome->tensors = ARENA_NEW(arena, struct run_tensor, TENSORS_MAX);
    assert_in_range(outcome->tensor_count, 0, TENSORS_MAX - 1);
    struct run_tensor *tensor = &outcome->tensors[outcome->tensor_count++];
    tensor->key = arena_copy(arena, key);
    tensor->rank = part->rank;
    int64_t elements = 1;
    for (int i = 0; i < part->rank; i++)
        elements *= tensor->sizes[i] = part->whole[i];
    tensor->values = ARENA_NEW(arena, double, elements);
    for (int64_t i = 0; i < elements; i++)
        tensor->values[i] = NAN;
    return tensor;
}

static void read_values(struct run_tensor *tensor, const struct dump_part *part, FILE *file)
{
    for (long long e = 0; e < part->elements; e++) {
        double value;
        assert_int_equal(fread(&value, sizeof value, 1, file), 1);
        int64_t rest = part->from + e, at = 0, index[TENSOR_RANK_MAX];
        for (int i = part->rank - 1; i >= 0; i--) {
            index[i] = part->first[i] + (part->count[i] ? rest % part->count[i] : 0);
            rest /= part->count[i] ? part->count[i] : 1;
        }
        if (rest > 0) continue;  // shares are counted rounded up
        for (int i = 0; i < part->rank; i++)
            at = at * tensor->sizes[i] + index[i];
        double *known = &tensor->values[at];
        double scale = fabs(value) + 1e-12;
        if (!isnan(*known) && !(fabs(*known - value) <= 1e-9 * scale))
            fail_msg("%s: replicas differ at %lld: %.17g and %.17g", tensor->key, (long long)at,
                     *known, value);
        *known = value;
    }
}

static void read_dump(struct arena *arena, struct run_outcome *outcome, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        struct dump_part part = {0};
        char *bar = strstr(line, " |"), *at = strchr(line, ' ');
        assert_non_null(bar);
        at = strchr(at + 1, ' ');
        char *key_end = strchr(at + 1, ' ');
        if (!key_end || key_end > bar) key_end = bar;
        for (char *dim = key_end; dim < bar;) {
            int used;
            long long first, count, whole;
            assert_int_equal(sscanf(dim, " %lld:%lld/%lld%n", &first, &count, &whole, &used), 3);
            part.first[part.rank] = first;
            part.count[part.rank] = count;
            part.whole[part.rank++] = whole;
            dim += used;
        }
        assert_int_equal(sscanf(bar, " | %lld:%lld", &part.from, &part.elements), 2);
        *key_end = '\0';
        struct run_tensor *tensor = find_tensor(arena, outcome, line, &part);
        read_values(tensor, &part, file);
        assert_int_equal(fgetc(file), '\n');
    }
    free(line);
}

static void read_dumps(struct arena *arena, const struct job *job, struct run_outcome *outcome)
{
    for (int rank = 0; rank < job->rank_count; rank++) {
        const char *path = arena_print(arena, "%s/dump.%d", job->folder, rank);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (outcome->done) read_dump(arena, outcome, file);
        fclose(file);
        remove(path);
    }
}

struct run_outcome *run_case_run(struct arena *arena, const struct run_case *of, struct err *why)
{
    struct run_outcome *outcome = ARENA_NEW(arena, struct run_outcome, 1);
    struct job job = {.of = of};
    if (!make_job(arena, &job, outcome, why)) return NULL;
    char folder[] = "/dev/shm/run-case-XXXXXX";
    assert_non_null(mkdtemp(folder));
    job.folder = folder;
    struct shared_memory memory;
    if (!shared_memory_create(&memory, why)) return NULL;
    job.segment = memory.name;
    outcome->scripts = job.scripts;
    fork_ranks(&job, outcome);
    shared_memory_close(&memory);
    read_dumps(arena, &job, outcome);
    rmdir(folder);
    return outcome;
}

// `tolerance` of the largest value, or negative: every bit.
static bool is_near(double expected, double found, double most, double tolerance)
{
    if (tolerance < 0) return memcmp(&expected, &found, sizeof expected) == 0;
    return fabs(expected - found) <= tolerance * (most + RUN_CANCELLED) + 1e-13;
}

static const char *tensor_difference(struct arena *arena, const struct run_tensor *expected,
                                     const struct run_tensor *found, double tolerance)
{
    int64_t elements = 1;
    double most = 0;
    for (int i = 0; i < expected->rank; i++)
        elements *= expected->sizes[i];
    for (int64_t e = 0; e < elements; e++)
        most = fmax(most, fabs(expected->values[e]));
    for (int64_t e = 0; e < elements; e++) {
        int64_t rest = e, at = 0, index[TENSOR_RANK_MAX];
        for (int i = expected->rank - 1; i >= 0; i--) {
            index[i] = rest % expected->sizes[i];
            rest /= expected->sizes[i];
        }
        for (int i = 0; i < expected->rank; i++)
            at = at * found->sizes[i] + index[i];
        double a = expected->values[e], b = found->values[at];
        if (is_near(a, b, most, tolerance)) continue;
        return arena_print(arena, "%s, element %lld: %.17g, expected %.17g", expected->key,
                           (long long)e, b, a);
    }
    return NULL;
}

static const char *tensors_difference(struct arena *arena, const struct run_outcome *expected,
                                      const struct run_outcome *found, double tolerance)
{
    for (int i = 0; i < expected->tensor_count; i++) {
        const struct run_tensor *tensor = &expected->tensors[i], *other = NULL;
        for (int j = 0; j < found->tensor_count && !other; j++) {
            if (strcmp(found->tensors[j].key, tensor->key) == 0) other = &found->tensors[j];
        }
        if (!other) return arena_print(arena, "%s is not there", tensor->key);
        const char *difference = tensor_difference(arena, tensor, other, tolerance);
        if (difference) return difference;
    }
    return NULL;
}

const char *run_outcome_difference(struct arena *arena, const struct run_outcome *expected,
                                   const struct run_outcome *found, double tolerance)
{
    if (!found->done) return found->error;
    for (int s = 0; s < expected->step_count; s++) {
        double a = expected->loss[s], b = found->loss[s];
        if (!(fabs(a - b) <= tolerance * fabs(a)))
            return arena_print(arena, "loss of step %d: %.17g, expected %.17g", s + 1, b, a);
        double n = expected->norm[s], m = found->norm[s];
        if (!(fabs(n - m) <= tolerance * fabs(n)))
            return arena_print(arena, "norm of step %d: %.17g, expected %.17g", s + 1, m, n);
    }
    return tensors_difference(arena, expected, found, tolerance);
}

const char *run_outcome_bits(struct arena *arena, const struct run_outcome *expected,
                             const struct run_outcome *found)
{
    if (!found->done) return found->error;
    for (int s = 0; s < expected->step_count; s++) {
        double a = expected->loss[s], b = found->loss[s];
        if (!is_near(a, b, 0, -1))
            return arena_print(arena, "loss of step %d: %.17g, expected %.17g", s + 1, b, a);
    }
    return tensors_difference(arena, expected, found, -1);
}

struct run_outcome *run_case_done(struct arena *arena, const struct run_case *of)
{
    struct err err = {0};
    struct run_outcome *outcome = run_case_run(arena, of, &err);
    if (!outcome) fail_msg("%s: %s", run_case_text(arena, of), err.text);
    if (!outcome->done) fail_msg("%s: %s", run_case_text(arena, of), outcome->error);
    return outcome;
}
