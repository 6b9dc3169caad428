package Mutate;
# Single-line faults of C sources: where one can be planted, and the line it gives. A fault is
# {file, line, kind, old, new, was, becomes}: the column's text and the whole line, before and after.
use strict;
use warnings;
use Exporter 'import';

our @EXPORT_OK = qw(faults_of masked);

# What an operator may be taken for. clang-format puts a space on both sides of a binary one.
my %TAKEN_FOR = (
    '<'  => ['<=', '>='], '<=' => ['<', '>'],  '>'  => ['>=', '<='], '>=' => ['>', '<'],
    '==' => ['!='],       '!=' => ['=='],      '&&' => ['||'],       '||' => ['&&'],
    '+'  => ['-'],        '-'  => ['+'],       '*'  => ['/'],        '/'  => ['*'],
    '%'  => ['*'],        '+=' => ['-='],      '-=' => ['+='],       '*=' => ['/='],
    '/=' => ['*='],       '|=' => ['&='],      '&=' => ['|='],       '|'  => ['&'],
    '<<' => ['>>'],       '>>' => ['<<'],
);
my $OPERATOR = join '|', map {quotemeta} sort { length $b <=> length $a } keys %TAKEN_FOR;

my $TYPE = qr/(?:struct|union|enum|const|static|extern|typedef|int|unsigned|long|short|double|float
               |bool|char|void|FILE|DIR|REAL|\w+_t)\b/x;
my $ARGUMENT = qr/[&*!-]?\w+(?:(?:->|\.)\w+|\[\w+\])*/;

# Members or variables declared in another order are the same ones.
my $DECLARES = qr/^\s*(?:$TYPE\s*)+(?:\w+\s+)?[*\w\[\], ]+;/;

# Of two arguments in either order.
my $COMMUTES = 'fmax|fmin|larger|smaller|later|earlier|int64_max|int64_min';

# The source with comments, texts and what is the preprocessor's blanked, as long as it was.
sub masked {
    my ($text) = @_;
    my $blank = sub { my $s = shift; $s =~ s/[^\n]/ /g; $s };
    $text =~ s{(//[^\n]*|/\*.*?\*/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')}
              {defined $1 ? $blank->($1) : '"' . ('_' x (length($2) - 2)) . '"'}gse;
    $text =~ s{^([ \t]*\#(?:[^\n]*\\\n)*[^\n]*)}{$blank->($1)}gme;
    # A weaker assert changes no answer; sizes of allocations and arrays are the sanitizers' ground.
    $text =~ s{(\bsizeof (\w+) / sizeof \*\2\b)}{$blank->($1)}ge;
    $text =~ s{\bchar \w+\K(\[\w+\])}{$blank->($1)}ge;
    $text =~ s{(\b(?:assert|static_assert|_Static_assert|ARENA_NEW|ARENA_GROW)\s*(\((?:[^()]|(?2))*\)))}
              {$blank->($1)}gse;
    return $text;
}

# `sorts`: in a function that tells an order, of whose answer nobody asks more than the sign.
sub constant_faults {
    my ($seen, $sorts) = @_;
    my @found;
    while ($seen =~ /(?<![\w.])(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|0x[0-9a-fA-F]+|\d+)(?![\w.])/g) {
        my ($number, $at) = ($1, $-[1]);
        my @others = $number =~ /^0x/ ? ("($number + 1)")
                   : $number =~ /[.eE]/ ? ("($number + 1)", "(2 * $number)")
                   : $number == 0 ? ('1') : ($number + 1, $number - 1);
        @others = (0) if $sorts && $number eq '1' && $seen =~ /\breturn\b/;
        push @found, ['constant', $at, $number, $_] for @others;
    }
    while ($seen =~ /(?<!\w)(true|false)(?!\w)/g) {
        push @found, ['constant', $-[1], $1, $1 eq 'true' ? 'false' : 'true'];
    }
    return @found;
}

sub operator_faults {
    my ($seen) = @_;
    my @found;
    while ($seen =~ /(?<=\s)($OPERATOR)(?=\s)/g) {
        my ($operator, $at) = ($1, $-[1]);
        push @found, ['operator', $at, $operator, $_] for @{$TAKEN_FOR{$operator}};
    }
    # A loop that counts the other way never ends, which any test notices.
    while ($seen !~ /\bfor \(/ && $seen =~ /(\+\+|--)/g) {
        push @found, ['operator', $-[1], $1, $1 eq '++' ? '--' : '++'];
    }
    return @found;
}

sub condition_faults {
    my ($seen) = @_;
    return () unless $seen =~ /\b(?:if|while) (\(((?:[^()]|(?1))*)\))/;
    return ['condition', $-[2], $2, "!($2)"];
}

# Memory and handles that are given back late are the sanitizers' ground, too.
sub statement_faults {
    my ($seen, $before) = @_;
    return () unless $seen =~ /^\s*(?!$TYPE|free\b|fclose\b|close\b|arena_reset\b|\w+_(?:free\w*|close)\b|return\b|goto\b|else\b|case\b|default\b|for\b|\})(\w.*;|\*.*;)\s*$/;
    my ($statement, $at) = ($1, $-[1]);
    return () unless $before =~ /(?:^|[;{}:)]|\belse)\s*$/ && $before !~ /\bfor \(/;
    return ['statement', $at, $statement, ';'];
}

sub argument_faults {
    my ($seen) = @_;
    my @found;
    return if $seen =~ $DECLARES;
    while ($seen =~ /(?<=[(,\s])($ARGUMENT), (?=($ARGUMENT)[,)])/g) {
        my ($first, $second, $at) = ($1, $2, $-[1]);
        next if $first eq $second || "$first $second" =~ /^(?:$TYPE)/;
        next if substr($seen, 0, $at) =~ /\b(?:$COMMUTES)\($/;
        # Nor of two that are compared for being the same.
        next if substr($seen, 0, $at) =~ /\b(?:mem|str|strn)cmp\($/ && $seen =~ /\) [!=]= 0/;
        push @found, ['arguments', $at, "$first, $second", "$second, $first"];
    }
    return @found;
}

# Every fault of a file's text.
sub faults_of {
    my ($file, $text) = @_;
    my @lines = split /\n/, $text, -1;
    my @seen  = split /\n/, masked($text), -1;
    my (@faults, $before, $sorts);
    $before = '';
    for my $i (0 .. $#seen) {
        my $seen = $seen[$i];
        next unless $seen =~ /\S/;
        $sorts = $seen =~ /\(const void \*\w+, const void \*\w+\)/ if $seen =~ /^\w/;
        for my $found (constant_faults($seen, $sorts), operator_faults($seen), condition_faults($seen),
                       statement_faults($seen, $before), argument_faults($seen)) {
            my ($kind, $at, $old, $new) = @$found;
            my $line = $lines[$i];
            # What was masked inside keeps its own text.
            my $own = substr $line, $at, length $old;
            $new = "!($own)" if $kind eq 'condition';
            if ($kind eq 'arguments') {
                my $split = index $old, ', ';
                $new = substr($own, $split + 2) . ', ' . substr($own, 0, $split);
            }
            substr $line, $at, length $old, $new;
            push @faults, {file => $file, line => $i + 1, kind => $kind, old => $own, new => $new,
                           was => $lines[$i], becomes => $line};
        }
        $before = $seen;
    }
    return @faults;
}

1;
