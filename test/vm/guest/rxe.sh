# Makes $1 veth cables of MTU $2 with a soft RoCE device at each end: rxe_a0 - rxe_b0, ...
# All are in one network namespace, as rxe doesn't work in others; what one end sends to the other's
# link-local address crosses the cable, since the outgoing interface is part of the route.
set -e
ip link set lo up
cable=0
while [ "$cable" -lt "$1" ]; do
  ip link add "a$cable" mtu "$2" type veth peer name "b$cable" mtu "$2"
  for end in a b; do
    name=$end$cable
    # No duplicate address detection: the address, and with it the GID, is there at once.
    echo 0 >"/proc/sys/net/ipv6/conf/$name/accept_dad"
    ip link set "$name" up
    rdma link add "rxe_$name" type rxe netdev "$name"
  done
  cable=$((cable + 1))
done
# GIDs follow the addresses by a moment.
for device in /sys/class/infiniband/*; do
  tries=0
  until grep -q fe80 "$device/ports/1/gids/0"; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || exit 1
    sleep 0.05
  done
done
