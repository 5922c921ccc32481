-- What does each performance counter show over the recording?
--
-- object [text]: counter object
-- instance [text]: instance within the object
-- counter [text]: counter name
-- unit [text]: unit of the values
-- layer [text]: layer it speaks of; null where it has none
-- metric [text]: common name across sources; null where it has none
-- sample_count [samples]: values recorded
-- value_mean [unit]: mean over time, each value weighted by its interval; of latencies this is no mean per I/O
-- value_min [unit]: smallest value
-- value_max [unit]: largest value
SELECT
  object,
  instance,
  counter,
  unit,
  layer,
  metric,
  count(*) AS sample_count,
  sum(value * coalesce(interval_ns, 1)) / nullif(sum(coalesce(interval_ns, 1)), 0) AS value_mean,
  min(value) AS value_min,
  max(value) AS value_max
FROM counters
GROUP BY ALL
ORDER BY ALL
