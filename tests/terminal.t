#!/usr/bin/perl
# What commands print on a terminal of 80 columns, and of 40: no line is wider, no figure of the
# wide answer is missing. Colours are for terminals alone, and go with NO_COLOR.
use strict;
use warnings;
use Encode 'decode';
use File::Temp 'tempdir';
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $bin    = "$build/meshwright";
delete @ENV{qw(COLUMNS NO_COLOR)};
my $mistral = 'mixtral-8x7b dgx-h100-x2 --seq-len 4096 --global-batch 64 --micro-batch 1';
my $small   = 'gpt2 dgx-a100-80g --seq-len 512 --global-batch 16';

sub printed {
    my ($command, $columns) = @_;
    my $set = $columns ? "COLUMNS=$columns " : '';
    return decode('UTF-8', scalar `$set$command 2>&1`);
}

# How often each number stands in a text; of "53,494" the parts, because a list may be broken.
sub figures {
    my ($text) = @_;
    my %count;
    $count{$1}++ while $text =~ /(\d+(?:\.\d+)?)/g;
    return \%count;
}

my $plan = "$folder/plan.json";
my @commands = (
    "plan $mistral --tokens 10T --price-per-gpu-hour 2.5 --stack megatron-core -o $plan",
    "plan $mistral --stack megatron-core --why tp=8 -o $folder/other.json",
    "plan $mistral --stack megatron-core --space",
    "plan $small --ablation -o $folder/small.json",
    "simulate $plan --slow-rank 3=1.2",
    "simulate $plan --explain",
    "topology dgx-h100-x16",
    "whatif llama-3-8b dgx-h100 dgx-a100-80g --gpus 8..64 --seq-len 4096 --global-batch 128 "
        . "--tokens 1T --deadline 60d --price-per-gpu-hour 2",
    "whatif llama-3-8b dgx-h100 --scaling --gpus 8..64 --seq-len 4096 --global-batch 128",
    "whatif llama-3-8b --seq-len 4096 --tokens 1T --gpus 8",
    "whatif llama-3-8b dgx-h100 --min-gpus --gpus 1..16 --seq-len 4096 --global-batch 16",
    (map { "$_" } qw(models clusters devices stacks)),
    "help", (map { "help $_" } qw(plan simulate memory run calibrate report whatif validate fit)),
    "plan no-such-model dgx-h100",
);
for my $command (@commands) {
    my $wide = printed("$bin $command");
    for my $columns (80, 40) {
        my $narrow = printed("$bin $command", $columns);
        my @over = grep { length > $columns } split /\n/, $narrow;
        # A path or a command's word is never broken.
        @over = grep { !/\Q$folder\E/ } @over;
        check("at $columns columns no line is wider: $command", !@over, join "\n", @over);
        my ($all, $left) = (figures($wide), figures($narrow));
        my @lost = grep { ($left->{$_} // 0) < $all->{$_} } sort keys %$all;
        check("no figure is lost", !@lost && $wide =~ /\n/, "@lost");
    }
}

# `script` of util-linux gives a command a terminal.
if (`script --version 2>&1` =~ /util-linux/) {
    my $terminal = sub { return scalar `script -qec '$_[0]' /dev/null </dev/null` };
    my $coloured = $terminal->("$bin models");
    check('on a terminal heads are bold', $coloured =~ /\e\[1mmodel /, $coloured);
    my $text = $terminal->("stty cols 60; $bin plan $small -o $folder/tty.json");
    check('and so is the word "Best:"', $text =~ /\e\[1;32mBest:\e\[0m/, $text);
    $text =~ s/\e\[[0-9;]*[mK]|\r//g;
    my @over = grep { length decode('UTF-8', $_) > 60 } split /\n/, $text;
    check('its own width is kept', $text =~ /Best:/ && !grep({ !/\Q$folder\E/ } @over), $text);
    my @rows = split /^/, text_of('tests/validation/published.jsonl');
    my $runs = write_text("$folder/runs.jsonl", join '', @rows[0 .. 199]);
    my $watched = $terminal->("$bin validate $runs");
    check('what takes long says how long', $watched =~ /\e\[Krow \d+ of \d+, about \d+ s left/);
    check('and the line is erased', $watched =~ /left[^\n]*\r\e\[K[^\r]*tier A/s,
          substr $watched, 0, 900);
    for my $off ('NO_COLOR=1', 'TERM=dumb') {
        check("$off: no colours", $terminal->("$off $bin models") !~ /\e/);
    }
} else {
    skipped('a terminal', 'script of util-linux is not installed');
}
check('a pipe gets no colours', printed("$bin models") !~ /\e/);
# mpirun, where there is one, lets ranks write to a terminal of its own.
write_text("$folder/tiny.json", '{"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 2, '
           . '"n_positions": 16, "vocab_size": 200}');
my $ran = printed("$bin plan $folder/tiny.json local --ranks 2 --seq-len 16 --global-batch 4 "
                  . "--precision fp32 -o $folder/tiny-plan.json && $bin run $folder/tiny-plan.json "
                  . '--backend cpu --steps 1');
check('nor does one of a run', $ran =~ /ratio/ && $ran !~ /\e/, $ran);
checked();
