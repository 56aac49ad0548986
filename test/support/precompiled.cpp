// SPDX-License-Identifier: Apache-2.0
// A program has to own the header that all test programs share (test/CMakeLists.txt).
int main() { return 0; }
