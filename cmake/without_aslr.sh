# SPDX-License-Identifier: Apache-2.0
# build.sh and test.sh source this file. It sets `without_aslr`, a prefix for commands.
# The sanitizers of these compilers lose their shadow memory if the kernel randomizes addresses by
# more than 28 bits. On such hosts all their programs run without randomization, also in the build.
without_aslr=()
if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) > 28)) && setarch -R true 2>/dev/null; then
  without_aslr=(setarch -R)
fi
