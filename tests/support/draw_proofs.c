#include "core/progress.h"
#include "tests/support/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// Draws questions over all shipped models, clusters, stacks and options, and tries the answer of
// each with ten pins (tests/support/proof.h). One line a violation on stdout, counts at the end;
// exit 1 where there was one. Each question is a process of its own, so that one that aborts or
// takes too long costs no other.
//
//     build/tests/draw_proofs --count 100 --seed 1 --seconds 600 --only colossalai

struct arguments {
    long long seed, first, count;
    double seconds, each_s, exhaustive_most;  // each_s: of processor time, of one question
    int samples;                              // plans drawn without the search, of each question
    int ranks_most;                           // of the cluster, in seven of eight questions
    const char *only;                         // of the command line
    unsigned fixed;                           // 1 << enum choice, see struct proof_question
    bool shows;                               // each question
};

static void print_line(void *context, const char *text)
{
    (void)context;
    puts(text);
    fflush(stdout);
}

// Every question has a state of its own, so that it can be drawn again alone.
static struct draw draw_of(const struct arguments *arguments, long long index)
{
    struct draw draw = {(uint64_t)arguments->seed * 1000003u + (uint64_t)index};
    draw_bits(&draw);
    return draw;
}

// Pins of the question's own, in one of three.
static void draw_own_pins(struct arena *arena, struct draw *draw, struct proof_question *question)
{
    static const enum pins_kind KINDS[] = {PINS_ONE,   PINS_ONE,    PINS_TWO,
                                           PINS_RANGE, PINS_STAGES, PINS_FORBID};
    struct pins pins;
    const char *keys;
    if (draw_int(draw, 0, 2)) return;
    enum pins_kind kind = DRAW_ONE(draw, KINDS);
    if (pins_draw(arena, draw, kind, question, NULL, &pins, &keys)) question->request.pins = pins;
}

enum { TRIES_MOST = 100000 };

static void try_question(const struct arguments *arguments, long long index,
                         struct proof_counts *counts)
{
    struct arena arena = {0};
    struct proof_question question;
    struct draw draw = draw_of(arguments, index);
    int ranks_most = draw_int(&draw, 0, 7) ? arguments->ranks_most : 16 * arguments->ranks_most;
    int tries = 0;
    while (!question_draw(&arena, &draw, ranks_most, &question)) {
        arena_free(&arena);
        if (++tries == TRIES_MOST) abort();  // no shipped file is found
    }
    question.fixed = arguments->fixed;
    draw_own_pins(&arena, &draw, &question);
    const char *command = question_command(&arena, &question, &question.request.pins, false);
    struct proof_report report = {
        .counts = counts,
        .line = print_line,
        .place = arena_print(&arena, "--seed %lld --first %lld", arguments->seed, index),
        .exhaustive_most = arguments->exhaustive_most,
        .samples = arguments->samples,
    };
    if (!strstr(command, arguments->only)) return;
    if (arguments->shows) print_line(NULL, arena_print(&arena, "# %lld %s", index, command));
    proof_try(&arena, &draw, &question, &report);
    arena_free(&arena);
}

// In a process of its own.
static void spawn_question(const struct arguments *arguments, long long index,
                           struct proof_counts *counts)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const struct itimerval limit = {.it_value = {(time_t)arguments->each_s, 0}};
        setitimer(ITIMER_VIRTUAL, &limit, NULL);
        try_question(arguments, index, counts);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) return;
    bool late = WTERMSIG(status) == SIGVTALRM;
    counts->abandoned += late;
    counts->crashed += !late;
    printf("%s: --seed %lld --first %lld --count 1 %s\n", late ? "LATE" : "CRASH", arguments->seed,
           index, late ? "" : strsignal(WTERMSIG(status)));
}

static int by_count(const void *a, const void *b)
{
    return *(const int *)((const char *)b + 80) - *(const int *)((const char *)a + 80);
}

static void print_counts(struct proof_counts *counts, double seconds)
{
    qsort(counts->classes, (size_t)counts->class_count, sizeof *counts->classes, by_count);
    printf(
        "%d questions: %d refused, %d nothing fits, %d answered, %d proven, %d beaten; %d "
        "checks, %d "
        "violations, %d excused, %d late, %d crashed, %d samples; %.0f s, slowest answer %.1f s\n",
        counts->questions, counts->refused, counts->empty, counts->answered, counts->proven,
        counts->beaten, counts->checks, counts->violations, counts->excused, counts->abandoned,
        counts->crashed, counts->samples, seconds, counts->slowest_s);
    for (int i = 0; i < counts->class_count; i++)
        printf("%6d %s\n", counts->classes[i].count, counts->classes[i].name);
}

static unsigned choice_bit(const char *name)
{
    enum choice choice;
    struct err err = {0};
    if (choice_from_name(name, &choice, &err)) return 1u << choice;
    fprintf(stderr, "draw_proofs: %s\n", err.text);
    exit(2);
}

static struct arguments read_arguments(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1,
                                  .count = 1000000,
                                  .seconds = 60,
                                  .each_s = 60,
                                  .samples = 20,
                                  .ranks_most = 64,
                                  .exhaustive_most = 100000,
                                  .only = ""};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--show") == 0) {
            arguments.shows = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0)
            arguments.seed = atoll(value);
        else if (strcmp(argv[i], "--first") == 0)
            arguments.first = atoll(value);
        else if (strcmp(argv[i], "--count") == 0)
            arguments.count = atoll(value);
        else if (strcmp(argv[i], "--seconds") == 0)
            arguments.seconds = atof(value);
        else if (strcmp(argv[i], "--each") == 0)
            arguments.each_s = atof(value);
        else if (strcmp(argv[i], "--exhaustive-most") == 0)
            arguments.exhaustive_most = atof(value);
        else if (strcmp(argv[i], "--fixed") == 0)
            arguments.fixed |= choice_bit(value);
        else if (strcmp(argv[i], "--samples") == 0)
            arguments.samples = atoi(value);
        else if (strcmp(argv[i], "--ranks-most") == 0)
            arguments.ranks_most = atoi(value);
        else if (strcmp(argv[i], "--only") == 0)
            arguments.only = value;
        else
            exit(fprintf(stderr, "draw_proofs: unknown option %s\n", argv[i]) > 0 ? 2 : 4);
        i++;
    }
    return arguments;
}

int main(int argc, char **argv)
{
    struct arguments arguments = read_arguments(argc, argv);
    struct proof_counts *counts =
        mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED) return 4;
    double start_s = clock_s();
    for (long long i = 0; i < arguments.count && clock_s() - start_s < arguments.seconds; i++)
        spawn_question(&arguments, arguments.first + i, counts);
    print_counts(counts, clock_s() - start_s);
    return counts->violations + counts->crashed > 0;
}
