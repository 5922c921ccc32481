"""Texts that people hold and that nothing can be read from: each is named, with what to bring instead.

Beginnings as the tools print them, shortened.
"""

import pytest

from iotrace.capture.importing.traces import import_files
from iotrace.schemas import IotraceError

FILES = "bring snapshots of sys.dm_io_virtual_file_stats"
TEXTS = {
    "findings of sp_BlitzFirst": (
        (
            "ID,ServerName,CheckDate,CheckID,Priority,FindingsGroup,Finding,URL,Details\n"
            "1,SRV,2026-03-13,9,100,Wait Stats,PAGEIOLATCH_SH,,x\n"
        ),
        "@OutputTableNameFileStats",
    ),
    "dm_os_performance_counters": (
        (
            "CheckDate\tobject_name\tcounter_name\tinstance_name\tcntr_value\tcntr_type\n"
            "2026-03-13\tSQLServer:Buffer Manager\tPage reads/sec\t\t1000\t272696576\n"
        ),
        "logman",
    ),
    "means since SQL Server started": (
        (
            "ReadLatency,WriteLatency,Latency,AvgBPerRead,AvgBPerWrite,AvgBPerTransfer,Drive,DB,physical_name\n"
            "5,2,3,65536,8192,40000,D:,Sales,D:\\Sales.mdf\n"
        ),
        FILES,
    ),
    "Get-Counter's samples": (
        (
            '"Timestamp","Path","InstanceName","CookedValue"\n'
            '"3/13/2026 12:00:01 PM","\\\\srv\\physicaldisk(0 c:)\\avg. disk sec/read","0 c:","0.005"\n'
        ),
        "Export-Counter -FileFormat csv",
    ),
    "Process Monitor": (
        (
            '"Time of Day","Process Name","PID","Operation","Path","Result","Detail"\n'
            '"12:00:01.1 PM","sqlservr.exe","1234","ReadFile","D:\\a.mdf","SUCCESS","Offset: 8,192, Length: 8,192"\n'
        ),
        "iotrace capture plan",
    ),
    "Resource Monitor": (
        "Image\tPID\tFile\tRead (B/sec)\tWrite (B/sec)\tTotal (B/sec)\nsqlservr.exe\t1\tD:\\a.mdf\t1\t2\t3\n",
        "typeperf",
    ),
    "SQL Server's error log": (
        (
            "2026-03-13 12:00:00.12 spid12s     SQL Server has encountered 5 occurrence(s) of I/O requests taking "
            "longer than 15 seconds to complete on file [D:\\Data\\a.mdf] in database id 5.\n"
        ),
        FILES,
    ),
    "a page of vdbench": (
        '<title>Vdbench summary.html</title><pre>\nLink to flatfile:  <A HREF="flatfile.html">flatfile</A>\n',
        "flatfile.html",
    ),
    "vmstat": (
        (
            "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
            " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
            " 1  0      0 1000000  10000 200000    0    0    10    20  100  200  1  0 99  0  0\n"
        ),
        "iostat -xt 5",
    ),
    "atop": ("ATOP - db01   2026/03/13  12:00:00   ------   10s elapsed\n", "iostat -xt 5"),
    "dstat": ('"Dstat 0.7.3 CSV output"\n"Author:","Dag Wieers"\n', "iostat -xt 5"),
    "iotop": ("Total DISK READ :   1.00 M/s | Total DISK WRITE :   2.00 M/s\n", "iostat -xt 5"),
    "nmon": ("AAA,progname,nmon\nAAA,command,nmon -f\n", "iostat -xt 5"),
    "zpool iostat": (
        (
            "              capacity     operations     bandwidth \n"
            "pool        alloc   free   read  write   read  write\n"
        ),
        "iostat -xt 5",
    ),
    "fio's terse output": ("3;fio-3.33;job;0;0;1024;102400;25600;10;1;2;1.5;0.5\n", "--output-format=json+"),
    "bpftrace with nothing": ("Attaching 4 probes...\n@ns:\n[64K, 128K)    2 |@@   |\n", "@usecs"),
    "set in columns with blanks": (
        (
            "capture_time            database_id num_of_reads io_stall_read_ms\n"
            "----------------------- ----------- ------------ ----------------\n"
            "2026-03-13 12:00:00.123           5          100              500\n"
        ),
        'sqlcmd -W -s "|"',
    ),
    "without names of its columns": (
        (
            "2026-03-13 12:00:00.123,5,1,100,500,819200,50,100,409600\n"
            "2026-03-13 12:05:00.123,5,1,300,1500,2457600,150,400,1228800\n"
        ),
        "Include column headers",
    ),
}


@pytest.mark.parametrize("what", TEXTS)
@pytest.mark.parametrize(("encoding", "ends"), [("utf-8", "\n"), ("utf-8-sig", "\r\n"), ("utf-16", "\r\n")])
def test_it_is_named_with_what_to_bring(tmp_path, what, encoding, ends):
    text, hint = TEXTS[what]
    path = tmp_path / "brought.txt"
    path.write_bytes(text.replace("\n", ends).encode(encoding))
    with pytest.raises(IotraceError) as refused:
        import_files([path], tmp_path / "out.iotrace")
    assert what in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "Name,Size,Color,Weight\nbolt,5,red,1\nnut,6,blue,2\n",
        "bolt,red,round,1\nnut,blue,flat,2\n",
        "1,2\n3,4\n",
    ],
    ids=["a header", "words", "two cells"],
)
def test_no_header_is_claimed_to_be_missing_where_that_is_not_plain(tmp_path, text):
    path = tmp_path / "brought.csv"
    path.write_text(text)
    with pytest.raises(IotraceError) as refused:
        import_files([path], tmp_path / "out.iotrace")
    assert "without names" not in str(refused.value)
