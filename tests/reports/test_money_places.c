#include "core/file.h"
#include "planner/choice.h"
#include "reports/page/replan.h"
#include "reports/page/report_make.h"
#include "reports/table/plan_json.h"
#include "reports/whatif/whatif.h"
#include "tests/support/test.h"

// One question, asked of everything that answers it: plan.json, `simulate` of that plan, the page
// and its data, `whatif`, and the planner in the page. Time, GPU-hours and money are the same to
// the last digit, and so are both ends of their bands.

struct money_places_question {
    const char *model, *cluster;
    int64_t seq_len, global_batch;
    double tokens, price;
    int spares;
    double repair_s;
};

static const struct money_places_question QUESTIONS[] = {
    {"gpt2", "dgx-a100-80g", 1024, 64, 3e11, 1.37, 0, 0},
    {"llama-2-7b", "dgx-h100-x2", 4096, 256, 2e12, 2.5, 0, 0},
    {"llama-3-8b", "p4d-efa-x8", 2048, 512, 15e12, 1 / 3.0, 2, 172800},
    {"bert-base", "l40s-pcie8", 512, 128, 7e9, 0.99, 0, 0},
};
enum { QUESTION_COUNT = sizeof QUESTIONS / sizeof *QUESTIONS };

struct asked {
    struct arena *arena;
    struct search_request search;
    const struct bands *bands;
    struct search_result result;
    struct evaluation_request request;
    struct evaluation evaluation;
    const char *plan;  // the text of plan.json
};

static void ask(struct arena *arena, const struct money_places_question *question,
                struct asked *asked)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, question->cluster, &err);
    assert_string_equal(err.text, "");
    cluster->price = (struct price){.per_gpu_hour = question->price, .currency = "USD"};
    cluster->failures.spare_nodes = question->spares;
    cluster->failures.repair_s = question->repair_s;
    *asked = (struct asked){.arena = arena, .bands = bands_load(arena, &err)};
    asked->search = (struct search_request){
        .model = model_load(arena, question->model, NULL, NULL, &err),
        .cluster = cluster,
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
        .workload = {.seq_len = question->seq_len,
                     .global_batch = question->global_batch,
                     .precision = PRECISION_BF16,
                     .optimizer = OPTIMIZER_ADAMW,
                     .expert_imbalance = 1,
                     .tokens = question->tokens},
        .pins = pins_none(),
        .top = 5,
    };
    assert_string_equal(err.text, "");
    assert_true(search_plans(arena, &asked->search, &asked->result, &err));
    asked->request = (struct evaluation_request){
        .model = asked->search.model,
        .cluster = cluster,
        .stack = asked->search.stack,
        .fabrics = asked->search.fabrics,
        .bands = asked->bands,
        .workload = asked->search.workload,
        .parallel = asked->result.best[0].parallel,
        .selected_count = asked->result.considered_count,
    };
    struct arena scratch = {0};
    assert_true(evaluate(arena, &scratch, &asked->request, &asked->evaluation, &err));
    arena_free(&scratch);
    const struct plan_document document = {
        .request = &asked->request,
        .evaluation = &asked->evaluation,
        .search = &asked->result,
        .version = "test",
    };
    asked->plan = plan_document_text(arena, &document);
}

static struct json parsed(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    assert_true(json_parse(arena, "text", text, strlen(text), document, &err));
    return json_root(document);
}

static double number(const struct json *object, const char *key)
{
    struct err err = {0};
    struct json value = json_get(object, key, &err);
    double found = json_f64(&value, 0, 1e300, &err);
    assert_string_equal(err.text, "");
    return found;
}

static void check_amounts(const struct json *amounts, const struct money *money)
{
    assert_true(number(amounts, "train_s") == money->train_s);
    assert_true(number(amounts, "uninterrupted_s") == money->uninterrupted_s);
    assert_true(number(amounts, "gpu_hours") == money->gpu_hours);
    assert_true(number(amounts, "total") == money->total);
    assert_true(number(amounts, "per_billion_tokens") == money->per_billion_tokens);
}

