"""Readers of what other load tools print: DiskSpd, fio, HammerDB, SQLIO, Iometer, vdbench. One format a file."""
