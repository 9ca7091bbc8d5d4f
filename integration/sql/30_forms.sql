-- Forms of SQL that the engine does not plan, or plans wrongly, and that are rewritten before it sees them.

-- @table fo_w partition_by=bucket(3, x)
CREATE TABLE fo_w (x INT, k INT, s VARCHAR);
INSERT INTO fo_w VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c'), (4, 5, 'a');

-- @table fo_u partition_by=bucket(2, y)
CREATE TABLE fo_u (x INT, y INT);
INSERT INTO fo_u VALUES (2, 5), (2, 20), (9, 1), (4, NULL), (4, 6);

-- @table fo_e partition_by=src
CREATE TABLE fo_e (src INT, dst INT);
INSERT INTO fo_e VALUES (1, 2), (2, 3), (1, 3), (4, 4);

-- @table fo_p partition_by=bucket(2, i)
CREATE TABLE fo_p (i INT, s VARCHAR, p VARCHAR);
INSERT INTO fo_p VALUES (1, '100%', '100!%'), (2, '1000', '100_'), (3, 'a!b', 'a!!b'), (4, 'a\b', 'a\b'), (5, NULL, '%'), (6, 'a_b', 'a!_b');

-- @table fo_i partition_by=bucket(2, id)
CREATE TABLE fo_i (id INT, x BIGINT);
INSERT INTO fo_i VALUES (1, -9223372036854775808), (2, 9223372036854775807);

-- Columns of one name: a scalar subquery goes by the name of its column.

-- @query form_subquery_beside_aggregate expect_only
SELECT (SELECT count(*) FROM fo_w), count(*) FROM fo_u
-- @expect
4	5

-- @query form_subquery_twice expect_only
SELECT (SELECT max(x) FROM fo_w), (SELECT max(x) FROM fo_w), max(x) FROM fo_w
-- @expect
4	4	4

-- @query form_subquery_in_expression expect_only
SELECT (SELECT max(x) FROM fo_w) + 1, max(x) + 1 FROM fo_w
-- @expect
5	5

-- @query form_subquery_beside_column expect_only
SELECT (SELECT max(y) AS x FROM fo_u), x FROM fo_w WHERE x < 3
-- @expect
20	1
20	2

-- @query form_subquery_sorted_by ordered expect_only
SELECT count(*) FROM fo_w GROUP BY s ORDER BY (SELECT count(*) FROM fo_u), count(*)
-- @expect
1
1
2

-- @query form_casts_grouped expect_only
SELECT CAST(x AS BIGINT), CAST(x AS VARCHAR), count(*) FROM fo_u GROUP BY CAST(x AS BIGINT), CAST(x AS VARCHAR)
-- @expect
2	2	2
4	4	2
9	9	1

-- @query form_casts_grouped_by_alias expect_only
SELECT CAST(x AS BIGINT) AS a, CAST(x AS VARCHAR) AS b, count(*) FROM fo_u GROUP BY a, b
-- @expect
2	2	2
4	4	2
9	9	1

-- @query form_casts_grouped_by_position expect_only
SELECT CAST(x AS BIGINT), CAST(x AS VARCHAR), count(*) FROM fo_u GROUP BY 1, 2
-- @expect
2	2	2
4	4	2
9	9	1

-- @query form_cast_grouped_beside_column expect_only
SELECT CAST(x AS VARCHAR) AS a, x AS b, count(*) FROM fo_u GROUP BY a, b
-- @expect
2	2	2
4	4	2
9	9	1

-- @query form_casts_grouping_sets expect_only
SELECT CAST(x AS BIGINT) AS a, CAST(x AS VARCHAR) AS b, count(*) FROM fo_u GROUP BY ROLLUP (CAST(x AS BIGINT), CAST(x AS VARCHAR))
-- @expect
2	2	2
2	NULL	2
4	4	2
4	NULL	2
9	9	1
9	NULL	1
NULL	NULL	5

