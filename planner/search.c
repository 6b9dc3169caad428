#include "planner/search.h"

#include "core/progress.h"
#include "plan/stages.h"
#include "plan/unexecuted.h"
#include "plan/video_check.h"
#include "planner/cuts.h"
#include "planner/polish.h"
#include "planner/refine.h"
#include "planner/refuse.h"
#include "planner/remedies.h"
#include "planner/scan.h"
#include "planner/search_counts.h"
#include "planner/search_stays.h"
#include "simulator/closed_form.h"
#include "simulator/evaluate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// How many plans the events judge, whatever number is wanted.
enum { FINAL_COUNT = 12 };

// One call's working memory; freed at its end.
struct search {
    struct arena *arena;  // of the result
    struct arena work, scratch;
    const struct search_request *request;
    struct search_result *result;
    struct space *space;
    struct scan_request scan;
    bool stopped;  // something was left out
};

// Pins that no plan of the model can have together. With one sequence dim no degree goes with
// axial; with two the degree that is pinned.
static bool check_turns(const struct pins *pins, const struct graph *graph, struct err *err)
{
    struct int_range kind = pins_get(pins, CHOICE_CP_KIND), zero = pins_get(pins, CHOICE_ZERO);
    struct int_range cp = pins_get(pins, CHOICE_CP), tp = pins_get(pins, CHOICE_TP);
    if (graph->frames == 0 && !kind.set) return true;
    struct parallel asked = {.cp_kind = kind.set ? (enum cp_kind)kind.low : CP_AXIAL,
                             .zero = zero.set ? (int)zero.low : 0,
                             .sp = kind.set && pins->sp == 1};
    asked.degree[AXIS_CP] = graph->frames == 0 ? 2 : cp.set ? (int)cp.low : 1;
    asked.degree[AXIS_TP] = tp.set ? (int)tp.low : 1;
    return video_check_choices(graph, &asked, err);
}

// What our executor has no kernels for is nothing to plan for it.
static bool check_model(const struct search_request *request, const struct parallel *pinned,
                        struct err *err)
{
    struct arena arena = {0};
    const struct import_options options = {0};
    const struct graph *graph = model_graph(&arena, request->model, &options);
    const char *device = request->cluster->nodes[0].device->kind;
    bool is_right = program_check_seq_len(graph, &request->workload, err) &&
                    program_check_lora(graph, pinned->lora, err) &&
                    parts_check(graph, &request->workload, pinned, err) &&
                    evaluate_check_pace(graph, request->cluster, &request->workload, err) &&
                    (!stack_is_executed(request->stack) ||
                     (unexecuted_check_graph(graph, device, err) &&
                      unexecuted_check_positions(graph, request->workload.seq_len, err)));
    is_right = is_right && check_turns(&request->pins, graph, err);
    if (is_right && graph->frames > 0 && !stack_has_videos(request->stack))
        is_right = err_set(err, ERR_USAGE, "stack %s has no diffusion transformers, as %s is one",
                           request->stack->name, graph->name);
    arena_free(&arena);
    return is_right;
}

