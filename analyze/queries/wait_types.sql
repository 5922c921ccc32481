-- Which types of wait cost the most time?
--
-- wait_type [text]: as SQL Server names it
-- wait_count [waits]: waits recorded
-- waited_sum_ns [ns]: length of all these waits, added up
-- waited_max_ns [ns]: the longest wait; null where no length is known
-- signal_sum_ns [ns]: the part of waited_sum_ns that was spent waiting for a processor; null if unknown
SELECT
  wait_type,
  count(*) AS wait_count,
  coalesce(sum(duration_ns), 0)::BIGINT AS waited_sum_ns,
  max(duration_ns) AS waited_max_ns,
  sum(signal_ns)::BIGINT AS signal_sum_ns
FROM waits
GROUP BY wait_type
ORDER BY waited_sum_ns DESC, wait_type
