#!/bin/sh
# Takes the place of ssh for mpirun: runs a command on host 10.77.0.I, the namespace that is the I-th word of
# $PEERS_NAMESPACES, under a host name of its own (mpirun takes hosts of one name for one machine, and would use none of
# the links).
#
#   agent.sh ADDRESS COMMAND...
set -eu
index=${1##*.}
shift
namespace=$(echo "$PEERS_NAMESPACES" | cut -d ' ' -f "$index")
exec ip netns exec "$namespace" unshare --uts sh -c "hostname host$index; $*"
