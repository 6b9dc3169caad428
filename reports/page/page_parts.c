#include "reports/page/page_parts.h"

static const char STYLE[] =
#include "reports/page/page.css.inc"
    ;
static const char SCRIPT[] =
#include "reports/page/page.js.inc"
    ;

const char *page_style(void)
{
    return STYLE;
}

const char *page_script(void)
{
    return SCRIPT;
}
