#include "cli/run_log.h"

#include "cli/options.h"
#include "cli/output.h"
#include "cli/run_checkpoint.h"
#include "core/console.h"
#include "core/file.h"
#include "core/names.h"
#include "executor/data/document_length.h"
#include "reports/comparison/replay.h"
#include "reports/comparison/run_read.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

// What a rank has open.
struct rank {
    const struct run_arguments *arguments;
    const struct run_job *job;
    const struct script *script;
    const struct backend *backend;
    struct device *device;
    const struct transport *transport;
    struct communicator *communicator;
    struct heartbeat_page *page;
    struct corpus corpus;  // of DATA_CORPUS
    double id_bytes;       // of its files, mean by their weights
    struct run_log *log;   // of the first rank
    int rank;
    struct run_checkpoints checkpoints;
    bool is_stopped;    // asked to end, and ended well
    bool is_unmatched;  // a task was predicted or ran alone, attention unfused: the answer is no
};

static bool is_first(const struct rank *rank)
{
    return rank->rank == 0 || rank->arguments->replay_rank >= 0;
}

// The launcher plans around a rank that stays slow, if it was told to.
static void tell_slow(const struct rank *rank, const struct run_result *result)
{
    const struct straggler *of = &result->straggler;
    if (!rank->page || of->rank < 0 || of->is_over) return;
    const struct launch_slow slow = {.rank = of->rank,
                                     .ratio = of->ratio,
                                     .step = result->saved.resumed_step + result->step_count,
                                     .step_s = of->step_s,
                                     .stored_s = result->saved.write_s};
    heartbeat_tell_slow(rank->page, &slow);
}

static void report(void *context, const struct run_result *result)
{
    struct rank *rank = context;
    if (!rank->log) return;
    run_log_step(rank->log, result);
    tell_slow(rank, result);
}

static int64_t largest_message(const struct script *script, int64_t widen)
{
    int64_t most = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->input_count; i++) {
            bool is_message = task->kind == TASK_SEND || task->kind == TASK_INSTR;
            if (is_message && task->inputs[i].bytes > most) most = task->inputs[i].bytes;
        }
    }
    return most * widen;
}

static enum transport_kind transport_kind(const struct run_arguments *arguments)
{
    static const char *const KINDS[] = {"auto", "host", "mpi", "nccl"};
    int kind = NAME_INDEX(KINDS, arguments->transport);
    assert(kind >= 0);
    return (enum transport_kind)kind;
}

// In the place of all others. What comes from them has no values.
static bool open_replay(struct arena *arena, struct rank *rank, struct err *err)
{
    const struct run_job *job = rank->job;
    const struct replay replay = {&job->request, &job->evaluation, rank->script, rank->rank};
    const struct communicator_request request = {.backend = rank->backend,
                                                 .device = rank->device,
                                                 .rank = rank->rank,
                                                 .rank_count = job->rank_count,
                                                 .delays = replay_delays(arena, &replay)};
    console_printf(
        stderr,
        "meshwright run: rank %d of %d alone: exchanges take the predicted time, losses mean "
        "nothing, sums are of %d ranks like it\n",
        rank->rank, job->rank_count, job->rank_count);
    rank->transport = communicator_mock(&request, &rank->communicator, err);
    return rank->transport != NULL;
}

static bool open_transport(struct rank *rank, const struct launch_place *place, struct err *err)
{
    enum precision precision = rank->job->request.workload.precision;
    int64_t plan_bytes = lower_element_bytes(ELEMENT_COMPUTE, precision);
    int64_t most = 0;
    const char *note = NULL;
    for (int s = 0; s < rank->job->stage_count; s++) {
        int64_t own =
            largest_message(rank->job->scripts[s], rank->backend->compute_bytes / plan_bytes);
        if (own > most) most = own;
    }
    const struct communicator_request request = {
        .backend = rank->backend,
        .device = rank->device,
        .rank = place->rank,
        .rank_count = place->rank_count,
        .message_bytes = most,
        .message_count = rank->job->messages + 1,
        .kind = transport_kind(rank->arguments),
        .host_name = place->memory_name,
        .meeting = place->meeting,
        .local_rank = place->local_rank,
        .note = &note,
        .heartbeat = rank->page ? heartbeat_of(rank->page, place->rank) : NULL,
    };
    rank->transport = communicator_open(&request, &rank->communicator, err);
    if (note && is_first(rank)) console_printf(stderr, "meshwright run: %s\n", note);
    if (rank->arguments->checkpoint.slow && rank->backend->is_asynchronous)
        return err_set(err, ERR_USAGE, "--slow-rank: only ranks on CPUs can be made slow");
    return rank->transport != NULL;
}

