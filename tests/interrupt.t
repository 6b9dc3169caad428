#!/usr/bin/perl
# SIGINT during a search: the best so far, named as such, in the table and in a file that every
# command reads; before a plan is found one line and no file. The search is exhaustive and long, and
# waits longer each time until it has found what is wanted.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use POSIX ();

my $build    = $ENV{BUILD} // 'build';
my $tmp      = tempdir(CLEANUP => 1);
my $plan     = "$tmp/plan.json";
my $question = 'plan qwen3-8b dgx-h100-x8 --seq-len 4096 --global-batch 1024 --exhaustive';
my $number   = 0;

sub ok {
    my ($right, $name, $why) = @_;
    $number++;
    print $right ? 'ok' : 'not ok', " $number - $name\n";
    print STDERR "# $why\n" if !$right && defined $why;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    return scalar <$file> // '';
}

# Status, stdout and stderr of a command that gets SIGINT after so many seconds.
sub interrupted {
    my ($words, $after_s) = @_;
    unlink $plan;
    my $child = fork // die "fork: $!";
    if (!$child) {
        $SIG{INT} = 'DEFAULT';
        open STDOUT, '>', "$tmp/out" or die $!;
        open STDERR, '>', "$tmp/err" or die $!;
        exec "$build/meshwright", split(/ /, $words), '-o', $plan;
    }
    select undef, undef, undef, $after_s;
    kill 'INT', $child;
    waitpid $child, 0;
    return $? & 127 ? 'signal ' . ($? & 127) : $? >> 8, slurp("$tmp/out"), slurp("$tmp/err");
}

# The same, later and later until there is a plan.
sub stopped {
    my ($words) = @_;
    my ($status, $out, $err);
    for my $after_s (0.5, 1, 2, 4, 8, 16) {
        ($status, $out, $err) = interrupted($words, $after_s);
        last if -e $plan;
    }
    return $status, $out, $err;
}

my ($status, $out, $err) = stopped($question);
ok($status eq 130, 'a search that SIGINT stopped ends with 130', "$status: $err");
ok($out =~ /^Stopped by SIGINT: best of the [\d,.kM ]+ plans priced so far; not proven\.$/m
       && $out !~ /Proven optimal/, 'its table says what it is', $out);
ok($err =~ /\Anote: stopped by SIGINT: the best of the .* plans priced so far\n\z/,
   'so does a note', $err);
my $document = eval { decode_json(slurp($plan)) } // {};
my $search = $document->{provenance}{search} // {};
ok(($search->{status} // '') eq 'stopped' && $search->{bound_s} == 0
       && $search->{priced_count} > 0, 'so does the file', slurp($plan));
ok(system("$build/meshwright simulate $plan >$tmp/out 2>&1") == 0, 'simulate reads it',
   slurp("$tmp/out"));
ok(system("$build/meshwright report $plan --no-scaling -o $tmp/report >$tmp/out 2>&1") == 0
       && slurp("$tmp/report/index.html") =~ /best so far: the search was stopped/,
   'report says it, too', slurp("$tmp/out"));

($status, $out, $err) = stopped("$question --json");
ok($status eq 130 && (eval { decode_json($out) } // {})->{provenance}{search}{status} eq 'stopped',
   '--json has the same answer', "$status: $err");
($status, $out, $err) = stopped("$question --why tp=8 --explain");
ok($status eq 130 && $err =~ /; --why, --ablation and --explain are of a finished search\n\z/
       && $out !~ /tp 8 is/, 'what asks for more searches is left out', "$status: $err$out");

# 405 B parameters fit in no small layout, and those come first.
my $line = qr/stopped by SIGINT before a plan was found that fits \([^)]*\)/;
for my $after_s (0.4, 0.2, 0.1, 0.8, 1.6) {
    ($status, $out, $err) =
        interrupted('plan llama-3.1-405b dgx-h100-x16 --seq-len 8192 --global-batch 512 '
                    . '--exhaustive', $after_s);
    last if $status eq 130 && !-e $plan;
}
ok($status eq 130 && $out eq '' && !-e $plan && $err =~ /\Ameshwright plan: $line\n\z/,
   'before a plan is found there is a line and no file', "$status: $err$out");
# Scenarios are searched whole or not at all; -o names a folder.
my $sweep = 'whatif llama-3-70b dgx-h100 --nodes 4..96 --seq-len 4096 --global-batch 1024 '
          . '--workers 1';
for my $after_s (0.5, 1, 2, 4, 8, 16) {
    system 'rm', '-rf', $plan;
    ($status, $out, $err) = interrupted($sweep, $after_s);
    last if -e "$plan/whatif.json";
}
my $answer = eval { decode_json(slurp("$plan/whatif.json")) } // {};
my %count;
$count{$_->{status}}++ for @{ $answer->{scenarios} // [] };
ok($status eq '130' && ($count{stopped} // 0) > 0 && ($count{fits} // 0) > 0
       && $out =~ /^   \d+ of \d+ were not searched:$/m
       && $err =~ /^note: stopped by SIGINT: the best of the scenarios searched so far$/m,
   'whatif answers of the scenarios that were searched', "$status: $err$out");
system 'rm', '-rf', $plan;
my $slow = 'whatif deepseek-v3 dgx-h100 --nodes 256..257 --seq-len 4096 --global-batch 15360 '
         . '--workers 1';
for my $after_s (0.4, 0.2, 0.1, 0.8) {
    ($status, $out, $err) = interrupted($slow, $after_s);
    last if $status eq '130' && !-e $plan;
}
ok($status eq '130' && $out eq '' && !-e $plan
       && $err =~ /^meshwright whatif: stopped by SIGINT before a plan was found that fits$/m,
   'and without any writes nothing', "$status: $err$out");
print "1..$number\n";
