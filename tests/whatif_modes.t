#!/usr/bin/perl
# Every option of `whatif` in every question that it asks: it changes the answer, or it is refused
# in one line that names it. None is read and forgotten. The list of options is that of --help, so
# that a new one is asked for here.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script qw(check checked text_of write_text);

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

open my $file, '>', "$folder/measured.csv" or die $!;
print $file "gpus,tokens_per_s_per_gpu\n8,100000\n";
close $file;

# Two of what is shipped: four are asked for the same four times.
my $offers = decode_json(text_of('topologies/offers/rental-2024.json'));
$#{ $offers->{offers} } = 1;
write_text("$folder/offers.json", encode_json($offers));

# What each question is asked with; --json has the digits. Those that search often search little:
my $little = '--recompute none --schedule 1f1b';
# The largest model of a small device is small, and soon found.
my $small = "$little --micro-batch 1 --device-memory 8e9";
my %modes = (
    sweep   => { model => 'gpt2', clusters => 'dgx-a100-80g', words => '' },
    offers  => { model => 'gpt2', clusters => '', words => "--offers $folder/offers.json $little" },
    scaling => { model => 'gpt2', clusters => 'dgx-a100-80g', words => '--scaling' },
    least   => { model => 'llama-2-7b', clusters => 'dgx-a100-80g', words => '--min-gpus' },
    largest => { model => 'gpt2', clusters => 'dgx-a100-80g',
                 words => "--largest-model $small" },
    kinds   => { model => 'llama-2-7b', clusters => 'dgx-a100-80g',
                 words => "--tensor-kinds --tp 4 $little" },
    releases => { model => 'llama-2-7b', clusters => 'dgx-a100-80g',
                  words => "--releases --dp 8 $little" },
    # Few devices train in fp8, and each is searched at one size.
    needs   => { model => 'gpt2', clusters => '', words => '--precision fp8 --gpus 1' },
);
# Pins are searched with the same code whatever is asked: elsewhere one stands for all.

