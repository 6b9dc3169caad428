#include "reports/table/model_needs.h"

#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/model_text.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double YEAR_S = 365.0 * 86400, HOURS_PER_YEAR = 365.0 * 24;

double years_of(double flop, double flop_per_s)
{
    assert(flop_per_s > 0);
    return flop / flop_per_s / YEAR_S;
}

// Nothing split, nothing recomputed, one sequence at a time.
static struct parallel on_one_device(const struct stack *stack)
{
    bool flash = (stack->attention & 1U << ATTENTION_FLASH) != 0;
    struct parallel parallel = {.vpp = 1,
                                .micro_batch = 1,
                                .schedule = SCHEDULE_1F1B,
                                .recompute_layers = -1,
                                .attention = flash ? ATTENTION_FLASH : ATTENTION_UNFUSED,
                                .overlap = stack->overlap_default,
                                .passes = stack->passes};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        parallel.degree[axis] = 1;
    }
    parallel_default_order(&parallel);
    return parallel;
}

bool model_needs_find(const struct scenario_request *request, const struct cluster *cluster,
                      const struct workload *workload, struct model_needs *needs, struct err *err)
{
    struct arena work = {0}, scratch = {0};
    struct evaluation evaluation = {0};
    struct evaluation_request question = {
        .model = request->model,
        .cluster = sweep_cluster(&work, cluster, 1, err),
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = *workload,
        .parallel = on_one_device(request->stack),
    };
    question.workload.global_batch = 1;
    bool done = question.cluster && evaluate(&work, &scratch, &question, &evaluation, err);
    if (done) {
        const struct graph *graph = evaluation.graph;
        double seq_len = (double)workload->seq_len;
        *needs = (struct model_needs){
            .model = request->model,
            .stack = request->stack,
            .workload = *workload,
            .parameter_count = (double)graph->parameter_count,
            .active_count = (double)graph->active_parameter_count,
            .memory = evaluation.stage_memory[0],
            .flop_per_token = graph_model_flop(graph, workload->seq_len) / seq_len,
        };
    }
    arena_free(&scratch);
    arena_free(&work);
    return done;
}

bool device_needs_find(struct arena *arena, const struct scenario_request *request,
                       const struct sweep *sweep, const struct model_needs *needs,
                       const struct cluster *cluster, int64_t most, struct device_needs *device,
                       struct err *err)
{
    const struct sweep_list *sizes = &sweep->axes[SWEEP_GPUS];
    *device = (struct device_needs){.cluster = cluster, .device = cluster->nodes[0].device};
    int64_t bytes = cluster_device_bytes(cluster);
    assert(bytes > 0);
    device->least_by_bytes = (needs->memory.peak_bytes + bytes - 1) / bytes;
    if (!least_gpus_find(arena, request, sweep, cluster, sizes, most, &device->least, err)) {
        return false;
    }
    double flop = needs->flop_per_token * needs->workload.tokens;
    double peak = device->device->peak_flop_per_s[needs->workload.precision];
    if (flop <= 0) return true;
    device->years_at_peak = years_of(flop, peak);
    if (!device->least.cluster) return true;
    device->gpu_years = device->least.outcome.prediction.money.gpu_hours / HOURS_PER_YEAR;
    return true;
}

static const char *bytes_text(struct arena *arena, double bytes)
{
    return arena_print(arena, bytes < 9.95e9 ? "%.1f GB" : "%.0f GB", bytes / 1e9);
}

static const char *memory_text(struct arena *arena, const struct model_needs *needs)
{
    assert(needs->parameter_count > 0);
    const struct memory_parts *memory = &needs->memory;
    const struct {
        const char *name;
        double bytes;
    } parts[] = {
        {"weights", (double)memory->weights_bytes},
        {"gradients", (double)memory->gradients_bytes},
        {"optimizer states", (double)memory->optimizer_bytes},
        {"activations of one sequence",
         (double)(memory->activations_bytes + memory->transient_bytes + memory->logits_bytes)},
        {"buffers", (double)memory->buffers_bytes},
    };
    struct table table = table_new(arena, "lrr");
    table.head_count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].bytes <= 0) continue;
        const char *cells[] = {
            arena_print(arena, "  %s", parts[i].name), bytes_text(arena, parts[i].bytes),
            arena_print(arena, "%.1f B/param", parts[i].bytes / needs->parameter_count)};
        table_row(&table, cells);
    }
    double all = (double)memory->peak_bytes;
    const char *total[] = {"  in all", bytes_text(arena, all),
                           arena_print(arena, "%.1f B/param", all / needs->parameter_count)};
    table_row(&table, total);
    return table_text(&table);
}

