#!/usr/bin/perl
# docs/adding.md holds: a patch for each part that can be added (tests/data/adding/) touches no more
# product files than are told there, and all of them together build and do what they are for.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use JSON::PP;

my $build = $ENV{BUILD} // 'build';
if ($build ne 'build' || $ENV{ADDING_OFF}) {
    print "1..0 # SKIP the plain build tries it\n";
    exit 0;
}
my $root    = abs_path('.');
my $tmp     = tempdir(CLEANUP => 1);
my $copy    = "$tmp/copy";
my $json    = JSON::PP->new->canonical;
my @folders = qw(core topologies models plan cost_models simulator memory planner validation
    executor reports exchange library cli);
my ($number, $failed) = (0, 0);

sub ok {
    my ($right, $name, $why) = @_;
    $number++;
    $failed++ if !$right;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    print STDERR "# $_\n" for $right ? () : split /\n/, substr $why // '', 0, 4000;
    return $right;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    return scalar <$file> // '';
}

sub spill {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return $path;
}

# How many files a part may touch, and no more; and that the page names them.
my %most  = (axis => 4, choice => 2, collective => 2, device => 1, model_family => 2,
             operator => 2, schedule => 2);
my $page  = slurp('docs/adding.md');
my @parts = map { m{(\w+)\.patch$} } sort glob 'tests/data/adding/*.patch';
ok("@parts" eq join(' ', sort keys %most), 'there is a patch for each part', "@parts");
for my $part (@parts) {
    my @files = map { /^\+\+\+ b\/(\S+)/ ? $1 : () }
        split /\n/, slurp("tests/data/adding/$part.patch");
    my $wanted = "a new $part touches $most{$part} files at most";
    ok(@files && @files <= $most{$part}, $wanted, "@files");
    my @other = grep { !m{^(?:@{[join '|', @folders]})/} } @files;
    ok(!@other, "of the product ($part)", "@other");
    # What heeds a choice is any file.
    my @untold = grep {
        my $told = -e $_ ? $_ : s{[^/]+(\.\w+)$}{NAME$1}r;
        index($page, "`$told`") < 0
    } $part eq 'choice' ? grep { /\.inc$/ } @files : @files;
    ok(!@untold, "docs/adding.md names them ($part)", "@untold");
}

# One copy with all of them, whose other objects are those of this build.
mkdir $_ or die "$_: $!" for $copy, "$copy/build";
my @objects = grep { -e } map { "build/$_" } @folders, 'generated', 'prefix';
system('cp', '-a', @folders, 'Makefile', $copy) == 0 or die "cp: $?";
system('cp', '-a', @objects, "$copy/build/") == 0 or die "cp: $?";
my @refused = grep {
    system("patch -d '$copy' -p1 -s -f -F0 < 'tests/data/adding/$_.patch' > '$tmp/patch' 2>&1") != 0
} @parts;
ok(!@refused, 'the patches apply', "@refused\n" . slurp("$tmp/patch"));
delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES)};
# The plug-in's kernels are slow to compile: of them only the new one.
my $status = system("cd '$copy' && nice make -s -j2 BUILD=build CFLAGS=-O0 build/meshwright "
    . "build/executor/cpu/elementwise.fp32.o > '$tmp/make' 2>&1");
if (!ok($status == 0, 'and build', slurp("$tmp/make"))) {
    print "1..$number\n";
    exit 1;
}

sub run {
    my (@words) = @_;
    my $child = fork // die "fork: $!";
    if (!$child) {
        open STDOUT, '>', "$tmp/out" or die $!;
        open STDERR, '>', "$tmp/err" or die $!;
        chdir $copy or die $!;
        exec 'build/meshwright', @words;
    }
    waitpid $child, 0;
    return ($? >> 8, slurp("$tmp/out"), slurp("$tmp/err"));
}

# The plan of these words as data; fails the test where there is none.
sub plan {
    my ($name, @words) = @_;
    my ($status, $out, $err) = run('plan', @words, '-o', "$tmp/plan.json", '--json');
    my $plan = $out ? $json->decode($out) : {};
    ok($status == 0 && $plan->{parallel}, $name, "$status: $err");
    return $plan;
}

# Our executor's stack with what is new.
my $stack = $json->decode(slurp('cost_models/stacks/meshwright.json'));
push @{ $stack->{schedules} }, '1f1b-eager';
push @{ $stack->{axes} },      'fp';
push @{ $stack->{flags} }, {ability => 'schedule=1f1b-eager', flag => '--schedule 1f1b-eager'},
    {ability => 'fp', flag => '--fp {}'};
my @stack = ('--stack', spill("$tmp/stack.json", $json->encode($stack)));
my @gpt2  = ('gpt2', 'dgx-h100', '--seq-len', 512, '--global-batch', 64);
my @fixed = qw(--tp 1 --cp 1 --pp 1 --micro-batch 2 --zero 0 --recompute none);

# Baichuan 7B: 7,000,559,616 parameters.
my %xverse = (model_type => 'xverse', vocab_size => 64000, hidden_size => 4096,
    intermediate_size => 11008, num_hidden_layers => 32, num_attention_heads => 32,
    max_position_embeddings => 4096, tie_word_embeddings => JSON::PP::false);
my $config = spill("$tmp/config.json", $json->encode(\%xverse));
my $plan = plan('a config of the new family is planned', $config, 'dgx-h100', '--seq-len', 4096,
                '--global-batch', 64, '--tp', 1, '--pp', 1, '--micro-batch', 1);
