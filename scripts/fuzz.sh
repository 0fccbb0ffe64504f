#!/usr/bin/env bash
# Runs every fuzz function of the modules named as arguments, one after the
# other, each for FUZZTIME (10s when not set).
set -euo pipefail

fuzztime=${FUZZTIME:-10s}
ran=0
failed=0

# targets prints "package function" for each fuzz function of the module in the
# current directory. go test -list prints the names of a package, then "ok PACKAGE".
targets() {
	go test -list '^Fuzz' ./... | awk '
		/^Fuzz/ { names[n++] = $1 }
		$1 == "ok" { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }'
}

for module in "$@"; do
	list=$(cd "$module" && targets)
	while read -r package function; do
		[[ -n $package ]] || continue
		echo "fuzz: $package $function for $fuzztime"
		ran=$((ran + 1))
		(cd "$module" && go test -run '^$' -fuzz "^$function\$" -fuzztime "$fuzztime" "$package" </dev/null) ||
			failed=$((failed + 1))
	done <<<"$list"
done

echo "fuzz: functions=$ran failed=$failed"
if ((ran == 0 || failed > 0)); then
	exit 1
fi
