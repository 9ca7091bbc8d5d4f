-- Dates, times, timestamps (zones, nanoseconds, before the epoch) and intervals.

-- @table ts_t partition_by=bucket(4, id)
CREATE TABLE ts_t (id INT, ts TIMESTAMP, d DATE);
INSERT INTO ts_t VALUES (1, TIMESTAMP '2024-02-29 12:34:56.789', DATE '2024-02-29'), (2, TIMESTAMP '1969-12-31 23:59:59.999', DATE '1969-12-31'), (3, TIMESTAMP '1970-01-01 00:00:00', DATE '1970-01-01'), (4, NULL, NULL), (5, TIMESTAMP '2024-12-31 23:59:59', DATE '2024-12-31'), (6, TIMESTAMP '1900-03-01 06:00:00', DATE '1900-03-01'), (7, TIMESTAMP '2024-02-29 12:00:00', DATE '2024-03-01');

-- @table ts_units partition_by=bucket(3, id)
CREATE TABLE ts_units AS SELECT column1 AS id, arrow_cast(column2, 'Timestamp(Second, None)') AS s, arrow_cast(column2, 'Timestamp(Millisecond, None)') AS ms, arrow_cast(column2, 'Timestamp(Microsecond, None)') AS us, arrow_cast(column2, 'Timestamp(Nanosecond, None)') AS ns FROM (VALUES (1, '2024-05-01T10:00:00'), (2, '2024-05-01T10:00:01'), (3, '1965-05-01T10:00:00'), (4, NULL));

-- @table ts_zone partition_by=bucket(3, id)
CREATE TABLE ts_zone AS SELECT column1 AS id, arrow_cast(column2, 'Timestamp(Microsecond, Some("+00:00"))') AS z FROM (VALUES (1, '2024-07-01T12:00:00Z'), (2, '2024-07-01T14:00:00+02:00'), (3, '2024-01-01T00:00:00-05:00'), (4, NULL));

-- @table ts_ns
CREATE TABLE ts_ns AS SELECT column1 AS id, arrow_cast(column2, 'Timestamp(Nanosecond, None)') AS n FROM (VALUES (1, '2024-05-01T10:00:00.000000001'), (2, '2024-05-01T10:00:00.000000002'), (3, '2024-05-01T10:00:00.000000002'), (4, '1969-12-31T23:59:59.999999999'));

-- @table ts_days partition_by=bucket(4, d)
CREATE TABLE ts_days AS SELECT value AS id, CAST('2023-12-25' AS DATE) + CAST(value AS INT) AS d FROM (SELECT value FROM generate_series(0, 99) AS g(value)) s;

-- @query date_rows
SELECT id, d FROM ts_t
-- @expect
1	2024-02-29
2	1969-12-31
3	1970-01-01
4	NULL
5	2024-12-31
6	1900-03-01
7	2024-03-01

-- @query date_min_max
SELECT min(d), max(d), count(d), count(DISTINCT d) FROM ts_t
-- @expect
1900-03-01	2024-12-31	6	6

-- @query ts_min_max rows=1
SELECT min(ts), max(ts) FROM ts_t

-- @query ts_rows rows=7
SELECT id, ts FROM ts_t

-- @query ts_compare
SELECT id FROM ts_t WHERE ts >= TIMESTAMP '1970-01-01 00:00:00' AND ts < TIMESTAMP '2024-12-31 00:00:00'
-- @expect
1
3
7

-- @query ts_before_epoch
SELECT id FROM ts_t WHERE ts < TIMESTAMP '1970-01-01 00:00:00'
-- @expect
2
6

-- @query ts_extract
SELECT id, extract(year FROM ts), extract(month FROM ts), extract(day FROM ts), extract(hour FROM ts), extract(minute FROM ts) FROM ts_t WHERE id <> 4
-- @expect
1	2024	2	29	12	34
2	1969	12	31	23	59
3	1970	1	1	0	0
5	2024	12	31	23	59
6	1900	3	1	6	0
7	2024	2	29	12	0

