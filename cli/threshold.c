#include "cli/threshold.h"

#include <stdlib.h>
#include <string.h>

bool threshold_read(const char *text, double *ratio, struct err *err)
{
    char *end = NULL;
    double value = strtod(text, &end);
    bool is_percent = *end == '%' && end[1] == '\0';
    bool is_number = end != text && strspn(text, "0123456789.eE-+%") == strlen(text);
    *ratio = is_percent ? value / 100 : value;
    bool is_whole = is_number && (is_percent || *end == '\0');
    if (is_whole && *ratio >= 0 && *ratio <= 10) return true;
    return err_set(err, ERR_USAGE,
                   "--threshold: expected a share from 0 to 10, as 3%% or 0.03, found \"%s\"",
                   text);
}
