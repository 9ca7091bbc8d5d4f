-- UNION, INTERSECT and EXCEPT.

-- @table u_a partition_by=bucket(4, id)
CREATE TABLE u_a (id INT, v BIGINT);
INSERT INTO u_a SELECT value, 1 FROM generate_series(1, 1000) AS g(value);

-- @table u_b partition_by=bucket(3, id)
CREATE TABLE u_b (id INT, v BIGINT);
INSERT INTO u_b SELECT value, 1 FROM generate_series(1, 1000) AS g(value);

-- @table u_c
CREATE TABLE u_c (id INT, v BIGINT);
INSERT INTO u_c SELECT value, 1 FROM generate_series(1, 1000) AS g(value);

-- @table u_e partition_by=bucket(4, id)
CREATE TABLE u_e (id INT, v BIGINT);

-- @table u_x partition_by=bucket(2, k)
CREATE TABLE u_x (k INT, s VARCHAR);
INSERT INTO u_x VALUES (1, 'a'), (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'n'), (NULL, NULL), (NULL, NULL), (4, 'd');

-- @table u_y partition_by=bucket(3, k)
CREATE TABLE u_y (k BIGINT, s VARCHAR);
INSERT INTO u_y VALUES (1, 'a'), (2, 'b'), (2, 'b'), (3, NULL), (NULL, NULL), (5, 'e'), (NULL, 'm');

-- @query S10_sum_of_three
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL SELECT v FROM u_b UNION ALL SELECT v FROM u_c) u
-- @expect
3000

-- @query S10_sum_with_empty_branch
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL SELECT v FROM u_b UNION ALL SELECT v FROM u_c UNION ALL SELECT v FROM u_e) u
-- @expect
3000

-- @query S10_sum_with_empty_branch_first
SELECT sum(v), count(*) FROM (SELECT v FROM u_e UNION ALL SELECT v FROM u_a UNION ALL SELECT v FROM u_e UNION ALL SELECT v FROM u_c) u
-- @expect
2000	2000

-- @query S10_count_of_three
SELECT count(*) FROM (SELECT * FROM u_a UNION ALL SELECT * FROM u_b UNION ALL SELECT * FROM u_c) u
-- @expect
3000

-- @query S10_more_branches_than_executors
SELECT sum(v), min(id), max(id) FROM (SELECT * FROM u_a UNION ALL SELECT * FROM u_b UNION ALL SELECT * FROM u_c UNION ALL SELECT * FROM u_a UNION ALL SELECT * FROM u_b UNION ALL SELECT * FROM u_c UNION ALL SELECT * FROM u_a UNION ALL SELECT * FROM u_b UNION ALL SELECT * FROM u_c UNION ALL SELECT * FROM u_e) u
-- @expect
9000	1	1000

-- @query S10_same_table_twice
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL SELECT v FROM u_a) u
-- @expect
2000

-- @query S10_grouped
SELECT id % 3 AS m, sum(v), count(*) FROM (SELECT * FROM u_a UNION ALL SELECT * FROM u_b UNION ALL SELECT * FROM u_c) u GROUP BY id % 3
-- @expect
0	999	999
1	1002	1002
2	999	999

-- @query S10_branches_are_aggregates
SELECT sum(s) FROM (SELECT sum(v) AS s FROM u_a UNION ALL SELECT sum(v) FROM u_b UNION ALL SELECT sum(v) FROM u_c UNION ALL SELECT sum(v) FROM u_e) u
-- @expect
3000

-- @query S10_branch_rows
SELECT 'a' AS t, count(*), sum(v) FROM u_a UNION ALL SELECT 'b', count(*), sum(v) FROM u_b UNION ALL SELECT 'e', count(*), sum(v) FROM u_e
-- @expect
a	1000	1000
b	1000	1000
e	0	NULL

-- @query S10_with_values
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL VALUES (5), (6)) u
-- @expect
1011

-- @query S10_with_constant_select
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL SELECT 1 UNION ALL SELECT 2) u
-- @expect
1003

-- @query S10_constant_branches_only
SELECT count(*), sum(x) FROM (SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5) u
-- @expect
5	15

-- @query S10_joined_union
SELECT count(*), sum(u.v) FROM (SELECT * FROM u_a UNION ALL SELECT * FROM u_b) u JOIN u_c c ON u.id = c.id
-- @expect
2000	2000

-- @query S10_union_joined_with_union
SELECT count(*) FROM (SELECT id FROM u_a UNION ALL SELECT id FROM u_b) l JOIN (SELECT id FROM u_c UNION ALL SELECT id FROM u_a) r ON l.id = r.id
-- @expect
4000

-- @query S10_limited_union
SELECT count(*), sum(v) FROM (SELECT v FROM u_a UNION ALL SELECT v FROM u_b LIMIT 1500) u
-- @expect
1500	1500

