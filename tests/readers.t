#!/usr/bin/perl
# Who reads token files changes no loss by a bit, whatever the layout and however many hosts the
# plan has; what is read and broadcast is what was priced, to the byte; slow drives are told.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1, -w '/dev/shm' ? (DIR => '/dev/shm') : ());
my $json   = JSON::PP->new->allow_nonref;
my $seed   = $ENV{MESHWRIGHT_SEED} // 21;
my $schema = $json->decode(text_of('executor/run.schema.json'));
my $answer = $json->decode(text_of('reports/schema/prediction.schema.json'))->{properties}{input};
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};
print "# MESHWRIGHT_SEED=$seed\n";
srand $seed;

sub meshwright { return answer_of("$build/meshwright", @_) }

write_text("$folder/llama.json", $json->encode(
    {model_type => 'llama', hidden_size => 16, num_attention_heads => 4, num_key_value_heads => 2,
     num_hidden_layers => 2, intermediate_size => 24, vocab_size => 256,
     max_position_embeddings => 64}));
my ($status, $out, $errors) = meshwright("tokenize executor/data/alice.txt -o $folder/a.tokens");
die $errors if $status;

# Hosts of two ranks whose drives read so many bytes a second.
sub cluster {
    my ($name, $drives) = @_;
    my $cluster = $json->decode(text_of('topologies/dgx-a100-80g.json'));
    my $node = $cluster->{nodes}[0];
    @$node{qw(count gpus gpus_per_host)} = (3, 2, 2);
    @{ $node->{host} }{qw(nvme_bytes_per_s memory_bandwidth_bytes_per_s)} = ($drives, 1e9);
    $node->{nics} = {count => 2, bandwidth_bytes_per_s => 1e6};
    $cluster->{network}{latency_s} = 1e-3;
    write_text("$folder/$name.json", $json->encode($cluster));
}
cluster('three', 1e6);
cluster('slow', 1e3);
cluster('unknown', 0);

sub plan {
    my ($cluster, $choices) = @_;
    my @planned = meshwright(
        "plan $folder/llama.json $folder/$cluster.json --precision fp32 --seq-len 32",
        "--micro-batch 1 --global-batch 12 --stack meshwright $choices",
        "--force -o $folder/plan.json");
    die "plan $choices: $planned[2]" if $planned[0];
    return $planned[2];
}

my $words = "--backend cpu --steps 3 --data $folder/a.tokens --json";
sub ran {
    my ($start, $more) = @_;
    my ($status, $out, $errors) = answer_of("$start run $folder/plan.json $words $more");
    return $status ? {error => $errors} : $json->decode($out);
}

# What is not the same in what was priced and what was measured.
sub differences {
    my ($input) = @_;
    return map { "$_: $input->{\"predicted_$_\"}, not $input->{$_}" }
        grep { $input->{"predicted_$_"} != $input->{$_} }
        qw(reader_count read_bytes host_read_bytes broadcast_bytes);
}

# Layouts on one to three hosts, the last of them in part.
my @layouts = ('--gpus 4 --tp 2 --dp 2', '--gpus 4 --dp 2 --pp 2 --vpp 1',
               '--gpus 6 --dp 3 --pp 2 --schedule 1f1b', '--gpus 3 --dp 3 --zero 3',
               '--gpus 4 --cp 2 --pp 2 --dp 1', '--gpus 6 --dp 6', '--gpus 6 --dp 3 --tp 2');
my @drawn = map { splice @layouts, int rand @layouts, 1 } 1 .. 3;
for my $choices (@drawn) {
    plan('three', $choices);
    my $masked = rand() < 0.5 ? '--mask-documents ends' : '';
    my $held = rand() < 0.5 ? '--validate-every 2 --validate-batches 1' : '';
    my $each = ran("$build/meshwright", "--spawn $masked $held");
    my @wrong = $each->{error} ? $each->{error} : differences($each->{input});
    check("$choices $masked: every rank reads as priced", !@wrong, "@wrong");
    for my $readers ('host', 'one') {
        my $found = ran("$build/meshwright", "--spawn --readers $readers $masked $held");
        my @faults = $found->{error} ? $found->{error} : differences($found->{input});
        push @faults, "losses @{$found->{loss}}, not @{$each->{loss}}"
            if !@faults && "@{$found->{loss}}" ne "@{$each->{loss}}";
        push @faults, grep { $_ ne '' } Schema::breach($found, $schema, '$') if !@faults;
        check("$choices $masked: $readers reads, losses are the same bits", !@faults, "@faults");
    }
}

