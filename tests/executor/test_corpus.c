#include "executor/data/document_length.h"
#include "executor/data/feed.h"
#include "executor/run.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

// Files of tokens in all formats, what is wrong with them in one line, and which sample comes when.

static char folder[] = "/tmp/meshwright-corpus-XXXXXX";

static const char *path_of(struct arena *arena, const char *name)
{
    return arena_print(arena, "%s/%s", folder, name);
}

static const char *write_bytes(struct arena *arena, const char *name, const void *bytes,
                               size_t count)
{
    const char *path = path_of(arena, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    return path;
}

// Ids 0, 1, 2, ... below `vocab`, over and over; documents of ten.
static const char *write_tokens(struct arena *arena, const char *name, int64_t count, int vocab)
{
    struct err err = {0};
    const char *path = path_of(arena, name);
    struct tokens_writer *writer = tokens_writer_open(arena, path, vocab, &err);
    assert_non_null(writer);
    for (int64_t i = 0; i < count; i++) {
        tokens_writer_put(writer, &(int32_t){(int32_t)(i % vocab)}, 1);
        if (i % 10 == 9) tokens_writer_end_document(writer);
    }
    assert_true(tokens_writer_commit(writer, &err));
    return path;
}

static size_t read_all(const char *path, unsigned char *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, room, file);
    fclose(file);
    return count;
}

static void ours_is_read_as_it_was_written(void **state)
{
    enum { COUNT = 100000 };  // four pieces
    static const int VOCABS[] = {97, 70000};
    static int64_t ids[COUNT];
    for (int v = 0; v < 2; v++) {
        const char *path = write_tokens(*state, "own.tokens", COUNT, VOCABS[v]);
        struct tokens tokens;
        struct err err = {0};
        assert_true(tokens_open(*state, path, &tokens, &err));
        assert_int_equal(tokens.id_bytes, v ? 4 : 2);
        assert_int_equal(tokens.count, COUNT);
        assert_int_equal(tokens.vocab, VOCABS[v]);
        assert_int_equal(tokens.document_count, COUNT / 10);
        int64_t first, end = tokens_document(&tokens, 7, &first);
        assert_true(first == 70 && end == 80);
        assert_true(tokens_read(&tokens, 0, COUNT, VOCABS[v], ids, &err));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(ids[i], i % VOCABS[v]);
        assert_false(tokens_read(&tokens, 5, 95, 96, ids, &err) && VOCABS[v] > 100);
        tokens_close(&tokens);
    }
}

