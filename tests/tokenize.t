#!/usr/bin/perl
# `meshwright tokenize`: ids as Hugging Face's `tokenizers` 0.23.3 has them (tokenizer_cases.jsonl
# is from it), the file as its header in executor/data/tokens.h says, and what is refused.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;
use lib 'tests';
use Script;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $json   = JSON::PP->new->utf8;

sub meshwright { return answer_of("$build/meshwright", @_) }

# The ids and the ends of the documents of a file of tokens.
sub tokens_of {
    my ($path) = @_;
    open my $file, '<:raw', $path or return ([], []);
    local $/;
    my $bytes = <$file>;
    my ($magic, $version, $width, $count, $vocab, $documents) = unpack 'a8 L< L< Q< Q< Q<', $bytes;
    my @ids = unpack $width == 2 ? "x64 S<$count" : "x64 L<$count", $bytes;
    my $padded = int(($count * $width + 7) / 8) * 8;
    my @ends = unpack "x64 x$padded Q<$documents", $bytes;
    return (\@ids, \@ends, $magic, $vocab);
}

# One document a case, so that two runs do for all of them.
my %cases;
for my $line (split /\n/, text_of('tests/data/tokenizer_cases.jsonl')) {
    my $case = $json->decode($line);
    push @{ $cases{ $case->{tokenizer} } }, $case;
}
for my $kind (sort keys %cases) {
    my @all = @{ $cases{$kind} };
    write_text("$folder/$kind.jsonl",
               join '', map { JSON::PP->new->ascii->encode({text => $_->{text}}) . "\n" } @all);
    my ($status, $out, $errors) =
        meshwright("tokenize $folder/$kind.jsonl --tokenizer tests/data/tokenizer_$kind.json",
                   "-o $folder/$kind.tokens");
    check("$kind: ends well", $status == 0, $errors);
    my ($ids, $ends) = tokens_of("$folder/$kind.tokens");
    my $first = 0;
    for my $i (0 .. $#all) {
        my $end   = $ends->[$i] // 0;
        my $found = join ' ', @$ids[$first .. $end - 1];
        check("$kind: case $i", $found eq "@{ $all[$i]{ids} }", "$found, not @{ $all[$i]{ids} }");
        $first = $end;
    }
}

my ($status, $out, $errors) = meshwright("tokenize executor/data/alice.txt -o $folder/a.tokens");
my ($ids, $ends, $magic, $vocab) = tokens_of("$folder/a.tokens");
my $text = text_of('executor/data/alice.txt');
check('bytes are themselves', $magic eq 'MWTOKENS' && $vocab == 256
      && pack('C*', @$ids) eq $text && "@$ends" eq length $text);
check('it says what there is',
      $out =~ /: \d+ tokens of 1 document, 1\.00 bytes a token, vocabulary 256$/m);

# What is refused: one line, its place, and no file.
my $sound = JSON::PP->new->utf8->decode(text_of('tests/data/tokenizer_gpt2.json'));
my %wrong = (
    normalizer => [sub { $_[0]{normalizer} = {type => 'NFKC'} },
                   '$.normalizer.type: found "NFKC", wanted NFC, Replace or Prepend'],
    metaspace  => [sub { $_[0]{pre_tokenizer} = {type => 'Metaspace', replacement => ''} },
                   '$.pre_tokenizer.replacement: found nothing in place of spaces'],
    unknown    => [sub { $_[0]{pre_tokenizer} = undef; $_[0]{model}{unk_token} = '<none>' },
                   '$.model.unk_token: is no token'],
    unigram    => [sub { $_[0]{model}{type} = 'Unigram' },
                   '$.model.type: found "Unigram", wanted "BPE"'],
    merge      => [sub { push @{ $_[0]{model}{merges} }, 'q zz' }, 'merges what is no token'],
    made       => [sub { push @{ $_[0]{model}{merges} }, 'q q' }, 'makes what is no token'],
    byte       => [sub { delete $_[0]{model}{vocab}{'!'} }, 'no token for byte 33'],
    words      => [sub { $_[0]{pre_tokenizer} = {type => 'Punctuation'} },
                   '$.pre_tokenizer.type: found "Punctuation", wanted "ByteLevel"'],
    nothing    => [sub { $_[0]{normalizer} = {type => 'Replace', pattern => {String => '!!'},
                                              content => ''};
                         @{ $_[0]{added_tokens}[0] }{qw(content normalized)}
                             = ('!!', JSON::PP::true) },
                   '$.added_tokens[0].content: normalizes to nothing'],
    strip      => [sub { $_[0]{added_tokens}[0]{lstrip} = JSON::PP::true },
                   '$.added_tokens[0].lstrip: found true, wanted false'],
);
for my $name (sort keys %wrong) {
    my $copy = JSON::PP->new->decode(JSON::PP->new->encode($sound));
    $wrong{$name}[0]->($copy);
    write_text("$folder/wrong.json", JSON::PP->new->utf8->encode($copy));
    ($status, $out, $errors) =
        meshwright("tokenize README.md --tokenizer $folder/wrong.json -o $folder/none.tokens");
    check("$name is refused", $status == 3 && 1 == ($errors =~ tr/\n//)
          && index($errors, $wrong{$name}[1]) >= 0 && !-e "$folder/none.tokens", $errors);
}
write_text("$folder/latin.txt", "caf\xe9");
($status, $out, $errors) = meshwright("tokenize $folder/latin.txt -o $folder/none.tokens",
                                      '--tokenizer tests/data/tokenizer_gpt2.json');
check('what is no UTF-8 is refused', $status == 3 && $errors =~ /latin\.txt: byte 3 is no UTF-8$/
      && !-e "$folder/none.tokens", $errors);
write_text("$folder/lines.jsonl", qq({"text": "a"}\n{"body": "b"}\n));
($status, $out, $errors) = meshwright("tokenize $folder/lines.jsonl -o $folder/none.tokens");
check('a line without text is refused at its place', $status == 3
      && $errors =~ /lines\.jsonl:2:1: \$: missing "text"$/ && !-e "$folder/none.tokens", $errors);
($status, $out, $errors) = meshwright("tokenize README.md --append-eod '<|eot|>' -o $folder/n");
check('a token that is not there is refused', $status == 2 && $errors =~
      /--append-eod: bytes has no added token "<\|eot\|>"$/, $errors);
($status, $out, $errors) =
    meshwright("tokenize README.md --append-eod '<|eot_id|>' -o $folder/end.tokens",
               '--tokenizer tests/data/tokenizer_gpt2.json');
($ids) = tokens_of("$folder/end.tokens");
check('one that is there ends the document', $status == 0 && $ids->[-1] == 420, $errors);
($status, undef, $errors) = meshwright('tokenize README.md -o /dev/stdout');
check('a pipe is refused by its name', $status == 2
      && $errors =~ m{: /dev/stdout: tokens go to a file alone$}, $errors);
checked();
