-- Which layers saw how many I/Os, and over what span of time?
--
-- layer [text]: the layer whose clock the rows show
-- io_count [I/Os]: rows of that layer
-- first_issued_ns [ns]: when the first of them was issued
-- last_seen_ns [ns]: when the last of them was issued or completed
-- failed_count [I/Os]: rows with an error
-- unfinished_count [I/Os]: rows without a completion
--
-- Reads: io_rollup
SELECT
  layer,
  sum(io_count)::BIGINT AS io_count,
  min(first_issued_ns) AS first_issued_ns,
  max(last_seen_ns) AS last_seen_ns,
  sum(failed_count)::BIGINT AS failed_count,
  sum(unfinished_count)::BIGINT AS unfinished_count
FROM io_rollup
GROUP BY layer
ORDER BY layer
