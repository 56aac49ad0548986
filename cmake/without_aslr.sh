# SPDX-License-Identifier: Apache-2.0
# Sourced by build.sh and test.sh; sets `without_aslr`, a prefix of commands.
# The sanitizers of these compilers lose their shadow memory where the kernel randomizes addresses by
# more than 28 bits. There all their programs, also those that the build starts, run without randomization.
without_aslr=()
if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) > 28)) && setarch -R true 2>/dev/null; then
  without_aslr=(setarch -R)
fi
