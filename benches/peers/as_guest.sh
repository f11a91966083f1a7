#!/bin/sh
# Runs a program of MPI as a node of the fabric, by the certificate of its rank: $QUINCUNX_GUESTS is what the files' names begin with.
#
#   as_guest.sh PROGRAM ARGUMENT...
set -eu
export QUINCUNX_IDENTITY="$QUINCUNX_GUESTS$OMPI_COMM_WORLD_RANK.pem"
exec "$@"
