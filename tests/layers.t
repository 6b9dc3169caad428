#!/usr/bin/perl
# Who may include whom (design.md, section 3), and that only plan/ and what sits above it knows
# the named axes: "if (tp > 1)" below means that a technique was coded instead of a layout.
use strict;
use warnings;

my @plan       = qw(core topologies models plan);
my @cost       = (@plan, 'cost_models');
my @simulator  = (@cost, 'simulator');
my @memory     = (@simulator, 'memory');
my @planner    = (@memory, 'planner');
my %may_include = (
    core        => ['core'],
    topologies  => ['core', 'topologies'],
    models      => ['core', 'models'],
    plan        => \@plan,
    cost_models => \@cost,
    simulator   => \@simulator,
    memory      => \@memory,
    planner     => \@planner,
    executor    => [@plan, 'executor'],
    validation  => [@planner, 'validation'],
    reports     => [@planner, 'validation', 'executor', 'reports'],
    exchange    => [@planner, 'validation', 'executor', 'reports', 'exchange'],
    library     => [@planner, 'validation', 'executor', 'reports', 'exchange', 'library'],
    wasm        => [@planner, 'reports', 'wasm'],
);
my %knows_axes = map { $_ => 1 } qw(plan planner reports exchange);
my $axis = qr/\b(?:(?:tp|pp|dp|cp|ep|etp|vpp|sp)(?:_size|_count|_ranks)?\b|degree\[AXIS_\w+\])/;

my @folders = sort keys %may_include;
print '1..', 2 * @folders + 1, "\n";
my $number = 0;

sub report {
    my ($name, @faults) = @_;
    $number++;
    print @faults ? 'not ok' : 'ok', " $number - $name\n";
    print STDERR "# $_\n" for @faults;
}

for my $folder (@folders) {
    my (@includes, @axes);
    my %allowed = map { $_ => 1 } @{ $may_include{$folder} };
    for my $path (glob "$folder/*.[ch] $folder/*/*.[ch] $folder/*/*.cu") {
        open my $file, '<', $path or die "$path: $!";
        while (my $line = <$file>) {
            push @includes, "$path:$.: includes $1/" if $line =~ m{^\s*#\s*include\s+"(\w+)/}
                and not $allowed{$1};
            push @includes, "$path:$.: is not written from the root"
                if $line =~ m{^\s*#\s*include\s+"[^/]*"};
            $line =~ s{//.*}{};
            push @axes, "$path:$.: $line" if not $knows_axes{$folder}
                and $line =~ /(?:\bif\b|\bwhile\b|\?|&&|\|\|).*?$axis\s*(?:[<>]=?|[!=]=)\s*\d/;
        }
        close $file;
    }
    report("$folder/ includes only what is below it", @includes);
    report("$folder/ treats all mesh axes alike", @axes);
}

# One tag, one struct: what a header defines no other file does. The transports complete the opaque
# types of executor/communicators/communicator.h each in its own way, and what stands in for CUDA
# has its names.
my %many = map { $_ => 1 } qw(communicator group);
my (%places, %in_header);
my @sources = map { glob "$_/*.[ch] $_/*/*.[ch] $_/*/*.cu" } keys %may_include, 'cli', 'tests';
for my $path (grep { !m{^tests/gpu/} } @sources) {
    open my $file, '<', $path or die "$path: $!";
    while (my $line = <$file>) {
        next unless $line =~ /^(?:typedef )?struct (\w+) \{/;
        my $tag = $1;
        $places{$tag}{$path} = 1;
        $in_header{$tag} = 1 if $path =~ /\.h$/;
    }
    close $file;
}
report('a tag that a header defines is defined there alone',
       map { "struct $_: @{[sort keys %{ $places{$_} }]}" }
       sort grep { $in_header{$_} && !$many{$_} && keys %{ $places{$_} } > 1 } keys %places);
