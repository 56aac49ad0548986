// SPDX-License-Identifier: Apache-2.0
// Some program has to own the precompiled header that all test programs share
// (test/CMakeLists.txt).
int main() { return 0; }
