-- Conditions with subqueries where a value is wanted: IN and EXISTS among columns, in aggregates, windows, groups and sorts.
-- The engine plans them as conditions of a filter only.

-- @table va_t partition_by=bucket(3, id)
CREATE TABLE va_t (id INT, k INT, d DECIMAL(9,2), s VARCHAR);
INSERT INTO va_t VALUES (1, 10, 1.50, 'a'), (2, 20, 2.00, 'b'), (3, NULL, NULL, NULL), (4, 40, 4.25, 'd'), (5, 10, 0.00, 'e'), (6, 60, 2.00, 'b');

-- @table va_u partition_by=bucket(2, n)
CREATE TABLE va_u (n INT, k BIGINT, x DOUBLE, s VARCHAR);
INSERT INTO va_u VALUES (1, 10, 2.0, 'a'), (2, 10, 1.5, 'b'), (3, 20, NULL, NULL), (4, 40, 9.0, 'x'), (5, NULL, 0.5, 'b');

-- @table va_e partition_by=bucket(2, n)
CREATE TABLE va_e (n INT, k INT);

-- @query value_in expect_only
SELECT id, k IN (SELECT k FROM va_u), k NOT IN (SELECT k FROM va_u WHERE k IS NOT NULL), k IN (SELECT k FROM va_e), k NOT IN (SELECT k FROM va_e) FROM va_t
-- @expect
1	true	false	false	true
2	true	false	false	true
3	NULL	NULL	false	true
4	true	false	false	true
5	true	false	false	true
6	NULL	true	false	true

-- @query value_in_other_type expect_only
SELECT id, d IN (SELECT x FROM va_u), k + 0.5 IN (SELECT k FROM va_u WHERE k > 0), s IN (SELECT s FROM va_u) FROM va_t
-- @expect
1	true	false	true
2	true	false	true
3	NULL	NULL	NULL
4	NULL	false	NULL
5	NULL	false	NULL
6	true	false	true

-- @query value_in_correlated expect_only
SELECT id, id IN (SELECT n FROM va_u u WHERE u.k = t.k), s NOT IN (SELECT u.s FROM va_u u WHERE u.k = t.k) FROM va_t t
-- @expect
1	true	false
2	false	NULL
3	false	true
4	true	true
5	false	true
6	false	true

-- @query value_of_constants expect_only
SELECT 10 IN (SELECT k FROM va_u), 11 IN (SELECT k FROM va_u), 11 IN (SELECT n FROM va_u), NULL IN (SELECT k FROM va_e), NULL IN (SELECT n FROM va_u), 1 NOT IN (SELECT n FROM va_u)
-- @expect
true	NULL	false	false	NULL	false

-- @query value_in_of_limit expect_only
SELECT id, id IN (SELECT n FROM va_u ORDER BY n DESC LIMIT 2) FROM va_t
-- @expect
1	false
2	false
3	false
4	true
5	true
6	false

-- @query value_in_of_groups expect_only
SELECT id, k IN (SELECT k FROM va_u GROUP BY k HAVING count(*) > 1), id IN (SELECT count(*) FROM va_u GROUP BY s) FROM va_t
-- @expect
1	true	true
2	false	true
3	NULL	false
4	false	false
5	true	false
6	false	false

-- @query value_in_case expect_only
SELECT id, CASE WHEN k IN (SELECT k FROM va_u WHERE n < 4) THEN 'in' WHEN EXISTS (SELECT 1 FROM va_u u WHERE u.s = t.s) THEN 'there' ELSE 'out' END, coalesce(k NOT IN (SELECT k FROM va_u), false) FROM va_t t
-- @expect
1	in	false
2	in	false
3	out	false
4	out	false
5	in	false
6	there	false

-- @query value_is_unknown expect_only
SELECT id, (k IN (SELECT k FROM va_u)) IS NULL FROM va_t WHERE (k IN (SELECT k FROM va_u)) IS NOT TRUE
-- @expect
3	true
6	true

-- @query value_in_aggregates expect_only
SELECT s, sum(CASE WHEN k IN (SELECT k FROM va_u) THEN 1 ELSE 0 END), count(*) FILTER (WHERE EXISTS (SELECT 1 FROM va_u u WHERE u.n = t.id)), max(id) FROM va_t t GROUP BY s
-- @expect
NULL	0	1	3
a	1	1	1
b	1	1	6
d	1	1	4
e	1	1	5

-- @query value_of_aggregate expect_only
SELECT s, count(*) IN (SELECT n FROM va_u), max(k) IN (SELECT k FROM va_u), s IN (SELECT s FROM va_u WHERE s IS NOT NULL) FROM va_t GROUP BY s
-- @expect
NULL	true	NULL	NULL
a	true	true	true
b	true	NULL	true
d	true	true	false
e	true	true	false

-- @query value_total expect_only
SELECT bool_and(id IN (SELECT n FROM va_u)), sum((SELECT max(u.x) FROM va_u u WHERE u.k = t.k)), count(*) FROM va_t t
-- @expect
false	13.0	6

-- @query value_grouped_by expect_only
SELECT k IN (SELECT k FROM va_u WHERE k IS NOT NULL) AS there, count(*), min(id) FROM va_t GROUP BY k IN (SELECT k FROM va_u WHERE k IS NOT NULL)
-- @expect
NULL	1	3
false	1	6
true	4	1

-- @query value_grouped_by_alias expect_only
SELECT EXISTS (SELECT 1 FROM va_u u WHERE u.k = t.k) AS there, count(*) FROM va_t t GROUP BY 1
-- @expect
false	2
true	4

