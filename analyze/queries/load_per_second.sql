-- What load arrived in each second of UTC?
--
-- utc_s [s]: the second, since 1970
-- io_count [I/Os]: reads and writes issued in it, failed ones included
-- size_bytes [bytes]: bytes they asked for
--
-- $layer [text]: the layer to count at
-- $zero_utc_ns [ns]: UTC of the recording's nanosecond 0, since 1970
SELECT
  (issued_ns + $zero_utc_ns) // 1000000000 AS utc_s,
  count(*) AS io_count,
  sum(size_bytes)::BIGINT AS size_bytes
FROM io
WHERE layer = $layer AND op IN ('read', 'write')
GROUP BY ALL
ORDER BY utc_s
