#include "core/progress.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const double PROGRESS_INTERVAL_S = 0.2;

double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct progress progress_start(void)
{
    const char *no_color = getenv("NO_COLOR");
    bool on = isatty(STDERR_FILENO) && !(no_color && *no_color);
    double now_s = clock_s();
    return (struct progress){.on = on, .start_s = now_s, .last_s = now_s};
}

void progress_show(struct progress *progress, const char *format, ...)
{
    if (!progress->on) return;
    double now_s = clock_s();
    if (now_s - progress->last_s < PROGRESS_INTERVAL_S) return;
    progress->last_s = now_s;
    va_list args;
    va_start(args, format);
    fputs("\r\033[K", stderr);  // to the start of the line, and clear it
    vfprintf(stderr, format, args);
    fflush(stderr);
    va_end(args);
}

const char *progress_left(const struct progress *progress, double done_ratio,
                          char text[PROGRESS_LEFT_BYTES])
{
    assert(done_ratio >= 0);
    static const double DONE_LEAST = 0.02;
    *text = '\0';
    if (done_ratio < DONE_LEAST || done_ratio > 1) return text;
    double left_s = (clock_s() - progress->start_s) * (1 / done_ratio - 1);
    bool in_minutes = left_s >= 100;
    snprintf(text, PROGRESS_LEFT_BYTES, ", about %.0f %s left", in_minutes ? left_s / 60 : left_s,
             in_minutes ? "min" : "s");
    return text;
}

void progress_end(struct progress *progress)
{
    if (progress->on) fputs("\r\033[K", stderr);
    progress->on = false;
}
