/* GCC's unwinder asks glibc for this (2.35 and later); musl has no such thing. -1: it then walks the objects itself. */
int _dl_find_object(void *address, void *result)
{
    (void)address;
    (void)result;
    return -1;
}
