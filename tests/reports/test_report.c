#include "tests/support/random_search.h"
#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/uneven.h"
#include "reports/page/figure.h"
#include "reports/page/neighbours.h"

#include <math.h>

enum { SEARCHES = 20, SEED = 20261121, PARTS_MOST = 12 };

static void is_near(double found, double wanted, double slack)
{
    if (fabs(found - wanted) <= 1e-9 * fabs(wanted) + slack) return;
    print_error("found %.15g, wanted %.15g, slack %g\n", found, wanted, slack);
    fail();
}

static void markup_escapes_what_html_means_something_by(void **state)
{
    struct markup markup = {.arena = *state};
    markup_text(&markup, "a<b> & \"c\" 'd'\x01\n");
    assert_string_equal(markup.text, "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\xef\xbf\xbd\n");
}

static void numbers_keep_their_units(void **state)
{
    struct markup markup = {.arena = *state};
    markup_prose(&markup, "71.5 M USD on stage 0 of tp8 dp2, 3 GPU-hours in all");
    assert_string_equal(markup.text,
                        "71.5\xc2\xa0M\xc2\xa0USD on stage\xc2\xa0\x30\xc2\xa0of tp8 dp2, 3\xc2\xa0"
                        "<span class=\"whole\">GPU-hours</span> in all");
}

static void markup_numbers_have_no_zeros_at_the_end(void **state)
{
    struct markup markup = {.arena = *state};
    static const struct {
        double value;
        int decimals;
    } CASES[] = {{12.50, 2}, {3, 2}, {0.004, 2}, {-0.001, 2}, {100, 0}, {-7.25, 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        markup_number(&markup, CASES[i].value, CASES[i].decimals);
        markup_put(&markup, " ");
    }
    assert_string_equal(markup.text, "12.5 3 0 0 100 -7.25 ");
}

static void ticks_are_round_and_inside(void **state)
{
    struct draw draw = draw_start("ticks", SEED);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        double ticks[CHART_TICKS_MAX];
        struct chart_axis axis = {.scale = draw_int(&draw, 0, 1) ? CHART_LOG : CHART_LINEAR};
        axis.low = pow(10, draw_int(&draw, -6, 5)) * (1 + draw_int(&draw, 0, 89));
        axis.high = axis.low * (1.02 + draw_int(&draw, 0, 999) / 10.0);
        if (axis.scale == CHART_LINEAR && draw_int(&draw, 0, 1)) axis.low = 0;
        int most = draw_int(&draw, 4, 9), count = chart_ticks(&axis, most, ticks);
        assert_in_range(count, 0, most + 1);
        for (int k = 0; k < count; k++) {
            double place = chart_place(&axis, fmax(ticks[k], axis.low));
            assert_true(place >= -1e-6 && place <= 1 + 1e-6);
            assert_true(k == 0 || ticks[k] > ticks[k - 1]);
        }
        if (axis.scale == CHART_LOG || count < 2) continue;
        double step = ticks[1] - ticks[0], digit = step / pow(10, floor(log10(step * 1.0001)));
        bool is_round = fabs(digit - 1) < 1e-3 || fabs(digit - 2) < 1e-3 || fabs(digit - 5) < 1e-3;
        assert_true(is_round);
        assert_true(fabs(ticks[0] / step - round(ticks[0] / step)) < 1e-3);
    }
}

// An evaluated plan with its trace, and what figures are made from.
struct subject {
    struct evaluation_request request;
    struct evaluation evaluation;
    struct report report;
    const struct report_facts *facts;
};

static bool make_subject(struct arena *arena, struct arena *scratch,
                         const struct search_request *search, const struct parallel *parallel,
                         struct subject *subject)
{
    struct err err = {0};
    *subject = (struct subject){.request = {.model = search->model,
                                            .cluster = search->cluster,
                                            .stack = search->stack,
                                            .fabrics = search->fabrics,
                                            .workload = search->workload,
                                            .parallel = *parallel,
                                            .engine = {.want_trace = true}}};
    if (!evaluate(arena, scratch, &subject->request, &subject->evaluation, &err)) return false;
    subject->report.request = &subject->request;
    subject->report.evaluation = &subject->evaluation;
    subject->facts = report_facts_make(arena, scratch, &subject->report);
    return true;
}