-- @query form_casts_distinct expect_only
SELECT DISTINCT CAST(x AS BIGINT), CAST(x AS VARCHAR) FROM fo_u
-- @expect
2	2
4	4
9	9

-- Rows with an aggregate.

-- @query form_having_row_in_list expect_only
SELECT k FROM fo_w GROUP BY k HAVING (k, count(*)) IN ((10, 1), (20, 2))
-- @expect
10

-- @query form_having_row_in_subquery expect_only
SELECT x FROM fo_u GROUP BY x HAVING (x, count(*)) IN (SELECT x, x FROM fo_u)
-- @expect
2

-- @query form_having_row_not_in_subquery expect_only
SELECT x FROM fo_u GROUP BY x HAVING (x, count(*)) NOT IN (SELECT x, x FROM fo_u)
-- @expect
4
9

-- @query form_having_row_not_in_with_nulls expect_only
SELECT x FROM fo_u GROUP BY x HAVING (x, count(y)) NOT IN (SELECT x, y FROM fo_u)
-- @expect
2

-- @query form_having_row_alias expect_only
SELECT x, count(*) AS n FROM fo_u GROUP BY x HAVING (x, n) IN (SELECT 2, 2)
-- @expect
2	2

-- @query form_having_two_aggregates error expect_only
SELECT x FROM fo_u GROUP BY x HAVING (max(y), count(*)) IN (SELECT x, x FROM fo_u)

-- Correlated NOT IN minds NULLs.

-- @query form_not_in_correlated expect_only
SELECT x FROM fo_w WHERE k NOT IN (SELECT y FROM fo_u WHERE fo_u.x = fo_w.x)
-- @expect
1
3

-- @query form_not_in_correlated_unequal expect_only
SELECT x FROM fo_w WHERE k NOT IN (SELECT y FROM fo_u WHERE fo_u.x > fo_w.x)
-- @expect
4

-- @query form_not_in_correlated_twice expect_only
SELECT x FROM fo_w WHERE k NOT IN (SELECT y FROM fo_u WHERE fo_u.x = fo_w.x) AND x NOT IN (SELECT dst FROM fo_e WHERE src = fo_w.x)
-- @expect
1
3

-- @query form_not_in_correlated_other_type expect_only
SELECT x FROM fo_w WHERE CAST(k AS BIGINT) NOT IN (SELECT y FROM fo_u WHERE fo_u.y > fo_w.x)
-- @expect
1

-- @query form_in_correlated_other_type expect_only
SELECT x FROM fo_w WHERE CAST(k AS BIGINT) IN (SELECT y FROM fo_u WHERE fo_u.y > fo_w.x)
-- @expect
2
4

-- @query form_not_in_correlated_grouped expect_only
SELECT k, count(*) FROM fo_w GROUP BY k HAVING count(*) NOT IN (SELECT y FROM fo_u WHERE fo_u.y > fo_w.k)
-- @expect
10	1
20	1
5	1
NULL	1

-- @query form_not_in_correlated_or expect_only
SELECT x FROM fo_w WHERE x = 3 OR k NOT IN (SELECT y FROM fo_u WHERE fo_u.x = fo_w.x)
-- @expect
1
3

-- A scalar subquery may have no row, also where its column is never NULL.

-- @query form_no_row_is_null expect_only
SELECT (SELECT count(*) FROM fo_u HAVING count(*) > 100) IS NULL, (SELECT s IS NULL FROM fo_w WHERE x = 99)
-- @expect
true	NULL

-- @query form_no_row_in_condition expect_only
SELECT x FROM fo_w WHERE (SELECT count(*) FROM fo_u WHERE fo_u.x = fo_w.x HAVING count(*) > 1) IS NULL
-- @expect
1
3

-- @query form_no_group_is_null expect_only
SELECT x, (SELECT count(*) FROM fo_u WHERE fo_u.x = fo_w.x GROUP BY fo_u.x) IS NULL FROM fo_w
-- @expect
1	true
2	false
3	true
4	false

