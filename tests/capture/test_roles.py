"""What a path says about a file."""

import pytest

from iotrace.capture.roles import classify


@pytest.mark.parametrize(
    ("path", "role", "database"),
    [
        (r"E:\Data\Sales.mdf", "data", "Sales"),
        (r"E:\Data\Sales_2.ndf", "data", "Sales"),
        (r"E:\Data\Sales_data.mdf", "data", "Sales"),
        (r"E:\Data\Sales2024.mdf", "data", "Sales2024"),
        (r"L:\Log\Sales_log.ldf", "log", "Sales"),
        (r"L:\Log\SALES_LOG.LDF", "log", "SALES"),
        (r"T:\tempdb.mdf", "tempdb_data", "tempdb"),
        (r"T:\tempdb_mssql_2.ndf", "tempdb_data", "tempdb"),
        (r"T:\tempdev3.ndf", "tempdb_data", "tempdb"),
        (r"T:\templog.ldf", "tempdb_log", "tempdb"),
        (r"C:\Program Files\Microsoft SQL Server\MSSQL16\MSSQL\DATA\master.mdf", "data", "master"),
        (r"C:\Program Files\Microsoft SQL Server\MSSQL16\MSSQL\DATA\mastlog.ldf", "log", "master"),
        (r"C:\x\MSDBData.mdf", "data", "msdb"),
        (r"C:\x\MSDBLog.ldf", "log", "msdb"),
        (r"C:\Windows\WID\Data\susdb.mdf", "data", "susdb"),
        (r"\Device\HarddiskVolume3\Data\Sales.mdf", "data", "Sales"),
        (r"E:\Data\Sales.mdf:MSSQL_DBCC7", "data", "Sales"),
        ("/var/opt/mssql/data/Sales_log.ldf", "log", "Sales"),
        (r"B:\Backup\Sales_full.bak", "backup", None),
        (r"B:\Backup\Sales.trn", "backup", None),
        ("/var/lib/postgresql/16/main/base/16384/2619", "data", "16384"),
        ("/var/opt/mssql/data/Sales.mdf", "data", "Sales"),
        ("/var/opt/mssql/data/tempdb2.ndf", "tempdb_data", "tempdb"),
        ("/var/opt/mssql/data/mastlog.ldf", "log", "master"),
        ("/var/opt/mssql/log/errorlog", "other", None),
        ("/var/lib/postgresql/16/main/base/16384/2619_fsm", "data", "16384"),
        ("/var/lib/postgresql/16/main/base/16384/t3_16390", "tempdb_data", None),
        ("/var/lib/postgresql/16/main/base/pgsql_tmp/pgsql_tmp512.0", "tempdb_data", None),
        ("/mnt/fast/PG_16_202307071/16384/2619", "data", "16384"),
        ("/var/lib/postgresql/16/main/pg_xact/0000", "data", None),
        ("/var/lib/postgresql/16/main/pg_multixact/members/0000", "data", None),
        ("/var/lib/postgresql/16/main/global/pg_control", "data", None),
        ("/var/lib/postgresql/16/main/postmaster.pid", "other", None),
        ("/var/lib/postgresql/16/main/global/1262", "data", None),
        ("/var/lib/postgresql/16/main/pg_tblspc/16390/PG_16_202307071/16384/2619", "data", "16384"),
        ("/var/lib/postgresql/16/main/pg_wal/000000010000000000000001", "log", None),
        (r"C:\pagefile.sys", "system", None),
        (r"C:\$Mft", "system", None),
        (r"\Device\HarddiskVolume2\$LogFile", "system", None),
        (r"C:\$Extend\$UsnJrnl:$J:$DATA", "system", None),
        (r"C:\Windows\System32\ntdll.dll", "system", None),
        (r"C:\System Volume Information\x", "system", None),
        (r"C:\Users\base\notes.txt", "other", None),
        (r"D:\$work\a\b.dat", "other", None),
        (".mdf", "other", None),
        ("", "other", None),
        ("\\", "other", None),
        ("mdf", "other", None),
    ],
)
def test_role_and_database(path, role, database):
    assert classify(path) == (role, database)