static const char *years_text(struct arena *arena, double years)
{
    if (years <= 0) return "-";
    return arena_print(arena, years < 9.95 ? "%.2f" : "%.0f", years);
}

// Columns that nothing was asked for are left out.
struct columns {
    struct arena *arena;
    const struct stack *stack;
    bool has_run, has_price;
    const char *cells[8];
    char aligns[9];
    int count;
};

static void put(struct columns *columns, char align, const char *text)
{
    assert(columns->count < (int)(sizeof columns->cells / sizeof *columns->cells));
    columns->cells[columns->count] = text;
    columns->aligns[columns->count++] = align;
}

static void put_head(struct columns *columns, const char *currency)
{
    put(columns, 'l', "device");
    put(columns, 'l', "cluster");
    put(columns, 'r', "by bytes");
    put(columns, 'r', "fits on");
    if (columns->has_run) put(columns, 'r', "years at peak");
    if (columns->has_run) put(columns, 'r', "GPU-years");
    if (columns->has_price) put(columns, 'r', currency);
    put(columns, 'l', "layout there");
}

static void put_device(struct columns *columns, const struct device_needs *device)
{
    struct arena *arena = columns->arena;
    const struct cluster *found = device->least.cluster;
    put(columns, 'l', device->device->name);
    put(columns, 'l', device->cluster->name);
    put(columns, 'r', arena_print(arena, "%lld", (long long)device->least_by_bytes));
    put(columns, 'r',
        found ? arena_print(arena, "%d", found->rank_count)
              : arena_print(arena, "> %lld", (long long)device->least.tried));
    if (columns->has_run) put(columns, 'r', years_text(arena, device->years_at_peak));
    if (columns->has_run) put(columns, 'r', years_text(arena, device->gpu_years));
    if (columns->has_price) {
        double money = device->least.outcome.prediction.money.total;
        put(columns, 'r', found ? units_count(arena, money) : "-");
    }
    put(columns, 'l',
        found ? parallel_text(arena, &device->least.outcome.best.parallel, columns->stack)
              : least_gpus_none(&device->least));
}

// NULL: not all have a price, or not in one.
static const char *shared_currency(const struct device_needs *devices, int count)
{
    const char *first = count > 0 ? devices[0].cluster->price.currency : NULL;
    for (int i = 0; first && i < count; i++) {
        const char *currency = devices[i].cluster->price.currency;
        if (!currency || strcmp(currency, first) != 0) return NULL;
    }
    return first;
}

// " --price-per-gpu-hour 2" where that is what every device costs.
static const char *price_option(struct arena *arena, const struct device_needs *devices, int count)
{
    const char *currency = shared_currency(devices, count);
    if (!currency) return "";
    const struct price *price = &devices[0].cluster->price;
    for (int i = 0; i < count; i++) {
        if (devices[i].cluster->price.per_gpu_hour != price->per_gpu_hour) return "";
    }
    char number[UNITS_NUMBER_BYTES];
    bool is_default = strcmp(currency, "USD") == 0;
    return arena_print(arena, " --price-per-gpu-hour %s%s%s",
                       units_number(number, price->per_gpu_hour), is_default ? "" : " --currency ",
                       is_default ? "" : currency);
}

