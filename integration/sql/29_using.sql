-- Columns that USING and NATURAL merge. One process calls them ambiguous in a condition, and shows the wrong one of an outer
-- join in `*`, so most are held to what is written.

-- @table us_w partition_by=bucket(3, x)
CREATE TABLE us_w (x INT, k INT, s VARCHAR);
INSERT INTO us_w VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c'), (NULL, 40, 'd');

-- @table us_u partition_by=bucket(2, y)
CREATE TABLE us_u (y INT, x BIGINT);
INSERT INTO us_u VALUES (5, 2), (6, 2), (1, 9), (7, NULL);

-- @table us_z
CREATE TABLE us_z (x INT, y INT, v INT);
INSERT INTO us_z VALUES (2, 5, 1), (3, 6, 7), (1, 1, 3);

-- @query using_in_condition expect_only
SELECT x, y FROM us_w JOIN us_u USING (x) WHERE x = 2
-- @expect
2	5
2	6

-- @query using_subquery_in_condition expect_only
SELECT x FROM us_w JOIN (SELECT x, max(y) AS m FROM us_u GROUP BY x) q USING (x) WHERE x = 2
-- @expect
2

-- @query using_left_all expect_only
SELECT * FROM us_w LEFT JOIN us_u USING (x)
-- @expect
1	10	a	NULL
2	20	b	5
2	20	b	6
3	NULL	c	NULL
NULL	40	d	NULL

-- @query using_left_condition expect_only
SELECT x, y FROM us_w LEFT JOIN us_u USING (x) WHERE x > 1 AND us_u.x IS NULL
-- @expect
3	NULL

-- @query using_left_both_sides expect_only
SELECT us_w.x, us_u.x, x FROM us_w LEFT JOIN us_u USING (x)
-- @expect
1	NULL	1
2	2	2
2	2	2
3	NULL	3
NULL	NULL	NULL

-- @query using_left_star_of_each expect_only
SELECT us_u.*, us_w.* FROM us_w LEFT JOIN us_u USING (x) WHERE x <> 2
-- @expect
NULL	NULL	1	10	a
NULL	NULL	3	NULL	c

-- @query using_left_aliased expect_only
SELECT l.*, r.y FROM us_w AS l LEFT JOIN us_u AS r USING (x) WHERE l.x = r.x OR r.y IS NULL
-- @expect
1	10	a	NULL
2	20	b	5
2	20	b	6
3	NULL	c	NULL
NULL	40	d	NULL

-- @query using_right_all expect_only
SELECT x, k, y FROM us_w RIGHT JOIN us_u USING (x)
-- @expect
2	20	5
2	20	6
9	NULL	1
NULL	NULL	7

-- @query using_right_star expect_only
SELECT count(*), count(x), sum(x) FROM (SELECT * FROM us_w RIGHT JOIN us_u USING (x)) q
-- @expect
4	3	13

-- @query using_chained expect_only
SELECT x, k, y, v FROM us_w JOIN us_u USING (x) JOIN us_z USING (x, y) WHERE x < 5 ORDER BY x
-- @expect
2	20	5	1

-- @query using_chained_one_key expect_only
SELECT x, us_u.y, v FROM us_w LEFT JOIN us_u USING (x) LEFT JOIN us_z USING (x) WHERE x IS NOT NULL
-- @expect
1	NULL	3
2	5	1
2	6	1
3	NULL	7

-- @query using_chained_star expect_only
SELECT * FROM us_w LEFT JOIN us_u USING (x) LEFT JOIN us_z USING (x, y)
-- @expect
1	10	a	NULL	NULL
2	20	b	5	1
2	20	b	6	NULL
3	NULL	c	NULL	NULL
NULL	40	d	NULL	NULL

-- @query using_grouped expect_only
SELECT x, count(*), sum(us_u.x) FROM us_w LEFT JOIN us_u USING (x) WHERE x > 0 GROUP BY x HAVING x < 3
-- @expect
1	1	NULL
2	2	4

-- @query using_group_by_other_side expect_only
SELECT us_u.x, count(*) FROM us_w LEFT JOIN us_u USING (x) GROUP BY us_u.x
-- @expect
2	2
NULL	3

-- @query using_in_later_on expect_only
SELECT us_w.x, v FROM us_w JOIN us_u USING (x) JOIN us_z ON us_z.x = us_u.x AND us_u.x < 3
-- @expect
2	1
2	1

-- @query using_in_later_on_ambiguous error expect_only
SELECT us_w.x, v FROM us_w JOIN us_u USING (x) JOIN us_z ON us_z.x = us_w.x AND x < 3

