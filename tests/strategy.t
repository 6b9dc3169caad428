#!/usr/bin/perl
# `strategy` on problems drawn here, plain and packed, its answers checked on the file's own numbers
# by code that shares nothing with the solver: costs, forbidden pairs, usage over time, the bound,
# equal answers to equal questions, and the schemas of both files. Instances of the contest are
# checked too where they stand beside the checkout (MESHWRIGHT_GRAPHS), one small one, briefly.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Schema;
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->canonical;
my $seed   = $ENV{MESHWRIGHT_SEED} // 20250330;
print "# MESHWRIGHT_SEED=$seed\n";
srand $seed;
my $FORBIDDEN = 1_000_000_000_000_000_000;

# Cost and peak of a choice, or why it is none.
sub value_of {
    my ($problem, $choice) = @_;
    my ($nodes, $edges) = @{$problem}{qw(nodes edges)};
    my ($cost, $peak, $used, %change) = (0, 0, 0);
    return 'a choice for each node' if @$choice != @{ $nodes->{costs} };
    for my $i (0 .. $#$choice) {
        my $at = $nodes->{costs}[$i][$choice->[$i]] // return "no strategy of node $i";
        return "node $i is forbidden" if $at >= 1e18;
        $cost += $at;
        my ($birth, $death) = @{ $nodes->{intervals}[$i] };
        $change{$birth} += $nodes->{usages}[$i][$choice->[$i]];
        $change{$death} -= $nodes->{usages}[$i][$choice->[$i]];
    }
    for my $e (0 .. $#{ $edges->{nodes} }) {
        my ($a, $b) = @{ $edges->{nodes}[$e] };
        my $width = @{ $nodes->{costs}[$b] };
        my $at = $edges->{costs}[$e][$choice->[$a] * $width + $choice->[$b]];
        return "edge $e is forbidden" if $at >= 1e18;
        $cost += $at;
    }
    for my $time (sort { $a <=> $b } keys %change) {
        $used += $change{$time};
        $peak = $used if $used > $peak;
    }
    return ('', $cost, $peak);
}

my $problems = Schema::from_file('reports/schema/strategy.schema.json');
my $answers  = Schema::from_file('reports/schema/strategy-answer.schema.json');

# Equal limits have equal answers but where the clock ended the run, as it may of slow builds.
my $is_cut;

sub judge {
    my ($name, $path, $problem, $limit_s) = @_;
    my ($status, $out, $err) =
        answer_of("$build/meshwright strategy $path --time-limit $limit_s --json");
    $is_cut ||= $err =~ /warning: the clock ended this run/;
    my $answer = $status == 0 ? $json->decode($out) : undef;
    return check("$name is solved", 0, $err) if !$answer;
    my ($why, $cost, $peak) = value_of($problem, $answer->{choice});
    $why = "cost $answer->{cost} is $cost" if !$why && $cost != $answer->{cost};
    $why = "peak $answer->{peak_usage} is $peak" if !$why && $peak != $answer->{peak_usage};
    $why ||= 'above the limit' if ($problem->{usage_limit} // $peak) < $peak;
    $why ||= 'the bound is above the cost' if $answer->{bound} > $answer->{cost};
    $why ||= Schema::breach($answer, $answers, '$');
    check("$name is solved, and its answer is right", $why eq '', $why);
    return ($out, $answer);
}

# A chain of layers: each operator wants one of a few layouts, changing costs, memory is short.
sub drawn {
    my ($count, $strategies) = @_;
    my (%nodes, %edges, @least);
    for my $i (0 .. $count - 1) {
        my $width = 2 + int rand $strategies;
        my @usage = map { 5 + int rand 40 } 1 .. $width;
        my $birth = $i;
        my $death = $i + 1 + int rand 6;
        push @{ $nodes{intervals} }, [$birth, $death];
        push @{ $nodes{usages} }, \@usage;
        push @{ $nodes{costs} }, [map { int(200 / $_) + int rand 20 } @usage];
        my ($least) = sort { $a <=> $b } @usage;
        $least[$_] += $least for $birth .. $death - 1;
        for my $from (grep { $_ >= 0 } $i - 1, $i - 1 - int rand 5) {
            push @{ $edges{nodes} }, [$from, $i];
            my $cells = @{ $nodes{costs}[$from] } * $width;
            push @{ $edges{costs} },
                [map { rand() < 0.4 ? 0 : rand() < 0.05 ? $FORBIDDEN : int rand 60 } 1 .. $cells];
            $edges{costs}[-1][0] = 0;
        }
    }
    my ($most) = sort { $b <=> $a } @least;
    return {name => 'drawn', nodes => \%nodes, edges => \%edges, usage_limit => int 1.6 * $most};
}

for my $case ([40, 3], [120, 6]) {
    my $problem = drawn(@$case);
    my $text    = $json->encode({problem => $problem});
    write_text("$folder/drawn.json", $text);
    my $breach = Schema::breach({problem => $problem}, $problems, '$');
    check("a problem of $case->[0] nodes is as its schema says", $breach eq '', $breach);
    $is_cut = 0;
    my ($out) = judge("a problem of $case->[0] nodes", "$folder/drawn.json", $problem, 0.5);
    system "gzip -kf $folder/drawn.json";
    my ($again) = judge('the same, packed,', "$folder/drawn.json.gz", $problem, 0.5);
    check('and is answered alike', $is_cut || ($out // '') eq ($again // ' '));
    my ($shared) = judge('the same on two cores', "$folder/drawn.json --workers 2", $problem, 0.5);
    my (undef, $once) = answer_of("$build/meshwright strategy $folder/drawn.json --workers 2 "
            . '--time-limit 0.5 --json');
    check('is answered alike, too', $is_cut || ($shared // '') eq ($once // ' '));
}

my $graphs = $ENV{MESHWRIGHT_GRAPHS} // '../shared/graphs';
my $path   = "$graphs/iopddl/asplos-2025-iopddl-G.json.gz";
if (-r $path) {
    my $problem = $json->decode(scalar `gzip -dc $path`)->{problem};
    my (undef, $answer) = judge('instance G of the contest', $path, $problem, 2);
    check('at the best known cost', $answer && $answer->{cost} <= 217039, $answer->{cost} // '');
} else {
    skipped('instance G of the contest', "no $path");
}
checked();