-- @query S10_limited_branches
SELECT count(*) FROM ((SELECT v FROM u_a LIMIT 10) UNION ALL (SELECT v FROM u_b LIMIT 20) UNION ALL (SELECT v FROM u_e LIMIT 5)) u
-- @expect
30

-- @query S10_filtered_branches
SELECT count(*) FROM (SELECT id FROM u_a WHERE id <= 10 UNION ALL SELECT id FROM u_b WHERE id > 990 UNION ALL SELECT id FROM u_c WHERE false) u
-- @expect
20

-- @query S10_filter_above
SELECT count(*) FROM (SELECT id FROM u_a UNION ALL SELECT id FROM u_b UNION ALL SELECT id FROM u_c) u WHERE id = 17
-- @expect
3

-- @query S10_nested_unions
SELECT sum(v) FROM (SELECT v FROM u_a UNION ALL (SELECT v FROM u_b UNION ALL (SELECT v FROM u_c UNION ALL SELECT v FROM u_a))) u
-- @expect
4000

-- @query S10_union_distinct_big
SELECT count(*) FROM (SELECT id FROM u_a UNION SELECT id FROM u_b UNION SELECT id + 500 FROM u_c) u
-- @expect
1500

-- @query S10_ordered_union ordered
SELECT id FROM (SELECT id FROM u_a WHERE id < 4 UNION ALL SELECT id FROM u_b WHERE id < 3) u ORDER BY id
-- @expect
1
1
2
2
3

-- @query S10_union_in_subquery
SELECT count(*) FROM u_a WHERE id IN (SELECT id FROM u_b WHERE id < 5 UNION ALL SELECT id FROM u_c WHERE id > 998)
-- @expect
6

-- @query S10_union_of_joins
SELECT count(*) FROM (SELECT a.id FROM u_a a JOIN u_b b ON a.id = b.id UNION ALL SELECT b.id FROM u_b b LEFT JOIN u_e e ON b.id = e.id) u
-- @expect
2000

-- @query S10_window_over_union
SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY id) AS r FROM (SELECT id FROM u_a UNION ALL SELECT id FROM u_b) u) w
-- @expect
2000

-- @query set_union_distinct
SELECT k, s FROM u_x UNION SELECT k, s FROM u_y
-- @expect
1	a
2	b
3	NULL
4	d
5	e
NULL	NULL
NULL	m
NULL	n

-- @query set_union_all
SELECT k, s FROM u_x UNION ALL SELECT k, s FROM u_y
-- @expect
1	a
1	a
1	a
2	b
2	b
2	b
3	NULL
3	NULL
4	d
5	e
NULL	NULL
NULL	NULL
NULL	NULL
NULL	m
NULL	n

-- @query set_union_all_then_distinct
SELECT k FROM u_x UNION ALL SELECT k FROM u_y UNION SELECT 1
-- @expect
1
2
3
4
5
NULL

-- @query set_intersect
SELECT k, s FROM u_x INTERSECT SELECT k, s FROM u_y
-- @expect
1	a
2	b
3	NULL
NULL	NULL

-- @query set_except
SELECT k, s FROM u_x EXCEPT SELECT k, s FROM u_y
-- @expect
4	d
NULL	n

-- @query set_except_other_way
SELECT k, s FROM u_y EXCEPT SELECT k, s FROM u_x
-- @expect
5	e
NULL	m

-- @query set_except_empty_right
SELECT k, s FROM u_x EXCEPT SELECT id, 'a' FROM u_e
-- @expect
1	a
2	b
3	NULL
4	d
NULL	NULL
NULL	n

-- @query set_except_empty_left
SELECT id FROM u_e EXCEPT SELECT k FROM u_x
-- @expect

-- @query set_intersect_empty
SELECT k FROM u_x INTERSECT SELECT id FROM u_e
-- @expect

-- @query set_union_empty_both
SELECT id FROM u_e UNION SELECT id FROM u_e
-- @expect

-- @query set_except_self
SELECT k, s FROM u_x EXCEPT SELECT k, s FROM u_x
-- @expect

-- @query set_intersect_self
SELECT k, s FROM u_x INTERSECT SELECT k, s FROM u_x
-- @expect
1	a
2	b
3	NULL
4	d
NULL	NULL
NULL	n

-- @query set_intersect_then_union
SELECT k FROM u_x INTERSECT SELECT k FROM u_y UNION ALL SELECT 100
-- @expect
1
2
3
100
NULL

-- @query set_union_of_intersects
(SELECT k FROM u_x INTERSECT SELECT k FROM u_y) UNION (SELECT k FROM u_y EXCEPT SELECT k FROM u_x)
-- @expect
1
2
3
5
NULL

-- @query set_three_excepts
SELECT id FROM u_a EXCEPT SELECT id FROM u_b WHERE id > 5 EXCEPT SELECT k FROM u_x WHERE k IS NOT NULL
-- @expect
5

