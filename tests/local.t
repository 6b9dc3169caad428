#!/usr/bin/perl
# CLUSTER local from end to end: measured shortly, then planned and run with 1, 2 and 4 ranks, the
# cache kept and the files of `calibrate -o` used in its place.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
$ENV{XDG_CACHE_HOME} = "$folder/cache";

# Status, stdout and stderr of a command.
sub meshwright {
    my (@words) = @_;
    return answer_of("$build/meshwright", @words);
}

write_text("$folder/tiny.json", $json->encode({
    model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 4, n_positions => 32,
    vocab_size => 64,
}));
my $work = "--seq-len 16 --global-batch 8";

for my $ranks (1, 2, 4) {
    my ($status, $out, $errors) = meshwright(qw(calibrate --short --seconds 0.1 --ranks), $ranks);
    check("$ranks ranks are measured", $status == 0 && $out =~ /contract, forward/
        && ($ranks == 1 || $out =~ /all-reduce/), "$status $out $errors");
    ($status, $out, $errors) = meshwright("plan $folder/tiny.json local --ranks $ranks $work",
        "-o $folder/p.json");
    check("$ranks ranks are planned from the cache", $status == 0 && $errors !~ /measuring/,
        "$status $out $errors");
    my $plan = eval { $json->decode(text_of("$folder/p.json")) } // {};
    check("$ranks ranks in fp32 on the CPU's own stack",
        ($plan->{workload}{precision} // '') eq 'fp32'
            && text_of("$folder/p.json") =~ /"meshwright-cpu"/, $errors);
    ($status, $out, $errors) = meshwright("simulate $folder/p.json");
    check("the plan of $ranks ranks is simulated from its file", $status == 0, $errors);
    ($status, $out, $errors) = meshwright("run $folder/p.json --steps 2 -o $folder/r.json");
    my $run = eval { $json->decode(text_of("$folder/r.json")) } // {};
    check("the plan of $ranks ranks runs", $status == 0 && @{ $run->{loss} // [] } == 2,
        "$status $out $errors");
}

my ($status, $out, $errors) = meshwright("calibrate --short --seconds 0.1 --ranks 2 --quiet",
    "-o $folder/files --disk $folder --nvme $folder");
my ($rate) = text_of("$folder/cache/meshwright/local-2.json") =~
    /"host_checkpoint_bytes_per_s": ([0-9.e+]+)/;
my ($restart_s) = text_of("$folder/cache/meshwright/local-2.json") =~ /"restart_s": ([0-9.e-]+)/;
check('how fast checkpoints are stored is measured, and what a restart takes', $status == 0
    && ($rate // 0) > 0 && ($restart_s // 0) > 0
    && $out =~ /^checkpoints are stored in \Q$folder\E at \S+ [kMGT]B\/s$/m
    && $out =~ /^ranks are started again in \S+ m?s$/m
    && !glob("$folder/meshwright-disk-*"), $out . $errors);
check('device, cluster, stack and kernels are written', $status == 0
    && 4 == grep { -s "$folder/files/$_.json" } qw(device cluster stack kernels),
    "$status $out $errors");
my ($drive) = text_of("$folder/files/cluster.json") =~ /"nvme_bytes_per_s": ([0-9.e+]+)/;
my ($duplex) = text_of("$folder/files/cluster.json") =~ /"nvme_duplex_ratio": ([0-9.]+)/;
my ($free)  = text_of("$folder/files/cluster.json") =~ /"nvme_bytes": ([0-9.e+]+)/;
check('how fast files are read and written is measured', ($drive // 0) > 0 && ($free // 0) > 0
    && $out =~ /^a file in \Q$folder\E is read and written at \S+ [kMGT]B\/s in turn, /m
    && ($duplex // 0) >= 1 && $duplex <= 2 && $out =~ /^a file in .*s at once, .* are free there$/m
    && !glob("$folder/meshwright-[^d]*"), $out . $errors);

# A plan that keeps its states there says how fast the drive was; a drive that is far slower than
# the plan counts on is told, and nothing else changes.
sub run_on_drive {
    my ($name) = @_;
    my ($failed, undef, $why) = meshwright("plan $folder/tiny.json $folder/$name.json $work",
        "--stack $folder/files/stack.json --offload optimizer\@nvme -o $folder/p.json --force");
    return (-1, '', $why, {}) if $failed;
    my ($ended, $said, $lines) = meshwright("run $folder/p.json --backend cpu --steps 2",
        "--nvme $folder -o $folder/r.json --force");
    return ($ended, $said, $lines, eval { $json->decode(text_of("$folder/r.json")) } // {});
}
my $cluster = text_of("$folder/files/cluster.json");
write_text("$folder/asis.json", $cluster =~ s/("nvme_bytes_per_s": )[0-9.e+]+/${1}1000/r);
write_text("$folder/fast.json", $cluster =~ s/("nvme_bytes_per_s": )[0-9.e+]+/${1}1e14/r);
my ($ended, $said, $lines, $kept) = run_on_drive('asis');
check('a run says what it waited for and how fast its drive was', $ended == 0
    && $said =~ /^waited for what is moved +\S+ \S+ +\S+ \S+ +\S+$/m
    && $said =~ /^rate of NVMe +\S+ \S+ +\S+ \S+ +\S+$/m && $lines !~ /the drive of/
    && $kept->{compare}{measured_moved_s} > 0 && $kept->{compare}{predicted_moved_s} > 0
    && $kept->{compare}{measured_nvme_bytes_per_s} > 0, "$said$lines");
my $same;
($ended, $said, $lines, $same) = run_on_drive('fast');
check('a slow drive is one line', $ended == 0 && "@{$same->{loss}}" eq "@{$kept->{loss}}"
    && 1 == (() = $lines =~ /^meshwright run: the drive of \Q$folder\E gave a rank .*$/mg), $lines);

($status, $out, $errors) = meshwright("plan $folder/tiny.json $folder/files/cluster.json $work",
    "--stack $folder/files/stack.json -o $folder/p.json");
check('and planned with', $status == 0 && -s "$folder/p.json", "$status $out $errors");
my ($left, $runs, $said_behind) = meshwright("run $folder/p.json --backend cpu --steps 2",
    "--checkpoint $folder/ck --checkpoint-every 1 -o $folder/r.json --force");
my $saved = (eval { $json->decode(text_of("$folder/r.json")) } // {})->{checkpoints} // {};
check('what checkpoints cost is predicted where failures are not known', $left == 0
    && ($saved->{predicted_pause_s} // 0) > 0 && ($saved->{predicted_write_s} // 0) > 0,
    $said_behind);
my $own = "calibrate --short --seconds 0.1 --ranks 2 --quiet -o $folder/own";
($status, $out, $errors) = meshwright("$own --plan $folder/p.json");
check('the products of this plan are measured', $status == 0, "$status $out $errors");
($status, $out, $errors) = meshwright("simulate $folder/p.json",
    "--kernels $folder/own/kernels.json");
check('and all of it is priced by them', $status == 0
    && $out =~ /^Measured: (\d+) of \1 GEMMs .* kernel table local \(20\d\d-/m && $1 > 15,
    "$status $out $errors");
($status, $out, $errors) = meshwright("topology local --ranks 2");
check('the topology of local', $status == 0 && $out =~ /shared-memory/, "$status $out $errors");

# How often CPUs fail is not known, unless their file says so: then there is a goodput.
(undef, $out) = meshwright("topology local --ranks 2 --json");
my $told = $json->decode($out);
for my $is_told (0, 1) {
    delete $told->{failures};
    $told->{failures} = {gpu_mtbf_h => 200} if $is_told;
    write_text("$folder/told.json", $json->encode($told));
    ($status, $out, $errors) = meshwright("plan $folder/tiny.json $folder/told.json $work",
        "--gpus 2 --tokens 1e12 --json --force -o $folder/told-plan.json");
    my $found = $status ? {} : $json->decode($out)->{prediction}{reliability} // {};
    check($is_told ? 'and with failures, a goodput' : 'no failures, no goodput',
          !$status && ($is_told ? abs($found->{mtbf_s} - 360_000) < 1 : !%$found), "$out $errors");
}

($status, $out, $errors) = meshwright("plan $folder/tiny.json dgx-h100 --ranks 2 $work",
    "-o $folder/p.json");
check('other clusters have no ranks to set', $status == 2 && $errors =~ /--ranks/, $errors);
($status, $out, $errors) = meshwright("plan $folder/tiny.json local --ranks 2 $work",
    "--precision bf16 -o $folder/p.json");
check('a CPU has no bf16', $status == 2 && $errors =~ /bf16/, "$status $errors");
# Plans that this machine cannot measure, in one line and with nothing written.
for my $wrong (
    ['', 'p.json: its stack megatron-core runs GEMMs that share an input as one'],
    ["--stack $folder/files/stack.json --precision bf16",
        'p.json: it computes in bf16, which the back end cpu does not'],
) {
    meshwright("plan $folder/tiny.json dgx-h100 --gpus 2 $work $wrong->[0] -o $folder/p.json");
    ($status, $out, $errors) = meshwright("calibrate --short --seconds 0.1 --ranks 1 --quiet",
        "--plan $folder/p.json -o $folder/none");
    check("a plan it cannot measure: $wrong->[1]", $status == 3 && $out eq '' && !-e "$folder/none"
        && $errors =~ /\Ameshwright calibrate: [^\n]*\Q$wrong->[1]\E[^\n]*\n\z/,
        "$status $out $errors");
}
($status, $out, $errors) = meshwright("$own --plan $folder/missing.json");
check('a plan that is not there', $status == 3
    && $errors =~ /\A[^\n]*missing\.json[^\n]*\n\z/, "$status $errors");

open my $broken, '>', "$folder/file" or die;
close $broken;
$ENV{XDG_CACHE_HOME} = "$folder/file";
($status, $out, $errors) = meshwright("calibrate --short --seconds 0.1 --ranks 1 --quiet");
check('a cache that cannot be written is one line and 4',
    $status == 4 && $errors =~ /\Ameshwright calibrate: [^\n]*\n\z/, "$status $out $errors");
checked();
