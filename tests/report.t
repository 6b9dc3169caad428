#!/usr/bin/perl
# The report: what its command writes and refuses, that the page is well-formed, holds the numbers
# of `simulate --json`, and looks right in a browser: headless Chromium, where there is one.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use JSON::PP;
use POSIX ();
use lib '.', 'tests';
use Schema;
require './tests/browser.pl';

my $build = $ENV{BUILD} // 'build';
$ENV{PATH} = abs_path($build) . ":$ENV{PATH}";
my $root = abs_path('.');
my $tmp  = tempdir(CLEANUP => 1);
my $json = JSON::PP->new->canonical;
my ($number, $browser);

sub ok {
    my ($right, $name) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    return $right;
}

sub skip {
    my ($count, $why) = @_;
    print 'ok ', ++$number, " # SKIP $why\n" for 1 .. $count;
}

# Its status, stdout and stderr.
sub run {
    my ($command) = @_;
    my $out = `$command 2>$tmp/stderr`;
    my $status = $? >> 8;
    return $status, $out, slurp("$tmp/stderr");
}

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    my $text = <$file>;
    return $text // '';
}

sub spill {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file;
}

sub has {
    my ($program) = @_;
    return scalar grep { -x "$_/$program" } split /:/, $ENV{PATH};
}

sub data_of {
    my ($page) = @_;
    my ($text) = $page =~ m{<script type="application/json" id="report-data">(.*?)</script>}s;
    return decode_json($text);
}

my $long = 'x' x 120;
my $name = qq{a<b>&"c"'d'</script><script>alert(1)</script> $long};
my @plans = (
    ['one', 'gpt2 dgx-a100-40g --gpus 1 --seq-len 1024 --global-batch 32 --tokens 10B', ''],
    ['many', 'llama-3-70b dgx-h100-x4 --seq-len 4096 --global-batch 128 --tp 4 --pp 4 --dp 2',
     '--slow-rank 3=1.2 --gpus 16..64 --tokens 1T'],
    ['none', 'llama-3-70b dgx-a100-80g --nodes 1 --seq-len 4096 --global-batch 16 --tp 8 --pp 1 '
     . '--dp 1', '--no-scaling'],
    ['moved', 'llama-3-8b l40s-pcie8 --nodes 1 --seq-len 4096 --global-batch 32 '
     . '--offload optimizer --stack meshwright', '--no-scaling'],
    # Its micro-batch doubled does not divide the batch, and the stack asks how often it adds up.
    ['odd', 'openai-gpt mi300x-8 --gpus 8 --seq-len 512 --global-batch 64 --tp 1 --pp 1 --zero 2 '
     . '--micro-batch 8', '--no-scaling'],
    ['mixed', "gpt2-xl $tmp/mixed_cluster.json --seq-len 1024 --global-batch 48", '--no-scaling'],
);

# Two kinds of nodes in one cluster.
{
    my $one = decode_json(slurp('topologies/dgx-a100-80g.json'));
    my $two = decode_json(slurp('topologies/dgx-h100.json'));
    $one->{name} = 'mixed';
    $_->{nodes}[0]{count} = 1 for $one, $two;
    push @{ $one->{nodes} }, $two->{nodes}[0];
    spill("$tmp/mixed_cluster.json", $json->encode($one));
}

