-- GROUPING SETS, ROLLUP, CUBE and grouping(), over columns that hold real NULLs.

-- @table g_t partition_by=bucket(4, id)
CREATE TABLE g_t (id INT, a VARCHAR, b INT, x INT);
INSERT INTO g_t VALUES (1, 'p', 1, 10), (2, 'p', 2, 20), (3, 'p', NULL, 30), (4, NULL, 1, 40), (5, NULL, NULL, 50), (6, 'q', 1, 60), (7, 'q', 1, NULL), (8, NULL, 2, 5);

-- @table g_big partition_by=bucket(4, id)
CREATE TABLE g_big (id BIGINT, a BIGINT, b BIGINT);
INSERT INTO g_big SELECT value, CASE WHEN value % 4 = 0 THEN NULL ELSE value % 4 END, CASE WHEN value % 5 = 0 THEN NULL ELSE value % 5 END FROM generate_series(1, 1200) AS g(value);

-- @table g_e partition_by=bucket(4, id)
CREATE TABLE g_e (id INT, a VARCHAR, b INT, x INT);

-- @query S28_rollup
SELECT a, b, grouping(a), grouping(b), count(*), sum(x) FROM g_t GROUP BY ROLLUP (a, b)
-- @expect
p	1	0	0	1	10
p	2	0	0	1	20
p	NULL	0	0	1	30
NULL	1	0	0	1	40
NULL	NULL	0	0	1	50
NULL	2	0	0	1	5
q	1	0	0	2	60
p	NULL	0	1	3	60
NULL	NULL	0	1	3	95
q	NULL	0	1	2	60
NULL	NULL	1	1	8	215

-- @query S28_grand_total_once
SELECT count(*) FROM (SELECT a, b, grouping(a) AS ga, grouping(b) AS gb, count(*) AS c FROM g_t GROUP BY ROLLUP (a, b)) t WHERE ga = 1 AND gb = 1
-- @expect
1

-- @query S28_rollup_without_grouping
SELECT a, b, count(*) FROM g_t GROUP BY ROLLUP (a, b)
-- @expect
NULL	1	1
NULL	2	1
NULL	NULL	1
NULL	NULL	3
NULL	NULL	8
p	1	1
p	2	1
p	NULL	1
p	NULL	3
q	1	2
q	NULL	2

-- @query S28_cube
SELECT a, b, grouping(a), grouping(b), count(*), sum(x) FROM g_t GROUP BY CUBE (a, b)
-- @expect
NULL	1	0	0	1	40
NULL	1	1	0	4	110
NULL	2	0	0	1	5
NULL	2	1	0	2	25
NULL	NULL	0	0	1	50
NULL	NULL	0	1	3	95
NULL	NULL	1	0	2	80
NULL	NULL	1	1	8	215
p	1	0	0	1	10
p	2	0	0	1	20
p	NULL	0	0	1	30
p	NULL	0	1	3	60
q	1	0	0	2	60
q	NULL	0	1	2	60

-- @query S28_grouping_sets
SELECT a, b, grouping(a, b), count(*) FROM g_t GROUP BY GROUPING SETS ((a, b), (a), (b), ())
-- @expect
NULL	1	0	1
NULL	1	2	4
NULL	2	0	1
NULL	2	2	2
NULL	NULL	0	1
NULL	NULL	1	3
NULL	NULL	2	2
NULL	NULL	3	8
p	1	0	1
p	2	0	1
p	NULL	0	1
p	NULL	1	3
q	1	0	2
q	NULL	1	2

-- @query S28_grouping_sets_without_total
SELECT a, b, sum(x) FROM g_t GROUP BY GROUPING SETS ((a), (b))
-- @expect
p	NULL	60
NULL	NULL	95
q	NULL	60
NULL	1	110
NULL	2	25
NULL	NULL	80

-- @query S28_grouping_sets_empty_only
SELECT count(*), sum(x) FROM g_t GROUP BY GROUPING SETS (())
-- @expect
8	215

-- @query S28_grouping_sets_repeated
SELECT a, count(*) FROM g_t GROUP BY GROUPING SETS ((a), (a))
-- @expect
NULL	3
NULL	3
p	3
p	3
q	2
q	2

-- @query S28_rollup_of_empty_table
SELECT a, b, count(*) FROM g_e GROUP BY ROLLUP (a, b)
-- @expect
NULL	NULL	0

-- @query S28_rollup_filtered_to_nothing
SELECT a, sum(x) FROM g_t WHERE id < 0 GROUP BY ROLLUP (a)
-- @expect
NULL	NULL

