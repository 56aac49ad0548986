# SPDX-License-Identifier: Apache-2.0
# Runs /run/command in the host's root, for at most $1 seconds.
timeout --kill-after=5 "$1" /bin/sh /run/command
