#pragma once
#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

// What launchers of several nodes ask of the world: a clock, numbers that nobody can guess, and the
// folder by which they tell each other something (executor/rendezvous_folder.h). All behind one
// table, so that the same code runs here and where a test makes the world of a seed
// (tests/support/fake_outside.h), in which files come late, puts fail and launchers stand still.

struct outside {
    void *context;
    double (*now_s)(void *context);
    void (*pause)(void *context, double seconds);
    bool (*draw)(void *context, void *bytes, size_t count);  // false: the system has none
    bool (*is_ended)(void *context);  // whether a signal is pending that ends this process
    bool (*make_folder)(void *context, const char *path, struct err *err);
    // As the functions of rendezvous_folder.h.
    bool (*put)(void *context, const char *folder, const char *name, const void *data, size_t bytes,
                struct err *err);
    bool (*put_first)(void *context, const char *folder, const char *name, const void *data,
                      size_t bytes, struct err *err);
    bool (*get)(void *context, const char *folder, const char *name, void *data, size_t room,
                size_t *bytes);
    void (*remove)(void *context, const char *folder, const char *name);
    void (*remove_all)(void *context, const char *folder);
};

// The machine's own.
extern const struct outside OUTSIDE_REAL;