-- @query S28_rollup_big
SELECT a, b, grouping(a), grouping(b), count(*), sum(id) FROM g_big GROUP BY ROLLUP (a, b)
-- @expect
1	1	0	0	60	35460
1	2	0	0	60	36420
1	3	0	0	60	36180
1	4	0	0	60	35940
1	NULL	0	0	60	35700
1	NULL	0	1	300	179700
2	1	0	0	60	35760
2	2	0	0	60	35520
2	3	0	0	60	36480
2	4	0	0	60	36240
2	NULL	0	0	60	36000
2	NULL	0	1	300	180000
3	1	0	0	60	36060
3	2	0	0	60	35820
3	3	0	0	60	35580
3	4	0	0	60	36540
3	NULL	0	0	60	36300
3	NULL	0	1	300	180300
NULL	1	0	0	60	36360
NULL	2	0	0	60	36120
NULL	3	0	0	60	35880
NULL	4	0	0	60	35640
NULL	NULL	0	0	60	36600
NULL	NULL	0	1	300	180600
NULL	NULL	1	1	1200	720600

-- @query S28_rollup_big_totals
SELECT ga, gb, count(*), sum(c) FROM (SELECT a, b, grouping(a) AS ga, grouping(b) AS gb, count(*) AS c FROM g_big GROUP BY CUBE (a, b)) t GROUP BY ga, gb
-- @expect
0	0	20	1200
0	1	4	1200
1	0	5	1200
1	1	1	1200

-- @query S28_rollup_expression
SELECT id % 3, count(*) FROM g_big GROUP BY ROLLUP (id % 3)
-- @expect
0	400
1	400
2	400
NULL	1200

-- @query S28_rollup_having
SELECT a, b, count(*) FROM g_big GROUP BY ROLLUP (a, b) HAVING count(*) > 200
-- @expect
1	NULL	300
2	NULL	300
3	NULL	300
NULL	NULL	300
NULL	NULL	1200

-- @query S28_rollup_having_grouping
SELECT a, sum(x) FROM g_t GROUP BY ROLLUP (a) HAVING grouping(a) = 1
-- @expect
NULL	215

-- @query S28_rollup_order_limit ordered
SELECT a, grouping(a) AS ga, count(*) AS c FROM g_t GROUP BY ROLLUP (a) ORDER BY ga DESC, a NULLS LAST LIMIT 3
-- @expect
NULL	1	8
p	0	3
q	0	2

-- @query S28_rollup_distinct_aggregate
SELECT a, count(DISTINCT b), sum(DISTINCT b) FROM g_t GROUP BY ROLLUP (a)
-- @expect
NULL	2	3
NULL	2	3
p	2	3
q	1	1

-- @query S28_rollup_join
SELECT t.a, b.b, count(*) FROM g_t t JOIN g_big b ON t.id = b.id GROUP BY ROLLUP (t.a, b.b)
-- @expect
NULL	3	1
NULL	4	1
NULL	NULL	1
NULL	NULL	3
NULL	NULL	8
p	1	1
p	2	1
p	3	1
p	NULL	3
q	1	1
q	2	1
q	NULL	2

-- @query S28_rollup_plus_plain_column
SELECT a, b, count(*) FROM g_t GROUP BY a, ROLLUP (b)
-- @expect
NULL	1	1
NULL	2	1
NULL	NULL	1
NULL	NULL	3
p	1	1
p	2	1
p	NULL	1
p	NULL	3
q	1	2
q	NULL	2

-- @query S28_case_on_grouping
SELECT CASE WHEN grouping(a) = 1 THEN 'total' ELSE coalesce(a, 'none') END, sum(x) FROM g_t GROUP BY ROLLUP (a)
-- @expect
p	60
none	95
q	60
total	215

-- @query S28_rollup_over_union
SELECT k, count(*) FROM (SELECT a AS k FROM g_t UNION ALL SELECT 'p' FROM g_e UNION ALL SELECT 'p') u GROUP BY ROLLUP (k)
-- @expect
p	4
q	2
NULL	3
NULL	9

-- @query S28_window_over_rollup
SELECT a, count(*), rank() OVER (ORDER BY count(*) DESC) FROM g_t GROUP BY ROLLUP (a)
-- @expect
NULL	3	2
NULL	8	1
p	3	2
q	2	4

-- @query S28_rollup_of_positions expect_only
SELECT a, count(*), sum(x) FROM g_t GROUP BY ROLLUP (1)
-- @expect
p	3	60
NULL	3	95
q	2	60
NULL	8	215

-- @query S28_sets_of_positions expect_only
SELECT a, b AS y, count(*) FROM g_t WHERE id < 3 GROUP BY GROUPING SETS ((1), (1, 2), ())
-- @expect
p	NULL	2
p	1	1
p	2	1
NULL	NULL	2

-- @query S28_position_too_large error expect_only
SELECT a, count(*) FROM g_t GROUP BY CUBE (3)
