#include "tests/support/proof_question.h"

#include "planner/default_stack.h"
#include "simulator/evaluate.h"
#include "topologies/kernels.h"

#include <glob.h>
#include <string.h>

// Names of the shipped files of a folder, sorted.
static const char *draw_name(struct arena *arena, struct draw *draw, const char *pattern)
{
    glob_t found = {0};
    if (glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc == 0) {
        fprintf(stderr, "%s: no files; this runs in the root of the project\n", pattern);
        exit(2);
    }
    // Numbers of nodes are drawn, and those of several kinds stand in their file.
    int kept = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (!strstr(found.gl_pathv[i], "-mixed")) kept++;
    }
    int left = draw_int(draw, 0, kept - 1);
    char **at = found.gl_pathv;
    while (strstr(*at, "-mixed") || left-- > 0)
        at++;
    const char *path = *at;
    const char *base = strrchr(path, '/') + 1;
    const char *name = arena_print(arena, "%.*s", (int)(strlen(base) - strlen(".json")), base);
    globfree(&found);
    return name;
}

static unsigned classes_of(const struct graph *graph)
{
    unsigned classes = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count && block->role == BLOCK_LAYER; o++)
            classes |= 1u << block->ops[o].class;
    }
    return classes & ~(1u << OP_CLASS_NONE);
}

static const char *question_text(struct arena *arena, const struct question_words *words)
{
    static const char *const OBJECTIVES[] = {"time", "cost", "memory"};
    const struct workload *workload = &words->workload;
    const char *text = arena_print(
        arena, "meshwright plan %s %s --seq-len %lld --global-batch %lld --precision %s",
        words->model, words->cluster, (long long)workload->seq_len,
        (long long)workload->global_batch, precision_name(workload->precision));
    if (words->stack) text = arena_print(arena, "%s --stack %s", text, words->stack);
    if (words->nodes) text = arena_print(arena, "%s --nodes %lld", text, (long long)words->nodes);
    if (words->gpus) text = arena_print(arena, "%s --gpus %lld", text, (long long)words->gpus);
    if (workload->optimizer != OPTIMIZER_ADAMW)
        text = arena_print(arena, "%s --optimizer %s", text, optimizer_name(workload->optimizer));
    if (workload->expert_imbalance > 1)
        text = arena_print(arena, "%s --expert-imbalance %g", text, workload->expert_imbalance);
    if (workload->capacity_factor > 0)
        text = arena_print(arena, "%s --capacity-factor %g", text, workload->capacity_factor);
    if (workload->unclipped) text = arena_print(arena, "%s --clip off", text);
    if (words->objective != OBJECTIVE_TIME)
        text = arena_print(arena, "%s --objective %s", text, OBJECTIVES[words->objective]);
    if (words->top != 5) text = arena_print(arena, "%s --top %d", text, words->top);
    if (words->kernels) text = arena_print(arena, "%s --kernels %s", text, words->kernels);
    return text;
}

static struct cluster *with_kernels(struct arena *arena, const struct cluster *cluster,
                                    const char *name, struct err *err)
{
    const struct kernel_table *table = kernels_load(arena, name, err);
    return table ? cluster_with_kernels(arena, cluster, table, err) : NULL;
}

// As the command line takes it where nobody names one.
static const struct stack *default_stack(struct arena *arena, const struct search_request *request,
                                         bool has_experts, struct err *err)
{
    const struct default_stack_question asked = {.clusters = &request->cluster,
                                                 .cluster_count = 1,
                                                 .precision = request->workload.precision,
                                                 .has_experts = has_experts,
                                                 .pins = &request->pins,
                                                 .bands = bands_load(arena, err)};
    struct default_stack found;
    if (!asked.bands || !default_stack_find(arena, &asked, &found, err)) return NULL;
    return found.stack;
}

bool question_make(struct arena *arena, const struct question_words *words,
                   struct proof_question *question, struct err *err)
{
    struct search_request *request = &question->request;
    *question = (struct proof_question){.command = question_text(arena, words)};
    *request = (struct search_request){.pins = pins_none(),
                                       .workload = words->workload,
                                       .objective = words->objective,
                                       .top = words->top,
                                       .nothing = SEARCH_FITS_ONLY};
    request->pins.search_offload = words->offload_auto;
    request->model = model_load(arena, words->model, NULL, NULL, err);
    struct cluster *cluster = cluster_load(arena, words->cluster, err);
    if (!request->model || !cluster) return false;
    if (words->nodes && !cluster_set_nodes(cluster, words->nodes, err)) return false;
    if (words->gpus && !cluster_take_gpus(cluster, words->gpus, err)) return false;
    if (words->kernels) cluster = with_kernels(arena, cluster, words->kernels, err);
    if (!cluster) return false;
    request->cluster = cluster;
    struct import_options options = {.flash = true};
    bool has_experts = model_graph(arena, request->model, &options)->expert_count > 0;
    const struct stack *stack = words->stack ? stack_load(arena, words->stack, err)
                                             : default_stack(arena, request, has_experts, err);
    if (stack) request->stack = stack_for_model(arena, stack, has_experts);
    request->fabrics = fabrics_load(arena, err);
    if (!request->stack || !request->fabrics) return false;
    if (!fabrics_cover(request->fabrics, cluster, err)) return false;
    const struct parallel one = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                 .passes = request->stack->passes};
    question->graph = evaluation_graph(arena, request->model, request->stack, &one);
    question->classes = classes_of(question->graph);
    return cluster_check_precision(cluster, words->workload.precision, err) &&
           stack_check_precision(request->stack, words->workload.precision, err);
}

