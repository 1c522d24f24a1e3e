#!/usr/bin/env bash
# Names every use of a word that scripts/words.txt replaces: words.sh [PATH…]. It reads the files
# that git tracks, and fails where it finds one.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z -- "${@:-.}" ':!scripts/words.*' ':!*testdata*' ':!*.sum' ':!proto/gen' ':!LICENSE' \
  ':!libs/zone/tzdata' ':!services/api/ui/static/vendor' ':!*results.json' ':!*package-lock.json' |
  xargs -0 perl -e '
    open my $list, "<", "scripts/words.txt" or die "words: $!";
    my (@rules, @words, $found);
    while (<$list>) {
      next if /^#|^\s*$/;
      chomp;
      my ($word, $instead, $allowed) = split /\t/;
      # Case and underscores end a word, so that names are read by their parts.
      push @rules, [qr/(?<![a-z])(?:$word)(?![a-z])/i, $instead, $allowed && qr/$allowed/i];
      push @words, $word;
    }
    # Most lines have none of the words, whatever stands around them: one look tells.
    my $any = join "|", @words;
    $any = qr/$any/i;
    for my $file (@ARGV) {
      next unless -f $file && -T $file;
      open my $in, "<", $file or die "words: $file: $!";
      while (my $line = <$in>) {
        # camelCase as separate words; the rest of the line stays as it is
        (my $read = $line) =~ s/([a-z0-9])([A-Z])/$1 $2/g;
        next unless $read =~ $any or $line =~ $any;
        for (@rules) {
          my ($word, $instead, $allowed) = @$_;
          next unless $read =~ /($word)/ or $line =~ /($word)/;
          my $used = $1;
          next if $allowed && ($line =~ $allowed || $read =~ $allowed);
          print "$file:$.: \"$used\": say $instead\n";
          $found++;
        }
      }
    }
    exit($found ? 1 : 0);
  '
