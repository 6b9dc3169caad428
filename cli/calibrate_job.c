#include "cli/calibrate_job.h"

#include "cli/plan_question.h"
#include "core/console.h"
#include "core/file.h"
#include "core/progress.h"
#include "executor/launcher/launch.h"
#include "reports/machine/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct calibrate_arguments calibrate_arguments_default(void)
{
    return (struct calibrate_arguments){.backend = "auto"};
}

static void show(void *context, double done_ratio)
{
    progress_show(context, "measuring this machine %3.0f %%", 100 * done_ratio);
}

static const char *today(struct arena *arena)
{
    time_t now = time(NULL);
    struct tm at;
    char text[32] = "";
    if (gmtime_r(&now, &at)) strftime(text, sizeof text, "%Y-%m-%d", &at);
    return arena_copy(arena, text);
}

static double seconds_of(const struct calibrate_arguments *arguments, const struct local_key *key)
{
    static const double HOST_S = 15, GPU_S = 60;
    if (arguments->seconds > 0) return arguments->seconds;
    return strcmp(key->backend, "cpu") == 0 ? HOST_S : GPU_S;
}

// What a rank has open while it measures.
struct rank {
    const struct backend *backend;
    struct backend_device_facts facts;
    struct calibrate_side sides[CALIBRATE_SIDES_MAX];
    int side_count;
    const struct transport *transport;
    struct communicator *communicator;
};

// By worth: what most plans compute in has most of the time.
static const struct {
    enum precision precision;
    double share;
} SHARES[] = {
    {PRECISION_BF16, 0.5}, {PRECISION_FP32, 0.2}, {PRECISION_FP16, 0.15}, {PRECISION_FP8, 0.15}};

static bool open_side(struct rank *rank, int ordinal, enum precision precision, double share,
                      struct err *err)
{
    const struct backend *backend =
        rank->backend->at ? rank->backend->at(precision) : rank->backend;
    if (!backend) return true;  // it does not compute in this
    struct calibrate_side *side = &rank->sides[rank->side_count];
    *side = (struct calibrate_side){.precision = precision, .backend = backend, .share = share};
    const char *fault = backend->open(ordinal, &side->device);
    if (fault) return err_set(err, ERR_SYSTEM, "opening the device: %.300s", fault);
    rank->side_count++;
    return true;
}

static bool open_sides(struct rank *rank, int ordinal, struct err *err)
{
    double sum = 0;
    if (!rank->backend->at) return open_side(rank, ordinal, PRECISION_FP32, 1, err);
    for (size_t i = 0; i < sizeof SHARES / sizeof *SHARES; i++) {
        if (!open_side(rank, ordinal, SHARES[i].precision, SHARES[i].share, err)) return false;
    }
    for (int i = 0; i < rank->side_count; i++)
        sum += rank->sides[i].share;
    for (int i = 0; i < rank->side_count; i++)
        rank->sides[i].share /= sum;
    return true;
}

static bool open_rank(struct rank *rank, const char *backend, const struct launch_place *place,
                      struct heartbeat_page *page, struct err *err)
{
    rank->backend = backend_open(backend, err);
    if (!rank->backend) return false;
    const char *fault = rank->backend->probe(&rank->facts);
    if (fault) return err_set(err, ERR_SYSTEM, "the device is gone: %.300s", fault);
    if (!open_sides(rank, place->local_rank, err)) return false;
    // As `run` chooses.
    const char *note = NULL;
    const struct communicator_request request = {
        .kind = TRANSPORT_AUTO,
        .backend = rank->sides->backend,
        .device = rank->sides->device,
        .rank = place->rank,
        .rank_count = place->rank_count,
        .host_name = place->memory_name,
        .local_rank = place->local_rank,
        .note = &note,
        .heartbeat = page ? heartbeat_of(page, place->rank) : NULL,
    };
    rank->transport = communicator_open(&request, &rank->communicator, err);
    if (note && place->rank == 0) console_printf(stderr, "meshwright calibrate: %s\n", note);
    return rank->transport != NULL;
}

static void close_rank(struct rank *rank, const struct err *err)
{
    if (rank->transport && err->kind) rank->transport->abort(rank->communicator, err->text);
    if (rank->transport) rank->transport->close(rank->communicator);
    for (int i = 0; i < rank->side_count; i++)
        rank->sides[i].backend->close(rank->sides[i].device);
}

static int64_t host_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (int64_t)pages * page_bytes : 1;
}

