// The module and the binary, asked the same: node questions.js MODULE BINARY FOLDER SEED COUNT.
// What the change of a page means is made here once more, as a cluster file and as options. Prints
// TAP; the seed is in every failure.
'use strict';
const fs = require('fs');
const vm = require('vm');
const zlib = require('zlib');
const { spawnSync } = require('child_process');

const [modulePath, binary, folder, seedText, countText] = process.argv.slice(2);
const root = `${__dirname}/../..`;
const read = path => fs.readFileSync(path, 'utf8');
vm.runInThisContext(read(`${root}/reports/page/planner.js`));
const planner = new WebAssembly.Module(zlib.gunzipSync(fs.readFileSync(modulePath)));
const tables = `"fabrics":${read(`${root}/cost_models/fabrics.json`)},` +
    `"bands":${read(`${root}/cost_models/bands.json`)}`;

let state = BigInt(seedText);
function below(count) {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    return Number(state >> 33n) % count;
}
const one = list => list[below(list.length)];

function run(args) {
    const out = `${folder}/out.json`;
    fs.rmSync(out, { force: true });
    const { status, stderr } = spawnSync(binary, ['plan', ...args, '-o', out]);
    const plan = fs.existsSync(out) ? read(out) : null;
    const said = stderr.toString().match(/^(?:meshwright plan|error): (.*)$/m);
    return { status, plan, reason: status ? (said ? said[1] : stderr.toString()) : null };
}

const BASES = [
    ['gpt2', 'dgx-h100', '--gpus', '4', '--seq-len', '1024', '--global-batch', '64'],
    ['gpt2', 'a100-pcie8-x2', '--seq-len', '512', '--global-batch', '96', '--tokens', '1T'],
    ['llama-3-8b', 'dgx-h100', '--seq-len', '4096', '--global-batch', '64'],
    ['bert-base', 'l40s-pcie8', '--seq-len', '512', '--global-batch', '128', '--stack', 'fsdp2'],
    ['qwen1.5-moe-a2.7b', 'dgx-a100-80g', '--seq-len', '2048', '--global-batch', '64'],
];

function randomChange(plan) {
    const change = {};
    const group = plan.cluster.nodes[0];
    if (below(3)) change.gpus = one([1, 2, 3, 4, 6, 8, 12, 16, group.gpus, 2 * group.gpus]);
    if (below(3) === 0) change.seq_len = one([128, 512, 1000, 2048, 8192]);
    if (below(3) === 0) change.global_batch = one([1, 16, 48, 64, 100, 256]);
    if (below(4) === 0) change.tokens = one([1e9, 2.5e11, 1e13]);
    for (const key of ['network_ratio', 'intra_ratio', 'memory_ratio', 'flop_ratio']) {
        if (below(4) === 0) change[key] = one([0.1, 0.25, 0.7, 1.5, 2, 3.3]);
    }
    if (below(4) === 0) {
        change.price_per_gpu_hour = one([0.99, 2, 7.5]);
        change.currency = plan.cluster.price ? plan.cluster.price.currency : 'EUR';
    }
    if (below(4) === 0) change.keep = true;
    if (below(4) === 0) change.pins = one([{ tp: '2' }, { tp: '1..2', zero: '1' }, { pp: 2 },
        { recompute: 'full' }, { schedule: 'gpipe', pp: '2' }, { tp: '5' }]);
    return change;
}

function changedCluster(plan, change) {
    const cluster = JSON.parse(JSON.stringify(plan.cluster));
    for (const group of cluster.nodes) {
        group.intra.bandwidth_bytes_per_s *= change.intra_ratio || 1;
        group.nics.bandwidth_bytes_per_s *= change.network_ratio || 1;
        const device = group.device;
        device.memory_bytes = Math.floor(device.memory_bytes * (change.memory_ratio || 1));
        for (const key of Object.keys(device.peak_flop_per_s)) {
            device.peak_flop_per_s[key] *= change.flop_ratio || 1;
        }
    }
    if (change.price_per_gpu_hour) {
        cluster.price =
            { per_gpu_hour: change.price_per_gpu_hour, currency: change.currency };
    }
    delete cluster.rank_count;
    return cluster;
}

// Every choice of the plan but dp where it is kept, and what is pinned by name, as options.
function pinOptions(plan, change) {
    const kept = change.keep ? Object.assign({}, plan.parallel) : {};
    for (const key of ['order', 'dp']) delete kept[key];
    if (!kept.bucket_bytes) delete kept.bucket_bytes;
    if (kept.recompute_layers < 0) delete kept.recompute_layers;
    const options = [];
    for (const [key, value] of Object.entries(Object.assign(kept, change.pins))) {
        const word = typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
        options.push(`--${key.replace(/_/g, '-')}`, word);
    }
    return options;
}

function native(plan, change) {
    const at = name => `${folder}/${name}.json`;
    const cluster = changedCluster(plan, change);
    const gpus = change.gpus || plan.cluster.rank_count ||
        plan.cluster.nodes.reduce((sum, group) => sum + group.count * group.gpus, 0);
    const work = Object.assign({}, plan.workload, change);
    fs.writeFileSync(at(plan.model.name), JSON.stringify(plan.model.config));
    fs.writeFileSync(at('cluster'), JSON.stringify(cluster));
    fs.writeFileSync(at('stack'), JSON.stringify(plan.stack));
    return run([at(plan.model.name), at('cluster'), '--stack', at('stack'),
        '--nodes', `${Math.ceil(gpus / cluster.nodes[0].gpus)}`, '--gpus', `${gpus}`,
        '--seq-len', `${work.seq_len}`, '--global-batch', `${work.global_batch}`,
        '--precision', work.precision, '--optimizer', work.optimizer,
        ...(work.tokens ? ['--tokens', `${work.tokens}`] : []), ...pinOptions(plan, change)]);
}

// What is kept is pinned one by one; a command line cannot pin all of it ("as the stack has it"), and
// so lists what its search left out.
function compared(change, plan) {
    if (!change.keep || !plan) return plan;
    const held = JSON.parse(plan);
    delete held.provenance;
    return JSON.stringify(held);
}

const count = Number(countText);
const bases = BASES.map(args => run(args));
const ends = [0, 0, 0, 0];
let faults = 0;
for (let i = 0; i < count; i++) {
    const base = one(bases);
    const plan = JSON.parse(base.plan);
    const change = randomChange(plan);
    const wanted = native(plan, change);
    const found = askPlanner(planner, `{"plan":${base.plan},${tables}}`, JSON.stringify(change));
    ends[wanted.status]++;
    const same = found.status === wanted.status &&
        compared(change, found.plan) === compared(change, wanted.plan) &&
        (change.keep || found.reason === wanted.reason);
    if (same) continue;
    faults++;
    console.error(`# seed ${seedText}, question ${i}: ${plan.model.name} on ${plan.cluster.name}, ` +
        `${JSON.stringify(change)}`);
    console.error(`# wanted ${wanted.status} ${wanted.reason}`);
    console.error(`# found  ${found.status} ${found.reason}`);
    for (const [name, text] of [['wanted', wanted.plan], ['found', found.plan]]) {
        if (text) fs.writeFileSync(`${folder}/${name}-${i}.json`, text);
    }
}
const summary = `${ends[0]} plans, ${ends[1]} where nothing fits, ${ends[2]} impossible`;
console.log(`${faults ? 'not ok' : 'ok'} 1 - ${count} answers have the binary's bytes: ${summary}`);
console.log(`${ends[0] && ends[1] && ends[2] ? 'ok' : 'not ok'} 2 - all kinds of answers came up`);
