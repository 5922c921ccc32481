"""The words of which a text may be made that an anonymous recording keeps: none of them names a person or a system.

A text with any other word in it may carry a name, whoever wrote it. So may a very long one, and one of many digits.
"""

import re
from typing import Final

from iotrace.capture.counters.names import METRICS, words_of_counters
from iotrace.capture.formats.windows.dmv_columns import IO_WAITS
from iotrace.schemas.vocabulary import DeviceKind, Layer, Op, Role

_CHARACTERS_MAX: Final = 100
_DIGITS_MAX: Final = 24
_SINGLE_LETTERS_MAX: Final = 4
_RUNS: Final = re.compile(r"[0-9]+|[^\W\d_]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNTERS: Final = words_of_counters() | _words(
    """
    access active agent allocated available average avg back background backup batch being blocks broker buffer bytes
    cache cached calls checkpoint clat commands committed compilations completed context count cpu ctx current
    currently data database databases dead deadlocks deferred demand device dirty discard discards disk diskstats dm
    elapsed errors es expectancy failed faults file fill fio flight flush flushed flushes forwarded free full general
    grants group groups growths guest handle hard hit host hyper idle in index interrupts io iops iostat iowait irq
    iscsi job jobs kb kernel lat latch latency lazy length life list lists local lock locks log logical logicaldisk
    logins logouts lun manager max maximum mb mean media mem memory merges methods min minimum misses ms mssql nfs
    nice node numa number nvme of operations ops os out outstanding own page paged pages paging pending per percent
    physical physicaldisk pool pools pressure privileged process processes processor processors queue queued rate
    ratio re read readahead reads receive recorder recoverable recovery redo replica requests resource response runs
    scan scans scsi sec second seconds secs selection send server service set size slat smb soft softirq some split
    sql sqlagent sqlserver stall stalled stalls statistics stats steal stolen storage store summary swap swapped swaps
    switches sys system target tasks temp thread threads time to total transaction transactions transfer transfers
    usage used user usr util utilization version virtual volume wait waiting waits window work worker workers working
    workload write writeback writer writes written
    """
)
"""Objects and names of counters; units."""

WAITS: Final = frozenset(run for wait in IO_WAITS for run in _RUNS.findall(wait.lower())) | _words(
    """
    affinity async availability backup backupbuffer backupio backupthread bmpbuild bpsort bu builtin cache change
    checkpoint clr cmemthread commit completion concurrent consumer cxconsumer cxpacket cxport cxrowset cxsync
    database db dbmirror diskio dispatcher dt dump ec enable event ex exchange exclusive execsync fabric fgcb
    filestream fix fs ft group guard hadr harden hash hk htbuild htdelete htmemo htrepartition io is iu ix kp latch
    lazywriter lck lock log logbuffer logcapture logmgr logpool low m manual memory mod msql network nl oledb on ops
    out page pageiolatch pagelatch parallel pool pooled preemptive priority queries query queue rangei rangein rangen
    ranges rangex rate redo replica request reserve resource s sch scheduler semaphore session sh signal siu six sixu
    sleep small sos split sync system target task temp tempdb thread threadpool time traceflush tracewrite tran
    transaction u uix undo up wait waitfor work worker write writelog writelogs x xact xe xp yield
    """
)
"""Types of waits of SQL Server."""

MARKERS: Final = frozenset({"checkpoint", "backup", "log_flush", "autogrow", "note"})
"""The kinds that the format lists."""

SYSTEMS: Final = _words(
    """
    aarch altra amd ampere amzn apple arm atom aws azure b bpo broadwell bronze build cascadelake celeron cloud common
    cooperlake core cortex cpu darwin datacenter deb debian default dual dynamic e eight el enterprise epyc esxi fc
    fips freebsd gcp gen generic genoa genuine ghz gold graphics graviton h haswell hwe hx i ibm ibrs icelake intel k
    kvm le linux lowlatency lts m macos mhz microsoft milan n neoverse no nt octa opteron oracle pentium phi platinum
    power ppc preempt pro processor pve qemu quad r radeon rapids rc release riscv rome rt ryzen s sapphire server
    silver six sixteen skylake smp sp standard t th threadripper tm tsx twelve u ubuntu uek ultra update v version
    virtual vmware windows with wsl x xeon
    """
)
"""Operating systems, kernels, processors."""

FILE_SYSTEMS: Final = _words(
    """
    apfs bcachefs btrfs ceph cifs csvfs exfat ext f fat fs fuse fuseblk gfs hfs hpfs iso jfs lustre nfs nilfs ntfs
    ocfs overlay refs reiserfs smb squashfs tmpfs udf ufs vfat vmfs xfs zfs zonefs
    """
)

SOURCES: Final = _words(
    """
    agent alibaba array arrow as azure base biolatency biosnoop blg blktrace block boottime btl bz capture captured
    clock cloudwatch collectl counter cpu crystaldiskmark csv cycle date disk diskio diskmon disksim diskspd diskstats
    dmv duckdb ebs elapsed esxtop etl event events export exporter extended file filetime fio for from ftrace gz gzip
    hammerdb host import iolog iometer iostat iotrace it its json kind linux local log logs lun microseconds
    milliseconds monitor mono monotonic mqsim msr nanoseconds node of ontap orion parquet perf perfmon performance
    pgbench polls prints prometheus qpc query raw realtime recorder s sadf sar seconds server since snapshot snapshots
    sql sqlio start stats streams synthetic sysstat system tar tencent text the time times trace tracerpt tsc utc utf
    uuid validation vdbench version vmware volumes vscsi waits windows wpa xel xevents xml xperf xz zip zst
    """
)
"""Kinds of sources and their clocks; the tools whose results are imported."""

FORMAT: Final = frozenset({*Layer, *Op, *Role, *DeviceKind, *METRICS, "array"})
"""The closed lists of the format."""

RESULTS: Final = frozenset(
    {"total", "random", "sequential", "mixed", "service", "transaction", "transactions"}
    | {"neword", "payment", "delivery", "slev", "ostat", "gwrite", "tpcc", "tpch"}
    | {*Op}
)
"""What a test did: ops, access, clocks, the transactions of TPC-C as HammerDB names them."""


def is_made_of(text: str, words: frozenset[str]) -> bool:
    """Whether ``text`` is made of ``words``, numbers and punctuation alone.

    A single letter passes beside a digit, as in ``8370C``, but only a few in one text.
    """
    if len(text) > _CHARACTERS_MAX or not text.isprintable():
        return False
    digits = letters = 0
    for found in _RUNS.finditer(text.lower()):
        run = found.group()
        if run.isdigit():
            digits += len(run)
        elif len(run) == 1:
            beside = text[max(found.start() - 1, 0) : found.start()] + text[found.end() : found.end() + 1]
            letters += 1
            if run not in words and not any(one.isdigit() for one in beside):
                return False
        elif run not in words:
            return False
    return digits <= _DIGITS_MAX and letters <= _SINGLE_LETTERS_MAX
