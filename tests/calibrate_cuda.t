#!/usr/bin/perl
# `meshwright calibrate --backend cuda` from end to end, through the CUDA back end that is emulated
# on the host: the files it writes are read by the planner, again and again; and what it says where
# there is no device.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;
$ENV{XDG_CACHE_HOME} = "$folder/cache";

# Status, stdout and stderr of a command.
sub meshwright {
    my ($binary, @words) = @_;
    return answer_of("$build/$binary", @words);
}

write_text("$folder/tiny.json", $json->encode({
    model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
    vocab_size => 128,
}));
my $work    = "$folder/tiny.json $folder/files/cluster.json --seq-len 16 --global-batch 4";
my $measure = "calibrate --backend cuda --short --seconds 0.1 -o $folder/files";

# Status, stdout and stderr of a calibration into the folder, again over what is there.
sub measured {
    my ($turn, $words) = @_;
    my ($status, $out, $errors) = meshwright('emulated/meshwright', "$measure $words");
    check("the $turn time files are written", $status == 0
        && 4 == grep { -s "$folder/files/$_.json" } qw(device cluster stack kernels),
        "$status $errors");
    check("the $turn time every precision has its rows",
        4 == grep { $out =~ /^contract, weight, $_ /m } qw(fp32 fp16 bf16 fp8), $out);
}
measured('first', '');
check('nothing is left beside them', 4 == (() = glob "$folder/files/* $folder/files/.??*"));

