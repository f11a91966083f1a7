#!/bin/bash
# Stands in for a switch that only forwards (`quincunx perf --switch-launcher`, designs among hosts): FORWARD, a command such as
# crates/processes/runtime/examples/forward.rs, gets the interfaces of the ranks, has all frames between them, and ends when its input does. The bridge
# here is left with what they say to the manager, at the last interface.
# usage: forward.sh PROGRAM [ARGUMENTS]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: forward.sh PROGRAM [ARGUMENTS]" >&2; exit 2; }
[ -n "${FORWARD:-}" ] || { echo "expected FORWARD to be a command that joins interfaces, found none" >&2; exit 2; }
mapfile -t ranks < <(basename -a /sys/class/net/br0/brif/h* | sort -V | head -n -1)
for port in "${ranks[@]}"; do
  bridge link set dev "$port" isolated on
done
# It ends with the switch, which has the other end of its input.
exec 3> >(exec $FORWARD "${ranks[@]}" >&2)
# The manager waits for a switch; nothing comes to this one.
exec "${@/#verbs/udp}"
