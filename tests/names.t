#!/usr/bin/perl
# Names that others wrote, planted into every kind of file that commands read: nothing of them may
# steer a terminal, a page, a spreadsheet, a plot or a shell. Characters that are not shown are
# refused where a text is read, at their place; what is left over - quotes, tags, formulas, back
# quotes - is text wherever it gets out. Paths can be anything and are made plain where they are
# shown.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use JSON::PP;

my $build = abs_path($ENV{BUILD} // 'build');
my $tmp   = tempdir(CLEANUP => 1);
my $json  = JSON::PP->new->canonical;
my ($number, $has_gnuplot) = (0, scalar grep { -x "$_/gnuplot" } split /:/, $ENV{PATH});

# Tags, quotes of all kinds, commands of a shell and of gnuplot, its enhanced text.
my $sly = q(=HYPERLINK("http://x","y")</script><script>alert(1)</script>)
        . qq(`touch $tmp/pwned`'\$(touch $tmp/pwned)';system("touch $tmp/pwned")\\n_{a}^{b}%s,|&);
my $bare   = qr/[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]/;
my $hidden = '\u001b|\u000a|\u000d|\u0007|\u009b|\u202e|\u007f|\u2028';

sub ok {
    my ($right, $name, $why) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    return if $right;
    (my $shown = substr $why // '', 0, 2000) =~ s/([^\x20-\x7e\n])/sprintf '<%02x>', ord $1/ge;
    print STDERR "# $_\n" for split /\n/, $shown;
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
    close $file;
    return $path;
}

# Its status, stdout and stderr; without a shell between.
sub run {
    my (@words) = @_;
    my $child = fork // die "fork: $!";
    if (!$child) {
        open STDOUT, '>', "$tmp/out" or die $!;
        open STDERR, '>', "$tmp/err" or die $!;
        exec "$build/meshwright", @words;
    }
    waitpid $child, 0;
    my ($out, $err) = (slurp("$tmp/out"), slurp("$tmp/err"));
    return $? & 127 ? 'signal' : $? >> 8, $out, $err;
}

# A shipped file as it is written, with `change` made to it.
sub changed {
    my ($path, $name, $change) = @_;
    my $data = $json->decode(slurp($path));
    $change->($data);
    return spill("$tmp/$name", $json->encode($data));
}

# What every text that gets out has to be.
sub is_clean {
    my ($name, $status, $out, $err) = @_;
    ok($status =~ /^[013]$/ && "$out$err" !~ $bare && !-e "$tmp/pwned", $name, "$status: $out$err");
}

# --- Characters that are not shown: refused at their place, in one plain line.
my $model   = 'models/zoo/gpt2.json';
my $cluster = changed('topologies/dgx-h100.json', 'cluster.json', sub { });
my @plan    = ('--seq-len', 512, '--global-batch', 16, '-o', "$tmp/plan.json");
my @base    = run('plan', $model, $cluster, @plan);
ok($base[0] eq '0', 'the files are right without', $base[2]);
my $plan_text = slurp("$tmp/plan.json");
my %files = (
    cluster => [slurp($cluster), sub { ('plan', $model, @_, @plan) }],
    device  => [slurp('topologies/devices/h100-sxm5-80g.json'), sub {
        my $with = changed('topologies/dgx-h100.json', 'with.json',
                           sub { $_[0]{nodes}[0]{device} = $_[1] // 'h100-sxm5-80g' });
        my $device = slurp($_[0]);
        (my $text = slurp($with)) =~ s/"h100-sxm5-80g"/$device/;
        ('plan', $model, spill("$tmp/inline.json", $text), @plan);
    }],
    stack => [slurp('cost_models/stacks/megatron-core.json'),
              sub { ('plan', $model, $cluster, '--stack', @_, @plan) }],
    kernels => [slurp('topologies/kernels/simumax-a100-pcie.json'),
                sub { ('plan', $model, $cluster, '--kernels', @_, @plan) }],
    offers => [slurp((glob 'topologies/offers/*.json')[0]),
               sub { ('whatif', $model, '--offers', @_, '--tokens', '1B', '--deadline', '9d') }],
    plan  => [$plan_text, sub { ('simulate', @_) }],
    graph => [q({"version":1,"name":"graph","tensors":[{"name":"x","bytes":8}],)
              . q("operators":[{"name":"f","inputs":[],"outputs":["x"]}]}),
              sub { ('memory', @_) }],
);
for my $kind (sort keys %files) {
    my ($text, $words) = @{ $files{$kind} };
    for my $escape (split /\|/, $hidden) {
        (my $planted = $text) =~ s/("name"\s*:\s*")/$1a${escape}[31mb/ or die $kind;
        my @told = run($words->(spill("$tmp/planted.json", $planted)));
        my ($code) = $escape =~ /u(....)/;
        ok($told[0] eq '3' && $told[1] eq '' && $told[2] !~ $bare && $told[2] =~ /\A[^\n]*\n\z/
               && $told[2] =~ /name: holds U\+\U$code\E, which is no character that can be shown/,
           "$kind: a name with $escape", "$told[0]: $told[1]$told[2]");
    }
    my $long = 'x' x 1001;
    (my $planted = $text) =~ s/("name"\s*:\s*")/$1$long/;
    my @told = run($words->(spill("$tmp/planted.json", $planted)));
    ok($told[0] eq '3' && $told[2] =~ /name: a text of 1\d{3} bytes, at most 1000 are taken/,
       "$kind: a name without end", "$told[0]: $told[2]");
    # Keys are quoted in errors and warnings as well.
    ($planted = $text) =~ s/\{/{"a\\u001b]0;x\\u0007\\u202e":1,/;
    @told = run($words->(spill("$tmp/planted.json", $planted)));
    ok($told[2] !~ $bare && $told[1] !~ $bare && $told[2] =~ /\A[^\n]*\n/,
       "$kind: a key that steers a terminal", "$told[0]: $told[1]$told[2]");
}
my $planted = slurp($model);
$planted =~ s/\{/{"n_laye\\u001br":1,"n_embd_":1,"x\\u001b[2J":"\\u001b[2J","vocab_siz\\n":2,/;
is_clean('keys of a config', run('plan', spill("$tmp/config.json", $planted), $cluster, @plan));
ok(slurp("$tmp/plan.json") !~ $bare, 'and of its copy in a plan', slurp("$tmp/plan.json"));
is_clean('a plan of it', run('plan', "$tmp/config.json", $cluster, @plan, '--json'));
$planted = slurp($model);
$planted =~ s/("model_type"\s*:\s*")/$1a\\u001b[2Jb/;
is_clean('a family', run('plan', spill("$tmp/config.json", $planted), $cluster, @plan));

# --- Paths.
my $esc  = "a\e]0;x\a\e[31m\nb\xc2\x9b2J\xe2\x80\xaec\xff`x`'\"q\$(touch $tmp/p)";
(my $odd = $esc) =~ s{/}{:}g;
for my $case (
    ['no such model', 'plan', "$tmp/$odd.json", $cluster, @plan],
    ['no such cluster', 'plan', $model, "$tmp/$odd.json", @plan],
    ['no such folder', 'plan', $model, $cluster, @plan[0 .. 4], "$tmp/$odd/plan.json"],
    ['no such plan', 'simulate', "$tmp/$odd"],
    ['no such plan of a page', 'report', "$tmp/$odd"],
    ['no such graph', 'memory', "$tmp/$odd"],
    ['a broken file', 'plan', spill("$tmp/$odd.broken", "{\n"), $cluster, @plan],
    ['a file of that name', 'plan', spill("$tmp/$odd.json", slurp($model)), $cluster, @plan],
    ['a warning', 'plan', spill("$tmp/$odd.json", $json->encode({
        %{ $json->decode(slurp($model)) }, n_ctxx => 7, n_embdd => 1 })), $cluster, @plan],
    ['what is written', 'plan', $model, $cluster, @plan[0 .. 4], "$tmp/$odd.plan"],
    ['what a page is made of', 'report', "$tmp/$odd.plan", '--no-scaling', '-o', "$tmp/$odd.page"],
    ['a graph', 'memory', spill("$tmp/$odd.graph", $files{graph}[0] =~ s/"name":"graph",//r),
     '-o', "$tmp/$odd.order.csv"],
    ['buffers', 'memory', spill("$tmp/$odd.csv", "id,lower,upper,size\na,0,2,8\n"),
     '-o', "$tmp/$odd.out.csv"],
    ['the needs of a model', 'whatif', "$tmp/$odd.json"],
    ['what is asked next', 'whatif', "$tmp/$odd.json", $cluster, '--gpus', 8, @plan[0 .. 3],
     '--tokens', '1B', '-o', "$tmp/$odd.whatif"],
) {
    my ($name, @words) = @$case;
    my @told = run(@words);
    ok($told[0] =~ /^[0134]$/ && "$told[1]$told[2]" !~ $bare
           && "$told[1]$told[2]" !~ /\xff/ && $told[2] =~ /\A(?:(?:note|warning|mesh)[^\n]*\n)*\z/,
       "a path: $name", "$told[0]: $told[1]$told[2]");
    next if $name ne 'what is written';
    # What is proposed is what a shell runs.
    my ($next) = $told[1] =~ /Next: meshwright (simulate .*)\n/;
    spill("$tmp/next.sh", "exec $build/meshwright " . ($next // 'none'));
    ok(system("bash $tmp/next.sh >$tmp/out 2>&1") == 0 && !-e "$tmp/p", 'a path: the next command',
       $told[1] . slurp("$tmp/out"));
}
my $page = slurp("$tmp/$odd.page/index.html");
ok($page ne '' && $page !~ $bare, 'a path: the page', $page);

# --- What can be shown, and is sly.
my $slyer = changed('topologies/dgx-h100.json', 'slyer.json', sub {
    my ($data) = @_;
    my $device = $json->decode(slurp('topologies/devices/h100-sxm5-80g.json'));
    $device->{name} = $sly;
    $data->{name} = $sly;
    $data->{nodes}[0]{device} = $device;
    $data->{price} = {per_gpu_hour => 2, currency => $sly};
});
my $folder = "$tmp/sly folder'`touch pwned`\$(touch pwned)";
mkdir $folder or die "$folder: $!";
my $config = spill("$folder/=cmd\|' C <b>x<br>.json", slurp($model));
my $stack = changed('cost_models/stacks/megatron-core.json', 'stack.json',
                    sub { $_[0]{name} = $sly });
@plan = ('--seq-len', 512, '--global-batch', 16, '--stack', $stack);
my $out = "$folder/it's a plan.json";
my @told = run('plan', $config, $slyer, @plan, '--tokens', '1T', '-o', $out);
is_clean('sly names: plan', @told);
my ($next) = $told[1] =~ /Next: meshwright (simulate .*)\n/;
spill("$tmp/next.sh", "exec $build/meshwright " . ($next // 'none'));
ok(system("bash $tmp/next.sh >$tmp/out 2>&1") == 0, 'sly names: its next command', $told[1]);
is_clean('sly names: explain', run('plan', $config, $slyer, @plan, '--explain', '-o', $out));
my $wanted = $json->decode(slurp($out))->{cluster}{name};
ok($wanted eq $sly, 'sly names: a plan keeps them', $wanted);
is_clean('sly names: simulate', run('simulate', $out, '--trace', "$tmp/trace.json"));
ok(eval { $json->decode(slurp("$tmp/trace.json")); 1 }, 'sly names: a trace is JSON', $@);
is_clean('sly names: topology', run('topology', $slyer));
is_clean('sly names: why', run('plan', $config, $slyer, @plan, '--why', 'tp=8', '-o', $out));

# No element that the page has not without them, and no attribute.
sub tags_of {
    my ($text) = @_;
    $text =~ s{//<!\[CDATA\[.*?//\]\]>}{}sg;
    my %count;
    $count{lc $1}++ while $text =~ /<(\/?[a-z][a-z0-9]*)/gi;
    return \%count;
}
is_clean('sly names: report',
         run('report', $out, '--gpus', '8..16', '-o', "$folder/page"));
my $sly_page = slurp("$folder/page/index.html");
my $tags = tags_of($sly_page);
ok($sly_page ne '' && $sly_page !~ /alert\(1\)<\/script|<b>x|<script>alert/
       && $tags->{script} == $tags->{'/script'} && !$tags->{b}, 'sly names: no new tag',
   join ' ', %$tags);
my ($data) = $sly_page =~ m{id="report-data">(.*?)</script>}s;
ok(eval { $json->decode($data); 1 } && $data !~ /</, 'sly names: its data', $@);
ok(!-e "$tmp/pwned" && !-e 'pwned', 'sly names: no plot ran a command');

my @swept = ('whatif', $config, $slyer, '--gpus', '4,8', @plan, '--tokens', '1T');
is_clean('sly names: whatif', run(@swept, '-o', "$folder/whatif"));
ok(slurp("$folder/whatif/index.html") !~ /<script>alert|<b>x/, 'sly names: its page');
@told = run(@swept);
($next) = $told[1] =~ /Next: meshwright (plan .*)\z/s;
spill("$tmp/next.sh", "cd $tmp && exec $build/meshwright " . ($next // 'none'));
ok(system("bash $tmp/next.sh >$tmp/out 2>&1") == 0 && !-e "$tmp/pwned",
   'sly names: its next command', $told[1] . slurp("$tmp/out"));
@told = run('whatif', $config, '--seq-len', 512);
is_clean('sly names: what a model needs', @told);
($next) = $told[1] =~ /Next: meshwright (whatif .*?) CLUSTER/s;
spill("$tmp/next.sh", "exec $build/meshwright " . ($next // 'none')
                      . " dgx-h100 --seq-len 512 --global-batch 16 --gpus 8");
ok(system("bash $tmp/next.sh >$tmp/out 2>&1") == 0, 'sly names: its next command, too',
   $told[1] . slurp("$tmp/out"));

# Cells: none begins like a formula unless it is a number, also where ';' parts them.
sub formulas {
    my ($text, $between) = @_;
    my ($is_quoted, $start, @found) = (0, 1);
    for my $at (0 .. length($text) - 1) {
        my $byte = substr $text, $at, 1;
        if ($start && !$is_quoted) {
            my $rest = substr $text, $at, 40;
            $rest =~ s/^"//;
            push @found, $rest if $rest =~ /^[=@\t\r]/
                || ($rest =~ /^[-+]/ && $rest !~ /^[-+][\d.]+(?:e[-+]?\d+)?(?:$between|\n|"|\z)/);
        }
        $is_quoted = !$is_quoted if $byte eq '"';
        $start = $byte eq "\n" || $byte eq $between;
    }
    return @found;
}
@told = run(@swept, '--csv');
is_clean('sly names: CSV', @told);
ok($told[1] =~ /^"'=HYPERLINK\(""http/m && !formulas($told[1], ',') && !formulas($told[1], ';'),
   'sly names: no cell is a formula', $told[1]);
my ($head, @lines) = split /\n/, $told[1];
my $cells = () = $head =~ /,/g;
for my $line (@lines) {
    (my $plain = $line) =~ s/"(?:[^"]|"")*"//g;
    my $found = () = $plain =~ /,/g;
    ok($found == $cells, 'sly names: each line has all its cells', $line);
}

my $graph = spill("$tmp/graph.json", $json->encode({
    version => 1, name => $sly, tensors => [map { {name => $_, bytes => 8} } $sly, '-1+2', '@x'],
    operators => [{name => $sly, inputs => [], outputs => [$sly, '-1+2', '@x']}]}));
is_clean('sly names: memory', run('memory', $graph, '-o', "$tmp/memory.csv"));
ok(slurp("$tmp/memory.csv") ne '' && !formulas(slurp("$tmp/memory.csv"), ','),
   'sly names: its CSV', slurp("$tmp/memory.csv"));
if ($has_gnuplot) {
    is_clean('sly names: its plot', run('memory', $graph, '--plot', "$tmp/memory.svg"));
    ok(slurp("$tmp/memory.svg") =~ /HYPERLINK/ && slurp("$tmp/memory.svg") !~ /<script/,
       'sly names: as text', slurp("$tmp/memory.svg"));
}
for my $id ('=1+1', '@x', '-x', '+', "a\eb", "a\xc2\x9bb", "\xff", 'x' x 1001) {
    my @told = run('memory', spill("$tmp/ids.csv", "id,lower,upper,size\n$id,0,2,8\n"),
                   '-o', "$tmp/out.csv");
    ok($told[0] eq '3' && $told[2] =~ /\A[^\n]*ids\.csv:2:1: id: (?:reads as a formula|holds|too)/
           && $told[2] !~ $bare, 'an id of a buffer', $told[2]);
}
for my $id ('-1', '+2.5', '-1e9', 'b12', "caf\xc3\xa9") {
    my @told = run('memory', spill("$tmp/ids.csv", "id,lower,upper,size\n$id,0,2,8\n"));
    ok($told[0] eq '0', 'an id that is none', $told[2]);
}
print "1..$number\n";
