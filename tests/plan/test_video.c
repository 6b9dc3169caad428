#include "tests/support/test.h"

#include "models/import.h"
#include "plan/lower/lower.h"
#include "plan/program.h"
#include "tests/support/tiny_models.h"

#include <math.h>
#include <stdlib.h>

// Models of videos: their parameters, their work, and what ranks exchange of a pair of blocks, one
// over places and one over frames, by hand: N tokens, C wide, P ranks.

enum { FRAMES = 120, PLACES = 3600, TEXT = 300, C = 1152, LAYERS = 56 };
static const double N = (double)FRAMES * PLACES;

static struct graph *video(struct arena *arena, const char *type, int hidden, int heads,
                           bool normed)
{
    const char *config = arena_print(
        arena,
        "{\"model_type\": \"%s\", \"depth\": 28, \"hidden_size\": %d, \"num_heads\": "
        "%d, \"input_size\": [120, 90, 160], \"model_max_length\": 300, \"qk_norm\": %s}",
        type, hidden, heads, normed ? "true" : "false");
    struct import_options options = {.flash = true};
    return tiny_graph(arena, config, &options);
}

// The releases count 759.6 M, 1.208 B and 3.18 B without the stored caption for none.
static void parameters_are_those_of_the_releases(void **state)
{
    assert_int_equal(video(*state, "STDiT", C, 16, false)->parameter_count, 759620768);
    assert_int_equal(video(*state, "STDiT3", C, 16, true)->parameter_count, 1207643936);
    assert_int_equal(video(*state, "STDiT3", 1872, 26, true)->parameter_count, 3182211536);
}

static struct graph *picture(struct arena *arena)
{
    struct import_options options = {.flash = true};
    return tiny_graph(arena,
                      "{\"_class_name\": \"PixArtTransformer2DModel\", \"num_layers\": 28, "
                      "\"num_attention_heads\": 16, \"attention_head_dim\": 72, "
                      "\"caption_channels\": 4096, \"sample_size\": 64}",
                      &options);
}

// A picture of 32 x 32 places: the count is that of diffusers' class. A block has 4 C^2 in
// attention, 2 and 2 in cross attention (of places and of text), 8 in the MLP.
static void a_picture_has_blocks_over_places_alone(void **state)
{
    enum { PICTURE = 1024, CAPTION = 120, BLOCKS = 28 };
    const struct graph *graph = picture(*state);
    assert_int_equal(graph->parameter_count, 610856096);
    assert_int_equal(graph->layer_count, BLOCKS);
    double square = (double)C * C, tokens = PICTURE, text = CAPTION;
    double block = 2 * square * (14 * tokens + 2 * text) + 4 * tokens * (tokens + text) * C;
    double vectors = 2 * (256.0 * C + square + 6 * square);
    double ends = vectors + 2 * text * (4096.0 * C + square) + 2 * tokens * C * (16 + 32);
    double found = graph_model_flop(graph, PICTURE);
    assert_true(fabs(found - 3 * (BLOCKS * block + ends)) < 1e-12 * found);
}

// FLUX.1-dev: 64 x 64 places and 512 tokens of text, C wide. A block of two streams has 4 C^2 in
// attention and 8 in the MLP of each row, which are both streams', and 12 for each stream's vector;
// one of one stream 3 C^2 for queries, keys and values, 4 for the MLP and 5 behind both, and 3 for
// its vector. The count is that of diffusers' class.
enum { FLUX_PLACES = 64 * 64, FLUX_TEXT = 512, FLUX = 3072, FLUX_DOUBLE = 19, FLUX_SINGLE = 38 };