-- @query using_in_subqueries expect_only
SELECT x, (SELECT max(v) FROM us_z WHERE us_z.x = us_u.x), (SELECT min(v) FROM us_z z WHERE z.x = us_w.x) FROM us_w LEFT JOIN us_u USING (x)
-- @expect
1	NULL	3
2	1	1
2	1	1
3	NULL	7
NULL	NULL	NULL

-- @query using_in_exists expect_only
SELECT us_w.x FROM us_w LEFT JOIN us_u USING (x) WHERE EXISTS (SELECT 1 FROM us_z WHERE us_z.x = us_u.x)
-- @expect
2
2

-- @query using_name_hidden_inside expect_only
SELECT us_w.x FROM us_w LEFT JOIN us_u USING (x) WHERE us_w.x IN (SELECT us_u.x FROM us_u WHERE us_u.y > 5)
-- @expect
2
2

-- @query using_derived expect_only
SELECT q.x, q.y FROM (SELECT us_u.x, y FROM us_w LEFT JOIN us_u USING (x)) q WHERE q.x IS NULL
-- @expect
NULL	NULL
NULL	NULL
NULL	NULL

-- @query using_derived_star expect_only
SELECT q.x, q.y FROM (SELECT us_u.* FROM us_w LEFT JOIN us_u USING (x)) q WHERE q.x IS NOT NULL
-- @expect
2	5
2	6

-- @query using_cte expect_only
WITH c AS (SELECT x, y + 1 AS y FROM us_u) SELECT x, y FROM us_w LEFT JOIN c USING (x) WHERE x < 9
-- @expect
1	NULL
2	6
2	7
3	NULL

-- @query using_cte_inside expect_only
WITH c AS (SELECT * FROM us_w LEFT JOIN us_u USING (x) WHERE x < 3) SELECT x, y FROM c
-- @expect
1	NULL
2	5
2	6

-- @query using_union expect_only
SELECT x FROM us_w LEFT JOIN us_u USING (x) WHERE x = 1 UNION ALL SELECT x FROM us_z JOIN us_u USING (x, y) WHERE y = 5
-- @expect
1
2

-- @query using_recursive expect_only
WITH RECURSIVE r AS (SELECT 1 AS x, 0 AS d UNION ALL SELECT us_w.x + 1, d + 1 FROM us_w JOIN r USING (x) WHERE x < 3) SELECT x, d FROM r
-- @expect
1	0
2	1
3	2

-- @query using_window expect_only
SELECT x, y, row_number() OVER (PARTITION BY x ORDER BY y) FROM us_w LEFT JOIN us_u USING (x) WHERE x IS NOT NULL
-- @expect
1	NULL	1
2	5	1
2	6	2
3	NULL	1

-- @query using_exists_column expect_only
SELECT count(*) FROM us_w NATURAL JOIN us_u WHERE x = 2
-- @expect
2

-- @query natural_left_star expect_only
SELECT * FROM us_w NATURAL LEFT JOIN us_u
-- @expect
1	10	a	NULL
2	20	b	5
2	20	b	6
3	NULL	c	NULL
NULL	40	d	NULL

-- @query natural_two_keys expect_only
SELECT x, y, v FROM us_u NATURAL JOIN us_z WHERE x > 0 AND y > 0
-- @expect
2	5	1

-- @query natural_left_two_keys expect_only
SELECT x, y, v FROM us_z NATURAL LEFT JOIN us_u WHERE y > 1
-- @expect
2	5	1
3	6	7

-- @query natural_subquery expect_only
SELECT x, m FROM us_w NATURAL LEFT JOIN (SELECT x, max(y) AS m FROM us_u GROUP BY x) q WHERE x < 3
-- @expect
1	NULL
2	6

-- @query natural_nothing_common
SELECT count(*) FROM (SELECT k FROM us_w) a NATURAL JOIN (SELECT y FROM us_u) b
-- @expect
16

-- @query using_sorted ordered expect_only
SELECT x, y FROM us_w LEFT JOIN us_u USING (x) WHERE x IS NOT NULL ORDER BY x DESC, us_u.y DESC
-- @expect
3	NULL
2	6
2	5
1	NULL

-- @query using_distinct expect_only
SELECT DISTINCT x FROM us_w LEFT JOIN us_u USING (x) WHERE x BETWEEN 1 AND 2
-- @expect
1
2

-- @query using_same_value_other_type expect_only
SELECT x + 1, us_u.x + 1 FROM us_w JOIN us_u USING (x) WHERE x = us_u.x
-- @expect
3	3
3	3

