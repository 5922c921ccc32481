/*
 * A stand-in for the event tracing of Windows: the ten functions of advapi32 that TraceEvent calls, for tests under Wine,
 * whose own are stubs. It plays events from a file, or makes them, and misbehaves as a scenario says.
 *
 * IOTRACE_STAND_IN names a folder:
 *   scenario         lines `key=value`; see `Scenario` below. Without the file everything goes well and nothing happens.
 *   events           what is played; see `Event` below.
 *   calls            written: one JSON object a line for every call, in order.
 *   session-NAME     written: one file for every session that runs. It outlives the process, as a session of Windows does.
 *
 * What is as on Windows: a session gets the events its flags ask for, from the moment they are set; names of open files
 * come when a session with DiskFileIO stops; a consumer that falls behind by more than the session's buffers loses events;
 * a stopped session delivers what is due, then ProcessTrace returns; a session ends only when somebody stops it.
 */
#define DECLSPEC_IMPORT /* these functions are ours */
#define WINVER 0x0A00
#define _WIN32_WINNT 0x0A00
#define INITGUID
#include <windows.h>
#include <evntrace.h>
#include <evntcons.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT /* build.sh exports what is marked so */
#define SESSIONS_MAX 16
#define EVENT_ROOM 128 /* bytes of buffer that one event takes, about */
#define DISK_IO 0x100
#define DISK_FILE_IO 0x200
#define DISK_IO_INIT 0x400

typedef struct {
    long start_error;       /* start_error=5: StartTraceW fails so; 5 access denied, 1450 no session free */
    long start_error_after; /* start_error_after=1: but the first so many starts succeed */
    long flags_error;       /* flags_error=5: setting the kernel flags fails so */
    long open_error;        /* open_error=5: OpenTraceW fails so */
    long process_error;     /* process_error=1: ProcessTrace returns so, at once */
    long stop_error;        /* stop_error=5: a session of another process cannot be stopped */
    long lost_events;       /* lost_events=7: so many lost, as ControlTraceW tells */
    long lost_buffers;      /* lost_buffers=2: and so many buffers of the session */
    long lost_real_time_buffers;
    long lost_after;        /* lost_after=500: once so many events were delivered */
    long lost_at_stop;      /* lost_at_stop=3: so many more, which only the answer to the stop tells */
    long end_after;         /* end_after=500: another program stops the session after so many events */
    long at_once;           /* at_once=1: events are delivered without waiting for their time */
    long bounded;           /* bounded=1: no more events wait for the consumer than the buffers hold */
    long room;              /* room=20000: so many events, instead of what the session's buffers hold */
    long rate;              /* rate=500000: also so many reads a second are made … */
    long count;             /* count=1000000: … until there are so many … */
    long disks;             /* disks=2: … on so many disks in turn */
    char others[512];       /* others=A;B: sessions of other programs, as QueryAllTracesW lists them */
} Scenario;

/* In the file: `Event`, then an EVENT_HEADER with its time in ticks of 10 MHz since the play's start, then the payload. */
typedef struct {
    unsigned when;    /* 0 at its time; 1 when a session stops; 2 when a session starts */
    unsigned payload; /* bytes */
    unsigned processor;
    unsigned spare;
} Event;
enum { AT_ITS_TIME, AT_STOP, AT_START };

typedef struct {
    BOOL used, stopped, closed, is_file;
    WCHAR name[256], file[512];
    ULONG flags, buffer_kb, buffers_max, mode;
    BOOL storport;
    LONGLONG since; /* tick at which its flags were set */
    LONGLONG delivered, overrun;
    EVENT_TRACE_LOGFILEW consumer;
} Session;

static Scenario scenario;
static Session sessions[SESSIONS_MAX];
static WCHAR folder[512];
static char *events;
static size_t events_length;
static LONGLONG play_start; /* tick at which the first session's flags were set */
static long starts;
static CRITICAL_SECTION gate;
static HINSTANCE self;

