#include "library/inquiry.h"

#include "plan/program.h"
#include "plan/unexecuted.h"
#include "planner/batch.h"
#include "planner/choice.h"
#include "planner/default_stack.h"
#include "topologies/kernels.h"

#include <assert.h>
#include <string.h>

static const int64_t DEFAULT_SEQ_LEN_MOST = 4096;

struct inquiry inquiry_start(void)
{
    return (struct inquiry){.pins = pins_none(), .expert_imbalance = 1, .top = 5};
}

static void note(const struct inquiry *inquiry, const char *line)
{
    if (inquiry->ear.note) inquiry->ear.note(inquiry->ear.context, line);
}

static void warn(const struct inquiry *inquiry, const char *line)
{
    if (inquiry->ear.warn) inquiry->ear.warn(inquiry->ear.context, line);
}

const struct model_config *inquiry_model(struct arena *arena, const struct inquiry *inquiry,
                                         struct err *err)
{
    assert(inquiry->model && "who asks has said a model");
    return model_load(arena, inquiry->model, inquiry->ear.warn, inquiry->ear.context, err);
}

void inquiry_model_notes(const struct inquiry *inquiry, const struct model_config *model)
{
    for (const char **line = model->notes; *line; line++)
        note(inquiry, *line);
}

bool inquiry_kernels(struct arena *arena, const char *name, const struct cluster **cluster,
                     struct err *err)
{
    if (!name) return true;
    const struct kernel_table *table = kernels_load(arena, name, err);
    *cluster = table ? cluster_with_kernels(arena, *cluster, table, err) : NULL;
    return *cluster != NULL;
}

bool inquiry_cluster(struct arena *arena, const struct inquiry *inquiry, struct cluster *cluster,
                     struct search_request *request, struct err *err)
{
    assert(inquiry->nodes >= 0 && inquiry->gpus >= 0 && inquiry->device_memory_bytes >= 0);
    if (inquiry->nodes && !cluster_set_nodes(cluster, inquiry->nodes, err)) return false;
    if (inquiry->gpus && !cluster_take_gpus(cluster, inquiry->gpus, err)) return false;
    if (inquiry->device_memory_bytes > 0)
        cluster_set_memory(arena, cluster, inquiry->device_memory_bytes);
    request->cluster = cluster;
    if (!inquiry_kernels(arena, inquiry->kernels, &request->cluster, err)) return false;
    request->fabrics = fabrics_load(arena, err);
    return request->fabrics && fabrics_cover(request->fabrics, cluster, err);
}

static bool load_cluster(struct arena *arena, const struct inquiry *inquiry,
                         struct search_request *request, struct err *err)
{
    assert(inquiry->cluster && "who asks has said a cluster");
    struct cluster *cluster = cluster_load(arena, inquiry->cluster, err);
    if (!cluster) return false;
    if (cluster->note) note(inquiry, cluster->note);
    return inquiry_cluster(arena, inquiry, cluster, request, err);
}

static bool is_cpu(const struct cluster *cluster)
{
    return strcmp(cluster->nodes[0].device->kind, "cpu") == 0;
}

void inquiry_workload(const struct inquiry *inquiry, const struct cluster *cluster,
                      struct workload *workload)
{
    workload->tokens = inquiry->tokens;
    workload->expert_imbalance = inquiry->expert_imbalance;
    workload->capacity_factor = inquiry->capacity_factor;
    workload->unclipped = inquiry->unclipped;
    const char *precision = inquiry->precision;
    if (!precision) precision = cluster && is_cpu(cluster) ? "fp32" : "bf16";
    const char *optimizer = inquiry->optimizer ? inquiry->optimizer : "adamw";
    bool known = precision_from_name(precision, &workload->precision) &&
                 optimizer_from_name(optimizer, &workload->optimizer);
    assert(known);  // who reads the words allows no others
    (void)known;
}

int64_t inquiry_seq_len(struct arena *arena, const struct inquiry *inquiry,
                        const struct model_config *model, int64_t given)
{
    assert(given >= 0);
    const struct import_options options = {.flash = true};
    const struct graph *graph = model_graph(arena, model, &options);
    int64_t most = graph->seq_len_max;
    // Of a video there is nothing to choose either.
    if (!given && graph->frames > 0) return most;
    if (!given) {
        int64_t taken = most > 0 && most < DEFAULT_SEQ_LEN_MOST ? most : DEFAULT_SEQ_LEN_MOST;
        // Of a model of samples there is nothing to choose.
        if (taken > 1)
            note(inquiry, arena_print(arena, "--seq-len not given, taking %lld", (long long)taken));
        return taken;
    }
    if (most > 1 && given > most) {
        warn(inquiry,
             arena_print(arena, "--seq-len %lld is past the %lld positions the model was made for",
                         (long long)given, (long long)most));
    }
    return given;
}