-- @query using_full_merged expect_only
SELECT x FROM us_w FULL JOIN us_u USING (x)
-- @expect
1
2
2
3
9
NULL
NULL

-- @query using_missing_column error
SELECT 1 FROM us_w JOIN us_u USING (k)

-- @query using_ambiguous error expect_only
SELECT x FROM us_w JOIN us_u USING (x), us_z WHERE x = 2

-- A FULL join merges the values of both sides.

-- @query using_full_all expect_only
SELECT * FROM us_w FULL JOIN us_u USING (x)
-- @expect
1	10	a	NULL
2	20	b	5
2	20	b	6
3	NULL	c	NULL
9	NULL	NULL	1
NULL	40	d	NULL
NULL	NULL	NULL	7

-- @query using_full_all_of_same_names expect_only
SELECT * FROM us_u FULL JOIN us_z USING (x)
-- @expect
1	9	NULL	NULL
5	2	5	1
6	2	5	1
7	NULL	NULL	NULL
NULL	1	1	3
NULL	3	6	7

-- @query using_full_sides expect_only
SELECT l.x, r.x, x, l.k, r.y FROM us_w l FULL JOIN us_u r USING (x) WHERE x > 1 OR l.k = 40
-- @expect
2	2	2	20	5
2	2	2	20	6
3	NULL	3	NULL	NULL
NULL	9	9	NULL	1
NULL	NULL	NULL	40	NULL

-- @query using_full_star_of_each expect_only
SELECT us_u.*, us_w.* FROM us_w FULL JOIN us_u USING (x) WHERE us_w.x IS NULL OR us_u.x IS NULL
-- @expect
1	9	NULL	NULL	NULL
7	NULL	NULL	NULL	NULL
NULL	NULL	1	10	a
NULL	NULL	3	NULL	c
NULL	NULL	NULL	40	d

-- @query using_full_qualified expect_only
SELECT public.us_w.x, us_u.y FROM public.us_w FULL JOIN us_u USING (x) WHERE us_w.k IS NOT NULL
-- @expect
1	NULL
2	5
2	6
NULL	NULL

-- @query using_full_two_columns expect_only
SELECT x, y, v, us_u.y, us_z.x FROM us_u FULL JOIN us_z USING (x, y)
-- @expect
1	1	3	NULL	1
2	5	1	5	2
2	6	NULL	6	NULL
3	6	7	NULL	3
9	1	NULL	1	NULL
NULL	7	NULL	7	NULL

-- @query using_full_natural expect_only
SELECT * FROM us_u NATURAL FULL JOIN us_z
-- @expect
1	1	3
1	9	NULL
5	2	1
6	2	NULL
6	3	7
7	NULL	NULL

-- @query using_full_chain expect_only
SELECT x, w.x, u.x, z.x, u.y, v FROM us_w w FULL JOIN us_u u USING (x) FULL JOIN us_z z USING (x)
-- @expect
1	1	NULL	1	NULL	3
2	2	2	2	5	1
2	2	2	2	6	1
3	3	NULL	3	NULL	7
9	NULL	9	NULL	1	NULL
NULL	NULL	NULL	NULL	7	NULL
NULL	NULL	NULL	NULL	NULL	NULL

-- @query using_full_then_left expect_only
SELECT x, w.k, v, z.x FROM us_w w FULL JOIN us_u u USING (x) LEFT JOIN us_z z USING (x) WHERE v IS NULL OR w.s = 'b'
-- @expect
2	20	1	2
2	20	1	2
9	NULL	NULL	NULL
NULL	40	NULL	NULL
NULL	NULL	NULL	NULL

-- @query using_full_then_right expect_only
SELECT x, w.x, u.x, z.v FROM us_w w FULL JOIN us_u u USING (x) RIGHT JOIN us_z z USING (x)
-- @expect
1	1	NULL	3
2	2	2	1
2	2	2	1
3	3	NULL	7

-- @query using_full_then_right_other_column expect_only
SELECT y, x, v, u.y, z.y FROM us_w w FULL JOIN us_u u USING (x) RIGHT JOIN (SELECT y, v FROM us_z) z USING (y)
-- @expect
1	9	3	1	1
5	2	1	5	5
6	2	7	6	6

-- @query using_full_then_on expect_only
SELECT l.x, z.x, v FROM us_w l FULL JOIN us_u u USING (x) JOIN us_z z ON z.x = l.x AND z.y > coalesce(u.y, 0)
-- @expect
1	1	3
3	3	7

-- @query using_full_then_on_ambiguous error expect_only
SELECT x FROM us_w l FULL JOIN us_u u USING (x) JOIN us_z z ON z.x = l.x

