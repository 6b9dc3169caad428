#!/usr/bin/perl
# `meshwright run` where its ranks may not allocate what they need: named so, in one line, with exit
# status 4 and at once. Under sanitizers nothing can be limited so: they map terabytes.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};
my $limited = `sh -c 'ulimit -v 300000 && $build/meshwright --version' 2>&1`;
if ($limited !~ /^meshwright \d/) {
    print "1..0 # SKIP address space cannot be limited here\n";
    exit 0;
}

write_text("$folder/model.json", JSON::PP->new->encode(
    {model_type => 'gpt2', n_embd => 64, n_head => 4, n_layer => 2, n_positions => 64,
     vocab_size => 200_000}));
my ($status, $out, $errors) = answer_of(
    "$build/meshwright plan $folder/model.json dgx-a100-80g --precision fp32 --seq-len 64",
    "--global-batch 16 --gpus 2 --dp 2 --stack meshwright -o $folder/plan.json");
die $errors if $status;

# KiB of address space, from too little to start with to almost enough for the step: somewhere
# between them a library could have waited for ever for room of its own.
for my $limit (80_000, 200_000, 300_000, 360_000) {
    my $begun = time;
    ($status, $out, $errors) = answer_of(
        "sh -c 'ulimit -v $limit; exec timeout 60 $build/meshwright run $folder/plan.json --spawn",
        "--backend cpu --steps 1 -o $folder/run.json'");
    my @lines = grep { !/^meshwright run: (?:cpu on|predicted for)/ } split /\n/, $errors;
    check("with $limit KiB a rank is told to have run out of memory",
          $status == 4 && grep({ /^meshwright run: rank [01] ran out of memory \(.*\)/ } @lines)
          && $errors !~ /stood still/, "$status $errors");
    check('of what it may have', $errors =~ m{ of \S+ MiB, its limit of address space\)}, $errors);
    check('at once', time - $begun < 15, time - $begun);
}
checked();
