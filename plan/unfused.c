#include "plan/unfused.h"

#include <assert.h>

static const struct row {
    const char *name, *text;
} ROWS[UNFUSED_COUNT] = {
#define UNFUSED(id, name, text) [UNFUSED_##id] = {name, text},
#include "plan/unfused.inc"
};

const char *unfused_name(enum unfused rule)
{
    assert((unsigned)rule < UNFUSED_COUNT);
    return ROWS[rule].name;
}

const char *unfused_text(enum unfused rule)
{
    assert((unsigned)rule < UNFUSED_COUNT);
    return ROWS[rule].text;
}
