#include "executor/outside.h"

#include "core/progress.h"
#include "executor/rendezvous_folder.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

static double now_s(void *context)
{
    (void)context;
    return clock_s();
}

static void pause_for(void *context, double seconds)
{
    (void)context;
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    nanosleep(&pause, NULL);
}

static bool draw(void *context, void *bytes, size_t count)
{
    (void)context;
    return getrandom(bytes, count, 0) == (ssize_t)count;
}

static bool is_ended(void *context)
{
    (void)context;
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
           sigismember(&pending, SIGHUP);
}

static bool make_folder(void *context, const char *path, struct err *err)
{
    (void)context;
    if (mkdir(path, 0700) == 0) return true;
    return err_set(err, ERR_SYSTEM, "cannot make %.300s: %s", path, strerror(errno));
}

static bool put(void *context, const char *folder, const char *name, const void *data, size_t bytes,
                struct err *err)
{
    (void)context;
    return folder_put(folder, name, data, bytes, err);
}

static bool put_first(void *context, const char *folder, const char *name, const void *data,
                      size_t bytes, struct err *err)
{
    (void)context;
    return folder_put_first(folder, name, data, bytes, err);
}

static bool get(void *context, const char *folder, const char *name, void *data, size_t room,
                size_t *bytes)
{
    (void)context;
    return folder_get(folder, name, data, room, bytes);
}

static void remove_file(void *context, const char *folder, const char *name)
{
    (void)context;
    folder_remove(folder, name);
}

static void remove_all(void *context, const char *folder)
{
    (void)context;
    folder_remove_all(folder);
}

const struct outside OUTSIDE_REAL = {.now_s = now_s,
                                     .pause = pause_for,
                                     .draw = draw,
                                     .is_ended = is_ended,
                                     .make_folder = make_folder,
                                     .put = put,
                                     .put_first = put_first,
                                     .get = get,
                                     .remove = remove_file,
                                     .remove_all = remove_all};
