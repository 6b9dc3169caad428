// The controls of the planner in the page that are lists: what the plan runs on, and what is
// pinned. Each gives a change what replan.h reads.
function makeChoices(plan, changed) {
  "use strict";

  const device = plan.cluster.nodes[0].device;
  const shipped = { stacks: {}, clusters: {} };
  const PRECISIONS = ["fp32", "fp16", "bf16", "fp8", "fp4"];
  const powers = most => [1, 2, 4, 8, 16, 32, 64, 128].filter(n => n <= most).map(String);

  // `pin`: searched unless one is chosen; else the plan's own stands first.
  const list = [
    { key: "cluster", label: "Cluster", start: plan.cluster.name, values: [] },
    { key: "stack", label: "Software", start: plan.stack.name, values: [] },
    { key: "precision", label: "Precision", start: plan.workload.precision,
      values: PRECISIONS.filter(name => device.peak_flop_per_s[name] > 0) },
    { key: "tp", label: "Tensor parallel", pin: true, values: powers(64) },
    { key: "pp", label: "Pipeline stages", pin: true, values: powers(64) },
    { key: "cp", label: "Context parallel", pin: true, values: powers(32) },
    { key: "ep", label: "Expert parallel", pin: true, values: powers(128) },
    { key: "micro_batch", label: "Micro-batch", pin: true, values: powers(16) },
    { key: "zero", label: "ZeRO", pin: true, values: ["0", "1", "2", "3"] },
    { key: "recompute", label: "Recompute", pin: true, values: ["none", "selective", "full"] },
    { key: "schedule", label: "Schedule", pin: true,
      values: ["1f1b", "interleaved", "gpipe", "zb-h1", "zb-h2", "zb-v"] },
  ].filter(choice => choice.key !== "ep" || plan.parallel.ep > 1);

  function option(value, text) {
    const element = document.createElement("option");
    element.value = value;
    element.textContent = text;
    return element;
  }

  function fill(choice) {
    const others = choice.values.filter(value => value !== choice.start);
    const first = choice.pin ? option("", "searched") : option("", choice.start);
    choice.select.replaceChildren(first, ...others.map(value => option(value, value)));
  }

  list.forEach(choice => {
    const id = `what-if-choice-${choice.key}`;
    choice.select = document.createElement("select");
    choice.select.id = id;
    const label = document.createElement("label");
    label.htmlFor = id;
    label.textContent = choice.label;
    choice.row = document.createElement("div");
    choice.row.className = "control choice";
    choice.row.append(label, choice.select);
    choice.select.addEventListener("change", changed);
    fill(choice);
  });

  // What is shipped comes packed; until it is there, the plan's own is all there is.
  const ready = (async () => {
    const place = document.getElementById("planner-choices");
    if (!place || device.kind === "cpu") return;
    const packed = new Blob([Uint8Array.from(atob(place.textContent.trim()),
      letter => letter.charCodeAt(0))]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
    Object.assign(shipped, await new Response(stream).json());
    for (const [key, all] of [["cluster", shipped.clusters], ["stack", shipped.stacks]]) {
      const choice = list.find(other => other.key === key);
      choice.values = Object.keys(all);
      fill(choice);
    }
  })();

  return {
    ready,
    rows: list.map(choice => choice.row),
    // What is chosen, as it stands in the address.
    chosen() {
      return list.filter(choice => choice.select.value)
        .map(choice => [choice.key, choice.select.value]);
    },
    choose(values) {
      list.forEach(choice => {
        choice.select.value = values.get(`choose-${choice.key}`) || "";
        if (choice.select.selectedIndex < 0) choice.select.value = "";
      });
    },
    show() {
      list.forEach(choice => choice.row.classList.toggle("changed", choice.select.value !== ""));
    },
    put(change) {
      const pins = {};
      list.filter(choice => choice.select.value).forEach(({ key, pin, select }) => {
        if (pin) pins[key] = /^\d+$/.test(select.value) ? Number(select.value) : select.value;
        else if (key === "cluster") change.cluster = shipped.clusters[select.value];
        else if (key === "stack") change.stack = shipped.stacks[select.value];
        else change[key] = select.value;
      });
      if (Object.keys(pins).length > 0) change.pins = pins;
    },
    text() {
      return list.filter(choice => choice.select.value).map(choice =>
        `${choice.label.replace(/^[A-Z](?=[a-z])/, letter => letter.toLowerCase())} ` +
        choice.select.value + (choice.pin ? "" : ` instead of ${choice.start}`));
    },
  };
}
