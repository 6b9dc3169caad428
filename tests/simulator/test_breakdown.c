#include "tests/support/draw.h"
#include "tests/support/random_plan.h"
#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "reports/table/explain_table.h"

#include <math.h>

enum { PLANS = 2000, SEARCHES = 25, SEED = 20261121 };

static void is_near(double found, double wanted, double slack_s)
{
    if (fabs(found - wanted) <= 1e-9 * fabs(wanted) + slack_s) return;
    print_error("found %.15g, wanted %.15g, slack %g\n", found, wanted, slack_s);
    fail();
}

static void add(struct ledger *ledger, enum entry entry, int phase, enum part part, double s)
{
    bool is_operator = entry == ENTRY_OPERATOR || entry == ENTRY_UPDATE || entry == ENTRY_SQUARES;
    struct ledger_line line = {
        .entry = entry,
        .what = "drawn",
        .phase = (enum phase)phase,
        .count = 1,
        .s = s,
        .exposed_s = s,
        .part = part,
        .collective = is_operator ? COLLECTIVE_NONE : COLLECTIVE_ALL_REDUCE,
    };
    ledger_add(ledger, &line);
}

// The prices of a drawn plan as if its chunks were blocks.
static struct ledger ledger_of(struct arena *arena, const struct step_price *price)
{
    struct ledger ledger = ledger_new(arena);
    for (int i = 0; i < price->class_count; i++) {
        const struct chunk_price *class = &price->classes[i];
        ledger_turn_to(&ledger, i, -1);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            for (enum part part = 0; part < PART_COUNT; part++)
                add(&ledger, part < PART_TP ? ENTRY_OPERATOR : ENTRY_EXCHANGE, phase, part,
                    class->phase_s[phase][part]);
        }
        ledger_turn_to(&ledger, -1, i);
        add(&ledger, ENTRY_REDUCE, 0, PART_DP, class->gradient_reduce_s);
        add(&ledger, ENTRY_GATHER, 0, PART_DP, class->parameter_gather_s);
        add(&ledger, ENTRY_SMALL, 0, PART_TP, class->small_reduce_s);
        add(&ledger, ENTRY_UPDATE, 0, PART_COMPUTE, class->update_s);
    }
    ledger_turn_to(&ledger, -1, -1);
    add(&ledger, ENTRY_HOP, 0, PART_DP, price->hop_s);
    for (int i = 0; i < price->tie_count; i++)
        add(&ledger, ENTRY_TIED, 0, PART_DP, price->ties[i].s);
    add(&ledger, ENTRY_NORM, 0, PART_DP, price->norm_s);
    return ledger;
}

static struct program program_of(struct arena *arena, const struct step_price *price)
{
    struct program program = {.shape = price->shape,
                              .chunk_class_count = price->class_count,
                              .block_count = price->class_count};
    int all = price->shape.stage_count * price->shape.chunk_count;
    program.class_of = ARENA_NEW(arena, int, all);
    memcpy(program.class_of, price->class_of, (size_t)all * sizeof *program.class_of);
    program.chunks = ARENA_NEW(arena, struct program_chunk, price->class_count);
    for (int i = 0; i < price->class_count; i++) {
        program.chunks[i].uses = ARENA_NEW(arena, struct block_use, 1);
        program.chunks[i].uses[0] = (struct block_use){.block_program = i, .count = 1};
        program.chunks[i].use_count = 1;
    }
    return program;
}

static double sum_of_lines(const struct breakdown *breakdown)
{
    double sum_s = breakdown->waiting_s + breakdown->overhead_s;
    for (int i = 0; i < breakdown->count; i++) {
        assert_true(breakdown->lines[i].s >= 0);
        assert_true(i == 0 || breakdown->lines[i].s <= breakdown->lines[i - 1].s);
        assert_true(breakdown->lines[i].s <= breakdown->lines[i].alone_s + 1e-6);
        sum_s += breakdown->lines[i].s;
    }
    return sum_s;
}