static void draw_sizes(struct draw *draw, struct question_words *words)
{
    static const int NODES[] = {1, 1, 1, 1, 1, 1, 1, 2, 2,  2,  2,  3, 3,
                                4, 4, 5, 6, 7, 8, 8, 9, 12, 16, 32, 64};
    static const int LENGTHS[] = {128,   512,    1024,   1024, 2048, 2048,  2048,
                                  4096,  4096,   4096,   8192, 8192, 16384, 32768,
                                  65536, 131072, 262144, 1000, 1536, 3072};
    static const int BATCHES[] = {4,   8,   12,  16,  24,   30,   32,   32,  60,
                                  64,  64,  96,  100, 120,  128,  128,  144, 192,
                                  256, 256, 360, 512, 1000, 1024, 1536, 2048};
    static const double IMBALANCES[] = {1.1, 1.25, 1.5, 2};
    words->nodes = DRAW_ONE(draw, NODES);
    words->workload.seq_len = DRAW_ONE(draw, LENGTHS);
    words->workload.global_batch = DRAW_ONE(draw, BATCHES);
    words->workload.precision = PRECISION_BF16;
    if (draw_int(draw, 0, 1)) words->workload.precision = (enum precision)draw_int(draw, 0, 4);
    if (draw_int(draw, 0, 1))
        words->workload.optimizer = (enum optimizer)draw_int(draw, 0, OPTIMIZER_COUNT - 1);
    words->workload.expert_imbalance = 1;
    if (draw_int(draw, 0, 3) == 0) words->workload.expert_imbalance = DRAW_ONE(draw, IMBALANCES);
    if (draw_int(draw, 0, 3) == 0) words->workload.capacity_factor = DRAW_ONE(draw, IMBALANCES);
    words->workload.unclipped = draw_int(draw, 0, 5) == 0;
    words->offload_auto = draw_int(draw, 0, 6) == 0;
    words->top = draw_int(draw, 0, 1) ? 5 : draw_int(draw, 1, 12);
    int objective = draw_int(draw, 0, 9);
    words->objective = objective < 2    ? OBJECTIVE_MEMORY
                       : objective == 2 ? OBJECTIVE_COST
                                        : OBJECTIVE_TIME;
}

// Rough: whether a step may fit at all, so that most questions have an answer.
static bool may_fit(const struct proof_question *question)
{
    const struct cluster *cluster = question->request.cluster;
    double bytes = (double)cluster_device_bytes(cluster) * cluster->rank_count;
    return 8.0 * (double)question->graph->parameter_count < bytes;
}

bool question_draw(struct arena *arena, struct draw *draw, int ranks_most,
                   struct proof_question *question)
{
    struct question_words words = {.model = draw_name(arena, draw, "models/zoo/*.json"),
                                   .cluster = draw_name(arena, draw, "topologies/*.json"),
                                   .stack = draw_name(arena, draw, "cost_models/stacks/*.json")};
    if (draw_int(draw, 0, 5) == 0) words.stack = NULL;
    struct err err = {0};
    draw_sizes(draw, &words);
    if (draw_int(draw, 0, 11) == 0)
        words.kernels = draw_name(arena, draw, "topologies/kernels/*.json");
    struct cluster *cluster = cluster_load(arena, words.cluster, &err);
    if (!cluster || !cluster_set_nodes(cluster, words.nodes, &err)) return false;
    if (draw_int(draw, 0, 3) == 0) words.gpus = draw_int(draw, 1, cluster->rank_count);
    if ((words.gpus ? words.gpus : cluster->rank_count) > ranks_most) return false;
    bool may_be_empty = draw_int(draw, 0, 7) == 0;
    if (!question_make(arena, &words, question, &err)) return false;
    if (question->graph->expert_count == 0) {
        words.workload.expert_imbalance = 1;
        words.workload.capacity_factor = 0;
        question->request.workload = words.workload;
        question->command = question_text(arena, &words);
    }
    return may_be_empty || may_fit(question);
}

static const char *add_pin(struct arena *arena, const char *text, enum choice choice,
                           const struct int_range *range)
{
    const char *low = choice_text(arena, choice, range->low);
    const char *option = choice_option(arena, choice);
    bool is_default = (choice == CHOICE_BUCKET_BYTES && range->low == 0) ||
                      (choice == CHOICE_RECOMPUTE_LAYERS && range->low < 0);
    if (is_default) return text;
    if (range->low == range->high) return arena_print(arena, "%s %s %s", text, option, low);
    return arena_print(arena, "%s %s %s..%lld", text, option, low, (long long)range->high);
}

const char *question_command(struct arena *arena, const struct proof_question *question,
                             const struct pins *pins, bool exhaustive)
{
    const char *text = question->command;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        struct int_range range = pins_get(pins, (enum choice)i);
        if (range.set) text = add_pin(arena, text, (enum choice)i, &range);
    }
    for (int i = 0; i < pins->forbidden_count; i++) {
        enum choice choice;
        struct err err = {0};
        if (!choice_from_name(pins->forbidden[i].key, &choice, &err)) continue;
        text = arena_print(arena, "%s --forbid %s=%s", text, choice_name(choice),
                           choice_text(arena, choice, pins->forbidden[i].value));
    }
    for (int i = 0; i < pins->stage_layers_count; i++)
        text = arena_print(arena, i ? "%s,%d" : "%s --stages %d", text, pins->stage_layers[i]);
    if (pins->search_offload && !pins->offload.set)
        text = arena_print(arena, "%s --offload auto", text);
    if (exhaustive) text = arena_print(arena, "%s --exhaustive", text);
    return pins->supposed ? arena_print(arena, "%s # supposed", text) : text;
}
