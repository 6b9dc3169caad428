#!/usr/bin/perl
# The transcripts whose commands take seconds each, as tests/transcript.t runs the others.
exec $^X, 'tests/transcript.t', @ARGV, glob 'tests/golden/long/*.transcript';