-- @query value_sorted_by_column ordered expect_only
SELECT id, id IN (SELECT n FROM va_u) AS there FROM va_t ORDER BY there, id
-- @expect
6	false
1	true
2	true
3	true
4	true
5	true

-- @query value_in_window expect_only
SELECT id, sum(CASE WHEN id IN (SELECT n FROM va_u WHERE n <> 2) THEN id ELSE 0 END) OVER (ORDER BY id), count(*) OVER (PARTITION BY EXISTS (SELECT 1 FROM va_u u WHERE u.k = t.k)) FROM va_t t
-- @expect
1	1	4
2	1	4
3	4	2
4	8	4
5	13	4
6	13	2

-- @query value_in_subquery expect_only
SELECT there, count(*) FROM (SELECT id, k IN (SELECT k FROM va_u) AS there FROM va_t) q GROUP BY there
-- @expect
NULL	2
true	4

-- @query value_in_join expect_only
SELECT a.id, b.n, a.k IN (SELECT k FROM va_u WHERE n = 1), b.s NOT IN (SELECT s FROM va_t WHERE s IS NOT NULL) FROM va_t a JOIN va_u b ON a.k = b.k
-- @expect
1	1	true	false
1	2	true	false
2	3	false	NULL
4	4	false	true
5	1	true	false
5	2	true	false

-- @query value_in_union expect_only
SELECT id, id IN (SELECT n FROM va_u) FROM va_t WHERE id > 4 UNION ALL SELECT n, n IN (SELECT id FROM va_t WHERE id > 2) FROM va_u WHERE n < 4
-- @expect
1	false
2	false
3	true
5	true
6	false

-- @query value_of_value expect_only
SELECT id, id IN (SELECT n FROM va_u WHERE k IN (SELECT k FROM va_t WHERE id > 3)) FROM va_t
-- @expect
1	true
2	true
3	false
4	true
5	false
6	false

-- Subqueries that are tied to the outer query otherwise than by `=`.

-- @query each_less expect_only
SELECT id, (SELECT max(u.x) FROM va_u u WHERE u.n < t.id), (SELECT count(*) FROM va_u u WHERE u.k > t.k) FROM va_t t
-- @expect
1	NULL	2
2	2.0	1
3	2.0	0
4	2.0	0
5	9.0	2
6	9.0	0

-- @query each_in_where expect_only
SELECT id FROM va_t t WHERE id * 2 > (SELECT count(*) FROM va_u u WHERE u.n <= t.id) + 3 AND d < (SELECT sum(u.x) FROM va_u u WHERE u.n + 1 > t.id OR u.s = t.s)
-- @expect
4
5

-- @query each_exists_as_value expect_only
SELECT id, EXISTS (SELECT 1 FROM va_u u WHERE u.k < t.k), NOT EXISTS (SELECT 1 FROM va_u u WHERE u.s > t.s AND u.n = t.id), k IN (SELECT u.k FROM va_u u WHERE u.n < t.id) FROM va_t t
-- @expect
1	false	true	false
2	true	true	false
3	false	true	NULL
4	true	false	false
5	false	true	true
6	true	true	NULL

-- @query each_limit expect_only
SELECT id, (SELECT u.n FROM va_u u WHERE u.n >= t.id ORDER BY u.x NULLS LAST LIMIT 1), (SELECT u.s FROM va_u u WHERE u.n <> t.id ORDER BY u.n DESC LIMIT 1 OFFSET 1) FROM va_t t
-- @expect
1	5	x
2	5	x
3	5	x
4	5	NULL
5	5	NULL
6	NULL	x

-- @query each_groups expect_only
SELECT id, (SELECT max(c) FROM (SELECT u.k, count(*) AS c FROM va_u u WHERE u.n <= t.id GROUP BY u.k) q) FROM va_t t
-- @expect
1	1
2	2
3	2
4	2
5	2
6	2

-- @query each_of_a_join expect_only
SELECT id, (SELECT count(*) FROM va_u u LEFT JOIN va_t w ON w.k = u.k AND w.id < t.id WHERE u.n < 4) FROM va_t t
-- @expect
1	3
2	3
3	3
4	3
5	3
6	5

-- @query each_of_a_union expect_only
SELECT id, (SELECT sum(q.v) FROM (SELECT n AS v FROM va_u u WHERE u.n < t.id UNION ALL SELECT w.id FROM va_t w WHERE w.k = t.k) q) FROM va_t t
-- @expect
1	6
2	3
3	3
4	10
5	16
6	21

-- @query each_in_aggregate expect_only
SELECT s, sum((SELECT count(*) FROM va_u u WHERE u.n < t.id)) FROM va_t t GROUP BY s
-- @expect
NULL	2
a	0
b	6
d	3
e	4

-- @query each_having expect_only
SELECT id FROM va_t t WHERE EXISTS (SELECT max(u.x) FROM va_u u WHERE u.n < t.id HAVING count(*) > 2) OR EXISTS (SELECT 1 FROM va_u u WHERE u.n > t.id OFFSET 3)
-- @expect
1
4
5
6

-- @query each_empty expect_only
SELECT id, (SELECT count(*) FROM va_e e WHERE e.n < t.id), (SELECT max(e.k) FROM va_e e WHERE e.n < t.id) FROM va_t t WHERE id < 3
-- @expect
1	0	NULL
2	0	NULL

-- @query each_too_many_rows error expect_only
SELECT id, (SELECT u.n FROM va_u u WHERE u.n < t.id) FROM va_t t