static struct graph *shipped(struct arena *arena, const char *name)
{
    struct err err = {0};
    const struct model_config *config = model_load(arena, name, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

static void text_and_places_are_one_sequence(void **state)
{
    const struct graph *graph = shipped(*state, "flux.1-dev");
    assert_int_equal(graph->parameter_count, 11901408320);
    assert_int_equal(graph->layer_count, FLUX_DOUBLE + FLUX_SINGLE);
    double width = FLUX, square = width * width, text = FLUX_TEXT, places = FLUX_PLACES;
    double joint = text + places, core = 4 * joint * joint * width;
    double two = 2 * square * (12 * joint + 2 * 6) + core;
    double one = 2 * square * (12 * joint + 3) + core;
    double vectors = 2 * (2 * (256 * width + square) + 768 * width + square) + 2 * 2 * square;
    double ends = vectors + 2 * text * 4096 * width + 2 * places * width * (64 + 64);
    double found = graph_model_flop(graph, FLUX_PLACES);
    assert_true(fabs(found - 3 * (FLUX_DOUBLE * two + FLUX_SINGLE * one + ends)) < 1e-12 * found);
}

// Parameters are those that diffusers counts, and the work of a sample, forward, what PyTorch
// counts of its classes: torch.utils.flop_counter of convolutions, products and attention.
static void a_unet_has_the_work_that_pytorch_counts(void **state)
{
    static const struct {
        const char *name;
        int64_t parameters;
        int layers;
        double flop;
    } UNETS[] = {{"stable-diffusion-v1-5", 859520964, 27, 803273441280},
                 {"stable-diffusion-xl", 2567463684, 20, 6761236398080}};
    for (size_t i = 0; i < sizeof UNETS / sizeof *UNETS; i++) {
        const struct graph *graph = shipped(*state, UNETS[i].name);
        assert_int_equal(graph->parameter_count, UNETS[i].parameters);
        assert_int_equal(graph->layer_count, UNETS[i].layers);
        double found = graph_model_flop(graph, 1);
        if (fabs(found - 3 * UNETS[i].flop) > 1e-12 * found)
            fail_msg("%s: %.17g, not %.17g", UNETS[i].name, found / 3, UNETS[i].flop);
    }
    double flux = graph_model_flop(shipped(*state, "flux.1-dev"), FLUX_PLACES);
    assert_true(fabs(flux - 3 * 74384653418496) < 1e-12 * flux);
}

// A multiplication and an addition for each weight and row: of a block 4 C^2 in attention, 2 and 2
// in cross attention (of tokens and of text), 8 in the MLP. Scores and context: 4 C for each pair.
static void work_is_that_of_all_products(void **state)
{
    double square = (double)C * C, text = TEXT;
    double dense = 2 * square * (14 * N + 2 * text), cross = 4 * N * text * C;
    double space = 4 * FRAMES * (double)PLACES * PLACES * C;
    double time = 4 * PLACES * (double)FRAMES * FRAMES * C;
    double vectors = 2 * (2 * 256.0 * C + 2 * square + 6 * square);
    double ends = vectors + 2 * text * (4096.0 * C + square) + 2 * N * C * (16 + 32);
    double forward = LAYERS * (dense + cross) + LAYERS / 2 * (space + time) + ends;
    double found = graph_model_flop(video(*state, "STDiT3", C, 16, true), (int64_t)N);
    assert_true(fabs(found - 3 * forward) < 1e-12 * found);
    assert_true(fabs(forward / 1.14e15 - 1) < 0.01);
}

// What a rank hands over in forward of a kind of block, in bytes of bf16; `count` collectives of
// it.
static double exchanged(struct arena *arena, const struct graph *graph, int position,
                        enum cp_kind kind, int ranks, enum collective collective, int *count)
{
    struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                .vpp = 1,
                                .micro_batch = 1,
                                .cp_kind = kind,
                                .recompute_layers = -1};
    parallel.degree[AXIS_CP] = ranks;
    struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
    struct lower_request request = {.block = &graph->blocks[graph->sequence[position]],
                                    .mesh = &mesh,
                                    .parallel = &parallel,
                                    .seq_len = (int64_t)N,
                                    .precision = PRECISION_BF16};
    const struct block_program *block = lower_block(arena, &request);
    double bytes = 0;
    for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++) {
        if (block->instrs[i].collective == COLLECTIVE_NONE) continue;
        assert_int_equal(block->instrs[i].collective, collective);
        bytes += (double)block->instrs[i].bytes;
        (*count)++;
    }
    return bytes;
}