ok(($plan->{model}{parameter_count} // 0) == 7000559616, 'and is as large as it is',
   $plan->{model}{parameter_count});

$config = spill("$tmp/swish.json", $json->encode({ %xverse, hidden_act => 'hard_swish' }));
plan('a config names the new operator', $config, 'dgx-h100', '--seq-len', 4096, '--global-batch',
     64, '--tp', 1, '--pp', 1, '--micro-batch', 1);
my @symbols = `nm '$copy/build/executor/cpu/elementwise.fp32.o'`;
ok((grep { /hard_swish/ } @symbols) > 0, 'and the CPU has a kernel of it');

my $cluster = $json->decode(slurp('topologies/l40s-pcie8.json'));
$_->{device} = 'a10-24g' for @{ $cluster->{nodes} };
$cluster->{name} = 'a10-pcie8';
my $file = spill("$tmp/cluster.json", $json->encode($cluster));
$plan = plan('a cluster of the new device is planned for', 'gpt2', $file, '--seq-len', 512,
             '--global-batch', 64, @stack);
my $device = $plan->{cluster}{nodes}[0]{device};
ok((ref $device ? $device->{name} : $device // '') eq 'a10-24g', 'with that device in the plan');

my @large = ('llama-2-7b', 'dgx-h100', '--seq-len', 2048, '--global-batch', 64);
my ($said, $out, $err) = run('plan', @large, qw(--tp 8 --sp off --pp 1 --micro-batch 1 --explain),
                             @stack, '-o', "$tmp/plan.json");
ok($said == 0 && $out =~ /^all-reduce tp .* halving-/m,
   'the new algorithm is taken where it is faster', "$said: $out$err");

# The order of the schedule against the checker of plans, and its formula against the events.
my @piped = (@large, qw(--tp 1 --cp 1 --pp 4 --micro-batch 1), @stack);
$plan = plan('the new schedule is planned', @piped, '--schedule', '1f1b-eager');
ok(($plan->{parallel}{schedule} // '') eq '1f1b-eager', 'as it is pinned');
($said, $out, $err) = run('simulate', "$tmp/plan.json", '--verify');
ok($said == 0, 'and its order and memory are proven', "$said: $out$err");
($said, $out, $err) = run('plan', @piped, '--schedule', '1f1b-eager', '-o', "$tmp/plan.json");
my ($events)  = $out =~ /^Best: .*: ([\d.]+) s a step/m;
my ($formula) = $out =~ /closed form ([\d.]+) s/;
ok($events && $formula && abs($formula / $events - 1) < 0.02, 'its formula is that of the events',
   "$out$err");
($said, $out, $err) = run('plan', @piped, '--schedule', '1f1b-eagre');
ok($said == 2 && $err =~ /zb-auto\|1f1b-eager/, 'it is among the values of --schedule', $err);

# What is left to others is reserved, byte by byte, and stays in the plan.
my $without = plan('a plan without the new choice', @gpt2, @fixed, '--dp', 8);
my $with    = plan('and with it', @gpt2, @fixed, '--dp', 8, '--spare-bytes', '1e9');
my $more    = $with->{prediction}{reserved_bytes} - $without->{prediction}{reserved_bytes};
ok($more == 1e9 && $with->{parallel}{spare_bytes} == 1e9, 'it does what it says', $more);
($said, $out, $err) = run('simulate', "$tmp/plan.json", '--json');
ok($said == 0 && $json->decode($out)->{prediction}{reserved_bytes}
       == $with->{prediction}{reserved_bytes}, 'also when the plan is read back', "$said: $err");
($said, $out, $err) = run('plan', '--help');
ok($out =~ /--spare-bytes N +of each device left/, '--help has it');
($said, $out, $err) = run('plan', @gpt2, '--spare-bytes', 'lots');
ok($said == 2 && $err =~ /--spare-bytes/, 'a value that is none is refused', "$said: $err");

# Half of the MLP is on each of two ranks, and its sum is sent.
my $whole = plan('a plan without the new axis', @gpt2, @fixed, '--dp', 8, @stack);
my $split = plan('and with it', @gpt2, @fixed, '--dp', 4, '--fp', 2, @stack);
ok($split->{parallel}{fp} == 2 && "@{ $split->{parallel}{order} }" =~ /^tp fp /,
   'the axis is laid over ranks next to tp', "@{ $split->{parallel}{order} }");
my $weights = $whole->{memory}{weights_bytes} - $split->{memory}{weights_bytes};
# Half of two matrices of 768 x 3072 and of the first one's bias, 12 layers, 2 bytes each.
my $half = 12 * (2 * 768 * 3072 + 3072) / 2 * 2;
ok($weights == $half, 'a rank has half of the MLP', "$weights of $half");
my ($alone, $sent) = map { $_->{prediction}{breakdown}{exposed_comm_s} } $whole, $split;
ok($sent > $alone, 'and its sums cost time', "$alone $sent");
($said, $out, $err) = run('simulate', "$tmp/plan.json", '--verify');
ok($said == 0, 'its tasks are proven', "$said: $out$err");
($said, $out, $err) = run('plan', @gpt2, '--fp', 3, @stack);
ok($said == 2, 'a degree that does not divide the GPUs is refused', "$said: $err");

print "1..$number\n";
exit($failed ? 1 : 0);
