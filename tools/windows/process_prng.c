/* bcryptprimitives.dll for a Wine that lacks it (Wine 8): Rust programs for Windows take their random numbers from its
 * ProcessPrng, and end without a word where it is missing. This one forwards to the generator of advapi32. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG bytes); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T bytes)
{
    while (bytes > 0) {
        ULONG piece = bytes > 0x40000000 ? 0x40000000 : (ULONG)bytes;
        if (!SystemFunction036(data, piece))
            return FALSE;
        data += piece;
        bytes -= piece;
    }
    return TRUE;
}
