#include "plan/lower/joins.h"

#include <assert.h>

static const struct join_row {
    const char *name;
    bool is_executed, is_pass;
} ROWS[JOIN_COUNT] = {
#define JOIN(id, name, is_executed, is_pass) [JOIN_##id] = {name, is_executed, is_pass},
#include "plan/lower/joins.inc"
};

const char *join_name(enum join join)
{
    assert((unsigned)join < JOIN_COUNT);
    return ROWS[join].name;
}

unsigned joins_executed(void)
{
    unsigned joins = 0;
    for (int j = 0; j < JOIN_COUNT; j++)
        joins |= (unsigned)ROWS[j].is_executed << j;
    return joins;
}

bool joins_are_executed(unsigned joins)
{
    unsigned own = joins & joins_executed();
    return own && (own != 1u << JOIN_MERGED || !(joins >> JOIN_CHAIN & 1));
}

unsigned joins_of_pass(void)
{
    unsigned joins = 0;
    for (int j = 0; j < JOIN_COUNT; j++)
        joins |= (unsigned)ROWS[j].is_pass << j;
    return joins;
}
