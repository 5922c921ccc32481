-- Which I/Os completed in a slice of time, in the order they are stored?
--
-- completed_ns [ns]: when it completed, in time of the recording
-- device_key [id]: row of devices; -1 where the layer does not know it
--
-- $layer [text]: the layer to look at
-- $from_ns [ns]: start of the slice
-- $until_ns [ns]: end of the slice, not included
SELECT
  completed_ns,
  coalesce(device_id, -1) AS device_key
FROM io
WHERE layer = $layer AND completed_ns >= $from_ns AND completed_ns < $until_ns
