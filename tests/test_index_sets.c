#include "tests/test.h"

#include "tests/index_sets.h"
#include "tests/random_graph.h"

// Random blocks on random meshes, lowered, and carried out element by element: see index_sets.h.

enum { CASES = 1500, RANK_MAX = 16 };

static int case_count(void)
{
    const char *wanted = getenv("MESHWRIGHT_CASES");
    return wanted ? atoi(wanted) : CASES;
}

struct setting {
    struct parallel parallel;
    struct random_sizes sizes;
    struct mesh mesh;
    int64_t seq_len;
};

static void shuffle_order(struct draw *draw, struct parallel *parallel)
{
    parallel_default_order(parallel);
    for (int i = parallel->order_count - 1; i > 0; i--) {
        int other = draw_int(draw, 0, i);
        enum axis kept = parallel->order[i];
        parallel->order[i] = parallel->order[other];
        parallel->order[other] = kept;
    }
}

static struct parallel draw_parallel(struct draw *draw)
{
    static const int DEGREES[] = {1, 1, 2, 2, 3, 4};
    static const int RECOMPUTE[] = {RECOMPUTE_NONE, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE,
                                    RECOMPUTE_FULL};
    struct parallel parallel = {.degree = {1, 1, 1, 1, 1, 1}, .vpp = 1, .recompute_layers = -1};
    do {
        parallel.degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
        parallel.degree[AXIS_CP] = DRAW_ONE(draw, DEGREES);
        parallel.degree[AXIS_DP] = DRAW_ONE(draw, DEGREES);
    } while (parallel_rank_count(&parallel) > RANK_MAX);
    parallel.micro_batch = draw_int(draw, 1, 2);
    parallel.sp = draw_int(draw, 0, 1);
    parallel.zero = draw_int(draw, 0, 3);
    parallel.cp_kind = (enum cp_kind)draw_int(draw, 0, CP_KIND_COUNT - 1);
    parallel.recompute = (enum recompute)DRAW_ONE(draw, RECOMPUTE);
    parallel.recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    shuffle_order(draw, &parallel);
    bool has_replicas = draw_int(draw, 0, 2) == 0 && parallel.degree[AXIS_DP] % 2 == 0;
    if (has_replicas) {
        parallel.zero_group = parallel.degree[AXIS_CP] * (parallel.degree[AXIS_DP] / 2);
    }
    return parallel;
}

// kv heads: whole groups for tp, or fewer than tp.
static struct random_sizes draw_sizes(struct draw *draw, const struct parallel *parallel)
{
    int tp = parallel->degree[AXIS_TP], cp = parallel->degree[AXIS_CP];
    int parts = parallel->cp_kind == CP_ULYSSES ? tp * cp : tp, kv = parts;
    for (int divisor = draw_int(draw, 1, parts); divisor > 1; divisor--) {
        if (kv % divisor == 0 && (kv / divisor) % tp == 0) kv /= divisor;
    }
    if (tp % 2 == 0 && kv == tp && draw_int(draw, 0, 1)) kv = tp / 2;
    int heads = kv * draw_int(draw, 1, 2);
    if (heads % parts) heads = parts * (kv % parts == 0 || parts % kv == 0 ? 1 : kv);
    return (struct random_sizes){.kv_heads = kv,
                                 .heads_per_kv_head = heads / kv,
                                 .head_dim = 2,
                                 .hidden = draw_int(draw, 2, 3),
                                 .ffn = draw_int(draw, 1, 2) * tp,
                                 .vocab = draw_int(draw, 1, 2) * tp,
                                 .flash = draw_int(draw, 0, 1)};
}

static void draw_experts(struct draw *draw, struct setting *setting)
{
    struct parallel *parallel = &setting->parallel;
    int ranks = (int)parallel_rank_count(parallel);
    if (draw_int(draw, 0, 1)) return;
    setting->sizes.experts = 2;
    for (int tries = 0; tries < 8; tries++) {
        struct parallel folded = *parallel;
        folded.degree[AXIS_ETP] = draw_int(draw, 0, 2) ? 1 : 2;
        folded.degree[AXIS_EP] = draw_int(draw, 1, ranks);
        if (folded.degree[AXIS_EP] == 1 || !mesh_folds(&folded, setting->sizes.kv_heads)) continue;
        *parallel = folded;
        setting->sizes.experts = folded.degree[AXIS_EP] * draw_int(draw, 1, 2);
        if (setting->sizes.ffn % folded.degree[AXIS_ETP]) {
            setting->sizes.ffn *= folded.degree[AXIS_ETP];
        }
        return;
    }
}