// Of one GPU, to each of the ranks that share it.
static int64_t rank_memory_bytes(const struct rank *rank, int rank_count)
{
    if (rank->backend->is_host) return 0;
    int64_t sharing = (rank_count + rank->facts.device_count - 1) / rank->facts.device_count;
    return rank->facts.memory_bytes / sharing;
}

// From all tables of the back end. That of the host has another for 16 bits.
static const struct stack *own_stack(struct arena *arena, const struct backend *backend,
                                     struct err *err)
{
    const struct backend *tables[2] = {backend};
    if (!backend->is_host) return own_stack_make(arena, tables, 1, err);
    tables[1] = backend_open("cpu-half", err);
    return tables[1] ? own_stack_make(arena, tables, 2, err) : NULL;
}

static char *make_text(struct arena *arena, const struct calibrate_arguments *arguments,
                       const struct local_key *key, const struct rank *rank,
                       const struct calibration *calibration, bool is_bound, struct err *err)
{
    bool is_host = rank->backend->is_host;
    long cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const struct machine_facts facts = {
        .processor = key->processor,
        .libraries = key->libraries,
        .date = today(arena),
        .version = key->version,
        .transport = rank->transport->name,
        .core_count = key->core_count,
        .is_bound = is_bound,
        .memory_bytes = is_host ? key->memory_bytes : host_memory_bytes(),
        .cache_bytes = cache_bytes > 0 ? cache_bytes : 0,
        .device = is_host ? NULL : &rank->facts,
        .like = is_host ? NULL : machine_like(arena, &rank->facts),
    };
    const struct stack *stack = own_stack(arena, rank->backend, err);
    const struct fabrics *fabrics = stack ? fabrics_load(arena, err) : NULL;
    if (!fabrics) return NULL;
    const struct machine machine = machine_make(arena, calibration, &facts, stack, fabrics);
    if (!arguments->quiet) {
        console_print(stdout, machine_text(arena, &machine, calibration, &facts, fabrics,
                                           arguments->is_long));
    }
    return local_text(arena, key, &(struct local){machine.cluster, machine.stack, machine.kernels});
}

static struct calibrate_request request_of(const struct calibrate_arguments *arguments,
                                           const struct local_key *key, const struct rank *rank,
                                           const struct launch_place *place,
                                           const struct program *plan)
{
    return (struct calibrate_request){
        .plan = plan,
        .sides = rank->sides,
        .side_count = rank->side_count,
        .memory_bytes = rank_memory_bytes(rank, place->rank_count),
        .transport = rank->transport,
        .communicator = rank->communicator,
        .rank = place->rank,
        .rank_count = place->rank_count,
        .seconds = seconds_of(arguments, key),
        .is_short = arguments->is_short,
        .clock = calibrate_real_clock(),
    };
}

// The plan's program as this executor runs it.
static bool load_plan(struct arena *arena, const char *path, const struct program **program,
                      struct err *err)
{
    struct evaluation_request request = {0};
    if (!path) return true;
    if (!plan_question(arena, path, NULL, &request, err)) return false;
    const struct graph *graph =
        evaluation_graph(arena, request.model, request.stack, &request.parallel);
    if (!program_check(graph, request.cluster, &request.workload, &request.parallel, err)) {
        (void)plan_question_status(path, err);
        return false;
    }
    // What our engine merges is measured as one.
    unsigned joins = stack_joins(request.stack) & 1u << JOIN_MERGED;
    bool is_ours = !joins || joins_are_executed(stack_joins(request.stack));
    *program = program_lower(arena, graph, request.cluster, &request.workload, &request.parallel,
                             is_ours ? joins : 0);
    if (is_ours) return true;
    return err_set(err, ERR_INPUT,
                   "%s: its stack %s runs GEMMs that share an input as one, which `run` does "
                   "not: plan with the --stack FOLDER/stack.json that calibrate -o FOLDER writes",
                   path, request.stack->name);
}

static bool check_plan(const struct rank *rank, const char *path, const struct program *plan,
                       struct err *err)
{
    for (int i = 0; i < rank->side_count; i++) {
        if (rank->sides[i].precision == plan->workload.precision) return true;
    }
    return err_set(err, ERR_INPUT, "%s: it computes in %s, which the back end %s does not", path,
                   precision_name(plan->workload.precision), rank->backend->name);
}

