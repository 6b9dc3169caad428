#!/usr/bin/perl
# Fails each read, write and fsync of the commands that plan, price, list and translate, one at a
# time (tests/IoFail.pm).
use strict;
use warnings;
use JSON::PP;
use lib 'tests';
use IoFail;
use Script;

$ENV{MESHWRIGHT_DATA} = few_data();
every('topology dgx-a100-80g --json', '');
every("topology dgx-a100-80g -o $tmp/out/c.json", 'c.json');
every($_, '') for 'models', 'clusters', 'devices', 'stacks', 'schema', 'schema plan',
    'completion bash', 'man plan', 'help plan';
every("plan $work -o $tmp/out/p.json", 'p.json');
every("plan $work --json -o $tmp/out/p.json", 'p.json');
my $bare = write_text("$tmp/bare.json", '{"model_type": "gpt2"}');
every('plan ' . ($work =~ s/\S+/$bare/r) . " -o $tmp/out/p.json", 'p.json');
my $layouts = write_text("$tmp/a.txt", "attention.out: seq/tp\n");
every("plan $work --annotate $layouts -o $tmp/out/p.json", 'p.json');
every("plan $work --per-operator -o $tmp/out/p.json", 'p.json');
every("simulate $tmp/p.json --trace $tmp/out/t.json", 't.json');
every("whatif $tmp/tiny.json dgx-a100-80g --gpus 2 --precision fp32 --seq-len 32 --global-batch 8 "
    . '--tp 1 --cp 1 --pp 2 --micro-batch 1 --zero 0 --recompute none --schedule 1f1b --csv', '');
every("memory $tmp/p.json --method greedy -o $tmp/out/m.json", 'm.json');
answer_of("$build/meshwright memory tests/data/packing_good.csv -o $tmp/whole.csv");
my $whole = text_of("$tmp/whole.csv");
every("memory tests/data/packing_good.csv -o $tmp/out/a.csv", 'a.csv', sub { $_[0] eq $whole });
every("strategy tests/data/strategy.json --time-limit 0.01 -o $tmp/out/s.json", 's.json');
every("validate tests/data/runs.jsonl --family kempner --headline-out $tmp/out/h.json", 'h.json');
every('import tests/data/exchange/train_mixtral_8x7b_distributed.sh --json', '');
every("import tests/data/exchange/train_mixtral_8x7b_distributed.sh -o $tmp/out/i.json", 'i.json');
my $fit = 'fit tests/data/runs.jsonl --leave-out none --coarse --date 2026-11-22 -o';
every_file($fit, 1, ['write', 'fsync']);
every_file($fit, 5, ['read']);
# gnuplot looks at none of its own writes, and reads its script byte by byte.
every_file("report $tmp/p.json --no-scaling -o", 1, ['fsync']);
{
    local $ENV{PATH} = "$tmp/bin";
    mkdir "$tmp/bin";
    symlink '/bin/sh', "$tmp/bin/sh";
    every_file("report $tmp/p.json --no-scaling -o", 1, ['read', 'write', 'fsync']);
}
checked();