static struct setting draw_setting(struct draw *draw)
{
    struct setting setting = {.parallel = draw_parallel(draw)};
    setting.sizes = draw_sizes(draw, &setting.parallel);
    draw_experts(draw, &setting);
    setting.mesh = mesh_make(&setting.parallel, setting.sizes.kv_heads);
    setting.seq_len = (int64_t)setting.parallel.degree[AXIS_TP] * setting.parallel.degree[AXIS_CP];
    return setting;
}

static void describe(const struct setting *setting, const struct block *block, int number)
{
    const struct parallel *p = &setting->parallel;
    printf("# case %d: tp %d, cp %d %s, dp %d, ep %d, etp %d, sp %d, zero %d (group %d), "
           "recompute %s, micro_batch %d, seq %lld, kv heads %lld of %lld\n# mesh",
           number, p->degree[AXIS_TP], p->degree[AXIS_CP], cp_kind_name(p->cp_kind),
           p->degree[AXIS_DP], p->degree[AXIS_EP], p->degree[AXIS_ETP], p->sp, p->zero,
           p->zero_group, recompute_name(p->recompute), p->micro_batch, (long long)setting->seq_len,
           (long long)setting->sizes.kv_heads,
           (long long)(setting->sizes.kv_heads * setting->sizes.heads_per_kv_head));
    for (int a = 0; a < setting->mesh.axis_count; a++) {
        const struct mesh_axis *axis = &setting->mesh.axes[a];
        printf(" %s=%d(%s)", axis->name, axis->size, axis_name(axis->expert));
    }
    printf("\n");
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        printf("# %s kind %d:", op->name, (int)op->kind);
        for (int i = 0; i < op->input_count + op->output_count; i++) {
            bool output = i >= op->input_count;
            int t = output ? op->outputs[i - op->input_count] : op->inputs[i];
            const struct tensor *tensor = &block->tensors[t];
            printf(" %s%s(", output ? "-> " : "", tensor->name);
            for (int e = 0; e < tensor->rank; e++)
                printf("%s%s %lld", e ? ", " : "", dim_name(tensor->extents[e].dim),
                       (long long)tensor->extents[e].size);
            printf(")");
        }
        printf("\n");
    }
}

static void every_element_is_where_it_is_needed(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("index sets", 20261121);
    int count = case_count(), violated = 0;
    for (int i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        static const enum block_role ROLES[] = {BLOCK_LAYER, BLOCK_LAYER, BLOCK_LAYER,
                                                BLOCK_EMBEDDING, BLOCK_HEAD};
        struct setting setting = draw_setting(&draw);
        struct block *block = random_block(arena, &draw, &setting.sizes, DRAW_ONE(&draw, ROLES));
        if (getenv("VERBOSE") && i >= atoi(getenv("VERBOSE"))) describe(&setting, block, i), fflush(stdout);
        struct differentiated facts;
        block_differentiate(arena, block, &facts);
        struct lower_request request = {.block = block,
                                        .mesh = &setting.mesh,
                                        .parallel = &setting.parallel,
                                        .recompute = setting.parallel.recompute,
                                        .seq_len = setting.seq_len,
                                        .precision = PRECISION_BF16,
                                        .differentiated = &facts};
        struct sets_case task = {.facts = &facts,
                                 .program = lower_block(arena, &request),
                                 .mesh = &setting.mesh,
                                 .parallel = &setting.parallel,
                                 .seq_len = setting.seq_len,
                                 .element_bytes = 2};
        struct sets_result result = sets_check(arena, &task);
        if (result.violation_count) {
            if (violated++ == 0) describe(&setting, block, i);
            printf("# case %d: %s\n", i, result.text);
        }
        arena_reset(arena, mark);
    }
    assert_int_equal(violated, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_where_it_is_needed),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