// Whether a plan for other devices runs on processors.
static bool is_elsewhere(const struct rank *rank)
{
    const struct evaluation_request *request = &rank->job->request;
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    return strcmp(device->kind, "cpu") != 0 && rank->backend->is_host;
}

// What the prediction is of, where that is not what runs.
static void say_difference(const struct rank *rank, const struct launch_place *place)
{
    const struct evaluation_request *request = &rank->job->request;
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    if (is_elsewhere(rank)) {
        console_printf(stderr, "meshwright run: predicted for %s, run on %s\n", device->name,
                       rank->backend->name);
        // The launcher could not know that these would be ranks of processors.
        bool is_chosen = strcmp(rank->arguments->backend, "auto") == 0;
        if (is_chosen && place->memory_name)
            run_job_say_turns(rank->job->rank_count, (int)sysconf(_SC_NPROCESSORS_ONLN));
    }
    enum precision precision = request->workload.precision;
    bool is_wider = rank->backend->compute_bytes > 2;
    if (precision != PRECISION_FP32 && is_wider)
        console_printf(stderr,
                       "meshwright run: the plan's %s is computed in %d-bit numbers, and memory "
                       "counted so\n",
                       precision_name(precision), 8 * rank->backend->compute_bytes);
}

static bool open_rank(struct arena *arena, struct rank *rank, const struct launch_place *place,
                      struct err *err)
{
    const char *note = NULL;
    rank->backend = backend_choose(arena, rank->arguments->backend, &note, err);
    if (!rank->backend) return false;
    rank->backend = backend_at(rank->backend, rank->job->request.workload.precision);
    if (note && is_first(rank)) console_printf(stderr, "meshwright run: %s\n", note);
    if (!run_check(arena, rank->backend, rank->script, rank->job->evaluation.graph, rank->rank,
                   err))
        return false;
    if (rank->arguments->training.mask_documents &&
        !run_check_documents(rank->backend, rank->script->program, err))
        return false;
    if (rank->arguments->device_memory_bytes > 0 && !rank->backend->limit)
        return err_set(
            err, ERR_USAGE,
            "--device-memory: only ranks on CPUs have as much as is said; --backend %s has "
            "what it has",
            rank->backend->name);
    if (is_first(rank)) say_difference(rank, place);
    const char *fault = rank->backend->open(place->local_rank, &rank->device);
    if (fault) return err_set(err, ERR_SYSTEM, "opening the device: %s", fault);
    if (!run_choices(arena, rank->arguments->kernels, rank->backend, rank->device, is_first(rank),
                     err))
        return false;
    if (rank->arguments->replay_rank >= 0) return open_replay(arena, rank, err);
    return open_transport(rank, place, err);
}

// Says what has failed before the others are told, which may end this process.
static void give_up(struct rank *rank, struct err *err)
{
    const struct transport *transport = rank->transport;
    struct err said = *err;
    launch_memory_explain(rank->page ? rank->rank : -1, &said);
    bool was_told = transport && transport->was_told && transport->was_told(rank->communicator);
    enum launch_standing standing = !transport ? LAUNCH_ALONE
                                    : was_told ? LAUNCH_TOLD
                                               : LAUNCH_FIRST;
    if (rank->page) launch_tell(rank->page, rank->rank, standing, &said);
    if (transport) transport->abort(rank->communicator, err->text);
    *err = said;
}

// Whether it runs on what it was planned for: shares of the peak are of that.
static bool is_planned_device(const struct rank *rank)
{
    const struct evaluation_request *request = &rank->job->request;
    const struct device *device =
        cluster_slowest_device(request->cluster, request->workload.precision);
    return (strcmp(device->kind, "cpu") == 0) == rank->backend->is_host;
}

// What a rank of each stage works in a step, as it is simulated; NULL: on another machine.
static const double *stage_work(struct arena *arena, const struct rank *rank)
{
    const struct evaluation *evaluation = &rank->job->evaluation;
    const struct schedule_shape *shape = &evaluation->program->shape;
    const struct trace *trace = &evaluation->simulation->trace;
    double *work_s = ARENA_NEW(arena, double, shape->stage_count);
    if (!is_planned_device(rank)) return NULL;
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->spans[i];
        bool is_slot = task_id_of(shape, span->task).kind < SLOT_KIND_COUNT;
        if (is_slot && span->stream == STREAM_COMPUTE && span->rank < shape->stage_count)
            work_s[span->rank] += 1e-9 * (double)(span->end_ns - span->start_ns);
    }
    return work_s;
}