// Every stage's lines, waiting and overhead are the step; and the means over stages are the parts
// that the events have found on a way of their own.
static void lines_sum_to_the_step_and_stages_to_its_parts(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct random random = random_start(SEED);
    printf("# seed %d\n", SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        const struct step_price *price =
            random_plan(arena, &random, (enum schedule_kind)(i % SCHEDULE_KIND_COUNT));
        const struct simulation *events =
            simulate_step(arena, &scratch, price, &(struct engine_options){0});
        struct ledger ledger = ledger_of(arena, price);
        struct program program = program_of(arena, price);
        const struct cost *cost = &events->cost;
        int stages = price->shape.stage_count;
        // Half a nanosecond for each part of each task and of what comes once a step.
        double slack_s = 1e-9 * (100 + SLOT_KIND_COUNT * PART_COUNT * price->shape.chunk_count *
                                           price->shape.micro_batch_count);
        double waiting_s = 0, operators_s = 0, communication_s = 0;
        for (int stage = 0; stage < stages; stage++) {
            struct breakdown breakdown =
                breakdown_of_stage(arena, &ledger, &program, price, events, stage);
            is_near(sum_of_lines(&breakdown), cost->step_s, 0);
            double before_s = price->post_validated ? price->hop_s : 0;
            assert_true(breakdown.waiting_s >= -slack_s - before_s);
            waiting_s += breakdown.waiting_s / stages;
            operators_s += breakdown.operators_s / stages;
            communication_s += breakdown.communication_s / stages;
        }
        is_near(waiting_s, cost->bubble_s + cost->imbalance_s, slack_s);
        is_near(operators_s, cost->compute_s + cost->recompute_s + cost->update_s, slack_s);
        is_near(communication_s, cost->exposed_comm_s, slack_s);
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
}

static struct evaluation_request request_of(const struct search_request *search,
                                            const struct parallel *parallel)
{
    return (struct evaluation_request){.model = search->model,
                                       .cluster = search->cluster,
                                       .stack = search->stack,
                                       .fabrics = search->fabrics,
                                       .workload = search->workload,
                                       .parallel = *parallel};
}

static struct evaluation evaluation_of(struct arena *arena,
                                       const struct evaluation_request *request)
{
    struct arena scratch = {0};
    struct err err = {0};
    struct evaluation evaluation = {0};
    bool done = evaluate(arena, &scratch, request, &evaluation, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(done);
    return evaluation;
}

static enum part part_of(const struct ledger_line *line)
{
    bool computes =
        line->entry == ENTRY_CONTENTION || line->entry == ENTRY_HOST || line->entry == ENTRY_TASK;
    return computes ? PART_COMPUTE : line->part;
}

// What was written down is what was priced: by block, phase and part, and once a step.
static void check_ledger(const struct program *program, const struct step_price *price,
                         const struct ledger *ledger)
{
    for (int c = 0; c < price->class_count; c++) {
        struct chunk_price sum = {0};
        const struct program_chunk *chunk = &program->chunks[c];
        for (int i = 0; i < ledger->count; i++) {
            const struct ledger_line *line = &ledger->lines[i];
            if (line->collective) is_near(line->s, line->count * line->cost.s, 0);
            for (int u = 0; line->block >= 0 && u < chunk->use_count; u++) {
                if (chunk->uses[u].block_program == line->block)
                    sum.phase_s[line->phase][part_of(line)] +=
                        chunk->uses[u].count * line->exposed_s;
            }
            if (line->chunk != c) continue;
            bool is_of_rounds = line->entry == ENTRY_TASK || line->entry == ENTRY_BEGIN;
            *(is_of_rounds                  ? &sum.phase_s[line->phase][PART_COMPUTE]
              : line->entry == ENTRY_REDUCE ? &sum.gradient_reduce_s
              : line->entry == ENTRY_GATHER ? &sum.parameter_gather_s
              : line->entry == ENTRY_SMALL  ? &sum.small_reduce_s
                                            : &sum.update_s) += line->s;
        }
        const struct chunk_price *class = &price->classes[c];
        for (int n = 0; n < PHASE_COUNT * PART_COUNT; n++) {
            is_near(sum.phase_s[n / PART_COUNT][n % PART_COUNT],
                    class->phase_s[n / PART_COUNT][n % PART_COUNT], 1e-15);
        }
        is_near(sum.gradient_reduce_s, class->gradient_reduce_s, 0);
        is_near(sum.parameter_gather_s, class->parameter_gather_s, 0);
        is_near(sum.small_reduce_s, class->small_reduce_s, 0);
        is_near(sum.update_s, class->update_s, 0);
    }
}

static struct ledger priced_ledger(struct arena *arena, const struct evaluation_request *request,
                                   const struct program *program, const struct step_price **price)
{
    struct ledger ledger = ledger_new(arena);
    struct price_context context = evaluation_context(request);
    context.ledger = &ledger;
    *price = step_price(arena, &context, program);
    return ledger;
}

// Plans that searches propose: every kind of axis, schedule, sharding and recomputed work.
static void the_ledger_of_a_plan_holds_all_of_its_prices(void **state)
{
    struct draw draw = draw_start("searches", SEED);
    struct arena *arena = *state, scratch = {0};
    int checked = 0;
    for (int i = 0; i < SEARCHES; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct search_request search = random_search(arena, &draw);
        search.top = 4;
        struct search_result result = {0};
        struct err err = {0};
        if (!search_plans(arena, &search, &result, &err)) continue;
        for (int n = 0; n < result.best_count; n++) {
            struct evaluation_request request = request_of(&search, &result.best[n].parallel);
            struct evaluation evaluation = evaluation_of(arena, &request);
            const struct step_price *price;
            struct ledger ledger = priced_ledger(arena, &request, evaluation.program, &price);
            check_ledger(evaluation.program, price, &ledger);
            struct breakdown breakdown = breakdown_make(arena, &scratch, &request, &evaluation);
            double step_s = evaluation.prediction.step_s;
            is_near(sum_of_lines(&breakdown), step_s, 0);
            checked++;
        }
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
    assert_true(checked > SEARCHES);
}

static struct evaluation_request pipelined(struct arena *arena)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, "dgx-a100-80g-x4", &err);
    struct evaluation_request request = {
        .model = model_load(arena, "llama-2-13b", NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "megatron-core", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = 4096, .global_batch = 64, .precision = PRECISION_BF16},
        .parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                     .vpp = 1,
                     .micro_batch = 1,
                     .sp = true,
                     .zero = 1,
                     .recompute_layers = -1,
                     .schedule = SCHEDULE_1F1B},
    };
    assert_string_equal(err.text, "");
    request.parallel.degree[AXIS_TP] = 2;
    request.parallel.degree[AXIS_PP] = 4;
    request.parallel.degree[AXIS_DP] = 4;
    request.parallel.passes = request.stack->passes;
    request.parallel.overlap = request.stack->overlap_default;
    parallel_default_order(&request.parallel);
    return request;
}

