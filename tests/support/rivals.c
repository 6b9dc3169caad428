#include "tests/support/rivals.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

double clock_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

enum { ROWS = 1024, COLUMNS = 3072, INNER = 768, REPEATS = 4 };

struct sgemm {
    void (*multiply)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                     const float *a, int lda, const float *b, int ldb, float beta, float *c,
                     int ldc);
    char *(*core_name)(void);
    float *a, *b, *c;
};

// Numbers that keep the units as busy as any.
static float *numbers(size_t count)
{
    float *made = calloc(count, sizeof *made);
    uint32_t state = 1;
    for (size_t i = 0; i < count && made; i++) {
        state = state * 1664525u + 1013904223u;
        made[i] = (float)(state >> 8) * 0x1p-24F - 0.5F;
    }
    return made;
}

struct sgemm *sgemm_open(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *multiply = library ? dlsym(library, "cblas_sgemm") : NULL;
    void *core_name = library ? dlsym(library, "openblas_get_corename") : NULL;
    struct sgemm *sgemm = multiply && core_name ? calloc(1, sizeof *sgemm) : NULL;
    if (!sgemm) return NULL;
    memcpy(&sgemm->multiply, &multiply, sizeof multiply);
    memcpy(&sgemm->core_name, &core_name, sizeof core_name);
    sgemm->a = numbers((size_t)ROWS * INNER);
    sgemm->b = numbers((size_t)COLUMNS * INNER);
    sgemm->c = numbers((size_t)ROWS * COLUMNS);
    if (sgemm->a && sgemm->b && sgemm->c) return sgemm;
    sgemm_close(sgemm);
    return NULL;
}

void sgemm_close(struct sgemm *sgemm)
{
    if (!sgemm) return;
    free(sgemm->a);
    free(sgemm->b);
    free(sgemm->c);
    free(sgemm);
}

const char *sgemm_kernels(const struct sgemm *sgemm)
{
    return sgemm->core_name();
}

double sgemm_seconds_per_flop(const struct sgemm *sgemm)
{
    double best_s = 0;
    for (int i = 0; i < REPEATS; i++) {
        double start_s = clock_of(CLOCK_THREAD_CPUTIME_ID);
        sgemm->multiply(101, 111, 112, ROWS, COLUMNS, INNER, 1, sgemm->a, INNER, sgemm->b, INNER, 0,
                        sgemm->c, COLUMNS);
        double taken_s = clock_of(CLOCK_THREAD_CPUTIME_ID) - start_s;
        if (i == 0 || taken_s < best_s) best_s = taken_s;
    }
    return best_s / (2.0 * ROWS * COLUMNS * INNER);
}

struct rival {
    pid_t process;
    FILE *to, *from;
    char name[256];
};

enum { NUMBERS = 7 };

static void become(const char *python, const struct plain_shape *shape, const char *kernels)
{
    const int sizes[NUMBERS] = {shape->layers,    shape->heads, shape->width, shape->vocab,
                                shape->positions, shape->batch, shape->seq};
    char text[NUMBERS][16];
    const char *words[NUMBERS + 3] = {python, "tests/bench_executor_torch.py"};
    for (int i = 0; i < NUMBERS; i++) {
        snprintf(text[i], sizeof text[i], "%d", sizes[i]);
        words[i + 2] = text[i];
    }
    setenv("OPENBLAS_CORETYPE", kernels, 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    char **arguments;
    const char **constant = words;
    memcpy(&arguments, &constant, sizeof arguments);
    if (freopen("/dev/null", "w", stderr)) execvp(python, arguments);
    _exit(127);
}

static struct rival *start(const char *python, const struct plain_shape *shape, const char *kernels)
{
    int to[2], from[2];
    struct rival *rival = calloc(1, sizeof *rival);
    if (!rival || pipe(to) != 0 || pipe(from) != 0) return NULL;
    fflush(NULL);
    rival->process = fork();
    if (rival->process == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        for (int i = 0; i < 2; i++) {
            close(to[i]);
            close(from[i]);
        }
        become(python, shape, kernels);
    }
    close(to[0]);
    close(from[1]);
    rival->to = fdopen(to[1], "w");
    rival->from = fdopen(from[0], "r");
    char line[300] = "";
    bool is_ready = rival->process > 0 && fgets(line, sizeof line, rival->from) &&
                    sscanf(line, "ready %255[^\n]", rival->name) == 1;
    if (is_ready) return rival;
    rival_stop(rival);
    return NULL;
}

struct rival *rival_start(const struct plain_shape *shape, const char *kernels)
{
    signal(SIGPIPE, SIG_IGN);
    struct rival *rival = start("python3", shape, kernels);
    return rival ? rival : start("/usr/bin/python3", shape, kernels);
}

const char *rival_name(const struct rival *rival)
{
    return rival->name;
}

bool rival_step(struct rival *rival, struct taken *taken)
{
    char line[128];
    *taken = (struct taken){0, 0};
    fputs("step\n", rival->to);
    return fflush(rival->to) == 0 && fgets(line, sizeof line, rival->from) &&
           sscanf(line, "%lf %lf", &taken->wall_s, &taken->cpu_s) == 2;
}

// It ends with its input.
void rival_stop(struct rival *rival)
{
    if (!rival) return;
    if (rival->to) fclose(rival->to);
    if (rival->from) fclose(rival->from);
    if (rival->process > 0) waitpid(rival->process, NULL, 0);
    free(rival);
}
