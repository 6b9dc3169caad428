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

my $made = `make -n CUDA_HOME=/nonexistent BUILD=$folder/build all test_programs 2>&1`;
check('without nvcc there is a build', $? == 0 && $made =~ /-o \S+meshwright /, substr $made, -400);
check('and nothing in it needs CUDA', $made !~ m{/nvcc|-lcudart|-lcudnn|-lnccl|exec_cuda\.so },
      join "\n", grep { m{/nvcc|-lcudart|-lcudnn|-lnccl|exec_cuda\.so } } split /\n/, $made);
checked();