// What was not given is filled in and said.
static void fill_workload(struct arena *arena, const struct inquiry *inquiry,
                          struct search_request *request)
{
    assert(inquiry->global_batch >= 0 && request->cluster->rank_count > 0);
    struct workload *workload = &request->workload;
    inquiry_workload(inquiry, request->cluster, workload);
    workload->seq_len = inquiry_seq_len(arena, inquiry, request->model, inquiry->seq_len);
    workload->global_batch = inquiry->global_batch;
    if (workload->global_batch) return;
    int64_t ranks = request->cluster->rank_count;
    int64_t batch = INQUIRY_BATCH_TOKENS / workload->seq_len / ranks * ranks;
    int64_t most = batch_limit(workload->optimizer) / ranks * ranks;
    if (batch > most) batch = most;
    // A batch of GPUs would be hours a step; what is planned for CPU ranks is to be run on them.
    if (is_cpu(request->cluster)) batch = ranks;
    workload->global_batch = batch > 0 ? batch : ranks;
    assert(workload->global_batch % ranks == 0 && "every rank has as many sequences");
    note(inquiry, arena_print(arena, "--global-batch not given, taking %lld sequences",
                              (long long)workload->global_batch));
}

static bool find_default(struct arena *arena, const struct inquiry *inquiry,
                         const struct default_stack_question *asked, const struct stack **stack,
                         struct err *err)
{
    struct default_stack found;
    if (!asked->bands || !default_stack_find(arena, asked, &found, err)) return false;
    *stack = found.stack;
    note(inquiry,
         arena_print(arena, "--stack not given, taking %s (%s)", found.stack->name, found.why));
    return true;
}

// A schedule that is pinned and that only a fork of the stack has: other software, which is taken
// only when it is named, since without the pin its plans are not among those searched.
static bool check_fork(struct arena *arena, const struct inquiry *inquiry,
                       const struct stack *stack, struct err *err)
{
    int schedule = inquiry->pins.schedule;
    const struct stack *fork = stack_for_schedule(arena, stack, schedule, err);
    if (!fork || fork == stack) return fork != NULL;
    return err_set(err, ERR_USAGE, "stack %s has no schedule %s, its fork has: --stack %s",
                   stack->name, schedule_name((enum schedule_kind)schedule), fork->name);
}

bool inquiry_stack(struct arena *arena, const struct inquiry *inquiry,
                   const struct model_config *model, const struct cluster *const *clusters,
                   int cluster_count, enum precision precision, const struct stack **stack,
                   struct err *err)
{
    assert(cluster_count > 0);
    const struct import_options options = {.flash = true};
    const struct graph *graph = model_graph(arena, model, &options);
    bool has_experts = graph->expert_count > 0;
    if (inquiry->stack) {
        *stack = stack_load(arena, inquiry->stack, err);
    } else if (!*stack) {
        struct err lacks = {0};
        const char *kind = clusters[0]->nodes[0].device->kind;
        const struct default_stack_question asked = {
            .clusters = clusters,
            .cluster_count = cluster_count,
            .precision = precision,
            .has_experts = has_experts,
            .is_video = graph->frames > 0,
            .is_unexecuted = !unexecuted_check_graph(graph, kind, &lacks),
            .pins = &inquiry->pins,
            .bands = bands_load(arena, err),
        };
        if (!find_default(arena, inquiry, &asked, stack, err)) return false;
    }
    if (!*stack || !check_fork(arena, inquiry, *stack, err)) return false;
    *stack = stack_for_model(arena, *stack, has_experts);
    return *stack != NULL;
}

// Software whose users say selective of what we call per-op has no other: it is what they mean.
static void read_selective(struct arena *arena, const struct inquiry *inquiry,
                           struct search_request *request)
{
    const struct stack *stack = request->stack;
    bool is_own =
        stack->recompute >> RECOMPUTE_PER_OP & 1 && !(stack->recompute >> RECOMPUTE_SELECTIVE & 1);
    if (!is_own || request->pins.recompute != recompute_value(RECOMPUTE_SELECTIVE, 0)) return;
    request->pins.recompute = recompute_value(RECOMPUTE_PER_OP, 0);
    note(inquiry, arena_print(arena, "--recompute selective is per-op in stack %s", stack->name));
}

