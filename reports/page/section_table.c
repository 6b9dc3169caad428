#include "reports/page/section.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Letters of page_table_open.
static const char *class_of(char align)
{
    switch (align) {
    case 'n':
        return "number";
    case 'c':
        return "layout";
    case 's':
        return "source";
    case 'o':
        return "options";
    case 't':
        return "words";
    default:
        return NULL;
    }
}

struct page_table page_table_open(struct markup *page, const char *aligns, bool is_sortable,
                                  const char *const *heads)
{
    assert(*aligns);
    // What scrolls has to be reached by keyboard as well. Rows that are drawn as cards stay rows to
    // who hears them.
    markup_print(page,
                 "<div class=\"scroll\" tabindex=\"0\"><table role=\"table\" class=\"cards%s\">"
                 "<thead role=\"rowgroup\"><tr role=\"row\">",
                 is_sortable ? " sortable" : "");
    for (size_t i = 0; aligns[i]; i++) {
        markup_print(page, "<th role=\"columnheader\" scope=\"col\"%s>",
                     aligns[i] == 'n' ? " class=\"number\"" : "");
        markup_text(page, heads[i]);
        markup_put(page, "</th>");
    }
    markup_put(page, "</tr></thead><tbody role=\"rowgroup\">\n");
    return (struct page_table){page, aligns, heads};
}

void page_table_row(const struct page_table *table, bool is_ours, const char *const *cells,
                    const double *sorts)
{
    struct markup *page = table->page;
    markup_print(page, "<tr role=\"row\"%s>", is_ours ? " class=\"ours\"" : "");
    for (size_t i = 0; table->aligns[i]; i++) {
        const char *class = class_of(table->aligns[i]);
        // A card has no place to keep for what is not there.
        bool is_none = i > 0 && strcmp(cells[i], "-") == 0;
        if (is_none) class = class ? arena_print(page->arena, "%s none", class) : "none";
        markup_put(page, "<td role=\"cell\"");
        markup_attribute(page, "data-head", table->heads[i]);
        if (class) markup_attribute(page, "class", class);
        if (sorts && table->aligns[i] == 'n') markup_print(page, " data-sort=\"%.9g\"", sorts[i]);
        markup_put(page, ">");
        if (table->aligns[i] == 'c')
            markup_text(page, cells[i]);
        else if (table->aligns[i] == 'o' && strncmp(cells[i], "--", 2) == 0)
            page_options(page, cells[i]);
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

void page_options(struct markup *page, const char *text)
{
    struct arena *arena = page->arena;
    while (*text) {
        // Up to the next option: "--tp 2", or the words of a command before its first.
        const char *next = strstr(text + 1, " --");
        int length = next ? (int)(next - text) : (int)strlen(text);
        bool is_option = strncmp(text, "--", 2) == 0;
        if (is_option) markup_put(page, "<span class=\"option\">");
        markup_text(page, arena_print(arena, "%.*s", length, text));
        if (is_option) markup_put(page, "</span>");
        if (next) markup_put(page, " ");
        text += length + (next ? 1 : 0);
    }
}

char *page_signed_percent(struct arena *arena, double ratio)
{
    double percent = fabs(ratio) < 0.0005 ? 0 : 100 * ratio;
    const char *sign = percent < 0 ? "\xe2\x88\x92" : percent > 0 ? "+" : "";
    return arena_print(arena, "%s%.1f %%", sign, fabs(percent));
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
    assert(*path);
    markup_put(page, "<span class=\"whole\"");
    markup_attribute(page, "data-value", path);
    markup_put(page, ">");
    markup_text(page, text);
    markup_put(page, "</span>");
}
