"""What Linux tools write: blktrace, biosnoop, fio's I/O logs."""
