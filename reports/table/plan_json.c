#include "reports/table/plan_json.h"
#include "core/version.h"
#include "planner/question.h"
#include "reports/machine/launch.h"

#include <assert.h>
static void write_breakdown(struct json_writer *writer, const struct cost *cost)
{
    json_open(writer, "breakdown", '{');
    json_put_f64(writer, "compute_s", cost->compute_s);
    json_put_f64(writer, "recompute_s", cost->recompute_s);
    json_put_f64(writer, "exposed_comm_s", cost->exposed_comm_s);
    json_put_f64(writer, "imbalance_s", cost->imbalance_s);
    json_put_f64(writer, "bubble_s", cost->bubble_s);
    json_put_f64(writer, "update_s", cost->update_s);
    json_put_f64(writer, "overhead_s", cost->overhead_s);
    json_close(writer, '}');
    json_open(writer, "exposed_comm", '{');
    json_put_f64(writer, "tp_s", cost->exposed_s[PART_TP]);
    json_put_f64(writer, "cp_s", cost->exposed_s[PART_CP]);
    json_put_f64(writer, "ep_s", cost->exposed_s[PART_EP]);
    json_put_f64(writer, "dp_s", cost->exposed_s[PART_DP]);
    json_put_f64(writer, "pp_s", cost->exposed_pp_s);
    double offload_s = cost->exposed_s[PART_OFFLOAD];
    if (offload_s > 0) json_put_f64(writer, "offload_s", offload_s);
    json_close(writer, '}');
}

// Never, of a cluster that fails faster than it restarts: JSON has no infinity.
static void write_amounts(struct json_writer *writer, const struct money *money)
{
    json_put_known(writer, "gpu_hours", money->gpu_hours);
    json_put_known(writer, "train_s", money->train_s);
    json_put_known(writer, "uninterrupted_s", money->uninterrupted_s);
    json_put_known(writer, "total", money->total);
    json_put_known(writer, "per_billion_tokens", money->per_billion_tokens);
}

static void write_money(struct json_writer *writer, const struct prediction *prediction)
{
    json_open(writer, "money", '{');
    write_amounts(writer, &prediction->money);
    json_put_f64(writer, "gpu_count", prediction->money.gpu_count);
    json_put_text(writer, "currency", prediction->money.currency);
    if (prediction->band) {
        json_open(writer, "low", '{');
        write_amounts(writer, &prediction->money_low);
        json_close(writer, '}');
        json_open(writer, "high", '{');
        write_amounts(writer, &prediction->money_high);
        json_close(writer, '}');
    }
    json_close(writer, '}');
}

static void write_band(struct json_writer *writer, const struct prediction *prediction)
{
    const struct band *band = prediction->band;
    if (!band) return;
    assert(prediction->step_s_low <= prediction->step_s_high);
    json_put_f64(writer, "step_s_low", prediction->step_s_low);
    json_put_f64(writer, "step_s_high", prediction->step_s_high);
    json_put_text(writer, "confidence", confidence_name(band->confidence));
    json_open(writer, "band", '{');
    json_put_text(writer, "device", band->device);
    json_put_text(writer, "stack", band->stack);
    json_put_text(writer, "kind", band->kind);
    json_put_i64(writer, "row_count", band->row_count);
    json_put_i64(writer, "family_count", band->family_count);
    json_put_text(writer, "source", band->source);
    json_close(writer, '}');
}

static void write_memory_band(struct json_writer *writer, const struct prediction *prediction)
{
    const struct memory_band *band = prediction->memory_band;
    json_put_text(writer, "memory_fit", memory_fit_name(memory_fit(prediction)));
    if (prediction->selected_count > 1) {
        json_put_f64(writer, "selected_count", prediction->selected_count);
    }
    if (!band) return;
    json_open(writer, "memory_band", '{');
    json_put_text(writer, "stack", band->stack);
    json_put_bool(writer, "is_own", prediction->is_own_memory_band);
    json_put_f64(writer, "low_ratio", band->low_ratio);
    json_put_f64(writer, "high_ratio", band->high_ratio);
    json_put_i64(writer, "row_count", band->row_count);
    json_put_i64(writer, "family_count", band->family_count);
    json_put_text(writer, "source", band->source);
    json_close(writer, '}');
}

// Hours and price are those of "money".
static void write_finish(struct json_writer *writer, const struct goodput *goodput,
                         const struct money *money)
{
    static const char *const KEYS[GOODPUT_QUANTILE_COUNT] = {"p10_s", "p50_s", "p90_s"};
    json_put_known(writer, "expected_s", goodput->expected_s);
    json_open_flat(writer, "finish", '{');
    for (int i = 0; i < GOODPUT_QUANTILE_COUNT; i++)
        json_put_known(writer, KEYS[i], goodput->finish_s[i]);
    json_close(writer, '}');
    json_put_known(writer, "interruption_count", goodput->interruptions);
    json_put_f64(writer, "gpu_count", money->gpu_count);
    json_put_known(writer, "gpu_hours", money->gpu_hours);
    json_put_known(writer, "total", money->total);
    json_put_text(writer, "currency", money->currency);
}

