#include "reports/page/section.h"

#include <string.h>

static const char *class_of(char align)
{
    switch (align) {
    case 'n':
        return "number";
    case 'c':
        return "layout";
    case 's':
        return "source";
    default:
        return NULL;
    }
}

struct page_table page_table_open(struct markup *page, const char *aligns, bool is_sortable,
                                  const char *const *heads)
{
    // What scrolls has to be reached by keyboard as well.
    markup_print(page, "<div class=\"scroll\" tabindex=\"0\"><table%s><thead><tr>",
                 is_sortable ? " class=\"sortable\"" : "");
    for (size_t i = 0; aligns[i]; i++) {
        markup_print(page, "<th scope=\"col\"%s>", aligns[i] == 'n' ? " class=\"number\"" : "");
        markup_text(page, heads[i]);
        markup_put(page, "</th>");
    }
    markup_put(page, "</tr></thead><tbody>\n");
    return (struct page_table){page, aligns};
}

void page_table_row(const struct page_table *table, bool is_ours, const char *const *cells,
                    const double *sorts)
{
    struct markup *page = table->page;
    markup_print(page, "<tr%s>", is_ours ? " class=\"ours\"" : "");
    for (size_t i = 0; table->aligns[i]; i++) {
        const char *class = class_of(table->aligns[i]);
        markup_put(page, "<td");
        if (class) markup_attribute(page, "class", class);
        if (sorts && table->aligns[i] == 'n') markup_print(page, " data-sort=\"%.9g\"", sorts[i]);
        markup_put(page, ">");
        if (table->aligns[i] == 'c')
            markup_text(page, cells[i]);
        else
            markup_prose(page, cells[i]);
        markup_put(page, "</td>");
    }
    markup_put(page, "</tr>\n");
}

void page_table_close(const struct page_table *table)
{
    markup_put(table->page, "</tbody></table></div>\n");
}

const char *page_device_noun(const struct cluster *cluster)
{
    const char *kind = cluster->nodes[0].device->kind;
    return strcmp(kind, "cpu") == 0 ? "CPU rank" : strcmp(kind, "npu") == 0 ? "NPU" : "GPU";
}

void page_paragraph(struct markup *page, const char *text)
{
    if (!*text) return;
    markup_put(page, "<p>");
    markup_prose(page, text);
    markup_put(page, "</p>\n");
}

void page_value(struct markup *page, const char *path, const char *text)
{
    markup_put(page, "<span class=\"whole\"");
    markup_attribute(page, "data-value", path);
    markup_put(page, ">");
    markup_text(page, text);
    markup_put(page, "</span>");
}