-- @query ts_date_part
SELECT id, date_part('quarter', d), date_part('week', d), date_part('doy', d), date_part('dow', d) FROM ts_t WHERE id <> 4
-- @expect
1	1	9	60	4
2	4	1	365	3
3	1	1	1	4
5	4	1	366	2
6	1	9	60	4
7	1	9	61	5

-- @query ts_epoch
SELECT id, date_part('epoch', d) FROM ts_t WHERE id IN (2, 3)
-- @expect
2	-86400.0
3	0.0

-- @query ts_trunc rows=7
SELECT id, date_trunc('year', ts), date_trunc('month', ts), date_trunc('day', ts), date_trunc('hour', ts) FROM ts_t

-- @query ts_trunc_quarter_week rows=2
SELECT id, date_trunc('quarter', ts), date_trunc('week', ts) FROM ts_t WHERE id IN (1, 5)

-- @query ts_trunc_group rows=6
SELECT date_trunc('month', ts) AS m, count(*) FROM ts_t GROUP BY date_trunc('month', ts)

-- @query ts_plus_interval rows=7
SELECT id, ts + INTERVAL '1' DAY, ts - INTERVAL '1' HOUR FROM ts_t

-- @query date_plus_months
SELECT id, d + INTERVAL '1' MONTH, d - INTERVAL '1' YEAR FROM ts_t WHERE id IN (1, 5)
-- @expect
1	2024-03-29	2023-02-28
5	2025-01-31	2023-12-31

-- @query date_end_of_month
SELECT CAST(DATE '2024-01-31' + INTERVAL '1' MONTH AS DATE), CAST(DATE '2023-01-31' + INTERVAL '1' MONTH AS DATE)
-- @expect
2024-02-29	2023-02-28

-- @query date_minus_date_group
SELECT d - DATE '2023-12-25' AS days, id FROM ts_days WHERE id < 3
-- @expect
0	0
1	1
2	2

-- @query date_compare_with_timestamp
SELECT id FROM ts_t WHERE ts >= d AND ts < d + INTERVAL '1' DAY
-- @expect
1
2
3
5
6

-- @query date_filter_interval
SELECT count(*) FROM ts_days WHERE d >= DATE '2024-01-01' AND d < DATE '2024-01-01' + INTERVAL '1' MONTH
-- @expect
31

-- @query date_filter_between
SELECT count(*), min(d), max(d) FROM ts_days WHERE d BETWEEN DATE '2024-02-01' AND DATE '2024-02-29'
-- @expect
29	2024-02-01	2024-02-29

-- @query date_group_month
SELECT extract(year FROM d) AS y, extract(month FROM d) AS m, count(*) FROM ts_days GROUP BY 1, 2
-- @expect
2023	12	7
2024	1	31
2024	2	29
2024	3	31
2024	4	2

-- @query date_equality_on_bucket_key
SELECT id FROM ts_days WHERE d = DATE '2024-02-29'
-- @expect
66

-- @query date_in_list
SELECT id FROM ts_days WHERE d IN (DATE '2023-12-25', DATE '2024-01-01', NULL)
-- @expect
0
7

-- @query date_join
SELECT t.id, x.id FROM ts_t t JOIN ts_days x ON t.d = x.d
-- @expect
1	66
7	67

-- @query date_join_timestamp
SELECT t.id, x.id FROM ts_t t JOIN ts_days x ON date_trunc('day', t.ts) = x.d
-- @expect
1	66
7	66

-- @query date_order ordered
SELECT id FROM ts_t ORDER BY d DESC NULLS LAST
-- @expect
5
7
1
3
2
6
4

-- @query date_cast_string
SELECT id, CAST(d AS VARCHAR) FROM ts_t WHERE id IN (1, 6)
-- @expect
1	2024-02-29
6	1900-03-01

-- @query date_from_string
SELECT CAST('2024-02-29' AS DATE), CAST('2024-02-29' AS DATE) + INTERVAL '1' DAY = TIMESTAMP '2024-03-01 00:00:00'
-- @expect
2024-02-29	true