# A value of each, and what else it needs to mean something: options, or another model.
my %values = (
    '--gpus' => '2', '--nodes' => '2', '--seq-len' => '256', '--global-batch' => '32',
    '--batch-per-gpu' => '4', '--precision' => 'fp32',
    '--bandwidth-factor' => ['0.5', nodes => 1], '--intra-bandwidth-factor' => ['0.5', tokens => 1],
    '--memory-factor' => '0.3', '--flops-factor' => '0.5',
    '--price-factor' => ['2', price => 1], '--deadline' => '30d',
    '--budget' => ['100', price => 1], '--min-gpus' => '',
    '--largest-model' => ['', more => $small],
    '--releases' => ['', stack => 'megatron-core'],
    '--tensor-kinds' => ['', more => '--tp 4'], '--tp-kind' => ['2d', more => '--tp 4'],
    '--tp-relay' => ['2', more => '--tp 4 --sp on'],
    '--loss-chunks' => '2',
    '--device-memory' => '2e9', '--replica-batches' => undef,
    '--stage-tp' => undef, '--stage-ranks' => undef, '--branches' => undef,
    '--scaling' => '', '--calibrate' => '8=100000', '--measured' => "$folder/measured.csv",
    '--offers' => 'rental-2024', '--price-per-gpu-hour' => ['2', tokens => 1], '--ranks' => '2',
    '--currency' => ['EUR', price => 1, tokens => 1],
    '--currency-rate' => ['CNY=0.14', cluster => 'rtx4090-pcie8'],
    '--optimizer' => 'sgd', '--clip' => ['off', more => '--micro-batch 2'], '--tokens' => '1e10',
    '--expert-imbalance' => ['3', moe => 1], '--capacity-factor' => ['1.5', moe => 1],
    '--dp' => '2', '--tp' => '2', '--sp' => ['on', more => '--tp 4'], '--cp' => '2',
    '--cp-kind' => ['ulysses', more => '--cp 2'], '--pp' => '2', '--vpp' => ['3', more => '--pp 2'],
    '--sp-h' => '2', '--sp-w' => '2', '--lora' => '8',
    '--ep' => ['2', moe => 1], '--etp' => ['2', moe => 1], '--micro-batch' => '1', '--zero' => '3',
    '--zero-group' => ['2', more => '--zero 3'], '--recompute' => 'full',
    '--zero-gradients' => ['2', more => '--zero 2'],
    '--zero-parameters' => ['2', more => '--zero 3'],
    '--recompute-layers' => ['3', more => '--recompute full'],
    '--schedule' => ['gpipe', more => '--pp 2'],
    '--in-flight' => ['1', more => '--pp 2 --schedule zb-auto'], '--offload' => 'optimizer',
    '--stages' => ['6,6', more => '--pp 2'], '--attention' => 'unfused', '--overlap' => 'none',
    '--bucket-bytes' => '100000', '--passes' => 'none', '--forbid' => 'tp=1', '--stack' => 'fsdp2',
    '--kernels' => undef, '--objective' => 'memory', '--checkpoint-interval' => ['60', tokens => 1],
    '--checkpoint-bandwidth' => ['1e6', tokens => 1], '--async-checkpoints' => ['', tokens => 1],
    '--restart-s' => ['9000', tokens => 1], '--spares' => ['2', tokens => 1],
    '--repair-s' => ['1e6', tokens => 1], '--top' => ['1', more => '--memory-factor 1,0.5'],
    '--json' => '', '--csv' => '', '--idle' => undef,  # tests/golden/idle.transcript
    '-o' => "$folder/out", '--workers' => undef, '--force' => undef,
);
my %pins = map { $_ => 1 }
    qw(--dp --tp-kind --tp-relay --sp --cp --cp-kind --pp --vpp --ep --etp --micro-batch --zero
       --zero-group --zero-gradients --zero-parameters --recompute --recompute-layers --schedule
       --in-flight --offload --stages --attention --overlap --bucket-bytes --passes --forbid
       --expert-imbalance --capacity-factor --optimizer --clip --sp-h --sp-w --lora);

sub ask {
    my ($words) = @_;
    my $out = `$build/meshwright $words 2>$folder/stderr`;
    my $status = $? >> 8;
    open my $said, '<', "$folder/stderr" or die $!;
    local $/;
    return ($status, $out, scalar <$said>);
}

sub words_of {
    my ($mode, $option, %needs) = @_;
    my ($model, $clusters) = @{ $modes{$mode} }{ 'model', 'clusters' };
    $model = 'qwen1.5-moe-a2.7b' if $needs{moe};
    $clusters = $needs{cluster} if $needs{cluster} && $clusters;
    my $asked = $modes{$mode}{words};
    $asked =~ s/$option \S+// if $mode eq 'needs' || $option eq '--device-memory';
    my $words = "whatif $model $clusters $asked";
    $words .= ' --seq-len 512' if $option ne '--seq-len';
    $words .= ' --global-batch 16' if $option ne '--global-batch' && $option ne '--batch-per-gpu';
    my $counts = $mode =~ /^(sweep|scaling|largest|kinds|releases)$/;
    $words .= $mode eq 'largest' ? ' --gpus 2' : ' --gpus 8'
        if $counts && !$needs{nodes} && $option ne '--gpus' && $option ne '--nodes';
    $words .= ' --nodes 2' if $counts && $needs{nodes};
    my $runs = $mode !~ /^(least|largest|kinds|releases)$/;
    $words .= ' --tokens 1e9' if $runs && $needs{tokens} && $option ne '--tokens';
    $words .= ' --price-per-gpu-hour 2' if $runs && $needs{price} && $mode ne 'offers';
    $words =~ s/\Q$little\E// if ($needs{more} // '') eq $small;
    $needs{more} =~ s/--device-memory \S+// if $needs{more} && $mode eq 'offers';
    $words .= " $needs{more}" if $needs{more} && ($option ne '--top' || $mode eq 'sweep');
    # One that has every ability that is asked for here.
    my $stack = $mode eq 'releases' ? 'megatron-core' : $needs{stack} // 'meshwright';
    $words .= " --stack $stack" if $option ne '--stack';
    my $is_form = $option =~ /^(--json|--csv|--top)$/;
    return $is_form ? $words : "$words --json";
}

