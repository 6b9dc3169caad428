// Asks the planner's module (wasm/planner.c). One instance an answer: its memory goes with it.
// `base` and `change` are JSON texts, see reports/page/replan.h. Returns {status, plan, reason,
// words}, but for the first texts or null; throws where the module stops (a bug, or no memory left).
function askPlanner(module, base, change) {
  let said = "";
  let memory = null;
  const text = (address, bytes) =>
    new TextDecoder().decode(new Uint8Array(memory.buffer, address, bytes));
  const system = {
    // What is said before the module stops becomes the error's text.
    fd_write(file, parts, count, written) {
      const view = new DataView(memory.buffer);
      let sum = 0;
      for (let i = 0; i < count; i++) {
        const bytes = view.getUint32(parts + 8 * i + 4, true);
        said += text(view.getUint32(parts + 8 * i, true), bytes);
        sum += bytes;
      }
      view.setUint32(written, sum, true);
      return 0;
    },
    proc_exit() {
      throw new Error(said.trim() || "the planner stopped");
    },
  };
  const imports = {};
  for (const { module: room, name } of WebAssembly.Module.imports(module)) {
    imports[room] = imports[room] || {};
    imports[room][name] = system[name] || (() => 0);
  }
  const { exports } = new WebAssembly.Instance(module, imports);
  memory = exports.memory;
  const put = words => {
    const bytes = new TextEncoder().encode(words);
    const address = exports.text_new(bytes.length);
    new Uint8Array(memory.buffer, address, bytes.length + 1).set([...bytes, 0]);
    return address;
  };
  const get = address => {
    if (!address) return null;
    const bytes = new Uint8Array(memory.buffer, address);
    return text(address, bytes.indexOf(0));
  };
  exports._initialize();
  let answer;
  try {
    const from = put(base);
    answer = exports.planner_answer(from, put(change));
  } catch (error) {
    throw new Error(said.trim() || error.message);
  }
  const [status, plan, reason, words] = new Uint32Array(memory.buffer, answer, 4);
  return { status, plan: get(plan), reason: get(reason), words: get(words) };
}
