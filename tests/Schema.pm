package Schema;
# Whether a value is of a JSON schema (2020-12), as far as ours go.
use strict;
use warnings;
use B ();
use JSON::PP;

sub is_number {
    my ($value, $whole) = @_;
    return 0 if ref $value || !defined $value;
    return 0 unless B::svref_2object(\$value)->FLAGS & (B::SVf_IOK | B::SVf_NOK);
    return !$whole || $value == int $value;
}

my %TYPES = (
    object => sub { ref $_[0] eq 'HASH' },
    array  => sub { ref $_[0] eq 'ARRAY' },
    boolean => sub { JSON::PP::is_bool($_[0]) },
    string => sub { defined $_[0] && !ref $_[0] && !is_number($_[0]) },
    number => sub { is_number($_[0]) },
    integer => sub { is_number($_[0], 1) },
    null    => sub { !defined $_[0] },
);

my %KNOWN = map { $_ => 1 } qw($schema $id title description type properties required items
    additionalProperties const enum minimum maximum exclusiveMinimum pattern minItems maxItems
    $defs prefixItems uniqueItems minProperties propertyNames oneOf anyOf not);

# A schema file, with what it refers to in its place: "FILE" or "FILE#/KEY/KEY".
sub from_file {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/;
    my ($folder) = $path =~ m{^(.*/)};
    return put_in(decode_json(<$file>), $folder // '', $path);
}

sub put_in {
    my ($of, $folder, $self) = @_;
    return [map { put_in($_, $folder, $self) } @$of] if ref $of eq 'ARRAY';
    return $of if ref $of ne 'HASH';
    my ($path, $keys) = split /#/, $of->{'$ref'} // '';
    return { map { $_ => put_in($of->{$_}, $folder, $self) } keys %$of } if !defined $path;
    # "#/KEY" is of the file itself.
    return put_in(part_of($self, $keys), $folder, $self) if $path eq '';
    my $there = from_file("$folder$path");
    $there = $there->{$_} for grep { length } split m{/}, $keys // '';
    return $there;
}

sub part_of {
    my ($path, $keys) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/;
    my $there = decode_json(<$file>);
    $there = $there->{$_} for grep { length } split m{/}, $keys;
    return $there;
}

# Where and how it breaks the schema, '' where it does not.
sub breach {
    my ($value, $schema, $at) = @_;
    for (keys %$schema) { return "$at: the schema says $_, which is not looked at" if !$KNOWN{$_} }
    my @types = map { ref $_ ? @$_ : $_ } grep { $_ } $schema->{type};
    return "$at: no @types" if @types && !grep { $TYPES{$_}->($value) } @types;
    return '' if !defined $value;
    return "$at: not $schema->{const}" if exists $schema->{const} && $value ne $schema->{const};
    my @found = map { breach($value, $_, $at) } @{ $schema->{oneOf} // [] };
    my $fits  = grep { $_ eq '' } @found;
    return $fits ? "$at: of $fits kinds" : join ', or ', @found if @found && $fits != 1;
    my @ways = map { breach($value, $_, $at) } @{ $schema->{anyOf} // [] };
    return $ways[0] if @ways && !grep { $_ eq '' } @ways;
    return "$at: what it must not be"
        if exists $schema->{not} && breach($value, $schema->{not}, $at) eq '';
    my $names = $schema->{enum};
    return "$at: $value is none of those" if $names && !grep { $_ eq $value } @$names;
    return "$at: below" if exists $schema->{minimum} && $value < $schema->{minimum};
    return "$at: above" if exists $schema->{maximum} && $value > $schema->{maximum};
    return "$at: not above"
        if exists $schema->{exclusiveMinimum} && $value <= $schema->{exclusiveMinimum};
    return "$at: of another pattern" if exists $schema->{pattern} && $value !~ /$schema->{pattern}/;
    if (ref $value eq 'HASH') {
        return "$at: too few" if keys %$value < ($schema->{minProperties} // 0);
        for (sort keys %$value) {
            my $wrong = breach($_, $schema->{propertyNames} // {}, "$at: the key $_");
            return $wrong if $wrong;
        }
        for (@{ $schema->{required} // [] }) { return "$at.$_: missing" if !exists $value->{$_} }
        for (sort keys %$value) {
            my $inner = $schema->{properties}{$_};
            my $other = $schema->{additionalProperties};
            $inner = $other if !$inner && ref $other eq 'HASH';
            return "$at.$_: not of the schema" if !$inner && defined $other && !$other;
            my $found = $inner ? breach($value->{$_}, $inner, "$at.$_") : '';
            return $found if $found;
        }
    }
    if (ref $value eq 'ARRAY') {
        return "$at: too few" if @$value < ($schema->{minItems} // 0);
        return "$at: too many" if @$value > ($schema->{maxItems} // @$value);
        my %seen;
        return "$at: one twice"
            if $schema->{uniqueItems} && grep { $seen{ JSON::PP->new->canonical->allow_nonref
                ->encode($_) }++ } @$value;
        for my $i (0 .. $#$value) {
            my $inner = $schema->{prefixItems} ? $schema->{prefixItems}[$i] : $schema->{items};
            my $found = $inner ? breach($value->[$i], $inner, "$at\[$i]") : '';
            return $found if $found;
        }
    }
    return '';
}

1;
