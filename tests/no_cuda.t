#!/usr/bin/perl
# Without CUDA: what is built then, and what is said where the back end was asked for or might have
# been there.
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

# The binary beside no plug-in but the CPU's, two folders deep: it also looks one above its own.
my $bare = tempdir(DIR => $build, CLEANUP => 1);
mkdir "$bare/bin" or die;
link "$build/$_", "$bare/bin/$_" or die "$_: $!" for qw(meshwright exec_cpu.so);

# Status, stdout and stderr of a command.
sub meshwright {
    my (@words) = @_;
    return answer_of("$bare/bin/meshwright", @words);
}

write_text("$folder/tiny.json", $json->encode({
    model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
    vocab_size => 512,
}));
my ($status, $out, $errors) = meshwright("plan $folder/tiny.json dgx-h100 --gpus 1 --seq-len 16",
    "--precision fp32 --stack meshwright --global-batch 2 -o $folder/p.json");
die "no plan: $errors" if $status;

($status, $out, $errors) = meshwright("run $folder/p.json --backend cuda --steps 1 -o $folder/r");
check('--backend cuda is one line and 4', $status == 4 && $out eq '' && !-e "$folder/r"
    && $errors =~ /\Ameshwright run: [^\n]*exec_cuda\.so[^\n]*\n\z/, "$status $out $errors");
($status, $out, $errors) = meshwright("run $folder/p.json --backend auto --steps 1 -o $folder/r");
check('--backend auto runs on the CPU and says so', $status == 0 && -s "$folder/r"
    && $errors =~ /^meshwright run: cpu on [^\n]*; no CUDA: /m, "$status $errors");
($status, $out, $errors) = meshwright('calibrate --backend cuda --short --seconds 0.1');
check('calibrate --backend cuda too', $status == 4 && $out eq ''
    && $errors =~ /\Ameshwright calibrate: [^\n]*exec_cuda\.so[^\n]*\n\z/, "$status $errors");
($status, $out, $errors) =
    meshwright("calibrate --short --seconds 0.1 --ranks 1 -o $folder/files --quiet");
my $device = eval { $json->decode(text_of("$folder/files/device.json")) } // {};
check('calibrate measures the CPU', $status == 0 && ($device->{kind} // '') eq 'cpu', $errors);

# One file with another in place of a library's name, as on a machine that lacks it.
sub without {
    my ($from, $to, $name) = @_;
    my $text  = text_of($from);
    my $other = 'libnone' . substr $name, 7;
    my $count = $text =~ s/\Q$name\E/$other/g;
    write_text($to, $text);
    chmod 0755, $to;
    return $count;
}

# Without cuDNN and NCCL: fused attention and the transport are gone, the back end is not.
if (-e "$build/exec_cuda.so" && -e "$build/tests/sdpa_shapes") {
    my $needed = `readelf -d $build/exec_cuda.so`;
    check('the back end is not linked with cuDNN', $needed =~ /libcudart/
          && $needed !~ /cudnn/i, $needed);
    mkdir "$bare/less" or die;
    link "$build/$_", "$bare/less/$_" or die "$_: $!" for qw(meshwright exec_cpu.so);
    my $count = without("$build/exec_cuda.so", "$bare/less/exec_cuda.so", 'libcudnn.so.9');
    ($status, $out, $errors) = answer_of("$bare/less/meshwright",
        "run $folder/p.json --backend cuda --steps 1 -o $folder/r2");
    check('and opens where that is missing: what lacks is the device', $count > 0
          && (-e '/dev/nvidiactl' || ($status == 4 && $errors =~ /no device/)), "$count $errors");
    without("$build/tests/sdpa_shapes", "$folder/sdpa_shapes", 'libcudnn.so.9');
    ($status, $out, $errors) = answer_of("$folder/sdpa_shapes", '</dev/null');
    check('which library is missing is one line', $status == 2 && $out eq ''
          && $errors =~ /\Ano libnonen[^\n]*cannot open[^\n]*\n\z/, "$status $errors");
} else {
    check('no back end with cuDNN here # SKIP', 1) for 1 .. 3;
}
if (-e "$build/exec_nccl.so" && -e "$build/emulated/exec_cuda.so") {
    mkdir "$bare/two" or die;
    link "$build/emulated/$_", "$bare/two/$_" or die "$_: $!"
        for qw(meshwright exec_cpu.so exec_cuda.so);
    my $count = without("$build/exec_nccl.so", "$bare/two/exec_nccl.so", 'libnccl.so.2');
    local $ENV{MESHWRIGHT_EMULATED_GPUS} = 2;
    ($status, $out, $errors) = meshwright("plan $folder/tiny.json dgx-h100 --gpus 2 --dp 2",
        '--seq-len 16 --precision fp32 --stack meshwright --global-batch 2',
        "-o $folder/p2.json");
    my $run = "run $folder/p2.json --backend cuda --steps 2 --spawn";
    ($status, $out, $errors) = answer_of("$bare/two/meshwright", $run);
    check('without NCCL GPUs exchange through the memory of the host', $count > 0 && $status == 0
          && $errors =~ /exec_nccl\.so that opens: [^\n]*host/, "$count $status $errors");
    ($status, $out, $errors) = answer_of("$bare/two/meshwright", "$run --transport nccl");
    check('and NCCL alone cannot be asked for', $status == 4
          && $errors =~ /exec_nccl\.so does not open: libnone/, "$status $errors");
} else {
    check('no transport with NCCL here # SKIP', 1) for 1 .. 2;
}

my $made = `make -n CUDA_HOME=/nonexistent BUILD=$folder/build all test_programs 2>&1`;
check('without nvcc there is a build', $? == 0 && $made =~ /-o \S+meshwright /, substr $made, -400);
check('and nothing in it needs CUDA', $made !~ m{/nvcc|-lcudart|-lcudnn|-lnccl|exec_cuda\.so },
      join "\n", grep { m{/nvcc|-lcudart|-lcudnn|-lnccl|exec_cuda\.so } } split /\n/, $made);
checked();