// "prediction" of an object against what the plan was predicted to be.
static void check_prediction(const struct asked *asked, const struct json *object)
{
    struct err err = {0};
    const struct prediction *wanted = &asked->evaluation.prediction;
    struct json prediction = json_get(object, "prediction", &err);
    struct json money = json_get(&prediction, "money", &err), low = json_get(&money, "low", &err),
                high = json_get(&money, "high", &err);
    assert_string_equal(err.text, "");
    check_amounts(&money, &wanted->money);
    check_amounts(&low, &wanted->money_low);
    check_amounts(&high, &wanted->money_high);
    assert_true(wanted->money.total > 0 && wanted->money.train_s > wanted->money.uninterrupted_s);
}

static struct report *report_of(struct asked *asked, const struct plan *plan,
                                struct evaluation_request *request)
{
    struct err err = {0};
    struct arena scratch = {0};
    const struct report_options options = {.no_scaling = true};
    struct report *report = ARENA_NEW(asked->arena, struct report, 1);
    report->plan = plan;
    report->plan_path = "plan.json";
    report->version = "test";
    report->request = request;
    assert_true(report_make(asked->arena, &scratch, &options, report, &err));
    arena_free(&scratch);
    return report;
}

// `simulate` and `report` read the plan; the page's lead and tile say the same in words.
static void check_readers(struct asked *asked)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct json *root = ARENA_NEW(asked->arena, struct json, 1);
    *root = parsed(asked->arena, asked->plan);
    check_prediction(asked, root);
    const struct plan *plan = plan_read(asked->arena, root, &err);
    assert_string_equal(err.text, "");
    struct evaluation_request request = asked->request;
    request.model = plan->model;
    request.cluster = plan->cluster;
    request.workload = plan->workload;
    request.parallel = plan->parallel;
    request.stack = stack_read(asked->arena, &plan->stack, &err);
    struct evaluation again = {0};
    assert_true(evaluate(asked->arena, &scratch, &request, &again, &err));
    const struct money *found = &again.prediction.money,
                       *wanted = &asked->evaluation.prediction.money;
    assert_true(found->total == wanted->total && found->train_s == wanted->train_s);
    assert_true(found->gpu_hours == wanted->gpu_hours);
    const struct report *report = report_of(asked, plan, &request);
    const struct report_facts *facts = report_facts_make(asked->arena, &scratch, report);
    struct json data = parsed(asked->arena, report_data(asked->arena, facts)), own;
    check_prediction(asked, &data);
    own = json_get(&data, "plan", &err);
    check_prediction(asked, &own);
    const char *page = report_page(asked->arena, facts);
    const char *days = units_duration(asked->arena, wanted->train_s);
    const char *money =
        arena_print(asked->arena, "%s USD", units_count(asked->arena, wanted->total));
    assert_non_null(strstr(page, days));
    assert_non_null(strstr(page, money));
    arena_free(&scratch);
}

static void check_whatif(struct asked *asked)
{
    struct err err = {0};
    struct arena *arena = asked->arena;
    const struct scenario_request request = {.model = asked->search.model,
                                             .stack = asked->search.stack,
                                             .fabrics = asked->search.fabrics,
                                             .bands = asked->bands,
                                             .workers = 1};
    const struct cluster *clusters[] = {asked->search.cluster};
    const struct sweep sweep = {.clusters = clusters,
                                .cluster_count = 1,
                                .workload = asked->search.workload,
                                .pins = asked->search.pins};
    struct sweep_points points;
    struct scenario_outcome outcome;
    struct whatif whatif;
    assert_true(sweep_points(arena, &sweep, &points, &err));
    assert_true(scenarios_run(arena, &request, &points.items[0].scenario, 1, &outcome, &err));
    const struct whatif_question question = {.tokens = asked->search.workload.tokens};
    assert_true(whatif_make(arena, &question, &sweep, &request, &points, &outcome, &whatif, &err));
    const struct whatif_row *row = &whatif.rows[0];
    const struct prediction *wanted = &asked->evaluation.prediction;
    assert_true(row->money == wanted->money.total && row->gpu_hours == wanted->money.gpu_hours);
    assert_true(row->time_s == wanted->money.train_s);
    assert_true(row->per_billion == wanted->money.per_billion_tokens);
    assert_true(row->low_s == wanted->money_low.train_s);
    assert_true(row->high_s == wanted->money_high.train_s);
}

