#include "cli/report_files.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "reports/page/gnuplot.h"
#include "reports/page/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLOT_BYTES_MAX = 64 << 20 };

struct plot {
    const char *name, *path, *text;
    size_t bytes;
};

// Gnuplot writes into a folder of its own, so that nothing half-written is seen in the report's.
static const char *make_temporary(struct arena *arena, struct err *err)
{
    const char *parent = getenv("TMPDIR");
    char *folder = arena_print(arena, "%s/meshwright.XXXXXX", parent && *parent ? parent : "/tmp");
    if (mkdtemp(folder)) return folder;
    err_set(err, ERR_SYSTEM, "cannot make a temporary folder %s: %s", folder, strerror(errno));
    return NULL;
}

static bool read_plots(struct arena *arena, const char *folder, struct plot *plots, int count,
                       struct err *err)
{
    for (int i = 0; i < count; i++) {
        const char *path = arena_print(arena, "%s/%s", folder, plots[i].name);
        plots[i].text = file_read(arena, path, PLOT_BYTES_MAX, &plots[i].bytes, err);
        if (!plots[i].text) return false;
        if (!gnuplot_is_whole(plots[i].text, plots[i].bytes))
            return err_set(err, ERR_SYSTEM, "%s: gnuplot wrote a part of it alone: is there room?",
                           path);
    }
    return true;
}

static bool make_plots(struct arena *arena, const struct report_facts *facts, struct plot *plots,
                       int count, struct err *err)
{
    const char *folder = make_temporary(arena, err);
    if (!folder) return false;
    bool done = gnuplot_run(arena, report_plot_script(arena, facts, folder), err) &&
                read_plots(arena, folder, plots, count, err);
    for (int i = 0; i < count; i++)
        unlink(arena_print(arena, "%s/%s", folder, plots[i].name));
    rmdir(folder);
    return done;
}

bool report_files_write(struct arena *arena, const struct report_facts *facts, const char *folder,
                        struct err *err)
{
    const char *page = report_page(arena, facts);
    const char *const *names = report_plot_names(arena, facts);
    int count = 0;
    while (names[count])
        count++;
    struct plot *plots = ARENA_NEW(arena, struct plot, count);
    // All texts before the files: where memory runs out, none is left behind.
    for (int i = 0; i < count; i++) {
        plots[i].name = names[i];
        plots[i].path = arena_print(arena, "%s/%s", folder, names[i]);
    }
    bool has_plots = gnuplot_is_installed();
    if (has_plots && !make_plots(arena, facts, plots, count, err)) return false;
    if (!has_plots) count = 0;
    const struct file_text index = {arena_print(arena, "%s/index.html", folder), page};
    if (mkdir(folder, 0777) != 0 && errno == ENOENT && !file_write_all(&index, 1, err))
        return false;  // makes the folders above it as well
    for (int i = 0; i < count; i++) {
        if (!file_write(plots[i].path, plots[i].text, plots[i].bytes, err)) return false;
    }
    const char *said = output_said(arena, index.path);
    if (!file_write_all(&index, 1, err)) return false;
    if (!has_plots) {
        console_printf(stderr,
                       "meshwright report: gnuplot is not installed: the page has all figures, "
                       "but they are not written as files\n");
    }
    const char *beside =
        count > 0 ? arena_print(arena, " and %d figures beside it, each as SVG and PNG", count / 2)
                  : "";
    console_printf(stdout, "%s%s.\nNext: open it in a browser\n", said, beside);
    return true;
}