-- @query set_count_of_intersect
SELECT count(*) FROM (SELECT id FROM u_a INTERSECT SELECT id FROM u_b) t
-- @expect
1000

-- @query set_count_of_except
SELECT count(*) FROM (SELECT id FROM u_a EXCEPT SELECT id FROM u_b WHERE id % 2 = 0) t
-- @expect
500

-- @query set_mixed_types
SELECT k FROM u_x WHERE k < 3 UNION SELECT CAST(k AS DOUBLE) FROM u_y WHERE k > 2
-- @expect
1.0
2.0
3.0
5.0

-- @query set_null_literal_branch
SELECT k, s FROM u_x WHERE k = 4 UNION ALL SELECT NULL, NULL
-- @expect
4	d
NULL	NULL

-- @query set_aggregate_branches
SELECT max(k) FROM u_x UNION SELECT max(k) FROM u_y UNION SELECT NULL
-- @expect
4
5
NULL

-- @query set_grouped_branches
SELECT s, count(*) FROM u_x GROUP BY s UNION ALL SELECT s, -count(*) FROM u_y GROUP BY s
-- @expect
NULL	-2
NULL	3
a	-1
a	2
b	-2
b	1
d	1
e	-1
m	-1
n	1

-- @query set_values_union
VALUES (1, 'a'), (2, 'b') UNION VALUES (2, 'b'), (3, 'c')
-- @expect
1	a
2	b
3	c

-- The engine gives INTERSECT ALL and EXCEPT ALL the semantics of a semi and an anti join, which do not count.

-- @query set_intersect_all expect_only
SELECT k, s FROM u_x INTERSECT ALL SELECT k, s FROM u_y
-- @expect
1	a
2	b
3	NULL
NULL	NULL

-- @query set_intersect_all_mirrored expect_only
SELECT k, s FROM u_y INTERSECT ALL SELECT k, s FROM u_x
-- @expect
1	a
2	b
3	NULL
NULL	NULL

-- @query set_except_all expect_only
SELECT k, s FROM u_x EXCEPT ALL SELECT k, s FROM u_y
-- @expect
1	a
4	d
NULL	NULL
NULL	n

-- @query set_except_all_mirrored expect_only
SELECT k, s FROM u_y EXCEPT ALL SELECT k, s FROM u_x
-- @expect
2	b
5	e
NULL	m

-- @query set_except_all_inside expect_only
SELECT count(*) FROM ((SELECT k FROM u_x) UNION (SELECT k FROM u_x EXCEPT ALL SELECT k FROM u_y)) s
-- @expect
5

-- @query set_all_of_one_table expect_only
SELECT k FROM u_x INTERSECT ALL SELECT k FROM u_x
-- @expect
1
1
2
3
4
NULL
NULL
NULL

-- @query set_all_chained expect_only
(SELECT k FROM u_x UNION ALL SELECT k FROM u_x) EXCEPT ALL SELECT k FROM u_y EXCEPT ALL SELECT 4
-- @expect
1
1
1
3
4
NULL
NULL
NULL
NULL

-- @query set_all_of_distinct expect_only
SELECT DISTINCT k FROM u_x INTERSECT ALL SELECT k FROM u_y
-- @expect
1
2
3
NULL

-- @query set_all_empty_sides expect_only
SELECT id, v FROM u_e EXCEPT ALL SELECT id, v FROM u_a UNION ALL (SELECT id, v FROM u_a WHERE id < 3 EXCEPT ALL SELECT id, v FROM u_e)
-- @expect
1	1
2	1

-- @query set_all_counted expect_only
SELECT count(*), count(DISTINCT v) FROM (SELECT v, id % 7 AS m FROM u_a EXCEPT ALL SELECT v, id % 7 FROM u_b WHERE id <= 900) q
-- @expect
100	1

-- @query set_all_types_compared expect_only
SELECT count(*) FROM (SELECT CAST(k AS DOUBLE) AS k FROM u_x INTERSECT ALL SELECT k FROM u_y) q
-- @expect
5

-- @query set_all_in_exists expect_only
SELECT id FROM u_a WHERE id < 6 AND EXISTS (SELECT k FROM u_x WHERE k = 1 EXCEPT ALL SELECT k FROM u_y) AND id IN (SELECT k FROM u_y INTERSECT ALL SELECT k FROM u_y)
-- @expect
1
2
3
5

-- @query set_all_ordered ordered expect_only
SELECT k, s FROM u_x INTERSECT ALL SELECT k, s FROM u_y ORDER BY k NULLS FIRST, s NULLS LAST LIMIT 3
-- @expect
NULL	NULL
1	a
2	b

-- @query set_limit_over_union ordered
SELECT k, s FROM u_x UNION SELECT k, s FROM u_y ORDER BY k NULLS LAST, s NULLS LAST LIMIT 3 OFFSET 1
-- @expect
2	b
3	NULL
4	d