// What all ranks send, from the breakdowns of the stages: each message between stages stands there
// twice, with who sends it and with who receives it.
static double sent_bytes(struct arena *arena, struct arena *scratch, const struct subject *subject)
{
    const struct program *program = subject->evaluation.program;
    struct ledger ledger = ledger_new(arena);
    struct price_context context = evaluation_context(&subject->request);
    context.ledger = &ledger;
    const struct step_price *price = step_price(arena, &context, program);
    const struct simulation *simulation =
        simulate_step(arena, scratch, price, &(struct engine_options){0});
    int stage_count = program->shape.stage_count;
    double ranks = (double)program->mesh.rank_count / stage_count, sum = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        struct breakdown breakdown =
            breakdown_of_stage(arena, &ledger, program, price, simulation, stage);
        for (int i = 0; i < breakdown.count; i++) {
            const struct ledger_line *line = breakdown.lines[i].price;
            double bytes = breakdown.lines[i].count * line->bytes, n = line->rank_count;
            if (line->collective == COLLECTIVE_NONE || n < 2) continue;
            if (line->collective == COLLECTIVE_SEND_RECV && line->entry == ENTRY_HOP) {
                sum += ranks * bytes / 2;
            } else if (line->entry == ENTRY_TIED) {
                sum += ranks * bytes;
            } else {
                // Of what is streamed round a group the messages are priced.
                double times = line->collective == COLLECTIVE_SEND_RECV    ? n / (n - 1)
                               : line->collective == COLLECTIVE_ALL_REDUCE ? 2
                                                                           : 1;
                sum += ranks * times * bytes * (n - 1) / n;
            }
        }
    }
    return sum;
}

static void check_traffic(struct arena *arena, struct arena *scratch, const struct subject *subject)
{
    const struct traffic *traffic = &subject->facts->traffic;
    double sum = 0;
    for (int i = 0; i < traffic->cell_count * traffic->cell_count; i++) {
        assert_true(traffic->bytes[i] >= 0);
        sum += traffic->bytes[i];
    }
    is_near(sum, traffic->total_bytes, 0);
    is_near(sum, sent_bytes(arena, scratch, subject), 1);
    assert_true(traffic->inside_bytes <= traffic->total_bytes * (1 + 1e-12));
    assert_in_range(traffic->cell_count, 1, TRAFFIC_CELLS_MAX);
}

// The parts stand one behind the other and end at the step.
static void check_waterfall(struct arena *arena, const struct subject *subject)
{
    struct chart chart = figure_new(arena);
    assert_true(figure_waterfall(subject->facts, &chart));
    double step_s = subject->evaluation.prediction.step_s, at_s = 0;
    for (int i = 0; i + 1 < chart.series_count; i++) {
        const struct chart_mark *bar = &chart.series[i].marks[0];
        is_near(bar->x0, at_s, PARTS_MOST * 1e-6 * step_s);
        at_s = bar->x1;
    }
    // What is less than a millionth of it is not drawn.
    is_near(at_s, step_s, PARTS_MOST * 1e-6 * step_s);
    is_near(chart.series[chart.series_count - 1].marks[0].x1, step_s, 0);
}

// The highest point of every curve is what the memory model says of its stage.
static void check_memory(struct arena *arena, const struct subject *subject)
{
    struct chart chart = figure_new(arena);
    assert_true(figure_memory_time(subject->facts, &chart));
    const double gib = 1024.0 * 1024.0 * 1024.0;
    for (int i = 0; i < chart.series_count; i++) {
        const struct chart_series *series = &chart.series[i];
        int stage = 0;
        double highest = 0;
        if (series->kind != CHART_STEPS) continue;
        if (subject->evaluation.program->shape.stage_count > 1)
            assert_int_equal(sscanf(series->name, "stage %d", &stage), 1);
        for (int k = 0; k < series->count; k++)
            highest = fmax(highest, series->marks[k].y0);
        const struct memory_parts *parts = &subject->evaluation.stage_memory[stage];
        // Layers come one after another: a picture of few tasks begins below the full first
        // forward.
        const struct schedule_shape *shape = &subject->evaluation.program->shape;
        if (parts->activations_bytes > 0 && shape->chunk_count * shape->micro_batch_count <= 40)
            assert_true(series->marks[0].y0 < highest);
        double peak = (double)parts->peak_bytes;
        // At the end nothing of a micro-batch is left.
        double standing = (double)(parts->weights_bytes + parts->gradients_bytes +
                                   parts->optimizer_bytes + parts->buffers_bytes);
        if (offload_is_none(&subject->request.parallel.offload))
            is_near(series->marks[series->count - 1].y0 * gib, standing, 64);
        // Of several chunks a stage the model takes moments that may not all come to pass.
        if (subject->evaluation.program->shape.chunk_count == 1) {
            is_near(highest * gib, peak, 64);
        } else {
            assert_true(highest * gib <= peak + 64 && highest * gib >= 0.8 * peak);
        }
    }
}