-- @query date_from_bad_string error
SELECT CAST('2024-02-30' AS DATE) FROM ts_t

-- @query date_try_cast_bad
SELECT TRY_CAST('2024-02-30' AS DATE), TRY_CAST('2024-02-28' AS DATE)
-- @expect
NULL	2024-02-28

-- @query ts_units_rows rows=4
SELECT id, s, ms, us, ns FROM ts_units

-- @query ts_units_equal
SELECT id FROM ts_units WHERE s = ms AND ms = us AND us = ns
-- @expect
1
2
3

-- @query ts_units_join
SELECT a.id, b.id FROM ts_units a JOIN ts_units b ON a.s = b.ns
-- @expect
1	1
2	2
3	3

-- @query ts_units_union
SELECT count(*), count(DISTINCT x) FROM (SELECT s AS x FROM ts_units UNION ALL SELECT us FROM ts_units) u
-- @expect
8	3

-- @query ts_units_filter
SELECT id FROM ts_units WHERE ms > TIMESTAMP '2024-05-01 10:00:00'
-- @expect
2

-- @query ts_zone_equal
SELECT a.id, b.id FROM ts_zone a JOIN ts_zone b ON a.z = b.z
-- @expect
1	1
1	2
2	1
2	2
3	3

-- @query ts_zone_group rows=3
SELECT z, count(*) FROM ts_zone GROUP BY z

-- @query ts_zone_filter
SELECT id FROM ts_zone WHERE z = arrow_cast('2024-07-01T12:00:00Z', 'Timestamp(Microsecond, Some("+00:00"))')
-- @expect
1
2

-- @query ts_zone_extract
SELECT id, extract(hour FROM z), extract(day FROM z) FROM ts_zone
-- @expect
1	12	1
2	12	1
3	5	1
4	NULL	NULL

-- @query ts_zone_min_max
SELECT min(z) < max(z), count(z) FROM ts_zone
-- @expect
true	3

-- @query ts_zone_order ordered
SELECT id FROM ts_zone ORDER BY z NULLS FIRST, id
-- @expect
4
3
1
2

-- @query ts_zone_at_time_zone
SELECT id, z AT TIME ZONE 'Europe/Brussels' = z FROM ts_zone WHERE id < 4
-- @expect
1	true
2	true
3	true

-- @query ts_ns_distinct
SELECT count(DISTINCT n), count(*) FROM ts_ns
-- @expect
3	4

-- @query ts_ns_group rows=3
SELECT n, count(*) FROM ts_ns GROUP BY n

-- @query ts_ns_join
SELECT a.id, b.id FROM ts_ns a JOIN ts_ns b ON a.n = b.n AND a.id < b.id
-- @expect
2	3

-- @query ts_ns_max ordered
SELECT id FROM ts_ns ORDER BY n DESC, id LIMIT 2
-- @expect
2
3

-- @query ts_ns_below_micro
SELECT id FROM ts_ns WHERE n > arrow_cast('2024-05-01T10:00:00.000000001', 'Timestamp(Nanosecond, None)')
-- @expect
2
3

-- @query ts_to_timestamp
SELECT to_timestamp(0) = TIMESTAMP '1970-01-01 00:00:00', to_timestamp(-1) < to_timestamp(0)
-- @expect
true	true

-- @query ts_to_char
SELECT id, to_char(d, '%Y/%m/%d') FROM ts_t WHERE id < 3
-- @expect
1	2024/02/29
2	1969/12/31

-- @query ts_date_bin rows=2
SELECT id, date_bin(INTERVAL '15 minutes', ts, TIMESTAMP '2000-01-01 00:00:00') FROM ts_t WHERE id IN (1, 5)

-- @query ts_difference_compare
SELECT a.id, b.id FROM ts_t a JOIN ts_t b ON a.ts < b.ts AND b.ts - a.ts < INTERVAL '1' HOUR
-- @expect
2	3
7	1