static const struct breakdown_line *find(const struct breakdown *breakdown, enum entry entry,
                                         const char *what, enum phase phase)
{
    for (int i = 0; i < breakdown->count; i++) {
        const struct ledger_line *line = breakdown->lines[i].price;
        bool is_it = line->entry == entry && line->phase == phase && strcmp(line->what, what) == 0;
        if (is_it) return &breakdown->lines[i];
    }
    return NULL;
}

// 16 micro-batches through the 10 layers of a stage, and the products as the stack runs them: q, k
// and v in one, whose columns tp halves.
static void lines_count_what_a_stage_runs(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct evaluation_request request = pipelined(arena);
    struct evaluation evaluation = evaluation_of(arena, &request);
    const struct step_price *price;
    struct ledger ledger = priced_ledger(arena, &request, evaluation.program, &price);
    struct breakdown breakdown =
        breakdown_of_stage(arena, &ledger, evaluation.program, price, evaluation.simulation, 1);
    const struct breakdown_line *qkv =
        find(&breakdown, ENTRY_OPERATOR, "attention.q", PHASE_FORWARD);
    assert_non_null(qkv);
    assert_true(qkv->count == 16 * evaluation.program->spans[1].count);
    assert_int_equal(qkv->price->joined, 3);
    assert_int_equal(qkv->price->gemm.m, 4096);
    assert_int_equal(qkv->price->gemm.n, 3 * 5120 / 2);
    assert_int_equal(qkv->price->gemm.k, 5120);
    is_near(qkv->flop, qkv->count * 2 * 4096.0 * (3 * 5120 / 2) * 5120, 0);
    // In two bytes: the input, whole again after its gathering, three weights, three results.
    is_near(qkv->bytes, qkv->count * 2 * (4096.0 * 5120 + 3 * 2560.0 * 5120 + 3 * 4096.0 * 2560),
            0);
    const struct breakdown_line *hop =
        find(&breakdown, ENTRY_HOP, "to the next stage", PHASE_FORWARD);
    assert_non_null(hop);
    assert_true(hop->count == 4 * 16);
    struct breakdown first =
        breakdown_of_stage(arena, &ledger, evaluation.program, price, evaluation.simulation, 0);
    assert_true(find(&first, ENTRY_HOP, "to the next stage", PHASE_FORWARD)->count == 2 * 16);
    assert_non_null(find(&first, ENTRY_OPERATOR, "embedding.token", PHASE_FORWARD));
    assert_null(find(&breakdown, ENTRY_OPERATOR, "embedding.token", PHASE_FORWARD));
    arena_free(&scratch);
}