for my $plan (@plans) {
    my ($id, $arguments) = @$plan;
    my ($status, undef, $said) = run("meshwright plan $arguments -o $tmp/$id.json");
    print "# $said" if $status > 1;
}
{
    my $text = slurp("$tmp/one.json");
    (my $quoted = $name) =~ s/(["\\])/\\$1/g;
    $text =~ s/"name": "(?:gpt2|dgx-a100-40g)"/"name": "$quoted"/g;
    spill("$tmp/named.json", $text);
    push @plans, ['named', '', '--no-scaling'];
}

# Runs of two plans, of which every span is worked by hand. Tensor parallel: rank 0 is late to the
# exchange of the forward, rank 1 with its backward. Two stages: each waits for the other's message.
sub run_of {
    my ($id, @trace) = @_;
    my $hash;
    {
        use integer;
        no warnings 'portable';
        $hash = 0xcbf29ce484222325;
        $hash = ($hash ^ ord) * 0x100000001b3 for split //, slurp("$tmp/$id.json");
    }
    my @spans = map { [$_->[0], $_->[1], $_->[2], $_->[3] * 1_000_000, $_->[4] * 1_000_000] }
        sort { $a->[3] <=> $b->[3] } @trace;
    my %kind = (predicted_count => 2, count => 2, predicted_bytes => 0, measured_bytes => 0);
    my %run  = (
        version => 1, plan => {path => "$id.json", hash => sprintf 'fnv1a64:%016x', $hash},
        machine => {host => 'h', device => 'd', libraries => 'l', backend => 'cuda',
            transport => 'nccl', ranks => 2},
        step_s => [0.5, 0.34, 0.35, 0.33], loss => [1, 1, 1, 1], peak_bytes => 1e9,
        compare => {measured_tokens_per_s => 24000, predicted_peak_bytes => 2e9},
        kinds => [{%kind, group => 'task', kind => 'F', predicted_s => 0.1, measured_s => 0.2}],
        trace => \@spans,
    );
    spill("$tmp/${id}_run.json", $json->encode(\%run));
    return \%run;
}
my ($plan_of_two) = ('gpt2 dgx-a100-40g --gpus 2 --dp 1 --seq-len 1024 --global-batch 8 '
    . '--micro-batch 8 --stack meshwright');
my $split = $plan_of_two . ' --tp 2 --pp 1';
run("meshwright plan $split -o $tmp/ran.json");
push @plans, ['ran', $split, "--no-scaling --run $tmp/ran_run.json"];
my $ran = run_of('ran',
    [0, 'compute', 0, 0, 100], [1, 'compute', 0, 0, 100],
    [0, 'tp', 0, 55, 60], [1, 'tp', 0, 40, 60],
    [0, 'compute', 1, 100, 250], [1, 'compute', 1, 100, 300],
    [0, 'dp', 18, 250, 310], [1, 'dp', 18, 300, 310],
    [0, 'compute', 20, 310, 330], [1, 'compute', 20, 310, 340]);
run("meshwright plan $plan_of_two --tp 1 --pp 2 -o $tmp/piped.json");
run_of('piped',
    [0, 'compute', 0, 0, 100], [0, 'pp', 8, 100, 105], [1, 'pp', 9, 0, 103],
    [1, 'compute', 0, 103, 203], [1, 'compute', 1, 203, 303], [1, 'pp', 30, 303, 306],
    [0, 'pp', 31, 105, 305], [0, 'compute', 1, 305, 405], [0, 'compute', 20, 405, 415],
    [1, 'compute', 20, 303, 313]);

# A PATH without gnuplot.
my $bin = "$tmp/bin";
mkdir $bin;
symlink abs_path("$build/meshwright"), "$bin/meshwright";

my %pages;
my @sections = qw(verdict why why-not evidence step memory traffic roofline sensitivity
    alternatives inputs);
for my $plan (@plans) {
    my ($id, undef, $options) = @$plan;
    # The same gnuplot for one plan and for many.
    my $path = $id =~ /one|many/ ? '' : "env PATH=$bin ";
    my ($status, $out, $said) =
        run($path . "meshwright report $tmp/$id.json $options -o $tmp/$id/out");
    my $is_quiet = $path ? $said =~ /gnuplot is not installed/ : $said eq '';
    ok($status == 0 && $is_quiet, "$id: the report is written") or print "# $status $said\n";
    my $page = slurp("$tmp/$id/out/index.html");
    # A number keeps its unit by a blank that does not break.
    $pages{$id} = $page =~ s/\xc2\xa0/ /gr =~ s/<\/?span(?: class="whole")?>//gr;
    # A planner inside, where one was built, is not the page's own.
    ok(length $page < 1_000_000, "$id: with a planner inside it has less than 1 MB");
    (my $own = $page) =~ s/<script[^>]* id="planner-tables">.*//s;
    my $size = length $own;
    ok($size > 20_000 && $size < 500_000, "$id: the page has less than 500 KB") or
        print "# $size\n";
    my $data = data_of($page);
    my ($tokens) = $options =~ /(--tokens \S+)/;
    my (undef, $simulated) = run("meshwright simulate $tmp/$id.json --explain --json "
        . ($tokens // ''));
    $simulated = decode_json($simulated);
    ok($json->encode($data->{prediction}) eq $json->encode($simulated->{prediction}),
        "$id: its prediction is that of simulate --json");
    delete $data->{explain}{rivals};
    ok($json->encode($data->{explain}) eq $json->encode($simulated->{explain}),
        "$id: so are operators, collectives and constants");
    # Tokens of the command line are those of the page's plan, and of the planner that asks it.
    my $held = decode_json(slurp("$tmp/$id.json"));
    if ($tokens) {
        $held->{prediction} = $simulated->{prediction};
        $held->{workload}{tokens} = $data->{plan}{workload}{tokens};
    }
    ok($json->encode($data->{plan}) eq $json->encode($held)
        && (!$tokens || $data->{plan}{workload}{tokens} > 0), "$id: it holds the plan file");
    my %needless = $id =~ /one|named/ ? (traffic => 1) : ();
    ok(!(grep { !$needless{$_} && $page !~ /<section id="$_"/ } @sections),
        "$id: all sections are there");
    my @order = $page =~ /<section id="([\w-]+)"/g;
    my $wanted = 'verdict what-if why why-not evidence measured step pipeline memory traffic '
        . 'roofline scaling sensitivity pareto alternatives inputs';
    my %at = map { $_ => 1 } @order;
    ok("@order" eq join(' ', grep { $at{$_} } split / /, $wanted), "$id: in their order");
    ok($page !~ /(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"'> ]/, "$id: nothing is loaded");
    if (has('xmllint')) {
        my ($fault) = run("xmllint --noout $tmp/$id/out/index.html");
        ok($fault == 0, "$id: the page is well-formed");
    } else {
        skip(1, 'no xmllint');
    }
    $page = $pages{$id};
    my $figures = () = $page =~ /<figure id/g;
    my $captions = () = $page =~ m{<figcaption>(?:[^<]|<span[^>]*>|</span>)+\.</figcaption>}g;
    ok($figures > 5 && $figures == $captions, "$id: every figure says how to read it");
    next if $path;
    if (has('gnuplot')) {
        my $out_of = "$tmp/$id/out";
        my @missing = grep { !-s "$out_of/$_.svg" || slurp("$out_of/$_.png") !~ /^\x89PNG/ }
            $page =~ /<figure id="figure-([\w-]+)"/g;
        ok(!@missing, "$id: every figure is a file, too") or print "# @missing\n";
    } else {
        skip(1, 'no gnuplot');
    }
}

# The straggler, and the counts that were asked for.
{
    my $data = data_of($pages{many});
    ok($data->{injection}{step_s} > 1.01 * $data->{prediction}{step_s}
        && $data->{injection}{step_s} < 1.2 * $data->{prediction}{step_s},
        'a rank that is 20 % slower costs some of it');
    ok($pages{many} =~ /id="figure-injection"/, 'and is drawn');
    my $longer = $data->{injection}{step_s} / $data->{injection}{planned_s};
    ok(abs($data->{injection}{train_s} / $data->{prediction}{money}{train_s} / $longer - 1) < 1e-3
        && $pages{many} =~ /; the run takes [\d.]+ \w+ instead of [\d.]+ \w+/,
        'and the run is so much longer');
    ok($json->encode([map { $_->{gpus} } @{ $data->{scaling} }]) eq '[16,32,64]',
        'the scaling curve has the GPU counts that were asked for');
    my ($own) = grep { $_->{gpus} == 32 } @{ $data->{scaling} };
    ok($own->{step_s} <= 1.001 * $data->{prediction}{step_s},
        'what is planned anew is not slower than what was pinned');
    ok(@{ $data->{alternatives} } > 1
        && $data->{alternatives}[0]{step_s} == $data->{prediction}{step_s},
        'alternatives begin with the plan itself');
    my $again = data_of($pages{none});
    ok($pages{none} =~ /does not fit/ && !$again->{memory}{fits}
        && $again->{memory}{headroom_bytes} < 0, 'what does not fit is said to');
}

# Equal inputs, equal bytes; the data alone.
{
    my $question = "meshwright report $tmp/many.json --slow-rank 3=1.2 --gpus 16..64 --tokens 1T";
    run("$question -o $tmp/again");
    my $first = "$tmp/many/out";
    my @names = map { m{([^/]+)$} } glob "$first/*";
    ok(!(grep { slurp("$first/$_") ne slurp("$tmp/again/$_") } @names) && @names > 15,
        'the same report has the same bytes');
    my ($status, $out) = run("$question --json");
    ok($status == 0 && $json->encode(decode_json($out)) eq $json->encode(data_of($pages{many})),
        '--json prints the data of the page');
}

# What the runs say: who is behind, where exchanges waited, and the chain that made the step.
{
    my $in_ms = sub { join ' ', map { sprintf '%.6g', 1000 * $_ } @_ };
    my $said = sub { join ', ', map { "$_->{what} " . $in_ms->($_->{s}) } @_ };
    my $measured = data_of($pages{ran})->{measured};
    my $reports  = Schema::from_file('reports/report.schema.json');
    my $breach   = Schema::breach(data_of($pages{ran}), $reports, '$');
    ok($breach eq '', 'the data of a page with a run is as its schema says')
        or print "# $breach\n";
    ok($in_ms->($measured->{step_s}, $measured->{traced_step_s}) eq '340 340',
        'a step is the median of those after the first');
    my @ranks = @{ $measured->{ranks} };
    ok("@{[map { $_->{rank} } @ranks]}" eq '1 0', 'who computes longest comes first');
    my @keys = qw(compute_s exchange_s wait_s path_s);
    ok($in_ms->(@{ $ranks[0] }{@keys}) eq '310 30 0 285'
        && $in_ms->(@{ $ranks[1] }{@keys}) eq '265 65 10 55'
        && abs($ranks[0]{behind_ratio} - (310 / 287.5 - 1)) < 1e-9,
        'ranks compute, exchange and wait') or print "# $json->encode(\@ranks)\n";
    my $path = $said->(@{ $measured->{critical_path} });
    ok($path eq 'backward 200, forward 95, update 30, norm 10, tp in forward 5',
        'the path goes on with the rank that was late') or print "# $path\n";
    ok($pages{ran} =~ /A step took .*?340 ms where .*? was predicted: /
        && $pages{ran} =~ /id="figure-measured-ranks"/
        && $pages{ran} =~ /id="figure-measured-exchanges"/, 'the page says and draws it');
    my ($status, $out, $err) =
        run("meshwright report $tmp/piped.json --no-scaling --json --run $tmp/piped_run.json");
    $path = $said->(@{ decode_json($out)->{measured}{critical_path} });
    ok($path eq 'backward 200, forward 200, update 10, receive 5',
        'and from a message to who sent it') or print "# $path $err\n";
    $ran->{trace} = [];
    spill("$tmp/untraced.json", $json->encode($ran));
    ($status, $out) =
        run("meshwright report $tmp/ran.json --no-scaling -o - --run $tmp/untraced.json");
    ok($status == 0 && $out =~ /The run has no trace/, 'a run without a trace has no ranks');
    $ran->{trace} = [[0, 'compute', 22, 0, 1]];
    spill("$tmp/beyond.json", $json->encode($ran));
    $ran->{trace} = [[0, 'tape', 0, 0, 1]];
    spill("$tmp/stream.json", $json->encode($ran));
}

# Without gnuplot.
{
    my ($status, $out, $said) =
        run("env PATH=$bin $bin/meshwright report $tmp/one.json --no-scaling -o $tmp/bare");
    ok($status == 0 && -s "$tmp/bare/index.html" && !-e "$tmp/bare/waterfall.svg"
        && $said =~ /^meshwright report: gnuplot is not installed: [^\n]+\n\z/,
        'without gnuplot there is the page, and one line') or print "# $status $said\n";
}

# The commands under a page make it again, whatever it was asked with.
{
    my ($command) = $pages{many} =~ m{<pre class="command"[^>]*>(meshwright report .*?)\n}s;
    $command =~ s/<[^>]*>//g;
    my ($status, $out) = run("$command --json");
    ok($status == 0 && $json->encode(decode_json($out)) eq $json->encode(data_of($pages{many})),
        'the command that the page names makes it again') or print "# $command\n";
    my ($plan) = $pages{many} =~ m{(meshwright plan .*?)\n</pre>}s;
    $plan =~ s/<[^>]*>//g;
    ($status, $out) = run("$plan --json");
    my $workload = $status == 0 ? decode_json($out)->{workload} : {};
    ok($json->encode($workload) eq $json->encode(data_of($pages{many})->{plan}{workload}),
        'and the plan is asked with the same workload') or print "# $plan\n";
}

# Processors are no GPUs, in no sentence.
{
    my $home = "env XDG_CACHE_HOME=$tmp/cache";
    run("$home meshwright calibrate --short --seconds 0.1 --ranks 1 --quiet");
    my ($status, $out, $said) = run("$home meshwright plan gpt2 local --ranks 1 --seq-len 128 "
        . "--global-batch 2 --tokens 1M -o $tmp/local.json");
    run("$home meshwright report $tmp/local.json --no-scaling -o $tmp/local/out");
    my $page = slurp("$tmp/local/out/index.html");
    $page =~ s/<script.*?<\/script>|<style.*?<\/style>|<section id="evidence".*?<\/section>//gs;
    my @gpus = "$page$out" =~ /([^<>\n]{0,40}GPU[^<>\n]{0,20})/g;
    ok($status == 0 && $page =~ /CPU rank/ && !@gpus, 'processors are not called GPUs')
        or print "# $status $said @gpus\n";
}

# A run that never ends is said to, where its length would stand.
{
    my ($status, $out, $said) = run("meshwright report $tmp/many.json --no-scaling "
        . "--tokens 1T --checkpoint-bandwidth 1 -o $tmp/endless");
    my $page = slurp("$tmp/endless/index.html") =~ s/\xc2\xa0/ /gr;
    $page =~ s/<script.*?<\/script>//gs;
    $page =~ s/<\/?span(?: class="whole")?>//g;
    ok($status == 0 && $page =~ /with them the run never ends/ && $page !~ /\b(?:inf|nan)\b/,
        'a run that never ends is said to') or print "# $status $said\n";
    my (undef, $table) = run("meshwright simulate $tmp/many.json --tokens 1T "
        . '--checkpoint-bandwidth 1');
    ok($table =~ /^1 T tokens +never: /m && $table !~ /\b(?:inf|nan)\b/, 'in the table, too');
}

# What is refused.
spill("$tmp/broken.json", '{');
{
    my $plan = decode_json(slurp("$tmp/one.json"));
    $plan->{alternatives}[0]{parallel}{tp} = 3;
    spill("$tmp/wrong.json", $json->encode($plan));
}
for my $case (
    ["$tmp/one.json --slow-rank 1", 2, qr/--slow-rank: expected R=FACTOR, found "1"/],
    ["$tmp/one.json --slow-rank 7=2", 2, qr/the plan has ranks 0 to 0, found 7/],
    ["$tmp/one.json --gpus 0..4", 2, qr/--gpus/],
    ["$tmp/ran.json --run $tmp/piped_run.json", 3, qr/hash: a run of another plan: expected fnv/],
    ["$tmp/ran.json --run $tmp/ran.json", 3, qr/expected a run.json as `meshwright run` writes/],
    ["$tmp/ran.json --run $tmp/beyond.json", 3, qr/trace\[0\]\[2\]: the plan has no task 22/],
    ["$tmp/ran.json --run $tmp/stream.json", 3, qr/trace\[0\]\[1\]: expected a stream/],
    ["$tmp/broken.json", 3, qr/broken.json:1:/],
    ["$tmp/absent.json", 3, qr/absent.json/],
    ["$tmp/wrong.json", 3, qr/wrong.json: /],
    ["$tmp/one.json --no-scaling -o /dev/null/x", 4, qr{/dev/null/x}],
) {
    my ($arguments, $wanted, $text) = @$case;
    $arguments .= " -o $tmp/refused" unless $arguments =~ / -o /;
    my ($status, $out, $said) = run("meshwright report $arguments");
    ok($status == $wanted && $said =~ $text && $said =~ /^[^\n]+\n\z/ && !-e "$tmp/refused",
        "refused: $arguments" =~ s/\Q$tmp\E/TMP/gr) or print "# $status $said\n";
}

# In a browser. Boxes of text may stick out of no figure and no row's name run into its value.
my $geometry = <<'END';
(function () {
  var faults = [];
  document.querySelectorAll("figure").forEach(function (figure) {
    var frame = figure.getBoundingClientRect();
    figure.querySelectorAll(".plot > svg").forEach(function (svg) {
      var box = svg.getBoundingClientRect();
      if (box.width < 100 || box.height < 20) faults.push(figure.id + " is not there");
    });
    // A label lies on no other label and on no point.
    var labels = Array.from(figure.querySelectorAll("text.label")).filter(function (text) {
      return text.getBoundingClientRect().width > 0;
    });
    var points = Array.from(figure.querySelectorAll("circle"));
    function meet(a, b) {
      a = a.getBoundingClientRect(), b = b.getBoundingClientRect();
      return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 &&
        b.top < a.bottom - 3;
    }
    labels.forEach(function (label, at) {
      labels.slice(at + 1).concat(points).forEach(function (other) {
        if (meet(label, other))
          faults.push(figure.id + ": " + label.textContent + " lies on " + other.textContent);
      });
    });
    var rows = {};
    figure.querySelectorAll("text").forEach(function (text) {
      var box = text.getBoundingClientRect();
      if (box.width === 0) return;
      if (box.left < frame.left || box.right > frame.right)
        faults.push(figure.id + " cuts " + text.textContent);
      if (!text.classList.contains("row")) return;
      var key = Math.round(box.top), other = rows[key];
      if (other && other.right > box.left) faults.push(figure.id + ": " + text.textContent);
      rows[key] = box;
    });
  });
  return faults.join("\n");
}())
END

# What is pressed has 24 pixels each way (WCAG 2.2, 2.5.8); every value that the pointer shows
# stands in a table that the keyboard opens; what scrolls sideways can be reached; every control
# has a name.
my $access = <<'END';
(function () {
  var faults = [];
  document.querySelectorAll("a, button, summary, input, select").forEach(function (target) {
    var box = target.getBoundingClientRect();
    if (box.width === 0) return;
    if (box.height < 24 && target.type !== "checkbox")
      faults.push("small: " + target.textContent + target.id + " " + box.height);
    var named = target.textContent.trim() || target.getAttribute("aria-label") ||
      document.querySelector("label[for='" + target.id + "']");
    if (!named) faults.push("no name: " + target.id);
  });
  document.querySelectorAll("figure").forEach(function (figure) {
    var shown = figure.querySelectorAll("rect title, circle title").length;
    var told = figure.querySelectorAll("details td").length;
    if (told < Math.min(shown, 320)) faults.push(figure.id + " tells " + told + " of " + shown);
  });
  document.querySelectorAll(".scroll, pre").forEach(function (box) {
    if (box.scrollWidth > box.clientWidth + 1 && box.tabIndex < 0)
      faults.push("out of reach: " + box.textContent.slice(0, 40));
  });
  return faults.join("\n");
}())
END

# On a phone no table is scrolled sideways: rows are cards, and no number in them is broken. What
# scrolls by intent are listings of a program's output.
my $narrow = <<'END';
(function () {
  var faults = [];
  document.querySelectorAll("details").forEach(function (part) { part.open = true; });
  document.querySelectorAll(".scroll").forEach(function (box) {
    if (box.scrollWidth > box.clientWidth)
      faults.push("scrolls: " + box.scrollWidth + " " + box.textContent.slice(0, 60));
    box.querySelectorAll(".cards td.number").forEach(function (cell) {
      var range = document.createRange();
      range.selectNodeContents(cell);
      var lines = new Set(Array.from(range.getClientRects()).map(function (line) {
        return Math.round(line.top);
      }));
      var right = box.getBoundingClientRect().right;
      if (lines.size > 1 || range.getBoundingClientRect().right > right)
        faults.push("broken: " + cell.textContent);
    });
  });
  document.querySelectorAll("pre.command").forEach(function (box) {
    if (box.scrollWidth > box.clientWidth) faults.push("command: " + box.textContent);
  });
  return faults.join("\n");
}())
END

my @looks = ([390, 0], [390, 1], [1024, 0], [1440, 0], [1440, 1]);
my $tests_in_browser = 5 * @looks + @plans + 9;
my ($chromium) = grep { has($_) } 'chromium', 'chromium-browser', 'google-chrome';
$browser = Browser->start($chromium) if $chromium;
if (!$browser) {
    skip($tests_in_browser, $chromium ? "$chromium does not start" : 'no chromium');
} else {
    for my $look (@looks) {
        my ($width, $dark) = @$look;
        my $scheme = $dark ? 'dark' : 'light';
        my $page = $browser->open("file://$tmp/many/out/index.html", width => $width,
            dark => $dark);
        ok(!@{ $page->{logs} }, "nothing on the console at $width, $scheme")
            or print "# @{ $page->{logs} }\n";
        ok(@{ $page->{requests} } == 1, "no request leaves the page at $width, $scheme");
        my $overflow = $browser->ask($page, 'document.documentElement.scrollWidth');
        ok($overflow <= $width, "no overflow at $width, $scheme") or print "# $overflow\n";
        my $faults = $browser->ask($page, $geometry);
        ok($faults eq '', "no text is cut at $width, $scheme") or print "# $faults\n";
        $faults = $browser->ask($page, $access);
        ok($faults eq '', "all can be reached at $width, $scheme") or print "# $faults\n";
        $browser->close($page);
    }
    for my $id (map { $_->[0] } @plans) {
        my $page = $browser->open("file://$tmp/$id/out/index.html", width => 390);
        my $faults = $browser->ask($page, $narrow);
        ok($faults eq '', "$id: nothing scrolls sideways on a phone") or print "# $faults\n";
        $browser->close($page);
    }
    for my $id (qw(one many)) {
        my $page = $browser->open("file://$tmp/$id/out/index.html");
        my $sheets = () = $browser->paper($page) =~ m{/Type\s*/Page\b}g;
        ok($sheets == 2, "$id: on paper it has two pages") or print "# $sheets\n";
        $browser->close($page);
    }
    my $page = $browser->open("file://$tmp/named/out/index.html", width => 390);
    ok(!@{ $page->{logs} }, 'a name that looks like markup is text')
        or print "# @{ $page->{logs} }\n";
    ok($browser->ask($page, 'document.querySelector("h1").textContent.indexOf("</script>") > 0')
        && $browser->ask($page, 'document.documentElement.scrollWidth') <= 390,
        'and a long one is broken');
    $browser->close($page);

    $page = $browser->open("file://$tmp/many/out/index.html");
    my $data = data_of($pages{many});
    my $shown = $browser->ask($page,
        'document.querySelector("[data-value=\'prediction.step_s\']").textContent');
    my ($value, $unit) = split / /, $shown;
    $value *= {s => 1, ms => 1e-3}->{$unit};
    ok(abs($value / $data->{prediction}{step_s} - 1) < 5e-3, 'the page shows the data')
        or print "# $shown\n";
    my $missing = $browser->ask($page, <<'END');
(function () {
  var data = JSON.parse(document.getElementById("report-data").textContent);
  return Array.from(document.querySelectorAll("[data-value]")).map(function (place) {
    return place.getAttribute("data-value");
  }).filter(function (path) {
    return typeof path.split(".").reduce(function (at, key) {
      return at && at[key];
    }, data) !== "number";
  }).join(" ");
}())
END
    ok($missing eq '', 'what names a number of the data finds it') or print "# $missing\n";
    my $column = 'Array.from(document.querySelectorAll("#alternatives tbody tr"))'
        . '.map(r => Number(r.cells[5].textContent))';
    $browser->ask($page, 'document.querySelectorAll("#alternatives th button")[5].click()');
    my $up = $browser->ask($page, $column);
    $browser->ask($page, 'document.querySelectorAll("#alternatives th button")[5].click()');
    my $down = $browser->ask($page, $column);
    ok("@$up" eq join(' ', sort { $a <=> $b } @$up), 'tables sort by a column');
    ok("@$down" eq join(' ', reverse @$up), 'and the other way round');
    ok($browser->ask($page, 'document.querySelectorAll("#alternatives .copy").length') == 1,
        'and can be copied');
    $browser->close($page);
    $browser->stop;
}
print "1..$number\n";
