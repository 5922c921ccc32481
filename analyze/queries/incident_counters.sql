-- What did each performance counter show during a stretch of time, and in the rest of the recording?
--
-- object [text]: counter object
-- instance [text]: instance within the object
-- counter [text]: counter name
-- unit [text]: unit of the values
-- layer [text]: layer it speaks of; null where it has none
-- metric [text]: common name across sources; null where it has none
-- slow_mean [unit]: mean over the intervals that lie at least half in the stretch
-- normal_median [unit]: median over the others
-- normal_low [unit]: 5 % of the others are lower
-- normal_high [unit]: 5 % of the others are higher
--
-- $from_ns [ns]: start of the stretch
-- $until_ns [ns]: end of the stretch, not included
WITH

placed AS (
  SELECT
    *,
    at_ns - coalesce(interval_ns, 0) // 2 >= $from_ns AND at_ns - coalesce(interval_ns, 0) // 2 < $until_ns AS is_slow
  FROM counters
)

SELECT
  object,
  instance,
  counter,
  unit,
  layer,
  metric,
  avg(value) FILTER (WHERE is_slow) AS slow_mean,
  median(value) FILTER (WHERE NOT is_slow) AS normal_median,
  quantile_cont(value, 0.05) FILTER (WHERE NOT is_slow) AS normal_low,
  quantile_cont(value, 0.95) FILTER (WHERE NOT is_slow) AS normal_high
FROM placed
GROUP BY ALL
HAVING count(*) FILTER (WHERE is_slow) > 0 AND count(*) FILTER (WHERE NOT is_slow) >= 3
ORDER BY ALL
