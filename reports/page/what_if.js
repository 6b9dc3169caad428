// The planner in the page: controls ask it again, in a worker, and its answer stands beside the
// plan. The state is in the address behind #what-if?, so that it can be sent to somebody.
(function () {
  "use strict";

  const section = document.getElementById("what-if");
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const plan = data.plan;
  const MARK = "#what-if?";
  const needed = [window.WebAssembly, window.Worker, window.DecompressionStream];
  if (!needed.every(Boolean)) return;

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // Digits that a person reads, without a loss where there are few.
  function digits(value) {
    return String(Number(value.toPrecision(4)));
  }

  // Rising, with what the plan has; where it has nothing, null stands first.
  function ladder(values, start) {
    const rising = [...new Set([...values, start])].filter(value => value > 0)
      .sort((a, b) => a - b);
    return start ? rising : [null, ...rising];
  }

  const groups = plan.cluster.nodes;
  const group = groups[0];
  const isUniform = groups.length === 1;
  const allGpus = groups.reduce((sum, other) => sum + other.count * other.gpus, 0);
  const planGpus = plan.cluster.rank_count || allGpus;

  function gpuCounts() {
    const counts = [];
    const most = isUniform ? group.gpus * Math.max(8, 8 * group.count) : allGpus;
    for (let count = 1; count < group.gpus; count *= 2) counts.push(count);
    for (let nodes = 1; nodes * group.gpus <= most; nodes *= 2) {
      counts.push(nodes * group.gpus, 1.5 * nodes * group.gpus);
    }
    const hasNetwork = group.nics.count > 0 && group.nics.bandwidth_bytes_per_s > 0;
    const limit = isUniform && !hasNetwork ? group.gpus : most;
    return ladder(counts.filter(count => count <= limit && count % 1 === 0), planGpus);
  }

  function powers(start, least) {
    return ladder([-4, -3, -2, -1, 1, 2, 3, 4].map(n => start * 2 ** n)
      .filter(value => value % 1 === 0 && value >= least), start);
  }

  const RATIOS = [0.1, 0.2, 0.25, 1 / 3, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 10];
  const MEMORY_RATIOS = [0.25, 0.5, 0.6, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4];

  // A value on what the cluster has, shown as what that makes, or as a factor where groups differ.
  function scaled(key, label, unit, size, bytes, ratios) {
    const base = isUniform ? bytes / size : 1;
    return { key, label, unit: isUniform ? unit : "\u00d7", values: ratios, start: 1,
      show: ratio => Number(digits(ratio * base)), take: shown => shown / base };
  }

  function counted(key, label, unit, values, start) {
    return { key, label, unit, values, start, show: value => value, take: shown => shown,
      isWhole: true };
  }

  function controlsOfPlan() {
    const work = plan.workload;
    const price = plan.cluster.price || { currency: "USD", per_gpu_hour: null };
    const tokens = work.tokens || null;
    const rate = group.device.peak_flop_per_s[work.precision];
    const list = [
      counted("gpus", "GPUs", "", gpuCounts(), planGpus),
      counted("seq_len", "Sequence length", "tokens", powers(work.seq_len, 128), work.seq_len),
      counted("global_batch", "Batch of a step", "sequences", powers(work.global_batch, 1),
        work.global_batch),
      scaled("network_ratio", "Network", "GB/s a NIC", 1e9, group.nics.bandwidth_bytes_per_s,
        RATIOS),
      scaled("intra_ratio", "Node links", "GB/s a GPU", 1e9,
        group.intra.bandwidth_bytes_per_s, RATIOS),
      scaled("memory_ratio", "Memory of a GPU", "GiB", 2 ** 30, group.device.memory_bytes,
        MEMORY_RATIOS),
      scaled("flop_ratio", "Peak of a GPU", "TFLOP/s", 1e12, rate, RATIOS),
      { key: "price_per_gpu_hour", label: "Price of a GPU-hour", unit: price.currency,
        values: ladder(price.per_gpu_hour ? RATIOS.map(ratio => price.per_gpu_hour * ratio)
          : [0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10], price.per_gpu_hour),
        start: price.per_gpu_hour, show: value => Number(digits(value)), take: shown => shown },
      { key: "tokens", label: "Tokens of the run", unit: "billion",
        values: ladder([10, 30, 100, 300, 1e3, 2e3, 5e3, 15e3].map(n => n * 1e9), tokens),
        start: tokens, show: value => Number(digits(value / 1e9)), take: shown => shown * 1e9 },
    ];
    // What is not there has no slider.
    return list.filter(control => {
      if (control.key === "network_ratio") return group.nics.bandwidth_bytes_per_s > 0;
      if (control.key === "intra_ratio") return group.gpus > 1;
      return true;
    });
  }

  // A rank of a machine without GPUs is not called one.
  const noun = { cpu: "CPU rank", npu: "NPU" }[group.device.kind] || "GPU";
  const named = text => text.replace(/GPU/g, noun);
  const controls = controlsOfPlan().map(control => ({ ...control, label: named(control.label),
    unit: named(control.unit) }));
  const choices = makeChoices(plan, () => changed());
  const wanted = {};
  let keeps = false;

  function changeNow() {
    const change = {};
    for (const { key, start } of controls) {
      if (wanted[key] !== start && wanted[key] !== null) change[key] = wanted[key];
    }
    if (change.price_per_gpu_hour && !plan.cluster.price) change.currency = "USD";
    if (keeps) change.keep = true;
    choices.put(change);
    return change;
  }

  function isPlan(change) {
    return Object.keys(change).every(key => key === "keep" || key === "currency");
  }

  // What the page shows.

  const verdict = make("p", { class: "lead what-if-verdict", role: "status",
    "aria-live": "polite" });
  const told = make("p", { class: "soft" });
  const reason = make("p", { class: "reason" });
  const body = make("tbody");
  const table = make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...["Figure", "This plan", "What if", "Difference"]
      .map((text, i) => make("th", { scope: "col", class: i === 3 ? "number" : "" }, text)))),
    body));
  const keep = make("input", { type: "checkbox", id: "what-if-keep" });
  const reset = make("button", { type: "button", class: "copy" }, "Back to the plan");
  const save = make("button", { type: "button", class: "copy" }, "Save as plan.json");

  function nearest(values, value) {
    let best = values[0] ? 0 : 1;
    values.forEach((other, i) => {
      if (other && Math.abs(Math.log(other / value)) < Math.abs(Math.log(values[best] / value))) best = i;
    });
    return best;
  }

  function words(control, value) {
    return value === null ? "unknown" : `${control.show(value)} ${control.unit}`.trim();
  }

  function showControl(control) {
    const value = wanted[control.key];
    control.slider.value = value === null ? 0 : nearest(control.values, value);
    control.slider.setAttribute("aria-valuetext", words(control, value));
    control.number.value = value === null ? "" : control.show(value);
    control.row.classList.toggle("changed", value !== control.start);
  }

  function makeControl(control) {
    const id = `what-if-${control.key}`;
    control.slider = make("input", { type: "range", id, min: 0, max: control.values.length - 1,
      step: 1 });
    control.number = make("input", { type: "number", min: 0, step: "any",
      "aria-label": `${control.label}, ${control.unit}` });
    control.row = make("div", { class: "control" }, make("label", { for: id }, control.label),
      control.slider, make("span", { class: "value" }, control.number, ` ${control.unit}`),
      make("span", { class: "was" }, `plan: ${words(control, control.start)}`));
    control.slider.addEventListener("input", () => {
      wanted[control.key] = control.values[Number(control.slider.value)];
      changed();
    });
    control.number.addEventListener("change", () => {
      const shown = Number(control.number.value);
      const isRight = shown > 0 && (!control.isWhole || shown % 1 === 0);
      // What reads as the plan's own number is the plan's own number.
      const isStart = control.start !== null && shown === control.show(control.start);
      wanted[control.key] = !isRight || isStart ? control.start : control.take(shown);
      changed();
    });
    return control.row;
  }

  function changesText(change) {
    return controls.filter(control => control.key in change)
      .map(control => `${control.label.toLowerCase()
        .replace(/gpu|npu|cpu/g, word => word.toUpperCase())} ` +
        `${words(control, change[control.key])} instead of ${words(control, control.start)}`)
      .concat(choices.text()).join(", ");
  }

  function showFigures(figures) {
    body.replaceChildren(...figures.map(figure => {
      const side = figure.better === undefined ? "" : figure.better ? " less" : " more";
      return make("tr", {}, make("th", { scope: "row" }, figure.name),
        make("td", {}, figure.before), make("td", {}, figure.now),
        make("td", { class: `number${side}` }, figure.change || (figure.now === figure.before
          ? "same" : "")));
    }));
  }

  let answered = null;
  function showAnswer(change, answer, seconds) {
    answered = answer.plan;
    save.hidden = answer.status !== 0;
    section.classList.add("answered");
    section.classList.toggle("refused", answer.status !== 0);
    table.hidden = !answer.words;
    const list = changesText(change);
    const search = `Searched here in ${seconds.toFixed(2)} s.`;
    told.textContent = `${list ? `With ${list}. ` : ""}${search}`;
    if (answer.words) showFigures(JSON.parse(answer.words).figures);
    verdict.textContent = answer.status === 0 ? JSON.parse(answer.words).sentence
      : answer.status === 1 ? "Nothing fits." : "Not possible.";
    reason.textContent = answer.reason || "";
  }

  function showPlan() {
    answered = null;
    save.hidden = table.hidden = true;
    reason.textContent = "";
    section.classList.remove("answered", "refused");
    verdict.textContent = "Move a slider: the planner in this page searches again, and nothing " +
      "leaves your computer.";
    told.textContent = "";
  }

  // Every question has a worker of its own, which ends with the answer or when the question is no
  // longer asked.

  const base = `{"plan":${JSON.stringify(plan)},` +
    document.getElementById("planner-tables").textContent.trim().slice(1);
  const program = `${askPlanner}
    onmessage = ({ data: { module, base, change } }) => {
      const start = performance.now();
      try {
        const answer = askPlanner(module, base, change);
        postMessage({ answer, seconds: (performance.now() - start) / 1000 });
      } catch (error) {
        postMessage({ failure: error.message });
      }
    };`;
  const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  let compiled = null;

  async function compile() {
    const text = document.getElementById("planner-module").textContent.trim();
    const packed = new Blob([Uint8Array.from(atob(text), letter => letter.charCodeAt(0))]);
    const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(stream).arrayBuffer());
  }

  function ask(change, take) {
    const worker = new Worker(address);
    worker.onmessage = ({ data: { answer, seconds, failure } }) => {
      worker.terminate();
      take(answer || { status: 2, plan: null, reason: `The planner stopped: ${failure}`,
        words: null }, seconds || 0);
    };
    if (!compiled) compiled = compile();
    compiled.then(module => worker.postMessage({ module, base, change: JSON.stringify(change) }));
    return worker;
  }

  // What is asked follows the controls at a small distance, so that a drag asks once.

  let timer = 0;
  let asked = null;

  // A search of thousands of GPUs takes its time, and says so.
  function showWaiting(start) {
    if (!section.hasAttribute("aria-busy") || start !== waitingSince) return;
    const seconds = (performance.now() - start) / 1000;
    told.textContent = seconds < 2 ? "Searching\u2026"
      : `Searching for ${seconds.toFixed(0)} s\u2026`;
    setTimeout(showWaiting, 500, start);
  }

  let waitingSince = 0;
  function changed() {
    const change = changeNow();
    controls.forEach(showControl);
    choices.show();
    keep.checked = keeps;
    writeAddress(change);
    clearTimeout(timer);
    if (asked) asked.terminate();
    asked = null;
    if (isPlan(change)) {
      section.removeAttribute("aria-busy");
      showPlan();
      return;
    }
    section.setAttribute("aria-busy", "true");
    waitingSince = performance.now();
    showWaiting(waitingSince);
    timer = setTimeout(() => {
      asked = ask(change, (answer, seconds) => {
        asked = null;
        section.removeAttribute("aria-busy");
        showAnswer(change, answer, seconds);
      });
    }, 150);
  }

  function writeAddress(change) {
    const isPlain = ([key, value]) => typeof value !== "object" && key !== "currency" &&
      key !== "precision";
    const list = Object.entries(change).filter(isPlain).map(([key, value]) => `${key}=${value}`)
      .concat(choices.chosen().map(([key, value]) => `choose-${key}=${value}`));
    const isOurs = location.hash.startsWith(MARK);
    if (list.length === 0 && !isOurs) return;
    history.replaceState(null, "", list.length ? MARK + list.join("&") : "#what-if");
  }

  function readAddress(hash) {
    const parts = new URLSearchParams(hash.slice(MARK.length));
    for (const { key, start } of controls) {
      const value = Number(parts.get(key));
      wanted[key] = parts.has(key) && value > 0 ? value : start;
    }
    keeps = parts.get("keep") === "true";
    choices.choose(parts);
    changed();
  }

  function setStart() {
    for (const { key, start } of controls) wanted[key] = start;
    choices.choose(new Map());
  }

  // A plan that the search here does not find was pinned, or sought by another measure: then its
  // layout is what a change is asked of, unless the reader has asked already.
  function seeWhetherPinned() {
    ask({}, answer => {
      const found = answer.plan && JSON.stringify(JSON.parse(answer.plan).parallel);
      if (found === JSON.stringify(plan.parallel)) return;
      const isFirst = isPlan(changeNow());
      if (isFirst) keeps = keep.checked = true;
      note.textContent = " This plan is not the fastest that the search here finds" +
        (isFirst ? ", so that its layout is kept at first." : ".");
    });
  }

  const note = make("span", {});

  function build() {
    const label = make("label", { class: "keep", for: "what-if-keep" }, keep,
      named(" Keep the layout: only data parallelism follows the GPUs."), note);
    section.append(make("h2", {}, "What if"), verdict,
      make("form", { class: "controls" }, ...controls.map(makeControl),
        make("details", { class: "choices" }, make("summary", {},
          "Cluster, software, precision and pinned choices"),
        make("div", { class: "controls" }, ...choices.rows)), label,
        make("p", { class: "buttons" }, reset, " ", save)), told, reason, table);
    keep.addEventListener("change", () => {
      keeps = keep.checked;
      changed();
    });
    reset.addEventListener("click", () => {
      setStart();
      changed();
    });
    save.addEventListener("click", () => {
      const link = make("a", { download: "plan.json",
        href: URL.createObjectURL(new Blob([answered], { type: "application/json" })) });
      link.click();
    });
    section.querySelector("form").addEventListener("submit", event => event.preventDefault());
    const nav = document.querySelector("nav");
    if (nav) nav.prepend(make("a", { href: "#what-if" }, "What if"), " ");
    section.classList.add("asks");
    section.hidden = false;
  }

  setStart();
  build();
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith(MARK)) readAddress(location.hash);
  });
  if (location.hash.startsWith(MARK)) {
    const first = location.hash;
    readAddress(first);
    // Names of shipped clusters and software are known a moment later.
    if (first.includes("choose-")) choices.ready.then(() => readAddress(first));
    if (first.includes("choose-")) section.querySelector("details").open = true;
    section.scrollIntoView();
  } else {
    controls.forEach(showControl);
    showPlan();
  }
  setTimeout(seeWhetherPinned, 300);
}());
