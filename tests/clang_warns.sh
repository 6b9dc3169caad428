#!/bin/sh
# Stands in for a compiler: has clang say what it warns of in a source, and leaves an empty file in
# the place of what would be made. What clang makes is run by the fuzzers, which are built by it.
made= source= previous=
for argument; do
    shift
    case $argument in
    -MMD | -MP) continue ;;
    *.c | *.cu) source=$argument ;;
    esac
    [ "$previous" != -o ] || made=$argument
    previous=$argument
    set -- "$@" "$argument"
done
[ -z "$source" ] || clang -fsyntax-only -Wno-unused-command-line-argument "$@" || exit
[ -z "$made" ] || : >"$made"
