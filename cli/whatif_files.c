#include "cli/whatif.h"
#include "core/file.h"
#include "core/version.h"
#include "reports/page/gnuplot.h"
#include "reports/whatif/whatif_chart.h"
#include "reports/whatif/whatif_page.h"

#include <string.h>

enum { CHART_COUNT = 2 };

bool whatif_scaling_read(struct arena *arena, const struct whatif_arguments *arguments,
                         struct whatif_scaling *scaling, struct err *err)
{
    scaling->is_asked = whatif_is_scaling(arguments);
    if (arguments->measured && !scaling_load(arena, arguments->measured, &scaling->measured, err)) {
        return false;
    }
    return !arguments->calibrate || scaling_parse(arena, arguments->calibrate, &scaling->measured,
                                                  &scaling->calibrated, err);
}

static char *picture(struct arena *arena, const struct chart *chart, const char *terminal,
                     size_t *bytes, struct err *err)
{
    const char *script =
        arena_print(arena, "set terminal %s\n%s", terminal, chart_script(arena, chart));
    return gnuplot_image(arena, script, bytes, err);
}

struct drawing {
    const char *svg_path, *svg;
    const char *png_path, *png;
    size_t png_bytes;
};

static bool draw(struct arena *arena, const char *folder, const struct chart *chart,
                 struct drawing *drawing, struct err *err)
{
    size_t svg_bytes = 0;
    drawing->svg_path = arena_print(arena, "%s/%s.svg", folder, chart->name);
    drawing->png_path = arena_print(arena, "%s/%s.png", folder, chart->name);
    drawing->svg = picture(arena, chart, "svg size 1000,590 font 'Helvetica,14' background 'white'",
                           &svg_bytes, err);
    if (!drawing->svg) return false;
    drawing->png = picture(arena, chart, "pngcairo size 1000,590 font 'Helvetica,11'",
                           &drawing->png_bytes, err);
    return drawing->png != NULL;
}

bool whatif_write(struct arena *arena, const char *folder, const struct whatif *whatif,
                  const struct scaling *scaling, const struct whatif_words *words, struct err *err)
{
    struct chart charts[CHART_COUNT] = {{.arena = arena}, {.arena = arena}};
    struct drawing drawings[CHART_COUNT] = {0};
    struct file_text files[CHART_COUNT + 4] = {
        {arena_print(arena, "%s/whatif.csv", folder), whatif_csv_text(arena, whatif)},
        {arena_print(arena, "%s/whatif.json", folder), whatif_json_text(arena, whatif, scaling)},
        {arena_print(arena, "%s/index.html", folder),
         whatif_page(arena, whatif, scaling, words, MESHWRIGHT_VERSION)},
    };
    int file_count = 3, chart_count = 0;
    const char *cluster = whatif_cluster_text(arena, whatif);
    if (cluster) {
        files[file_count++] =
            (struct file_text){arena_print(arena, "%s/cluster.json", folder), cluster};
    }
    if (whatif_pareto_chart(whatif, &charts[chart_count])) chart_count++;
    if (scaling && whatif_scaling_chart(scaling, &charts[chart_count])) chart_count++;
    for (int i = 0; i < chart_count; i++) {
        if (!draw(arena, folder, &charts[i], &drawings[i], err)) return false;
        files[file_count++] = (struct file_text){drawings[i].svg_path, drawings[i].svg};
    }
    if (!file_write_all(files, file_count, err)) return false;
    for (int i = 0; i < chart_count; i++) {
        const struct drawing *drawing = &drawings[i];
        if (!file_write(drawing->png_path, drawing->png, drawing->png_bytes, err)) return false;
    }
    return true;
}

void whatif_print_page(struct arena *arena, const struct whatif *whatif,
                       const struct scaling *scaling, const struct whatif_words *words)
{
    fputs(whatif_page(arena, whatif, scaling, words, MESHWRIGHT_VERSION), stdout);
}