# By hand: six ranks that look at two sequences of 34 ids of 2 bytes each. 816 bytes are read; a
# host's four sequences are 4 * 34 * 8 = 1,088 bytes on their way, all of them 3,264.
plan('three', '--gpus 6 --dp 6');
sub priced {
    my ($readers) = @_;
    my ($status, $out, $errors) =
        meshwright("simulate $folder/plan.json --readers $readers --json");
    my $found = $status ? {error => $errors} : $json->decode($out);
    my $breach = $status ? $errors : Schema::breach($found->{input}, $answer, '$.input');
    check("$readers: as the schema says", $breach eq '', $breach);
    return $found->{input};
}
sub near { return abs($_[0] - $_[1]) <= 1e-12 * abs $_[1] }
my $each = priced('rank');
check('every rank reads its own', $each->{reader_count} == 6 && $each->{read_bytes} == 816
      && $each->{host_read_bytes} == 272 && near($each->{read_s}, 272e-6)
      && $each->{broadcast_bytes} == 0 && $each->{wait_s} == 0, $json->encode($each));
my $host = priced('host');
check('one a host hands them on through memory', $host->{reader_count} == 3
      && $host->{read_bytes} == 816 && $host->{broadcast_bytes} == 3 * 1088
      && near($host->{broadcast_s}, 2 * 2 * 1088 / 1e9), $json->encode($host));
# Two rounds down a tree of three hosts.
my $one = priced('one');
check('one for all hands them on down a tree', $one->{reader_count} == 1
      && near($one->{read_s}, 816e-6) && $one->{broadcast_bytes} == 2 * 3264 + 3 * 1088
      && near($one->{broadcast_s}, 2 * (1e-3 + 3264 / 1e6) + 2 * 2 * 1088 / 1e9),
      $json->encode($one));

# On hosts with a transport between them.
# MPI gives back less than it takes.
$ENV{ASAN_OPTIONS} = join ':', $ENV{ASAN_OPTIONS} // (), 'detect_leaks=0';
if (-e "$build/exec_mpi.so" && grep { -x "$_/mpirun" } split /:/, $ENV{PATH}) {
    local @ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM MESHWRIGHT_RANKS_PER_HOST)}
        = (1, 1, 2);
    my $alone = ran("$build/meshwright", '--spawn');
    my $found = ran("mpirun --oversubscribe --bind-to none -n 6 $build/meshwright",
                    '--readers one --transport mpi');
    my @faults = $found->{error} ? $found->{error} : differences($found->{input});
    check('over MPI, too', !@faults && "@{$found->{loss}}" eq "@{$alone->{loss}}", "@faults");
} else {
    skipped('over MPI, too', 'no mpirun');
}

# Where the drives are the bottleneck it is said, asked for or not; where they are unknown, that.
my $said = plan('slow', '--gpus 6 --dp 6');
check('plan flags slow drives', $said =~ /^warning: the input is the bottleneck: reading a step's/m
      && $said =~ / data takes 272 ms, the step /, $said);
(undef, $out, $errors) = meshwright("simulate $folder/plan.json --readers host");
check('simulate flags them, and says how much is read', $errors =~ /^warning: the input is/m
      && $out =~ /^Input: one rank on each of 3 hosts reads 816 B a step in all, 272 B off/m,
      "$out$errors");
$said = plan('unknown', '--gpus 6 --dp 6');
(undef, $out, $errors) = meshwright("simulate $folder/plan.json --readers host");
check('a speed that is not given is not guessed', $said . $errors !~ /bottleneck/
      && $out =~ /how long that takes is not known: the cluster gives no nvme_bytes_per_s/,
      "$said$out$errors");

# A reader that finds its file damaged ends all, with its own words.
my $bytes = text_of("$folder/a.tokens");
substr($bytes, 5000, 1) ^= "\x01";
write_text("$folder/b.tokens", $bytes);
(undef, $out, $errors) = meshwright("run $folder/plan.json --spawn --backend cpu --steps 100",
                                    "--data $folder/b.tokens --readers one");
check('a damaged file ends the run', $errors =~ /^meshwright run: rank 0 failed in step 1, /m
      && $errors =~ m{/b\.tokens: tokens 0 to 32767 are damaged: }, $errors);

sub refused {
    my ($name, $pattern, $more) = @_;
    my ($status, $out, $errors) =
        meshwright("run $folder/plan.json --backend cpu --steps 1 $more");
    check($name, $status == 2 && $out eq '' && $errors =~ /^meshwright run: $pattern$/m, $errors);
}
refused('readers of no files', '--readers wants files: --data FILE', '--readers host');
refused('a rank alone', '--readers: a rank alone reads for itself',
        "--replay-rank 0 --readers host --data $folder/a.tokens");
checked();