bool search_check_request(const struct search_request *request, struct err *err)
{
    enum precision precision = request->workload.precision;
    assert(request->workload.seq_len > 0 && request->workload.global_batch > 0);
    if (!pins_check(&request->pins, err)) return false;
    if (request->pins.replica_count > 0) {
        return err_set(err, ERR_USAGE,
                       "--replica-batches: only a search that plays plans takes "
                       "them, that of `plan`");
    }
    if (request->pins.stage_tp_count > 0 || request->pins.search_stage_tp)
        return err_set(err, ERR_USAGE, "--stage-tp: only `plan` takes it, and without --idle");
    if (request->pins.stage_ranks_count > 0 || request->pins.search_stage_ranks)
        return err_set(err, ERR_USAGE, "--stage-ranks: only `plan` takes it, and without --idle");
    if (request->pins.branches == BRANCHES_ON)
        return err_set(err, ERR_USAGE, "--branches on: only `plan` takes it, and without --idle");
    struct offload moved = offload_of_value(pins_get(&request->pins, CHOICE_OFFLOAD).low);
    if (!program_check_offload(request->cluster, &moved, err)) return false;
    const struct pins *pins = &request->pins;
    struct int_range lora = pins_get(pins, CHOICE_LORA), relay = pins_get(pins, CHOICE_TP_RELAY);
    struct parallel parallel = {.offload = moved,
                                .lora = adapters_of_value(lora.set ? lora.low : 0),
                                .overlap = pins->overlap < 0 ? 0 : (unsigned)pins->overlap,
                                .passes = request->stack->passes,
                                .tp_relay = relay.set ? (int)relay.low : 0};
    // Of a range the least: what that is refused for, all are.
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = pins->degree[axis].set ? (int)pins->degree[axis].low : 1;
    if (!stays_check(&parallel, err)) return false;
    // Into how many parts hangs on tp: of a range some may be.
    struct int_range tp = pins->degree[AXIS_TP];
    bool is_one = tp.set && tp.low == tp.high && relay.low == relay.high &&
                  !pins_get(pins, CHOICE_TP_KIND).set;
    if (parallel.tp_relay > 1 && !stack_is_executed(request->stack))
        return err_set(err, ERR_USAGE,
                       "stack %s hands nothing on in parts; meshwright does (--tp-relay)",
                       request->stack->name);
    struct int_range chunks = pins_get(pins, CHOICE_LOSS_CHUNKS);
    struct int_range kind = pins_get(pins, CHOICE_TP_KIND);
    parallel.loss_chunks = chunks.set ? (int)chunks.low : 0;
    if (kind.set && kind.low == kind.high) parallel.tp_kind = (enum tp_kind)kind.low;
    if (parallel.loss_chunks > 1 && !stack_is_executed(request->stack))
        return err_set(
            err, ERR_USAGE,
            "stack %s makes the scores of its loss whole; meshwright makes them in parts "
            "(--loss-chunks)",
            request->stack->name);
    if (!cluster_check_precision(request->cluster, precision, err) ||
        !stack_check_precision(request->stack, precision, err) ||
        !stack_check_executed(request->stack, &request->workload, &parallel, err))
        return false;
    if (!is_one) parallel.tp_relay = 0;
    return check_model(request, &parallel, err);
}

// The search asks for most bytes, the answer for the least that is left, which is another stage's
// on unlike devices.
static int64_t most_reserved_bytes(const struct evaluation *evaluation)
{
    int64_t most_bytes = 0;
    for (int stage = 0; stage < evaluation->program->shape.stage_count; stage++) {
        int64_t bytes = evaluation->stage_memory[stage].reserved_bytes;
        if (bytes > most_bytes) most_bytes = bytes;
    }
    return most_bytes;
}

// The whole plan, lowered anew and played event by event. What the search composed must be what the
// whole program says.
static void simulate(struct search *search, struct candidate *plan)
{
    const struct search_request *request = search->request;
    struct evaluation_request evaluation_request = {
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = request->workload,
        .parallel = plan->parallel,
    };
    struct evaluation evaluation = {0};
    struct err err = {0};
    struct arena_mark mark = arena_mark(&search->work);
    bool ok = evaluate(&search->work, &search->scratch, &evaluation_request, &evaluation, &err);
    assert(ok && "every plan of the space is legal");
    (void)ok;
    double whole_s = closed_form(evaluation.price).step_s;
    assert(fabs(whole_s - plan->closed_form_s) <= 1e-9 * whole_s);
    (void)whole_s;
    assert(most_reserved_bytes(&evaluation) == plan->memory.reserved_bytes);
    if (stages_are_free(evaluation.graph, &plan->parallel)) {
        plan->parallel.stage_layers = NULL;
        plan->parallel.stage_layers_count = 0;
    }
    plan->cost = evaluation.simulation->cost;
    plan->memory = evaluation.stage_memory[evaluation.worst_stage];
    plan->worst_stage = evaluation.worst_stage;
    plan->host_short_bytes = hosts_shortfall(&evaluation.hosts);
    plan->host_lack = hosts_lack(&evaluation.hosts);
    plan->simulated = true;
    arena_reset(&search->work, mark);
}

