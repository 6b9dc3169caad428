#pragma once

// The style sheet and the script of the report page (reports/page/page.css, reports/page/page.js).
const char *page_style(void);
const char *page_script(void);