// How long documents are follows from the files, which the plan did not know.
static bool price_masks(struct arena *arena, struct rank *rank, struct err *err)
{
    enum { SEQUENCES_MOST = 256 };
    const struct workload *workload = &rank->job->request.workload;
    int64_t count = rank->arguments->steps * workload->global_batch;
    if (count > SEQUENCES_MOST) count = SEQUENCES_MOST;
    double tokens = document_length(arena, &rank->corpus, count);
    if (tokens <= 0) return true;
    rank->job = run_job_masked(arena, rank->job, tokens, err);
    if (!rank->job) return false;
    console_printf(stderr,
                   "meshwright run: a token's document has %.4g of the sequence's %lld tokens in "
                   "the mean of %lld sequences: attention is predicted so\n",
                   tokens, (long long)workload->seq_len, (long long)count);
    return true;
}

// What is trained on, and where its steps are written down.
static bool open_training(struct arena *arena, struct rank *rank, struct err *err)
{
    const struct run_job *job = rank->job;
    const struct run_arguments *arguments = rank->arguments;
    bool reads =
        readers_reads(job->request.cluster, training_readers(&arguments->training), rank->rank);
    if (training_data(&arguments->training) == DATA_CORPUS &&
        !training_open(arena, &arguments->training, job->evaluation.graph, &job->request.workload,
                       arguments->seed, reads, &rank->corpus, err))
        return false;
    for (int s = 0; s < rank->corpus.source_count; s++) {
        const struct corpus_source *source = &rank->corpus.sources[s];
        rank->id_bytes += source->weight * source->tokens.id_bytes;
    }
    if (!is_first(rank)) return true;
    bool is_masked = arguments->training.mask_documents && reads;
    if (is_masked && !price_masks(arena, rank, err)) return false;
    rank->log = run_log_open(arena, arguments, rank->job, is_planned_device(rank), err);
    return rank->log != NULL;
}

// The exit code of the rank.
static int close_rank(struct rank *rank, struct err *err)
{
    // Who was asked to end has said so.
    int status = err->kind          ? exit_status(err)
                 : rank->is_stopped ? (int)ERR_SYSTEM
                                    : rank->is_unmatched;
    if (err->kind) give_up(rank, err);
    if (rank->transport) rank->transport->close(rank->communicator);
    if (rank->device) rank->backend->close(rank->device);
    return status;
}

static struct run_options options_of(const struct run_arguments *arguments,
                                     const struct run_job *job, const struct launch_place *place,
                                     const struct corpus *corpus)
{
    const struct training_arguments *training = &arguments->training;
    // The drill is of what the rank works on, whatever its number is once another is left out.
    return (struct run_options){
        .steps = arguments->steps,
        .seed = (uint64_t)arguments->seed,
        .data = training_data(training),
        .corpus = corpus,
        .readers = training_readers(training),
        .validate_every = training->validate_every,
        .validate_batches = training->validate_batches,
        .device_memory_bytes = arguments->device_memory_bytes,
        .nvme = arguments->nvme,
        .slow_rank = place->rank,
        .slow_ratio = checkpoint_options_slow_ratio(&arguments->checkpoint, place->home),
        .rate = training_rate(training, arguments->steps),
        .beta1 = 0.9,
        .beta2 = 0.95,
        .epsilon = 1e-8,
        .weight_decay = training->weight_decay,
        .spike_deviations = training->spike_deviations,
        .roll_back = training->roll_back,
        .momentum = 0.9,
        .clip_norm = job->clip_norm,
        .poison = arguments->poison,
        .dump_path = arguments->dump,
        .logits_path = arguments->logits,
    };
}

static const char *machine_text(struct arena *arena)
{
    struct utsname name;
    if (uname(&name) != 0) return "unknown";
    return arena_print(arena, "%s %s %s, %ld cores", name.sysname, name.release, name.machine,
                       sysconf(_SC_NPROCESSORS_ONLN));
}

static struct input_price price_input(struct arena *arena, const struct rank *rank)
{
    const struct training_arguments *training = &rank->arguments->training;
    const struct input_request request = {.program = rank->job->evaluation.program,
                                          .readers = training_readers(training),
                                          .id_bytes = rank->id_bytes,
                                          .are_masked = training->mask_documents != NULL,
                                          .step_s = rank->job->evaluation.prediction.step_s};
    return input_price(arena, &request);
}

