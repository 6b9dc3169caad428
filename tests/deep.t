#!/usr/bin/perl
# Graphs of 10,000 operators are read, folded into layers or blocks, and planned on 64 GPUs, all
# within 5 s of processor time: two real exports of torch with one of their layers repeated, an ONNX
# model that is written here, and a scan of JAX that goes round more often. The parameters that each
# must have are worked out beside it.
use strict;
use warnings;
use Compress::Zlib ();
use File::Temp 'tempdir';
use IO::Uncompress::Unzip 'unzip';
use JSON::PP;
use lib 'tests';
use Script;

my $build     = $ENV{BUILD} // 'build';
my $folder    = tempdir(CLEANUP => 1);
my $json      = JSON::PP->new->canonical;
my $seconds   = $ENV{ASAN_OPTIONS} ? 60 : 5;    # sanitizers take several times as long
my $operators = 10_000;

# A zip of one stored member, which is how torch.export.save writes them.
sub zip_of {
    my ($name, $text) = @_;
    my ($size, $crc) = (length $text, Compress::Zlib::crc32($text));
    my $facts = pack 'v5 V3 v2', 20, 0, 0, 0, 0, $crc, $size, $size, length $name, 0;
    my $local = "PK\3\4$facts$name$text";
    my $entry = "PK\1\2" . pack('v', 20) . $facts . pack('v3 V2', 0, 0, 0, 0, 0) . $name;
    return $local . $entry . "PK\5\6" . pack 'v4 V2 v', 0, 0, 1, 1, length $entry, length $local, 0;
}

# The export with nodes `first` to `last` there `count` times more. They read `from` of the nodes
# before and hand on `to`; tensors of the model that match `weights` are theirs, each time others.
sub grown {
    my ($path, $first, $last, $from, $to, $weights, $count) = @_;
    unzip $path => \my $text or die "$path: no zip\n";
    my $root = $json->decode($text);
    my ($module, $graph) = ($root->{graph_module}, $root->{graph_module}{graph});
    my @nodes = map { $json->encode($_) } @{ $graph->{nodes} };
    my $layer = join ',', @nodes[ $first .. $last ];
    my (%sizes, %is_own, @specs);
    $sizes{$_} = $json->encode($graph->{tensor_values}{$_}) for keys %{ $graph->{tensor_values} };
    for my $node (@{ $graph->{nodes} }[ $first .. $last ]) {
        $is_own{$_} = 1 for $json->encode($node->{outputs}) =~ /\{"name":"([^"]+)"\}/g;
    }
    $is_own{$_} = 1 for grep { /$weights/ } keys %sizes;
    my @own = grep { /"name":"[^"]*$weights/ }
        map { $json->encode($_) } @{ $module->{signature}{input_specs} };
    my ($values, $before, @layers) = ('', $to);
    for my $i (1 .. $count) {
        my $renamed = sub { $_[0] eq $from ? $before : $is_own{ $_[0] } ? "$_[0]_x$i" : $_[0] };
        push @layers, $layer =~ s/\{"name":"([^"]+)"\}/'{"name":"' . $renamed->($1) . '"}'/ger;
        push @specs, map { s/\{"name":"([^"]+)"\}/{"name":"$1_x$i"}/gr } @own;
        $values .= qq(,"${_}_x$i":$sizes{$_}) for sort keys %is_own;
        $before = "${to}_x$i";
    }
    my $ended  = sub { $_[0] =~ s/\{"name":"$to"\}/{"name":"$before"}/gr };
    my @tail   = map { $ended->($_) } @nodes[ $last + 1 .. $#nodes ];
    my @inputs = ((map { $json->encode($_) } @{ $module->{signature}{input_specs} }), @specs);
    my $answers = $ended->($json->encode($module->{signature}{output_specs}));
    my $program = '{"graph_module":{"graph":{"nodes":['
        . join(',', @nodes[ 0 .. $last ], @layers, @tail)
        . '],"tensor_values":{'
        . substr(join('', map { qq(,"$_":$sizes{$_}) } sort keys %sizes), 1)
        . "$values}},\"signature\":{\"input_specs\":[" . join(',', @inputs)
        . "],\"output_specs\":$answers}}}";
    return zip_of('deep/models/model.json', $program);
}

# Fields of protobuf: numbers, and bytes of a length.
sub varint {
    my ($number) = @_;
    my $bytes = '';
    for (; $number > 127; $number >>= 7) { $bytes .= chr($number & 127 | 128) }
    return $bytes . chr $number;
}
sub number { return varint($_[0] << 3) . varint($_[1]) }
sub bytes { return varint($_[0] << 3 | 2) . varint(length $_[1]) . $_[1] }

