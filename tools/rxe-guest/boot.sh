#!/bin/bash
# Boots the guest that build.sh made, in software emulation, with its network card at the tap device TAP of the network
# namespace that this runs in. The console comes out of standard output. Ends when the job has ended, and dies with
# whoever started it.
# usage: boot.sh DIRECTORY TAP MAC JOB [PROGRAM]
#   JOB: a shell script for the guest; `init` says what it may use.
#   PROGRAM: the program that the guest was built with beside its own. What it writes to /dev/ttyS1 goes to file 4 here.
set -euo pipefail
[ $# = 4 ] || [ $# = 5 ] || { echo "usage: boot.sh DIRECTORY TAP MAC JOB [PROGRAM]" >&2; exit 2; }
directory=$1 tap=$2 mac=$3 job=$4
image=$directory/initramfs second=none
if [ -n "${5:-}" ]; then
  image=$directory/initramfs.$5 second=file:/dev/fd/4
fi
# Checksums are the guest's work: who reads the tap device by a packet socket finds them whole. On a busy machine the emulated timer may be late, which the kernel would take for broken.
exec setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg -cpu max -smp 1 -m 512 \
  -nodefaults -no-user-config -no-reboot -display none -serial stdio -serial "$second" \
  -kernel "$directory/vmlinuz" -initrd "$image" \
  -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check" \
  -fw_cfg "name=opt/job,file=$job" \
  -netdev "tap,id=net,ifname=$tap,script=no,downscript=no,vnet_hdr=off" \
  -device "virtio-net-pci,netdev=net,mac=$mac,romfile=" < /dev/null
