#!/bin/bash
# Runs a program in a guest in place of the node that this is run on, a host or a switch that is a bridge: the guest gets the address of
# `eth0` or `br0` here, its Ethernet address and its neighbours. `quincunx perf --link netns --transport verbs` starts each rank by it with
# `--rank-launcher`, and each switch with `--switch-launcher`. The program's input goes to the guest and what it prints comes back, so do a
# file after --identity and the status. RXE_GUEST names the directory that `build.sh` has filled, for that program.
# usage: node.sh PROGRAM [ARGUMENTS]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: node.sh PROGRAM [ARGUMENTS]" >&2; exit 2; }
[ -n "${RXE_GUEST:-}" ] || { echo "expected RXE_GUEST to name the directory that build.sh has filled, found none" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
program=$(basename "$1")
shift
input=$(cat)
device=eth0
[ ! -e /sys/class/net/br0 ] || device=br0
address=$(ip -o address show dev $device scope global | awk '{ print $4; exit }')
mac=$(cat /sys/class/net/$device/address)
neighbours=$(ip neighbour show dev $device nud permanent | awk '{ print $1, $3 }')

# The namespace is a cable now, or what several are plugged into.
ip address flush dev $device
ip link set $device address "06:${mac#*:}"
ip tuntap add dev tap0 mode tap
if [ $device = eth0 ]; then
  ip link add br0 type bridge
  ip link set eth0 master br0
fi
ip link set tap0 master br0 up
ip link set br0 up

job() {
  local words=() previous='' word
  echo "port $address"
  # The shell's own "ip" knows no neighbours.
  while read -r ip lladdr; do
    [ -z "$ip" ] || echo "$(command -v ip) neighbour replace $ip lladdr $lladdr dev eth0"
  done <<< "$neighbours"
  for word in "$@"; do
    if [ "$previous" = --identity ]; then
      printf 'cat > /tmp/identity << END\n%s\nEND\n' "$(cat "$word")"
      word=/tmp/identity
    fi
    words+=("$(printf '%q' "$word")")
    previous=$word
  done
  printf "cat > /tmp/input << 'END'\n%s\nEND\n" "$input"
  # The console is no place for colours.
  echo "export NO_COLOR=1"
  echo "stty -F /dev/console -onlcr"
  echo "stty -F /dev/ttyS1 raw"
  echo "run() { $program ${words[*]} < /tmp/input > /dev/ttyS1; }"
  echo "try run"
}

# Results go where ours go; the console is read here. The guest dies with this shell.
exec 4>&1
status=1
while IFS= read -r line; do
  line=${line%$'\r'}
  case $line in
    "guest: ended "*) status=${line#guest: ended } ;;
    *) echo "$line" >&2 ;;
  esac
done < <(exec "$here/boot.sh" "$RXE_GUEST" tap0 "$mac" <(job "$@") "$program")
exit "$status"
