-- Which waits occurred during a stretch of time, and which in the rest of the recording?
--
-- wait_type [text]: as SQL Server names it
-- slow_count [waits]: waits that ended in the stretch
-- slow_sum_ns [ns]: how long they were, added up
-- normal_sum_ns [ns]: how long the waits outside it were, added up
--
-- $from_ns [ns]: start of the stretch
-- $until_ns [ns]: end of the stretch, not included
SELECT
  wait_type,
  count(*) FILTER (WHERE at_ns >= $from_ns AND at_ns < $until_ns) AS slow_count,
  coalesce(sum(duration_ns) FILTER (WHERE at_ns >= $from_ns AND at_ns < $until_ns), 0)::BIGINT AS slow_sum_ns,
  coalesce(sum(duration_ns) FILTER (WHERE at_ns < $from_ns OR at_ns >= $until_ns), 0)::BIGINT AS normal_sum_ns
FROM waits
GROUP BY wait_type
HAVING count(*) FILTER (WHERE at_ns >= $from_ns AND at_ns < $until_ns) > 0
ORDER BY slow_sum_ns DESC, wait_type
