-- How often was each transfer size asked for, per device, role and operation?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- size_bytes [bytes]: bytes of one transfer
-- io_count [I/Os]: how many transfers had that size
--
-- $layer [text]: the layer to count at
WITH

per_file AS (
  SELECT
    device_id,
    file_id,
    op,
    size_bytes,
    count(*) AS io_count
  FROM io
  WHERE layer = $layer
  GROUP BY ALL
)

SELECT
  per_file.device_id,
  coalesce(files.role, 'unattributed') AS role,
  per_file.op,
  per_file.size_bytes,
  sum(per_file.io_count)::BIGINT AS io_count
FROM per_file
LEFT JOIN files USING (file_id)
GROUP BY ALL
ORDER BY ALL