static void check_pair(void **state, enum cp_kind kind, int ranks, enum collective collective,
                       int count, double whole_bytes)
{
    const struct graph *graph = video(*state, "STDiT3", C, 16, true);
    int found = 0;
    double bytes = exchanged(*state, graph, 1, kind, ranks, collective, &found);
    bytes += exchanged(*state, graph, 2, kind, ranks, collective, &found);
    assert_int_equal(found, count);
    assert_true(bytes == whole_bytes);
}

// Dynamic sequence parallelism (Zhao et al. 2024): two all-to-alls of the hidden states where
// Ulysses has four, of queries, keys, values and result, in the block over places alone.
static void a_pair_of_blocks_exchanges_what_is_computed_by_hand(void **state)
{
    double whole = 2 * N * C;
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        check_pair(state, CP_AXIAL, ranks, COLLECTIVE_ALL_TO_ALL, 2, 2 * whole / ranks);
        check_pair(state, CP_ULYSSES, ranks, COLLECTIVE_ALL_TO_ALL, 4, 4 * whole / ranks);
        check_pair(state, CP_ALL_GATHER, ranks, COLLECTIVE_ALL_GATHER, 2, 2 * whole);
    }
    // Counts that are no powers of two, and no divisors of the heads.
    check_pair(state, CP_AXIAL, 3, COLLECTIVE_ALL_TO_ALL, 2, 2 * whole / 3);
    check_pair(state, CP_AXIAL, 20, COLLECTIVE_ALL_TO_ALL, 2, 2 * whole / 20);
}

// Of ranks of tp each makes a part of what heads and MLP say: forward the whole of it is added up
// twice for each stream of a block of two, which are N rows together, and once in a block of one;
// backward what is said of queries, keys, values and the MLP's rows, which a block of one has read
// from the same place, and with each of these the sum of its rows that is the shift's gradient.
static void blocks_of_text_and_places_add_up_what_is_computed_by_hand(void **state)
{
    const struct graph *graph = shipped(*state, "flux.1-dev");
    double rows = 2.0 * (FLUX_TEXT + FLUX_PLACES) * FLUX;
    for (int position = 1; position < graph->sequence_count - 1; position++) {
        bool is_one = position > FLUX_DOUBLE;
        struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                    .vpp = 1,
                                    .micro_batch = 1,
                                    .recompute_layers = -1};
        parallel.degree[AXIS_TP] = 8;
        struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
        struct lower_request request = {.block = &graph->blocks[graph->sequence[position]],
                                        .mesh = &mesh,
                                        .parallel = &parallel,
                                        .seq_len = FLUX_PLACES,
                                        .precision = PRECISION_BF16};
        const struct block_program *block = lower_block(*state, &request);
        double bytes[PHASE_COUNT] = {0};
        int count[PHASE_COUNT] = {0};
        for (enum phase phase = 0; phase < PHASE_COUNT; phase++) {
            for (int i = block->phase_first[phase]; i < block->phase_first[phase + 1]; i++) {
                if (block->instrs[i].collective == COLLECTIVE_NONE) continue;
                assert_int_equal(block->instrs[i].collective, COLLECTIVE_ALL_REDUCE);
                bytes[phase] += (double)block->instrs[i].bytes;
                count[phase]++;
            }
        }
        assert_int_equal(count[PHASE_FORWARD], is_one ? 1 : 4);
        assert_int_equal(count[PHASE_BACKWARD], is_one ? 2 : 8);
        assert_true(bytes[PHASE_FORWARD] == (is_one ? rows : 2 * rows));
        double shift = 2.0 * FLUX;
        assert_true(bytes[PHASE_BACKWARD] == (is_one ? rows + shift : 2 * rows + 4 * shift));
        assert_int_equal(count[PHASE_WEIGHT], 0);
    }
}

// One block with both: to frames for the attention over places, and back.
static void a_block_of_both_turns_twice(void **state)
{
    const struct graph *graph = video(*state, "STDiT", C, 16, false);
    int count = 0;
    double bytes = exchanged(*state, graph, 2, CP_AXIAL, 4, COLLECTIVE_ALL_TO_ALL, &count);
    assert_int_equal(count, 2);
    assert_true(bytes == 2 * 2 * N * C / 4);
}

