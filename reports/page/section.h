#pragma once
#include "core/json_write.h"
#include "reports/page/figure.h"

// The words and tables of the report page, a function a section. False where it has nothing to say
// and puts nothing.

bool section_verdict(struct markup *page, const struct report_facts *facts);
bool section_why(struct markup *page, const struct report_facts *facts);
bool section_why_not(struct markup *page, const struct report_facts *facts);
bool section_evidence(struct markup *page, const struct report_facts *facts);
bool section_measured(struct markup *page, const struct report_facts *facts);
bool section_step(struct markup *page, const struct report_facts *facts);
bool section_pipeline(struct markup *page, const struct report_facts *facts);
bool section_scaling(struct markup *page, const struct report_facts *facts);
bool section_alternatives(struct markup *page, const struct report_facts *facts);
bool section_inputs(struct markup *page, const struct report_facts *facts);

// The data of section_measured, "measured"; nothing where there is no run.
void measured_write(struct json_writer *writer, const struct report *report);

// Tables: `aligns` has a letter a column, 'l' a word or two, 't' sentences, 'n' numbers, 'c' a
// layout (code), 's' sources, 'o' options of a command. Sortable ones are marked for the page's
// script. Where the window is narrow each row is a card that names its cells by the heads
// (page.css), so that nothing has to be scrolled sideways.
struct page_table {
    struct markup *page;
    const char *aligns;
    const char *const *heads;
};
// `heads` has to live until the table is closed.
struct page_table page_table_open(struct markup *page, const char *aligns, bool is_sortable,
                                  const char *const *heads);
// `sorts`: a number a column that orders it, where the text does not; NULL: none.
void page_table_row(const struct page_table *table, bool is_ours, const char *const *cells,
                    const double *sorts);
void page_table_close(const struct page_table *table);

// Words of a command line, an option never apart from its value.
void page_options(struct markup *page, const char *text);
// "+43.1 %", "−2.6 %"; no sign before a zero.
char *page_signed_percent(struct arena *arena, double ratio);
// A paragraph of plain text; nothing for an empty one.
void page_paragraph(struct markup *page, const char *text);
// Text that is a number of the data at this path (see reports/page/report.h).
void page_value(struct markup *page, const char *path, const char *text);
