-- Files and chunks that statistics may skip: several inserts with disjoint, overlapping, all-NULL and NaN ranges.
-- A skipped file must hold no matching row.

-- @table pr_t partition_by=bucket(2, p)
CREATE TABLE pr_t (p INT, x INT, s VARCHAR, f DOUBLE, d DATE, m DECIMAL(10,2), b BOOLEAN, ts TIMESTAMP);
INSERT INTO pr_t SELECT CAST(value % 4 AS INT) AS p, value AS x, 's' || lpad(CAST(value AS VARCHAR), 3, '0') AS s, value * 0.5 AS f, CAST('2024-01-01' AS DATE) + CAST(value AS INT) AS d, CAST(value AS DECIMAL(10,2)) AS m, true AS b, TIMESTAMP '2024-01-01 00:00:00' AS ts FROM generate_series(1, 20) AS g(value);
INSERT INTO pr_t SELECT CAST(value % 4 AS INT) AS p, NULL AS x, NULL AS s, NULL AS f, NULL AS d, NULL AS m, NULL AS b, NULL AS ts FROM generate_series(1, 10) AS g(value);
INSERT INTO pr_t SELECT CAST(value % 4 AS INT) AS p, value AS x, 's' || lpad(CAST(value AS VARCHAR), 3, '0') AS s, value * 0.5 AS f, CAST('2024-01-01' AS DATE) + CAST(value AS INT) AS d, CAST(-value AS DECIMAL(10,2)) AS m, false AS b, TIMESTAMP '1960-01-01 00:00:00' AS ts FROM generate_series(101, 120) AS g(value);
INSERT INTO pr_t VALUES (1, 50, '', CAST('NaN' AS DOUBLE), DATE '1960-01-01', 0.00, NULL, NULL), (2, -50, 'S', CAST('Infinity' AS DOUBLE), NULL, NULL, true, TIMESTAMP '2030-01-01 00:00:00');

-- @query prune_count
SELECT count(*), count(x), count(s), count(f), count(d), count(m), count(b), count(ts) FROM pr_t
-- @expect
52	42	42	42	41	41	41	41

-- @query prune_min_max
SELECT min(x), max(x), min(s), max(s), min(d), max(d), min(m), max(m), min(b), max(b) FROM pr_t
-- @expect
-50	120	(empty)	s120	1960-01-01	2024-04-30	-120.00	20.00	false	true

-- @query prune_equal_first
SELECT x, s FROM pr_t WHERE x = 7
-- @expect
7	s007

-- @query prune_equal_last
SELECT x, s FROM pr_t WHERE x = 120
-- @expect
120	s120

-- @query prune_equal_between_files
SELECT count(*) FROM pr_t WHERE x = 60
-- @expect
0

-- @query prune_null
SELECT count(*), count(p) FROM pr_t WHERE x IS NULL
-- @expect
10	10

-- @query prune_not_null_and_null
SELECT count(*) FROM pr_t WHERE x IS NOT NULL AND d IS NULL
-- @expect
1

-- @query prune_range_over_gap
SELECT count(*) FROM pr_t WHERE x > 15 AND x < 110
-- @expect
15

-- @query prune_not_equal
SELECT count(*) FROM pr_t WHERE x <> 7
-- @expect
41

-- @query prune_or_null
SELECT count(*) FROM pr_t WHERE x = 7 OR x IS NULL
-- @expect
11

-- @query prune_in_list
SELECT x FROM pr_t WHERE x IN (1, 60, 101, NULL)
-- @expect
1
101

-- @query prune_not_in_list
SELECT count(*) FROM pr_t WHERE x NOT IN (1, 60, 101)
-- @expect
40

-- @query prune_expression
SELECT x FROM pr_t WHERE x + 1 = 102
-- @expect
101

-- @query prune_negated
SELECT count(*) FROM pr_t WHERE -x > -5
-- @expect
5