-- @query form_no_row_coalesced expect_only
SELECT x, coalesce((SELECT count(*) FROM fo_u WHERE fo_u.x = fo_w.x HAVING count(*) > 1), -1) FROM fo_w
-- @expect
1	-1
2	2
3	-1
4	2

-- @query form_no_row_distinct_from expect_only
SELECT x FROM fo_w WHERE (SELECT count(*) FROM fo_u WHERE fo_u.x = fo_w.x HAVING count(*) > 1) IS NOT DISTINCT FROM NULL
-- @expect
1
3

-- @query form_null_of_an_aggregate expect_only
SELECT x, (SELECT max(y) IS NULL FROM fo_u WHERE fo_u.x = fo_w.x) FROM fo_w
-- @expect
1	true
2	false
3	true
4	false

-- Subqueries in ON.

-- @query form_exists_in_on expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x = fo_u.x AND EXISTS (SELECT 1 FROM fo_e WHERE src = fo_u.x)
-- @expect
2	20
2	5
4	6
4	NULL

-- @query form_not_exists_in_on_both_sides expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x < fo_u.x AND NOT EXISTS (SELECT 1 FROM fo_e WHERE src = fo_w.x AND dst = fo_u.y)
-- @expect
1	1
1	20
1	5
1	6
1	NULL
2	1
2	6
2	NULL
3	1
3	6
3	NULL
4	1

-- @query form_exists_or_in_on expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x = fo_u.x AND (EXISTS (SELECT 1 FROM fo_e WHERE src = y) OR y = 20)
-- @expect
2	20

-- @query form_in_in_on expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x = fo_u.x AND (fo_w.k IN (SELECT y FROM fo_u) OR y = 6)
-- @expect
2	20
2	5
4	6
4	NULL

-- @query form_not_in_in_on expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x = fo_u.x AND fo_w.x NOT IN (SELECT dst FROM fo_e WHERE src = fo_u.x)
-- @expect
2	20
2	5

-- @query form_scalar_in_on expect_only
SELECT fo_w.x, y FROM fo_w JOIN fo_u ON fo_w.x = fo_u.x AND (SELECT max(dst) FROM fo_e WHERE src = fo_u.x) > 3
-- @expect
4	6
4	NULL

-- @query form_exists_in_on_left expect_only
SELECT fo_w.x, y FROM fo_w LEFT JOIN fo_u ON fo_w.x = fo_u.x AND EXISTS (SELECT 1 FROM fo_e WHERE src = fo_u.x AND dst > 3)
-- @expect
1	NULL
2	NULL
3	NULL
4	6
4	NULL

-- @query form_in_in_on_right expect_only
SELECT fo_w.x, y FROM fo_w RIGHT JOIN fo_u ON fo_w.x = fo_u.x AND fo_w.k IN (SELECT y FROM fo_u)
-- @expect
2	20
2	5
4	6
4	NULL
NULL	1

-- @query form_exists_uncorrelated_in_on_left expect_only
SELECT fo_w.x, y FROM fo_w LEFT JOIN fo_u ON fo_w.x = fo_u.x AND EXISTS (SELECT 1 FROM fo_e WHERE src > 100)
-- @expect
1	NULL
2	NULL
3	NULL
4	NULL

-- @query form_exists_in_on_left_kept_side expect_only
SELECT fo_w.x, fo_u.y FROM fo_w LEFT JOIN fo_u ON fo_w.x = fo_u.x AND EXISTS (SELECT 1 FROM fo_e WHERE src = fo_w.x)
-- @expect
1	NULL
2	20
2	5
3	NULL
4	6
4	NULL

-- @query form_in_in_on_right_kept_side expect_only
SELECT fo_w.x, fo_u.x, fo_u.y FROM fo_w RIGHT JOIN fo_u ON fo_w.x = fo_u.x AND fo_u.y NOT IN (SELECT dst FROM fo_e) AND fo_u.y > (SELECT min(dst) FROM fo_e)
-- @expect
2	2	20
2	2	5
4	4	6
NULL	4	NULL
NULL	9	1

