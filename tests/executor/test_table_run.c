#include "executor/tables/parts.h"
#include "tests/support/draw.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

enum { STEPS = 3, BATCH = 24, NUMBERS_MAX = 1 << 14 };

static struct recommender *model_of(struct arena *arena, const char *interaction, bool is_wide)
{
    const char *text = arena_print(
        arena,
        "{\"model_type\": \"dlrm\", \"dense_features\": 3, \"embedding_dim\": 4,"
        " \"tables\": [{\"rows\": 30, \"ids\": 3}, {\"rows\": 7, \"ids\": 2},"
        " {\"rows\": 50, \"ids\": 1}], \"bottom_mlp\": [6, 4], \"interaction\": %s,"
        " \"top_mlp\": [5, 3, 1], \"wide\": %s, \"zipf_exponent\": 1, \"zipf_source\": \"drawn\"}",
        interaction, is_wide ? "true" : "false");
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct err err = {0};
    assert_true(json_parse(arena, "m.json", text, strlen(text), document, &err));
    struct json root = json_root(document);
    struct recommender *model = recommender_read(arena, "m", &root, &err);
    assert_string_equal(err.text, "");
    return model;
}

// Each table a way of its own: on every rank, whole, by rows, by columns.
static struct table_placement *place(struct arena *arena, struct draw *draw,
                                     const struct recommender *model, int ranks)
{
    struct table_placement *placement = ARENA_NEW(arena, struct table_placement, 1);
    *placement =
        (struct table_placement){model, ranks, ARENA_NEW(arena, struct table_piece, 64), 0};
    int64_t width = recommender_row_width(model);
    for (int t = 0; t < model->table_count; t++) {
        int way = ranks > 1 ? draw_int(draw, 0, 3) : 1, parts = way > 1 ? draw_int(draw, 2, 4) : 1;
        int64_t rows = model->tables[t].row_count;
        for (int part = 0; part < parts; part++) {
            struct table_piece *piece = &placement->pieces[placement->piece_count++];
            *piece = (struct table_piece){.table = t, .row_count = rows, .column_count = width};
            piece->rank = way == 0 ? PIECE_EVERY_RANK : draw_int(draw, 0, ranks - 1);
            int64_t size = way == 2 ? rows : width;
            int64_t first = size * part / parts, count = size * (part + 1) / parts - first;
            if (way == 2) piece->first_row = first, piece->row_count = count;
            if (way == 3) piece->first_column = first, piece->column_count = count;
        }
    }
    return placement;
}

// What ranks leave where the test sees it.
struct left {
    double tables[NUMBERS_MAX], states[NUMBERS_MAX], dense[NUMBERS_MAX], loss[STEPS];
    struct table_traffic received[8];
    int64_t dense_count;
};

struct job {
    const struct table_placement *placement;
    struct table_workload workload;
    struct left *left;
};

static void leave_tables(const struct job *job, const struct table_run_result *result)
{
    const struct recommender *model = job->placement->model;
    int64_t width = recommender_row_width(model);
    for (int p = 0; p < result->piece_count; p++) {
        const struct table_run_piece *run = &result->pieces[p];
        const struct table_piece *piece = &job->placement->pieces[run->piece];
        int64_t before = 0;
        for (int t = 0; t < piece->table; t++)
            before += model->tables[t].row_count;
        for (int64_t r = 0; r < piece->row_count; r++) {
            int64_t at = (before + piece->first_row + r) * width + piece->first_column;
            for (int64_t c = 0; c < piece->column_count; c++) {
                job->left->tables[at + c] = run->weights[r * piece->column_count + c];
                if (job->workload.optimizer == TABLE_ADAGRAD)
                    job->left->states[at + c] = run->state[r * piece->column_count + c];
                if (job->workload.optimizer == TABLE_ROWWISE)
                    job->left->states[at + c] = run->state[r];
            }
        }
    }
}