static void an_id_over_the_vocabulary_is_named_with_its_place(void **state)
{
    const char *path = write_tokens(*state, "own.tokens", 1000, 500);
    struct tokens tokens;
    struct err err = {0};
    int64_t ids[1000];
    assert_true(tokens_open(*state, path, &tokens, &err));
    assert_false(tokens_read(&tokens, 10, 600, 300, ids, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(err.text, arena_print(*state,
                                              "%s: token 300, at byte 664, is 300: the model's "
                                              "vocabulary has 300",
                                              path));
    tokens_close(&tokens);
}

// Every byte that is turned, and every length that it is cut to, is found.
static void damage_is_found_wherever_it_is(void **state)
{
    enum { COUNT = 40000, ROOM = 200000 };
    static unsigned char bytes[ROOM];
    static int64_t ids[COUNT];
    struct draw draw = draw_start("damages", 1);
    size_t size = read_all(write_tokens(*state, "own.tokens", COUNT, 300), bytes, ROOM);
    for (int n = 0; n < 300; n++) {
        size_t at = (size_t)draw_int(&draw, 0, n < 100 ? 63 : (int)size - 1), left = size;
        bool is_cut = draw_int(&draw, 0, 4) == 0;
        if (is_cut) left = at;
        bytes[at] ^= 0x41;
        const char *path = write_bytes(*state, "bad.tokens", bytes, left);
        bytes[at] ^= 0x41;
        struct tokens tokens;
        struct err err = {0};
        bool is_fine = tokens_open(*state, path, &tokens, &err);
        is_fine = is_fine && tokens_read(&tokens, 0, COUNT, 65536, ids, &err);
        // Nothing is said of what fills the ids up to a multiple of 8.
        if (is_fine) fail_msg("byte %zu of %zu, cut %d: not found", at, size, is_cut);
        assert_int_equal(err.kind, ERR_INPUT);
        tokens_close(&tokens);
    }
}

static void numpy_and_megatron_are_read(void **state)
{
    char header[128] = "\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, "
                       "'shape': (3,), }";
    memset(header + 10 + strlen(header + 10), ' ', sizeof header - 10 - strlen(header + 10));
    unsigned char numpy[134];
    memcpy(numpy, header, sizeof header);
    memcpy(numpy + 128, "\x05\x00\x2c\x01\x07\x00", 6);
    struct tokens tokens;
    struct err err = {0};
    int64_t ids[3];
    const char *path = write_bytes(*state, "a.npy", numpy, sizeof numpy);
    assert_true(tokens_open(*state, path, &tokens, &err));
    assert_int_equal(tokens.count, 3);
    assert_true(tokens_read(&tokens, 0, 3, 301, ids, &err));
    assert_true(ids[0] == 5 && ids[1] == 300 && ids[2] == 7);
    tokens_close(&tokens);
    path = write_bytes(*state, "a.npy", numpy, sizeof numpy - 2);
    assert_false(tokens_open(*state, path, &tokens, &err));
    assert_non_null(strstr(err.text, "found 2 numbers, its header says 3: it is cut off"));
    // A type that breaks off is none, whatever stands behind it.
    memcpy(strstr(header + 10, "u2"), "u\0", 2);
    memcpy(numpy, header, sizeof header);
    err = (struct err){0};
    path = write_bytes(*state, "a.npy", numpy, sizeof numpy);
    assert_false(tokens_open(*state, path, &tokens, &err));
    assert_non_null(strstr(err.text, "found numbers of another kind"));

    // Two sequences, of two ids and of one, of i32; -1 is no id.
    static const unsigned char INDEX[34 + 8 + 16 + 16] = {
        'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0,
        2,   0,   0,   0,   0,   0,   0,   0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8};
    err = (struct err){0};
    write_bytes(*state, "m.idx", INDEX, sizeof INDEX);
    path = write_bytes(*state, "m.bin", (int32_t[]){9, 8, -1}, 12);
    assert_true(tokens_open(*state, path, &tokens, &err));
    assert_true(tokens_read(&tokens, 0, 2, 10, ids, &err) && ids[0] == 9 && ids[1] == 8);
    assert_false(tokens_read(&tokens, 0, 3, 10, ids, &err));
    assert_non_null(strstr(err.text, "m.bin: token 2, at byte 8, is below 0"));
    tokens_close(&tokens);
    err = (struct err){0};
    write_bytes(*state, "m.bin", (int32_t[]){9, 8, 1}, 8);
    assert_false(tokens_open(*state, path, &tokens, &err));
    assert_non_null(strstr(err.text, "m.bin: found 8 bytes, its .idx says 12"));
}

static void an_order_is_a_permutation_of_its_own(void **state)
{
    (void)state;
    struct draw draw = draw_start("orders", 40);
    for (int n = 0; n < 40; n++) {
        int count = draw_int(&draw, 1, 2000), same = 0;
        bool is_seen[2000] = {false};
        uint64_t key = (uint64_t)draw_int(&draw, 0, 1 << 30);
        for (int i = 0; i < count; i++) {
            int64_t at = corpus_shuffled(key, count, i);
            assert_true(at >= 0 && at < count && !is_seen[at]);
            is_seen[at] = true;
            same += at == i;
        }
        assert_true(count < 50 || same < 10);
    }
}

static struct corpus corpus_of(struct arena *arena, const char *const *words, int count,
                               double held_out)
{
    struct corpus corpus;
    struct err err = {0};
    const struct corpus_request request = {.words = words,
                                           .word_count = count,
                                           .held_out_ratio = held_out,
                                           .seq_len = 16,
                                           .ahead = 2,
                                           .vocab = 1 << 16,
                                           .seed = 3,
                                           .document_end = DOCUMENTS_JOINED};
    assert_true(corpus_open(arena, &request, &corpus, &err));
    return corpus;
}

static void every_sample_comes_once_an_epoch_and_none_of_both_parts(void **state)
{
    const char *path = write_tokens(*state, "one.tokens", 5000, 50000);
    struct corpus corpus = corpus_of(*state, &path, 1, 0.1);
    // 4998 ids that have two behind them are 312 samples, 31 of them held out.
    assert_int_equal(corpus.sample_count[CORPUS_HELD_OUT], 31);
    assert_int_equal(corpus.sample_count[CORPUS_TRAIN], 280);
    struct corpus_walk walk = corpus_walk_start(*state, &corpus, CORPUS_TRAIN);
    int seen[281] = {0};
    for (int64_t n = 0; n < 3 * 280; n++) {
        struct corpus_place place = corpus_walk_to(&corpus, &walk, n);
        assert_true(place.first % 16 == 0 && place.first + 18 <= 281 * 16);
        assert_int_equal(place.epoch, n / 280);
        assert_int_equal(seen[place.first / 16]++, n / 280);
    }
    struct corpus_walk held = corpus_walk_start(*state, &corpus, CORPUS_HELD_OUT);
    for (int64_t n = 0; n < 31; n++) {
        struct corpus_place place = corpus_walk_to(&corpus, &held, n);
        assert_int_equal(place.first, (281 + n) * 16);
    }
    corpus_close(&corpus);
}

static void a_file_for_validation_is_held_out_from_its_first_sample_on(void **state)
{
    const char *path = write_tokens(*state, "one.tokens", 5000, 50000);
    struct corpus corpus;
    struct err err = {0};
    const struct corpus_request request = {.words = &path,
                                           .word_count = 1,
                                           .held_out =
                                               write_tokens(*state, "validation.tokens", 100, 1000),
                                           .held_out_ratio = 0.1,
                                           .seq_len = 16,
                                           .ahead = 2,
                                           .vocab = 1 << 16,
                                           .document_end = DOCUMENTS_JOINED};
    assert_true(corpus_open(*state, &request, &corpus, &err));
    // 98 ids that have two behind them are 6 samples, all of them; of the other file none is.
    assert_int_equal(corpus.sample_count[CORPUS_HELD_OUT], 6);
    assert_int_equal(corpus.sample_count[CORPUS_TRAIN], 312);
    struct corpus_walk held = corpus_walk_start(*state, &corpus, CORPUS_HELD_OUT);
    for (int64_t n = 0; n < 12; n++) {
        int64_t row[18];
        struct corpus_place place = corpus_walk_to(&corpus, &held, n);
        assert_int_equal(place.source, 1);
        assert_int_equal(place.first, n % 6 * 16);
        assert_true(corpus_read(&corpus, &place, row, &err));
    }
    corpus_close(&corpus);
}

// Of any number of sequences every file has its weight, to less than one; and a walk that jumps
// finds what one that goes step by step does.
static void a_mixture_keeps_to_its_weights(void **state)
{
    write_tokens(*state, "a.tokens", 2000, 300);
    write_tokens(*state, "b.tokens", 9000, 300);
    write_tokens(*state, "c.tokens", 400, 300);
    static const double WEIGHTS[] = {0.6, 0.3, 0.1};
    const char *words[] = {arena_print(*state, "%s/a.tokens=6", folder),
                           arena_print(*state, "%s/b.tokens=3", folder),
                           arena_print(*state, "%s/c.tokens=1", folder)};
    struct corpus corpus = corpus_of(*state, words, 3, 0);
    struct corpus_walk walk = corpus_walk_start(*state, &corpus, CORPUS_TRAIN);
    struct corpus_walk jumping = corpus_walk_start(*state, &corpus, CORPUS_TRAIN);
    int64_t taken[3] = {0};
    for (int64_t n = 0; n < 3000; n++) {
        struct corpus_place place = corpus_walk_to(&corpus, &walk, n);
        taken[place.source]++;
        for (int s = 0; s < 3; s++)
            assert_true(fabs((double)taken[s] - WEIGHTS[s] * (double)(n + 1)) < 1 + 1e-9);
        if (n % 700 != 0 && n % 701 != 0) continue;
        struct corpus_place found = corpus_walk_to(&corpus, &jumping, n);
        assert_true(found.source == place.source && found.first == place.first);
    }
    assert_int_equal(corpus_walk_to(&corpus, &jumping, 0).first,
                     corpus_walk_to(&corpus, &walk, 0).first);
    corpus_close(&corpus);
}

// Two ranks that want other sequences of a step get the same as one that wants them all, in
// whatever order steps are asked for.
static void a_feed_has_what_the_order_says(void **state)
{
    enum { BATCH = 6, ROW = 18 };
    const char *path = write_tokens(*state, "one.tokens", 50000, 50000);
    struct corpus corpus = corpus_of(*state, &path, 1, 0.1);
    static const bool WANTED[2][BATCH] = {{1, 1, 1, 0, 0, 0}, {0, 0, 0, 1, 1, 1}};
    static const int64_t STEPS[] = {0, 1, 2, 7, 8, 3, 4};
    for (int rank = 0; rank < 2; rank++) {
        struct err err = {0};
        double waited_s;
        struct feed *feed = feed_open(*state, &corpus, BATCH, WANTED[rank], &err);
        assert_non_null(feed);
        for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
            struct corpus_walk walk = corpus_walk_start(*state, &corpus, CORPUS_TRAIN);
            const int64_t *rows = feed_step(feed, STEPS[i], &waited_s, &err);
            assert_non_null(rows);
            for (int s = 0; s < BATCH; s++) {
                if (!WANTED[rank][s]) continue;
                int64_t row[ROW], first = STEPS[i] * BATCH + s;
                struct corpus_place place = corpus_walk_to(&corpus, &walk, first);
                assert_true(corpus_read(&corpus, &place, row, &err));
                assert_memory_equal(rows + s * ROW, row, sizeof row);
            }
            assert_non_null(feed_held_out(feed, (int64_t)i, &err));
        }
        feed_close(feed);
    }
    corpus_close(&corpus);
}

// Documents of ten that the file tells apart, and of seven that a token does.
static void places_know_where_their_document_begins(void **state)
{
    enum { ROW = 18, SEQ = 16 };
    static const int LENGTHS[] = {10, 7};
    for (int f = 0; f < 2; f++) {
        struct corpus corpus;
        struct err err = {0};
        const char *path = write_tokens(*state, "one.tokens", 1000, f ? 7 : 1000);
        const struct corpus_request request = {.words = &path,
                                               .word_count = 1,
                                               .seq_len = SEQ,
                                               .ahead = 2,
                                               .vocab = 1000,
                                               .document_end = f ? 6 : DOCUMENTS_OF_FILES};
        assert_true(corpus_open(*state, &request, &corpus, &err));
        assert_int_equal(corpus.row_stride, ROW + SEQ);
        struct corpus_walk walk = corpus_walk_start(*state, &corpus, CORPUS_TRAIN);
        int64_t samples = corpus.sample_count[CORPUS_TRAIN], seen = 0;
        for (int64_t n = 0; n < samples; n++) {
            int64_t row[ROW + SEQ];
            struct corpus_place place = corpus_walk_to(&corpus, &walk, n);
            assert_true(corpus_read(&corpus, &place, row, &err));
            for (int64_t i = 0; i < SEQ; i++) {
                int64_t begin = (place.first + i) / LENGTHS[f] * LENGTHS[f] - place.first;
                assert_int_equal(row[ROW + i], begin > 0 ? begin : 0);
                seen += begin > 0 ? i - begin + 1 : i + 1;
            }
        }
        double mean = 2 * (double)seen / (double)(samples * SEQ) - 1;
        assert_true(mean > 4 && mean < LENGTHS[f]);
        assert_true(fabs(document_length(*state, &corpus, samples) / mean - 1) < 1e-12);
        assert_true(document_length(*state, &corpus, 0) == 0);
        corpus_close(&corpus);
    }
}

static void a_back_end_without_the_mask_is_refused_by_name(void **state)
{
    (void)state;
    struct err err = {0};
    const struct backend backend = {.name = "cuda"};
    const struct program program = {0};
    assert_false(run_check_documents(&backend, &program, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "--mask-documents: attention of back end cuda has no such mask");
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? arena_setup(state) : -1;
}

static int remove_folder(void **state)
{
    static const char *const NAMES[] = {"own.tokens", "bad.tokens", "a.npy",    "m.idx",   "m.bin",
                                        "one.tokens", "a.tokens",   "b.tokens", "c.tokens"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unlink(path_of(*state, NAMES[i]));
    rmdir(folder);
    return arena_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ours_is_read_as_it_was_written),
        cmocka_unit_test(an_id_over_the_vocabulary_is_named_with_its_place),
        cmocka_unit_test(damage_is_found_wherever_it_is),
        cmocka_unit_test(numpy_and_megatron_are_read),
        cmocka_unit_test(an_order_is_a_permutation_of_its_own),
        cmocka_unit_test(every_sample_comes_once_an_epoch_and_none_of_both_parts),
        cmocka_unit_test(a_file_for_validation_is_held_out_from_its_first_sample_on),
        cmocka_unit_test(a_mixture_keeps_to_its_weights),
        cmocka_unit_test(a_feed_has_what_the_order_says),
        cmocka_unit_test(places_know_where_their_document_begins),
        cmocka_unit_test(a_back_end_without_the_mask_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
