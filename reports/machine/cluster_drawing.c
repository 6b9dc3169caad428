#include "reports/machine/cluster_drawing.h"

#include "core/units.h"
#include "reports/page/markup.h"

#include <assert.h>

enum {
    NODES_DRAWN = 3,  // of a kind
    GPUS_A_ROW = 8,
    CELL = 44,  // side of a GPU with its margin
    NODE_WIDTH = GPUS_A_ROW * CELL + 32,
    NODE_GAP = 24,
    MARGIN = 20,
    TITLE = 34,
};

static int rows_of(const struct node_group *group)
{
    assert(group->gpus > 0);
    return (group->gpus + GPUS_A_ROW - 1) / GPUS_A_ROW;
}

static int node_height(const struct node_group *group)
{
    return TITLE + rows_of(group) * CELL + 24 + (group->nics.count ? 40 : 0);
}

static void put_words(struct markup *drawing, int x, int y, const char *class, const char *words)
{
    markup_print(drawing, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    markup_text(drawing, words);
    markup_put(drawing, "</text>\n");
}

static void draw_node(struct markup *drawing, const struct node_group *group, int node, int x,
                      int y)
{
    struct arena *arena = drawing->arena;
    markup_print(drawing, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"node\"/>\n",
                 x, y, NODE_WIDTH, node_height(group));
    put_words(drawing, x + 12, y + 21, "name",
              arena_print(arena, "node %d: %d x %s", node, group->gpus, group->device->name));
    for (int gpu = 0; gpu < group->gpus; gpu++) {
        int left = x + 16 + gpu % GPUS_A_ROW * CELL, top = y + TITLE + gpu / GPUS_A_ROW * CELL;
        markup_print(drawing,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"gpu\"/>\n", left,
                     top, CELL - 6, CELL - 6);
        markup_print(drawing, "<text x=\"%d\" y=\"%d\" class=\"mid\">%d</text>\n",
                     left + (CELL - 6) / 2, top + 23, gpu);
    }
    int bar = y + TITLE + rows_of(group) * CELL;
    if (group->gpus > 1) {
        markup_print(drawing,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"18\" class=\"link\"/>\n",
                     x + 16, bar, NODE_WIDTH - 38);
        put_words(drawing, x + 24, bar + 13, "small",
                  arena_print(arena, "%s, %s a GPU", group->intra.kind,
                              units_bytes_per_s(arena, group->intra.bandwidth_bytes_per_s)));
    }
    if (group->nics.count) {
        put_words(drawing, x + 16, bar + 42, "small",
                  arena_print(arena, "%d NICs of %s", group->nics.count,
                              units_bytes_per_s(arena, group->nics.bandwidth_bytes_per_s)));
    }
}

static void draw_header(struct markup *drawing, const struct cluster *cluster, int width,
                        int height)
{
    struct arena *arena = drawing->arena;
    markup_print(drawing,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                 "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
                 width, height, width, height);
    markup_text(drawing, cluster->name);
    markup_print(drawing,
                 "</title>\n<style>\n"
                 "text{font:13px sans-serif;fill:#222}.name{font-weight:bold}.small{font-size:11px}"
                 ".mid{text-anchor:middle;font-size:12px}.node{fill:#f6f6f4;stroke:#777}"
                 ".gpu{fill:#cfe3d4;stroke:#3a7a4c}.link{fill:#dbe4f3;stroke:#4a6a9c}"
                 ".net{fill:#f3e4cf;stroke:#9c6f2f}.wire{stroke:#9c6f2f;stroke-width:2}\n</style>\n"
                 "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
                 width, height);
    put_words(drawing, MARGIN, MARGIN + 10, "name",
              arena_print(arena, "%s: %d node%s, %d GPUs", cluster->name, cluster->node_count,
                          cluster->node_count == 1 ? "" : "s", cluster->rank_count));
}

static void draw_network(struct markup *drawing, const struct cluster *cluster, int y, int width)
{
    assert(width > 2 * MARGIN);
    struct arena *arena = drawing->arena;
    markup_print(drawing, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"24\" class=\"net\"/>\n",
                 MARGIN, y, width - 2 * MARGIN);
    put_words(drawing, MARGIN + 10, y + 16, "small",
              arena_print(arena, "%s, oversubscription %.3g", cluster->network.kind,
                          cluster->network.oversubscription_ratio));
    if (cluster->between.kind && cluster->node_group_count > 1)
        put_words(drawing, MARGIN + 260, y + 16, "small",
                  arena_print(arena, "kinds of nodes joined by %s, %s", cluster->between.kind,
                              units_bytes_per_s(arena, cluster->between.bandwidth_bytes_per_s)));
}

// Nodes of a kind side by side, kinds below each other, the network under all of them.
char *cluster_drawing(struct arena *arena, const struct cluster *cluster)
{
    struct markup drawing = {.arena = arena};
    int columns = 1, height = MARGIN + TITLE;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int drawn = group->count < NODES_DRAWN ? group->count : NODES_DRAWN;
        if (drawn > columns) columns = drawn;
        height += node_height(group) + NODE_GAP + (group->count > drawn ? 20 : 0);
    }
    bool has_network = cluster->node_count > 1;
    int width = 2 * MARGIN + columns * (NODE_WIDTH + NODE_GAP) - NODE_GAP;
    draw_header(&drawing, cluster, width, height + (has_network ? 44 : 0));
    int y = MARGIN + TITLE, node = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int drawn = group->count < NODES_DRAWN ? group->count : NODES_DRAWN;
        for (int at = 0; at < drawn; at++) {
            int x = MARGIN + at * (NODE_WIDTH + NODE_GAP), middle = x + NODE_WIDTH / 2;
            if (has_network && group->nics.count)
                markup_print(&drawing,
                             "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"wire\"/>\n",
                             middle, y + node_height(group), middle, height);
            draw_node(&drawing, group, node + at, x, y);
        }
        y += node_height(group);
        if (group->count > drawn) {
            put_words(&drawing, MARGIN, y + 16, "small",
                      arena_print(arena, "and %d more nodes like these", group->count - drawn));
            y += 20;
        }
        y += NODE_GAP;
        node += group->count;
    }
    assert(node == cluster->node_count && y == height);
    if (has_network) draw_network(&drawing, cluster, height, width);
    markup_print(&drawing, "</svg>\n");
    return drawing.text;
}