static bool run_rank(const struct transport *transport, struct communicator *communicator, int rank,
                     void *context)
{
    const struct job *job = context;
    struct arena arena = {0};
    const struct table_run_request request = {.placement = job->placement,
                                              .workload = &job->workload,
                                              .transport = transport,
                                              .communicator = communicator,
                                              .rank = rank,
                                              .step_count = STEPS,
                                              .seed = 7,
                                              .learning_rate = 0.05};
    struct table_run_result result;
    RANK_OK(table_run(&arena, &request, &result));
    leave_tables(job, &result);
    job->left->received[rank] = (struct table_traffic){
        result.received[TABLE_TASK_IDS] / STEPS, result.received[TABLE_TASK_SUMS] / STEPS,
        result.received[TABLE_TASK_GRADIENTS] / STEPS, result.received[TABLE_TASK_NORMS] / STEPS};
    if (rank == 0) {
        job->left->dense_count = result.dense_count;
        memcpy(job->left->dense, result.dense, (size_t)result.dense_count * sizeof(double));
        memcpy(job->left->loss, result.loss, sizeof job->left->loss);
    }
    arena_free(&arena);
    return true;
}

static struct left *run(const struct table_placement *placement, enum table_optimizer optimizer)
{
    struct left *left =
        mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(left != MAP_FAILED);
    struct job job = {placement, {BATCH, PRECISION_FP32, optimizer, CACHE_STATIC}, left};
    struct backend backend = rank_backend(8, true);
    struct rank_job ranks = {.rank_count = placement->rank_count,
                             .request = {.backend = &backend},
                             .open = communicator_host,
                             .body = run_rank,
                             .context = &job};
    assert_true(rank_job_run(&ranks));
    return left;
}

