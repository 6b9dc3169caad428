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

my %KNOWN = map { $_ => 1 } qw($schema title description type properties required items
    additionalProperties const enum minimum minItems maxItems prefixItems);

# Where and how it breaks the schema, '' where it does not.
sub breach {
    my ($value, $schema, $at) = @_;
    for (keys %$schema) { return "$at: the schema says $_, which is not looked at" if !$KNOWN{$_} }
    my @types = map { ref $_ ? @$_ : $_ } grep { $_ } $schema->{type};
    return "$at: no @types" if @types && !grep { $TYPES{$_}->($value) } @types;
    return '' if !defined $value;
    return "$at: not $schema->{const}" if exists $schema->{const} && $value ne $schema->{const};
    my $names = $schema->{enum};
    return "$at: $value is none of those" if $names && !grep { $_ eq $value } @$names;
    return "$at: below" if exists $schema->{minimum} && $value < $schema->{minimum};
    if (ref $value eq 'HASH') {
        for (@{ $schema->{required} // [] }) { return "$at.$_: missing" if !exists $value->{$_} }
        for (sort keys %$value) {
            my $inner = $schema->{properties}{$_};
            return "$at.$_: not of the schema" if !$inner && exists $schema->{additionalProperties};
            my $found = $inner ? breach($value->{$_}, $inner, "$at.$_") : '';
            return $found if $found;
        }
    }
    if (ref $value eq 'ARRAY') {
        return "$at: too few" if @$value < ($schema->{minItems} // 0);
        return "$at: too many" if @$value > ($schema->{maxItems} // @$value);
        for my $i (0 .. $#$value) {
            my $inner = $schema->{prefixItems} ? $schema->{prefixItems}[$i] : $schema->{items};
            my $found = $inner ? breach($value->[$i], $inner, "$at\[$i]") : '';
            return $found if $found;
        }
    }
    return '';
}

1;