char *model_needs_text(struct arena *arena, const struct model_needs *needs,
                       const struct device_needs *devices, int device_count)
{
    bool has_run = needs->workload.tokens > 0;
    char number[UNITS_NUMBER_BYTES];
    const char *currency = shared_currency(devices, device_count);
    const struct columns none = {.arena = arena,
                                 .stack = needs->stack,
                                 .has_run = has_run,
                                 .has_price = has_run && currency};
    struct columns columns = none;
    put_head(&columns, currency);
    struct table table = table_new(arena, arena_copy(arena, columns.aligns));
    table_row(&table, columns.cells);
    for (int i = 0; i < device_count; i++) {
        columns = none;
        put_device(&columns, &devices[i]);
        table_row(&table, columns.cells);
    }
    const char *run = "";
    if (needs->workload.tokens > 0) {
        run = arena_print(arena, "%s tokens are %.3g model FLOP, %.3g a token\n",
                          units_count(arena, needs->workload.tokens),
                          needs->flop_per_token * needs->workload.tokens, needs->flop_per_token);
    }
    return arena_print(
        arena,
        "%s: %s, seq %lld, %s, %s, stack %s\n"
        "Memory to train it, before anything is split, recomputed or moved:\n%s%s"
        "\nGPUs that hold it (by bytes: memory over that of a GPU; fits on: a plan says so)%s:\n%s"
        "Next: meshwright whatif %s CLUSTER --gpus 8..1024 --tokens %s%s\n",
        needs->model->name, parameters_text(arena, needs->parameter_count, needs->active_count),
        (long long)needs->workload.seq_len, precision_name(needs->workload.precision),
        optimizer_name(needs->workload.optimizer), needs->stack->name, memory_text(arena, needs),
        run, has_run ? ", and years\nof one GPU, at its peak and at the speed of that plan" : "",
        table_text(&table), plain_shell(arena, needs->word ? needs->word : needs->model->name),
        has_run ? units_number(number, needs->workload.tokens) : "2T",
        price_option(arena, devices, device_count));
}

static void write_device(struct json_writer *writer, const struct stack *stack,
                         const struct device_needs *device)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "device", device->device->name);
    json_put_text(writer, "cluster", device->cluster->name);
    json_put_i64(writer, "least_by_bytes", device->least_by_bytes);
    json_put_i64(writer, "tried_gpus", device->least.tried);
    const struct cluster *found = device->least.cluster;
    if (found) {
        const struct scenario_outcome *outcome = &device->least.outcome;
        json_put_i64(writer, "least_gpus", found->rank_count);
        json_put_text(writer, "layout",
                      parallel_text(writer->arena, &outcome->best.parallel, stack));
        json_put_f64(writer, "tokens_per_s_per_gpu", outcome->prediction.tokens_per_s_per_gpu);
        json_put_f64(writer, "mfu_ratio", outcome->prediction.mfu_ratio);
    }
    if (device->years_at_peak > 0) {
        json_put_f64(writer, "years_at_peak", device->years_at_peak);
    }
    if (device->gpu_years > 0) {
        json_put_f64(writer, "gpu_years", device->gpu_years);
        const struct money *money = &device->least.outcome.prediction.money;
        if (money->currency) {
            json_put_f64(writer, "money", money->total);
            json_put_text(writer, "currency", money->currency);
        }
    }
    json_close(writer, '}');
}

char *model_needs_json(struct arena *arena, const struct model_needs *needs,
                       const struct device_needs *devices, int device_count)
{
    const struct memory_parts *memory = &needs->memory;
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "model", needs->model->name);
    json_put_text(&writer, "stack", needs->stack->name);
    json_put_i64(&writer, "seq_len", needs->workload.seq_len);
    json_put_text(&writer, "precision", precision_name(needs->workload.precision));
    json_put_text(&writer, "optimizer", optimizer_name(needs->workload.optimizer));
    json_put_f64(&writer, "parameter_count", needs->parameter_count);
    json_put_f64(&writer, "active_parameter_count", needs->active_count);
    json_put_f64(&writer, "flop_per_token", needs->flop_per_token);
    json_put_f64(&writer, "tokens", needs->workload.tokens);
    json_open(&writer, "memory", '{');
    json_put_i64(&writer, "weights_bytes", memory->weights_bytes);
    json_put_i64(&writer, "gradients_bytes", memory->gradients_bytes);
    json_put_i64(&writer, "optimizer_bytes", memory->optimizer_bytes);
    json_put_i64(&writer, "activations_bytes",
                 memory->activations_bytes + memory->transient_bytes + memory->logits_bytes);
    json_put_i64(&writer, "buffers_bytes", memory->buffers_bytes);
    json_put_i64(&writer, "peak_bytes", memory->peak_bytes);
    json_close(&writer, '}');
    json_open(&writer, "devices", '[');
    for (int i = 0; i < device_count; i++) {
        write_device(&writer, needs->stack, &devices[i]);
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return arena_print(arena, "%s\n", writer.text);
}
