#include "plan/tables/placement.h"
#include "tests/support/test.h"

#include <math.h>

// Eight tables, 16 wide, 3 ids a bag, 32 samples on 4 ranks: small enough to count by hand.
static struct recommender *model_of(struct arena *arena)
{
    static const char TEXT[] =
        "{\"model_type\": \"dlrm\", \"dense_features\": 4, \"embedding_dim\": 16,"
        " \"tables\": [{\"count\": 8, \"rows\": 40, \"ids\": 3}], \"bottom_mlp\": [16],"
        " \"interaction\": {\"kind\": \"dot\"}, \"top_mlp\": [8, 1], \"zipf_exponent\": 1,"
        " \"zipf_source\": \"drawn so\"}";
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct err err = {0};
    assert_true(json_parse(arena, "m.json", TEXT, strlen(TEXT), document, &err));
    struct json root = json_root(document);
    struct recommender *model = recommender_read(arena, "m", &root, &err);
    assert_string_equal(err.text, "");
    return model;
}

enum cut { CUT_TABLE, CUT_ROWS, CUT_COLUMNS, CUT_NONE };
enum { RANKS = 4, TABLES = 8, ROWS = 40, DIM = 16 };
static const struct table_workload WORKLOAD = {32, PRECISION_FP32, TABLE_ROWWISE, CACHE_STATIC};

static struct table_placement *place(struct arena *arena, enum cut cut)
{
    struct table_placement *placement = ARENA_NEW(arena, struct table_placement, 1);
    *placement = (struct table_placement){model_of(arena), RANKS,
                                          ARENA_NEW(arena, struct table_piece, TABLES * RANKS), 0};
    for (int table = 0; table < TABLES; table++) {
        int parts = cut == CUT_ROWS || cut == CUT_COLUMNS ? RANKS : 1;
        for (int part = 0; part < parts; part++) {
            struct table_piece *piece = &placement->pieces[placement->piece_count++];
            *piece = (struct table_piece){.table = table,
                                          .row_count = ROWS,
                                          .column_count = DIM,
                                          .rank = cut == CUT_NONE    ? PIECE_EVERY_RANK
                                                  : cut == CUT_TABLE ? table % RANKS
                                                                     : part};
            if (cut == CUT_ROWS) piece->first_row = part * (piece->row_count = ROWS / RANKS);
            if (cut == CUT_COLUMNS)
                piece->first_column = part * (piece->column_count = DIM / RANKS);
        }
    }
    struct err err = {0};
    assert_true(placement_check(placement, &WORKLOAD, &err));
    return placement;
}

// b = 8 samples a rank. By table (2 a rank): ids (32 - 8) 3 2, sums 8 (8 - 2) 16, gradients
// 24 2 16. By rows: ids 24 8 3 / 4, sums and gradients 3 8 8 16. By columns: ids of all tables,
// sums 8 8 (16 - 4).
static void what_a_rank_receives_is_counted_by_hand(void **state)
{
    const double wanted[][3] = {
        [CUT_TABLE] = {144, 768, 768},
        [CUT_ROWS] = {144, 3072, 3072},
        [CUT_COLUMNS] = {576, 768, 768},
        [CUT_NONE] = {0, 0, 0},
    };
    for (int cut = CUT_TABLE; cut <= CUT_NONE; cut++) {
        for (int rank = 0; rank < RANKS; rank++) {
            struct table_traffic found =
                placement_traffic(place(*state, (enum cut)cut), &WORKLOAD, rank);
            assert_true(fabs(found.ids - wanted[cut][0]) < 1e-9);
            assert_true(fabs(found.sums - wanted[cut][1]) < 1e-9);
            assert_true(fabs(found.gradients - wanted[cut][2]) < 1e-9);
            assert_int_equal(found.norms > 0, cut == CUT_COLUMNS);
        }
    }
}

// Of every table each other rank sends one number for each different row of 96 look-ups.
static void columns_exchange_a_number_a_different_row(void **state)
{
    double sum = 0, unique = 0;
    for (int k = 1; k <= ROWS; k++)
        sum += 1.0 / k;
    for (int k = 1; k <= ROWS; k++)
        unique += 1 - pow(1 - 1.0 / k / sum, 96);
    struct table_traffic found = placement_traffic(place(*state, CUT_COLUMNS), &WORKLOAD, 1);
    assert_true(fabs(found.norms / (3 * TABLES * unique) - 1) < 1e-4);
    struct table_workload sgd = WORKLOAD;
    sgd.optimizer = TABLE_SGD;
    assert_true(placement_traffic(place(*state, CUT_COLUMNS), &sgd, 1).norms == 0);
}

