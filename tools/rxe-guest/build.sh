#!/bin/bash
# Fills DIRECTORY with what the guest boots from: `vmlinuz`, Debian's stock kernel (the one for clouds lacks software
# RoCE), and `initramfs`, with that kernel's modules and this machine's verbs programs. Does again only what is out of date.
# usage: build.sh DIRECTORY [PROGRAM]
#   PROGRAM: one of this machine's that the guest is to have, too, in an image of its own, `initramfs.PROGRAM`.
# After one line that says why, exit status 77: packages are missing; 78: it cannot be done on this machine, whatever is
# installed. No wait for the network is without end.
set -euo pipefail
scratch=()
trap 'rm -rf "${scratch[@]}"' EXIT
missing() { echo "expected $1; $2" >&2; exit 77; }
cannot() { echo "expected $1; $2" >&2; exit 78; }

[ $# = 1 ] || [ $# = 2 ] || { echo "usage: build.sh DIRECTORY [PROGRAM]" >&2; exit 2; }
extra=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
PATH=$PATH:/usr/sbin:/sbin

for tool in qemu-system-x86_64 busybox ip rdma ibv_rc_pingpong ib_write_bw cpio depmod ldd setpriv; do
  command -v "$tool" > /dev/null ||
    missing "$tool on this machine, found none" "install the packages that tools/rxe-guest/README.md names"
done
provider=$(compgen -G "/usr/lib/*/libibverbs/librxe-rdmav*.so" | head -1) ||
  missing "the verbs provider of software RoCE, found none" "install ibverbs-providers"

if [ ! -e "$directory/vmlinuz" ]; then
  for tool in apt-cache apt-get dpkg-deb; do
    command -v "$tool" > /dev/null || cannot "$tool to fetch a kernel with, found none" "run on Debian or Ubuntu"
  done
  # The package that follows the newest kernel names the one that holds it.
  package=$(apt-cache depends linux-image-amd64 2> /dev/null | sed -n 's/^ *Depends: //p' | head -1)
  [ -n "$package" ] || missing "apt to know linux-image-amd64, found nothing" "run apt-get update"
  fetched=$(mktemp -d "$directory/fetch.XXXXXX")
  scratch+=("$fetched")
  chmod 755 "$fetched"
  (cd "$fetched" && timeout 300 apt-get -q -o Acquire::http::Timeout=20 -o Acquire::Retries=1 download "$package") > "$directory/apt.log" 2>&1 ||
    cannot "apt-get to download $package, found \"$(tail -1 "$directory/apt.log")\"" "look at the network, or run apt-get update"
  rm -rf "$directory/kernel"
  dpkg-deb -x "$fetched"/*.deb "$directory/kernel"
  depmod -b "$directory/kernel" "${package#linux-image-}"
  # Last, for it says that all is there.
  cp "$directory"/kernel/boot/vmlinuz-* "$directory/vmlinuz"
fi

image=$directory/initramfs${extra:+.$(basename "$extra")}
is_new=yes
for source in "$directory/vmlinuz" "$here/init" "$here/build.sh" $extra; do
  [ "$image" -nt "$source" ] || is_new=no
done
[ $is_new = no ] || exit 0

root=$(mktemp -d "$directory/root.XXXXXX")
scratch+=("$root")
mkdir -p "$root"/{bin,dev,proc,sys,tmp}

# A file to where it is here, and with it whatever it is linked to.
add() {
  local file
  while read -r file; do
    [ -e "$root$file" ] || install -D "$file" "$root$file"
  done < <(echo "$1"; ldd "$1" 2> /dev/null | grep -o '/[^ ]*')
}
for program in ip rdma ibv_rc_pingpong ib_write_bw; do
  add "$(command -v "$program")"
done
add "$provider"
if [ -n "$extra" ]; then
  # libibverbs is loaded when it is wanted, so no list of the program's libraries names it.
  while read -r library; do
    add "$library"
  done < <(ldd "$extra" | grep -o '/[^ ]*')
  install "$extra" "$root/bin/"
  command -v strip > /dev/null && strip "$root/bin/$(basename "$extra")"
fi
install -D /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/rxe.driver"
install "$(command -v busybox)" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"

# Modules in the order in which they load.
version=$(basename "$directory"/kernel/lib/modules/*)
for module in virtio_pci virtio_net qemu_fw_cfg crc32_generic rdma_rxe ib_uverbs rdma_ucm; do
  modprobe -d "$directory/kernel" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' > "$root/modules.paths"
mkdir "$root/modules"
while read -r path; do
  cp "$path" "$root/modules/"
  basename "$path"
done < "$root/modules.paths" > "$root/modules/order"
rm "$root/modules.paths"

install "$here/init" "$root/init"
# Not compressed: the emulated processor would take longer to unpack it than the emulator takes to load it.
(cd "$root" && find . | cpio --quiet -o -H newc) > "$image.new"
mv "$image.new" "$image"