static double far(const double *a, const double *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

static void check_received(const struct table_placement *placement,
                           const struct table_workload *workload, const struct left *left)
{
    for (int rank = 0; rank < placement->rank_count; rank++) {
        const struct table_traffic wanted = placement_traffic(placement, workload, rank);
        const struct table_traffic *found = &left->received[rank];
        assert_true(found->sums == wanted.sums);
        assert_true(found->gradients == wanted.gradients);
        bool is_cut_by_rows = false;
        for (int i = 0; i < placement->piece_count; i++)
            is_cut_by_rows |= placement->pieces[i].rank == rank &&
                              piece_row_share(placement->model, &placement->pieces[i]) < 1;
        if (!is_cut_by_rows) assert_true(found->ids == wanted.ids);
        assert_int_equal(found->norms > 0, wanted.norms > 0);
        if (wanted.norms > 0) assert_true(fabs(found->norms / wanted.norms - 1) < 0.35);
    }
}

static void any_placement_trains_as_one_rank_does(void **state)
{
    static const char *const INTERACTIONS[] = {"{\"kind\": \"dot\"}", "{\"kind\": \"cat\"}",
                                               "{\"kind\": \"dcn\", \"layers\": 2, \"rank\": 3}"};
    struct draw draw = draw_start("tables", 31);
    for (int trial = 0; trial < 12; trial++) {
        const struct recommender *model =
            model_of(*state, INTERACTIONS[trial % 3], draw_int(&draw, 0, 1) == 1);
        enum table_optimizer optimizer = (enum table_optimizer)(trial / 3 % TABLE_OPTIMIZER_COUNT);
        int ranks = draw_int(&draw, 2, 4);
        struct table_placement *one = place(*state, &draw, model, 1);
        struct table_placement *many = place(*state, &draw, model, ranks);
        struct left *alone = run(one, optimizer), *together = run(many, optimizer);
        int64_t numbers = recommender_table_parameters(model);
        assert_true(numbers < NUMBERS_MAX);
        assert_int_equal(alone->dense_count, together->dense_count);
        assert_true(far(alone->tables, together->tables, numbers) < 1e-12);
        assert_true(far(alone->states, together->states, numbers) < 1e-12);
        assert_true(far(alone->dense, together->dense, alone->dense_count) < 1e-12);
        assert_true(far(alone->loss, together->loss, STEPS) < 1e-12);
        assert_true(alone->loss[0] > 0.3 && alone->loss[0] < 3);
        const struct table_workload workload = {BATCH, PRECISION_FP32, optimizer, CACHE_STATIC};
        check_received(many, &workload, together);
        munmap(alone, sizeof *alone);
        munmap(together, sizeof *together);
    }
}

static double loss_of(struct towers *towers)
{
    towers_bottom(towers);
    return towers_top(towers, towers->samples);
}

// Gradients are differences of losses.
static void gradients_are_slopes(void **state)
{
    static const char *const INTERACTIONS[] = {"{\"kind\": \"dot\"}", "{\"kind\": \"cat\"}",
                                               "{\"kind\": \"dcn\", \"layers\": 2, \"rank\": 3}"};
    const double step = 1e-6;
    for (int kind = 0; kind < 3; kind++) {
        const struct recommender *model = model_of(*state, INTERACTIONS[kind], true);
        const struct table_data data = table_data_make(*state, model, 3);
        struct towers towers = towers_make(*state, model, 5, &data);
        int64_t width = recommender_row_width(model), sums = 5 * model->table_count * width;
        for (int64_t i = 0; i < 5 * model->dense_features; i++)
            towers.features[i] = table_data_feature(&data, 0, 0, i);
        for (int64_t i = 0; i < sums; i++)
            towers.sums[i] = table_data_feature(&data, 1, 0, i);
        for (int64_t i = 0; i < 5; i++)
            towers.labels[i] = (double)(i % 2);
        loss_of(&towers);
        towers_top_back(&towers, 5);
        towers_bottom_back(&towers);
        double *slopes = ARENA_NEW(*state, double, towers.parameter_count);
        double *sum_slopes = ARENA_NEW(*state, double, sums);
        memcpy(slopes, towers.gradients, (size_t)towers.parameter_count * sizeof *slopes);
        memcpy(sum_slopes, towers.d_sums, (size_t)sums * sizeof *slopes);
        for (int64_t i = 0; i < towers.parameter_count + sums; i++) {
            bool is_sum = i >= towers.parameter_count;
            double *at = is_sum ? &towers.sums[i - towers.parameter_count] : &towers.parameters[i];
            double kept = *at, slope = is_sum ? sum_slopes[i - towers.parameter_count] : slopes[i];
            *at = kept + step;
            double up = loss_of(&towers);
            *at = kept - step;
            double down = loss_of(&towers);
            *at = kept;
            assert_true(fabs((up - down) / (2 * step) - slope) < 1e-7);
        }
    }
}

// s = 0 + mean of (0.3^2, 0.4^2) = 0.125: both weights go by 0.1 / sqrt(0.125) of their gradient.
static void a_row_steps_as_its_optimizer_says(void **state)
{
    (void)state;
    const double gradient[2] = {0.3, 0.4};
    double weights[2] = {1, 1}, row_state[2] = {0};
    struct row_update update = {TABLE_ROWWISE, 0.1, 2};
    row_apply(&update, weights, row_state, gradient, 0.125);
    assert_true(fabs(weights[1] - (1 - 0.04 / sqrt(0.125))) < 1e-8);
    assert_true(row_state[0] == 0.125 && row_state[1] == 0);
    update.optimizer = TABLE_ADAGRAD;
    double each[2] = {0}, moved[2] = {1, 1};
    row_apply(&update, moved, each, gradient, 0);
    assert_true(fabs(moved[0] - 0.9) < 1e-8 && fabs(moved[1] - 0.9) < 1e-8);
    update.optimizer = TABLE_SGD;
    row_apply(&update, moved, each, gradient, 0);
    assert_true(fabs(moved[0] - 0.87) < 1e-8);
}

static void ids_follow_their_law_whatever_the_rows(void **state)
{
    const struct recommender *model = model_of(*state, "{\"kind\": \"dot\"}", false);
    const struct table_data data = table_data_make(*state, model, 9);
    int64_t count[7] = {0}, most = 0, sum = 0;
    for (int64_t s = 0; s < 4000; s++) {
        int64_t id = table_data_id(&data, 0, s, 1, 0);
        assert_in_range(id, 0, 6);
        count[id]++;
    }
    for (int i = 0; i < 7; i++) {
        most = count[i] > most ? count[i] : most;
        sum += count[i] > 0;
    }
    assert_int_equal(sum, 7);
    // 1 / H(7) = 0.3857
    assert_true(fabs((double)most / 4000 - 0.3857) < 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_placement_trains_as_one_rank_does),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(a_row_steps_as_its_optimizer_says),
        cmocka_unit_test(ids_follow_their_law_whatever_the_rows),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
