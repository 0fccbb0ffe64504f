#!/usr/bin/env bash
# Makes sure that the programs which the tests run are on this machine, and
# installs the missing ones with apt-get where that can be done without asking.
#
#   LOCKKEEPER_REDIS_SERVER=/path/to/redis-server   use this server, install none
#   LOCKKEEPER_POSTGRES_BIN=/path/to/bin            use the PostgreSQL of this folder
#   LOCKKEEPER_MARIADBD=/path/to/mariadbd           use this server, install none
set -euo pipefail

# What to look for | Debian packages that bring it | who needs it.
# "What" is a command, or a function below that probes for something else.
needs='
redis_server | redis-server   | the tests start real Redis servers
postgres     | postgresql     | the tests start real PostgreSQL servers
mariadb      | mariadb-server | the tests start real MariaDB servers
gcc          | gcc            | go test -race; the chaos compiles a clock that it can step
c_headers    | libc6-dev      | go test -race
'

redis_server() {
	command -v "${LOCKKEEPER_REDIS_SERVER:-redis-server}"
}

# postgres looks where internal/sqltest does: Debian keeps the programs out of PATH.
postgres() {
	local initdb
	if [[ -n ${LOCKKEEPER_POSTGRES_BIN:-} ]]; then
		[[ -x $LOCKKEEPER_POSTGRES_BIN/initdb && -x $LOCKKEEPER_POSTGRES_BIN/postgres ]]
		return
	fi
	command -v initdb && return
	for initdb in /usr/lib/postgresql/*/bin/initdb; do
		[[ -x $initdb ]] && return
	done
	return 1
}

mariadb() {
	local server
	for server in "${LOCKKEEPER_MARIADBD:-mariadbd}" mysqld /usr/sbin/mariadbd /usr/sbin/mysqld; do
		if command -v "$server"; then
			command -v mariadb-install-db || command -v mysql_install_db
			return
		fi
	done
	return 1
}

c_headers() {
	echo '#include <stdlib.h>' | gcc -E -
}

# have reports whether what a line of the table asks for is there.
have() {
	case $(type -t "$1") in
	function) "$1" ;;
	*) command -v "$1" ;;
	esac >/dev/null 2>&1
}

# missing prints the lines of the table whose probe fails, as "packages|why".
missing() {
	local what packages why
	while IFS='|' read -r what packages why; do
		read -r what <<<"$what"
		read -r packages <<<"$packages"
		read -r why <<<"$why"
		if [[ -n $what ]] && ! have "$what"; then
			echo "$packages|$why"
		fi
	done <<<"$needs"
}

# install runs apt-get, as root or through the given prefix. Where no service can be
# started, as in most containers, Debian's packages are content with not starting it.
install() {
	local packages=$1
	shift
	echo "deps: running apt-get update"
	"$@" apt-get update -q
	echo "deps: running apt-get install $packages"
	# The list holds several packages, one a word.
	# shellcheck disable=SC2086
	"$@" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -q --no-install-recommends $packages
}

main() {
	if [[ -n ${LOCKKEEPER_REDIS_SERVER:-} ]] && ! have redis_server; then
		echo "deps: LOCKKEEPER_REDIS_SERVER=$LOCKKEEPER_REDIS_SERVER is not a program that can be run" >&2
		exit 1
	fi
	if [[ -n ${LOCKKEEPER_POSTGRES_BIN:-} ]] && ! have postgres; then
		echo "deps: LOCKKEEPER_POSTGRES_BIN=$LOCKKEEPER_POSTGRES_BIN is not a folder with initdb and postgres" >&2
		exit 1
	fi
	if [[ -n ${LOCKKEEPER_MARIADBD:-} ]] && ! have "$LOCKKEEPER_MARIADBD"; then
		echo "deps: LOCKKEEPER_MARIADBD=$LOCKKEEPER_MARIADBD is not a program that can be run" >&2
		exit 1
	fi

	local lines packages
	lines=$(missing)
	if [[ -z $lines ]]; then
		echo "deps: all there"
		return
	fi
	packages=$(cut -d'|' -f1 <<<"$lines" | xargs)

	echo "deps: missing on this machine:"
	while IFS='|' read -r package why; do
		echo "deps:   $package, needed because: $why"
	done <<<"$lines"
	if [[ $packages == *redis-server* || $packages == *postgresql* || $packages == *mariadb* ]]; then
		echo "deps: the packages of servers may start services on ports 6379, 5432 and 3306; the"
		echo "deps: tests start servers of their own on free ports and do not use those"
	fi

	if ! command -v apt-get >/dev/null; then
		echo "deps: there is no apt-get here: install what these Debian packages hold: $packages" >&2
		exit 1
	elif [[ $(id -u) == 0 ]]; then
		install "$packages"
	elif sudo -n true 2>/dev/null; then
		install "$packages" sudo -n
	else
		echo "deps: this needs root; run:" >&2
		echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends $packages" >&2
		exit 1
	fi

	lines=$(missing)
	if [[ -n $lines ]]; then
		echo "deps: still missing after the installation: $(cut -d'|' -f1 <<<"$lines" | xargs)" >&2
		exit 1
	fi
	echo "deps: all there now"
}

main
