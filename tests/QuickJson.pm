package QuickJson;
# JSON of megabytes, such as timelines: JSON::PP, which goes through it letter by letter, takes four
# times as long. As strict: what is not JSON from the first byte to the last dies with its place.
use strict;
use warnings;
use Encode 'decode';
use Exporter 'import';
use JSON::PP ();

our @EXPORT = 'quick_json';

my $STRING = qr/"((?:[^"\\\x00-\x1f]|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"/;
my $NUMBER = qr/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/;
my %ESCAPED = (b => "\b", f => "\f", n => "\n", r => "\r", t => "\t");
my %WORD = (true => JSON::PP::true, false => JSON::PP::false, null => undef);

sub stops { die 'not JSON from byte ' . (pos($_[0]) // 0) . " on\n" }

sub plain {
    my ($text) = @_;
    return $text if index($text, '\\') < 0;
    # Two of them make a letter beyond the first 65,536.
    $text =~ s/\\u(d[89ab]..)\\u(d[c-f]..)/
               chr(0x10000 + ((hex($1) & 0x3ff) << 10) + (hex($2) & 0x3ff))/gie;
    $text =~ s/\\(?:u(....)|(.))/defined $1 ? chr hex $1 : $ESCAPED{$2} \/\/ $2/ge;
    return $text;
}

sub value {
    for ($_[0]) {
        /\G[ \t\r\n]+/gc;
        return plain("$1") if /\G$STRING/gc;
        return 0 + $1 if /\G($NUMBER)/gc;
        return $WORD{$1} if /\G(true|false|null)/gc;
        return array($_[0]) if /\G\[[ \t\r\n]*/gc;
        return object($_[0]) if /\G\{[ \t\r\n]*/gc;
        stops($_);
    }
}

sub array {
    my @items;
    for ($_[0]) {
        return [] if /\G\]/gc;
        do { push @items, value($_[0]) } while /\G[ \t\r\n]*,/gc;
        /\G[ \t\r\n]*\]/gc or stops($_);
    }
    return \@items;
}

sub object {
    my %members;
    for ($_[0]) {
        return {} if /\G\}/gc;
        do {
            /\G[ \t\r\n]*$STRING[ \t\r\n]*:/gc or stops($_);
            my $name = plain("$1");
            $members{$name} = value($_[0]);
        } while /\G[ \t\r\n]*,/gc;
        /\G[ \t\r\n]*\}/gc or stops($_);
    }
    return \%members;
}

# Of bytes in UTF-8.
sub quick_json {
    my $text = $_[0];
    $text = decode('UTF-8', $text, Encode::FB_CROAK) if $text =~ /[^\x00-\x7f]/;
    my $found = value($text);
    $text =~ /\G[ \t\r\n]*\z/gc or stops($text);
    return $found;
}

1;
