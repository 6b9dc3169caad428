#!/usr/bin/perl
# `meshwright run` from the command line: what it prints, the files it writes against their schema,
# bytes as priced, and what it refuses. Times are never looked at.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->allow_nonref;
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

# Status, stdout and stderr of a command, words of the shell.
sub meshwright {
    my (@words) = @_;
    return answer_of("$build/meshwright", @words);
}

my %gpt2 = (model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32,
            vocab_size => 512);
write_text("$folder/tiny.json", $json->encode(\%gpt2));
write_text("$folder/narrow.json", $json->encode({%gpt2, vocab_size => 128}));
my $work = 'dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 8 --micro-batch 1 '
    . '--stack meshwright';

sub plan {
    my ($model, $choices) = @_;
    my ($status, $out, $errors) = meshwright("plan $folder/$model.json $work $choices",
                                             "-o $folder/p.json");
    die "plan $choices: $errors" if $status;
    return "$folder/p.json";
}

# The good path: table, run.json and overlay.
my $schema = $json->decode(text_of('executor/run.schema.json'));
my $plan = plan('tiny', '--gpus 4 --tp 2 --pp 2 --schedule 1f1b');
my ($status, $out, $errors) =
    meshwright("run $plan --spawn --poison --steps 3 -o $folder/run.json --trace $folder/t.json");
check('a run of four ranks ends well', $status == 0, $errors);
check('more ranks than cores are said to take turns',
      $errors =~ /^meshwright run: 4 ranks on \d cores?: they take turns$/m || `nproc` >= 4,
      $errors);
if (system('command -v taskset >/dev/null') == 0) {
    my $one = `taskset -c 0 $build/meshwright run $plan --spawn --backend cpu --steps 1 2>&1`;
    check('on the cores that it may use',
          $one =~ /^meshwright run: 4 ranks on 1 core: they take turns$/m, $one);
    my $two = `$build/meshwright run $plan --backend cpu --replay-rank 0 --steps 1 2>&1`;
    check('and one alone does not', $two !~ /take turns/, $two);
}
my $step_line = qr{^step +\d  loss \d+\.\d{4}  norm \d+\.\d{4}  rate 0\.0003  \S+ \S+, }m
    . qr{predicted \S+ \S+  \S+ tokens/s  \S+ \S+(?:  \S+ \S+ left)?$}m;
check('what is predicted and what runs are told apart',
      $errors =~ /^meshwright run: predicted for a100-sxm4-80g, run on cpu$/m, $errors);
check('each step has its line', 3 == (() = $out =~ /$step_line/g), $out);
for my $line ('a step, all ranks +pred\.  meas\. +pred\. +meas\. +pred\. +meas\. +ratio', 'tasks',
              '  F +32 ', '  send F +16 ', 'operators', '  attention +\d+ ', 'collectives',
              '  tp all-reduce +\d+ ', 'peak memory of a rank +\S+ \S+ +\S+ \S+ +1\.00',
              'between two steps +- +\S+ \S+ +-\s',
              'Loss \d\.\d{4} at step 1, \d\.\d{4} at step 3\.', 'cpu, .+, 4 ranks over host',
              "Wrote \Q$folder/run.json\E", "Wrote \Q$folder/t.json\E") {
    check("the table has: $line", $out =~ /^$line/m, $out);
}
($status, $out, $errors) = meshwright("simulate $plan --verify");
check('simulate verifies what run executes',
      $status == 0 && $out =~ /^Verified: \S+ tasks of 2 stages: every message/m, $out . $errors);
my $run = $json->decode(text_of("$folder/run.json"));
my $found = Schema::breach($run, $schema, '$');
check('run.json follows its schema', $found eq '', $found);
check('the schema can say no', Schema::breach({%$run, peak_bytes => 'many'}, $schema, '$')
    && Schema::breach({%$run, other => 1}, $schema, '$'));
check('the loss falls', $run->{loss}[2] < $run->{loss}[0]);
check('every rank has spans', 4 == keys %{ { map { $_->[0] => 1 } @{ $run->{trace} } } });

