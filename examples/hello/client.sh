#!/bin/bash
# The client in bash, with jq and socat, in the simple protocol:
#     bash client.sh /tmp/hello/nearcall.sock
set -euo pipefail

coproc server { socat - "UNIX-CONNECT:$1"; }
exec 3<&"${server[0]}" 4>&"${server[1]}" # subshells see these, and not server

# call FUNCTION ARGUMENT...: arguments are JSON; prints the answer.
call() {
    local request length
    request="$(jq -cn --arg f "$1" '{f: $f, a: $ARGS.positional}' --jsonargs "${@:2}")"
    length="$(printf '%08x' "$(printf %s "$request" | wc -c)" | sed 's/../\\x&/g')"
    printf "$length%s" "$request" >&4
    length="$(head -c 4 <&3 | od -An -tu4 --endian=big)"
    head -c "${length// /}" <&3
}

call greet '"World"' | jq -r '"greet: \(.r)"'
call divide 17 5 | jq -r '"divide: \(.r[0]), remainder \(.r[1])"'
call visit '"/"' | jq -r '"visit: \(.r)"'
call divide 1 0 | jq -r '.e | "error: \(.name), \(.outcome), \(.message)"'