my %answers;
my ($status, $help) = ask('help whatif');
my @options = $help =~ /^  (-\S+)/mg;
check('all options are known here', "@{[sort @options]}" eq "@{[sort keys %values]}",
      join(' ', grep { !exists $values{$_} } @options));

for my $mode (sort keys %modes) {
    for my $option (@options) {
        next if !defined $values{$option} || ($mode ne 'sweep' && $pins{$option});
        my ($value, %needs) = ref $values{$option} ? @{ $values{$option} } : $values{$option};
        next if $mode ne 'needs' && $modes{$mode}{words} =~ /^\Q$option\E\b/;
        my $base = words_of($mode, $option, %needs);
        # The least number of GPUs is that of one node, whose NICs are idle.
        next if $mode eq 'least' && $option eq '--bandwidth-factor';
        $answers{$base} //= [ask($base)];
        my ($before_status, $before) = @{ $answers{$base} };
        my ($after_status, $after, $said) = ask("$base $option $value");
        my $names = $said =~ /^meshwright whatif: .*\Q$option\E/m;
        my $refused = $after_status == 2 && $after eq '' && $names;
        my $wrote = $option eq '-o' && -s "$folder/out/whatif.json";
        check("$mode: $option is refused or has its say",
              $refused || $before_status < 2
                  && ($wrote || ($after_status < 2 && $before ne $after)),
              "$base $option $value: $before_status, $after_status $said");
        unlink glob "$folder/out/*";
    }
}

# What was ignored once, in one line each.
my @refused = (
    ['gpt2 dgx-a100-80g --tokens 0', '--tokens: must be between 1 and 1e+30, found 0'],
    ['gpt2 --nodes 2', '--nodes needs a CLUSTER'],
    ['gpt2 dgx-a100-80g --price-factor 2',
     '--price-factor: no cluster has a price; --price-per-gpu-hour gives one'],
    ['gpt2 dgx-a100-80g --currency EUR',
     '--currency is of --price-per-gpu-hour or --currency-rate'],
    ['gpt2 dgx-a100-80g --currency-rate CNY=0.14', '--currency-rate: no price is in CNY'],
    ['gpt2 rtx4090-pcie8 --currency-rate CNY',
     '--currency-rate: expected CODE=N such as CNY=0.14, found "CNY"'],
    ['gpt2 rtx4090-pcie8 --currency-rate CNY=0',
     '--currency-rate: must be between 1e-6 and 1e9, found 0'],
    ['gpt2 rtx4090-pcie8 --currency-rate CNY=1 --currency-rate CNY=2',
     '--currency-rate: CNY is given twice'],
    ['gpt2 rtx4090-pcie8 --currency-rate USD=1',
     '--currency-rate: USD is the currency of the answer (--currency)'],
    ['gpt2 rtx4090-pcie8 --price-per-gpu-hour 2 --currency dollars',
     '--currency: expected three letters such as USD, found "dollars"'],
    ['gpt2 dgx-a100-80g --gpus 8 --top 3 --json', '--top has no say beside --json'],
    ['gpt2 dgx-a100-80g --scaling --top 3', '--top has no say beside --scaling'],
    ['gpt2 --offers rental-2024 --price-per-gpu-hour 2',
     '--price-per-gpu-hour has no say beside --offers'],
);
for my $case (@refused) {
    my ($words, $wanted) = @$case;
    my ($code, $out, $said) = ask("whatif $words");
    check("refused: $words", $code == 2 && $out eq '' && $said eq "meshwright whatif: $wanted\n",
          "$code $said");
}
checked();