sub node {
    my ($type, $inputs, $output, %lists) = @_;
    my $text = join '', map({ bytes(1, $_) } @$inputs), bytes(2, $output), bytes(3, $output),
        bytes(4, $type);
    for my $key (sort keys %lists) {
        $text .= bytes(5, bytes(1, $key) . join('', map { number(8, $_) } @{ $lists{$key} }));
    }
    return bytes(1, $text);
}
sub weight {
    my ($name, @dims) = @_;
    return bytes(5, join('', map { number(1, $_) } @dims) . number(2, 1) . bytes(8, $name));
}
sub value {
    my ($field, $name, @dims) = @_;
    my $shape = join '', map { bytes(1, number(1, $_)) } @dims;
    return bytes($field, bytes(1, $name) . bytes(2, bytes(1, number(1, 1) . bytes(2, $shape))));
}

# Residual blocks of two 3 x 3 convolutions of 64 channels, each with its norm: 7 operators. Its
# classes are those of an image of one pixel.
sub residual {
    my ($count) = @_;
    my $graph = node('Conv', ['x', 'w'], 'y0', pads => [1, 1, 1, 1]) . weight('w', 64, 3, 3, 3);
    for my $i (1 .. $count) {
        my ($last, @w) = ('y' . ($i - 1), "a$i", "b$i");
        for my $w (@w) {
            my @norm = map { "$w.$_" } qw(scale shift mean variance);
            $graph .= node('Conv', [$last, $w], "$w.product", pads => [1, 1, 1, 1])
                . node('BatchNormalization', ["$w.product", @norm], "$w.norm")
                . weight($w, 64, 64, 3, 3) . join '', map { weight($_, 64) } @norm;
            $last = "$w.norm";
            $graph .= node('Relu', [$last], $last = "$w.out") if $w eq $w[0];
        }
        $graph .= node('Add', [$last, 'y' . ($i - 1)], "s$i") . node('Relu', ["s$i"], "y$i");
    }
    $graph .= node('GlobalAveragePool', ["y$count"], 'pooled')
        . node('Conv', ['pooled', 'head'], 'logits') . weight('head', 10, 64, 1, 1)
        . value(11, 'x', 1, 3, 32, 32) . value(12, 'logits', 1, 10, 1, 1);
    return number(1, 8) . bytes(7, $graph) . bytes(8, number(2, 13));
}

# Plans it; it must have so many parameters.
sub planned {
    my ($name, $bytes, $parameters, @options) = @_;
    open my $file, '>:raw', "$folder/$name" or die "$folder/$name: $!\n";
    print {$file} $bytes;
    close $file or die "$folder/$name: $!\n";
    my $before = (times)[2] + (times)[3];
    my ($status, $out, $errors) =
        answer_of("$build/meshwright", 'plan', "$folder/$name", 'dgx-h100-x8', '--json',
                  '-o', "$folder/plan.json", '--global-batch', 4096, @options);
    my $spent = (times)[2] + (times)[3] - $before;
    check("$name is planned on 64 GPUs", $status == 0, $errors) or return;
    my ($counted) = $out =~ /"parameter_count": (\d+)/;
    check("$name has its parameters", $counted == $parameters, "$counted, not $parameters");
    check("$name took $seconds s at most", $spent <= $seconds, "$spent s");
    printf "# %s: %.2f s of processor time\n", $name, $spent;
}

# A bottleneck is 10 nodes: 256 channels, 64 inside, three norms.
my $blocks = $operators / 10;
planned('resnet.pt2',
        grown('tests/data/pt2/resnet50.pt2', 26, 35, 'relu_6', 'relu_9', 'stages_0_layers_2_',
              $blocks),
        25_557_032 + $blocks * (2 * 256 * 64 + 9 * 64 * 64 + 2 * (64 + 64 + 256)));
# Layers of 36 nodes: two norms, attention 32 wide and an MLP of 128, all with biases; three of them
# are there already, with 100 words, 64 places and the last norm.
my $layers = int($operators / 36) + 1;
my $layer  = 2 * 2 * 32 + 4 * (32 * 32 + 32) + 2 * 32 * 128 + 128 + 32;
my $words  = (100 + 64 + 2) * 32;
planned('gpt.pt2',
        grown('tests/data/pt2/gpt2_2_5.pt2', 55, 90, 'add_5', 'add_9', 'transformer_h_1_', $layers),
        $words + (3 + $layers) * $layer, '--seq-len', 16);
my $residuals = int($operators / 7) + 1;
planned('residual.onnx', residual($residuals),
        27 * 64 + $residuals * 2 * (9 * 64 * 64 + 2 * 64) + 64 * 10);
# A scan over layers of some 50 operators: its weights are stacks, and its counter says how often.
my $turns = int($operators / 50);
my $scan  = text_of('tests/data/stablehlo/llama_scan.mlir');
$scan =~ s/tensor<3x/tensor<${turns}x/g;
$scan =~ s/dense<3> : tensor<i32>/dense<$turns> : tensor<i32>/;
planned('scan.mlir', $scan,
        2 * 100 * 32 + 32 + $turns * (2 * 32 + 2 * 32 * 32 + 2 * 32 * 8 + 3 * 32 * 48),
        '--seq-len', 16);
checked();
