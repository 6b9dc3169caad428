#include "executor/launch_parts.h"
#include "executor/shared_memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Nodes tell each other something this often, so that silence means that a launcher is gone; what
// has begun to arrive has to be there within TOLD_S.
static const double TELL_EVERY_S = 0.1, SILENT_S = 8, TOLD_S = 5;

struct end_news {
    int32_t exit_code, is_failure;
    char text[sizeof((struct err *)0)->text];
};

// The ranks find the table in the memory that they share with their launcher.
static bool show_table(const struct launch_nodes *nodes, struct err *err)
{
    const struct rendezvous *met = &nodes->met;
    int64_t bytes = (int64_t)met->table_bytes;
    assert(SHARED_TABLE + bytes <= SHARED_TRANSPORT);
    void *shown = shared_memory_map(pulse_page_name(nodes->page), SHARED_TABLE, bytes, err);
    if (!shown) return false;
    memcpy(shown, met->table, met->table_bytes);
    shared_memory_unmap(shown, bytes);
    return true;
}

bool launch_nodes_open(struct launch_nodes *nodes, const struct launch_request *request,
                       struct err *err)
{
    struct pulse_page *page = nodes->page;
    size_t count = (size_t)request->rendezvous->node_count;
    *nodes = (struct launch_nodes){.page = page};
    if (!rendezvous_meet(request->rendezvous, &nodes->met, err)) return false;
    nodes->silent_s = request->silent_s > 0 ? request->silent_s : SILENT_S;
    nodes->heard_s = memory_get(count * sizeof *nodes->heard_s);
    nodes->news = memory_get((size_t)request->rank_count * sizeof(struct pulse_news));
    for (size_t i = 0; i < count; i++)
        nodes->heard_s[i] = socket_now_s();
    return show_table(nodes, err);
}

void launch_nodes_close(struct launch_nodes *nodes)
{
    rendezvous_close(&nodes->met);
    free(nodes->heard_s);
    free(nodes->news);
    *nodes = (struct launch_nodes){0};
}

// "node 1 (some-host)", "node 0".
static const char *name_node(const struct launch_nodes *nodes, int node, char *text, size_t bytes)
{
    const char *name = nodes->met.node == 0 ? nodes->met.names[node] : "";
    snprintf(text, bytes, *name ? "node %d (%s)" : "node %d", node, name);
    return text;
}

static size_t collect_news(const struct launch_nodes *nodes)
{
    struct pulse_news *news = nodes->news;
    for (int i = 0; i < nodes->met.own_count; i++) {
        int rank = nodes->met.first_rank + i;
        const struct pulse *pulse = pulse_of(nodes->page, rank);
        pulse_read(nodes->page, rank, &news[i]);
        news[i].beat = launch_watch_movement(pulse);
        news[i].is_stopped = !news[i].has_ended && launch_watch_is_stopped(pulse);
    }
    return (size_t)nodes->met.own_count * sizeof *news;
}

static bool tell(struct launch_nodes *nodes, struct err *err)
{
    char who[96];
    const struct rendezvous *met = &nodes->met;
    size_t bytes = met->node == 0 ? 0 : collect_news(nodes);
    int count = met->node == 0 ? met->node_count : 1;
    for (int node = 0; node < count; node++) {
        if (met->links[node] < 0) continue;
        if (!frame_write(met->links[node], FRAME_NEWS, nodes->news, bytes, socket_now_s() + TOLD_S,
                         name_node(nodes, node, who, sizeof who), err))
            return false;
    }
    return true;
}

static int event_of(const struct pulse_news *news)
{
    int fail = news->fail_event, end = news->end_event;
    return fail && (!end || fail < end) ? fail : end;
}