// What was looked at proves nothing.
static void answer_stopped(struct search *search)
{
    struct search_result *result = search->result;
    result->status = SEARCH_STOPPED;
    result->bound_s = result->layers_s = 0;
    result->bound_bytes = 0;
}

// The finals: events judge the best plans of the closed form.
static void judge(struct search *search, struct scan_result *scanned, double bound_s)
{
    struct ranking *ranking = &scanned->ranking;
    struct search_result *result = search->result;
    result->bound_s = fmin(ranking->items[0].closed_form_s, bound_s);
    if (search->request->objective == OBJECTIVE_MEMORY) {
        result->bound_bytes = ranking->items[0].memory.reserved_bytes;
        result->bound_s = bound_s;
    }
    int wanted = search->request->top > 0 ? search->request->top : 1;
    for (int i = 0; i < ranking->count; i++) {
        if (i == wanted && search_should_stop(search->request)) {
            ranking->count = i;
            search->stopped = true;
        } else {
            simulate(search, &ranking->items[i]);
        }
    }
    ranking_sort(ranking);
    result->best_count = wanted < ranking->count ? wanted : ranking->count;
    result->best = ARENA_NEW(search->arena, struct candidate, result->best_count);
    for (int i = 0; i < result->best_count; i++) {
        result->best[i] = candidate_copy(search->arena, &ranking->items[i]);
    }
    if (search->stopped) return answer_stopped(search);
    // The closed form knows one device and one kind of link, the slowest: of unlike nodes it bounds
    // nothing.
    if (!cluster_is_uniform(search->request->cluster)) {
        result->status = SEARCH_FEASIBLE;
        result->bound_s = 0;
        result->bound_bytes = 0;
        return;
    }
    // The certificate, in whole nanoseconds and bytes.
    const struct candidate *best = &result->best[0];
    result->cut_count = cuts_open(search->space, &search->scan.graphs, scanned, best, result->cuts);
    bool proven = search->request->objective == OBJECTIVE_MEMORY
                      ? best->memory.reserved_bytes == result->bound_bytes
                      : step_ns(best->closed_form_s) == step_ns(result->bound_s);
    enum search_status certain = result->cut_count == 0 ? SEARCH_OPTIMAL : SEARCH_BEST_OF;
    result->status = proven ? certain : SEARCH_FEASIBLE;
}

static const char *largest_part(const struct memory_parts *memory)
{
    const struct {
        const char *name;
        int64_t bytes;
    } parts[] = {
        {"weights", memory->weights_bytes},
        {"gradients", memory->gradients_bytes},
        {"optimizer", memory->optimizer_bytes},
        {"activations", memory->activations_bytes + memory->transient_bytes + memory->logits_bytes},
        {"buffers", memory->buffers_bytes},
        {"reserve", memory->reserve_bytes},
    };
    size_t largest = 0;
    for (size_t i = 1; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes > parts[largest].bytes) largest = i;
    }
    return parts[largest].name;
}

// Nothing fits: the smallest plan, by how much it misses, and what would help.
static void answer_closest(struct search *search, const struct scan_result *scanned)
{
    struct search_result *result = search->result;
    if (search->stopped) return answer_stopped(search);
    result->status = SEARCH_NOTHING_FITS;
    result->cut_count = cuts_open(search->space, &search->scan.graphs, scanned, NULL, result->cuts);
    if (search->request->nothing == SEARCH_FITS_ONLY) return;
    struct scan_request scan = search->scan;
    struct search_request quiet = *search->request;
    quiet.progress = NULL;
    quiet.exhaustive = false;
    scan.search = &quiet;
    scan.ignore_limit = true;
    scan.bases = NULL;
    scan.objective = OBJECTIVE_MEMORY;
    scan.keep = 1;
    struct scan_result found = scan_space(&search->work, &search->scratch, &scan);
    if (found.stopped) return answer_stopped(search);
    assert(found.ranking.count == 1);
    // Of unlike devices the smallest is the limit here, whichever stage is on it.
    struct candidate *closest = &found.ranking.items[0], before = *closest;
    simulate(search, closest);
    closest->memory = before.memory;
    closest->worst_stage = before.worst_stage;
    result->closest = candidate_copy(search->arena, closest);
    result->shortfall_bytes =
        result->closest.memory.reserved_bytes - cluster_device_bytes(search->request->cluster);
    result->limit = largest_part(&result->closest.memory);
    if (result->shortfall_bytes < result->closest.host_short_bytes) {
        result->shortfall_bytes = result->closest.host_short_bytes;
        result->limit = result->closest.host_lack;
    }
    assert(result->shortfall_bytes > 0);
    if (search->request->nothing == SEARCH_CLOSEST) return;
    remedies_find(search->arena, search->request, result);
}