// One rank measures; rank 0 has the text of the file, the others none.
static bool measure(struct arena *arena, const struct calibrate_arguments *arguments,
                    const struct local_key *key, const struct launch_place *place,
                    struct heartbeat_page *page, char **text, struct err *err)
{
    struct rank rank = {0};
    struct calibration calibration;
    struct progress progress = progress_start();
    struct binding binding = binding_make(place->rank, place->rank_count);
    const struct program *plan = NULL;
    bool done = load_plan(arena, arguments->plan, &plan, err) &&
                open_rank(&rank, key->backend, place, page, err) &&
                (!plan || check_plan(&rank, arguments->plan, plan, err));
    if (done) {
        struct calibrate_request request = request_of(arguments, key, &rank, place, plan);
        request.progress = place->rank == 0 ? show : NULL;
        request.progress_context = &progress;
        done = calibrate(arena, &request, &calibration, err);
    }
    progress_end(&progress);
    bool is_bound = binding.is_bound;
    binding_undo(&binding);
    if (done && place->rank == 0) {
        *text = make_text(arena, arguments, key, &rank, &calibration, is_bound, err);
        done = *text != NULL;
    }
    close_rank(&rank, err);
    return done;
}

// The ranks are this program again; what they found comes back in a file.
static char *launch(struct arena *arena, const struct calibrate_arguments *arguments,
                    const struct local_key *key, const char *path, struct err *err)
{
    enum { ARGUMENTS_MAX = 13 };
    static const double STUCK_S = 120;
    char *argv[ARGUMENTS_MAX] = {0}, binary[] = "meshwright", command[] = "calibrate";
    int argc = 0;
    argv[argc++] = binary;
    argv[argc++] = command;
    argv[argc++] = arena_print(arena, "--ranks=%d", key->rank_count);
    argv[argc++] = arena_print(arena, "--backend=%s", key->backend);
    argv[argc++] = arena_print(arena, "--seconds=%g", seconds_of(arguments, key));
    argv[argc++] = arena_print(arena, "--into=%s", path);
    if (arguments->plan) argv[argc++] = arena_print(arena, "--plan=%s", arguments->plan);
    if (arguments->quiet) argv[argc++] = arena_copy(arena, "--quiet");
    if (arguments->is_long) argv[argc++] = arena_copy(arena, "--long");
    if (arguments->is_short) argv[argc++] = arena_copy(arena, "--short");
    const struct launch_request request = {.rank_count = key->rank_count,
                                           .argv = argv,
                                           .argc = argc,
                                           .stuck_s = STUCK_S,
                                           .spawns = true};
    int status = 0;
    fflush(stdout);
    if (!launch_job(&request, &status, err)) return NULL;
    if (status != 0) {
        err_set(err, ERR_SYSTEM, "the ranks that measure this machine ended with status %d",
                status);
        return NULL;
    }
    size_t bytes;
    return file_read(arena, path, 1 << 24, &bytes, err);
}

static char *measure_alone(struct arena *arena, const struct calibrate_arguments *arguments,
                           const struct local_key *key, struct err *err)
{
    const struct launch_place place = {.rank_count = 1};
    char *text = NULL;
    return measure(arena, arguments, key, &place, NULL, &text, err) ? text : NULL;
}

char *calibrate_job(void *context, struct arena *arena, const struct local_key *key,
                    struct err *err)
{
    const struct calibrate_arguments *arguments = context;
    if (key->rank_count == 1) return measure_alone(arena, arguments, key, err);
    // A wrong plan is told here, once, and not by the ranks.
    const struct program *plan = NULL;
    if (!load_plan(arena, arguments->plan, &plan, err)) return NULL;
    const char *folder = getenv("TMPDIR");
    char *path = arena_print(arena, "%s/meshwright-XXXXXX", folder && *folder ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0) {
        err_set(err, ERR_SYSTEM, "%s: %s", path, strerror(errno));
        return NULL;
    }
    close(file);
    char *text = launch(arena, arguments, key, path, err);
    unlink(path);
    return text;
}

int calibrate_rank(struct arena *arena, const struct calibrate_arguments *arguments,
                   const struct launch_place *place, struct err *err)
{
    struct heartbeat_page *page = NULL;
    struct local_key key;
    int status = 0;
    char *text = NULL;
    if (!launch_enter(place, &page, &status, err)) return err->kind ? (int)err->kind : status;
    bool done = local_key_find(arena, arguments->backend, place->rank_count, &key, err) &&
                measure(arena, arguments, &key, place, page, &text, err);
    if (done && text) done = file_write(arguments->into, text, strlen(text), err);
    if (page && done) atomic_store(&heartbeat_of(page, place->rank)->state, HEARTBEAT_DONE);
    if (page && !done) heartbeat_fail(page, place->rank, err->text);
    heartbeat_page_close(page);
    return done ? 0 : (int)err->kind;
}