// Of the Evoformer: s sequences, r residues.
enum { S = 128, R = 256 };

static struct graph *protein(struct arena *arena)
{
    struct err err = {0};
    const struct model_config *config = model_load(arena, "evoformer-48", NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &(struct import_options){.flash = true});
}

// Row attention 329,984, column attention 328,704, transitions 526,080 and 131,968, outer product
// mean 148,160, triangles 2 x 99,584 and 2 x 82,944. Beside the blocks the embedding (5 matrices
// with biases) and two heads.
static void a_block_of_the_evoformer_has_the_parameters_of_the_paper(void **state)
{
    int64_t block = 329984 + 328704 + 526080 + 131968 + 148160 + 2 * 99584 + 2 * 82944;
    int64_t embedding = 23 * (128 + 128 + 256) + 50 * 256 + 66 * 128;
    int64_t heads = 257 * 23 + 129 * 64;
    assert_int_equal(block, 1829952);
    assert_int_equal(protein(*state)->parameter_count, 48 * block + embedding + heads);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Sizes in elements of bf16 of the collectives of a phase, sorted: what a rank hands to
// all-to-alls, what all-gathers make and reduce-scatters begin with. Whatever else there is fails.
static int sizes_of(const struct block_program *block, enum phase phase, enum collective kind,
                    double sizes[32])
{
    int count = 0;
    for (int i = block->phase_first[phase]; i < block->phase_first[phase + 1]; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != kind) continue;
        assert_in_range(count, 0, 31);
        sizes[count++] = (double)instr->bytes / 2;
    }
    qsort(sizes, (size_t)count, sizeof *sizes, compare_numbers);
    return count;
}

static void check_sizes(const struct block_program *block, enum phase phase, enum collective kind,
                        const double *expected, int count)
{
    double sizes[32];
    assert_int_equal(sizes_of(block, phase, kind, sizes), count);
    for (int i = 0; i < count; i++)
        assert_true(sizes[i] == expected[i]);
}

// Dynamic axial parallelism (Cheng et al. 2022): six all-to-alls, two of M and four of Z, and six
// all-gathers: the biases of pairs, one factor of the outer product and of each triangle product.
// Backward turns as often, and M once more for the outer product, which reads what is kept as
// blocks hand it on; it scatters what was gathered.
static void a_block_of_the_evoformer_has_twelve_collectives_forward(void **state)
{
    const struct graph *graph = protein(*state);
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                    .vpp = 1,
                                    .micro_batch = 1,
                                    .cp_kind = CP_AXIAL,
                                    .recompute_layers = -1};
        parallel.degree[AXIS_CP] = ranks;
        struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
        struct lower_request request = {.block = &graph->blocks[1],
                                        .mesh = &mesh,
                                        .parallel = &parallel,
                                        .seq_len = S * R,
                                        .precision = PRECISION_BF16};
        const struct block_program *block = lower_block(*state, &request);
        double m = 256.0 * S * R / ranks, z = 128.0 * R * R / ranks, pair = 1.0 * R * R;
        double turns[] = {m, m, z, z, z, z}, back[] = {m, m, m, z, z, z, z};
        qsort(back, 7, sizeof *back, compare_numbers);
        double gathered[] = {4 * pair, 4 * pair, 8 * pair, 32.0 * S * R, 128 * pair, 128 * pair};
        int all = 0;
        for (int i = 0; i < block->phase_first[PHASE_BACKWARD]; i++)
            all += block->instrs[i].collective != COLLECTIVE_NONE;
        assert_int_equal(all, 12);
        check_sizes(block, PHASE_FORWARD, COLLECTIVE_ALL_TO_ALL, turns, 6);
        check_sizes(block, PHASE_BACKWARD, COLLECTIVE_ALL_TO_ALL, back, 7);
        qsort(gathered, 6, sizeof *gathered, compare_numbers);
        check_sizes(block, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, gathered, 6);
        check_sizes(block, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, gathered, 6);
    }
}