DEFINE_GUID(disk_io, 0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(file_io, 0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
DEFINE_GUID(process_events, 0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(thread_events, 0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(storport_events, 0xc4636a1e, 0x7986, 0x4646, 0xbf, 0x10, 0x7b, 0xc3, 0xb4, 0xa7, 0x6e, 0x8e);

static LONGLONG now(void) {
    LARGE_INTEGER ticks;
    QueryPerformanceCounter(&ticks);
    return ticks.QuadPart;
}

static LONGLONG hertz(void) {
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    return frequency.QuadPart;
}

static void path_of(WCHAR *path, const WCHAR *prefix, const WCHAR *name) {
    _snwprintf(path, 1024, L"%ls\\%ls%ls", folder, prefix, name);
    path[1023] = 0;
}

void told(const char *format, ...) {
    WCHAR path[1024];
    va_list arguments;
    path_of(path, L"", L"calls");
    EnterCriticalSection(&gate);
    FILE *calls = _wfopen(path, L"ab");
    if (calls) {
        va_start(arguments, format);
        vfprintf(calls, format, arguments);
        va_end(arguments);
        fputc('\n', calls);
        fclose(calls);
    }
    LeaveCriticalSection(&gate);
}

static void read_scenario(void) {
    static const struct { const char *key; long *value; } numbers[] = {
        {"start_error", &scenario.start_error}, {"start_error_after", &scenario.start_error_after},
        {"flags_error", &scenario.flags_error}, {"open_error", &scenario.open_error},
        {"process_error", &scenario.process_error}, {"stop_error", &scenario.stop_error},
        {"lost_events", &scenario.lost_events}, {"lost_buffers", &scenario.lost_buffers},
        {"lost_real_time_buffers", &scenario.lost_real_time_buffers}, {"lost_after", &scenario.lost_after},
        {"lost_at_stop", &scenario.lost_at_stop},
        {"end_after", &scenario.end_after}, {"at_once", &scenario.at_once}, {"bounded", &scenario.bounded},
        {"room", &scenario.room}, {"rate", &scenario.rate}, {"count", &scenario.count}, {"disks", &scenario.disks},
    };
    WCHAR path[1024];
    char line[600];
    scenario.disks = 1;
    path_of(path, L"", L"scenario");
    FILE *file = _wfopen(path, L"rb");
    while (file && fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        equals[1 + strcspn(equals + 1, "\r\n")] = 0;
        BOOL known = FALSE;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            if (!strcmp(line, numbers[i].key)) {
                *numbers[i].value = strtol(equals + 1, NULL, 10);
                known = TRUE;
            }
        }
        if (!strcmp(line, "others")) {
            strncpy(scenario.others, equals + 1, sizeof scenario.others - 1);
            known = TRUE;
        }
        if (!known) told("{\"call\": \"unknown key of the scenario\", \"key\": \"%s\"}", line);
    }
    if (file) fclose(file);
    path_of(path, L"", L"events");
    file = _wfopen(path, L"rb");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    events_length = ftell(file);
    fseek(file, 0, SEEK_SET);
    events = malloc(events_length + 1);
    if (!events || fread(events, 1, events_length, file) != events_length) events_length = 0;
    fclose(file);
}

FILE *file_of_host(const WCHAR *name) {
    WCHAR path[1024];
    path_of(path, L"", name);
    return _wfopen(path, L"rb");
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, void *reserved) {
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) {
        self = instance;
        InitializeCriticalSection(&gate);
        if (!GetEnvironmentVariableW(L"IOTRACE_STAND_IN", folder, 512)) return FALSE;
        read_scenario();
    }
    return TRUE;
}

static Session *session_named(const WCHAR *name) {
    for (int i = 0; i < SESSIONS_MAX; i++)
        if (sessions[i].used && !sessions[i].stopped && !_wcsicmp(sessions[i].name, name)) return &sessions[i];
    return NULL;
}

static Session *session_of(TRACEHANDLE handle) {
    return handle >= 1 && handle <= SESSIONS_MAX && sessions[handle - 1].used ? &sessions[handle - 1] : NULL;
}

static const WCHAR *text_at(EVENT_TRACE_PROPERTIES *properties, ULONG offset) {
    return offset ? (const WCHAR *)((char *)properties + offset) : L"";
}

static void name_into(EVENT_TRACE_PROPERTIES *properties, const WCHAR *name) {
    ULONG offset = properties->LoggerNameOffset, size = properties->Wnode.BufferSize;
    if (offset && offset + (wcslen(name) + 1) * sizeof(WCHAR) <= size) wcscpy((WCHAR *)((char *)properties + offset), name);
}

EXPORT ULONG WINAPI StartTraceW(TRACEHANDLE *handle, LPCWSTR name, EVENT_TRACE_PROPERTIES *properties) {
    WCHAR path[1024], none[64];
    const WCHAR *file = text_at(properties, properties->LogFileNameOffset);
    ULONG error = starts++ >= scenario.start_error_after ? scenario.start_error : 0;
    path_of(path, L"session-", name);
    if (!error && GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES) error = ERROR_ALREADY_EXISTS;
    int slot = 0;
    while (slot < SESSIONS_MAX && sessions[slot].used) slot++;
    if (!error && slot == SESSIONS_MAX) error = ERROR_NO_SYSTEM_RESOURCES;
    told("{\"call\": \"StartTraceW\", \"session\": \"%ls\", \"file\": %s, \"buffer_kb\": %lu, \"buffers_min\": %lu, "
         "\"buffers_max\": %lu, \"mode\": %lu, \"flush_s\": %lu, \"clock\": %lu, \"flags\": %lu, \"error\": %lu}",
         name, *file ? "true" : "false", properties->BufferSize, properties->MinimumBuffers, properties->MaximumBuffers,
         properties->LogFileMode, properties->FlushTimer, properties->Wnode.ClientContext, properties->EnableFlags, error);
    if (error) return error;
    Session *session = &sessions[slot];
    memset(session, 0, sizeof *session);
    session->used = TRUE;
    wcsncpy(session->name, name, 255);
    wcsncpy(session->file, file, 511);
    session->is_file = *file != 0;
    session->mode = properties->LogFileMode;
    session->buffer_kb = properties->BufferSize;
    session->buffers_max = properties->MaximumBuffers;
    session->flags = properties->EnableFlags;
    FILE *mark = _wfopen(path, L"wb");
    if (mark) {
        _snwprintf(none, 64, L"%lu", GetCurrentProcessId());
        fprintf(mark, "%ls\n", none);
        fclose(mark);
    }
    name_into(properties, name);
    properties->Wnode.HistoricalContext = slot + 1;
    *handle = slot + 1;
    return 0;
}

EXPORT ULONG WINAPI TraceSetInformation(TRACEHANDLE handle, TRACE_INFO_CLASS class, void *value, ULONG length) {
    Session *session = session_of(handle);
    /* The interval of sampling is the machine's, of no session. */
    if (class == TraceSampledProfileIntervalInfo) return 0;
    ULONG error = !session ? ERROR_INVALID_HANDLE : class == TraceSystemTraceEnableFlagsInfo ? scenario.flags_error : 0;
    told("{\"call\": \"TraceSetInformation\", \"session\": \"%ls\", \"class\": %d, \"length\": %lu, \"flags\": %lu, "
         "\"error\": %lu}",
         session ? session->name : L"", class, length, length >= 4 ? *(ULONG *)value : 0, error);
    if (!error && class == TraceSystemTraceEnableFlagsInfo && length >= 4) {
        session->flags = *(ULONG *)value;
        session->since = now();
        if (!play_start) play_start = session->since;
    }
    return error;
}

EXPORT ULONG WINAPI TraceQueryInformation(TRACEHANDLE handle, TRACE_INFO_CLASS class, void *value, ULONG length, ULONG *got) {
    Session *session = session_of(handle);
    if (!session) return ERROR_INVALID_HANDLE;
    ULONG size = class == TraceSystemTraceEnableFlagsInfo ? 32 : 0;
    if (got) *got = size;
    if (size > length) return ERROR_MORE_DATA;
    memset(value, 0, size);
    if (size) *(ULONG *)value = session->flags;
    return 0;
}

EXPORT ULONG WINAPI EnableTraceEx2(
    TRACEHANDLE handle, const GUID *provider, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all, ULONG timeout,
    ENABLE_TRACE_PARAMETERS *parameters) {
    Session *session = session_of(handle);
    (void)timeout, (void)parameters;
    told("{\"call\": \"EnableTraceEx2\", \"session\": \"%ls\", \"provider\": \"%08lx\", \"code\": %lu, \"level\": %u, "
         "\"any\": %llu, \"all\": %llu}",
         session ? session->name : L"", provider->Data1, code, level, any, all);
    if (!session) return ERROR_INVALID_HANDLE;
    if (IsEqualGUID(provider, &storport_events)) session->storport = code == EVENT_CONTROL_CODE_ENABLE_PROVIDER;
    return 0;
}

EXPORT ULONG WINAPI EnumerateTraceGuidsEx(
    TRACE_QUERY_INFO_CLASS class, void *in, ULONG in_length, void *out, ULONG out_length, ULONG *got) {
    (void)in, (void)in_length;
    ULONG size = class == TraceGuidQueryList ? sizeof(GUID) : sizeof(TRACE_GUID_INFO);
    if (got) *got = size;
    if (out_length < size) return ERROR_INSUFFICIENT_BUFFER;
    memset(out, 0, size);
    if (class == TraceGuidQueryList) *(GUID *)out = storport_events;
    return 0;
}

static void losses_into(EVENT_TRACE_PROPERTIES *properties, Session *session) {
    BOOL due = session->delivered >= scenario.lost_after;
    properties->EventsLost = (due ? scenario.lost_events : 0) + (ULONG)session->overrun;
    properties->LogBuffersLost = due ? scenario.lost_buffers : 0;
    properties->RealTimeBuffersLost = due ? scenario.lost_real_time_buffers : 0;
    properties->LogFileMode = session->mode;
    properties->BufferSize = session->buffer_kb;
    properties->MaximumBuffers = session->buffers_max;
    properties->EnableFlags = session->flags;
    name_into(properties, session->name);
}

EXPORT ULONG WINAPI ControlTraceW(TRACEHANDLE handle, LPCWSTR name, EVENT_TRACE_PROPERTIES *properties, ULONG code) {
    static const char *words[] = {"query", "stop", "update", "flush"};
    WCHAR path[1024];
    Session *session = handle ? session_of(handle) : name ? session_named(name) : NULL;
    if (session && session->stopped) session = NULL;
    const WCHAR *called = session ? session->name : name ? name : L"";
    path_of(path, L"session-", called);
    BOOL leftover = !session && *called && GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
    ULONG error = session ? 0 : leftover ? (code == EVENT_TRACE_CONTROL_STOP ? scenario.stop_error : 0)
                                         : ERROR_WMI_INSTANCE_NOT_FOUND;
    if (session) losses_into(properties, session);
    if (session && code == EVENT_TRACE_CONTROL_STOP) properties->EventsLost += scenario.lost_at_stop;
    told("{\"call\": \"ControlTraceW\", \"session\": \"%ls\", \"what\": \"%s\", \"error\": %lu}", called,
         code < 4 ? words[code] : "?", error);
    if (leftover && !error) name_into(properties, called);
    if (!error && code == EVENT_TRACE_CONTROL_STOP) {
        DeleteFileW(path);
        if (session) {
            session->stopped = TRUE;
            if (session->is_file) { /* something to open; its events are ours */
                FILE *file = _wfopen(session->file, L"wb");
                if (file) {
                    fputs("iotrace stand-in", file);
                    fclose(file);
                }
            }
        }
    }
    return error;
}

EXPORT ULONG WINAPI QueryAllTracesW(EVENT_TRACE_PROPERTIES **properties, ULONG room, ULONG *count) {
    WIN32_FIND_DATAW found;
    WCHAR pattern[1024], names[64][256];
    ULONG total = 0;
    char others[512];
    strcpy(others, scenario.others);
    for (char *other = strtok(others, ";"); other && total < 64; other = strtok(NULL, ";"))
        MultiByteToWideChar(CP_UTF8, 0, other, -1, names[total++], 256);
    path_of(pattern, L"session-", L"*");
    HANDLE search = FindFirstFileW(pattern, &found);
    if (search != INVALID_HANDLE_VALUE) {
        do wcsncpy(names[total++], found.cFileName + wcslen(L"session-"), 255);
        while (total < 64 && FindNextFileW(search, &found));
        FindClose(search);
    }
    for (ULONG i = 0; i < total && i < room; i++) {
        properties[i]->LogFileMode = EVENT_TRACE_SYSTEM_LOGGER_MODE | EVENT_TRACE_REAL_TIME_MODE;
        properties[i]->Wnode.HistoricalContext = i + 1;
        name_into(properties[i], names[i]);
    }
    *count = total;
    return total > room ? ERROR_MORE_DATA : 0;
}

EXPORT TRACEHANDLE WINAPI OpenTraceW(EVENT_TRACE_LOGFILEW *consumer) {
    Session *session = NULL;
    if (consumer->LoggerName && consumer->ProcessTraceMode & PROCESS_TRACE_MODE_REAL_TIME) {
        session = session_named(consumer->LoggerName);
    } else if (consumer->LogFileName) {
        for (int i = 0; i < SESSIONS_MAX; i++)
            if (sessions[i].used && sessions[i].is_file && !_wcsicmp(sessions[i].file, consumer->LogFileName))
                session = &sessions[i];
    }
    told("{\"call\": \"OpenTraceW\", \"session\": \"%ls\", \"mode\": %lu, \"error\": %ld}", session ? session->name : L"",
         consumer->ProcessTraceMode, scenario.open_error);
    if (!session || scenario.open_error) {
        SetLastError(session ? (ULONG)scenario.open_error : ERROR_WMI_INSTANCE_NOT_FOUND);
        return INVALID_PROCESSTRACE_HANDLE;
    }
    TRACE_LOGFILE_HEADER *header = &consumer->LogfileHeader;
    FILETIME utc;
    GetSystemTimeAsFileTime(&utc);
    memset(header, 0, sizeof *header);
    header->BufferSize = session->buffer_kb * 1024;
    header->VersionDetail.MajorVersion = 10;
    header->ProviderVersion = 20348;
    header->NumberOfProcessors = 2;
    header->TimerResolution = 156250;
    header->PointerSize = 8;
    header->PerfFreq.QuadPart = hertz();
    header->StartTime.LowPart = utc.dwLowDateTime;
    header->StartTime.HighPart = utc.dwHighDateTime;
    if (session->is_file) header->EndTime = header->StartTime;
    header->BootTime.QuadPart = header->StartTime.QuadPart - now();
    header->ReservedFlags = 1; /* the clock: the performance counter */
    header->LogFileMode = session->mode;
    session->consumer = *consumer;
    return 100 + (session - sessions);
}

EXPORT ULONG WINAPI CloseTrace(TRACEHANDLE handle) {
    if (handle < 100 || handle >= 100 + SESSIONS_MAX) return ERROR_INVALID_HANDLE;
    sessions[handle - 100].closed = TRUE;
    return ERROR_CTX_CLOSE_PENDING;
}

static BOOL is_asked_for(Session *session, EVENT_HEADER *header) {
    UCHAR opcode = header->EventDescriptor.Opcode;
    ULONG flag = 0;
    if (IsEqualGUID(&header->ProviderId, &disk_io)) {
        flag = opcode == 12 || opcode == 13 || opcode == 15 ? DISK_IO_INIT : DISK_IO;
    } else if (IsEqualGUID(&header->ProviderId, &file_io)) {
        BOOL is_name = opcode == 0 || opcode == 32 || opcode == 35 || opcode == 36;
        flag = is_name ? DISK_FILE_IO : opcode == 76 ? EVENT_TRACE_FLAG_FILE_IO : EVENT_TRACE_FLAG_FILE_IO_INIT;
    } else if (IsEqualGUID(&header->ProviderId, &process_events)) {
        flag = EVENT_TRACE_FLAG_PROCESS;
    } else if (IsEqualGUID(&header->ProviderId, &thread_events)) {
        flag = EVENT_TRACE_FLAG_THREAD;
    } else if (IsEqualGUID(&header->ProviderId, &storport_events)) {
        return session->storport;
    }
    return !flag || session->flags & flag;
}

static void deliver(Session *session, EVENT_HEADER *header, LONGLONG tick, USHORT processor, void *payload, USHORT length) {
    EVENT_RECORD record = {0};
    record.EventHeader = *header;
    record.EventHeader.TimeStamp.QuadPart = tick;
    record.BufferContext.ProcessorIndex = processor;
    record.UserData = payload;
    record.UserDataLength = length;
    record.UserContext = session->consumer.Context;
    session->consumer.EventRecordCallback(&record);
    session->delivered++;
}

/* The next event of the file that comes `when`, from `place` on; NULL at the end. */
static Event *next(size_t *place, unsigned when) {
    while (*place + sizeof(Event) <= events_length) {
        Event *event = (Event *)(events + *place);
        *place += sizeof(Event) + sizeof(EVENT_HEADER) + ((event->payload + 15) & ~15u);
        if (*place > events_length) break;
        if (event->when == when) return event;
    }
    return NULL;
}

static void deliver_all(Session *session, unsigned when) {
    size_t place = 0;
    for (Event *event; (event = next(&place, when));) {
        EVENT_HEADER *header = (EVENT_HEADER *)(event + 1);
        if (is_asked_for(session, header))
            deliver(session, header, now(), event->processor, header + 1, event->payload);
    }
}

/* A read of 8 KiB, number `i`, as version 3 of the kernel's event on 64 bits. */
static void deliver_made(Session *session, LONGLONG i) {
    struct {
        ULONG disk, flags, size, spare;
        LONGLONG offset;
        ULONGLONG file, irp, response;
        ULONG thread, padding;
    } read = {i % scenario.disks, 0x60043, 8192, 0, (i * 2654435761LL % 1000000) * 8192, 0xFFFFC00000001000, 0xFFFFD00000000000 + i % 64 * 0x100,
              1000 + i * 40503 % 5000, 4000, 0};
    EVENT_HEADER header = {0};
    header.Size = sizeof header + 52;
    header.Flags = EVENT_HEADER_FLAG_CLASSIC_HEADER | EVENT_HEADER_FLAG_64_BIT_HEADER;
    header.ThreadId = header.ProcessId = ~0u;
    header.ProviderId = disk_io;
    header.EventDescriptor.Opcode = 10;
    header.EventDescriptor.Version = 3;
    deliver(session, &header, play_start + (i + 1) * hertz() / scenario.rate, i % 2, &read, 52);
}

EXPORT ULONG WINAPI ProcessTrace(TRACEHANDLE *handles, ULONG count, FILETIME *from, FILETIME *until) {
    (void)from, (void)until;
    if (count != 1 || handles[0] < 100 || handles[0] >= 100 + SESSIONS_MAX) return ERROR_INVALID_HANDLE;
    Session *session = &sessions[handles[0] - 100];
    if (scenario.process_error) return scenario.process_error;
    if (session->is_file) {
        deliver_all(session, AT_START);
        if (session->flags & DISK_FILE_IO) deliver_all(session, AT_STOP);
        return 0;
    }
    while (!session->since && !session->stopped && !session->closed) Sleep(1);
    deliver_all(session, AT_START);
    size_t place = 0;
    LONGLONG made = 0, room = (LONGLONG)session->buffers_max * session->buffer_kb * 1024 / EVENT_ROOM;
    if (scenario.room) room = scenario.room;
    LONGLONG made_first = scenario.rate ? (session->since - play_start) * scenario.rate / hertz() : 0;
    Event *event = next(&place, AT_ITS_TIME);
    BOOL is_played = FALSE;
    made = made_first < scenario.count ? made_first : scenario.count;
    while (!session->closed) {
        BOOL is_stopped = session->stopped;
        LONGLONG due = scenario.at_once && session->since == play_start ? MAXLONGLONG : now();
        while (event && !session->closed) {
            EVENT_HEADER *header = (EVENT_HEADER *)(event + 1);
            LONGLONG tick = play_start + header->TimeStamp.QuadPart;
            if (tick > due) break;
            if (tick >= session->since && is_asked_for(session, header)) {
                deliver(session, header, tick, event->processor, header + 1, event->payload);
                if (scenario.end_after && session->delivered >= scenario.end_after) session->stopped = TRUE;
            }
            if (session->stopped && !is_stopped) break;
            event = next(&place, AT_ITS_TIME);
        }
        if (scenario.rate && session->flags & DISK_IO) {
            LONGLONG ready = due == MAXLONGLONG ? scenario.count : (due - play_start) * scenario.rate / hertz();
            if (ready > scenario.count) ready = scenario.count;
            if (scenario.bounded && ready - made > room) {
                session->overrun += ready - made - room;
                made = ready - room;
            }
            for (LONGLONG end = made + 20000 < ready ? made + 20000 : ready; made < end && !session->closed; made++)
                deliver_made(session, made);
            if (made < ready) continue;
        }
        if (!is_played && !event && (!scenario.rate || made == scenario.count)) {
            is_played = TRUE;
            told("{\"call\": \"played\", \"session\": \"%ls\", \"delivered\": %lld, \"lost\": %lld}", session->name,
                 session->delivered, session->overrun);
        }
        if (is_stopped) break;
        if (session->stopped) { /* by end_after: whoever asks finds no such session */
            WCHAR path[1024];
            path_of(path, L"session-", session->name);
            DeleteFileW(path);
            break;
        }
        Sleep(1);
    }
    if (!session->closed && session->flags & DISK_FILE_IO) deliver_all(session, AT_STOP);
    told("{\"call\": \"ProcessTrace ends\", \"session\": \"%ls\", \"delivered\": %lld, \"lost\": %lld}", session->name,
         session->delivered, session->overrun);
    return 0;
}
