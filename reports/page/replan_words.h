#pragma once
#include "core/json.h"

// Two plans side by side in words, as a page shows them: a JSON text
//   {"sentence": "A step takes 14.1 s instead of 27.5 s, 48.8 % less; ...",
//    "figures": [{"name": "Step", "before": "27.5 s", "now": "14.1 s", "change": "-48.8 %",
//                 "better": true}]}
// "change" is "" and "better" absent where nothing is to be said. A figure that a plan does not
// hold is left out. Both are plan.json objects; the text lives in `arena`.
char *replan_words(struct arena *arena, const struct json *before, const struct json *now);
