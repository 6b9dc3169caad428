package IoFail;
# Fails the N-th read, write or fsync of a command, for N = 1, 2, 3, ... until there are no more
# (tests/io_fail*.t): every time it must end with status 4 and one line on stderr, and what it was
# to write is whole: as it was, or not there, or as it should be where what failed came behind it
# (its folder's fsync, the answer on stdout). Nothing is left beside it.
use strict;
use warnings;
use Cwd 'getcwd';
use Exporter 'import';
use File::Path qw(make_path remove_tree);
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

our @EXPORT = qw($build $tmp $work complaints every every_file failing few_data files_below
                 is_json);

our $build = $ENV{BUILD} // 'build';
our $tmp   = tempdir(CLEANUP => 1);
my $fail   = "$build/tests/io_fail";
my $old    = "whole and older\n";

# Of a plan for a model of two layers on two ranks.
our $work = "$tmp/tiny.json dgx-a100-80g --precision fp32 --seq-len 32 --global-batch 8 "
    . '--micro-batch 1 --stack meshwright --gpus 2 --tp 1 --pp 2 --cp 1 --zero 0 --recompute none '
    . '--schedule 1f1b';

sub skip {
    print "1..0 # SKIP $_[0]\n";
    exit 0;
}

$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};
$ENV{XDG_CACHE_HOME} = "$tmp/cache";
system("$fail read 1 $build/meshwright models >$tmp/stdout 2>$tmp/stderr 3>$tmp/calls");
skip('the kernel does not notify of system calls') if $? >> 8 == 77;
skip('the sanitizer reads files of its own')
    if system("grep -q __asan_init $build/meshwright") == 0;
my %gpt2 = (model_type => 'gpt2', n_embd => 32, n_head => 4, n_layer => 2, n_positions => 32,
            vocab_size => 512);
write_text("$tmp/tiny.json", JSON::PP->new->encode(\%gpt2));
my ($status, undef, $errors) = answer_of("$build/meshwright plan $work -o $tmp/p.json");
die "no plan: $errors" if $status;

sub files_in {
    my ($folder) = @_;
    return sort grep { -f } glob("$folder/* $folder/.??* $folder/*/*");
}

sub files_below {
    my ($folder) = @_;
    return map { -d $_ ? files_below($_) : $_ } grep { !m{/\.\.?$} } glob "$folder/* $folder/.*";
}

# The shipped files that these commands need and a few more: lists of them are read file by file.
sub few_data {
    my %kept = (models => 'gpt2|llama-2-7b|mixtral-8x7b',
                topologies => 'dgx-[ah]100(-80g)?|l40s-pcie8|a100-sxm4-80g|h100-sxm5-80g|l40s-48g',
                stacks => 'meshwright(-cpu)?|megatron-core');
    mkdir "$tmp/data";
    for my $path (grep { !m{/schema/} } split /\n/,
                  `find topologies models cost_models plan memory reports -name '*.json'`) {
        my ($name) = $path =~ m{([^/]*)\.json$};
        my $list = $path =~ m{^models/zoo/} ? 'models' : $path =~ m{/stacks/} ? 'stacks'
                 : $path =~ m{^topologies/(?:devices/|[^/]*$)} ? 'topologies' : '';
        next if $list && $name !~ /^(?:$kept{$list})$/ && $name !~ /schema$/;
        make_path("$tmp/data/" . ($path =~ s{/[^/]*$}{}r));
        symlink getcwd() . "/$path", "$tmp/data/$path";
    }
    return "$tmp/data";
}

sub is_json {
    my ($text) = @_;
    return eval { JSON::PP->new->decode($text); 1 } && $text =~ /\n\z/;
}

# Runs a command with the N-th call failing: its status, "" where there are not so many, and what it
# said.
sub failing {
    my ($call, $number, @words) = @_;
    my $status = run_into({1 => "$tmp/stdout", 2 => "$tmp/stderr", 3 => "$tmp/calls"}, $fail, $call,
                          $number, "$build/meshwright", @words);
    my $is_there = text_of("$tmp/calls") !~ /calls/;
    return ($is_there ? $status : '', $status, text_of("$tmp/stderr"));
}

