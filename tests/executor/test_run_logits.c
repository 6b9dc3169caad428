#include "tests/support/run_case.h"
#include "tests/support/test.h"

#include "core/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

// The file of scores that a run leaves (engine/logits.c): its header to the byte, and its numbers
// those of one rank, however the plan splits them. Two ranks of tp pad the 37 tokens; the file is
// without.

static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": 4, "
    "\"n_positions\": 16, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0}";
enum { SEQ = 8, BATCH = 4, VOCAB = 37, TOKENS = SEQ * BATCH, SCORES = TOKENS * VOCAB };

struct scores {
    int64_t tokens[TOKENS];
    double values[SCORES];
    double loss;
};

// Learns nothing, so that the scores are those of the last step's loss.
static struct run_case case_of(const char *backend)
{
    struct run_case of = run_case_new(GPT2, SEQ, BATCH);
    of.backend = backend;
    of.steps = 2;
    of.learning_rate = 0;
    return of;
}

static struct scores *run(struct arena *arena, struct run_case of, int real_bytes)
{
    char path[] = "/tmp/meshwright-logits-XXXXXX";
    struct err err = {0};
    size_t bytes = 0;
    close(mkstemp(path));
    of.logits = path;
    const struct run_outcome *outcome = run_case_done(arena, &of);
    const char *text = file_read(arena, path, 1 << 20, &bytes, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(access(arena_print(arena, "%s.partial", path), F_OK), -1);
    unlink(path);
    uint64_t length;
    memcpy(&length, text, sizeof length);
    int end = TOKENS * 8, all = end + SCORES * real_bytes;
    const char *head = arena_print(
        arena,
        "{\"__metadata__\":{\"step\":\"2\"},\"tokens\":{\"dtype\":\"I64\",\"shape\":[4,8],"
        "\"data_offsets\":[0,%d]},\"logits\":{\"dtype\":\"F%d\",\"shape\":[4,8,37],"
        "\"data_offsets\":[%d,%d]}}",
        end, 8 * real_bytes, end, all);
    assert_int_equal(length % 8, 0);
    assert_in_range(length, strlen(head), strlen(head) + 7);
    assert_memory_equal(text + 8, head, strlen(head));
    for (uint64_t i = strlen(head); i < length; i++)
        assert_int_equal(text[8 + i], ' ');
    assert_int_equal(bytes, 8 + length + (uint64_t)all);
    struct scores *scores = ARENA_NEW(arena, struct scores, 1);
    memcpy(scores->tokens, text + 8 + length, sizeof scores->tokens);
    for (int i = 0; i < SCORES; i++) {
        const char *at = text + 8 + length + end + (size_t)i * (size_t)real_bytes;
        float narrow;
        memcpy(&narrow, at, sizeof narrow);
        memcpy(&scores->values[i], at, sizeof(double) == (size_t)real_bytes ? sizeof(double) : 0);
        if (real_bytes == sizeof narrow) scores->values[i] = (double)narrow;
    }
    scores->loss = outcome->loss[1];
    return scores;
}

static void are_near(const struct scores *expected, const struct scores *found, double tolerance)
{
    assert_memory_equal(found->tokens, expected->tokens, sizeof found->tokens);
    for (int i = 0; i < SCORES; i++)
        assert_true(fabs(found->values[i] - expected->values[i]) <= tolerance);
}

// What a token that comes next costs at a place: the logarithm of the sum less its own score.
static double cost(const double *row, int64_t token)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += exp(row[i]);
    return log(sum) - row[token];
}

// All places but the last of a sequence have their next token in the file; the last one costs no
// less than the likeliest token, and no more than the least likely.
static void scores_are_those_of_the_loss(void **state)
{
    const struct scores *scores = run(*state, case_of("cpu-fp64"), 8);
    double sum = 0, least = 0, most = 0;
    for (int at = 0; at < TOKENS; at++) {
        const double *row = &scores->values[at * VOCAB];
        double low = INFINITY, high = 0;
        assert_in_range(scores->tokens[at], 0, VOCAB - 1);
        for (int i = 0; i < VOCAB; i++)
            low = fmin(low, cost(row, i)), high = fmax(high, cost(row, i));
        bool is_last = at % SEQ == SEQ - 1;
        if (!is_last) sum += cost(row, scores->tokens[at + 1]);
        if (is_last) least += low, most += high;
    }
    assert_true(scores->loss * TOKENS > sum + least && scores->loss * TOKENS < sum + most);
}

static void scores_are_those_of_one_rank(void **state)
{
    static const enum axis SPLIT[] = {AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP};
    const struct scores *alone = run(*state, case_of("cpu-fp64"), 8);
    for (size_t i = 0; i < sizeof SPLIT / sizeof *SPLIT; i++) {
        struct run_case of = case_of("cpu-fp64");
        of.parallel.degree[SPLIT[i]] = 2;
        are_near(alone, run(*state, of, 8), 1e-12);
    }
    struct run_case small = case_of("cpu-fp64");
    small.parallel.micro_batch = 1;
    are_near(alone, run(*state, small, 8), 1e-12);
    are_near(alone, run(*state, case_of("cpu"), 4), 1e-5);
}

// A disk that takes pieces and is interrupted, or has no room for what is not the first of a file.
static enum { DISK_WHOLE, DISK_PIECES, DISK_FULL } disk;

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
    static unsigned calls;
    if (disk == DISK_FULL && at > 600) {
        errno = ENOSPC;
        return -1;
    }
    if (disk == DISK_PIECES && ++calls % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    size_t piece = 9 + calls % 7, taken = disk == DISK_PIECES ? piece : bytes;
    return syscall(SYS_pwrite64, fd, from, taken < bytes ? taken : bytes, at);
}

static void disks_may_take_pieces(void **state)
{
    const struct scores *whole = run(*state, case_of("cpu-fp64"), 8);
    disk = DISK_PIECES;
    are_near(whole, run(*state, case_of("cpu-fp64"), 8), 0);
    disk = DISK_WHOLE;
}

static void a_full_disk_ends_the_run(void **state)
{
    struct run_case of = case_of("cpu-fp64");
    struct err why = {0};
    char path[] = "/tmp/meshwright-logits-XXXXXX";
    close(mkstemp(path));
    of.logits = path;
    disk = DISK_FULL;
    const struct run_outcome *outcome = run_case_run(*state, &of, &why);
    disk = DISK_WHOLE;
    assert_non_null(outcome);
    assert_false(outcome->done);
    assert_non_null(strstr(outcome->error, "cannot write "));
    assert_non_null(strstr(outcome->error, ".partial: No space left on device"));
    assert_int_equal(access(arena_print(*state, "%s.partial", path), F_OK), -1);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_the_loss),
        cmocka_unit_test(scores_are_those_of_one_rank),
        cmocka_unit_test(disks_may_take_pieces),
        cmocka_unit_test(a_full_disk_ends_the_run),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