my $device = eval { $json->decode(text_of("$folder/files/device.json")) } // {};
my %kind   = map { $_->{key} => $_ } @{ $device->{provenance} // [] };
check('rates are measured and say where', $kind{efficiency}{kind} eq 'measured'
    && $kind{efficiency}{source} =~ /emulation on the host/, text_of("$folder/files/device.json"));
check('a device of all precisions that the back end has', $device->{kind} eq 'gpu'
    && join(' ', sort keys %{ $device->{peak_flop_per_s} }) eq 'bf16 fp16 fp32 fp8',
    join ' ', %{ $device->{peak_flop_per_s} });
my $stack = eval { $json->decode(text_of("$folder/files/stack.json")) } // {};
my %of    = map { $_->{key} => $_->{kind} } @{ $stack->{provenance} // [] };
check("the stack has the host's share measured", $stack->{host_op_s} > 0
    && $of{host_op_s} eq 'measured' && $stack->{step_overhead_s} == 0,
    text_of("$folder/files/stack.json"));

my ($status, $out, $errors) = meshwright('emulated/meshwright', "plan $work",
    "--stack $folder/files/stack.json -o $folder/p.json");
check('the planner predicts from them, in bf16', $status == 0 && $out =~ /local-gpu.* bf16/,
    "$status $out $errors");
# The products of this very plan, whether or not they are among those that are always measured.
($status, $out, $errors) = meshwright('emulated/meshwright',
    "simulate $folder/p.json --kernels $folder/files/kernels.json");
check('of its products few were measured', $status == 0
    && $out =~ /^Measured: (\d+) of (\d+) GEMMs/m && $1 < $2, "$status $out $errors");
measured('second', "--plan $folder/p.json");
check('nothing is left beside them', 4 == (() = glob "$folder/files/* $folder/files/.??*"));
($status, $out, $errors) = meshwright('emulated/meshwright',
    "simulate $folder/p.json --kernels $folder/files/kernels.json");
check('after which all of them were', $status == 0
    && $out =~ /^Measured: (\d+) of \1 GEMMs .* kernel table local \(20\d\d-/m && $1 > 15,
    "$status $out $errors");

# The fastest algorithms stand beside the rows, and runs take them from there.
my $kernels = eval { $json->decode(text_of("$folder/files/kernels.json")) } // {};
my $schema  = $json->decode(text_of('topologies/schema/kernels.schema.json'));
my $breach  = Schema::breach($kernels, $schema, '$');
check('the table is of its schema', $breach eq '', $breach);
my %shape = map { $_->{shape} => 1 } @{ $kernels->{choices} // [] };
my $count = keys %shape;
check('a choice for every shape that was measured', $count > 15
    && $count == @{ $kernels->{choices} }, $count);
my $run = "run $folder/p.json --backend cuda --steps 2 -o $folder/run.json --force";
($status, $out, $errors) = meshwright('emulated/meshwright',
    "$run --kernels $folder/files/kernels.json");
check('a run takes them from a file that is named', $status == 0
    && $errors =~ /^meshwright run: GEMMs by $count algorithms measured on 20\d\d-/m,
    "$status $out $errors");
($status, $out, $errors) = meshwright('emulated/meshwright', $run);
check('and from what CLUSTER local keeps', $status == 0
    && $errors =~ /^meshwright run: GEMMs by \d+ algorithms measured/m, "$status $errors");
$kernels->{software} = 'cuBLASLt of another year';
write_text("$folder/other.json", $json->encode($kernels));
($status, $out, $errors) = meshwright('emulated/meshwright', "$run --kernels $folder/other.json");
check('those of other libraries are not used, which is said', $status == 0
    && $errors =~ /^note: [^\n]* of another year, and not used/m && $errors !~ /GEMMs by/,
    "$status $errors");
delete $kernels->{choices};
$kernels->{provenance} = [grep { $_->{key} ne 'choices' } @{ $kernels->{provenance} }];
write_text("$folder/old.json", $json->encode($kernels));
($status, $out, $errors) = meshwright('emulated/meshwright', "$run --kernels $folder/old.json");
check('a table without any is read as before', $status == 0 && $errors !~ /GEMMs by/,
    "$status $errors");
for my $wrong (['{"shape": "x", "algorithm": "00"}', 's'],
               [join(', ', ('{"shape": "x", "algorithm": "00", "s": 1}') x 2), 'stands before']) {
    my ($choice, $says) = @$wrong;
    my $text = $json->encode($kernels) =~ s/\A\{/{"choices": [$choice], /r;
    write_text("$folder/wrong.json", $text);
    ($status, $out, $errors) = meshwright('emulated/meshwright',
        "$run --kernels $folder/wrong.json");
    check("a wrong choice is one line and 3: $says", $status == 3
        && $errors =~ /\A(?:meshwright\ run:\ cuda\ on\ [^\n]*\n)?
                      meshwright\ run:\ [^\n]*wrong\.json:\d+:\d+[^\n]*\Q$says\E[^\n]*\n\z/x,
        "$status $errors");
}

($status, $out, $errors) = meshwright('emulated/meshwright', "plan $folder/tiny.json local",
    "--seq-len 16 --global-batch 4 -o $folder/p.json");
check('CLUSTER local is the GPU that is there, from the cache', $status == 0
    && $out =~ /local-gpu/ && $errors !~ /measuring/, "$status $out $errors");
($status, $out, $errors) = meshwright('emulated/meshwright', "topology local");
check('and its topology', $status == 0 && $out =~ /local-gpu/, "$status $out $errors");

# The transport is the one that a run would choose.
{
    local $ENV{MESHWRIGHT_EMULATED_GPUS} = 2;
    ($status, $out, $errors) = meshwright('emulated/meshwright',
        "$measure --ranks 2");
}
check('with a device each over NCCL', $status == 0
    && $out =~ /^2 ranks on 2 devices, over nccl; /m && $errors eq '', "$status $out $errors");
my @missing = grep {
    my $kind = $_;
    2 > (() = $out =~ /^$kind +[0-9.]+ [KM]iB +[0-9.]+ [mu\x80-\xff]*s /mg)
} qw(all-reduce all-gather reduce-scatter all-to-all send-recv);
check('every collective by size', !@missing, "@missing: $out");

if (-e '/dev/nvidiactl') {
    check('a device is there: nothing to be said of none # SKIP', 1);
} else {
    ($status, $out, $errors) = meshwright('meshwright', $measure);
    check('without a device one line and 4', $status == 4 && $out eq ''
        && $errors =~ /\Ameshwright calibrate: [^\n]*cuda[^\n]*\n\z/, "$status $out $errors");
}
checked();
