-- How often was each transfer size asked for, per device, role and operation?
--
-- device_id [id]: row of devices; null where the layer does not know it
-- role [text]: what the file is to the database; unattributed where no file is known
-- op [text]: what was asked of the storage
-- size_bytes [bytes]: bytes of one transfer
-- io_count [I/Os]: how many transfers had that size
--
-- $layer [text]: the layer to count at
--
-- Reads: io_rollup
SELECT
  device_id,
  role,
  op,
  size_bytes,
  sum(io_count)::BIGINT AS io_count
FROM io_rollup
WHERE layer = $layer
GROUP BY device_id, role, op, size_bytes
ORDER BY device_id, role, op, size_bytes
