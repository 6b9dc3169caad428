#include "exchange/export.h"

#include "core/json_write.h"
#include "core/plain.h"
#include "exchange/syntax.h"
#include "plan/layout/mesh.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <string.h>

static const char *headline(struct arena *arena, const struct export_request *request)
{
    const struct prediction *prediction = &request->evaluation->prediction;
    return arena_print(arena, "%s on %s: predicted %.4g s a step, %.1f GiB of memory on a GPU",
                       request->question->model->name, request->question->cluster->name,
                       prediction->step_s, (double)prediction->peak_bytes / (1 << 30));
}

// Copies, which many programs have no option for.
static const char *copies_line(struct arena *arena, const struct export_request *request)
{
    return arena_print(arena, "%s GPUs; data parallel size %s is what the other axes leave",
                       facts_get(request->facts, "world"), facts_get(request->facts, "dp"));
}

// Of the first file of options, or of the one beside it; NULL: there is none.
static char *options_text(struct arena *arena, const struct export_request *request, bool is_beside)
{
    assert(request->question->cluster->node_count > 0);
    const struct exchange_target *target = request->target;
    const struct exchange_syntax *syntax = is_beside ? target->beside.syntax : target->syntax;
    if (!syntax) return NULL;
    const struct cluster *cluster = request->question->cluster;
    const char *lines[] = {
        arena_print(arena, "%s %s, written by meshwright %s", request->target->program,
                    request->target->version, request->version),
        plain_copy(arena, headline(arena, request)),
        copies_line(arena, request),
    };
    const struct syntax_head head = {
        .lines = lines,
        .line_count = sizeof lines / sizeof *lines,
        .opening = is_beside ? NULL : target->opening,
        .nodes = cluster->node_count,
        .gpus_per_node = cluster->rank_count / cluster->node_count,
    };
    const struct settings part = target_part(arena, target, request->settings, is_beside);
    return syntax->write(arena, &part, &head);
}

static char *environment_text(struct arena *arena, const struct export_request *request)
{
    struct settings settings = {.arena = arena};
    struct refusals unused = {0};
    static const struct exchange_row NONE[] = {{0}};
    const struct exchange_row *rows = request->target->environment;
    rows_export(rows ? rows : NONE, request->facts, false, &settings, &unused);
    struct markup text = {.arena = arena};
    markup_print(&text, "# What %s %s wants of the environment.\n", request->target->program,
                 request->target->version);
    for (int i = 0; i < settings.count; i++) {
        const struct setting *setting = &settings.items[i];
        if (setting->why) markup_print(&text, "# %s\n", setting->why);
        markup_print(&text, "export %s=%s\n", setting->key, plain_shell(arena, setting->value));
    }
    return text.text;
}

// Which stage, copy and shard a rank is.
static char *map_text(struct arena *arena, const struct export_request *request)
{
    const struct cluster *cluster = request->question->cluster;
    struct mesh mesh = mesh_make(&request->question->parallel, 0);
    assert(mesh.rank_count <= cluster->rank_count && "a rank is of the cluster");
    struct markup text = {.arena = arena};
    markup_print(&text, "rank,node,gpu");
    for (int axis = 0; axis < mesh.axis_count; axis++)
        markup_print(&text, ",%s", mesh.axes[axis].name);
    markup_print(&text, "\n");
    for (int rank = 0, node = -1, gpu = 0; rank < mesh.rank_count; rank++, gpu++) {
        if (cluster_node_of(cluster, rank) != node) gpu = 0;
        node = cluster_node_of(cluster, rank);
        markup_print(&text, "%d,%d,%d", rank, node, gpu);
        for (int axis = 0; axis < mesh.axis_count; axis++)
            markup_print(&text, ",%d", mesh_coordinate(&mesh, axis, rank));
        markup_print(&text, "\n");
    }
    return text.text;
}

static char *config_text(struct arena *arena, const struct model_config *model)
{
    struct json_writer writer = {.arena = arena};
    json_put_copy(&writer, NULL, &model->config);
    return arena_print(arena, "%s\n", writer.text);
}

int export_files(struct arena *arena, const struct export_request *request, const char *folder,
                 struct file_text files[EXPORT_FILE_MAX])
{
    assert(request->plan_text && *folder);
    const struct exchange_target *target = request->target;
    const struct cluster *cluster = request->question->cluster;
    bool is_sourced = target->syntax == &ARGUMENTS_SYNTAX;
    const struct launch launch = {
        .program = target->program,
        .version = target->version,
        .command = target->command,
        .starter = target->starter,
        .sourced = is_sourced ? target->file : NULL,
        .nodes = cluster->node_count,
        .gpus_per_node = cluster->rank_count / cluster->node_count,
    };
    int count = 0;
    // The other launchers start the first one on every node, but for one without.
    const struct launcher *launcher = request->launcher, *first = &LAUNCHERS[0];
    bool is_alone =
        launcher == first || (strcmp(launcher->name, "mpirun") == 0 && !target->starter);
    const struct {
        const char *name;
        char *text;
    } parts[] = {
        {target->file, options_text(arena, request, false)},
        {target->beside.file, options_text(arena, request, true)},
        {"environment.sh", environment_text(arena, request)},
        {launcher->file, launcher->text(arena, &launch)},
        {first->file, is_alone ? NULL : first->text(arena, &launch)},
        {"rank-map.csv", map_text(arena, request)},
        {"config.json", config_text(arena, request->question->model)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i].text) continue;
        files[count++] =
            (struct file_text){arena_print(arena, "%s/%s", folder, parts[i].name), parts[i].text};
    }
    files[count++] =
        (struct file_text){arena_print(arena, "%s/plan.json", folder), request->plan_text};
    assert(count > 0 && count <= EXPORT_FILE_MAX);
    return count;
}