// News of several events at once are taken in the order in which those happened.
static bool take_news(struct launch_nodes *nodes, int node, size_t bytes, struct err *err)
{
    const struct rendezvous *met = &nodes->met;
    struct pulse_news *news = nodes->news;
    int first = rendezvous_first_rank(met->rank_count, met->node_count, node);
    int count = rendezvous_first_rank(met->rank_count, met->node_count, node + 1) - first;
    if (met->node != 0) return true;
    bool is_well = bytes == (size_t)count * sizeof *news;
    for (int i = 0; i < count && is_well; i++)
        is_well = news[i].rank == first + i;
    if (!is_well) return err_set(err, ERR_SYSTEM, "node %d says what cannot be", node);
    for (int turn = 0; turn < count; turn++) {
        int next = turn;
        for (int i = turn + 1; i < count; i++) {
            int a = event_of(&news[i]), b = event_of(&news[next]);
            if (a && (!b || a < b)) next = i;
        }
        struct pulse_news taken = news[next];
        news[next] = news[turn];
        pulse_write(nodes->page, &taken);
    }
    return true;
}

static bool take_end(struct launch_nodes *nodes, const struct end_news *end, size_t bytes,
                     struct err *err)
{
    if (bytes != sizeof *end) return err_set(err, ERR_SYSTEM, "a node says what cannot be");
    if (end->is_failure)
        return err_set(err, ERR_SYSTEM, "%.*s", (int)strnlen(end->text, sizeof end->text),
                       end->text);
    nodes->is_over = true;
    nodes->exit_code = end->exit_code;
    return true;
}

static bool listen_to(struct launch_nodes *nodes, int node, struct err *err)
{
    char who[96];
    struct end_news end;
    struct err gone = {0};
    int link = nodes->met.links[node];
    size_t news_bytes = (size_t)nodes->met.rank_count * sizeof(struct pulse_news), bytes = 0;
    size_t room = news_bytes > sizeof end ? news_bytes : sizeof end;
    void *said = memory_get(room);
    enum frame_kind kind = FRAME_NEWS;
    bool is_well = true;
    name_node(nodes, node, who, sizeof who);
    while (is_well && !nodes->is_over && socket_wait(link, 0, err)) {
        is_well = frame_read(link, &kind, said, room, &bytes, socket_now_s() + TOLD_S, who, &gone);
        if (!is_well) {
            err_set(err, ERR_SYSTEM, "%s is gone, and its ranks with it: %s", who, gone.text);
            break;
        }
        nodes->heard_s[node] = socket_now_s();
        if (kind == FRAME_END && bytes == sizeof end) memcpy(&end, said, sizeof end);
        if (kind == FRAME_NEWS) memcpy(nodes->news, said, bytes);
        is_well = kind == FRAME_END ? take_end(nodes, &end, bytes, err)
                                    : take_news(nodes, node, bytes, err);
    }
    free(said);
    return !err->kind;
}

bool launch_nodes_exchange(struct launch_nodes *nodes, double now_s, struct err *err)
{
    const struct rendezvous *met = &nodes->met;
    char who[96];
    int count = met->node == 0 ? met->node_count : 1;
    for (int node = 0; node < count; node++) {
        if (met->links[node] < 0) continue;
        if (!listen_to(nodes, node, err)) return false;
        double silent_s = now_s - nodes->heard_s[node];
        if (silent_s < nodes->silent_s) continue;
        return err_set(err, ERR_SYSTEM, "%s has said nothing for %.0f s",
                       name_node(nodes, node, who, sizeof who), silent_s);
    }
    if (nodes->is_over || now_s - nodes->told_s < TELL_EVERY_S) return true;
    nodes->told_s = now_s;
    return tell(nodes, err);
}

void launch_nodes_end(struct launch_nodes *nodes, int exit_code, const struct err *err)
{
    const struct rendezvous *met = &nodes->met;
    struct end_news end = {.exit_code = exit_code, .is_failure = err != NULL};
    if (err) memcpy(end.text, err->text, sizeof end.text);
    for (int node = 0; node < met->node_count; node++) {
        struct err ignored = {0};
        if (!met->links || met->links[node] < 0) continue;
        // Who is gone is not told.
        (void)!frame_write(met->links[node], FRAME_END, &end, sizeof end, socket_now_s() + 1,
                           "a node", &ignored);
    }
}
