/*
 * A stand-in for Windows' performance counters: the five functions of pdh.dll that the agent calls. Laid out by the public
 * header <pdh.h>, so that what the agent takes for the form of an item is held to it. In the same library as trace.c, whose
 * scenario says `counters=1`; without it there are none, as under Wine.
 *
 * There are PhysicalDisk, with instances "0 C:" and "1 E:", of which the second tells nothing at the first samples, and
 * LogicalDisk with more instances than a first buffer holds. The value of a counter is 1000 for each sample that was taken
 * since the query was opened, and one for each instance. Every other object is missing.
 *
 * A sample is stamped between two waits, in local time two hours ahead of UTC, and every second one comes late: its time is
 * neither that of the call nor that of its return. `calls` has each stamp, as UTC.
 */
#define DECLSPEC_IMPORT /* these functions are ours */
#include <windows.h>
#include <pdh.h>
#include <pdhmsg.h>
#include <stdio.h>
#include <string.h>

#define EXPORT /* build.sh exports what is marked so */
#define LOGICAL_DISKS 4000
#define AHEAD_OF_UTC (2 * 3600 * 10000000LL)
#define SILENT_UNTIL 4 /* "1 E:" has no data before this sample */

extern long stand_in_has_counters(void);
extern void told(const char *format, ...);

static long samples;
static PDH_HCOUNTER physical_disk = (PDH_HCOUNTER)1, logical_disk = (PDH_HCOUNTER)2;

EXPORT PDH_STATUS WINAPI PdhOpenQueryW(LPCWSTR source, DWORD_PTR user, PDH_HQUERY *query) {
    (void)source, (void)user;
    if (!stand_in_has_counters()) return PDH_CSTATUS_NO_MACHINE;
    samples = 0;
    *query = (PDH_HQUERY)1;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhAddEnglishCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *counter) {
    (void)query, (void)user;
    BOOL is_physical = !wcsncmp(path, L"\\PhysicalDisk(*)\\", 17), is_logical = !wcsncmp(path, L"\\LogicalDisk(*)\\", 16);
    if (!is_physical && !is_logical) return PDH_CSTATUS_NO_OBJECT;
    *counter = is_physical ? physical_disk : logical_disk;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhCollectQueryDataWithTime(PDH_HQUERY query, LONGLONG *stamp) {
    FILETIME now;
    (void)query;
    samples++;
    Sleep(samples % 2 ? 100 : 400);
    GetSystemTimeAsFileTime(&now);
    LONGLONG utc = (LONGLONG)now.dwHighDateTime << 32 | now.dwLowDateTime;
    told("{\"call\":\"PdhCollectQueryDataWithTime\",\"sample\":%ld,\"utc\":%lld}", samples, utc);
    Sleep(200);
    *stamp = utc + AHEAD_OF_UTC;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhGetFormattedCounterArrayW(
    PDH_HCOUNTER counter, DWORD format, LPDWORD size, LPDWORD count, PPDH_FMT_COUNTERVALUE_ITEM_W items) {
    DWORD instances = counter == physical_disk ? 2 : LOGICAL_DISKS;
    DWORD needed = instances * (sizeof *items + 16 * sizeof(WCHAR));
    if (!(format & PDH_FMT_DOUBLE)) return PDH_INVALID_ARGUMENT;
    if (samples < 2) return PDH_INVALID_DATA; /* a rate has two ends */
    if (*size < needed) {
        *size = needed;
        return PDH_MORE_DATA;
    }
    WCHAR *names = (WCHAR *)(items + instances); /* as Windows does: behind the items */
    for (DWORD i = 0; i < instances; i++, names += 16) {
        if (counter == physical_disk) wcscpy(names, i ? L"1 E:" : L"0 C:");
        else _snwprintf(names, 16, L"HD%lu", i);
        BOOL is_silent = counter == physical_disk && i && samples < SILENT_UNTIL;
        items[i].szName = names;
        items[i].FmtValue.CStatus = is_silent ? PDH_CSTATUS_INVALID_DATA : PDH_CSTATUS_VALID_DATA;
        items[i].FmtValue.doubleValue = samples * 1000.0 + i;
    }
    *count = instances;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhCloseQuery(PDH_HQUERY query) {
    (void)query;
    return ERROR_SUCCESS;
}
