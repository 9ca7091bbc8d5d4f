-- Rows as values. A single process compares them as values of a struct type, in which NULL equals NULL, or not at all; so
-- the rows that SQL asks for are written here.

-- @table rw_a partition_by=bucket(3, k)
CREATE TABLE rw_a (k INT, a INT, b INT);
INSERT INTO rw_a VALUES (1, 1, 10), (2, 2, 20), (3, NULL, 30), (4, 4, NULL), (5, NULL, NULL), (6, 6, 60);

-- @table rw_b
CREATE TABLE rw_b (a INT, b INT, c INT);
INSERT INTO rw_b VALUES (1, 10, 1), (2, 21, 2), (6, 60, 9), (6, 60, 9);

-- @table rw_n
CREATE TABLE rw_n (a INT, b INT);
INSERT INTO rw_n VALUES (1, 10), (NULL, 20), (4, NULL);

-- @query rows_in_subquery expect_only
SELECT k FROM rw_a WHERE (a, b) IN (SELECT a, b FROM rw_b);
-- @expect
1
6

-- @query rows_in_expressions expect_only
SELECT k FROM rw_a WHERE (a * 10, b + 0) IN (SELECT b, a * 10 FROM rw_b WHERE c < 9);
-- @expect
1

-- The engine refuses this form today; when it learns it, replace `error` by the row 1.

-- @query rows_in_correlated expect_only
SELECT k FROM rw_a x WHERE (a, b) IN (SELECT y.a, y.b FROM rw_b y WHERE y.c = x.k)
-- @expect
1

-- @query rows_not_in_correlated expect_only
SELECT k FROM rw_a x WHERE (a, b) NOT IN (SELECT y.a, y.b FROM rw_b y WHERE y.c = x.k) OR (a, k) IN (SELECT z.a, z.c FROM rw_b z WHERE z.b = x.b AND z.c > 1)
-- @expect
2
3
4
5
6

-- @query rows_in_correlated_groups expect_only
SELECT k FROM rw_a x WHERE (a, 2) IN (SELECT y.a, count(*) FROM rw_b y WHERE y.b = x.b GROUP BY y.a)
-- @expect
6

-- @query rows_in_correlated_otherwise error expect_only
SELECT k FROM rw_a x WHERE (a, b) IN (SELECT y.a, y.b FROM rw_b y WHERE y.c < x.k)

-- NULL makes a comparison unknown, unless another column differs.

-- @query rows_not_in_subquery expect_only
SELECT k FROM rw_a WHERE (a, b) NOT IN (SELECT a, b FROM rw_n);
-- @expect
6

-- @query rows_not_in_without_nulls expect_only
SELECT k FROM rw_a WHERE (a, b) NOT IN (SELECT a, b FROM rw_b);
-- @expect
2
3
4

-- @query rows_not_of_in expect_only
SELECT k FROM rw_a WHERE NOT ((a, b) IN (SELECT a, b FROM rw_n) OR k = 6);
-- @expect

-- @query rows_in_or expect_only
SELECT k FROM rw_a WHERE (a, b) IN (SELECT a, b FROM rw_b) OR k = 5;
-- @expect
1
5
6

-- @query rows_in_nothing expect_only
SELECT count(*) FROM rw_a WHERE (a, b) NOT IN (SELECT a, b FROM rw_b WHERE FALSE);
-- @expect
6

-- @query rows_in_list expect_only
SELECT k FROM rw_a WHERE (a, b) IN ((1, 10), (2, 21), (NULL, 30));
-- @expect
1

-- @query rows_not_in_list expect_only
SELECT k FROM rw_a WHERE (a, b) NOT IN ((1, 10), (NULL, 20), (4, 40));
-- @expect
3
6

-- @query rows_equal expect_only
SELECT k, (a, b) = (NULL, 30), (a, b) <> (1, 10) FROM rw_a;
-- @expect
1	false	false
2	false	true
3	NULL	true
4	NULL	true
5	NULL	NULL
6	false	true

-- @query rows_ordered expect_only
SELECT k FROM rw_a WHERE (a, b) >= (2, 20) AND (a, b) < (6, 60);
-- @expect
2
4

-- @query rows_ordered_together expect_only
SELECT x.k, y.k FROM rw_a x JOIN rw_a y ON (x.a, x.b) < (y.a, y.b) WHERE x.k < 3 AND y.k < 3;
-- @expect
1	2

-- @query rows_of_other_length error expect_only
SELECT k FROM rw_a WHERE (a, b) IN ((1, 2, 3));

-- @query rows_in_asked_for_null error expect_only
SELECT k FROM rw_a WHERE ((a, b) IN (SELECT a, b FROM rw_n)) IS NULL;