# What a failing command said, but for what it also says when nothing fails.
sub complaints {
    my ($errors) = @_;
    return grep {
        !/^note: |gnuplot is not installed|^meshwright run: (?:predicted|cpu on|goes on) /
            && !/^meshwright (?:bench: run \d|run: .* waited for their data)/
    } split /^/, $errors;
}

# A command and the file that it writes, '' for none. What is wrong with the N-th call failing, and
# whether there was an N-th one.
sub attempt {
    my ($call, $number, $words, $output, $has_old, $is_whole) = @_;
    remove_tree("$tmp/out", "$tmp/calls");
    mkdir "$tmp/out";
    write_text("$tmp/out/$output", $old) if $output && $has_old;
    my @before = files_in("$tmp/out");
    my ($is_there, $status, $errors) = failing($call, $number, split / /, $words);
    return ($status eq '0' ? '' : "with no call failing: status $status, $errors", 0)
        if $is_there eq '';
    my @wrong;
    push @wrong, "status $status" if $status ne '4';
    push @wrong, complaints($errors) . " lines on stderr: $errors" if complaints($errors) != 1;
    my @after = files_in("$tmp/out");
    if ($output && -e "$tmp/out/$output") {
        my $left = text_of("$tmp/out/$output");
        push @wrong, "$output became " . substr($left, 0, 60)
            unless ($has_old && $left eq $old) || $is_whole->($left);
        push @before, "$tmp/out/$output" unless $has_old;
    }
    push @wrong, "left: @after" if "@after" ne "@before";
    return (@wrong ? "$call $number: " . join('; ', @wrong) : '', 1);
}

# A command with every of its calls failing. `output`: the file in $tmp/out that it writes, whole
# where `is_whole` says so of its text.
sub every {
    my ($words, $output, $is_whole, @calls) = @_;
    $words .= ' --force' if $output && $words !~ /--force/;  # what is there is not ours
    for my $call (@calls ? @calls : ('read', 'write', 'fsync')) {
        my ($number, @wrong) = (0);
        while (1) {
            $number++;
            my ($wrong, $more) =
                attempt($call, $number, $words, $output, $number % 2, $is_whole // \&is_json);
            push @wrong, $wrong if $wrong;
            last if !$more || @wrong > 3;
        }
        my ($name) = $words =~ /^(\w+)/;
        check("$name survives each failing $call, " . ($number - 1) . ' of them', !@wrong,
              join "\n", $words, @wrong);
    }
}

# A command that writes many files into the folder behind its last word: each is as it is when
# nothing fails, or not there. `step`: of calls that are many and alike only each so manyth.
# `before` makes the folder what it is before.
sub every_file {
    my ($words, $step, $calls, $before) = @_;
    my ($name) = $words =~ /^(\w+)/;
    my $clear = sub {
        remove_tree("$tmp/out", "$tmp/calls");
        $before->() if $before;
    };
    $clear->();
    answer_of("$build/meshwright $words $tmp/out");
    my %whole = map { $_ => text_of($_) } files_below("$tmp/out");
    check("$name writes files", %whole > 0, $words);
    for my $call (@$calls) {
        my ($number, $tried, @wrong) = (1, 0);
        for (; @wrong < 4; $number += $step, $tried++) {
            $clear->();
            my ($is_there, $status, $errors) =
                failing($call, $number, split(/ /, $words), "$tmp/out");
            last if $is_there eq '';
            my @lines = complaints($errors);
            push @wrong, "$call $number: status $status, @lines" if $status ne 4 || @lines != 1;
            push @wrong, map { "$call $number: left $_" }
                grep { !defined $whole{$_} || $whole{$_} ne text_of($_) } files_below("$tmp/out");
        }
        check("$name survives failing ${call}s, $tried of them", !@wrong,
              join "\n", $words, @wrong);
    }
}

1;