-- @query ts_make_date
SELECT make_date(2024, id, 1) FROM ts_t
-- @expect
2024-01-01
2024-02-01
2024-03-01
2024-04-01
2024-05-01
2024-06-01
2024-07-01

-- @query ts_time_values
SELECT id, CAST(ts AS TIME) FROM ts_t WHERE id IN (3, 5)
-- @expect
3	00:00:00
5	23:59:59

-- @query ts_window_by_month
SELECT id, count(*) OVER (PARTITION BY date_trunc('month', d) ORDER BY d) FROM ts_days WHERE id < 12
-- @expect
0	1
1	2
2	3
3	4
4	5
5	6
6	7
7	1
8	2
9	3
10	4
11	5

-- The time of a statement: one in all its parts, and in the tasks of its plan.
-- @query ts_now
SELECT count(*), min(now()) = max(now()), bool_and(now() > TIMESTAMP '2024-01-01'), bool_and(current_date > DATE '2024-01-01'), count(current_time) FROM ts_t
-- @expect
7	true	true	true	7

-- @query ts_now_filter
SELECT id FROM ts_t WHERE ts < now() AND d < current_date AND current_timestamp = now()
-- @expect
1
2
3
5
6
7

-- The engine compares intervals month by month, then day by day; here a month has 30 days, and a day 24 hours.

-- @query ts_interval_compared expect_only
SELECT id FROM ts_t WHERE TIMESTAMP '2024-03-11' - ts > INTERVAL '10 days'
-- @expect
1
2
3
6
7

-- @query ts_interval_equal expect_only
SELECT count(*) FROM ts_t WHERE INTERVAL '24 hours' = INTERVAL '1 day'
-- @expect
7

-- @query ts_interval_of_each_kind expect_only
SELECT INTERVAL '1 month' = INTERVAL '30 days', INTERVAL '40 days' > INTERVAL '1 month', INTERVAL '1 month -30 days' IS NOT DISTINCT FROM INTERVAL '0 seconds', INTERVAL '1 year' < INTERVAL '365 days', CAST(NULL AS INTERVAL) = INTERVAL '1 day', INTERVAL '25 hours' <> INTERVAL '1 day'
-- @expect
true	true	true	true	NULL	true

-- @query ts_interval_between expect_only
SELECT id FROM ts_t WHERE TIMESTAMP '2024-03-31' - ts BETWEEN INTERVAL '1 month' AND INTERVAL '2 months' AND TIMESTAMP '2024-03-31' - ts NOT IN (INTERVAL '40 days', INTERVAL '30 days')
-- @expect
1
7

-- @query ts_interval_as_a_value expect_only
SELECT id, TIMESTAMP '2024-03-30' - ts >= INTERVAL '720 hours', CASE WHEN TIMESTAMP '2024-03-30' - ts < INTERVAL '1 month' THEN 'young' ELSE 'old' END FROM ts_t
-- @expect
1	false	young
2	true	old
3	true	old
4	NULL	old
5	false	young
6	true	old
7	false	young

-- @query ts_interval_joined expect_only
SELECT a.id, b.id FROM ts_t a JOIN ts_t b ON a.id < b.id AND a.ts - b.ts < INTERVAL '1 day' AND b.ts - a.ts < INTERVAL '1 day'
-- @expect
1	7
2	3

-- @query ts_interval_ordered ordered expect_only
SELECT n FROM (VALUES (1, INTERVAL '1 month'), (2, INTERVAL '40 days'), (3, INTERVAL '29 days 25 hours'), (4, NULL), (5, INTERVAL '2 days')) v(n, i) ORDER BY i NULLS FIRST
-- @expect
4
5
1
3
2

-- @query ts_interval_in_subquery error expect_only
SELECT id FROM ts_t WHERE INTERVAL '1 day' IN (SELECT INTERVAL '24 hours' FROM ts_t)

-- @query ts_interval_by_points
SELECT id FROM ts_t WHERE TIMESTAMP '2024-03-15' > ts + INTERVAL '10 days' AND ts > TIMESTAMP '2000-01-01'
-- @expect
1
7