# Who sent how much to whom is what the page predicts, pair by pair: no routing decides it here.
for my $pins ('', '--tp 1 --cp 4 --cp-kind ring --pp 1 --dp 1', '--tp 1 --pp 1 --dp 4 --zero 3') {
    my ($of, $with) = ($plan, "$folder/run.json");
    if ($pins) {
        $of   = plan('tiny', "--gpus 4 $pins");
        $with = "$folder/pairs.json";
        ($status, $out, $errors) = meshwright("run $of --spawn --steps 2 -o $with");
    }
    ($status, $out, $errors) = meshwright("report $of --no-scaling --json --run $with");
    my $page = $status ? {} : $json->decode($out);
    my ($sent, $told) = map { $json->encode($page->{$_}{bytes} // [])} qw(measured_traffic traffic);
    check("pairs of ranks send what is predicted" . ($pins && ": $pins"),
          $page->{traffic}{total_bytes} && $sent eq $told, "$sent\n$told$errors");
}
plan('tiny', '--gpus 4 --tp 2 --pp 2 --schedule 1f1b');

my $trace = $json->decode(text_of("$folder/t.json"));
my %names = map { $_->{pid} => $_->{args}{name} } grep { $_->{name} eq 'process_name' } @$trace;
my @processes = map { $names{$_} } sort { $a <=> $b } keys %names;
check('predicted stands above measured', "@processes" eq join ' ',
      (map { "predicted, rank $_ of the pipeline" } 0 .. 1), (map { "measured, rank $_" } 0 .. 3));
my %spans;
$spans{$_->{pid}}{ $_->{name} }++ for grep { $_->{ph} eq 'X' } @$trace;
for my $name ('forward, micro-batch 0', 'send forward, micro-batch 0', 'norm', 'update') {
    check("both have '$name'", $spans{0}{$name} && $spans{2}{$name});
}
my @odd = grep { $_->{ph} eq 'X' && !($_->{dur} >= 0 && $_->{ts} >= 0) } @$trace;
check('spans have their times', !@odd);

($status, $out, $errors) = meshwright("run $plan --spawn --steps 1 --json -o $folder/again.json");
check('--json prints what -o holds', $status == 0 && $out eq text_of("$folder/again.json"),
      $errors);

# A back end that computes in one width says so; nothing is scaled where it is not fp16.
{
    (my $half = $work) =~ s/fp32/fp16/;
    my @planned = meshwright("plan $folder/tiny.json $half --gpus 1 -o $folder/half.json");
    die $planned[2] if $planned[0];
    ($status, $out, $errors) =
        meshwright("run $folder/half.json --backend cpu --steps 2 --json -o $folder/h.json");
    check('a plan in 16 bits runs in fp32 on the CPU', $status == 0 && $errors =~
          /^meshwright run: the plan's fp16 is computed in 32-bit numbers, and memory counted so$/m,
          $errors);
    my $run = $status ? {} : $json->decode($out);
    $found = Schema::breach($run, $schema, '$');
    check('its run.json has the scale of its losses',
          $found eq '' && "@{ $run->{loss_scale} // [] }" eq '1 1', $found);
    my $wide = $json->decode(text_of("$folder/run.json"));
    check('of plans in fp32 it has none', !$wide->{loss_scale});
    check('a norm that is not finite is null',
          Schema::breach({%$run, gradient_norm => [undef, 1]}, $schema, '$') eq '');
}

# Nor does a back end run a narrower plan in other numbers than it was priced in.
{
    my @planned = meshwright("plan $folder/tiny.json dgx-h100 --precision fp8 --seq-len 32",
                             "--global-batch 2 --gpus 1 --stack meshwright -o $folder/fp8.json");
    die $planned[2] if $planned[0];
    for my $backend ('cpu', 'cpu-half') {
        my @ran = meshwright("run $folder/fp8.json --backend $backend --steps 1");
        check("$backend refuses fp8 in one line", $ran[0] == 2 && $ran[2] =~
              /^meshwright run: --precision fp8: back end $backend runs no GEMMs in it\n\z/m
              && $ran[1] eq '' && $ran[2] !~ /computed/, $ran[2]);
    }
    @planned = meshwright("plan $folder/tiny.json dgx-h100 --precision fp8 --seq-len 32",
                          "--global-batch 2 --gpus 1 --stack meshwright-cpu");
    check('and the planner does for its stack', $planned[0] == 2 && $planned[2] =~
          /: --precision fp8: stack meshwright-cpu runs no GEMMs in it$/, $planned[2]);
}

# R9: what ranks moved is what was priced, and they held what was planned.
sub keeps_to_the_plan {
    my ($choices, $precision, $backend) = @_;
    my $name = "$choices in $precision";
    (my $workload = $work) =~ s/fp32/$precision/;
    my ($status, $out, $errors) = meshwright("plan $folder/tiny.json $workload --gpus 4 $choices",
                                             "-o $folder/p.json");
    die "plan $choices: $errors" if $status;
    ($status, $out, $errors) = meshwright("run $folder/p.json --backend $backend",
                                          "--spawn --steps 1 --json -o $folder/r.json");
    check("$name runs", $status == 0, $errors) or return;
    check("$name is computed in it", $errors !~ /is computed in/, $errors);
    my $run = $json->decode($out);
    my $wrong = '';
    for my $kind (@{ $run->{kinds} }) {
        my ($priced, $moved) = @$kind{qw(predicted_bytes measured_bytes)};
        # tests/executor/test_run_random.c looks at messages
        next if $kind->{kind} =~ /^(send|receive) /;
        next if abs($priced - $moved) <= 0.01 * $priced + 16;
        $wrong .= "$kind->{kind}: $moved bytes, priced $priced\n";
    }
    check("$name moves the bytes that are priced", $wrong eq '', $wrong);
    my ($planned, $held) = ($run->{compare}{predicted_peak_bytes}, $run->{peak_bytes});
    check("$name holds what is planned", abs($held - $planned) <= 0.01 * $planned,
          "$held, $planned");
}
for my $choices ('--tp 2 --pp 2', '--dp 4 --zero 1', '--dp 4 --zero 3', '--cp 4 --cp-kind ring',
                 '--tp 2 --dp 2 --sp on --zero 2') {
    keeps_to_the_plan($choices, 'fp32', 'auto');
    keeps_to_the_plan($choices, 'bf16', 'cpu-half');
}

# One line and the right status for what cannot be.
sub refuses {
    my ($name, $wanted, $pattern, @words) = @_;
    my ($status, $out, $errors) = meshwright('run', @words);
    $errors =~ s/^meshwright run: cpu on .*\n//m;  # which back end it is
    my $ok = $status == $wanted && $out eq '' && $errors =~ /\A$pattern\n\z/;
    check($name, $ok, "$status: $out$errors");
}
refuses('no plan', 2, 'meshwright run: missing PLAN');
refuses('no such plan', 3, 'meshwright run: cannot read .*none.json: No such file or directory',
        "$folder/none.json");
refuses('a model is no plan', 3, 'meshwright run: .*tiny.json:1:\d+: \$\S*: unknown key; .*'
        . ' missing "version", .*; and 2 more', "$folder/tiny.json");
refuses('no steps', 2, 'meshwright run: --steps: must be between 1 and \d+, found 0', $plan,
        '--steps 0');
$plan = plan('narrow', '--gpus 2 --dp 2');
refuses('text wants 256 tokens', 2,
        'meshwright run: --data text: a token a byte needs a vocabulary of 256, the model has 128',
        $plan, '--data text --spawn');
refuses('a failing rank is told of once', 4,
        'meshwright run: rank \d failed in step 0: .*exec_cuda.*', $plan, '--backend cuda --spawn')
    if !-e "$build/exec_cuda.so";
$ENV{OMPI_COMM_WORLD_SIZE} = $ENV{OMPI_COMM_WORLD_LOCAL_SIZE} = 3;
$ENV{OMPI_COMM_WORLD_RANK} = 0;
refuses('another launcher with too many ranks', 2,
        'meshwright run: the plan has 2 ranks, the launcher started 3', $plan);
delete @ENV{qw(OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_RANK)};
refuses('NVMe wants its folder', 2, 'meshwright run: --nvme DIR is missing: .*',
        plan('tiny', '--gpus 2 --dp 2 --offload optimizer\@nvme'), '--spawn');
($status, $out, $errors) = meshwright("run $folder/p.json --spawn --nvme /nowhere");
my $nowhere = 'making a file in /nowhere: No such file or directory';
check('a folder that is not there ends the run', $status == 4 && $out eq '' && $errors =~
      /^meshwright run: rank \d failed in step 0: \Q$nowhere\E\n\z/m, $errors);
# What is not executed is refused by both in the same words.
{
    my $words = '--offload optimizer with --optimizer lamb or lars is not executed, because ';
    my @asked = meshwright("plan $folder/tiny.json $work --gpus 2 --dp 2 --optimizer lamb",
                           "--offload optimizer -o $folder/lamb.json");
    check('the planner refuses what is not executed',
          $asked[0] == 2 && $asked[2] =~ /^meshwright plan: \Q$words\E/m, $asked[2]);
    (my $others = $work) =~ s/--stack meshwright/--stack megatron-core/;
    (@asked) = meshwright("plan $folder/tiny.json $others --gpus 2 --dp 2 --optimizer lamb",
                          "--offload optimizer -o $folder/lamb.json");
    refuses('so does run', 3, "meshwright run: .*lamb.json: \Q$words\E.*", "$folder/lamb.json",
            '--spawn');
    my (undef, $help) = meshwright('run --help');
    $words =~ s/ is not executed//;
    check('--help prints it', index($help, "  $words") >= 0, $help);
}
# States on the host and on a drive train alike.
{
    my %loss;
    for my $where ('none', 'optimizer', 'optimizer\@nvme') {
        my $plan = plan('tiny', "--gpus 2 --dp 2 --zero 1 --offload $where");
        ($status, $out, $errors) = meshwright("run $plan --spawn --steps 3 --json",
                                              "--nvme $folder -o $folder/moved.json");
        check("--offload $where runs", $status == 0, $errors) or next;
        my $run = $json->decode($out);
        $loss{"@{ $run->{loss} }"} = 1;
        my ($host, $drive) = @$run{qw(host_peak_bytes nvme_bytes)};
        my ($planned, $away) = @{ $run->{compare} }{qw(predicted_host_peak_bytes
                                                       predicted_nvme_bytes)};
        check("--offload $where moves what is planned",
              abs($host - $planned) <= 0.01 * $planned && abs($drive - $away) <= 0.01 * $away
              && ($host > 0) == ($where ne 'none') && ($drive > 0) == ($where =~ /nvme/), $out);
    }
    check('with the same losses', keys %loss == 1, join "\n", keys %loss);
}

# A history of runs: the first has none, the next is judged beside it, one that is 100 times slower
# is a regression, and those of another plan are left out. Only what is planted is looked for.
{
    my $plan  = plan('tiny', '--gpus 2 --tp 2 --pp 1');
    my $bench = "bench $plan --save $folder/kept/runs --runs 2 --steps 3 --threshold";
    ($status, $out, $errors) = meshwright("$bench 3%");
    my @kept = glob "$folder/kept/runs/*";
    check('bench keeps its runs', $status == 0 && @kept == 2
          && $out =~ /^No earlier runs of this plan on this machine in /m
          && !(grep { Schema::breach($json->decode(text_of($_)), $schema, '$') ne '' } @kept),
          $out . $errors);
    check('named by their date', $kept[1] =~ m{/bench-\d{8}T\d{6}Z-02\.json$}, "@kept");
    ($status, $out, $errors) = meshwright("$bench 10");
    check('and judges them beside the last', $status == 0 && $out =~ /^base: +runs .*, 2 runs/m
          && 2 == (() = $out =~ /^20\d{6}T\d{6}Z +2 /mg), $out . $errors);
    @kept = glob "$folder/kept/runs/*";
    for my $path (@kept[2, 3]) {
        my $run = $json->decode(text_of($path));
        $_ /= 100 for @{ $run->{step_s} };
        write_text($path, $json->encode($run));
    }
    for my $path (@kept[0, 1]) {
        write_text($path, text_of($path) =~ s/fnv1a64:\w{4}/fnv1a64:----/r);
    }
    ($status, $out, $errors) = meshwright("$bench 3%");
    check('one that is slower answers no', $status == 1 && $out =~ /^Regression: step /m
          && $out =~ /^2 saved runs of other plans or machines are not compared\.$/m,
          $out . $errors);
    # The page plots what is of this plan, a point a call.
    my $page = "report $plan --no-scaling --json --history";
    ($status, $out, $errors) = meshwright("$page $folder/kept/runs");
    my $told = $status == 0 ? $json->decode($out) : {};
    my @points = @{ $told->{history} // [] };
    check('report plots the history', @points == 2 && !(grep { $_->{runs} != 2
          || $_->{step_s_least} > $_->{step_s} || $_->{step_s} > $_->{step_s_most} } @points)
          && $points[1]{step_s} > 2 * $points[0]{step_s}
          && Schema::breach($told, Schema::from_file('reports/report.schema.json'), '$') eq '',
          $out . $errors);
    ($status, $out) = meshwright("report $plan --no-scaling --history $folder/kept/runs -o -");
    check('in a figure and a table', $out =~ /id="figure-history"/ && $out =~ />Over time</
          && $out =~ /2\xC2\xA0saved runs of other plans or machines are left out/, $out);
    mkdir "$folder/none";
    ($status, $out, $errors) = meshwright("$page $folder/none");
    check('where there is none it says so', $status == 3
          && $errors =~ /none: none of its 0 runs is of this plan$/m, $errors);
    ($status, $out, $errors) = meshwright("bench $folder/none.json --save $folder/new");
    check('a run that fails leaves nothing', $status == 3 && !-e "$folder/new"
          && $errors =~ /^meshwright bench: a run failed: .*none\.json: No such file/m, $errors);
    ($status, $out, $errors) = meshwright("bench $plan");
    check('bench needs a folder', $status == 2 && $errors =~ /missing --save/, $errors);
    ($status, $out, $errors) = meshwright("$bench much");
    check('and a share', $status == 2 && $errors =~ /--threshold: expected a share/, $errors);
}

($status, $out, $errors) = meshwright('run --help');
check('--help names every option', $status == 0 && !(grep { $out !~ /^  \Q$_\E /m }
      qw(PLAN --backend --steps --seed --data -o --trace --json --learning-rate --weight-decay
         --clip --spawn --transport --rendezvous --node-rank --node-count --job --poison --nvme
         --dump)), $out);
checked();
