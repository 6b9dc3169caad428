#!/usr/bin/perl
# What a launcher is given starts every process of the plan, once, with its rank's environment:
# srun, scontrol, mpirun, torchrun and accelerate are stood in for by scripts that do what those
# are documented to do with ranks and write down how they were called.
use strict;
use warnings;
use File::Path 'make_path';
use File::Temp 'tempdir';
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $binary = "$build/meshwright";
make_path("$folder/bin");

sub stand_in {
    my ($name, $text) = @_;
    write_text("$folder/bin/$name", "#!/bin/bash\n$text");
    chmod 0755, "$folder/bin/$name";
}

# A task a node; fails where one of them does, as --kill-on-bad-exit has it.
stand_in('srun', 'while [[ $1 == -* ]]; do shift; done
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do
    SLURM_NODEID=$node "$@" || exit $?
done
');
stand_in('scontrol', "printf 'first\\nsecond\\n'\n");
stand_in('mpirun', 'count=$2; shift 2; each=8
while [[ $1 == -* ]]; do
    [[ $1 != --map-by ]] || { each=${2#ppr:}; each=${each%:node}; }
    shift 2
done
for ((rank = 0; rank < count; rank++)); do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$((rank % each)) \
        OMPI_COMM_WORLD_SIZE=$count "$@" || exit $?
done
');
my $seen = "echo \"\$(basename \"\$0\") \$*"
    . " [\$NODE_RANK \$MASTER_ADDR \$RANK \$LOCAL_RANK \$WORLD_SIZE]\" >>\"$folder/calls\"\n";
stand_in($_, $seen) for qw(torchrun accelerate python);

my ($status, undef, $errors) = answer_of($binary, 'plan llama-2-7b dgx-h100-x2 --for megatron',
    "--seq-len 4096 --global-batch 64 --force -o $folder/megatron.json");
check('a plan for Megatron-LM', $status == 0, $errors);
($status, undef, $errors) = answer_of($binary, 'plan llama-2-7b dgx-h100-x2 --for accelerate',
    "--seq-len 4096 --global-batch 64 --force -o $folder/accelerate.json");
check('a plan for accelerate', $status == 0, $errors);

sub calls_of {
    my ($target, $launcher, $command) = @_;
    my $job = "$folder/$target-$launcher";
    my ($exported, undef, $why) = answer_of($binary, "export $folder/$target.json --to $target",
        "--launcher $launcher -o $job");
    check("$target is exported for $launcher", $exported == 0, $why);
    unlink "$folder/calls";
    local $ENV{PATH} = "$folder/bin:$ENV{PATH}";
    local $ENV{SLURM_JOB_NUM_NODES} = 2;
    local $ENV{SLURM_JOB_NODELIST} = 'n[1-2]';
    local $ENV{SLURM_SUBMIT_DIR} = $job;
    local $ENV{DATA_PATH} = 'data';
    delete local @ENV{qw(MASTER_ADDR NODE_RANK RANK LOCAL_RANK WORLD_SIZE)};
    my ($ran, undef, $said) = answer_of($command =~ s/JOB/$job/r);
    check("$target runs by $launcher", $ran == 0, $said);
    return [-e "$folder/calls" ? split /\n/, text_of("$folder/calls") : ()];
}

# A process a node with its rank and the first node's address, whatever starts it.
for my $target (qw(megatron accelerate)) {
    my $starter = $target eq 'megatron' ? 'torchrun' : 'accelerate';
    my $calls = calls_of($target, 'slurm', 'bash JOB/launch.sbatch');
    check("$target: a process on each node by slurm", @$calls == 2
        && !grep({ $calls->[$_] !~ /^\Q$starter\E .*\[$_ first / } 0, 1), join "\n", @$calls);
    $calls = calls_of($target, 'torchrun', 'NODE_RANK=1 MASTER_ADDR=here bash JOB/launch.sh');
    check("$target: one by hand",
        @$calls == 1 && $calls->[0] =~ /^\Q$starter\E .*\[1 here /, join "\n", @$calls);
}
my $calls = calls_of('megatron', 'mpirun', 'bash JOB/launch-mpi.sh');
my @lost = grep {
    my $local = $_ % 8;
    ($calls->[$_] // '') !~ /^python .*\[ localhost $_ $local 16\]$/
} 0 .. 15;
check('megatron: a process a GPU by mpirun', @$calls == 16 && !@lost, join "\n", @$calls);
$calls = calls_of('accelerate', 'mpirun', 'MASTER_ADDR=a bash JOB/launch-mpi.sh');
check('accelerate: one a node by mpirun',
    @$calls == 2 && !grep({ $calls->[$_] !~ /^accelerate .*\[$_ a / } 0, 1), join "\n", @$calls);
checked();
