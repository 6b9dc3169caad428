#!/usr/bin/perl
# Runs the transcripts in tests/golden/*.transcript from the repository root, with `meshwright` in
# the PATH and $TMP an empty folder. A transcript is a list of
#   $ command
#   what it prints, stdout and stderr together
#   ? 3                      (its exit status, only when not 0)
# One blank line before the next command and lines before the first are free for words.
# The seconds that `memory` prints at the end of a line are the clock's and not compared.
# TRANSCRIPTS_LEFT_OUT names those that are not asked.
# `tests/transcript.t --update [FILE...]` writes what is printed now; read the difference.
use strict;
use warnings;
use Cwd qw(abs_path getcwd);
use File::Temp 'tempdir';

my $update = @ARGV && $ARGV[0] eq '--update' && shift @ARGV;
my $build  = $ENV{BUILD} // 'build';
my @paths  = @ARGV ? @ARGV : sort glob 'tests/golden/*.transcript';
my $left   = join '|', split ' ', $ENV{TRANSCRIPTS_LEFT_OUT} // '';
my $root   = getcwd();
my $number = 0;
@paths = grep { !m{/(?:$left)\.transcript$} } @paths if $left;
$ENV{PATH} = abs_path($build) . ":$ENV{PATH}";
$ENV{NO_COLOR} = 1;
delete $ENV{COLUMNS};

# The words before the first command, and a list of [command, what it should print].
sub read_transcript {
    my ($path) = @_;
    my ($head, @steps) = ('');
    open my $file, '<', $path or die "$path: $!";
    while (my $line = <$file>) {
        if ($line =~ /^\$ (.*)/) {
            push @steps, [$1, ''];
        } elsif (@steps) {
            $steps[-1][1] .= $line;
        } else {
            $head .= $line;
        }
    }
    close $file;
    for my $i (0 .. $#steps - 1) {
        $steps[$i][1] =~ s/(^|\n)\n\z/$1/;
    }
    return $head, @steps;
}

# What the pages show is as wide as a page, and writes into build/: into one of its own, in a folder
# that is otherwise the repository.
sub enter_pages {
    my ($folder) = @_;
    $ENV{COLUMNS} = 100;
    symlink "$root/$_", "$folder/$_" for grep { $_ ne 'build' } glob '*';
    mkdir "$folder/build";
    chdir $folder or die "$folder: $!";
}

sub answer_of {
    my ($command) = @_;
    open my $pipe, '-|', 'sh', '-c', "exec 2>&1; $command" or die "sh: $!";
    my $answer = join '', <$pipe>;
    close $pipe;
    my $status = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
    $answer .= "\n" if length $answer && $answer !~ /\n\z/;
    $answer .= "? $status\n" if $status;
    return $answer;
}

sub report {
    my ($name, $wanted, $found) = @_;
    $number++;
    if ($name =~ /meshwright memory /) {
        s/ +\d+\.\d{3}$/ SECONDS/mg for $wanted, $found;
    }
    print $wanted eq $found ? 'ok' : 'not ok', " $number - $name\n";
    return if $wanted eq $found;
    print STDERR "# wanted: $_\n" for split /\n/, $wanted;
    print STDERR "# found:  $_\n" for split /\n/, $found;
}

for my $path (@paths) {
    $ENV{TMP} = tempdir(CLEANUP => 1);
    my ($head, @steps) = read_transcript($path);
    local $ENV{COLUMNS};
    delete $ENV{COLUMNS};
    my $pages = tempdir(CLEANUP => 1);
    enter_pages($pages) if $path =~ m{/readme\.};
    my @new;
    for my $step (@steps) {
        my ($command, $wanted) = @$step;
        my $found = answer_of($command);
        push @new, "\$ $command\n$found";
        report("$path: $command", $wanted, $found) unless $update;
    }
    chdir $root or die "$root: $!";
    next unless $update;
    open my $file, '>', $path or die "$path: $!";
    print $file $head, join "\n", @new;
    close $file or die "$path: $!";
}
print "1..$number\n" unless $update;
