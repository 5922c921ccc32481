/* A python3.dll with next to nothing in it, for Wine alone. The tests of the crates are programs that name functions of
 * Python, for the bindings are linked into them, and call none; Wine loads them if only a library of that name is there. */
__declspec(dllexport) int iotrace_stands_in_for_python(void)
{
    return 1;
}
