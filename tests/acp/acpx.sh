#!/usr/bin/env bash
# Scenarios for `acpx`, a client for the command line.
#
#   acpx.sh FOLDER ACPX TEE COMMAND…
#
# COMMAND is the agent; it works in FOLDER, and its log is FOLDER.log.
set -uo pipefail
folder="$(realpath "$1")" acpx="$2" tee="$3"
shift 3
agent="python3 $tee $folder.log $*"
HOME="$(mktemp -d)"
export HOME
cd "$folder" || exit 1
count=0 failed=0

client() { timeout 60 "$acpx" --ttl 8 --cwd "$folder" --agent "$AGENT" "$@" </dev/null 2>"$HOME/stderr"; }

# Runs a scenario: a name, what standard output has to contain, and the arguments of the client.
scenario() {
    local name="$1" expected="$2" output
    shift 2
    count=$((count + 1))
    output="$(client "$@")"
    if [[ "$output" == *"$expected"* ]]; then
        echo "  ok      $name"
    else
        failed=$((failed + 1))
        echo "  failed  $name: $output $(tail -n 3 "$HOME/stderr")"
    fi
}

check() {
    local name="$1"
    shift
    count=$((count + 1))
    if "$@"; then echo "  ok      $name"; else failed=$((failed + 1)) && echo "  failed  $name"; fi
}

# Waits until the client keeps no process. Around its end, it sends prompts to one that is gone.
until_idle() {
    for _ in $(seq 100); do
        [[ "$(client --format json status)" == *'"status":"alive"'* ]] || return
        sleep 0.2
    done
}

AGENT="$agent"
scenario one_shot "hello there" --format quiet exec "hello there"
scenario thought "It is so" exec "think It is so."
scenario wire '"stopReason":"end_turn"' --format json exec "on the wire"
printf 'alpha\n' >a.txt
scenario read "done" --format quiet exec "read a.txt"
scenario wire_of_a_diff '"type":"diff"' --approve-all --format json exec "write diff.txt one"
AGENT="$agent --permission-mode ask"
scenario approved "done" --approve-all --format quiet exec "write approved.txt one"
check approved_is_written test -e approved.txt
scenario denied '"kind":"reject_once"' --deny-all --format json exec "write denied.txt one"
check denied_is_not_written test ! -e denied.txt
AGENT="$agent"
scenario new_session "" sessions new
scenario first_prompt "first" --format quiet prompt "first"
scenario second_prompt "second" --format quiet prompt "second"
scenario set_mode "plan" set-mode plan
kill -KILL "$(cat "$folder.log.pid")" 2>/dev/null
until_idle
scenario prompt_after_a_crash "third" --format quiet prompt "third"
scenario list "first" --format json sessions list
until_idle
client --format quiet prompt "run sleep 300" >/dev/null &
turn=$!
for _ in $(seq 300); do
    grep -q '"status":"in_progress".*' <(tail -n 3 "$folder.log") && break
    sleep 0.1
done
scenario cancel "" cancel
wait "$turn"
check cancelled_is_told grep -q '"stopReason":"cancelled"' "$folder.log"
echo "$((count - failed)) of $count scenarios"
exit $((failed > 0))
