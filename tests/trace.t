#!/usr/bin/perl
# A timeline holds what viewers need: no slices of a track overlap, operators lie in their task,
# arrows join slices, the memory counter is that of the memory model, and .gz packs it.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use List::Util qw(max min);
use lib 'tests';
use QuickJson;
use Timeline;

my $build = $ENV{BUILD} // 'build';
$ENV{PATH} = abs_path($build) . ":$ENV{PATH}";
my $tmp = tempdir(CLEANUP => 1);
my $number = 0;

sub ok {
    my ($right, $name, @notes) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    if (!$right) { print "# $_\n" for grep { defined } @notes[0 .. min(4, $#notes)] }
    return $right;
}

sub text_of {
    my ($command) = @_;
    my $text = `$command`;
    return $? ? '' : $text;
}

# What a trace of this plan has to be like.
sub check {
    my ($name, $plan, $options, %wanted) = @_;
    my $text = text_of("meshwright simulate $plan $options --trace $tmp/t.json --json "
        . "&& cat $tmp/t.json");
    my ($answer, $trace) = $text =~ /\A(.*?^\}\n)(\[.*)\z/ms;
    my $events = eval { quick_json($trace) } // [];
    my $prediction = eval { quick_json($answer)->{prediction} };
    ok(@$events > 100 && $prediction, "$name: the timeline is JSON") or return;
    my $tracks = tracks_of($events);
    my ($overlaps, $loose) = overlaps($tracks);
    ok(!@$overlaps, "$name: no slices of a track overlap", scalar @$overlaps, @$overlaps);
    ok(!@$loose, "$name: operators lie in their tasks", scalar @$loose, @$loose);
    my %threads = map { ("$_->{pid} $_->{tid}" => $_->{args}{name}) }
        grep { $_->{name} eq 'thread_name' } @$events;
    ok(!(grep { !$threads{$_} } keys %$tracks), "$name: every track has a name");

    my @slices = grep { $_->{cat} ne 'operator' } map { @$_ } values %$tracks;
    my ($arrows, $faults) = arrows_of($events, $tracks);
    ok(!@$faults, "$name: arrows join slices", @$faults);
    my @receives = grep { $_->{name} =~ /^receive/ } @slices;
    my @messages = grep { $_->[1]{name} =~ /^receive/ } @$arrows;
    ok(@receives == @messages && (!$wanted{messages} || @receives > 0),
        "$name: an arrow leads to every receive", @receives . ' and ' . @messages);
    my @odd = grep { $_->[0]{name} ne $_->[1]{name} =~ s/^receive/send/r =~ s/, chunk.*//r
            && $_->[0]{name} !~ /^\Q@{[$_->[1]{name} =~ s{^receive}{send}r =~ s{, chunk.*}{}r]}\E/ }
        @messages;
    ok(!@odd, "$name: from the send of the same micro-batch", map { $_->[0]{name} } @odd);
    @odd = grep { $_->[0]{args}{to_rank} != $_->[1]{pid}
            || $_->[1]{args}{from_rank} != $_->[0]{pid} } $wanted{folded} ? () : @messages;
    ok(!@odd, "$name: between ranks that name each other", map { $_->[1]{name} } @odd);
    my @reductions = grep { $_->{name} =~ /^reduce gradients/ } @slices;
    my @gradients = grep { $_->[1]{name} =~ /^reduce gradients/ } @$arrows;
    ok(@reductions == @gradients && @reductions > 0
        && !(grep { $_->[0]{name} !~ /^(?:weight gradients|backward), / } @gradients),
        "$name: an arrow leads from gradients to every reduction",
        @reductions . ' and ' . @gradients);

    my @levels = grep { $_->{ph} eq 'C' } @$events;
    my $most = max(map { $_->{args}{GiB} } @levels);
    ok($most && abs($most * 2**30 / $prediction->{peak_bytes} - 1) < $wanted{memory},
        "$name: memory rises to the peak of the prediction",
        ($most // 0) * 2**30 . " and $prediction->{peak_bytes}");

    my @computing = grep { $_->{name} =~ /^(?:forward|backward|weight gradients), micro-batch \d+/
            && $_->{cat} eq 'compute' } @slices;
    @odd = grep { my $args = $_->{args};
        !($args->{flop} && $args->{flop_per_s} || ($args->{layers} // '') eq 'embedding')
            || !defined $args->{layers} || !defined $args->{micro_batch} } @computing;
    ok(@computing && !@odd,
        "$name: tasks tell their layers, flop and rate");
    ok(!(grep { !($_->{args}{bytes} > 0 && $_->{args}{bytes_per_s} > 0) } @receives, @reductions)
        && !(grep { !($_->{args}{ranks} > 1) } @reductions),
        "$name: messages and reductions their bytes, ranks and rate");
    my %within = map { ($_ => 1) } map { $_->{name} =~ /^layer \d/ ? () : $_->{name} }
        grep { $_->{cat} eq 'operator' } map { @$_ } values %$tracks;
    ok(%within > 5, "$name: operators have their names");
    return { events => $events, prediction => $prediction, slices => \@slices };
}

my $small = '--seq-len 1024 --global-batch 8 --tp 2 --dp 2 --micro-batch 1';
my %plans = (
    piped    => "gpt2 dgx-h100-x2 $small --pp 4 --vpp 3",
    wave     => "gpt2 dgx-h100-x1 $small --pp 2 --schedule zb-v "
        . '--stack megatron-zero-bubble',
    blocking => "gpt2 dgx-h100-x2 $small --pp 4 --vpp 1 --overlap none",
    mixture  => 'mixtral-8x7b dgx-h100-x4 --seq-len 4096 --global-batch 16 --tp 2 --pp 2 --dp 8 '
        . '--ep 8',
);
for my $name (sort keys %plans) {
    my $status = system "meshwright plan $plans{$name} -o $tmp/$name.json >$tmp/out 2>&1";
    ok($status >> 8 < 2, "$name: the plan is written", text_of("cat $tmp/out"));
    check($name, "$tmp/$name.json", '', folded => 1, messages => 1, memory => 1e-3);
}
check('all ranks', "$tmp/piped.json", '--all-ranks', messages => 1, memory => 1e-4);

# A slow rank: those that differ, one for all that do the same.
{
    my $held = check('slow', "$tmp/piped.json", '--slow-rank 5=1.3', folded => 1, messages => 1,
        memory => 1e-4);
    my @names = map { $_->{args}{name} } grep { $_->{name} eq 'process_name' }
        @{ $held->{events} };
    ok(@names == 9 && (grep { /^rank 5 \(x1\.3\), stage \d$/ } @names) == 1
        && (grep { /in step with a slow one/ } @names) == 1
        && (grep { /in the same pipeline/ } @names) == 3
        && (grep { /like all other pipelines/ } @names) == 4,
        'slow: the ranks that differ are there', @names);
}

# Packed, and what a file name without .gz holds.
{
    my $plain = text_of("meshwright simulate $tmp/piped.json --trace $tmp/p.json >$tmp/out "
        . "&& cat $tmp/p.json");
    my $packed = text_of("meshwright simulate $tmp/piped.json --trace $tmp/p.json.gz >$tmp/out "
        . "&& gzip -dc $tmp/p.json.gz");
    ok(length $plain > 1000 && $plain eq $packed, '.gz holds the same, packed');
    ok(-s "$tmp/p.json.gz" < 0.2 * -s "$tmp/p.json", 'and is a fifth of it at most',
        -s "$tmp/p.json.gz");
    my $first = text_of("cat $tmp/p.json.gz");
    text_of("meshwright simulate $tmp/piped.json --trace $tmp/p.json.gz");
    ok($first eq text_of("cat $tmp/p.json.gz"), 'and the same bytes again');
}
print "1..$number\n";
