#!/usr/bin/perl
# `meshwright schema`: every schema file there is has a name, each is printed as it is, and what
# commands print and write is as the schema of that name says.
use strict;
use warnings;
use File::Find;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $bin    = "$build/meshwright";
my $json   = JSON::PP->new;
$ENV{XDG_CACHE_HOME} = "$folder/cache";

my %path_of;
find(sub {
    my ($name) = /^(.+)\.schema\.json$/;
    ($path_of{$name}) = $File::Find::name =~ m{^\./(.*)} if $name;
    $File::Find::prune = 1 if $File::Find::name =~ m{^\./(?:build|\.git|tests)$};
}, '.');
my ($status, $out, $err) = answer_of("$bin schema --json");
my $listed = join ' ', sort map { $_->{name} } @{ $json->decode($out)->{schemas} };
my $there  = join ' ', sort keys %path_of;
check('all that there are are listed', $listed eq $there, "listed: $listed\nthere: $there");
my @other = grep { (answer_of("$bin schema $_"))[1] ne text_of($path_of{$_}) } sort keys %path_of;
check('each is printed as it is', %path_of > 20 && !@other, "@other");
my @titles = grep { !length($json->decode(text_of($path_of{$_}))->{title} // '') } keys %path_of;
check('each says what it is of', !@titles, "@titles");
# What a key is, and in which unit: the ends of names say the unit, and people read it
# in words.
my @units = (
    [qr/_bytes_per_s$/ => qr/bytes a second/], [qr/_flop_per_s$/ => qr/flop a second/],
    [qr/_per_s$/ => qr/ a second/],            [qr/_s$/ => qr/second/],
    [qr/_bytes$/ => qr/byte|alive/i],          [qr/_ratio$/ => qr/ratio|share|over/],
);
my @dumb;
sub look {
    my ($of, $at) = @_;
    if (ref $of eq 'ARRAY') { look($_, $at) for @$of }
    return if ref $of ne 'HASH';
    my $properties = ref $of->{properties} eq 'HASH' ? $of->{properties} : {};
    for my $key (sort keys %$properties) {
        my $property = $properties->{$key};
        next if ref $property ne 'HASH';
        my $words = $property->{description} // '';
        push @dumb, "$at.$key" if length $words < 4;
        my $is_number = ($property->{type} // '') =~ /^(?:number|integer)$/;
        my ($unit) = grep { $key =~ $_->[0] } @units;
        push @dumb, "$at.$key has no unit: $words"
            if $is_number && $unit && $words !~ $unit->[1] && $words !~ /unit|second|factor/;
    }
    look($of->{$_}, $_ eq 'properties' ? $at : "$at.$_") for sort keys %$of;
}
look($json->decode(text_of($path_of{$_})), $_) for sort keys %path_of;
check('every key is described, with its unit', !@dumb, join "\n", @dumb);
($status, $out, $err) = answer_of("$bin schema plann");
check('a slip is guessed', $status == 2 && $err =~ /did you mean "plan"\?/, $err);

my $plan  = "$folder/p.json";
my $small = '--seq-len 512 --global-batch 16';
my $rows  = 'tests/data/runs.jsonl';
my $graph = 'tests/data/memory_graph_four.json';
system "$bin plan gpt2 dgx-h100 $small --tokens 1T --price-per-gpu-hour 2 -o $plan >/dev/null 2>&1";
my $tiny = write_text("$folder/tiny.json", '{"model_type": "gpt2", "n_embd": 32, "n_head": 4, '
    . '"n_layer": 2, "n_positions": 32, "vocab_size": 512}');
my $local = "$tiny local --ranks 1 --seq-len 16 --global-batch 1";
system "$bin calibrate --short --seconds 0.1 --ranks 1 --quiet >/dev/null 2>&1";
# Schema, command, exit status; "> FILE": what it writes there.
my @answers = (
    ['plan', "plan mixtral-8x7b dgx-h100-x2 $small --json -o $folder/q.json"],
    ['prediction', "simulate $plan --json"],
    ['table-plan', "plan dlrm-mlperf-v1 dgx-h100 --global-batch 65536 -o $folder/d.json --json"],
    ['trace', "simulate $folder/d.json --trace $folder/dt.json > $folder/dt.json"],
    ['table-least', 'whatif dlrm-mlperf-v1 dgx-h100 --min-gpus --global-batch 65536 --json'],
    ['table-run', 'plan tests/data/recommendation/tiny.json local --ranks 1 --global-batch 8 '
     . "-o $folder/r.json >$folder/none; $bin run $folder/r.json --steps 1 --json"],
    ['prediction', "simulate $plan --explain --ablation --slow-rank 3=1.2 --jitter 0.1 --json"],
    ['trace', "simulate $plan --trace $folder/t.json > $folder/t.json"],
    ['report', "report $plan --no-scaling --json"],
    ['whatif', "whatif gpt2 dgx-h100 dgx-a100-80g --gpus 8..32 $small --tokens 1T --json"],
    ['whatif', "whatif gpt2 dgx-h100 --scaling --gpus 8..32 $small --json"],
    ['whatif-least', "whatif llama-3-8b dgx-h100 l40s-pcie8 --min-gpus --gpus 1..8 $small --json"],
    ['whatif-least', "whatif llama-3-70b dgx-h100 --min-gpus --gpus 1,2 $small --json", 1],
    ['whatif-largest', "whatif qwen3-8b dgx-a100-80g --largest-model $small --json"],
    ['whatif-kinds', "whatif gpt2 dgx-h100 --tensor-kinds --tp 4 $small --json"],
    ['whatif-releases', "whatif gpt2 dgx-h100 --releases --stack megatron-core $small --json"],
    ['whatif-needs', 'whatif llama-3-8b --gpus 8 --json'],
    ['whatif-needs', 'whatif gpt2 --gpus 8 --tokens 1T --price-per-gpu-hour 2 --json'],
    ['memory', "memory $graph --json"],
    ['memory', "memory $plan --json -o $folder/m.json --capacity 1000", 1],
    ['memory', 'memory tests/data/packing_good.csv --method greedy --json'],
    ['placement', "memory $plan --policies --device-memory 20e9 --json"],
    ['schedule', "memory $graph -o $folder/s.json > $folder/s.json"],
    ['plan', "memory $plan -o $folder/n.json > $folder/n.json"],
    ['graph', "models --json > $graph"],
    ['cluster', 'topology dgx-b200-x4 --json'],
    (map { [$_, "$_ --json"] } qw(models clusters devices stacks)),
    ['schemas', 'schema --json'],
    ['validation', "validate $rows --json"],
    ['validation', "validate $rows --left-out tests/data/left_out.json --json"],
    ['headline', "validate $rows --headline-out $folder/h.json > $folder/h.json"],
    ['headline', 'models > tests/validation/headline.json'],
    ['left-out', 'models > tests/validation/left_out.json'],
    ['fit', "fit $rows --json"],
    ['compare', 'compare tests/data/compare/run.json tests/data/compare/run_again.json --json'],
    ['compare-plan', "compare $plan tests/data/compare/profile.json --json --threshold 10"],
    ['kernels', 'models > topologies/kernels/simumax-b200.json'],
    ['run', "plan $local -o $folder/l.json >$folder/none; "
        . "$bin run $folder/l.json --steps 1 --json"],
);
for my $answer (@answers) {
    my ($name, $command, $wanted) = @$answer;
    my ($status, $out, $err) = answer_of("$bin $command" =~ s/ > \S+$//r);
    $out = text_of($1) if $command =~ / > (\S+)$/;
    my $value  = eval { $json->decode($out) };
    my $schema = Schema::from_file($path_of{$name});
    my $breach = defined $value ? Schema::breach($value, $schema, '$') : "no JSON: $err";
    check("as the schema $name says: $command", $status == ($wanted // 0) && $breach eq '',
          "$status $breach");
}
my $schema = Schema::from_file($path_of{rows});
my @wrong;
for my $line (split /\n/, text_of($rows) . text_of('tests/validation/published.jsonl')
        . text_of('tests/validation/later.jsonl')) {
    my $breach = Schema::breach($json->decode($line), $schema, '$');
    push @wrong, $breach if $breach ne '';
}
check('published runs are rows', !@wrong, join "\n", @wrong);
my $trace = Schema::from_file($path_of{trace});
check('a schema of events can say no',
      Schema::breach([{name => 'a', ph => 'much', pid => 0}], $trace, '$') ne '');
checked();
