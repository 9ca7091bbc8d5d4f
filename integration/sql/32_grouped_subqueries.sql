-- Correlated scalar subqueries that are grouped by or aggregated: the engine refuses most of them.

-- @table gs_u partition_by=bucket(3, fk)
CREATE TABLE gs_u (name VARCHAR, fk INT);
INSERT INTO gs_u VALUES ('a', 1), ('a', 1), ('a', 2), ('b', 2), ('b', 3), ('c', NULL), (NULL, 1);

-- @table gs_t partition_by=bucket(2, id)
CREATE TABLE gs_t (id INT, g INT);
INSERT INTO gs_t VALUES (10, 1), (11, 1), (20, 2), (21, 2), (30, NULL);

-- @query subquery_grouped_by_a_subquery expect_only
SELECT name, (SELECT max(id) FROM gs_t t WHERE t.g = u.fk) m, count(*) FROM gs_u u GROUP BY 1, 2
-- @expect
a	11	2
a	21	1
b	21	1
b	NULL	1
c	NULL	1
NULL	11	1

-- @query subquery_grouped_by_a_subquery_alone expect_only ordered
SELECT (SELECT count(*) FROM gs_t t WHERE t.g = u.fk) AS n, count(*) AS rows, min(name) AS first FROM gs_u u GROUP BY n HAVING count(*) > 1 ORDER BY n
-- @expect
0	2	b
2	5	a

-- @query subquery_grouped_by_an_expression_over_a_subquery expect_only
SELECT (SELECT sum(id) FROM gs_t t WHERE t.g = u.fk) > 30 AS many, count(*), count(u.fk) FROM gs_u u GROUP BY 1
-- @expect
false	3	3
true	2	2
NULL	2	1

-- @query subquery_sum_of_a_subquery expect_only
SELECT name, sum((SELECT max(id) FROM gs_t t WHERE t.g = u.fk)) AS s FROM gs_u u GROUP BY name
-- @expect
a	43
b	21
c	NULL
NULL	11

-- @query subquery_sum_and_key_of_one_subquery expect_only
SELECT (SELECT max(id) FROM gs_t t WHERE t.g = u.fk) AS m, sum((SELECT max(id) FROM gs_t t WHERE t.g = u.fk)) AS s FROM gs_u u GROUP BY 1
-- @expect
11	33
21	42
NULL	NULL

-- @query subquery_distinct_of_a_subquery
SELECT DISTINCT (SELECT max(id) FROM gs_t t WHERE t.g = u.fk) AS m FROM gs_u u
-- @expect
11
21
NULL

-- @query subquery_grouped_by_an_uncorrelated_subquery rows=1
SELECT (SELECT max(id) FROM gs_t) AS m, count(*) FROM gs_u GROUP BY 1
