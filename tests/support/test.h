#pragma once
// What every test program includes: cmocka, whose header wants four others before it, and an arena
// as the group's state.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/arena.h"
#include "core/err.h"

#include <stdlib.h>
#include <string.h>

static inline int arena_setup(void **state)
{
    *state = calloc(1, sizeof(struct arena));
    return *state ? 0 : -1;
}

static inline int arena_teardown(void **state)
{
    arena_free(*state);
    free(*state);
    return 0;
}