static const char *table(struct arena *arena, const char *name)
{
    struct err err = {0};
    size_t bytes = 0;
    const char *path = file_find_data(arena, "cost_models", name, "table", &err);
    const char *text = path ? file_read(arena, path, 1 << 24, &bytes, &err) : NULL;
    assert_string_equal(err.text, "");
    return text;
}

// The planner in the page, asked the plan's own question, and asked it of a plan without tokens and
// another price, which the change then says.
static void check_page_planner(struct asked *asked, const struct money_places_question *question)
{
    struct arena *arena = asked->arena;
    const char *base = arena_print(arena, "{\"plan\": %s, \"fabrics\": %s, \"bands\": %s}",
                                   asked->plan, table(arena, "fabrics"), table(arena, "bands"));
    struct replan_answer answer = replan(arena, base, "{}");
    assert_int_equal(answer.status, 0);
    struct json plan = parsed(arena, answer.plan);
    check_prediction(asked, &plan);
    struct money_places_question other = *question;
    struct asked bare;
    other.tokens = 0;
    other.price = 77;
    ask(arena, &other, &bare);
    base = arena_print(arena, "{\"plan\": %s, \"fabrics\": %s, \"bands\": %s}", bare.plan,
                       table(arena, "fabrics"), table(arena, "bands"));
    answer = replan(arena, base,
                    arena_print(arena, "{\"tokens\": %.17g, \"price_per_gpu_hour\": %.17g}",
                                question->tokens, question->price));
    assert_int_equal(answer.status, 0);
    plan = parsed(arena, answer.plan);
    check_prediction(asked, &plan);
}

static void the_same_run_costs_the_same_everywhere(void **state)
{
    for (int i = 0; i < QUESTION_COUNT; i++) {
        struct asked asked;
        ask(*state, &QUESTIONS[i], &asked);
        check_readers(&asked);
        check_whatif(&asked);
        check_page_planner(&asked, &QUESTIONS[i]);
    }
}

// What the command line restates of a plan, the page and the planner in it speak of.
static void a_page_is_of_the_run_that_was_asked_for(void **state)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct money_places_question other = QUESTIONS[0];
    struct asked asked, bare;
    other.tokens = 0;
    ask(*state, &QUESTIONS[0], &asked);
    ask(*state, &other, &bare);
    struct json *root = ARENA_NEW(*state, struct json, 1);
    *root = parsed(*state, bare.plan);
    const struct plan *plan = plan_read(*state, root, &err);
    assert_string_equal(err.text, "");
    struct evaluation_request request = asked.request;
    request.stack = stack_read(*state, &plan->stack, &err);
    const struct report *report = report_of(&asked, plan, &request);
    const struct report_facts *facts = report_facts_make(*state, &scratch, report);
    struct json data = parsed(*state, report_data(*state, facts));
    check_prediction(&asked, &data);
    struct json own = json_get(&data, "plan", &err);
    check_prediction(&asked, &own);
    struct json workload = json_get(&own, "workload", &err);
    assert_true(number(&workload, "tokens") == QUESTIONS[0].tokens);
    arena_free(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_run_costs_the_same_everywhere),
        cmocka_unit_test(a_page_is_of_the_run_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
