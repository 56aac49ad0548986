// A program has to own the header that all test programs share (test/CMakeLists.txt).
int main() { return 0; }