-- @query using_left_then_full expect_only
SELECT x, w.x, u.x, z.x, v FROM us_w w LEFT JOIN us_u u USING (x) FULL JOIN us_z z USING (x)
-- @expect
1	1	NULL	1	3
2	2	2	2	1
2	2	2	2	1
3	3	NULL	3	7
NULL	NULL	NULL	NULL	NULL

-- @query using_full_grouped ordered expect_only
SELECT x, count(*), sum(l.k), max(r.y) FROM us_w l FULL JOIN us_u r USING (x) GROUP BY x HAVING x IS NULL OR x < 9 ORDER BY x NULLS LAST
-- @expect
1	1	10	NULL
2	2	40	6
3	1	NULL	NULL
NULL	2	40	7

-- @query using_full_ordered_by_side ordered expect_only
SELECT x FROM us_w l FULL JOIN us_u r USING (x) ORDER BY l.k NULLS LAST, r.y NULLS FIRST
-- @expect
1
2
2
NULL
3
9
NULL

-- @query using_full_correlated expect_only
SELECT x, (SELECT max(v) FROM us_z z WHERE z.x = l.x), EXISTS (SELECT 1 FROM us_z z WHERE z.y = r.y) FROM us_w l FULL JOIN us_u r USING (x)
-- @expect
1	3	false
2	1	true
2	1	true
3	7	false
9	NULL	true
NULL	NULL	false
NULL	NULL	false

-- @query using_full_in_subquery expect_only
SELECT q.x, z.v FROM (SELECT x, l.k, r.y FROM us_w l FULL JOIN us_u r USING (x)) q JOIN us_z z ON q.x = z.x
-- @expect
1	3
2	1
2	1
3	7

-- @query using_full_of_subqueries expect_only
SELECT x, a.n, b.n FROM (SELECT x, count(*) AS n FROM us_u GROUP BY x) a FULL JOIN (SELECT x, count(*) AS n FROM us_z GROUP BY x) b USING (x) WHERE a.n IS DISTINCT FROM b.n
-- @expect
1	NULL	1
2	2	1
3	NULL	1
9	1	NULL
NULL	1	NULL

-- @query using_full_of_ctes expect_only
WITH a AS (SELECT x, k FROM us_w WHERE k > 10), b AS (SELECT * FROM a FULL JOIN us_u USING (x)) SELECT x, k, y FROM b
-- @expect
2	20	5
2	20	6
9	NULL	1
NULL	40	NULL
NULL	NULL	7

-- @query using_full_of_itself expect_only
SELECT x, a.k, b.k FROM us_w a FULL JOIN us_w b USING (x) WHERE a.k IS DISTINCT FROM b.k
-- @expect
NULL	40	NULL
NULL	NULL	40

-- @query using_full_empty_side expect_only
SELECT x, l.k, r.y FROM us_w l FULL JOIN (SELECT * FROM us_u WHERE false) r USING (x)
-- @expect
1	10	NULL
2	20	NULL
3	NULL	NULL
NULL	40	NULL

-- @query using_full_union expect_only
SELECT x FROM us_w FULL JOIN us_u USING (x) EXCEPT SELECT x FROM us_z
-- @expect
9
NULL

-- @query using_right_of_joins_told expect_only
SELECT y, w.k, u.y, z.v FROM us_w w JOIN us_u u ON w.x = u.x RIGHT JOIN us_z z USING (y)
-- @expect
1	NULL	NULL	3
5	20	5	1
6	20	6	7

-- @query using_left_of_nested_joins expect_only
SELECT x, w.k, u.y, z.v FROM us_w w LEFT JOIN (us_u u JOIN (SELECT y, v FROM us_z) z USING (y)) USING (x)
-- @expect
1	10	NULL	NULL
2	20	5	1
2	20	6	7
3	NULL	NULL	NULL
NULL	40	NULL	NULL

-- @query using_full_ambiguous error expect_only
SELECT y FROM us_u FULL JOIN us_z USING (x)

-- @query using_full_ambiguous_key error expect_only
SELECT 1 FROM us_w w JOIN us_u u ON w.x = u.x FULL JOIN us_z USING (x)

-- @query using_right_order expect_only
SELECT * FROM us_w RIGHT JOIN us_u USING (x)
-- @expect
2	20	b	5
2	20	b	6
9	NULL	NULL	1
NULL	NULL	NULL	7

-- @query using_right_natural_order expect_only
SELECT * FROM us_u NATURAL RIGHT JOIN us_z
-- @expect
1	1	3
5	2	1
6	3	7
