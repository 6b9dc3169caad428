#!/usr/bin/perl
# The rules of the house that a machine can check and clang-tidy does not.
use strict;
use warnings;

my @folders = qw(core topologies models plan cost_models simulator memory planner validation
                 executor reports exchange library cli wasm);
my @sources = map { glob "$_/*.[ch] $_/*/*.[ch] $_/*/*.cu" } @folders, 'tests';
my @texts   = (@sources, glob('tests/*.t tests/*.sh .ci/* Makefile'));
my $libm    = 'pow|cbrt|exp|exp2|expm1|log|log2|log10|log1p|[lt]gamma|erfc?|a?(?:sin|cos|tan)h?';
my $pure    = 'core|topologies|models(?:/families)?|plan(?:/\w+)?|cost_models|simulator|planner'
            . '|memory(?:/\w+)?';
# What a line must have for a rule of words to be broken in it.
my $suspect = qr/\b(?:typedef|(?:set|new|use)locale|_?exit|quick_exit|abort|printf|puts|putchar
                 |perror|stdout|stderr|free|$libm)\b/x;
my %faults;
my $rule_names = {
    function => 'a function has at most 60 lines',
    file     => 'a file has at most 500 lines',
    column   => 'a line has at most 100 columns and no trailing blanks',
    todo     => 'no TODO without an issue',
    typedef  => 'structs are named by their tag',
    locale   => 'numbers are the same in every locale: nothing sets one',
    exit     => 'only main, running out of memory and a fork that becomes nothing end a process',
    print    => 'only cli/ talks: no printing below it',
    free     => 'memory is freed by the core and by device code only',
    libm     => 'what a plan rests on takes no function of the C library that rounds as it likes',
    utils    => 'no utils.c',
    header   => 'a header starts with #pragma once and explains itself',
    own      => 'a source includes its own header first',
};

sub fault {
    my ($rule, $where, $what) = @_;
    push @{ $faults{$rule} }, "$where: $what";
}

sub check_line {
    my ($path, $number, $line) = @_;
    my $place   = "$path:$number";
    my $is_test = $path =~ m{^tests/};
    my $issue   = 'TO' . 'DO';
    fault('todo', $place, $line) if $line =~ /\b$issue\b(?!\(#\d+\))/;
    return if $line !~ $suspect;
    (my $code = $line) =~ s{//.*|"(?:\\.|[^"\\])*"}{}g;
    fault('typedef', $place, $line) if $code =~ /\btypedef\s+(?:struct|enum|union)\b/;
    fault('locale', $place, $line) if $code =~ /\b(?:setlocale|newlocale|uselocale)\s*\(/;
    fault('exit', $place, $line)
        if not $is_test and $code =~ /(?<!->)\b(?:_exit|exit|abort|quick_exit)\s*\(/
        and $path !~ m{^(?:cli/main|core/arena|executor/launcher/start)\.c$};
    fault('print', $place, $line)
        if $code =~ /\b(?:printf|puts|putchar|perror)\s*\(|\b(?:stdout|stderr)\b/
        and $path !~ m{^(?:cli|tests)/|^core/(?:progress|console)\.c$|\.h$};
    fault('free', $place, $line)
        if $code =~ /\bfree\s*\(/ and $path !~ m{^(?:core|executor|tests)/|^wasm/cjson\.c$};
    fault('libm', $place, $line)
        if $code =~ /(?<![\w>.])(?:$libm)\s*\(/ and $path =~ m{^(?:$pure)/\w+\.c$};
}

sub check_source {
    my ($path, @lines) = @_;
    my ($start, $count) = (undef, scalar @lines);
    fault('file', $path, "$count lines") if $count > 500;
    for my $i (0 .. $#lines) {
        check_line($path, $i + 1, $lines[$i]);
        $start = $i if $lines[$i] eq '{';
        next unless $lines[$i] eq '}' and defined $start;
        my $length = $i - $start - 1;
        fault('function', "$path:$start", "$length lines") if $length > 60;
        undef $start;
    }
    if ($path =~ /\.h$/) {
        fault('header', $path, 'no #pragma once') if $lines[0] ne '#pragma once';
        fault('header', $path, 'no comment') unless grep { m{^//} } @lines;
    }
    (my $own = $path) =~ s/\.c$/.h/;
    return unless $own ne $path and -e $own;
    my ($first) = grep { /^#include/ } @lines;
    fault('own', $path, $first // 'no include') if ($first // '') ne "#include \"$own\"";
}

for my $path (@texts) {
    open my $file, '<:encoding(UTF-8)', $path or die "$path: $!";
    chomp(my @lines = <$file>);
    close $file;
    for my $i (0 .. $#lines) {
        my $is_wrong = length $lines[$i] > 100 || $lines[$i] =~ /[ \t]$/;
        fault('column', $path . ':' . ($i + 1), $lines[$i]) if $is_wrong;
    }
    fault('utils', $path, 'name it after what it holds') if $path =~ m{/utils?\.[ch]$};
    check_source($path, @lines) if $path =~ /\.(?:[ch]|cu)$/;
}

print '1..', scalar keys %$rule_names, "\n";
my $number = 0;
for my $rule (sort keys %$rule_names) {
    my @found = @{ $faults{$rule} // [] };
    $number++;
    print @found ? 'not ok' : 'ok', " $number - $rule_names->{$rule}\n";
    print STDERR "# $_\n" for @found;
}