static void write_reliability(struct json_writer *writer, const struct prediction *prediction)
{
    const struct goodput *goodput = &prediction->goodput;
    if (!goodput->is_known) return;
    json_open(writer, "reliability", '{');
    json_put_f64(writer, "mtbf_s", goodput->mtbf_s);
    json_open(writer, "interruptions_per_s", '{');
    for (int cause = 0; cause < FAILURE_CAUSE_COUNT; cause++) {
        json_put_f64(writer, failure_cause_name((enum failure_cause)cause),
                     goodput->cause_per_s[cause]);
    }
    json_close(writer, '}');
    json_put_i64(writer, "checkpoint_bytes", goodput->checkpoint_bytes);
    json_put_f64(writer, "storage_bytes_per_s", goodput->storage_bytes_per_s);
    json_put_bool(writer, "storage_is_assumed", goodput->storage_is_assumed);
    json_put_f64(writer, "write_s", goodput->write_s);
    json_put_f64(writer, "checkpoint_s", goodput->checkpoint_s);
    json_put_f64(writer, "interval_s", goodput->interval_s);
    json_put_bool(writer, "interval_is_best", goodput->interval_is_best);
    json_put_bool(writer, "restart_is_assumed", goodput->restart_is_assumed);
    json_put_known(writer, "restart_s", goodput->restart_s);
    json_put_known(writer, "wait_s", goodput->wait_s);
    json_put_f64(writer, "goodput_ratio", goodput->goodput_ratio);
    json_put_f64(writer, "checkpoint_ratio", goodput->checkpoint_ratio);
    json_put_f64(writer, "lost_ratio", goodput->lost_ratio);
    json_put_f64(writer, "restart_ratio", goodput->restart_ratio);
    if (goodput->expected_s > 0) write_finish(writer, goodput, &prediction->money);
    json_close(writer, '}');
}

void prediction_write(struct json_writer *writer, const char *key,
                      const struct prediction *prediction)
{
    assert(prediction->step_s > 0);
    json_open(writer, key, '{');
    json_put_f64(writer, "step_s", prediction->step_s);
    write_band(writer, prediction);
    write_memory_band(writer, prediction);
    json_put_f64(writer, "tokens_per_s", prediction->tokens_per_s);
    json_put_f64(writer, "tokens_per_s_per_gpu", prediction->tokens_per_s_per_gpu);
    json_put_f64(writer, "model_flop_per_s_per_gpu", prediction->model_flop_per_s_per_gpu);
    json_put_f64(writer, "hardware_flop_per_s_per_gpu", prediction->hardware_flop_per_s_per_gpu);
    json_put_f64(writer, "mfu_ratio", prediction->mfu_ratio);
    json_put_i64(writer, "peak_bytes", prediction->peak_bytes);
    json_put_i64(writer, "reserved_bytes", prediction->reserved_bytes);
    if (prediction->planned_bytes > 0)
        json_put_i64(writer, "planned_bytes", prediction->planned_bytes);
    write_breakdown(writer, &prediction->cost);
    write_money(writer, prediction);
    write_reliability(writer, prediction);
    json_close(writer, '}');
}

void memory_write(struct json_writer *writer, const struct memory_parts *memory)
{
    json_put_i64(writer, "weights_bytes", memory->weights_bytes);
    json_put_i64(writer, "gradients_bytes", memory->gradients_bytes);
    json_put_i64(writer, "optimizer_bytes", memory->optimizer_bytes);
    json_put_i64(writer, "activations_bytes", memory->activations_bytes);
    json_put_i64(writer, "transient_bytes", memory->transient_bytes);
    json_put_i64(writer, "logits_bytes", memory->logits_bytes);
    json_put_i64(writer, "buffers_bytes", memory->buffers_bytes);
    json_put_i64(writer, "peak_bytes", memory->peak_bytes);
    json_put_i64(writer, "reserve_bytes", memory->reserve_bytes);
    json_put_i64(writer, "reserved_bytes", memory->reserved_bytes);
    if (memory->host_bytes > 0) json_put_i64(writer, "host_bytes", memory->host_bytes);
    if (memory->nvme_bytes > 0) json_put_i64(writer, "nvme_bytes", memory->nvme_bytes);
}