// Of four context-parallel ranks alone, each keeps a quarter of every parameter: what gathers it
// goes over cp, and is data-parallel communication all the same.
static void parameters_sharded_over_cp_alone_are_of_dp(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request = pipelined(arena);
    struct err err = {0};
    struct parallel *parallel = &request.parallel;
    request.stack = stack_load(arena, "meshwright", &err);
    assert_string_equal(err.text, "");
    parallel->degree[AXIS_CP] = 4;
    parallel->degree[AXIS_PP] = parallel->degree[AXIS_DP] = 1;
    parallel->degree[AXIS_TP] = 8;
    parallel->cp_kind = CP_ALL_GATHER;
    parallel->zero = 3;
    parallel->passes = request.stack->passes;
    parallel->overlap = request.stack->overlap_default;
    parallel_default_order(parallel);
    struct evaluation evaluation = evaluation_of(arena, &request);
    const struct step_price *price;
    struct ledger ledger = priced_ledger(arena, &request, evaluation.program, &price);
    check_ledger(evaluation.program, price, &ledger);
    int gathers = 0;
    for (int i = 0; i < ledger.count; i++) {
        const struct ledger_line *line = &ledger.lines[i];
        if (line->entry != ENTRY_EXCHANGE || line->exchange != EXCHANGE_GATHER) continue;
        assert_int_equal(line->part, PART_DP);
        assert_int_equal(line->rank_count, 4);
        gathers++;
    }
    assert_true(gathers > 0);
}

// The matrix flop of all stages' lines are those of the prediction.
static void lines_have_the_flop_of_the_prediction(void **state)
{
    struct arena *arena = *state;
    struct evaluation_request request = pipelined(arena);
    request.parallel.recompute = RECOMPUTE_FULL;
    struct evaluation evaluation = evaluation_of(arena, &request);
    const struct step_price *price;
    struct ledger ledger = priced_ledger(arena, &request, evaluation.program, &price);
    double flop = 0;
    for (int stage = 0; stage < 4; stage++) {
        struct breakdown breakdown = breakdown_of_stage(arena, &ledger, evaluation.program, price,
                                                        evaluation.simulation, stage);
        for (int i = 0; i < breakdown.count; i++) {
            const struct ledger_line *line = breakdown.lines[i].price;
            bool is_matrix = line->instr && (line->instr->kind == OP_CONTRACT ||
                                             line->instr->kind == OP_ATTENTION ||
                                             line->instr->kind == OP_ATTENTION_BACKWARD);
            if (is_matrix) flop += breakdown.lines[i].flop;
        }
    }
    const struct prediction *prediction = &evaluation.prediction;
    is_near(flop / 4, prediction->hardware_flop_per_s_per_gpu * prediction->step_s, 0);
}

static int count_lines(const char *text, const char *start)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, start)); at++)
        count += at == text || at[-1] == '\n';
    return count;
}

static void no_table_is_wider_than_a_hundred_columns(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct evaluation_request request = pipelined(arena);
    struct evaluation evaluation = evaluation_of(arena, &request);
    struct explain explain = {
        .breakdown = breakdown_make(arena, &scratch, &request, &evaluation),
        .sensitivity = sensitivity_make(arena, &scratch, &request, &evaluation),
    };
    char *text = explain_text(arena, &explain);
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1) {
        int width = 0;
        for (const char *c = at; *c != '\n'; c++)
            width += ((unsigned char)*c & 0xc0) != 0x80;
        if (width > 100) fail_msg("%d columns: %.*s", width, (int)strcspn(at, "\n"), at);
    }
    assert_int_equal(count_lines(text, "operator  "), 1);
    assert_int_equal(count_lines(text, "collective  "), 1);
    assert_int_equal(count_lines(text, "step "), 1);
    assert_int_equal(count_lines(text, "waiting for other stages "), 1);
    assert_true(count_lines(text, "... ") >= 1);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_sum_to_the_step_and_stages_to_its_parts),
        cmocka_unit_test(the_ledger_of_a_plan_holds_all_of_its_prices),
        cmocka_unit_test(lines_count_what_a_stage_runs),
        cmocka_unit_test(parameters_sharded_over_cp_alone_are_of_dp),
        cmocka_unit_test(lines_have_the_flop_of_the_prediction),
        cmocka_unit_test(no_table_is_wider_than_a_hundred_columns),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