-- @query prune_string_equal
SELECT x FROM pr_t WHERE s = 's110'
-- @expect
110

-- @query prune_string_prefix
SELECT count(*) FROM pr_t WHERE s LIKE 's01%'
-- @expect
10

-- @query prune_string_not_prefix
SELECT count(*) FROM pr_t WHERE s NOT LIKE 's%'
-- @expect
2

-- @query prune_string_empty
SELECT x FROM pr_t WHERE s = ''
-- @expect
50

-- @query prune_string_case
SELECT x FROM pr_t WHERE s < 'a' AND s <> ''
-- @expect
-50

-- @query prune_nan_is_greatest
SELECT x FROM pr_t WHERE f > 1000
-- @expect
-50
50

-- @query prune_nan_not_less
SELECT x FROM pr_t WHERE NOT (f <= 60)
-- @expect
-50
50

-- @query prune_nan_is_nan
SELECT x FROM pr_t WHERE isnan(f)
-- @expect
50

-- @query prune_double_range
SELECT count(*) FROM pr_t WHERE f BETWEEN 9.5 AND 51
-- @expect
4

-- @query prune_double_less
SELECT count(*) FROM pr_t WHERE f < 1
-- @expect
1

-- @query prune_date
SELECT x FROM pr_t WHERE d < DATE '1970-01-01' OR d = DATE '2024-01-21'
-- @expect
20
50

-- @query prune_decimal_negative
SELECT x FROM pr_t WHERE m < -118.5
-- @expect
119
120

-- @query prune_decimal_zero
SELECT x FROM pr_t WHERE m = 0
-- @expect
50

-- @query prune_boolean
SELECT b, count(*) FROM pr_t WHERE b GROUP BY b
-- @expect
true	21

-- @query prune_boolean_not
SELECT count(*) FROM pr_t WHERE NOT b
-- @expect
20

-- @query prune_timestamp
SELECT count(*), max(x) FROM pr_t WHERE ts < TIMESTAMP '1970-01-01 00:00:00'
-- @expect
20	120

-- @query prune_timestamp_late
SELECT x FROM pr_t WHERE ts > TIMESTAMP '2025-01-01 00:00:00'
-- @expect
-50

-- @query prune_two_columns
SELECT x FROM pr_t WHERE x > 100 AND m > -103 AND NOT b
-- @expect
101
102

-- @query prune_partition_and_statistics
SELECT count(*), min(x), max(x) FROM pr_t WHERE p = 3 AND x > 10
-- @expect
8	11	119

-- @query prune_case
SELECT count(*) FROM pr_t WHERE CASE WHEN x > 100 THEN b ELSE s = 's005' END
-- @expect
1

-- @query prune_limit_after_skip ordered
SELECT x FROM pr_t WHERE x > 18 ORDER BY x LIMIT 4
-- @expect
19
20
50
101

-- @query prune_join_filter
SELECT count(*) FROM pr_t a JOIN pr_t b ON a.x = b.x AND b.x > 100
-- @expect
20

-- @query prune_join_filter_dynamic
SELECT a.x FROM pr_t a JOIN (SELECT x FROM pr_t WHERE s IN ('s003', 's105')) b ON a.x = b.x
-- @expect
3
105

-- @query prune_top_of_nulls ordered
SELECT x FROM pr_t ORDER BY x DESC NULLS FIRST LIMIT 11
-- @expect
NULL
NULL
NULL
NULL
NULL
NULL
NULL
NULL
NULL
NULL
120

-- @query prune_aggregate_of_skipped
SELECT count(*), sum(x), min(s) FROM pr_t WHERE x > 1000
-- @expect
0	NULL	NULL

-- @query prune_coalesce
SELECT count(*) FROM pr_t WHERE coalesce(x, 0) = 0
-- @expect
10

-- @query prune_distinct_from
SELECT count(*) FROM pr_t WHERE x IS DISTINCT FROM 7
-- @expect
51