// What is taken because the pins describe a run, where a search would have chosen.
static void note_described(struct arena *arena, const struct inquiry *inquiry,
                           const struct search_request *request)
{
    enum attention attention;
    if (search_describes_stages(request)) {
        note(inquiry,
             arena_print(arena,
                         "--stages not given, taking %s: --pp, --schedule and "
                         "--micro-batch describe a run",
                         request->stack->stages_by_flop ? "those of the stack" : "even ones"));
    }
    if (search_describes_attention(request, &attention)) {
        note(inquiry,
             arena_print(arena,
                         "--attention not given, taking %s: --pp, --schedule and --micro-batch "
                         "describe a run, and in fp16 those of stack %s have it",
                         attention_name(attention), request->stack->name));
    }
}

// What is asked of NVMe hangs on a fact that the cluster's file may leave out: then it is the file.
static bool check_offload(const struct search_request *request, struct err *err)
{
    struct offload moved = offload_of_value(pins_get(&request->pins, CHOICE_OFFLOAD).low);
    // What goes with optimizer states and without them is said by the search.
    const struct offload below = {.optimizer = TIER_NVME};
    struct err lack = {0};
    if (!offload_reaches_nvme(&moved)) return true;
    if (program_check_offload(request->cluster, &below, &lack)) return true;
    return err_set(err, ERR_INPUT, "%s", lack.text);
}

bool inquiry_request(struct arena *arena, const struct inquiry *inquiry,
                     struct search_request *request, struct err *err)
{
    request->pins = inquiry->pins;
    if (!request->model) request->model = inquiry_model(arena, inquiry, err);
    if (!request->model) return false;
    if (!request->cluster && !load_cluster(arena, inquiry, request, err)) return false;
    if (!check_offload(request, err)) return false;
    request->objective = inquiry->objective;
    request->top = inquiry->top;
    request->exhaustive = inquiry->exhaustive;
    fill_workload(arena, inquiry, request);
    if (!inquiry_stack(arena, inquiry, request->model, &request->cluster, 1,
                       request->workload.precision, &request->stack, err))
        return false;
    read_selective(arena, inquiry, request);
    inquiry_model_notes(inquiry, request->model);
    note_described(arena, inquiry, request);
    return true;
}

// Of how many the plan was selected: what its file says of the search; a plan written by hand was
// pinned.
static double selected_count(const struct plan *plan, struct err *err)
{
    struct json provenance = json_get(&plan->document, "provenance", err);
    if (err->kind || !json_is_object(&provenance) || !json_has(&provenance, "search")) return 0;
    struct json search = json_get(&provenance, "search", err);
    if (!json_is_object(&search) || !json_has(&search, "considered_count")) return 0;
    struct json count = json_get(&search, "considered_count", err);
    return json_f64(&count, 0, 1e300, err);
}

// Whether measured runs corrected the constants that its file holds.
static bool is_anchored(const struct plan *plan, struct err *err)
{
    if (!json_has(&plan->document, "prediction")) return false;
    struct json prediction = json_get(&plan->document, "prediction", err);
    if (!json_is_object(&prediction) || !json_has(&prediction, "confidence")) return false;
    struct json confidence = json_get(&prediction, "confidence", err);
    const char *word = json_text(&confidence, err);
    return !err->kind && strcmp(word, confidence_name(CONFIDENCE_ANCHORED)) == 0;
}

bool inquiry_of_plan(struct arena *arena, const struct plan *plan, const char *kernels,
                     struct evaluation_request *request, struct err *err)
{
    *request = (struct evaluation_request){
        .model = plan->model,
        .cluster = plan->cluster,
        .workload = plan->workload,
        .parallel = plan->parallel,
        .selected_count = selected_count(plan, err),
    };
    if (err->kind || !inquiry_kernels(arena, kernels, &request->cluster, err)) return false;
    request->stack = stack_read(arena, &plan->stack, err);
    request->fabrics = request->stack ? fabrics_load(arena, err) : NULL;
    if (!request->fabrics || !fabrics_cover(request->fabrics, plan->cluster, err)) return false;
    request->bands = bands_load(arena, err);
    if (request->bands && is_anchored(plan, err)) {
        request->bands = bands_anchored(arena, request->bands);
    }
    return request->bands && !err->kind;
}