static void count(struct search *search, const struct scan_result *scanned)
{
    struct search_result *result = search->result;
    result->considered_count = scanned->considered_count;
    result->priced_count = scanned->priced_count;
    memcpy(result->dropped, search->space->dropped, sizeof result->dropped);
    result->dropped[DROP_MEMORY] = scanned->unfit_count;
    result->dropped[DROP_BOUND] =
        scanned->considered_count - scanned->unfit_count - scanned->ranking.count;
}

// Returns what no plan by classes is faster than.
static double refine_layers(struct search *search, struct ranking *ranking)
{
    if (!search->scan.bases) return INFINITY;
    struct refine_result refined = refine(&search->work, &search->scratch, &search->scan, ranking);
    if (refined.asked_count > 0) search->result->layers_s = refined.layers_s;
    search->stopped = search->stopped || refined.stopped;
    return refined.bound_s;
}

// Pricing every plan bounds none that the space does not hold: the pruned search is asked of those.
static void bound_outside(struct search *search, struct scan_result *scanned)
{
    if (!search->request->exhaustive || scanned->ranking.count == 0) return;
    struct search_request pruned = *search->request;
    struct scan_request scan = search->scan;
    pruned.exhaustive = false;
    pruned.progress = NULL;
    scan.search = &pruned;
    scan.bases = NULL;
    struct scan_result found = scan_space(&search->work, &search->scratch, &scan);
    scanned->piped_s = found.piped_s;
    scanned->pressed_s = found.pressed_s;
    scanned->steady_s = found.steady_s;
}

static bool search_space(struct search *search, struct err *err)
{
    const struct search_request *request = search->request;
    struct memo *memo = memo_new(&search->work, &search->scratch, request);
    search->scan = (struct scan_request){
        .search = request,
        .graphs = {memo_graph_of, memo},
        .memo = memo,
        .keep = request->top > FINAL_COUNT ? request->top : FINAL_COUNT,
        .objective = request->objective,
    };
    search->space = space_make(&search->work, request, &search->scan.graphs);
    search->scan.space = search->space;
    bool refines = request->pins.search_offload && !request->pins.offload.set &&
                   request->objective != OBJECTIVE_MEMORY;
    if (refines) {
        search->scan.bases = ARENA_NEW(&search->work, struct refine_bases, 1);
        search->scan.bases->arena = &search->work;
    }
    struct scan_result scanned = scan_space(&search->work, &search->scratch, &search->scan);
    bound_outside(search, &scanned);
    count(search, &scanned);
    search->stopped = scanned.stopped;
    if (scanned.considered_count == 0) {
        return refuse_empty(search->arena, request, search->space, err);
    }
    if (scanned.ranking.count > 0) {
        double refined_s = refine_layers(search, &scanned.ranking);
        if (!search->stopped) {
            double layers_s = scanned.ranking.items[0].closed_form_s;
            polish(&search->work, &search->scratch, &search->scan, &scanned.ranking);
            search_stays(&search->work, &search->scratch, &search->scan, &scanned.ranking);
            search_counts(&search->work, &search->scratch, &search->scan, layers_s,
                          &scanned.ranking);
        }
        judge(search, &scanned, fmin(scanned.bound_s, refined_s));
    } else {
        answer_closest(search, &scanned);
    }
    return true;
}

bool search_plans(struct arena *arena, const struct search_request *request,
                  struct search_result *result, struct err *err)
{
    *result = (struct search_result){0};
    if (!search_check_request(request, err)) return false;
    struct search search = {.arena = arena, .request = request, .result = result};
    bool ok = search_space(&search, err);
    arena_free(&search.scratch);
    arena_free(&search.work);
    return ok;
}