-- @query form_subqueries_in_on_full expect_only
SELECT w.*, u.* FROM fo_w w FULL JOIN fo_u u ON w.x = u.x AND w.x IN (SELECT src FROM fo_e) AND EXISTS (SELECT 1 FROM fo_e e WHERE e.dst + 3 = u.y OR u.y = 20) AND w.k > (SELECT max(e.dst) FROM fo_e e WHERE e.src = w.x)
-- @expect
1	10	a	NULL	NULL
2	20	b	2	20
2	20	b	2	5
3	NULL	c	NULL	NULL
4	5	a	4	6
NULL	NULL	NULL	4	NULL
NULL	NULL	NULL	9	1

-- @query form_exists_in_on_about_both_sides error expect_only
SELECT w.x FROM fo_w w LEFT JOIN fo_u u ON w.x = u.x AND EXISTS (SELECT 1 FROM fo_e e WHERE e.src = w.x AND e.dst = u.y)

-- Recursive terms that need no column of a table.

-- @query form_recursive_counts expect_only
WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT n + CAST((SELECT count(*) FROM fo_e) AS INT) FROM r WHERE n < 10) SELECT n FROM r
-- @expect
0
12
4
8

-- @query form_recursive_count_in_term expect_only
WITH RECURSIVE r AS (SELECT CAST(0 AS BIGINT) AS n UNION ALL SELECT r.n + c.c FROM r CROSS JOIN (SELECT count(*) AS c FROM fo_w) c WHERE r.n < 10) SELECT n FROM r
-- @expect
0
12
4
8

-- @query form_recursive_cross_join expect_only
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r CROSS JOIN fo_e WHERE n < 3) SELECT n, count(*) FROM r GROUP BY n
-- @expect
1	1
2	4
3	16

-- Patterns with an escape.

-- @query form_like_escape expect_only
SELECT i FROM fo_p WHERE s LIKE '100!%' ESCAPE '!'
-- @expect
1

-- @query form_like_escape_itself expect_only
SELECT i FROM fo_p WHERE s LIKE 'a!!b' ESCAPE '!' OR s LIKE 'a!_b' ESCAPE '!'
-- @expect
3
6

-- @query form_not_ilike_escape expect_only
SELECT i FROM fo_p WHERE s NOT ILIKE 'A#_B' ESCAPE '#'
-- @expect
1
2
3
4

-- @query form_like_escape_column expect_only
SELECT i FROM fo_p WHERE s LIKE p ESCAPE '!'
-- @expect
1
2
3
4
6

-- @query form_like_escape_at_the_end error expect_only
SELECT i FROM fo_p WHERE s LIKE 'a!' ESCAPE '!'

-- Defaults of lag and lead.

-- @query form_lag_default expect_only
SELECT x, lag(k, 1, x) OVER (ORDER BY x) FROM fo_w
-- @expect
1	1
2	10
3	20
4	NULL

-- @query form_lead_default_expression expect_only
SELECT x, lead(k, 2, x * 100) OVER (ORDER BY x) + 1 FROM fo_w
-- @expect
1	NULL
2	6
3	301
4	401

-- @query form_lag_default_by_group expect_only
SELECT x, lag(x, 1, -x) OVER (PARTITION BY s ORDER BY x) FROM fo_w
-- @expect
1	-1
2	-2
3	-3
4	1

-- @query form_lag_default_ignore_nulls expect_only
SELECT x, lag(k, 1, -x) IGNORE NULLS OVER (ORDER BY x) FROM fo_w
-- @expect
1	-1
2	10
3	20
4	20

-- What does not fit its type, and what is not offered.

-- @query form_abs_overflow error
SELECT abs(x) FROM fo_i

-- @query form_pivot error
SELECT * FROM fo_w PIVOT (sum(k) FOR s IN ('a', 'b'))
