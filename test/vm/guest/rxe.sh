# SPDX-License-Identifier: Apache-2.0
# Makes $1 veth cables of MTU $2 with a soft RoCE device at each end, rxe_a0 - rxe_b0 and so on.
# Also makes $3 soft RoCE devices, rxe_n0 and so on, whose cables end at one switch. All devices are
# in one network namespace, as rxe doesn't work in others. A packet to the other end's link-local
# address crosses the cable, since the outgoing interface is part of the route.
set -e
ip link set lo up

device_on() {
  # Without duplicate address detection the address, and with it the GID, is there at once.
  echo 0 >"/proc/sys/net/ipv6/conf/$1/accept_dad"
  ip link set "$1" up
  rdma link add "rxe_$1" type rxe netdev "$1"
}

cable=0
while [ "$cable" -lt "$1" ]; do
  ip link add "a$cable" mtu "$2" type veth peer name "b$cable" mtu "$2"
  device_on "a$cable"
  device_on "b$cable"
  cable=$((cable + 1))
done

if [ "$3" -gt 0 ]; then
  ip link add switch mtu "$2" type bridge mcast_snooping 0
  ip link set switch up
fi
port=0
while [ "$port" -lt "$3" ]; do
  ip link add "n$port" mtu "$2" type veth peer name "port$port" mtu "$2"
  ip link set "port$port" master switch up
  device_on "n$port"
  port=$((port + 1))
done
# The GIDs appear a moment after the addresses.
for device in /sys/class/infiniband/*; do
  tries=0
  until grep -q fe80 "$device/ports/1/gids/0"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || exit 1
    sleep 0.05
  done
done
