/*
 * A stand-in for Windows' performance counters: the eight functions of pdh.dll that the agent calls. Laid out by the public
 * header <pdh.h>, so that what the agent takes for the form of a raw value is held to it. In the same library as trace.c.
 *
 * The file `raw-counters` in the host's folder has a line for each raw value, with tabs between; without it there are no
 * counters, as under Wine:
 *
 *     sample  status  type  hertz  first  second  count  path  instance
 *
 * The type is hexadecimal, as in winperf.h; samples are numbered from 1, those of one sample together. `path` is what the agent
 * asks for, wildcards included; an instance that is empty is the counter's only one. A path without a line is missing; a
 * sample without one has no data for it.
 *
 * A sample is stamped between two waits, in local time two hours ahead of UTC, and every second one comes late: its time is
 * neither that of the call nor that of its return. `calls` has each stamp, as UTC.
 */
#define DECLSPEC_IMPORT /* these functions are ours */
#include <windows.h>
#include <pdh.h>
#include <pdhmsg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT /* build.sh exports what is marked so */
#define AHEAD_OF_UTC (2 * 3600 * 10000000LL)
#define NAME_CHARACTERS 64
#define PATHS_MAX 256

typedef struct {
    long sample;
    unsigned long status, type, count;
    long long hertz, first, second;
    long path;
    char instance[NAME_CHARACTERS];
} Value;

extern FILE *file_of_host(const WCHAR *name);
extern void told(const char *format, ...);

static long samples, value_count, path_count;
static Value *values;
static char paths[PATHS_MAX][NAME_CHARACTERS * 2];
static FILETIME stamp_of_sample;

static long path_number(const char *path) {
    for (long number = 0; number < path_count; number++)
        if (!strcmp(paths[number], path)) return number;
    return -1;
}

static BOOL load(void) {
    FILE *file = file_of_host(L"raw-counters");
    char line[512];
    value_count = path_count = 0;
    if (!file) return FALSE;
    long room = 0;
    while (fgets(line, sizeof line, file)) {
        if (value_count == room) values = realloc(values, (size_t)(room = room * 2 + 1024) * sizeof *values);
        Value *value = values + value_count;
        char path[NAME_CHARACTERS * 2];
        value->instance[0] = 0;
        int fields = sscanf(line, "%ld\t%lx\t%lx\t%lld\t%lld\t%lld\t%lu\t%127[^\t\n]\t%63[^\t\n]", &value->sample, &value->status,
            &value->type, &value->hertz, &value->first, &value->second, &value->count, path, value->instance);
        if (fields < 8) abort(); /* a test that writes nonsense */
        value->path = path_number(path);
        if (value->path < 0 && path_count < PATHS_MAX) strcpy(paths[value->path = path_count++], path);
        value_count++;
    }
    fclose(file);
    return TRUE;
}

/* The first line of a counter, of one sample or of any; null where there is none. */
static Value *first_of(PDH_HCOUNTER counter, long sample) {
    for (long at = 0; at < value_count; at++)
        if (values[at].path == (long)(LONG_PTR)counter - 1 && (sample < 0 || values[at].sample == sample)) return values + at;
    return NULL;
}

static void fill(PDH_RAW_COUNTER *raw, const Value *value) {
    raw->CStatus = value->status;
    raw->TimeStamp = stamp_of_sample;
    raw->FirstValue = value->first;
    raw->SecondValue = value->second;
    raw->MultiCount = value->count;
}

EXPORT PDH_STATUS WINAPI PdhOpenQueryW(LPCWSTR source, DWORD_PTR user, PDH_HQUERY *query) {
    (void)source, (void)user;
    if (!load()) return PDH_CSTATUS_NO_MACHINE;
    samples = 0;
    *query = (PDH_HQUERY)1;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhAddEnglishCounterW(PDH_HQUERY query, LPCWSTR path, DWORD_PTR user, PDH_HCOUNTER *counter) {
    (void)query, (void)user;
    char narrow[NAME_CHARACTERS * 2];
    snprintf(narrow, sizeof narrow, "%ls", path);
    long number = path_number(narrow);
    if (number < 0) return PDH_CSTATUS_NO_OBJECT;
    *counter = (PDH_HCOUNTER)(LONG_PTR)(number + 1);
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
    stamp_of_sample = (FILETIME){(DWORD)*stamp, (DWORD)(*stamp >> 32)};
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhGetCounterInfoW(PDH_HCOUNTER counter, BOOLEAN explains, LPDWORD size, PPDH_COUNTER_INFO_W info) {
    DWORD needed = 6000; /* names follow, and more of them than a first buffer holds */
    if (explains || !first_of(counter, -1)) return PDH_INVALID_ARGUMENT;
    if (*size < needed) {
        *size = needed;
        return PDH_MORE_DATA;
    }
    memset(info, 0, needed);
    info->dwLength = *size = needed;
    info->dwType = first_of(counter, -1)->type;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhGetCounterTimeBase(PDH_HCOUNTER counter, LONGLONG *hertz) {
    *hertz = first_of(counter, -1)->hertz;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhGetRawCounterValue(PDH_HCOUNTER counter, LPDWORD type, PPDH_RAW_COUNTER raw) {
    const Value *value = first_of(counter, samples);
    if (!value) return PDH_INVALID_DATA;
    if (type) *type = value->type;
    fill(raw, value);
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhGetRawCounterArrayW(
    PDH_HCOUNTER counter, LPDWORD size, LPDWORD count, PPDH_RAW_COUNTER_ITEM_W items) {
    Value *value = first_of(counter, samples), *end = values + value_count;
    DWORD instances = 0;
    if (!value) return PDH_NO_DATA;
    for (Value *one = value; one < end && one->sample == samples; one++) instances += one->path == value->path;
    DWORD needed = instances * (sizeof *items + NAME_CHARACTERS * sizeof(WCHAR));
    if (*size < needed) {
        *size = needed;
        return PDH_MORE_DATA;
    }
    WCHAR *names = (WCHAR *)(items + instances); /* as Windows does: behind the items */
    *count = 0;
    for (Value *one = value; *count < instances; one++) {
        if (one->path != value->path) continue;
        _snwprintf(names, NAME_CHARACTERS, L"%hs", one->instance);
        items[*count].szName = names;
        fill(&items[*count].RawValue, one);
        names += NAME_CHARACTERS;
        ++*count;
    }
    *size = needed;
    return ERROR_SUCCESS;
}

EXPORT PDH_STATUS WINAPI PdhCloseQuery(PDH_HQUERY query) {
    (void)query;
    return ERROR_SUCCESS;
}
