#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, and runs Hawser.
#
#   ./run.sh                    the main job: 8 ranks of 4 NICs all-reduce the gradients of GPT-2 124M
#                               at 0.1% loss, while one NIC dies and comes back
#   ./run.sh SUBCOMMAND ...     hawser SUBCOMMAND ...   (./run.sh --help)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

"$root/setup.sh" run
"$root/build.sh" release hawser

if (($# == 0)); then
  set -- run --ranks 8 --nics 4 --workload gpt2 --loss 0.001 --kill-nic 2@1/3 --revive-nic 2@2/3
fi
exec "$root/build/release/tool/hawser" "$@"
