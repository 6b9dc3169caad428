#!/usr/bin/perl
# The planner in a report's page, in a real browser: a control moved by keys or typed into asks the
# same question as the command line and gets the same plan, byte for byte.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Copy 'copy';
use File::Temp 'tempdir';
use FindBin '$Bin';
require "$Bin/browser.pl";

my $build  = abs_path($ENV{BUILD} // 'build');
my $root   = abs_path("$Bin/..");
my $folder = tempdir(CLEANUP => 1);
my $number = 0;

sub skip_all {
    print "1..0 # SKIP $_[0]\n";
    exit 0;
}

sub check {
    my ($right, $name, $more) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    print STDERR "# $more\n" if not $right and defined $more;
}

sub read_file {
    open my $file, '<', $_[0] or return '';
    local $/;
    return <$file>;
}

sub run {
    my ($binary, @args) = @_;
    return system("$binary @args >$folder/stdout 2>$folder/stderr") >> 8;
}

my ($program) = grep { -x } map { ("$_/chromium", "$_/chromium-browser") } split /:/, $ENV{PATH};
skip_all('no chromium') unless $program;
skip_all('no planner.wasm.gz: make wasm') unless -e "$root/build/wasm/planner.wasm.gz";
my $browser = Browser->start($program) or skip_all('chromium does not start');

my $question = 'llama-3-8b dgx-h100-x2 --global-batch 128';
run("$build/meshwright", 'plan', $question, '--seq-len 4096', '-o', "$folder/plan.json");
run("$build/meshwright", 'report', "$folder/plan.json", '--no-scaling', '-o', "$folder/report");
my $address = "file://$folder/report/index.html";

my $WAIT = 'new Promise(done => { const look = () => document.querySelector("#what-if[aria-busy]")'
    . ' ? setTimeout(look, 20) : done(true); setTimeout(look, 20); })';
# What "Save as plan.json" saves.
my $SAVED = 'new Promise(done => { const make = URL.createObjectURL;'
    . ' URL.createObjectURL = blob => { blob.text().then(done); URL.createObjectURL = make;'
    . ' return "javascript:void 0"; };'
    . ' [...document.querySelectorAll("#what-if button")].pop().click(); })';
my $VERDICT = 'document.querySelector("#what-if .what-if-verdict").textContent';

sub press {
    my ($page, $key, $times) = @_;
    for (1 .. $times) {
        $browser->call('Input.dispatchKeyEvent', {type => $_, key => $key, code => $key,
            windowsVirtualKeyCode => $key eq 'ArrowRight' ? 39 : 37}, $page)
            for qw(keyDown keyUp);
    }
}

sub native {
    my ($changes) = @_;
    $changes .= ' --seq-len 4096' unless $changes =~ /--seq-len/;
    my $status = run("$build/meshwright", 'plan', $question, $changes, '-o', "$folder/wanted.json");
    return ($status, read_file("$folder/wanted.json"));
}

my $page = $browser->open($address, width => 1440);
check(!$browser->ask($page, 'document.getElementById("what-if").hidden'), 'the section shows');
check($browser->ask($page, $VERDICT) =~ /^Move a slider/, 'at first nothing is asked');

$browser->ask($page, 'document.getElementById("what-if-gpus").focus()');
press($page, 'ArrowRight', 2);
$browser->ask($page, $WAIT);
my $gpus = $browser->ask($page, 'document.querySelector("#what-if-gpus").ariaValueText');
check($gpus =~ /^32\b/, 'two keys to the right of 16 GPUs are 32', $gpus);
my ($status, $wanted) = native('--nodes 4');
check($browser->ask($page, $SAVED) eq $wanted, 'the plan for 32 GPUs is the command line\'s');
my ($step_s) = $wanted =~ /"step_s": ([\d.]+)/;
my ($told_s) = $browser->ask($page, $VERDICT) =~ /^A step takes ([\d.]+) s instead of [\d.]+ s/;
check(defined $told_s && abs($told_s / $step_s - 1) < 0.005, 'the verdict says its step',
    $browser->ask($page, $VERDICT));
my $hash = $browser->ask($page, 'location.hash');
check($hash eq '#what-if?gpus=32', 'the address holds the question', $hash);

my $type = '(label, value) => { const input = [...document.querySelectorAll('
    . '"#what-if input[type=number]")].find(input => input.ariaLabel.startsWith(label));'
    . ' input.value = value; input.dispatchEvent(new Event("change")); }';
$browser->ask($page, "($type)('Sequence length', 8192)");
$browser->ask($page, "($type)('Tokens', 500)");
$browser->ask($page, $WAIT);
($status, $wanted) = native('--nodes 4 --seq-len 8192 --tokens 500e9');
check($browser->ask($page, $SAVED) eq $wanted, 'numbers typed in are asked as well');
my $state = $browser->ask($page, 'location.hash');

$browser->ask($page, "($type)('GPUs', 1)");
$browser->ask($page, $WAIT);
($status) = native('--gpus 1 --seq-len 8192 --tokens 500e9');
my ($reason) = read_file("$folder/stderr") =~ /^meshwright plan: (.*)$/m;
check($status == 1 && $browser->ask($page, $VERDICT) eq 'Nothing fits.', 'one GPU is too few');
check($browser->ask($page, 'document.querySelector("#what-if .reason").textContent') eq $reason,
    'and the page says why in the same words', $reason);

$browser->ask($page, '[...document.querySelectorAll("#what-if button")][0].click()');
check($browser->ask($page, $VERDICT) =~ /^Move a slider/, 'a button goes back to the plan');
check($browser->ask($page, 'location.hash') eq '#what-if', 'and forgets the question');
check(!@{ $page->{logs} }, 'the console stays empty', "@{ $page->{logs} }");
my @outside = grep { !m{^(?:file://\Q$folder\E|blob:|data:)} } @{ $page->{requests} };
check(!@outside, 'nothing is asked of anybody else', "@outside");
$browser->close($page);

for my $dark (0, 1) {
    my $other = $browser->open("$address$state", width => 390, dark => $dark);
    $browser->ask($other, $WAIT);
    my $width = $browser->ask($other, 'document.documentElement.scrollWidth');
    check($width == 390, 'a narrow page from an address with a question does not overflow', $width);
    ($status, $wanted) = native('--nodes 4 --seq-len 8192 --tokens 500e9');
    check($browser->ask($other, $SAVED) eq $wanted, 'and answers that question');
    check(!@{ $other->{logs} }, 'with nothing in the console', "@{ $other->{logs} }");
    $browser->close($other);
}

# A plan that was pinned is not replaced by a search behind the reader's back.
run("$build/meshwright", 'plan', $question, '--seq-len 4096 --tp 8 --pp 1', '-o',
    "$folder/pinned.json");
run("$build/meshwright", 'report', "$folder/pinned.json", '--no-scaling', '-o', "$folder/pinned");
$page = $browser->open("file://$folder/pinned/index.html", width => 1440);
my $kept = $browser->ask($page, 'new Promise(done => { const end = Date.now() + 20000;'
    . 'const look = () => document.getElementById("what-if-keep").checked || Date.now() > end ? '
    . 'done(document.getElementById("what-if-keep").checked) : setTimeout(look, 50); look(); })');
check($kept, 'the layout of a pinned plan is kept at first');
$browser->close($page);

# Without a module: the same binary in a tree that has none.
symlink "$root/$_", "$folder/$_" for qw(Makefile cost_models);
copy("$build/meshwright", "$folder/meshwright");

# Lists: the precision, the software and what is pinned, from an address as somebody sends it.
$page = $browser->open("$address#what-if?choose-precision=fp8&choose-stack=megatron-core"
    . '&choose-tp=2', width => 1440);
$browser->ask($page, 'new Promise(done => setTimeout(done, 500))');
$browser->ask($page, $WAIT);
my $chosen = $browser->ask($page, $SAVED);
run("$build/meshwright", 'plan', $question, '--seq-len 4096 --precision fp8 --stack megatron-core',
    '--tp 2', '-o', "$folder/chosen.json");
my ($step) = ($chosen // '') =~ /"step_s": ([\d.]+)/;
my ($own)  = read_file("$folder/chosen.json") =~ /"step_s": ([\d.]+)/;
check(defined $step && $step eq $own, 'lists ask what the command line asks', $step);
check($browser->ask($page, 'document.querySelector("#what-if .soft").textContent')
        =~ /precision fp8 instead of bf16/, 'and the page says what was chosen');
check(!@{ $page->{logs} }, 'with nothing in the console', "@{ $page->{logs} }");
$browser->close($page);
chmod 0755, "$folder/meshwright";
run("$folder/meshwright", 'report', "$folder/plan.json", '--no-scaling', '-o', "$folder/static");
$page = $browser->open("file://$folder/static/index.html", width => 390);
check($browser->ask($page, 'document.getElementById("what-if") === null'),
    'a page without a planner has no place for one');
check($browser->ask($page, 'document.querySelectorAll("#what-if input, #what-if button").length')
        == 0, 'and has no dead controls');
check(!@{ $page->{logs} }, 'with nothing in the console', "@{ $page->{logs} }");
my $bytes = -s "$folder/report/index.html";
check($bytes < 1e6, 'the page with the planner stays below 1 MB', $bytes);
$browser->stop;
print "1..$number\n";