static void rows_take_what_their_optimizer_keeps(void **state)
{
    (void)state;
    assert_int_equal(table_row_bytes(TABLE_SGD, 128), 512);
    assert_int_equal(table_row_bytes(TABLE_ADAGRAD, 128), 1024);
    assert_int_equal(table_row_bytes(TABLE_ROWWISE, 128), 516);
    const struct table_piece piece = {.row_count = 100,
                                      .column_count = 128,
                                      .tier = TIER_NVME,
                                      .cached_rows = 5,
                                      .host_rows = 20};
    assert_int_equal(piece_bytes(&piece, TABLE_SGD, TIER_DEVICE), 2560);
    assert_int_equal(piece_bytes(&piece, TABLE_SGD, TIER_HOST), 10240);
    assert_int_equal(piece_bytes(&piece, TABLE_SGD, TIER_NVME), 51200);
}

static void dense_gradients_hold_tables_of_every_rank(void **state)
{
    struct table_placement *placement = place(*state, CUT_NONE);
    int64_t towers = recommender_dense_parameters(placement->model);
    assert_int_equal(placement_dense_elements(placement), towers + 8 * 40 * 16);
    assert_int_equal(placement_dense_elements(place(*state, CUT_ROWS)), towers);
}

static void wrong_placements_are_told_by_their_piece(void **state)
{
    struct table_placement *placement = place(*state, CUT_COLUMNS);
    struct table_piece *piece = &placement->pieces[5];
    const struct table_piece kept = *piece;
    struct {
        struct table_piece piece;
        const char *says;
    } cases[7];
    for (int i = 0; i < 7; i++)
        cases[i].piece = kept;
    cases[0].piece.rank = 4;
    cases[0].says = "there is no such rank";
    cases[1].piece.first_column++;
    cases[1].says = "its columns do not follow those before it";
    cases[2].piece.row_count--;
    cases[2].says = "its columns do not follow those before it";
    cases[3].piece.rank = PIECE_EVERY_RANK;
    cases[3].says = "what is on every rank is a whole table on the device";
    cases[4].piece.cached_rows = 1;
    cases[4].says = "rows on the device need no copy there";
    cases[5].piece.table = 2;
    cases[5].says = "its columns do not follow those before it";
    cases[6].piece.host_rows = 1;
    cases[6].says = "only rows on NVMe have copies on the host";
    for (int i = 0; i < 7; i++) {
        struct err err = {0};
        *piece = cases[i].piece;
        assert_false(placement_check(placement, &WORKLOAD, &err));
        assert_non_null(strstr(err.text, "placement[5], t"));
        assert_non_null(strstr(err.text, cases[i].says));
    }
    *piece = kept;
    struct err err = {0};
    placement->piece_count--;
    assert_false(placement_check(placement, &WORKLOAD, &err));
    struct table_workload odd = WORKLOAD;
    odd.global_batch = 33;
    err = (struct err){0};
    placement->piece_count++;
    assert_false(placement_check(placement, &odd, &err));
    assert_string_equal(err.text, "--global-batch: 4 ranks do not divide 33 samples");
}

static void what_is_written_is_read_back(void **state)
{
    struct table_placement *placement = place(*state, CUT_ROWS);
    placement->pieces[3].tier = TIER_NVME;
    placement->pieces[3].cached_rows = 2;
    placement->pieces[3].host_rows = 4;
    struct json_writer writer = {.arena = *state};
    json_open(&writer, NULL, '{');
    placement_write(&writer, placement);
    table_workload_write(&writer, "workload", &WORKLOAD);
    json_close(&writer, '}');
    struct json_document document = {0};
    struct err err = {0};
    assert_true(json_parse(*state, "p", writer.text, writer.length, &document, &err));
    struct json root = json_root(&document), list = json_get(&root, "placement", &err);
    struct table_placement *read = placement_read(*state, &list, placement->model, RANKS, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(read->piece_count, placement->piece_count);
    assert_memory_equal(read->pieces, placement->pieces,
                        (size_t)read->piece_count * sizeof *read->pieces);
    struct json object = json_get(&root, "workload", &err);
    struct table_workload workload = {0};
    assert_true(table_workload_read(&object, &workload, &err));
    assert_memory_equal(&workload, &WORKLOAD, sizeof workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_receives_is_counted_by_hand),
        cmocka_unit_test(columns_exchange_a_number_a_different_row),
        cmocka_unit_test(rows_take_what_their_optimizer_keeps),
        cmocka_unit_test(dense_gradients_hold_tables_of_every_rank),
        cmocka_unit_test(wrong_placements_are_told_by_their_piece),
        cmocka_unit_test(what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