static bool answer(struct arena *arena, struct rank *rank, const struct run_result *result,
                   struct err *err)
{
    const struct run_job *job = rank->job;
    const struct run_arguments *arguments = rank->arguments;
    const struct script *const *scripts = (const struct script *const *)job->scripts;
    int real_bytes = rank->backend->real_bytes, compute_bytes = rank->backend->compute_bytes;
    const struct run_memory memory = {
        plan_scripts_peak_bytes(scripts, job->request.stack, real_bytes, compute_bytes),
        plan_scripts_host_bytes(scripts, job->request.stack, real_bytes, compute_bytes),
        plan_scripts_nvme_bytes(scripts, job->request.stack, real_bytes, compute_bytes)};
    const struct run_widths widths = {real_bytes, compute_bytes};
    struct run_compare compare = run_compare_make(arena, &job->request, &job->evaluation,
                                                  &job->ledger, memory, widths, result);
    if (result->input.reader_count > 0) compare.input = price_input(arena, rank);
    compare.pause_s = rank->checkpoints.predicted.checkpoint_s;
    compare.write_s = rank->checkpoints.predicted.write_s;
    struct backend_device_facts device = {0};
    const char *fault = rank->backend->probe(&device);
    if (fault) return err_set(err, ERR_SYSTEM, "the device is gone: %s", fault);
    const struct run_facts facts = {
        .plan_path = arguments->plan,
        .plan_hash = run_plan_hash(arena, job->text),
        .backend = rank->backend->name,
        .device = device.name,
        .libraries = device.libraries,
        .transport = rank->transport->name,
        .machine = machine_text(arena),
        .rank_count = job->rank_count,
    };
    const char *text = run_json_text(arena, &compare, &facts);
    const char *output = arguments->output;
    const char *said = output ? output_said(arena, output) : "";
    const char *drawn = arguments->trace ? output_said(arena, arguments->trace) : "";
    // A rank alone ran nobody else's tasks.
    rank->is_unmatched = compare.join.unmatched_count > 0 && arguments->replay_rank < 0;
    const char *refusal = run_attention_refusal(arena, &compare);
    if (refusal) console_printf(stderr, "meshwright run: %s\n", refusal);
    rank->is_unmatched |= refusal != NULL;
    const char *slow = run_drive_text(arena, &compare, arguments->nvme);
    if (slow && !is_elsewhere(rank)) console_printf(stderr, "meshwright run: %s\n", slow);
    if (output && !file_write(output, text, strlen(text), err)) return false;
    if (arguments->trace) {
        struct arena scratch = {0};
        struct trace overlay = run_overlay(arena, &scratch, &compare);
        arena_free(&scratch);
        if (!trace_write(&overlay, arguments->trace, err)) return false;
    }
    if (arguments->json) {
        fputs(text, stdout);
        if (rank->is_unmatched) console_print(stderr, run_join_text(arena, &compare.join));
        return true;
    }
    console_printf(stdout, "\n%s%s, %s (%s), %d rank%s over %s\n", run_table_text(arena, &compare),
                   rank->backend->name, device.name, device.libraries, job->rank_count,
                   job->rank_count == 1 ? "" : "s", rank->transport->name);
    if (*said) console_printf(stdout, "%s\n", said);
    if (*drawn) console_printf(stdout, "%s\n", drawn);
    return true;
}

int run_rank(struct arena *arena, const struct run_arguments *arguments, const struct run_job *job,
             const struct launch_place *place, struct heartbeat_page *page, struct err *err)
{
    struct rank rank = {.arguments = arguments,
                        .job = job,
                        .script = run_job_script(job, place->rank),
                        .page = page,
                        .rank = place->rank};
    struct run_options options = options_of(arguments, job, place, &rank.corpus);
    struct run_result result = {0};
    bool done = true;
    if (arguments->checkpoint.folder) {
        done = run_checkpoints_make(arena, &arguments->checkpoint, job,
                                    run_plan_hash(arena, job->text), &rank.checkpoints, err);
        options.checkpoint = &rank.checkpoints.options;
        if (page) atomic_store(&heartbeat_of(page, place->rank)->saves, 1);
    }
    done = done && open_rank(arena, &rank, place, err) && open_training(arena, &rank, err);
    if (done) options.stage_work_s = stage_work(arena, &rank);
    const struct run_request request = {
        .backend = rank.backend,
        .device = rank.device,
        .transport = rank.transport,
        .communicator = rank.communicator,
        .rank = place->rank,
        .script = rank.script,
        .graph = job->evaluation.graph,
        .options = &options,
        .heartbeat = rank.page ? heartbeat_of(rank.page, place->rank) : NULL,
        .report = report,
        .report_context = &rank,
    };
    done = done && run_steps(arena, &request, &result, err);
    if (rank.log) done = run_log_end(rank.log, done, err);
    corpus_close(&rank.corpus);
    rank.is_stopped = result.saved.is_stopped;
    if (done && is_first(&rank) && !rank.is_stopped) done = answer(arena, &rank, &result, err);
    bool is_moving = page && place->memory_name && heartbeat_page_is_moving(page);
    if (done && is_first(&rank) && rank.is_stopped && !is_moving)
        console_printf(stderr,
                       "meshwright run: ended by SIGTERM behind step %lld of %d: --resume goes on "
                       "from %s\n",
                       (long long)result.saved.step, arguments->steps,
                       arguments->checkpoint.folder);
    assert(done == !err->kind);
    return close_rank(&rank, err);
}