// The boxes of a stage's tasks together are its busy time.
static void check_pipeline(struct arena *arena, const struct subject *subject)
{
    struct chart chart = figure_new(arena);
    assert_true(figure_pipeline(subject->facts, &chart));
    const struct simulation *simulation = subject->evaluation.simulation;
    if (simulation->trace.span_count > 5000) return;
    for (int stage = 0; stage < subject->evaluation.program->shape.stage_count; stage++) {
        double busy_s = 0;
        for (int i = 0; i < chart.series_count; i++) {
            for (int k = 0; k < chart.series[i].count; k++) {
                const struct chart_mark *box = &chart.series[i].marks[k];
                bool is_work = fabs(box->y0 - (stage - 0.44)) < 1e-9;
                bool is_task = chart.series[i].color == CHART_FORWARD ||
                               chart.series[i].color == CHART_BACKWARD ||
                               chart.series[i].color == CHART_WEIGHT ||
                               chart.series[i].color == CHART_TRAFFIC;
                if (is_work && is_task) busy_s += box->x1 - box->x0;
                assert_true(box->x1 <= subject->evaluation.prediction.step_s * (1 + 1e-9));
            }
        }
        double slack_s = 1e-8 * (double)simulation->trace.span_count;
        // A first forward that waits for its parameters is drawn as long as it takes with that.
        double own_s = simulation->stage_busy_s[stage];
        assert_true(busy_s >= own_s - slack_s);
        assert_true(busy_s <= own_s + simulation->stage_waits[stage].gather_s + slack_s);
    }
}

static void figures_of_random_plans_agree_with_what_they_are_of(void **state)
{
    struct draw draw = draw_start("searches", SEED);
    struct arena *arena = *state, scratch = {0};
    int checked = 0;
    for (int i = 0; i < SEARCHES; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct search_request search = random_search(arena, &draw);
        search.top = 3;
        struct search_result result = {0};
        struct err err = {0};
        struct subject subject;
        if (!search_plans(arena, &search, &result, &err)) continue;
        for (int n = 0; n < result.best_count; n++) {
            if (!make_subject(arena, &scratch, &search, &result.best[n].parallel, &subject)) fail();
            check_traffic(arena, &scratch, &subject);
            check_waterfall(arena, &subject);
            check_memory(arena, &subject);
            check_pipeline(arena, &subject);
            checked++;
        }
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
    assert_true(checked > SEARCHES);
}

// Stages of 2 and 4 GPUs: what is no degree is changed as anywhere, and costs what the plan with it
// does; degrees are the stages' own.
static void neighbours_of_unlike_stages_are_priced(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct err err = {0};
    struct search_request search = {.pins = pins_none(), .top = 1};
    struct cluster *cluster = cluster_load(arena, "dgx-h100", &err);
    assert_true(cluster_take_gpus(cluster, 6, &err));
    search.model = model_load(arena, "gpt2", NULL, NULL, &err);
    search.cluster = cluster;
    search.stack = stack_load(arena, "meshwright", &err);
    search.fabrics = fabrics_load(arena, &err);
    search.workload = (struct workload){1024, 32, .precision = PRECISION_BF16};
    search.pins.stage_ranks = (const int[]){2, 4};
    search.pins.stage_ranks_count = 2;
    struct search_result result = {0};
    struct uneven_answer answer;
    assert_true(uneven_search(arena, &search, &result, &answer, &err));
    struct subject subject;
    assert_true(make_subject(arena, &scratch, &search, &result.best[0].parallel, &subject));
    struct neighbours found =
        neighbours_find(arena, &scratch, &subject.request, subject.evaluation.graph);
    int priced = 0;
    for (int i = 0; i < found.count; i++) {
        const struct neighbour *at = &found.list[i];
        bool is_degree =
            at->choice == CHOICE_TP || at->choice == CHOICE_CP || at->choice == CHOICE_PP;
        assert_true(!is_degree || at->status == NEIGHBOUR_IMPOSSIBLE);
        if (is_degree) assert_string_equal(at->reason, "stages have ranks and tp of their own");
        if (at->choice != CHOICE_ZERO && at->choice != CHOICE_MICRO_BATCH) continue;
        int64_t value = 0;
        struct parallel other = result.best[0].parallel;
        struct subject changed;
        assert_true(choice_parse(at->choice, at->value, &value, &err));
        choice_put(&other, at->choice, value);
        if (!make_subject(arena, &scratch, &search, &other, &changed)) continue;
        assert_true(at->status == NEIGHBOUR_FITS);
        assert_true(at->prediction.step_s == changed.evaluation.prediction.step_s);
        priced++;
    }
    arena_free(&scratch);
    assert_true(priced >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_escapes_what_html_means_something_by),
        cmocka_unit_test(numbers_keep_their_units),
        cmocka_unit_test(markup_numbers_have_no_zeros_at_the_end),
        cmocka_unit_test(ticks_are_round_and_inside),
        cmocka_unit_test(figures_of_random_plans_agree_with_what_they_are_of),
        cmocka_unit_test(neighbours_of_unlike_stages_are_priced),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
