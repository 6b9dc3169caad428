#!/usr/bin/perl
# Every shipped data file, and every file that a command writes about plans, is as its schema says.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script qw(check checked text_of);

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new;

my @shipped = (
    ['topologies/*.json',         'topologies/schema/cluster.schema.json'],
    ['topologies/devices/*.json', 'topologies/schema/device.schema.json'],
    ['topologies/kernels/*.json', 'topologies/schema/kernels.schema.json'],
    ['topologies/offers/*.json',  'topologies/schema/offers.schema.json'],
    ['cost_models/stacks/*.json', 'cost_models/schema/stack.schema.json'],
    ['cost_models/bands.json',    'cost_models/schema/bands.schema.json'],
    ['cost_models/fabrics.json',  'cost_models/schema/fabrics.schema.json'],
);
for my $kind (@shipped) {
    my ($pattern, $path) = @$kind;
    my $schema = Schema::from_file($path);
    my @files  = glob $pattern;
    my @found  = grep { $_ ne '' } map {
        my $breach = Schema::breach($json->decode(text_of($_)), $schema, '$');
        $breach eq '' ? '' : "$_: $breach"
    } @files;
    check("$pattern is as $path says", @files && !@found, join "\n", scalar @files, @found);
}

# Plans and reports: of one GPU; with stages, experts, copies to the host, money, and all that may
# be injected; of what does not fit.
my $priced = $json->decode(text_of('topologies/dgx-h100.json'));
$priced->{price} = {per_gpu_hour => 2, currency => 'USD'};
open my $file, '>:raw', "$folder/priced.json" or die $!;
print $file $json->encode($priced);
close $file;
my $plans   = Schema::from_file('plan/plan.schema.json');
my $reports = Schema::from_file('reports/report.schema.json');
my $broken;
for my $case (
    ['gpt2 dgx-a100-40g --gpus 1 --seq-len 512 --global-batch 8', '--no-scaling', 0],
    ["mixtral-8x7b $folder/priced.json --nodes 2 --seq-len 4096 --global-batch 64 --tokens 1T",
     '--gpus 8..32 --slow-rank 3=1.2 --degraded-nic 0=0.5 --slow-link 0..1=0.7 --jitter 0.05 '
     . '--spares 1 --repair-s 3600', 0],
    ["gpt2 $folder/priced.json --nodes 3 --seq-len 1024 --global-batch 64 --tokens 1T --idle ok",
     '--no-scaling', 0],
    ['llama-3-8b l40s-pcie8 --nodes 1 --seq-len 4096 --global-batch 32 --offload optimizer',
     '--no-scaling', 0],
    ['gpt2 dgx-h100 --seq-len 512 --global-batch 16 --tokens 1T',
     '--checkpoint-bandwidth 1 --gpus 8', 0],
    ['llama-3-70b dgx-a100-80g --seq-len 4096 --global-batch 16 --tp 8 --pp 1 --dp 1',
     '--gpus 8..64', 1],
) {
    my ($asked, $options, $wanted) = @$case;
    my ($name) = split / /, $asked;
    my $plan = `$build/meshwright plan $asked -o $folder/plan.json --json 2>$folder/stderr`;
    my $status = $? >> 8;
    my $breach = $plan ? Schema::breach($json->decode($plan), $plans, '$') : 'nothing printed';
    check("the plan of $name is as its schema says", $status == $wanted && $breach eq '',
          "$status $breach\n" . text_of("$folder/stderr"));
    my $report = `$build/meshwright report $folder/plan.json $options --json 2>$folder/stderr`;
    $status = $? >> 8;
    my $data = $report ? $json->decode($report) : {};
    $breach = Schema::breach($data, $reports, '$');
    check("its report, too", $status == 0 && $breach eq '',
          "$status $breach\n" . text_of("$folder/stderr"));
    $broken = $data;
}
my $script = 'tests/data/exchange/train_mixtral_8x7b_distributed.sh';
my $pins   = `$build/meshwright import $script --json 2>$folder/stderr`;
my $breach = $pins ? Schema::breach($json->decode($pins),
                                    Schema::from_file('exchange/pins.schema.json'), '$')
                   : 'nothing printed';
check('what is imported is as its schema says', $breach eq '', $breach);
$broken->{memory}{stages}[0]{peak_bytes} = 'many';
check('a schema can say no', Schema::breach($broken, $reports, '$') =~ /peak_bytes: no integer/);
checked();