static void write_memory(struct json_writer *writer, const struct plan_document *document)
{
    assert(document->evaluation->worst_stage < document->evaluation->program->shape.stage_count);
    const struct evaluation *evaluation = document->evaluation;
    const struct memory_parts *worst = &evaluation->stage_memory[evaluation->worst_stage];
    json_open(writer, "memory", '{');
    bool has_room = hosts_shortfall(&evaluation->hosts) == 0;
    int64_t device_bytes = evaluation->prediction.device_bytes;
    json_put_bool(writer, "fits", worst->reserved_bytes <= device_bytes && has_room);
    json_put_i64(writer, "device_bytes", device_bytes);
    json_put_i64(writer, "worst_stage", evaluation->worst_stage);
    memory_write(writer, worst);
    json_close(writer, '}');
}

static void write_chunks(struct json_writer *writer, const struct program *program,
                         const struct chunk_span *spans, int stage)
{
    json_open_flat(writer, "chunks", '[');
    for (int chunk = 0; chunk < program->shape.chunk_count; chunk++) {
        const struct chunk_span *span = &spans[stage * program->shape.chunk_count + chunk];
        json_open(writer, NULL, '{');
        json_put_i64(writer, "first", span->first);
        json_put_i64(writer, "count", span->count);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static int64_t count_layers(const struct graph *graph, const struct program *program,
                            const struct chunk_span *spans, int stage)
{
    int64_t layers = 0;
    for (int chunk = 0; chunk < program->shape.chunk_count; chunk++) {
        const struct chunk_span *span = &spans[stage * program->shape.chunk_count + chunk];
        for (int i = span->first; i < span->first + span->count; i++) {
            layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
        }
    }
    return layers;
}

// Positions in `chunks` count the embedding as 0 and the head as the last.
static void write_stages(struct json_writer *writer, const struct plan_document *document)
{
    const struct program *program = document->evaluation->program;
    const struct graph *graph = document->evaluation->graph;
    struct err err = {0};
    int count = program->shape.stage_count * program->shape.chunk_count;
    struct chunk_span *spans = ARENA_NEW(writer->arena, struct chunk_span, count);
    bool split = stages_split(graph, &program->parallel, spans, &err);
    assert(split);  // the program was lowered from the same choices
    json_open(writer, "stages", '[');
    for (int stage = 0; split && stage < program->shape.stage_count; stage++) {
        json_open(writer, NULL, '{');
        json_put_i64(writer, "layers", count_layers(graph, program, spans, stage));
        write_chunks(writer, program, spans, stage);
        json_open(writer, "memory", '{');
        memory_write(writer, &document->evaluation->stage_memory[stage]);
        json_close(writer, '}');
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// The plans differ in their choices alone, so that one band holds for all of them.
static void write_alternatives(struct json_writer *writer, const struct search_result *search,
                               const struct band *band)
{
    json_open(writer, "alternatives", '[');
    for (int i = 1; i < search->best_count; i++) {
        const struct candidate *candidate = &search->best[i];
        json_open(writer, NULL, '{');
        parallel_write(writer, "parallel", &candidate->parallel);
        json_put_f64(writer, "step_s", candidate->cost.step_s);
        if (band) {
            json_put_f64(writer, "step_s_low", candidate->cost.step_s * band->low_ratio);
            json_put_f64(writer, "step_s_high", candidate->cost.step_s * band->high_ratio);
        }
        json_put_i64(writer, "peak_bytes", candidate->memory.peak_bytes);
        json_put_i64(writer, "reserved_bytes", candidate->memory.reserved_bytes);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static const char *status_text(enum search_status status)
{
    switch (status) {
    case SEARCH_OPTIMAL:
        return "optimal";
    case SEARCH_BEST_OF:
        return "best of";
    case SEARCH_FEASIBLE:
        return "feasible";
    case SEARCH_NOTHING_FITS:
        return "nothing fits";
    case SEARCH_STOPPED:
        return "stopped";
    }
    assert(0 && "a status without a word");
    return "";
}

static void write_kernels(struct json_writer *writer, const struct measured_use *use)
{
    json_open(writer, "kernels", '{');
    json_put_text(writer, "table", use->table->name);
    json_put_text(writer, "date", use->table->date);
    json_put_text(writer, "source", use->table->provenance[0].source);
    json_put_i64(writer, "row_count", use->row_count);
    json_put_i64(writer, "price_count", use->price_count);
    json_put_i64(writer, "kernel_count", use->kernel_count);
    json_close(writer, '}');
}

// The measured kernels that this plan needs, and no others.
static void write_cluster(struct json_writer *writer, const struct plan_document *document)
{
    const struct measured_use *use = &document->evaluation->measured;
    const struct cluster *cluster = document->request->cluster;
    if (use->table) {
        struct err err = {0};
        const struct kernel_table *table = kernels_select(writer->arena, use->table, use->used);
        cluster = cluster_with_kernels(writer->arena, cluster, table, &err);
        assert(cluster);  // that the table came from
    }
    cluster_write(writer, "cluster", cluster);
}

// The choices of which values were left out, and what bounds the plans among them.
static void write_cuts(struct json_writer *writer, const struct search_result *search)
{
    json_open(writer, "left_out", '[');
    for (int i = 0; i < search->cut_count; i++) {
        const struct open_cut *cut = &search->cuts[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "choice", cut_name(cut->cut));
        json_put_text(writer, "values", cut_text(cut->cut));
        if (cut->bound_s > 0) json_put_f64(writer, "bound_s", cut->bound_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void write_provenance(struct json_writer *writer, const struct plan_document *document)
{
    const struct search_result *search = document->search;
    json_open(writer, "provenance", '{');
    json_put_text(writer, "meshwright", document->version);
    json_open(writer, "search", '{');
    json_put_text(writer, "status", status_text(search->status));
    json_put_f64(writer, "bound_s", search->bound_s);
    if (search->layers_s > 0) json_put_f64(writer, "layers_s", search->layers_s);
    if (search->cut_count > 0) write_cuts(writer, search);
    json_put_f64(writer, "considered_count", search->considered_count);
    json_put_f64(writer, "priced_count", search->priced_count);
    json_close(writer, '}');
    const struct measured_use *use = &document->evaluation->measured;
    if (use->table) write_kernels(writer, use);
    json_close(writer, '}');
}

// For people and exporters; what reads a plan derives it anew.
static void write_launch(struct json_writer *writer, const struct evaluation_request *request)
{
    const struct stack *stack = request->stack;
    struct launch_flags flags =
        launch_flags(writer->arena, stack, &request->parallel, &request->workload);
    if (flags.count == 0) return;
    json_open(writer, "launch", '{');
    json_put_text(writer, "of", stack->flags_of);
    json_open(writer, "flags", '[');
    for (int i = 0; i < flags.count; i++) {
        json_put_text(writer, NULL, flags.items[i]);
    }
    json_close(writer, ']');
    json_close(writer, '}');
}

char *plan_document_text(struct arena *arena, const struct plan_document *document)
{
    const struct evaluation_request *request = document->request;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", PLAN_VERSION);
    json_open(&writer, "model", '{');
    const struct graph *graph = document->evaluation->graph;
    json_put_text(&writer, "name", request->model->name);
    json_put_i64(&writer, "parameter_count", graph->parameter_count);
    json_put_i64(&writer, "active_parameter_count", graph->active_parameter_count);
    json_put_i64(&writer, "mtp_parameter_count", graph->mtp_parameter_count);
    json_put_copy(&writer, "config", &request->model->config);
    json_close(&writer, '}');
    write_cluster(&writer, document);
    stack_write(&writer, "stack", request->stack);
    write_launch(&writer, request);
    workload_write(&writer, "workload", &request->workload);
    parallel_write(&writer, "parallel", &request->parallel);
    write_stages(&writer, document);
    write_memory(&writer, document);
    prediction_write(&writer, "prediction", &document->evaluation->prediction);
    write_alternatives(&writer, document->search, document->evaluation->prediction.band);
    write_provenance(&writer, document);
    json_close(&writer, '}');
    return writer.text;
}

bool plan_found_evaluate(struct arena *arena, const struct search_request *request,
                         const struct search_result *result, const struct parallel *parallel,
                         const struct bands *bands, struct evaluation_request *evaluated,
                         struct evaluation *evaluation, struct err *err)
{
    *evaluated = search_question(request, parallel);
    evaluated->bands = bands;
    evaluated->selected_count = result->considered_count;
    struct arena scratch = {0};
    bool done = evaluate(arena, &scratch, evaluated, evaluation, err);
    arena_free(&scratch);
    return done;
}

char *plan_found_document(struct arena *arena, const struct search_result *result,
                          const struct evaluation_request *evaluated,
                          const struct evaluation *evaluation)
{
    const struct plan_document document = {
        .request = evaluated,
        .evaluation = evaluation,
        .search = result,
        .version = MESHWRIGHT_VERSION,
    };
    return plan_document_text(arena, &document);
}

char *plan_found_text(struct arena *arena, const struct search_request *request,
                      const struct search_result *result, const struct parallel *parallel,
                      const struct bands *bands, struct err *err)
{
    struct evaluation_request evaluated;
    struct evaluation evaluation;
    if (!plan_found_evaluate(arena, request, result, parallel, bands, &evaluated, &evaluation, err))
        return NULL;
    return plan_found_document(arena, result, &evaluated, &evaluation);
}