static const struct {
    const char *model;
    int64_t seq_len;
    enum cp_kind kind;
    int tp, cp, zero;
    bool sp;
    const char *error;
} REFUSED[] = {
    {"video", 432000, CP_AXIAL, 1, 8, 0, false, ""},
    {"video", 432000, CP_RING, 1, 16, 0, false, ""},
    {"video", 4096, CP_AXIAL, 1, 8, 0, false,
     "--seq-len 4096: a video of video is 120 frames of 3600 places, 432000 tokens; leave it out, "
     "or "
     "give its config another input_size"},
    {"video", 432000, CP_AXIAL, 1, 16, 0, false,
     "--cp 16: 120 frames of 3600 places cannot be split by 16 in turn; the nearest that divide "
     "are "
     "15 and 20"},
    {"video", 432000, CP_ALL_GATHER, 1, 32, 0, false,
     "--cp 32: 120 frames of 3600 places cannot be split by 32, which only splits places; the "
     "nearest that divide are 30 and 36"},
    {"video", 432000, CP_AXIAL, 1, 8, 1, false,
     "--zero 1: of video with --cp above 1 ranks of cp have the same gradient of what conditions a "
     "video, which shards over them would count twice; only 0 works"},
    {"video", 432000, CP_AXIAL, 2, 4, 0, true,
     "--sp on with --cp-kind axial: of places cp has the outer parts, which do not turn to frames "
     "by "
     "themselves; --sp off works"},
    {"flux.1-dev", 4096, CP_RING, 2, 1, 1, true, ""},
    {"flux.1-dev", 4096, CP_RING, 1, 2, 0, false,
     "--cp 2: text and places of flux.1-dev are one sequence in its layers, which cp does not "
     "split; only 1 works"},
    {"flux.1-dev", 4608, CP_RING, 1, 1, 0, false,
     "--seq-len 4608: a video of flux.1-dev is 1 frames of 4096 places, 4096 tokens; leave it out, "
     "or give its config another input_size"},
    {"llama-7b", 4096, CP_AXIAL, 1, 8, 0, false,
     "--cp-kind axial: llama-7b has one sequence dim; axial parallelism splits two of them in "
     "turn"},
};

static void what_does_not_go_together_is_refused(void **state)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(*state, "dgx-h100", &err);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        bool is_video = strcmp(REFUSED[i].model, "video") == 0;
        struct model_config *config =
            model_load(*state, is_video ? "stdit3-xl-2-720p" : REFUSED[i].model, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        struct graph *graph = model_graph(*state, config, &(struct import_options){.flash = true});
        graph->name = REFUSED[i].model;
        int ranks = REFUSED[i].tp * REFUSED[i].cp;
        cluster->rank_count = ranks;
        struct workload workload = {.seq_len = REFUSED[i].seq_len, .global_batch = 8};
        struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                    .vpp = 1,
                                    .micro_batch = 1,
                                    .cp_kind = REFUSED[i].kind,
                                    .zero = REFUSED[i].zero,
                                    .sp = REFUSED[i].sp,
                                    .recompute_layers = -1,
                                    .schedule = SCHEDULE_1F1B};
        parallel.degree[AXIS_TP] = REFUSED[i].tp;
        parallel.degree[AXIS_CP] = REFUSED[i].cp;
        struct err found = {0};
        bool works = program_check(graph, cluster, &workload, &parallel, &found);
        assert_string_equal(found.text, REFUSED[i].error);
        assert_true(works == (found.kind == ERR_NONE));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_has_blocks_over_places_alone),
        cmocka_unit_test(text_and_places_are_one_sequence),
        cmocka_unit_test(a_unet_has_the_work_that_pytorch_counts),
        cmocka_unit_test(blocks_of_text_and_places_add_up_what_is_computed_by_hand),
        cmocka_unit_test(parameters_are_those_of_the_releases),
        cmocka_unit_test(work_is_that_of_all_products),
        cmocka_unit_test(a_pair_of_blocks_exchanges_what_is_computed_by_hand),
        cmocka_unit_test(a_block_of_both_turns_twice),
        cmocka_unit_test(a_block_of_the_evoformer_has_the_parameters_of_the_paper),
        cmocka_unit_test(a_block_of_the_evoformer_has_twelve_collectives_forward),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
