#include "tests/support/layout_rules_draw.h"

struct drawn_rules layout_rules_draw(struct arena *arena, struct draw *draw,
                                     const struct graph *graph, int one_in)
{
    struct drawn_rules drawn = {0};
    int most = 0;
    for (int b = 0; b < graph->block_count; b++)
        most += graph->blocks[b].op_count;
    drawn.rules = ARENA_NEW(arena, struct layout_rule, most);
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            struct layout_rule rule = {.axis = AXIS_TP,
                                       .follows = draw_int(draw, 0, 9) == 0,
                                       .operator= layout_rule_name(arena, block, &block->ops[o])};
            if (!rule.follows) rule.dim = (enum dim)draw_int(draw, 0, DIM_COUNT - 1);
            if (draw_int(draw, 1, one_in) > 1) continue;
            if (!layout_rule_fault(arena, block, &block->ops[o], &rule))
                drawn.rules[drawn.count++] = rule;
        }
    }
    return drawn;
}
